"""Measured runs made up by rule, so that every difference can be worked out by hand."""

from collections.abc import Callable, Sequence

from dpcl_core.papers.measured import Measured, Model
from dpcl_core.spec import RunSpec
from tests.support import replay

Rule = Callable[[float, int], float]


def run(
    accuracy: Rule, *, spec: RunSpec | None = None, epsilons: Sequence[float] = (1.0, 8.0),
    seeds: Sequence[int] = (0, 1, 2, 3), by_rule: Rule | None = None,
) -> Measured:  # fmt: skip
    """A run whose accuracy follows `accuracy` (epsilon, seed), and that forgets a tenth of what it reaches."""
    models = tuple(
        Model(
            epsilon, seed, epsilon, {"AA": accuracy(epsilon, seed), "AF": accuracy(epsilon, seed) / 10},
            {"argmax": accuracy(epsilon, seed), "median": by_rule(epsilon, seed)} if by_rule is not None else {},
        )
        for epsilon in epsilons for seed in seeds
    )  # fmt: skip
    chosen = spec if spec is not None else replay.a_spec(epsilons=epsilons, seeds=seeds)
    return Measured(chosen, "Digits", "2026-11-21", 3.0, "cpu", None, models)
