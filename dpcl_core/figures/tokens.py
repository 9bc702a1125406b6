"""Figures of token scores, of planted secrets, and of budgets and noise over tasks."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np

from dpcl_core.figures import theme
from dpcl_core.figures.picture import BREAK, Picture, capital, counted, minus
from dpcl_core.later import pd
from dpcl_core.privacy.statement import shown_number

_CHANCE = 0.5
_ALIKE_NATS = 0.1  # a token: with less between them, two models know words about equally well
_UNLIKELY_END = "from the unlikely end"
NEVER = 1.44  # bits: mean exposure of a code that was never seen, by exact rank


def detection(table: pd.DataFrame, *, dark: bool = False) -> Picture:
    """AUROC bars of the score and of a plain pattern by group, with a line at chance.

    Columns group (in their order), detector ("score" or "pattern"), auroc (in [0, 1]; NaN: undefined).
    """
    groups = list(dict.fromkeys(table["group"]))
    chart = _grouped(dark, 300, 48, {}, _auroc_axis(1.08))
    values = table.pivot(index="group", columns="detector", values="auroc").reindex(groups)
    names = [group.replace(" ", BREAK, 1) for group in groups]
    for index, (detector, name) in enumerate((("score", "the score"), ("pattern", "capital letter, @ or two digits"))):
        of = values[detector]
        texts = [f"{value:.2f}" for value in of]
        _bars(chart, names, of, name, chart.colour(index), f"%{{x}}, {name}: %{{y:.3f}}", texts, is_hatched=index == 1)
    chart.across("y", _CHANCE, width=1.5)
    said = [
        f"{row.Index} {row.score:.2f} (pattern {row.pattern:.2f})" for row in values.itertuples() if not pd.isna(row.score)
    ]
    finding = f"AUROC of the score for personal tokens: {', '.join(said)}."
    return chart.picture(finding if said else "No personal token is marked here.")


def _grouped(dark: bool, height: int, legend_room: int, x: theme.Properties, y: theme.Properties) -> theme.Chart:
    """A figure for bars side by side."""
    x = {"showgrid": False, **x}
    return theme.Chart(dark, height, x, y, legend_room=legend_room, barmode="group", bargap=0.35)


def _bars(
    chart: theme.Chart, x: Sequence[str], y: pd.Series, name: str, colour: str, hover: str, texts: Sequence[str], *,
    is_hatched: bool,
) -> None:  # fmt: skip
    """Adds one series of bars with texts above them; NaN: no bar and no text."""
    shown = ["" if pd.isna(value) else text for value, text in zip(y, texts, strict=True)]
    marker = {"color": colour, "pattern": {"shape": "/" if is_hatched else ""}}
    above = {"text": shown, "textposition": "outside", "textfont": {"color": chart.ink.text}}
    chart.add("bar", hover, x=x, y=y.tolist(), name=name, marker=marker, **above)


def _auroc_axis(top: float) -> theme.Properties:
    """An axis of AUROCs, always 0 to 1, with a mark at chance."""
    ticks = {0: "0", 0.25: "0.25", _CHANCE: "coin 0.5", 0.75: "0.75", 1: "1"}
    return {
        "range": [0, top], "tickvals": list(ticks), "ticktext": list(ticks.values()), "title": "AUROC", "zeroline": False,
    }  # fmt: skip


def by_alpha(aurocs: Mapping[str, Mapping[float, float]], *, chosen: float, dark: bool = False) -> Picture:
    """AUROC against alpha, one line per comparison; the chosen alpha is marked and in the finding.

    `aurocs`: by the comparison's name and alpha (the same ones for all), in [0, 1].
    """
    x = {"title": "α: 0 is commonness alone, 1 is surprise alone", "showgrid": False, "range": [-0.05, 1.05]}
    chart = theme.Chart(dark, 320, x, _auroc_axis(1.02), legend_room=48)
    chart.across("y", _CHANCE, width=1.5)
    chart.stripe(chosen)
    for index, (name, by) in enumerate(aurocs.items()):
        alphas = sorted(by)
        chart.series(index, alphas, [by[alpha] for alpha in alphas], name, ", α = %{x}: %{y:.3f}")
    values = ", ".join(f"{name} {by[chosen]:.2f}" for name, by in aurocs.items())
    return chart.picture(f"With α = {chosen:g} the AUROC is: {values}. A coin has 0.5.")


def retained(table: pd.DataFrame, *, dark: bool = False) -> Picture:
    """Memorisation of each task after the last one in nats per token: ordinary tokens and personal ones.

    Columns after_task, of_task, ordinary, private (NaN: none marked), one or several rows per pair; their mean is drawn.
    """
    if table.empty:
        return theme.nothing("Nothing to show yet.", dark, 300)
    after = int(table["after_task"].max())
    means = table[table["after_task"] == after].groupby("of_task", as_index=False)[["ordinary", "private"]].mean()
    y = {"title": "nats a token above the public model", "zeroline": True}
    chart = _grouped(dark, 300, 48, {"type": "category"}, y)
    names = [f"task {task + 1}" for task in means["of_task"]]
    for index, (column, name) in enumerate((("ordinary", "ordinary words: memory kept"), ("private", "personal words"))):
        of, hover = means[column], f"%{{x}}, {name}: %{{y:.3f}} nats"
        _bars(chart, names, of, name, chart.colour(2 - index), hover, [*map(_nats, of)], is_hatched=index == 1)
    ordinary, private = means["ordinary"].mean(), means["private"].mean()
    finding = f"After task {after + 1}: {_against_public(ordinary)} the public model on ordinary words"
    finding += f" ({_nats(ordinary)} nats)"
    if pd.isna(private):
        return chart.picture(f"{finding}; no personal word is marked.")
    return chart.picture(f"{finding}, {_against_public(private)} it on personal ones ({_nats(private)}).")


def _against_public(nats: float) -> str:
    """How well a model knows words, from its nats a token above the public model."""
    return "about as good as" if abs(nats) < _ALIKE_NATS else "better than" if nats > 0 else "worse than"


def exposure(table: pd.DataFrame, *, dark: bool = False) -> Picture:
    """Exposure of planted codes by how often they were planted: before the first task, after the last recorded one, and
    counted from the least likely end, so that excessive forgetting is visible, too.

    Columns after_task (-1: before), planted (0: controls), exposure, below (bits); several rows per level are averaged.
    """
    if table.empty:
        return theme.nothing("No secrets were planted.", dark, 300)
    planted = sorted(table["planted"].unique())
    last = table["after_task"].max()
    means = table.groupby(["after_task", "planted"])[["exposure", "below"]].mean()
    early, late = (means[means.index.get_level_values(0) == task].droplevel(0) for task in (-1, last))
    when = f"after task {last + 1}" if last >= 0 else "before training"
    of = {"before training": early["exposure"]}
    if last >= 0:
        of |= {when: late["exposure"], _UNLIKELY_END: late["below"]}
    x, y = {"type": "category", "title": "texts that a code was planted in"}, {"rangemode": "tozero", "zeroline": False}
    chart = _grouped(dark, 320, 64, x, {"title": "exposure, bits", **y})
    names = ["never" if level == 0 else f"{level}" for level in planted]
    colours = (chart.ink.soft, chart.colour(1), chart.colour(0))
    for (name, values), colour in zip(of.items(), colours, strict=False):
        if not values.empty:
            bits, hover = values.reindex(planted), f"planted %{{x}}, {name}: %{{y:.2f}} bits"
            texts = [f"{value:.1f}" if name == when else "" for value in bits]
            _bars(chart, names, bits, name, colour, hover, texts, is_hatched=name == _UNLIKELY_END)
    chart.across("y", NEVER, width=1.5)
    most, now = planted[-1], of[when]
    controls = f", codes never planted {now.get(0):.1f}" if 0 in now.index else ""
    began = f" ({early['exposure'][most]:.1f} before training)" if last >= 0 and most in early.index else ""
    return chart.picture(f"Codes planted in {most} texts have {now.get(most):.1f} bits of exposure {when}{began}{controls}.")


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


# The ranges that five shades stand for.


def ranges(edges: Sequence[float], *, falling: bool, beyond: str = "") -> list[str]:
    """The five printed ranges between four edges, in order of the shades. `falling`: small numbers are dark.

    `beyond`: the origin of numbers that are distances.
    """
    between = (f"{low:g}–{high:g}" for low, high in pairwise(edges))
    texts = [f"{text}{beyond}" for text in (f"< {edges[0]:g}", *between, f"≥ {edges[-1]:g}")]
    return texts[::-1] if falling else texts


# True costs of a token's nominal budget: in one release, over epochs and occurrences, for a text.


def true_costs(
    nominal: Sequence[float], true: Mapping[str, Sequence[float]], *, chosen: float, dark: bool = False
) -> Picture:
    """True ε against nominal ε, one line per kind of cost, on two logarithmic axes; the finding is at the chosen one.

    `true`: by name, one finite number for each entry of `nominal` (ascending, including `chosen`). A faint line marks
    equality, which the paper claims for one token.
    """
    top = max(max(values) for values in true.values())
    x = _axis("nominal ε of a token, no guarantee", nominal[0], nominal[-1], steps=(1, 2, 5))
    chart = theme.Chart(dark, 400, x, _axis("what it really costs, ε", nominal[0], top, steps=(1,)), legend_room=76)
    ends, dots = [nominal[0], nominal[-1]], {"color": chart.ink.soft, "width": 1, "dash": "dot"}
    chart.add("scatter", x=ends, y=ends, mode="lines", line=dots, name="were the nominal ε true")
    for index, (name, values) in enumerate(true.items()):
        chart.series(index, nominal, values, name, ": nominal ε = %{x:.3g}, really %{y:.4g}", size=6)
    chart.across("x", chosen, dash=None)
    place = list(nominal).index(chosen)
    costs = "; ".join(f"{name} {budget_number(values[place])}" for name, values in true.items())
    return chart.picture(f"What a nominal ε of {budget_number(chosen)} (no guarantee) really costs: {costs}.")


def budget_number(value: float) -> str:
    """A number in four digits, or as an integer from 1,000 on."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"


def _axis(title: str, low: float, high: float, steps: Sequence[int]) -> theme.Properties:
    bottom, top = math.floor(math.log10(low)), math.ceil(math.log10(high))
    ticks = [step * 10.0**power for power in range(bottom, top + 1) for step in steps]
    shown, ends = [f"{tick:,.10g}" for tick in ticks], [math.log10(low) - 0.05, math.log10(high) + 0.05]
    return {"title": title, "type": "log", "tickvals": ticks, "ticktext": shown, "range": ends}


# The budget spent over the tasks.


def ledger(spent: pd.DataFrame, *, dark: bool = False) -> Picture:
    """ε spent so far, as steps over the tasks, one line per kind of person; the plain sum of the steps as a faint line.

    Columns: people (kind of person), after_task (from 0), epsilon (accounted so far), and step (ε of the task alone, for the
    plain sum). Kinds are drawn in their order of appearance; infinite values are not drawn but named in the finding.
    """
    if not (kinds := list(dict.fromkeys(spent["people"]))):
        return theme.nothing("The ledger is empty: nothing has touched private data yet.", dark, 200)
    finite = spent[np.isfinite(spent["epsilon"])]
    naive_top = max((float(rows["step"].sum()) for _, rows in finite.groupby("people")), default=1.0)
    steps = max(1, int(spent["after_task"].max()) // 10)
    x, y = {"showgrid": False, "tick0": 1, "dtick": steps, "title": "tasks learned"}, {"title": "ε"}
    axes = theme.panels([1.0] * len(kinds), 0.16 / len(kinds), x, [{**y, "range": [0, 1.08 * naive_top]}] * len(kinds))
    chart = theme.Chart(dark, 70 + 150 * len(kinds), margin=(48, 16, 28, 40), **axes)
    sentences = []
    for index, kind in enumerate(kinds):
        rows = spent[spent["people"] == kind].sort_values("after_task")
        tasks, epsilon = rows["after_task"].to_numpy() + 1, rows["epsilon"].to_numpy(dtype=np.float64)
        number, colour, drawn = str(index + 1) if index else "", chart.colour(index), np.isfinite(epsilon)
        plot = {"xaxis": f"x{number}", "yaxis": f"y{number}"}
        top = axes[f"yaxis{number}"]["domain"][1]
        chart.text(kind, 0, top, size=12, xref="paper", yref="paper", xanchor="left", yanchor="bottom")
        chart.add(
            "scatter", "after task %{x}: ε = %{y:.3g}", x=tasks[drawn], y=epsilon[drawn], fill="tozeroy",
            mode="lines+markers", marker={"size": 5}, fillcolor=theme.translucent(colour, 0.15),  # a single task has no line
            line={"color": colour, "width": 2.2, "shape": "hvh"}, name=f"{kind}: accounted", **plot,
        )  # fmt: skip
        line = {"color": chart.ink.soft, "width": 1.2, "dash": "dot", "shape": "hvh"}
        total = np.cumsum(rows["step"].to_numpy(dtype=np.float64)[drawn])
        hover, name = "plain sum after task %{x}: %{y:.3g}", f"{kind}: plain sum"
        chart.add("scatter", hover, x=tasks[drawn], y=total, mode="lines", line=line, name=name, **plot)
        last = float(epsilon[-1])
        spent_text = "no bound" if math.isinf(last) else f"ε = {shown_number(last)} after {counted(int(tasks[-1]), 'task')}"
        sentences.append(f"{kind}: {spent_text}")
    return chart.picture(capital("; ".join(sentences)) + ".")


# Sums released after every task: their noise against the number of tasks, and the attacker who watches them.


def noise_against_tasks(table: pd.DataFrame, *, dark: bool = False) -> Picture:
    """The noise in the last running sum against the number of tasks, one line a factorisation.

    Columns: factorisation, n_tasks, noise (in standard deviations of the noise that one task alone would need).
    """
    lines = {str(name): rows.sort_values("n_tasks") for name, rows in table.groupby("factorisation", sort=False)}
    y = {"title": "noise after the last task, in σ", "rangemode": "tozero"}
    x = theme.task_axis(1, int(table["n_tasks"].max())) | {"title": "tasks in all"}
    chart = _over_tasks(dark, x, y, lines, "n_tasks", "noise", ": %{x} tasks, %{y:.3g} σ")
    last = {name: float(rows["noise"].iloc[-1]) for name, rows in lines.items()}
    said = ", ".join(f"{name} {value:.3g}" for name, value in last.items())
    return chart.picture(f"After {int(table['n_tasks'].max())} tasks the noise, in σ of a single task: {said}.")


def race(table: pd.DataFrame, *, dark: bool = False) -> Picture:
    """What attackers of a stream can prove, task by task: one line an attack where it is theory, dots where measured.

    Columns: attack (its name), after_task (from 0), epsilon, and is_measured.
    """
    theory, measured = table[~table["is_measured"]], table[table["is_measured"]]
    lines = {str(name): rows.sort_values("after_task") for name, rows in theory.groupby("attack", sort=False)}
    n_tasks = int(table["after_task"].max()) + 1
    y = {"title": "ε that the best attack can prove", "rangemode": "tozero"}
    moved = {name: rows.assign(after_task=rows["after_task"] + 1) for name, rows in lines.items()}
    x, hover = theme.task_axis(1, n_tasks), ": after task %{x}, ε = %{y:.3g}"
    chart = _over_tasks(dark, x, y, moved, "after_task", "epsilon", hover)
    for index, name in enumerate(lines):
        rows = measured[measured["attack"] == name]
        marker = {"color": chart.colour(index), "size": 10, "symbol": "circle-open"}
        if len(rows):
            chart.marks(rows["after_task"] + 1, rows["epsilon"], f"{name}, measured", marker, "measured: ε ≥ %{y:.3g}")
    said = "; ".join(f"{name}: ε = {shown_number(float(rows['epsilon'].iloc[-1]))}" for name, rows in lines.items())
    return chart.picture(f"{capital(said)}, after {n_tasks} tasks.")


def spending(table: pd.DataFrame, *, dark: bool = False) -> Picture:
    """What rules of spending give each task, one line a rule; a task that gets nothing is crossed out: it starves.

    Columns: rule, after_task (from 0), epsilon (of the task's own release; 0: refused).
    """
    lines = {str(name): rows.assign(after_task=rows["after_task"] + 1) for name, rows in table.groupby("rule", sort=False)}
    n_tasks = int(table["after_task"].max()) + 1
    x, y = theme.task_axis(1, n_tasks), {"title": "ε of a task's release", "rangemode": "tozero"}
    chart = _over_tasks(dark, x, y, lines, "after_task", "epsilon", ": task %{x}, ε = %{y:.3g}")
    said = []
    for index, (name, rows) in enumerate(lines.items()):
        starving = rows[rows["epsilon"] == 0]
        marker = {"color": chart.colour(index), "size": 9, "symbol": "x"}
        if len(starving):
            chart.marks(starving["after_task"], starving["epsilon"], f"{name}, refused", marker, "nothing is left")
        last = f"ε = {shown_number(float(rows['epsilon'].iloc[-1]))} for the last task"
        starve = f"{len(starving)} of {n_tasks} tasks starve" if len(starving) > 1 else "the last task starves"
        said.append(f"{name}: {starve if len(starving) else last}")
    return chart.picture(f"{capital('; '.join(said))}.")


def _over_tasks(
    dark: bool, x: theme.Properties, y: theme.Properties, lines: dict[str, pd.DataFrame], across: str, up: str, hover: str
) -> theme.Chart:
    chart = theme.Chart(dark, 300, x, y, margin=(52, 16, 12, 40), legend_room=60)
    for index, (name, rows) in enumerate(lines.items()):
        mode = "lines+markers" if len(rows) <= 12 else "lines"
        chart.series(index, rows[across], rows[up], name, hover, size=6, mode=mode)
    return chart
