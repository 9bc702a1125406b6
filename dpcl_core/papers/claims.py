"""What our runs say of a paper's claims: a claim is one sentence of a paper at one budget, whatever forms test it.

An experiment has a small, a larger and a full form, and two experiments may print the same table. Each form judges the
claim alone (`paper.judge`); the verdict here joins them, so that a claim counts once.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal, NamedTuple, get_args

from dpcl_core import presets, published
from dpcl_core.figures.statistics import p_value
from dpcl_core.methods import catalog as methods
from dpcl_core.metrics import grouped
from dpcl_core.papers import questions
from dpcl_core.papers.measured import Measured
from dpcl_core.papers.paper import ALIKE_POINTS, JUDGED, Experiment, Judged, Ordering, Paper, Size, State, judge
from dpcl_core.spec import RunSpec

Verdict = Literal["found", "contradicted", "mixed", "undecided", "not run"]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
FALSE_DISCOVERIES = 0.05  # the expected share of false ones among the findings of a paper (Benjamini and Hochberg 1995)
LayerOfClaim = published.LayerName | Literal["between layers"]
MEANING: Mapping[LayerOfClaim, str] = {
    "as printed": f"The settings that the paper prints, not counting {published.EXEMPTED}.",
    "made to work": "The paper's method with settings changed where the printed ones fail; every change is listed.",
    "repaired": "A version whose privacy bound is proved, where the printed one is not.",
    "added": "Methods of ours, for comparison.",
    "between layers": "Claims that compare runs of two layers.",
}


@dataclass(frozen=True, slots=True)
class Form:
    """An experiment at one size: its runs by label, those with results, and the verdict on each of its orderings.

    Orderings are judged whose two sides are among the runs. `is_toy`: its network only guesses whatever the method
    (`Paper.toys`), so that it says nothing of a claim.
    """

    paper: Paper
    experiment: Experiment
    size: Size
    specs: Mapping[str, RunSpec]
    runs: Mapping[str, Measured]
    judged: Sequence[Judged]
    is_toy: bool


@dataclass(frozen=True, slots=True)
class Claim:
    """A sentence of a paper at one budget or pair of budgets, and the verdict of every form that tests it."""

    ordering: Ordering
    tests: tuple[tuple[Form, Judged], ...]

    @property
    def verdict(self) -> Verdict:
        """What all its tests say together (`joined`)."""
        return joined(judged.state for _, judged in self.tests)

    @property
    def p_value(self) -> float | None:
        """Of the forms that decide, the smallest times the number of forms judged; 1 if undecided, None if not judged.

        The product is Bonferroni's correction for the several forms.
        """
        judged = [one for _, one in self.tests if one.state in JUDGED]
        if not judged:
            return None
        known = [_p_value(one) for one in judged if one.state != "cannot tell"]
        return min(1.0, len(judged) * min(known)) if known and self.verdict != "mixed" else 1.0

    @property
    def excluded(self) -> float | None:
        """For an undecided claim: points that the difference does not reach either way."""
        return excluded(judged for _, judged in self.tests) if self.verdict == "undecided" else None


def joined(states: Iterable[State]) -> Verdict:
    """Found or contradicted: some tests say so, and none the opposite. Mixed: both. Undecided: tested, and neither."""
    of = set(states)
    if {"found", "not found"} <= of:
        return "mixed"
    if "found" in of:
        return "found"
    return "contradicted" if "not found" in of else "undecided" if of - {"not run"} else "not run"


def excluded(judged: Iterable[Judged]) -> float | None:
    """What the difference of undecided tests does not reach either way: the end of the narrowest 95 % interval."""
    spans = [one.difference for one in judged if one.state == "cannot tell" and one.difference is not None]
    return min((max(-one.low, one.high) for one in spans if one.low is not None and one.high is not None), default=None)


def bound_text(points: float) -> str:
    """A difference that is excluded, rounded up to one decimal."""
    return f"{max(1, math.ceil(10 * points - 1e-9)) / 10:g}"


def verdict_text(claim: Claim) -> str:
    """A claim's verdict; of an undecided one what difference our runs exclude."""
    without = claim.excluded
    return claim.verdict if without is None else f"{claim.verdict}: less than {bound_text(without)} points either way"


def form(
    paper: Paper, experiment: Experiment, size: Size, runs: Mapping[str, Measured] | None = None,
    specs: Mapping[str, RunSpec] | None = None, chances: Mapping[str, float] | None = None,
) -> Form:  # fmt: skip
    """An experiment at one size with its verdicts, from its finished `runs` by label (None: as recorded).

    `specs`: all of its runs (None: the preset's); `chances`: what guessing gives (None: as recorded for the preset).
    """
    preset = experiment.preset(size)
    specs = presets.variants(preset) if specs is None else specs
    runs = questions.recorded(specs) if runs is None else runs
    chances = questions.recorded_chances(preset, specs) if chances is None else chances
    compared = (one for one in experiment.orderings if {one.first.run, one.second.run} <= specs.keys())
    judged = [judge(ordering, runs, chances) for ordering in compared]
    return Form(paper, experiment, size, specs, runs, judged, any(one.data.backbone in paper.toys for one in specs.values()))


@cache
def recorded_forms(paper: Paper) -> tuple[Form, ...]:
    """Every form of a paper's experiments, judged from the records."""
    return tuple(form(paper, experiment, size) for experiment in paper.experiments for size in experiment.sizes)


def claims(forms: Iterable[Form], *, are_ours: bool = False) -> tuple[Claim, ...]:
    """The paper's claims in these forms (or comparisons of ours), each once, in their order; toys decide nothing."""
    found: dict[tuple[object, ...], list[tuple[Form, Judged]]] = {}
    for of in forms:
        for one in of.judged:
            if one.ordering.is_ours == are_ours:
                sides = one.ordering.first.epsilon, one.ordering.second.epsilon
                tests = found.setdefault((of.experiment.claimed_in, one.ordering.statement, *sides), [])
                tests.append((of, Judged(one.ordering, "not run", None) if of.is_toy else one))
    return tuple(Claim(tests[0][1].ordering, tuple(tests)) for tests in found.values())


def of_paper(paper: Paper) -> tuple[Claim, ...]:
    """All claims of a paper, with the verdicts of our records."""
    return claims(recorded_forms(paper))


def counts(of: Sequence[Claim]) -> dict[Verdict, int]:
    """How many claims have each verdict."""
    found = Counter(claim.verdict for claim in of)
    return {verdict: found[verdict] for verdict in VERDICTS}


def discoveries(of: Sequence[Claim]) -> dict[Verdict, int]:
    """Of the claims found and contradicted, how many are left with false discoveries held at 5 % of them.

    Benjamini and Hochberg's step-up over all judged claims: with m of them, the k smallest p values count for the largest k
    with p_(k) <= 0.05 k / m.
    """
    known = sorted(((p, one.verdict) for one in of if (p := one.p_value) is not None), key=lambda pair: pair[0])
    n = max((k for k, (p, _) in enumerate(known, start=1) if p <= FALSE_DISCOVERIES * k / len(known)), default=0)
    kept = Counter(verdict for _, verdict in known[:n])
    return {"found": kept["found"], "contradicted": kept["contradicted"]}


def sentence(of: Sequence[Claim]) -> str:
    """The count of verdicts; with several claims decided, also with false discoveries held at 5 %."""
    if not of:
        return ""
    n, whose = counts(of), "Our" if of[0].ordering.is_ours else "The paper's"
    if len(of) == 1:
        return f"{whose} one claim here: {of[0].verdict}."
    said = ", ".join(f"{n[verdict]} {verdict}" for verdict in VERDICTS)
    kept = discoveries(of)
    more = f" With false discoveries held at 5 %: {kept['found']} found, {kept['contradicted']} contradicted."
    what = "comparisons of our own" if whose == "Our" else "claims"
    return f"Of {len(of)} {what}: {said}.{more if n['found'] + n['contradicted'] > 1 else ''}"


def _p_value(one: Judged) -> float:
    """Of a decided ordering; a claim of no difference is found where both differences of `ALIKE_POINTS` are excluded."""
    assert one.difference is not None
    if one.ordering.kind == "alike" and one.state == "found":
        return max(p_value(one.difference, against=side) for side in (-ALIKE_POINTS, ALIKE_POINTS))
    return p_value(one.difference)


class LayerCount(NamedTuple):
    """A layer's runs, and the claims between two runs of it. `n_here`: runs with results; `n_claims`: decided claims.

    "between layers" has the other claims, and no runs of its own.
    """

    layer: LayerOfClaim
    n_here: int
    n_runs: int
    n_found: int
    n_claims: int


def by_layer(forms: Sequence[Form]) -> list[LayerCount]:
    """One count per layer that the forms' runs have, in the order of `MEANING`.

    Every claim found or contradicted counts once: for the layer of all runs that decide it, else between layers.
    """
    layers = ((methods.layer(spec), label in of.runs) for of in forms for label, spec in of.specs.items())
    runs = grouped((layer.name, is_here) for layer, is_here in layers if layer is not None)
    decided: dict[LayerOfClaim, list[Verdict]] = {}
    for claim in claims(forms):
        if claim.verdict in ("found", "contradicted"):
            deciding = ((of, one.ordering) for of, one in claim.tests if one.state in ("found", "not found"))
            specs = (of.specs[side.run] for of, ordering in deciding for side in (ordering.first, ordering.second))
            names = {None if (layer := methods.layer(spec)) is None else layer.name for spec in specs}
            place: LayerOfClaim = (names.pop() if len(names) == 1 else None) or "between layers"
            decided.setdefault(place, []).append(claim.verdict)
    return [
        LayerCount(name, sum(here), len(here), verdicts.count("found"), len(verdicts))
        for name in MEANING
        if (here := runs.get(name, []) if name != "between layers" else []) or name in decided
        for verdicts in [decided.get(name, [])]
    ]
