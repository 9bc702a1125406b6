"""How many of a paper's claims come out in our runs: in one sentence, and layer by layer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from dpcl_core import layers
from dpcl_core.figures.picture import capital
from dpcl_core.layers import LayerName
from dpcl_core.methods import catalog as methods
from dpcl_core.papers.orderings import Judged, State
from dpcl_core.spec import RunSpec

LayerOfClaim = LayerName | Literal["between layers"]
MEANING: Mapping[LayerOfClaim, str] = {
    "as printed": f"The settings that the paper prints, not counting {layers.EXEMPTED}.",
    "made to work": "The paper's method with settings changed where the printed ones fail; every change is listed.",
    "repaired": "A version whose privacy bound is proved, where the printed one is not.",
    "added": "Methods of ours, for comparison.",
    "between layers": "Claims that compare runs of two layers.",
}
_OUTCOMES: Mapping[State, tuple[str, str]] = {  # of one claim, of several
    "found": ("comes out", "come out"),
    "not found": ("comes out the other way", "come out the other way"),
    "cannot tell": ("cannot be decided with these seeds",) * 2,
    "both guess": ("compares two runs that only guess", "compare two runs that only guess"),
    "two editions": ("compares records of two editions of the code", "compare records of two editions of the code"),
    "not run": ("has not been tested here yet", "have not been tested here yet"),
}


@dataclass(frozen=True, slots=True)
class LayerCount:
    """A layer's runs, and the claims between two runs of it. `n_here`: runs with results; `n_claims`: decided claims.

    "between layers" has the other claims, and no runs of its own.
    """

    layer: LayerOfClaim
    n_here: int
    n_runs: int
    n_found: int
    n_claims: int


def of_the_paper(judged: Sequence[Judged]) -> list[Judged]:
    """The verdicts on claims that the paper makes, and on no comparison of our own; an experiment of ours has none."""
    return [verdict for verdict in judged if not verdict.ordering.is_ours]


def lead(judged: Sequence[Judged]) -> str:
    """How many claims come out, how many do not and how many are open, in one or two sentences; "" without any claim.

    Beside the paper's claims, comparisons of our own are left out; where all are our own, it says so.
    """
    printed = of_the_paper(judged)
    whose, judged = ("the paper's", printed) if printed else ("our own", judged)
    if not judged:
        return ""
    counts, n = Counter(verdict.state for verdict in judged), len(judged)
    if n == 1:
        (state,) = counts
        return f"{capital(whose)} claim {_verb(1, state)}{' in our runs' if state in ('found', 'not found') else ''}."
    if counts["not run"] == n:
        return f"None of {whose} {n} claims has been tested here yet."
    first = f"{counts['found']} of {whose} {n} claims {_verb(counts['found'], 'found')} in our runs."
    rest = [f"{counts[state]} {_verb(counts[state], state)}" for state in _OUTCOMES if state != "found" and counts[state]]
    return f"{first} {'; '.join(rest)}." if rest else first


def _verb(count: int, state: State) -> str:
    return _OUTCOMES[state][count != 1]


def by_layer(specs: Mapping[str, RunSpec], here: Mapping[str, object], judged: Sequence[Judged]) -> list[LayerCount]:
    """One count per layer that the experiment's runs have, in the order of `MEANING`.

    `specs`: its runs by label; `here`: those with results. Every claim of the paper counts once: for the layer of both of
    its runs, else between layers, so that the counts add up to what a headline says of the same verdicts.
    """
    layers = {label: layer.name for label, spec in specs.items() if (layer := methods.layer(spec)) is not None}
    decided: dict[LayerOfClaim, list[Judged]] = {}
    for one in of_the_paper(judged):
        if one.state in ("found", "not found"):
            first, second = (layers.get(side.run) for side in (one.ordering.first, one.ordering.second))
            inside = first if first is not None and first == second else "between layers"
            decided.setdefault(inside, []).append(one)
    counts = []
    for name in MEANING:
        labels = {label for label, layer in layers.items() if layer == name}
        claims = decided.get(name, [])
        if labels or claims:
            n_found = sum(one.state == "found" for one in claims)
            counts.append(LayerCount(name, len(labels & here.keys()), len(labels), n_found, len(claims)))
    return counts
