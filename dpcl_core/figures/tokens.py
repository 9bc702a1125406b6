"""Figures of token scores: detection of personal data, memorisation of tasks, and exposure of planted secrets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import pandas as pd
import plotly.graph_objects as go

from dpcl_core.figures import theme
from dpcl_core.figures.picture import BREAK, Picture, minus

_CHANCE = 0.5
_UNLIKELY_END = "from the unlikely end"
NEVER = 1.44  # bits: mean exposure of a code that was never seen, by exact rank


def detection(table: pd.DataFrame, *, dark: bool = False) -> Picture:
    """AUROC bars of the score and of a plain pattern by group, with a line at chance.

    Columns group (in their order), detector ("score" or "pattern"), auroc (in [0, 1]; NaN: undefined).
    """
    groups = list(dict.fromkeys(table["group"]))
    figure = theme.figure(
        dark, height=300, legend_room=48, xaxis={"showgrid": False}, yaxis=_auroc_axis(1.08), barmode="group", bargap=0.35
    )
    for index, (detector, name) in enumerate((("score", "the score"), ("pattern", "capital letter, @ or two digits"))):
        rows = table[table["detector"] == detector].set_index("group")["auroc"].reindex(groups)
        colour, texts = theme.colour_of_series(index, dark), [f"{value:.2f}" for value in rows]
        names = [group.replace(" ", BREAK, 1) for group in groups]
        figure.add_trace(_bars(names, rows, name, colour, f"%{{x}}, {name}: %{{y:.3f}}", texts, index == 1, dark))
    figure.add_hline(y=_CHANCE, line={"color": theme.ink(dark).soft, "width": 1.5, "dash": "dot"})
    by = {(row.group, row.detector): row.auroc for row in table.itertuples()}
    values = [f"{group} {by[group, 'score']:.2f} (pattern {by[group, 'pattern']:.2f})" for group in groups]
    defined = [text for text, group in zip(values, groups, strict=True) if not pd.isna(by[group, "score"])]
    finding = f"AUROC of the score for personal tokens: {', '.join(defined)}."
    return Picture(figure, finding if defined else "No personal token is marked here.")


def _bars(
    x: Sequence[str], y: pd.Series, name: str, colour: str, hover: str, texts: Iterable[str], hatched: bool, dark: bool
) -> go.Bar:
    """One series of bars with texts above them; NaN: no bar and no text."""
    return go.Bar(
        x=x,
        y=y.tolist(),
        name=name,
        marker={"color": colour, "pattern": {"shape": "/" if hatched else ""}},
        text=["" if pd.isna(value) else text for value, text in zip(y, texts, strict=True)],
        textposition="outside",
        textfont={"color": theme.ink(dark).text},
        hovertemplate=f"{hover}<extra></extra>",
    )


def _auroc_axis(top: float) -> dict[str, object]:
    """An axis of AUROCs, always 0 to 1, with a mark at chance."""
    ticks = {0: "0", 0.25: "0.25", _CHANCE: "coin 0.5", 0.75: "0.75", 1: "1"}
    return {
        "range": [0, top], "tickvals": list(ticks), "ticktext": list(ticks.values()), "title": "AUROC", "zeroline": False,
    }  # fmt: skip


def by_alpha(aurocs: Mapping[str, Mapping[float, float]], *, chosen: float, dark: bool = False) -> Picture:
    """AUROC against alpha, one line per comparison; the chosen alpha is marked and in the finding.

    `aurocs`: by the comparison's name and alpha (the same ones for all), in [0, 1].
    """
    alphas = sorted(next(iter(aurocs.values())))
    inks = theme.ink(dark)
    figure = theme.figure(
        dark,
        height=320,
        legend_room=48,
        xaxis={"title": "α: 0 is commonness alone, 1 is surprise alone", "showgrid": False, "range": [-0.05, 1.05]},
        yaxis=_auroc_axis(1.02),
    )
    figure.add_hline(y=_CHANCE, line={"color": inks.soft, "width": 1.5, "dash": "dot"})
    figure.add_vline(x=chosen, line={"color": inks.grid, "width": 14}, layer="below")
    for index, (name, by) in enumerate(aurocs.items()):
        hover = f"{name}, α = %{{x}}: %{{y:.3f}}"
        figure.add_trace(theme.series_line(alphas, [by[alpha] for alpha in alphas], name, index, hover, dark=dark))
    values = ", ".join(f"{name} {by[chosen]:.2f}" for name, by in aurocs.items())
    finding = f"With α = {chosen:g} the AUROC is: {values}. A coin has 0.5."
    return Picture(figure, finding)


def retained(table: pd.DataFrame, *, dark: bool = False) -> Picture:
    """Memorisation of each task after the last one in nats per token: ordinary tokens and personal ones.

    Columns after_task, of_task, ordinary, private (NaN: none marked), one or several rows per pair; their mean is drawn.
    """
    if table.empty:
        return theme.nothing("Nothing to show yet.", dark, 300)
    last = table[table["after_task"] == table["after_task"].max()]
    means = last.groupby("of_task", as_index=False)[["ordinary", "private"]].mean()
    figure = theme.figure(
        dark,
        height=300,
        legend_room=48,
        xaxis={"showgrid": False, "type": "category"},
        yaxis={"title": "nats a token above the public model", "zeroline": True},
        barmode="group",
        bargap=0.35,
    )
    names = [f"task {task + 1}" for task in means["of_task"]]
    for index, (column, name) in enumerate((("ordinary", "ordinary words: memory kept"), ("private", "personal words"))):
        colour, hover = theme.colour_of_series(2 - index, dark), f"%{{x}}, {name}: %{{y:.3f}} nats"
        figure.add_trace(_bars(names, means[column], name, colour, hover, map(_nats, means[column]), index == 1, dark))
    after = int(table["after_task"].max()) + 1
    ordinary, private = means["ordinary"].mean(), means["private"].mean()
    finding = f"After task {after} the model holds {_nats(ordinary)} nats an ordinary token on average"
    finding += f" and {_nats(private)} a personal one." if not pd.isna(private) else "; no personal token is marked."
    return Picture(figure, finding)


def exposure(table: pd.DataFrame, *, dark: bool = False) -> Picture:
    """Exposure of planted codes by how often they were planted: before the first task, after the last recorded one, and
    counted from the least likely end, so that excessive forgetting is visible, too.

    Columns after_task (-1: before), planted (0: controls), exposure, below (bits); several rows per level are averaged.
    """
    if table.empty:
        return theme.nothing("No secrets were planted.", dark, 300)
    planted = sorted(table["planted"].unique())
    last = table["after_task"].max()
    early, late = (rows.groupby("planted")[["exposure", "below"]].mean() for rows in _early_and_late(table))
    when = f"after task {last + 1}" if last >= 0 else "before training"
    of = {"before training": early["exposure"]}
    if last >= 0:
        of |= {when: late["exposure"], _UNLIKELY_END: late["below"]}
    figure = theme.figure(
        dark,
        height=320,
        legend_room=64,
        xaxis={"showgrid": False, "type": "category", "title": "texts that a code was planted in"},
        yaxis={"title": "exposure, bits", "rangemode": "tozero", "zeroline": False},
        barmode="group",
        bargap=0.35,
    )
    soft, names = theme.ink(dark).soft, ["never" if level == 0 else f"{level}" for level in planted]
    colours = (soft, theme.colour_of_series(1, dark), theme.colour_of_series(0, dark))
    for (name, values), colour in zip(of.items(), colours, strict=False):
        if not values.empty:
            bits, hover = values.reindex(planted), f"planted %{{x}}, {name}: %{{y:.2f}} bits"
            texts = [f"{value:.1f}" if name == when else "" for value in bits]
            figure.add_trace(_bars(names, bits, name, colour, hover, texts, name == _UNLIKELY_END, dark))
    figure.add_hline(y=NEVER, line={"color": soft, "width": 1.5, "dash": "dot"})
    most, now = planted[-1], of[when]
    controls = f", codes never planted {now.get(0):.1f}" if 0 in now.index else ""
    began = f" ({early['exposure'][most]:.1f} before training)" if last >= 0 and most in early.index else ""
    finding = f"Codes planted in {most} texts have {now.get(most):.1f} bits of exposure {when}{began}{controls}."
    return Picture(figure, finding)


def exposure_history(table: pd.DataFrame) -> str:
    """Sentence on the exposure of the most often planted codes, before training and after each task.

    Columns as in `exposure`; empty where they were tested at most twice, which the figure shows.
    """
    most = table["planted"].max()
    rows = table[table["planted"] == most].groupby("after_task")["exposure"].mean()
    if len(rows) < 3:
        return ""
    steps = [f"{value:.1f} " + ("before training" if task < 0 else f"after task {task + 1}") for task, value in rows.items()]
    return f"Codes planted in {most} texts, in bits: {', '.join(steps)}."


def _nats(value: float) -> str:
    """Two digits, with a true minus."""
    return minus(f"{value:.2f}")


def _early_and_late(table: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The rows before the first task, and those after the last recorded one (empty if there is none)."""
    after = table[table["after_task"] >= 0]
    return table[table["after_task"] < 0], after[after["after_task"] == after["after_task"].max()]
