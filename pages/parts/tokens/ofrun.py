"""What a run told of its texts: the heatmap of the current task, memory kept and removed, exposure of planted secrets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import streamlit as st

from dpcl_core.events import Leaks, Retained, TokensScored
from dpcl_core.explorers.token_layers import dials_of
from pages.parts.shell import figure_card, layout, style
from pages.parts.shell.text import plain
from pages.parts.tokens import heat

if TYPE_CHECKING:
    import pandas as pd

    from dpcl_core.results import Result


def has_any(result: Result) -> bool:
    """Whether the run has told of tokens, of memory or of planted secrets."""
    return any(isinstance(event, (TokensScored, Retained, Leaks)) for event in result.said)


def now(result: Result, epsilon: float, *, key: str) -> None:
    """The first text that the run scored last, of one budget: what is being learned, while it is."""
    said = [event for event in result.said if isinstance(event, TokensScored) and event.cell.epsilon == epsilon]
    if not said or not said[-1].texts:
        return
    event = said[-1]
    text = event.texts[0]
    names = result.started.task_names if result.started is not None else ()
    task = f"task {event.task + 1}" + (f", {names[event.task]}" if event.task < len(names) else "")
    model = "the frozen public model" if event.model == "base" else "the model after the task"
    with layout.card(f"heat-{key}"):
        st.markdown(f"**Which words are treated as sensitive?** :small[{plain(task)}; scored by {model}]")
        layer = heat.picker("score", f"layer-{key}")
        heat.show(text, layer, dials_of(result.spec, epsilon), f"A text of {task}", key=f"heatmap-{key}")
        if result.run_id is not None:
            query = {"v": "1", "sh": "run", "run": result.run_id, "t": str(event.task + 1)}
            st.page_link("pages/tokens.py", label=":primary[All of it on the Tokens page →]", query_params=query)


def figures(result: Result, epsilon: float, *, share: Mapping[str, str] | None, live: bool) -> None:
    """Memory kept and removed, and exposure before and after, of the models of one budget (mean over seeds)."""
    from dpcl_core.figures import tokens

    kept, leaks = tables(result, epsilon)
    dark, source = style.is_dark(), result.provenance
    left, right = st.columns(2, gap="small")
    if not kept.empty:
        with left:
            figure_card.show(
                tokens.retained(kept, dark=dark), source, key="retained", title="What the model remembers",
                note="nats a token above the public model; 0: nothing kept", table=kept, share=share, live=live,
            )  # fmt: skip
    if not leaks.empty:
        with right:
            figure_card.show(
                tokens.exposure(leaks, dark=dark), source, key="exposure", title="Planted secrets",
                note="dotted: a code never seen, 1.44 bits", table=leaks, share=share, live=live,
            )  # fmt: skip
            last = leaks[leaks["after_task"] == leaks["after_task"].max()]
            printed = last[last["planted"] == last["planted"].max()]["extracted"].mean()
            st.caption(
                f"{tokens.course(leaks)} Proven by planted codes: ε of the model is at least "
                f"{last['epsilon_at_least'].max():.2g} ({100 * last['confidence'].max():.0f} % confidence). Of those "
                f"planted most, {100 * printed:.0f} % are printed by greedy continuation. Standing "
                "out from the unlikely end is a trace too."
            )
    if kept.empty and leaks.empty:
        st.caption("Memory and planted secrets are told of after the first task." if live else "It told of no memory.")


def tables(result: Result, epsilon: float) -> tuple[pd.DataFrame, pd.DataFrame]:
    """What is retained and what leaks, of one budget; columns as `runs.frames` has them."""
    from dpcl_core.runs import frames

    kept, leaks = frames.retained(result.said), frames.leaks(result.said)
    return kept[kept["epsilon"] == epsilon], leaks[leaks["epsilon"] == epsilon]
