"""How many of a paper's claims come out in our runs: in one sentence, and layer by layer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dpcl_core.layers import LayerName
from dpcl_core.methods import catalog as methods
from dpcl_core.papers.orderings import Judged, State
from dpcl_core.spec import RunSpec

MEANING: Mapping[LayerName, str] = {
    "as printed": "The settings that the paper prints.",
    "made to work": "The paper's method with settings changed where the printed ones fail; every change is listed.",
    "repaired": "A version whose privacy bound is proved, where the printed one is not.",
    "added": "Methods of ours, for comparison.",
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
    """A layer's runs, and the claims between two runs of it. `n_here`: runs with results; `n_claims`: decided claims."""

    layer: LayerName
    n_here: int
    n_runs: int
    n_found: int
    n_claims: int


def lead(judged: Sequence[Judged]) -> str:
    """How many claims come out, how many do not and how many are open, in one or two sentences; "" without any claim.

    Comparisons that the paper does not draw are left out.
    """
    judged = [verdict for verdict in judged if not verdict.ordering.is_ours]
    if not judged:
        return ""
    counts, n = Counter(verdict.state for verdict in judged), len(judged)
    if n == 1:
        (state,) = counts
        return f"The paper's claim {_verb(1, state)}{' in our runs' if state in ('found', 'not found') else ''}."
    if counts["not run"] == n:
        return f"None of the paper's {n} claims has been tested here yet."
    first = f"{counts['found']} of the paper's {n} claims {_verb(counts['found'], 'found')} in our runs."
    rest = [f"{counts[state]} {_verb(counts[state], state)}" for state in _OUTCOMES if state != "found" and counts[state]]
    return f"{first} {'; '.join(rest)}." if rest else first


def _verb(count: int, state: State) -> str:
    return _OUTCOMES[state][count != 1]


def by_layer(specs: Mapping[str, RunSpec], here: Mapping[str, object], judged: Sequence[Judged]) -> list[LayerCount]:
    """One count per layer that the experiment's runs have, in the order of the three layers.

    `specs`: its runs by label; `here`: those with results. A claim counts for a layer where both of its runs are in it.
    """
    layers = {label: layer.name for label, spec in specs.items() if (layer := methods.layer(spec)) is not None}
    counts = []
    for name in MEANING:
        labels = {label for label, layer in layers.items() if layer == name}
        own = [one for one in judged if not one.ordering.is_ours]
        inside = [one for one in own if {one.ordering.first.run, one.ordering.second.run} <= labels]
        decided = [one for one in inside if one.state in ("found", "not found")]
        if labels:
            n_found = sum(one.state == "found" for one in decided)
            counts.append(LayerCount(name, len(labels & here.keys()), len(labels), n_found, len(decided)))
    return counts
