"""Published and reproduced values, by method and budget; trials of a tuning; runs through their settings."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from contextlib import suppress

import numpy as np
import pandas as pd

from dpcl_core.events import References
from dpcl_core.figures import answer, svg_parts, theme
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
        values = (
            f"{setting} {minus(f'{ours:.1f}')} %" for setting, ours in zip(group["setting"], group["ours"], strict=True)
        )
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
    kinds = (
        (done, "trial", chart.colour(0), "circle", "%{y:.1f} %"), (failed, "failed", chart.ink.soft, "x", "failed"),
    )  # fmt: skip
    for rows, name, colour, symbol, outcome in kinds:
        if not rows.empty:
            marker, hover = {"color": colour, "symbol": symbol, "size": 8}, f"trial %{{x}}: {outcome}<br>{settings}"
            data = rows[["learning_rate", "batch_size", "clip_norm"]].to_numpy()
            chart.marks(rows["trial"], rows["y"], name, marker, hover, customdata=data)
    return chart.picture(_tuning_finding(table, done, n_validation))


def _tuning_finding(table: pd.DataFrame, done: pd.DataFrame, n_validation: int) -> str:
    failed = f" {len(table) - len(done)} of {len(table)} failed." if len(done) < len(table) else ""
    if done.empty:
        return f"No trial has ended well yet.{failed}"
    best = done.loc[done["accuracy"].idxmax()]
    value = float(best["accuracy"])
    alike = int((done["accuracy"] == value).sum())
    shared = f", as good as {alike - 1} later one{'s' if alike > 2 else ''}" if alike > 1 else ""
    error = 100 * math.sqrt(value * (1 - value) / n_validation)
    doubt = f" (standard error {error:.1f} points)" if error else ""
    return (
        f"Trial {int(best['trial'])} is the best of {len(table)}{shared}: {100 * value:.1f} % of {n_validation} held-out "
        f"examples{doubt}.{failed}"
    )


# Several runs as lines down through the settings in which they differ, to the accuracy where each ends.


_FIRST, _LAST = 2.0, 98.0  # places of a row's outermost values
# Pixels from one setting to the next, above the first, and of a line of accuracies.
_PARALLEL_ROW, _TOP, _PARALLEL_LINE = 70, 44, 15
_VALUE, _FREE = 13, 2  # pixels of a line of values, and lines of them below a row that need no more than _ROW
_SIZE, _NARROWEST, _EDGE = 12.0, 290, 12.0  # of letters; pixels of a row on a phone; percent at both ends of a row
_MOST_ROWS = 6  # further settings are in the table alone


def table(rows: Sequence[Mapping[str, str]], finals: Mapping[str, float]) -> pd.DataFrame:
    """One row per run: its values of the settings that differ, and its final accuracy in [0, 1].

    `rows`: of each setting its name ("setting") and its value in every run, as displayed; `finals`: by run.
    """
    columns = {row["setting"]: [row[name] for name in finals] for row in rows}
    return pd.DataFrame({"run": list(finals), **columns, "final accuracy": list(finals.values())})


def coordinates(
    rows: Sequence[Mapping[str, str]], finals: Mapping[str, float], *, colours: Sequence[str], score: str, dark: bool = False
) -> Picture:
    """A row per setting, its values at equal distances from left to right, and at the foot a row of 0 to 100 percent.

    Rows keep their names and values apart on a phone as on a wide screen. Arguments as in `table`; `colours`: of the runs,
    in their order. Numbers are ordered by size, words as they come.
    """
    shown = rows[:_MOST_ROWS]
    places = [_parallel_places([row[run] for run in finals]) for row in shown]
    lines_of = [_parallel_lines(list(place), list(place.values())) for place in places]
    levels = [0.0]  # of the rows from the first to the score's
    for more in reversed(lines_of):
        levels.insert(0, levels[0] + 1 + _VALUE * max(0, max(more) - _FREE) / _PARALLEL_ROW)
    labels = {run: f"{run} {100 * final:.1f} %" for run, final in finals.items()}
    lines = _parallel_lines(list(labels.values()), [100 * value for value in finals.values()])
    below = _PARALLEL_LINE * (max(lines) + 1) + 8
    ends = [-below / _PARALLEL_ROW, levels[0] + _TOP / _PARALLEL_ROW]
    percent = {"tickvals": [0, 50, 100], "ticktext": ["0", "50", "100 %"], "range": [-4, 104]}
    chart = theme.Chart(
        dark, round(_PARALLEL_ROW * levels[0]) + _TOP + below + 36, {**percent, "showgrid": False, "zeroline": False},
        {"tickvals": levels, "range": ends, "showticklabels": False}, margin=(12, 12, 8, 28),
    )  # fmt: skip
    for (run, final), colour, line in zip(finals.items(), colours, lines, strict=True):
        way = [*(place[row[run]] for place, row in zip(places, shown, strict=True)), 100 * final]
        texts = [*(row[run] for row in shown), f"{100 * final:.1f} %"]
        chart.line(way, levels, run, colour, f"{run}: %{{text}}", text=texts)
        under = {"yshift": -_PARALLEL_LINE * (line + 1), "xanchor": _side(100 * final)}
        chart.text(labels[run], 100 * final, 0, colour=theme.readable(colour, dark), size=_SIZE, **under)
    hides = {"bgcolor": theme.translucent(chart.ink.ground, 0.8)}  # lines behind a text fade
    for name, level in zip((*(row["setting"] for row in shown), capital(score)), levels, strict=True):
        chart.text(bold(name), _FIRST, level, size=_SIZE + 1, yshift=30, **hides, **_beside(_FIRST))
    for level, place, lines in zip(levels, places, lines_of, strict=False):
        for (value, across), line in zip(place.items(), lines, strict=True):
            shift = -_VALUE * line if line else _VALUE  # the first line is above
            chart.text(value, across, level, size=_SIZE, yshift=shift, **hides, **_beside(across))
    return chart.picture(_parallel_finding(rows, finals, score))


def _side(place: float) -> str:
    """Where a text is anchored, so that one near an edge stays within the figure."""
    return "left" if place < _EDGE else "right" if place > 100 - _EDGE else "center"


def _beside(place: float) -> theme.Properties:
    """The same for a text that a line may pass."""
    side = _side(place)
    return {"xanchor": side, "xshift": {"left": 4, "center": 0, "right": -4}[side]}


def _parallel_lines(texts: Sequence[str], places: Sequence[float]) -> list[int]:
    """For each text the first line on which it overlaps none before it, on a phone."""
    spans: list[tuple[float, float]] = []
    lines: list[int] = []
    for text, place in zip(texts, places, strict=True):
        wide = 100 * svg_parts.width(text, _SIZE) / _NARROWEST + 2
        left = place - {"left": 0.0, "center": wide / 2, "right": wide}[_side(place)]
        taken = {line for (begin, end), line in zip(spans, lines, strict=True) if left < end and begin < left + wide}
        lines.append(next(line for line in range(len(texts)) if line not in taken))
        spans.append((left, left + wide))
    return lines


def _parallel_places(values: Sequence[str]) -> dict[str, float]:
    """Places of the different values, from left to right."""
    different = list(dict.fromkeys(values))
    with suppress(ValueError):  # words stay as they come
        different.sort(key=lambda text: float(text.replace("∞", "inf")))
    step = (_LAST - _FIRST) / max(1, len(different) - 1)
    return {value: _FIRST + step * place for place, value in enumerate(different)}


def _parallel_finding(rows: Sequence[Mapping[str, str]], finals: Mapping[str, float], score: str) -> str:
    best = max(finals, key=lambda run: finals[run])
    ties = [run for run in finals if finals[run] == finals[best]]
    which = f"{best} ends highest" if len(ties) == 1 else f"{' and '.join(ties)} end equally high"
    highest = f"{which}, at {100 * finals[best]:.1f} % {score}"
    if len(rows) == 1:
        return f"{highest}; the runs differ in “{rows[0]['setting']}” alone."
    more = f" The first {_MOST_ROWS} are drawn." if len(rows) > _MOST_ROWS else ""
    return f"{highest}; the runs differ in {len(rows)} settings.{more} These lines do not show which of them matters."
