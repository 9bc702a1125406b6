"""Published and reproduced values, by method and budget; trials of a tuning; runs through their settings."""

from __future__ import annotations

import math
import textwrap

import numpy as np

from dpcl_core.events import References
from dpcl_core.figures import answer, theme
from dpcl_core.figures.picture import BREAK, Picture, bold, capital, counted, epsilon_label, epsilon_phrase, minus
from dpcl_core.later import pd

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
    budgets = zip(rows["epsilon"], rows["is_nominal"], strict=True)
    labels = [epsilon_label(epsilon, "claimed" if is_nominal else "bound") for epsilon, is_nominal in budgets]
    lines = {f"{name} {100 * level:.0f} %": 100 * level for name, level in theme.levels(references, is_merged=True).items()}
    top = _above(rows["name"].iloc[0]) + _LEVEL * len(lines)
    x = theme.percent_axis(title=f"{what} after the last task", range=[low, 101])
    y = {"range": [last + 0.6, -top], "tickvals": heights, "ticktext": labels, "showgrid": False, "zeroline": False}
    chart = theme.Chart(dark, round(70 + _ROW * (last + 0.05 + top)), x, y, margin=(_LEFT, 16, 30, 40))
    start: theme.Properties = {"xref": "paper", "xanchor": "left", "align": "left"}
    for name, height in headings.items():
        chart.text(BREAK.join(map(bold, _lines(name))), 0, height, colour=chart.ink.text, xshift=-_LEFT + 6, **start)
    marks = [text for column, text in (("published", "◇ published"), ("ours", "● ours")) if rows[column].notna().any()]
    corner: theme.Properties = {"xref": "paper", "yref": "paper", "xanchor": "right", "yanchor": "top"}
    chart.text(" · ".join([*marks, "bars: standard deviation"]), 1, 1, yshift=24, **corner)
    for place, (text, level) in enumerate(lines.items()):
        chart.level_name(text, level, -top + _LEVEL * (place + 0.5))
    edges = [-top + _LEVEL * len(lines)]  # where pieces of a line begin and end: names of lines and of methods stay free
    for name, height in headings.items():
        room = _above(name) - _ABOVE + 0.9
        edges += [height - room / 2, height + room / 2]
    pieces = [(start, max(start, end)) for start, end in zip(edges[::2], [*edges[1::2], last + 0.6], strict=True)]
    for text, level in lines.items():
        chart.upright_level(level, pieces, name=text)
    for row, height in zip(rows.itertuples(), heights, strict=True):
        if row.is_comparable and pd.notna(row.published + row.ours):
            style = {"color": chart.ink.grid, "width": 3}
            chart.add("scatter", x=[row.published, row.ours], y=[height, height], mode="lines", line=style)
    for column, colour, symbol in (("published", chart.ink.soft, "diamond-open"), ("ours", chart.colour(0), "circle")):
        shown = rows.assign(height=heights)[rows[column].notna()]
        marker = {"color": colour, "size": 10, "symbol": symbol, "line": {"width": 2, "color": colour}}
        bars = theme.error_bars(shown[f"{column}_std"].fillna(0.0), colour, 1.2, width=0)
        hover = f"%{{customdata}}, {column}: %{{x:.1f}} %"
        chart.marks(shown[column], shown["height"], column, marker, hover, error_x=bars, customdata=shown["name"])
    levels = "" if references is None else f" {capital(answer.levels(references))}."
    return chart.picture(f"{_finding(rows, what)}{levels}")


def over_settings(rows: pd.DataFrame, *, what: str, dark: bool = False) -> Picture:
    """A line for each name over settings in their order; printed values as hollow diamonds.

    Columns: name, setting, ours, low, high, published (percent; NaN: none). Rows of one name must be adjacent.
    """
    if rows[["ours", "published"]].isna().all(axis=None):
        return theme.nothing("None of these runs has been carried out here yet.", dark, 160)
    settings = list(dict.fromkeys(rows["setting"]))
    values = rows[["ours", "low", "high", "published"]]
    low, high = min(0.0, float(values.min(axis=None)) - 1), max(5.0, 1.1 * float(values.max(axis=None)))
    x = {"type": "category", "categoryarray": settings, "showgrid": False}
    room = 110 if rows["name"].nunique() > 1 else 16  # right of the lines, for their names
    chart = theme.Chart(dark, 320, x, {"title": f"{what}, %", "range": [low, high]}, margin=(52, room, 12, 40))
    ends = []
    for place, (name, group) in enumerate(rows.groupby("name", sort=False)):
        known, colour = group.dropna(subset=["ours"]), chart.colour(place)
        bars = theme.error_bars(known["high"] - known["ours"], colour, 1.2, below=known["ours"] - known["low"])
        if not known.empty:
            line = chart.series(place, known["setting"], known["ours"], str(name), ", %{x}: %{y:.1f} %")
            line["error_y"] = bars
            ends.append((str(name), known["setting"].iloc[-1], float(known["ours"].iloc[-1]), colour))
        marker = {"color": colour, "size": 11, "symbol": "diamond-open", "line": {"width": 2, "color": colour}}
        hover = f"{name}, printed, %{{x}}: %{{y:.1f}} %"
        shown = group.dropna(subset=["published"])
        chart.marks(shown["setting"], shown["published"], f"{name}: printed", marker, hover)
    chart.end_names(ends if len(ends) > 1 else [], 0.06 * (high - low), low, high, size=12.5)
    said = []
    for name, group in rows.dropna(subset=["ours"]).groupby("name", sort=False):
        values = (f"{setting} {minus(f'{ours:.1f}')} %" for setting, ours in group[["setting", "ours"]].to_numpy())
        said.append(f"{name}: {', '.join(values)}")
    return chart.picture("; ".join(said) + ".")


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


# The trials of a tuning: accuracy on the held-out examples, and the best so far.


_HEIGHT = 260


def trials(table: pd.DataFrame, *, n_trials: int, n_validation: int, dark: bool = False) -> Picture:
    """One dot per trial, a line for the best so far; failed trials are crosses at the bottom.

    Columns: trial (from 1), accuracy (in [0, 1]; NaN: failed), learning_rate, batch_size, clip_norm.
    """
    if table.empty:
        return theme.nothing("The first dot appears when a trial is over.", dark, _HEIGHT)
    is_done = table["accuracy"].notna()
    done, failed = table.assign(y=100 * table["accuracy"])[is_done], table[~is_done].assign(y=0.0)
    step = max(1, math.ceil(n_trials / 10))
    quiet = {"showgrid": False, "zeroline": False, "tick0": step, "dtick": step}
    x = {"title": "trial", "range": [0.4, n_trials + 0.6], **quiet}
    y = theme.percent_axis(title="held-out accuracy", range=[-3, 103])
    chart = theme.Chart(dark, _HEIGHT, x, y, margin=(52, 16, 12, 44))
    if not done.empty:
        line = {"color": chart.colour(0), "width": 2, "shape": "hv"}
        chart.add("scatter", x=done["trial"], y=done["y"].cummax(), mode="lines", name="best so far", line=line)
    settings = "learning rate %{customdata[0]:.2g}, batch %{customdata[1]}, clipping norm %{customdata[2]:.2g}"
    kinds = ((done, "trial", chart.colour(0), "circle", "%{y:.1f} %"), (failed, "failed", chart.ink.soft, "x", "failed"))
    for rows, name, colour, symbol, outcome in kinds:
        if not rows.empty:
            marker, hover = {"color": colour, "symbol": symbol, "size": 8}, f"trial %{{x}}: {outcome}<br>{settings}"
            data = rows[["learning_rate", "batch_size", "clip_norm"]].to_numpy()
            chart.marks(rows["trial"], rows["y"], name, marker, hover, customdata=data)
    failures = f" {len(failed)} of {len(table)} failed." if len(failed) else ""
    if done.empty:
        return chart.picture(f"No trial has ended well yet.{failures}")
    best = done.loc[done["accuracy"].idxmax()]
    value = float(best["accuracy"])
    alike = int((done["accuracy"] == value).sum())
    shared = f", as good as {alike - 1} later one{'s' if alike > 2 else ''}" if alike > 1 else ""
    error = 100 * math.sqrt(value * (1 - value) / n_validation)
    doubt = f" (standard error {error:.1f} points)" if error else ""
    return chart.picture(
        f"Trial {int(best['trial'])} is the best of {len(table)}{shared}: {100 * value:.1f} % of {n_validation} held-out "
        f"examples{doubt}.{failures}"
    )
