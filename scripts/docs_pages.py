"""Documentation pages generated from cards and records, so that they stay true: methods, results, and more.

Run by the documentation's build, and alone with `--readme` to update the README's results.
"""

import json
import math
import sys
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

from dpcl_core import combinations, export, machine, paths, published
from dpcl_core.backbones import catalog as backbones
from dpcl_core.data import catalog as datasets
from dpcl_core.figures.picture import epsilon_label
from dpcl_core.lessons import text as course
from dpcl_core.lessons.text import edges
from dpcl_core.methods import catalog as methods
from dpcl_core.papers import catalog, claims, comparison, other_data, questions, report
from dpcl_core.papers.comparison import Row
from dpcl_core.papers.measured import Measured
from dpcl_core.papers.paper import ALIKE_POINTS, GUESS_POINTS, Paper, Size, State
from dpcl_core.privacy.statement import shown_number
from dpcl_core.spec import fields_of
from scripts import docs_beyond

ROOT = Path(__file__).resolve().parent.parent
COMBINATIONS = "docs/combinations.json"  # trainings of large networks, by `scripts.record_combinations`
GPU = ROOT / "assets" / "reproduction" / "gpu.json"
START, END = "<!-- results: written by scripts/docs_pages.py --readme -->", "<!-- end of results -->"
_GUARANTEES = {
    "proved": "proved: the ledger bounds what a release reveals",
    "nominal": "claimed: the publication's ε, which the ledger does not confirm",
    "none": "none: no noise is added",
}
_STATES: Mapping[State, str] = {
    "found": "found",
    "not found": "the opposite came out",
    "cannot tell": "cannot be told apart",
    "both guess": "not decided: both only guess",
    "two editions": "not decided: two editions of the code",
    "not run": "not run",
}
_LEGEND = f"""Budgets are those asked for. *Accounted* is what a run's ledger adds up to in all, shown wherever that is
another number; ∞ means that nothing bounds what the run releases.

Differences are formed seed by seed; brackets hold their 95 % interval. *Found*, and *the opposite came out*: the interval
decides. *Cannot be told apart*: it does not, or there are too few seeds for one. A claim of no difference is found where the
whole interval lies within {ALIKE_POINTS:g} points.

Two comparisons decide nothing, whatever the interval. *Both only guess*: neither run ends more than {GUESS_POINTS:g} points
above what guessing gives on its test data, so their difference says nothing about the methods. *Two editions of the code*:
one side was recorded by older code, which dealt out rows otherwise, so equal seeds make no pairs.
"""
_SAME_EPSILON = 0.005  # of the budget asked for: an accountant's rounding
_METHODS = "# Methods\n\nMade from the cards of the methods. `dpcl list methods --json` prints the same.\n"
_COMBINATIONS = """# What goes with what

Every dataset with every method, stream and setting of lists, made from the cards and the engine's own checks.
`dpcl list combinations --json` prints them all, for the whole catalogue.

Whatever has features has clients: in any stream a lot drawn for each label says which client holds an example
(`scenario.clients`, `scenario.alpha`), and all that a client holds is protected. Public anchors are sentences for texts,
cut-outs of two photographs for pictures, and numbers drawn within public ranges for tables, embeddings and sensors; a run
says which. Networks of Lifelong DP read features of a frozen network where the data are no values.

One class against the rest is a stream for all of them: each example is learned once, in the task of its own class or among
the rest of another one. Sentences of tagged words go with methods without clients where their words stay together, by source
or in another order: a sentence is protected by the group bound of the few words of it that count.

Methods that release no list of labels are given theirs: read from a task, or learned under DP before the method sees it. The
list has its share of the budget, and the method trains with the rest. Where clients are protected, each names one of its
labels.
"""
_LARGE = """
## Trainings of large networks

Small trainings of what was opened to methods later; average accuracy in percent, one seed. `make combinations` carries out
those that are missing here. They show that it runs and what it takes, not what a budget is worth: ε = 8 needs far more
examples. Without noise each had to beat chance by ten points, which was set beforehand; the blurred stream of clients with
photographs missed that at first (19), and got more examples and dimensions. A language model fine-tuned on one class
against the rest, and sentences that no client holds, missed it at their first settings and are not in the table. Minutes
on one core of a busy machine.
"""
_RATES = """
## The rate of LoRA on texts

`params.learning_rate` has a default that was chosen on pictures. `python -m scripts.tune_adapters` searched one for networks
that read texts, on questions that no record here uses. Mean accuracy in percent over two seeds; the best mean of the two
budgets is bold. To learn from texts with LoRA, set it.
"""
_TRAINED = ("what is new", "method", "data", "network", "stream", "chance", "at ε = 8", "without noise", "minutes")
_DATA = """# Data

Made from the cards of the datasets. A set is in `DPCL_DATA` as `NAME/train.parquet` and `NAME/test.parquet` unless it is
bundled, made here, or fetched from the Hugging Face hub. A subset or a stand-in is never shown under the full set's name.
For data of your own see [the guide](guides/own_data.md).
"""
_NETWORKS = "# Networks\n\nMade from the cards, and from what was recorded when the bundled networks were trained.\n"
_DEVIATIONS = (
    """# Deviations by paper

What each publication prints, setting by setting, and why a run may differ. A run's layer follows from this table: it is
*as printed* where nothing differs but the scale, *made to work* where something does, and *repaired* where a bound is proved
that the print does not have. Of scale are: """
    + published.EXEMPTED
    + """. Whatever of these differs is named beside the layer.
"""
)
_GPU = """# Graphics cards

Networks run on an NVIDIA card where there is one: features, FiLM, LoRA, language models and the methods of Lifelong DP.
Frozen networks compute in bfloat16 on cards that have it, never in float16. What is trained, its optimiser and every loss
stay in single precision. Last layers use it for their large products, which are exact. Cosine classifiers and federated
training run on the processor ([why](decisions.md#graphics-cards)).

FiLM and LoRA train models side by side, replay recorded kernels and keep pictures on the card. That was tried on processors
and on a pretended card only: figures below with a date before 2026-11-29 are from before it.

`python -m scripts.check_gpu` tries every path on a card, times steps of DP-SGD beside Opacus' own loop, and writes the
figures for this page.
"""
_GPU_PARTS = {
    "steps": ("Steps of DP-SGD", "Same network, same batch, in turns; higher is better.", ("ours", "Opacus", "ratio")),
    "features": ("Features", "Higher is better.", ("card", "processor", "ratio")),
    "runs": ("Whole runs", "Small ones, which a card may not speed up; lower is better.", ("card", "processor", "ratio")),
    "precision": ("Precision", "Features on the card beside the processor's.", ("distance", "", "")),
    "neighbours": ("Neighbours", "A text's gradient must have the same bits whoever is beside it.", ("texts", "", "")),
    "sums": (
        "Last layers and class sums",
        "A step's sums of gradients as a training takes them; class sums, which stay on the processor, as one product: an "
        "upper bound on what a card would gain. Lower is better.",
        ("card", "processor", "ratio"),
    ),
}
_OTHER_DATA = """The same runs on public data on which no setting of these methods was chosen. Methods, parameters, budgets
and seeds stay; network and tasks follow from public facts. `dpcl run EXPERIMENT --on own:NAME` does the same on your data.
"""
_GLOSSARY = """# Glossary

The field's words as this project uses them. In the app, the mark beside a figure's title or a setting explains them.
"""
_EDGES = """# Sharp edges

Pitfalls of private continual learning, and how this project avoids each. The app shows them going
wrong, on Lessons under Sharp edges.
"""


def pages() -> dict[str, str]:
    """Every page by its path below `docs/`, as Markdown."""
    return {path: make() for path, make in pages_made().items()}


def pages_made() -> dict[str, Callable[[], str]]:
    """The function that makes each page, by its path below `docs/`."""
    return {
        "methods.md": _methods,
        "data.md": _datasets,
        "networks.md": _networks,
        "combinations.md": _combinations,
        "deviations.md": _deviations,
        "sharp_edges.md": _edges,
        "glossary.md": _glossary,
        "gpu.md": _gpu,
        "results.md": _results_index,
        "beyond.md": docs_beyond.page,
        **{f"results_{paper.name}.md": partial(_results, paper) for paper in catalog.PAPERS.values()},
    }


def readme(text: str) -> str:
    """The README with the current results between its two marks."""
    before, _, rest = text.partition(START)
    _, _, after = rest.partition(END)
    results = "\n".join(f"- {_sentence(paper)}" for paper in catalog.PAPERS.values())
    return f"{before}{START}\n{results}\n{END}{after}"


def _methods() -> str:
    lines = [_METHODS]
    for card in methods.CARDS.values():
        lines += [
            f"## {card.title}",
            "",
            card.summary,
            "",
            f"- name: `{card.name}`",
            f"- source: {card.source}",
            f"- ε: {_GUARANTEES[card.guarantee]}",
            f"- layer: {export.LAYERS[card.printed.kind]}",
            f"- lists of labels: {', '.join(card.labels)}",
            f"- streams: {', '.join(card.scenarios)}",
            "",
        ]
        fields = fields_of(card.params).items()
        rows = [(f"`params.{name}`", field.default, field.metadata["description"]) for name, field in fields]
        lines += _table(("setting", "default", "meaning"), rows)
    return "\n".join(lines)


def _combinations() -> str:
    found = combinations.table(combinations.USUAL)
    reasons = Counter(one.reason for one in found)
    families = {name: card.module.split(".")[2] for name, card in methods.CARDS.items()}
    started = Counter((one.dataset, families[one.method]) for one in found if one.allowed)
    possible = Counter((one.dataset, families[one.method]) for one in found if one.reason not in combinations.REASONS)
    named = list(dict.fromkeys(families.values()))
    rows = [(name, *(f"{started[name, one]:,} of {possible[name, one]:,}" for one in named)) for name in combinations.USUAL]
    whys = [(sentence, f"{reasons[key]:,}") for key, (sentence, _) in combinations.REASONS.items()]
    n_started = f"{reasons['']:,} of {len(found):,} combinations can start. The others, by their first reason:"
    lines = [_COMBINATIONS, n_started, ""]
    lines += _table(("reason", "combinations"), [*whys, (combinations.UNWRITTEN, f"{reasons[combinations.UNWRITTEN]:,}")])
    lines += ["Of those that no such reason rules out, by data and family of methods:", ""]
    rates = _table(("network", "rate", "at ε = 8", "without noise"), _rates())
    return "\n".join([*lines, *_table(("data", *named), rows), _LARGE, *_table(_TRAINED, _trainings()), _RATES, *rates])


def _rates() -> list[tuple[str, ...]]:
    """The rates of LoRA that were tried, with their mean accuracies."""
    found = json.loads((paths.assets_dir() / "tuning" / "adapters.json").read_text(encoding="utf-8"))
    return [
        (f"`{network}`", f"**{rate:g}**" if rate == of["best"] else f"{rate:g}",
         *(f"{100 * fmean(one[epsilon]):.0f}" for epsilon in ("8.0", "inf")))
        for network, of in found.items() for one in of["tried"] for rate in [one["learning_rate"]]
    ]  # fmt: skip


def _trainings() -> list[tuple[str, ...]]:
    """The recorded trainings of large networks, as rows of `_TRAINED`."""
    record = json.loads((ROOT / COMBINATIONS).read_text(encoding="utf-8"))

    def row(name: str, one: Mapping[str, Any]) -> tuple[str, ...]:
        scores = one["scores"]
        shown = (f"{100 * score:.0f}" for score in (one["chance"], scores["8.0"], scores["inf"]))
        return name, *(f"`{one[key]}`" for key in ("method", "dataset", "network", "stream")), *shown, f"{one['minutes']:g}"

    return [row(name, one) for name, one in record.items()]


def _datasets() -> str:
    cards = datasets.CARDS.values()
    rows = [(f"`{card.name}`", f"{card.title}: {card.summary}", card.kind, card.source) for card in cards]
    return "\n".join([_DATA, *_table(("name", "what it is", "kind", "source"), rows)])


def _networks() -> str:
    lines = [_NETWORKS]
    for card in backbones.CARDS.values():
        lines += [f"## {card.title}", "", card.summary, "", f"- name: `{card.name}`", f"- source: {card.source}"]
        lines += [f"- trained on: {card.seen}", f"- reads: {', '.join(card.reads)}"]
        path = paths.assets_dir() / "backbones" / f"{card.name}.json"
        if path.exists():
            trained = json.loads(path.read_text(encoding="utf-8"))
            probes = ", ".join(f"{name} {100 * value:.1f} %" for name, value in trained["linear_probe_accuracy"].items())
            lines += [
                f"- weights: {trained['n_parameters']:,}",
                f"- accuracy on its own test part: {100 * trained['test_accuracy']:.1f} %",
                f"- linear probes of its frozen features: {probes}",
            ]
        lines.append("")
    return "\n".join(lines)


def _deviations() -> str:
    lines = [_DEVIATIONS]
    for card in methods.CARDS.values():
        of = card.printed
        if of.kind == "added":
            continue
        lines += [f"## {card.title}", "", f"`{card.name}`, {of.source}", ""]
        lines += [f"- {one.sentence}" for one in of.always]
        unsaid = "depends on other settings"
        rows = [(f"`{name}`", of.of_setting(name) or unsaid, one.why) for name, one in of.settings.items()]
        lines += ["", *_table(("setting", "printed", "why it may differ"), rows)]
    return "\n".join(lines)


def _edges() -> str:
    lines = [_EDGES]
    for edge in edges():
        lines += [f"## {edge.title}", "", _flat(edge.wrong), "", f"**Prevented.** {_flat(edge.prevented)}", ""]
    return "\n".join(lines)


def _glossary() -> str:
    return "\n".join([_GLOSSARY, *(f"**{word.word}**: {word.meaning}\n" for word in course.words())])


def _gpu() -> str:
    if not GPU.exists():
        return f"{_GPU}\nNobody has run this on a graphics card yet, so there are no figures.\n"
    record = json.loads(GPU.read_text(encoding="utf-8"))
    about = ", ".join(f"{name} {value}" for name, value in record["machine"].items())
    code = machine.commit_words(record["commit"])
    lines = [_GPU, f"Measured on {record['date']}, commit {code}, in {record['seconds']} s: {about}.", ""]
    for part, (title, meaning, heads) in _GPU_PARTS.items():
        rows = [row for row in record["rows"] if row["part"] == part]
        lines += [f"## {title}", "", meaning, ""] if rows else []
        lines += _table(("what", "unit", *heads), [(row["what"], row["unit"], *_gpu_figures(row)) for row in rows])
    return "\n".join(lines)


def _gpu_figures(row: Mapping[str, object]) -> tuple[str, str, str]:
    """The row's two numbers and the first over the second; its error where it has one."""
    ours, other = row["ours"], row["other"]
    if not isinstance(ours, float | int):
        return f"failed: {row['error']}", "", ""
    if not isinstance(other, float | int):
        return f"{ours:g}", "", ""
    return f"{ours:g}", f"{other:g}", f"{ours / other:.2g}" if other else ""


def _results_index() -> str:
    lines = ["# Results", "", "What came out of the papers' experiments here, from the last records of each.", ""]
    for paper in catalog.PAPERS.values():
        lines.append(f"- [{paper.title}](results_{paper.name}.md): {_sentence(paper)}")
    return "\n".join(lines) + "\n"


def _results(paper: Paper) -> str:
    lines = [f"# {paper.title}", "", f"{paper.source}. Accuracies in %, mean ± standard deviation over seeds.", "", _LEGEND]
    lines += ["## Its claims", "", claims.sentence(claims.of_paper(paper)), ""]
    lines += _table(("claim", "at", "verdict"), [_claim(one) for one in claims.of_paper(paper)])
    lines += _elsewhere(paper)
    for experiment in paper.experiments:
        for size in experiment.sizes:
            form = claims.form(paper, experiment, size)
            specs, runs = form.specs, form.runs
            if not runs:
                continue
            lines += [f"## {experiment.title}, {_FORMS[size]}", "", experiment.question, ""]
            every = comparison.comparison_rows(paper, experiment, runs)
            rows = [_row(row) for row in every if row.ours is not None and row.metric == experiment.metrics[0]]
            lines += _table(("", "budget", "published", "ours"), rows)
            for judged in form.judged:
                what = f"{judged.ordering.statement}, {report.budgets_of(judged.ordering)}"
                lines.append(f"- {what}: **{_STATES[judged.state]}** ({report.range_text(judged)})")
            dates = sorted({run.date for run in runs.values()})
            data = sorted({run.dataset_title for run in runs.values()})
            when = " to ".join(dict.fromkeys((dates[0], dates[-1])))
            lines += ["", f"Recorded {when} on {'; '.join(data)}. {made_with(runs.values())}", ""]
            before = sorted({change for run in runs.values() for change in run.made_before})
            lines += [f"*{change}*" for change in before]
            lines += [sentence] if (sentence := questions.no_ceiling(next(iter(specs.values())))) else []
            lines += ["", *(f"- {reason}" for reason in comparison.reasons(form)), ""]
    return "\n".join(lines)


def _elsewhere(paper: Paper) -> list[str]:
    """The claims on other data, beside what the paper's data say."""
    lines = ["## Other data, same claims", "", _OTHER_DATA]
    for _, form in other_data.recorded(paper):
        title, made = other_data.data_title(form), made_with(form.runs.values())
        lines += [f"### {form.experiment.title}, on {title}", "", other_data.sentence(form), ""]
        lines += [f"{other_data.changes(form)} {made}", "", *_table(other_data.HEAD, other_data.lines(form))]
    return lines


def _claim(claim: claims.Claim) -> tuple[str, str, str]:
    """A claim, its budgets, and its verdict; of an undecided one what our runs exclude."""
    return claim.ordering.statement, report.budgets_of(claim.ordering), claims.verdict_text(claim)


def made_with(runs: Collection[Measured]) -> str:
    """The networks of recorded runs, the machines and commits that the records name, and how many name no commit."""
    named = {
        "Network": [run.spec.data.backbone for run in runs],
        "Machine": [run.machine for run in runs if run.machine],
        "Commit": [machine.commit_words(run.commit) for run in runs if run.commit],
    }
    n_unnamed = sum(not run.commit for run in runs)
    older = f" Older records, which name no commit: {n_unnamed} of {len(runs)} runs." if n_unnamed else ""
    return " ".join(f"{what}: {'; '.join(dict.fromkeys(values))}." for what, values in named.items() if values) + older


_FORMS: Mapping[Size, str] = {"small": "small form", "bundled": "larger form", "full": "the paper's protocol"}


def _row(row: Row) -> tuple[str, str, str, str]:
    budget, spent = epsilon_label(row.epsilon, "claimed" if row.is_nominal else "bound"), row.accounted_epsilon
    if spent is not None and not math.isclose(spent, row.epsilon, rel_tol=_SAME_EPSILON):
        budget += f", accounted {shown_number(spent)}"
    return row.name, budget, report.printed_text(row), report.ours_text(row)


def _sentence(paper: Paper) -> str:
    """The count of its claims by verdict."""
    return f"**{paper.title}.** {claims.sentence(claims.of_paper(paper))}"


def _table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> list[str]:
    """A table in Markdown and an empty line; nothing without rows."""
    if not rows:
        return []
    lines = [f"| {' | '.join(map(_cell, row))} |" for row in [head, ["---"] * len(head), *rows]]
    return [*lines, ""]


def _cell(value: object) -> str:
    return _flat(str(value if value is not None else "–")).replace("|", "\\|")


def _flat(text: str) -> str:
    return " ".join(text.split())


def main() -> int:
    """Updates the results in the README."""
    path = ROOT / "README.md"
    if sys.argv[1:] != ["--readme"]:
        print("usage: python -m scripts.docs_pages --readme", file=sys.stderr)
        return 2
    path.write_text(readme(path.read_text(encoding="utf-8")), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
