"""Settings of the runs that are audited here: one budget and one seed."""

from typing import Any

from dpcl_core import checks, presets, spec


def asked(
    method: str, *epsilons: float, preset: str | None = None, adjacency: str = "add-remove", delta: float = 1e-5, **more: Any
) -> spec.RunSpec:
    """A preset's settings, or the usual ones, with this method and these budgets."""
    raw = {} if preset is None else presets.raw(preset)
    privacy = {"epsilons": list(epsilons), "delta": delta, "adjacency": adjacency}
    return checks.parse({**raw, "method": method, "seeds": [0], "privacy": privacy, **more})
