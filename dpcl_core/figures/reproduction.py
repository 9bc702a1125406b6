"""Published and reproduced values, a pair of marks for every method and budget."""

from __future__ import annotations

import textwrap

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from dpcl_core.events import References
from dpcl_core.figures import placement, theme
from dpcl_core.figures.picture import BREAK, Picture, bold, capital, counted, epsilon_label, epsilon_phrase, minus

_ROW = 24  # pixels
_LEFT = 76  # pixels of the margin for budgets, above which the names begin: a phone has no room for them beside the marks
_ABOVE = 1.15  # rows between one method's last budget and the next one's first, for the name
_LINE = 0.75  # rows for each further line of a name
_LETTERS = 36  # of a line of a name, in bold, on a phone
_LEVEL = 0.8  # rows for the name of a reference, above all names of methods


def published_and_ours(
    rows: pd.DataFrame, *, what: str, references: References | None = None, dark: bool = False
) -> Picture:
    """Published values as hollow marks, ours as filled ones, with deviations; a line joins comparable pairs.

    Columns: name, epsilon, published, published_std, ours, ours_std (percent; NaN: none), is_comparable (whether a
    difference is meaningful), is_nominal (whether the epsilon is only claimed). Rows of one name must be adjacent; their
    order is kept. `what` names the quantity, such as "accuracy". `references`: what guessing, the untrained network and
    learning all at once without noise give, drawn as thin lines; only for the accuracy after the last task.
    """
    if rows.empty or rows[["published", "ours"]].isna().all(axis=None):
        return theme.nothing("Nothing was published in numbers, and nothing has run yet.", dark, 160)
    heights, headings = _places(rows)
    last, low = max(heights), min(0.0, float(rows[["published", "ours"]].min(axis=None)) - 1)  # forgetting may be negative
    inks = theme.ink(dark)
    budgets = zip(rows["epsilon"], rows["is_nominal"], strict=True)
    labels = [epsilon_label(epsilon, "claimed" if is_nominal else "bound") for epsilon, is_nominal in budgets]
    lines = _levels(references)
    top = _above(rows["name"].iloc[0]) + _LEVEL * len(lines)
    axis = {
        "range": [last + 0.6, -top], "tickvals": heights, "ticktext": labels, "showgrid": False, "zeroline": False,
    }  # fmt: skip
    written = [
        {
            "x": 0, "y": height, "xref": "paper", "text": BREAK.join(map(bold, _lines(name))), "showarrow": False,
            "xanchor": "left", "align": "left", "xshift": -_LEFT + 6, "font": {"color": inks.text},
        }
        for name, height in headings.items()
    ]  # fmt: skip
    tops = [-top + _LEVEL * (place + 0.5) for place in range(len(lines))]
    written.append(_legend(rows, inks))
    written += [_level_name(level, text, at, inks) for at, (text, level) in zip(tops, lines.items(), strict=True)]
    figure = theme.figure(
        dark,
        height=round(70 + _ROW * (last + 0.05 + top)),
        margin={"l": _LEFT, "r": 16, "t": 30, "b": 40},
        xaxis=theme.percent_axis(title=f"{what} after the last task", range=[low, 101]),
        yaxis=axis,
        annotations=written,
    )
    edges = [-top + _LEVEL * len(lines)]  # where pieces of a line begin and end: names of lines and of methods stay free
    for name, height in headings.items():
        edges += [height - _name_room(name) / 2, height + _name_room(name) / 2]
    for text, level in lines.items():
        figure.add_trace(_level(level, text, [*edges, last + 0.6], inks))
    for row, height in zip(rows.itertuples(), heights, strict=True):
        if row.is_comparable and pd.notna(row.published + row.ours):
            ends, style = [row.published, row.ours], {"color": inks.grid, "width": 3}
            figure.add_trace(go.Scatter(x=ends, y=[height, height], mode="lines", line=style, hoverinfo="skip"))
    _marks(figure, rows, heights, "published", inks.soft, "diamond-open")
    _marks(figure, rows, heights, "ours", theme.colour_of_series(0, dark), "circle")
    levels = "" if references is None else f" {capital(placement.levels(references))}."
    return Picture(figure, f"{_finding(rows, what)}{levels}")


def _places(rows: pd.DataFrame) -> tuple[list[float], dict[str, float]]:
    """The vertical position of every row, and of every name above its rows."""
    is_first = rows["name"] != rows["name"].shift()
    assert is_first.sum() == rows["name"].nunique(), "rows of one name must be adjacent"
    above = rows["name"].map(_above).where(is_first, 0.0).cumsum()
    heights = pd.Series((np.arange(len(rows)) + above - above.iloc[0]).to_numpy(), index=rows["name"])
    first = heights.groupby(level=0, sort=False).min()
    return heights.tolist(), {name: float(height) - (_above(name) + 0.35) / 2 for name, height in first.items()}


def _above(name: str) -> float:
    """The room above a method's first budget for its name, in rows."""
    return _ABOVE + _LINE * (len(_lines(name)) - 1)


def _lines(name: str) -> list[str]:
    return textwrap.wrap(name, _LETTERS) or [name]


def _name_room(name: str) -> float:
    return 0.9 + _LINE * (len(_lines(name)) - 1)


def _levels(references: References | None) -> dict[str, float]:
    """The references that are known, in percent, by what is written beside their line."""
    if references is None:
        return {}
    known = {"chance": references.chance, "untrained": references.untrained, "at once, no noise": references.ceiling}
    if references.untrained is not None and 100 * abs(references.untrained - references.chance) < theme.ALIKE:
        known = {"chance = untrained": references.chance, "at once, no noise": references.ceiling}
    return {f"{name} {100 * level:.0f} %": 100 * level for name, level in known.items() if level is not None}


def _level(level: float, text: str, edges: list[float], inks: theme.Ink) -> go.Scatter:
    """A line at a level in pieces, each between two edges."""
    y: list[float | None] = []
    for start, end in zip(edges[::2], edges[1::2], strict=True):
        y += [start, max(start, end), None]
    x = [None if one is None else level for one in y]
    line = {"color": inks.soft, "width": 1, "dash": "dot"}
    return go.Scatter(x=x, y=y, mode="lines", line=line, name=text, hoverinfo="skip")


def _level_name(level: float, text: str, height: float, inks: theme.Ink) -> dict[str, object]:
    """An annotation: what a line at a level is, at a height above all rows."""
    place = {"x": level, "y": height, "xanchor": "right" if level >= 50 else "left", "yanchor": "middle"}
    return {"text": text, "showarrow": False, "font": {"color": inks.soft, "size": 11.5}, **place}


def _legend(rows: pd.DataFrame, inks: theme.Ink) -> dict[str, object]:
    """An annotation: what the marks are."""
    parts = [text for column, text in (("published", "◇ published"), ("ours", "● ours")) if rows[column].notna().any()]
    place = {"x": 1, "y": 1, "xref": "paper", "yref": "paper", "yshift": 24, "xanchor": "right", "yanchor": "top"}
    text = " · ".join([*parts, "bars: standard deviation"])
    return {"text": text, "showarrow": False, "font": {"color": inks.soft}, **place}


def _marks(figure: go.Figure, rows: pd.DataFrame, heights: list[float], column: str, colour: str, symbol: str) -> None:
    has = rows[column].notna()
    shown = rows[has]
    bars = {"type": "data", "array": shown[f"{column}_std"].fillna(0.0), "color": colour, "thickness": 1.2, "width": 0}
    figure.add_trace(
        go.Scatter(
            x=shown[column],
            y=[height for height, wanted in zip(heights, has, strict=True) if wanted],
            mode="markers",
            marker={"color": colour, "size": 10, "symbol": symbol, "line": {"width": 2, "color": colour}},
            error_x=bars,
            customdata=shown["name"],
            name=column,
            hovertemplate=f"%{{customdata}}, {column}: %{{x:.1f}} %<extra></extra>",
        )
    )


def _finding(rows: pd.DataFrame, what: str) -> str:
    """Sentence on the number of pairs and their distance; for data that cannot be compared, on the number of our values."""
    n_published, n_ours = int(rows["published"].notna().sum()), int(rows["ours"].notna().sum())
    published = counted(n_published, "value")
    if n_ours == 0:
        return f"{published} of {what} published; none of the runs has been carried out here yet."
    if n_published == 0:
        ours, low, high = counted(n_ours, "value"), rows["ours"].min(), rows["ours"].max()
        return f"No {what} was published in numbers; ours, {ours}, lie between {low:.1f} and {high:.1f} %."
    if not rows["is_comparable"].all():
        return f"{published} published and {n_ours} of ours, on different data: no difference is formed."
    pairs = rows.dropna(subset=["published", "ours"])
    if pairs.empty:
        return f"{published} published and {n_ours} of ours; none of them belong together."
    gaps = pairs["ours"] - pairs["published"]
    widest = pairs.loc[gaps.abs().idxmax()]
    budget = epsilon_phrase(float(widest["epsilon"]), "claimed" if widest["is_nominal"] else "bound")
    return (
        f"Ours are lower in {int((gaps < 0).sum())} and higher in {int((gaps > 0).sum())} of {counted(len(pairs), 'pair')}; "
        f"the difference is {minus(f'{gaps.mean():+.1f}')} points on average, at most "
        f"{minus(f'{gaps[widest.name]:+.1f}')} "
        f"({widest['name']}, {budget})."
    )
