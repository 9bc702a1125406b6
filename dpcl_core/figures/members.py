"""Accuracy of an ensemble and of its members alone, by budget."""

from __future__ import annotations

import math

import pandas as pd
import plotly.graph_objects as go

from dpcl_core.figures import theme
from dpcl_core.figures.picture import Picture, epsilon_label

_NAMES = {"member": "each member alone, given the task", "ensemble": "the ensemble"}


def members_and_ensemble(rows: pd.DataFrame, *, dark: bool = False) -> Picture:
    """Mean accuracy of the members and accuracy of the ensemble at every budget; bars span the seeds.

    Columns: epsilon, seed, member, ensemble (percent). After figure A.1 of the workshop version of Tobaben et al.
    """
    if rows.empty:
        return theme.nothing("No run here has recorded the accuracy of its members alone.", dark, 160)
    budgets = sorted(rows["epsilon"].unique())
    labels = [epsilon_label(epsilon) for epsilon in budgets]
    figure = theme.figure(
        dark,
        height=280,
        xaxis={"type": "category", "categoryarray": labels, "showgrid": False},
        yaxis=theme.percent_axis(title="accuracy after the last task"),
    )
    groups = rows.groupby("epsilon")
    for place, (column, name) in enumerate(_NAMES.items()):
        low, mean, high = (getattr(groups[column], what)().to_numpy() for what in ("min", "mean", "max"))
        figure.add_trace(
            go.Scatter(
                x=labels, y=mean, name=name, mode="markers",
                marker={"size": 11, "color": theme.colour_of_series(place, dark), "symbol": ("diamond", "circle")[place]},
                error_y={"type": "data", "symmetric": False, "array": high - mean, "arrayminus": mean - low},
                hovertemplate=f"{name}: %{{y:.1f}} %<extra>%{{x}}</extra>",
            )
        )  # fmt: skip
    return Picture(figure, _finding(groups[list(_NAMES)].mean()))


def _finding(means: pd.DataFrame) -> str:
    """Sentence on the cost of noise for both, from the largest finite budget to no noise; means by epsilon."""
    finite = [epsilon for epsilon in means.index if math.isfinite(epsilon)]
    if not finite or math.inf not in means.index:
        pairs = (f"at {epsilon_label(row.Index)} {row.member:.1f} and {row.ensemble:.1f} %" for row in means.itertuples())
        return f"Members alone and ensemble: {'; '.join(pairs)}."
    some = max(finite)
    gains = means.loc[math.inf] - means.loc[some]
    changes = {name: f"{abs(gain):.1f} points {'better' if gain >= 0 else 'worse'}" for name, gain in gains.items()}
    return (
        f"Without noise members alone are {changes['member']} than at {epsilon_label(some)}, "
        f"the ensemble {changes['ensemble']}."
    )
