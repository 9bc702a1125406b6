"""p values of claimed orderings: the bound that the paper prints, and that of our runs.

They are descriptive (`figures.t_tests.CAVEAT`). Lai et al. test two curves of average accuracy after each task against each
other, with one point a task.
"""

from __future__ import annotations

from collections.abc import Mapping
from statistics import fmean

from dpcl_core import published
from dpcl_core.figures.t_tests import PValue, p_values
from dpcl_core.papers.measured import Measured
from dpcl_core.papers.orderings import Ordering, Side
from dpcl_core.papers.paper import Experiment, Paper
from dpcl_core.published import Published

_METRIC = "p_value_upper_bound"


def printed(paper: Paper, experiment: Experiment, ordering: Ordering) -> Published | None:
    """The printed bound on the p value of this comparison; None where the paper prints none."""
    rows = (row for row in published.read(paper.name) if row.metric == _METRIC and experiment.prints(row))
    return next((row for row in rows if (row.method, row.variant) == ordering.test), None)


def ours(ordering: Ordering, runs: Mapping[str, Measured]) -> PValue | None:
    """The paired t-test of our two curves over all tasks, each the mean over seeds.

    None where the paper tests nothing, or where a side has not run or its record has no curves.
    """
    curves = [_mean_curve(side, ordering.metric, runs) for side in (ordering.first, ordering.second)]
    first, second = curves
    if ordering.test is None or first is None or second is None or len(first) != len(second) or len(first) < 2:
        return None
    return p_values(first, second)[-1]


def _mean_curve(side: Side, metric: str, runs: Mapping[str, Measured]) -> list[float | None] | None:
    run = runs.get(side.run)
    curves = [] if run is None else [model.curves.get(metric) for model in run.models if model.epsilon == side.epsilon]
    known = [curve for curve in curves if curve]
    if not known:
        return None
    points = ([value for value in values if value is not None] for values in zip(*known, strict=True))
    return [fmean(values) if values else None for values in points]
