"""The documentation's page on noise over tasks beyond the papers: its tables come from records and from the mechanism."""

from collections.abc import Mapping, Sequence

import numpy as np

from dpcl_core import presets
from dpcl_core.figures.picture import epsilon_label, minus
from dpcl_core.figures.statistics import interval
from dpcl_core.lessons import edges, text
from dpcl_core.papers import questions
from dpcl_core.papers.measured import Measured
from dpcl_core.privacy import continual, gaussian
from dpcl_core.privacy.statement import shown_number

PRESETS = ("noise-over-tasks", "beyond-cifar100", "beyond-blurry", "beyond-ag-news")
_FIRST = "added-up"  # what the other ways are compared with
_HEAD = """# Beyond the papers: must noise pile up?

The cosine classifier releases noisy sums of every class after every task. As printed, it draws fresh noise for each
release and adds it all up: after T tasks a class's sum carries √T times the noise of one. That is no law of nature.
Two settings get some of it back at the same ε: `prediction = by-stream` and `noise_over_tasks = remembered`.

## The two ways

**Shrinking.** Where a class lives in one task, its other releases under one public list are noise alone. Each release
is shrunk towards zero, as far as noise would explain its length, before it is added. The rule reads releases and
public numbers. It is post-processing: it spends no ε and keeps nothing secret.

**Remembering.** Where classes come back, all tasks become one mechanism, whose noises cancel in part in the running
sums. It spends the same ε against someone who sees every release. Its price: the number of tasks is fixed beforehand,
the running program holds exact sums, and old members are hidden less from latecomers. It pays where a person is in
few tasks.
"""
_NOISE = """## Noise in the last sum

In standard deviations of the noise that one task would need, at equal privacy. *One task*, *two*, *five*: in how many
of the tasks one person may be.
"""
_LATE = """## Latecomers

Twenty tasks at ε = 1 in all, a person in the fifth: the ε that the best attack can prove from the running sums
released from her task on, or from so many tasks later on. Someone who saw everything can prove ε = 1 with both.
"""
_FORGETTING = """## Streams that forget

Twenty tasks at ε = 1 in all; each task leaves a share g of the sums before it. The ε that a newcomer, who sees the running
sums from ten tasks later on, can prove of a person of the fifth. Accuracy on old classes falls with g, too: the exact
drag of the app shows both, and the total, beside each other. The total stays 1 for whoever saw everything.
"""
_OWN = """## What it cost one person, and what is left for later tasks

The promise is for the longest row. A person's own μ is the length of her rows' part of all releases over the noise: with
rows of length 1 it depends on her task alone, and the page Privacy shows it. Clients of *Noisy class means* send vectors
of any length; `dpcl runs RUN_ID --person 1` tells a client's own ε on the terminal of who holds the data. On own data
that number is not protected and must never be published; it is in no file, page, card, log or link.

Where nobody knows how many tasks will come, and the same people are in all, a budget can be spent equally over as many as
were planned (later ones starve), falling as 1/n² (the first get most), or by doubling (half over the planned tasks, half
of the rest over twice as many, and so on). A filter refuses the release that would exceed the whole. With people in
one task each, every task has all of it. The page Privacy draws who starves.
"""
_RECORDS = """## Records

Mean accuracy after the last task in percent, over ten seeds fixed beforehand. Below the first row: the difference to
fresh noise that was added up, in points, paired by seed, with its 95 % interval.
"""
_CLOSE = """## What is known, what is ours, what is open

Known:

- Adding correlated noise to running sums by factoring their matrix: the matrix mechanism (Li et al. 2010); for
  streams that react to releases, Denisov, McMahan, Rush, Smith and Thakurta (2022).
- The square root of the matrix as factor: Fichtenberger, Henzinger and Upadhyay (2023). Before it, trees of partial
  sums: Dwork, Naor, Pitassi and Rothblum (2010); Chan, Shi and Song (2011).
- The estimator that shrinks: James and Stein (1961).
- Noise correlated over the *steps* of a training (DP-FTRL: Kairouz et al. 2021; banded factors: Choquette-Choo et al.
  2023) is another thing. Here nothing is trained: noise is correlated over tasks.
- That Gaussian releases compose by their μ², person by person, and that a filter may stop them: Feldman and Zrnic
  (2021); Smith and Thakurta (2022); Koskela, Tobaben and Honkela (2023).
- That two models without noise show whom the second one forgot: Chen et al. (2021).

Ours, as far as we know: both applied to class sums that are released after every task; that one public list then
costs little where each class lives in one task; exact integer sums under a factor rounded to a grid; the audit by all
releases beside the audit by the last one; the price for latecomers, drawn beside the gain; and audits in one training
that score every task's release of networks which go on.

Open: remembered noise for streams whose number of tasks nobody can bound beforehand; how much a program can forget of
its sums and still remember its noise; a person's own ε where a network is trained, step by step; and an attack on one
training that reads what a language model replays.

Nothing helps, or there is nothing to take back:

- with a public list per task, where each class has noise once;
- for ensembles, whose members are trained apart, so there are no sums over tasks to correlate;
- with shrinking, where classes come back, since no release is noise alone;
- with remembering, for people who are in many of the tasks: see the table of noise.
"""


def page() -> str:
    """The page as Markdown."""
    parts = [_HEAD, _NOISE, _noise(), _LATE, _latecomers(), _FORGETTING, _forgetting(), _OWN, _RECORDS]
    return "\n".join([*parts, *(_records(name) for name in PRESETS), _CLOSE])


def _noise() -> str:
    people = {1: "one task", 2: "two", 5: "five"}
    rows = []
    for k, name in people.items():
        by_way: dict[str, dict[int, float]] = {}
        for n in (5, 10, 50, 100):
            for way, tasks, value in continual.noise_by_tasks(n, k):
                by_way.setdefault(way, {})[tasks] = value
        rows += [[name, way, *(f"{values[n]:.2f}" for n in (5, 10, 50, 100))] for way, values in by_way.items()]
    return _table(["people of", "noise", "5 tasks", "10", "50", "100"], rows)


def _latecomers() -> str:
    (edge,) = (one for one in text.edges() if one.key == "latecomers")
    rows, _ = edges.demonstration(edge)
    return _table(list(edge.head), [list(row) for row in rows])


def _forgetting() -> str:
    decays, sigma = (1.0, 0.9, 0.8, 0.7), gaussian.sigma(1.0, edges.DELTA)
    makes = {"fresh": continual.fresh, "remembered": continual.square_root}
    rows = []
    for name, of in makes.items():
        powers = [continual.latecomer(of(20, g), sigma, 4, 14) for g in decays]
        rows.append([name, *(shown_number(gaussian.epsilon(1 / power, edges.DELTA)) for power in powers)])
    return _table(["noise", *(f"g = {g:g}" for g in decays)], rows)


def _records(name: str) -> str:
    about, specs = presets.about(name), presets.variants(name)
    found = questions.recorded(specs)
    title = f"### {about.title}\n\n{about.question} Preset `{name}`.\n"
    if _FIRST not in found:
        return f"{title}\nNot recorded yet: `dpcl run --preset {name} --all`.\n"
    epsilons = next(iter(specs.values())).privacy.epsilons
    rows = []
    for label, run in found.items():
        means = [f"{np.mean(list(_finals(run, epsilon).values())):.1f}" for epsilon in epsilons]
        rows.append([questions.run_name(label), *means])
        first = found[f"{_FIRST}{label[len(_way(label)) :]}"]
        if first is not run:
            rows.append(["", *(_difference(_finals(run, epsilon), _finals(first, epsilon)) for epsilon in epsilons)])
    return title + "\n" + _table(["run", *map(epsilon_label, epsilons)], rows)


def _way(label: str) -> str:
    """A label without its stream: "remembered" of "remembered-returning"."""
    return next(way for way in (_FIRST, "shrunk", "remembered", "both", "list-per-task") if label.startswith(way))


def _finals(run: Measured, epsilon: float) -> Mapping[int, float]:
    """Accuracy after the last task in percent, by seed."""
    return {model.seed: 100 * value for model in run.models if model.epsilon == epsilon and (value := model.metrics["AA"])}


def _difference(mine: Mapping[int, float], first: Mapping[int, float]) -> str:
    found = interval([mine[seed] - first[seed] for seed in sorted(mine.keys() & first.keys())])
    ends = "" if found.low is None or found.high is None else f" [{found.low:+.1f}, {found.high:+.1f}]"
    return minus(f"{found.mean:+.1f}{ends}")


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return "".join(f"| {' | '.join(row)} |\n" for row in [head, ["---"] * len(head), *rows])
