"""Figures of a run's texts: the heatmap of the latest one, what the model memorised, exposure of planted secrets."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd
import streamlit as st

from dpcl_core.events import Leaks, Retained, TokensScored
from dpcl_core.explorers.tokens import dials_of
from dpcl_core.figures import tokens
from dpcl_core.results import Result
from dpcl_core.runs import frames
from pages.parts import figure_card, layout, text, token_heat
from pages.parts.text import plain


def has_any(result: Result) -> bool:
    """Whether the run has recorded token scores, memorisation or leaks."""
    return any(isinstance(event, (TokensScored, Retained, Leaks)) for event in result.events)


def scored(result: Result, epsilon: float, *, live: bool) -> None:
    """Draws the heatmap of a task's first scored text, at one budget: of the latest task, once the run is over of any."""
    events = [event for event in result.events if isinstance(event, TokensScored) and event.cell.epsilon == epsilon]
    if not events or not events[-1].texts:
        return
    seed = events[-1].cell.seed
    by_task = {event.task: event for event in events if event.texts and event.cell.seed == seed}
    if live:
        _heatmap(result, events[-1], key="live")
    else:
        _of_tasks(result, by_task)


@st.fragment
def _of_tasks(result: Result, by_task: Mapping[int, TokensScored]) -> None:
    """Draws a slider over the tasks and the heatmap of the chosen one, alone when it moves."""
    tasks = sorted(by_task)
    at = tasks[-1]
    if len(tasks) > 1:
        key = f"heat-task-{result.run_id}-{by_task[at].cell.epsilon:g}"
        at = st.select_slider("A text of", tasks, at, format_func=lambda task: _task_name(result, task), key=key)
    _heatmap(result, by_task[at], key="over")


def _task_name(result: Result, task: int) -> str:
    names = result.started.task_names if result.started is not None else ()
    return f"task {task + 1}" + (f", {names[task]}" if task < len(names) else "")


def _heatmap(result: Result, event: TokensScored, *, key: str) -> None:
    """Draws the first text of one scoring, in the chosen layer."""
    task = _task_name(result, event.task)
    model = "the frozen public model" if event.model == "base" else "the model after the task"
    with layout.card(f"heat-{key}"):
        st.markdown(f"**Which words are treated as sensitive?** :small[{plain(task)}; scored by {model}]")
        layer = token_heat.picker("score", f"layer-{key}")
        dials = dials_of(result.spec, event.cell.epsilon)
        token_heat.show(event.texts[0], layer, dials, f"A text of {task}", key=f"heatmap-{key}")
        if result.run_id is not None:
            query = {"v": "1", "sh": "run", "run": result.run_id, "t": str(event.task + 1)}
            st.page_link("pages/tokens.py", label=":primary[All figures on Sensitive words →]", query_params=query)


def figures(result: Result, epsilon: float, *, live: bool) -> None:
    """Draws memorisation by task, and exposure before and after training, of the models of one budget (mean over seeds)."""
    kept, leaks = tables(result, epsilon)
    dark, source = text.is_dark(), result.provenance
    left, right = st.columns(2, gap="small")
    if not kept.empty:
        with left:
            figure_card.show(
                tokens.retained(kept, dark=dark), source, key="retained", title="What the model remembers",
                note="nats per token above the public model; 0: nothing memorised", table=kept, linked=True, live=live,
            )  # fmt: skip
    if not leaks.empty:
        with right:
            last = leaks[leaks["after_task"] == leaks["after_task"].max()]
            printed = last[last["planted"] == last["planted"].max()]["extracted"].mean()
            figure_card.show(
                tokens.exposure(leaks, dark=dark), source, key="exposure", title="Planted secrets",
                note="dotted: a code never seen in training, 1.44 bits", table=leaks, linked=True, live=live,
                caption=f"{tokens.exposure_history(leaks)} The planted codes prove that the model's ε is at least "
                f"{last['epsilon_at_least'].max():.2g} ({100 * last['confidence'].max():.0f} % confidence). Greedy "
                f"continuation prints {100 * printed:.0f} % of the codes planted most often. A code that is unusually "
                "unlikely is a trace, too.",
            )  # fmt: skip
    if kept.empty and leaks.empty:
        st.caption(
            "Memorisation and planted secrets appear after the first task." if live else "This run measured no memorisation."
        )


def tables(result: Result, epsilon: float) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Memorisation and leaks at one budget; columns as in `runs.frames`."""
    kept, leaks = frames.retained(result.events), frames.leaks(result.events)
    return kept[kept["epsilon"] == epsilon], leaks[leaks["epsilon"] == epsilon]
