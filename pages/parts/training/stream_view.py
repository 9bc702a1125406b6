"""A preview of the form's stream before any run: a sentence, and a figure when opened."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING

import streamlit as st

from dpcl_core import checks
from dpcl_core.data import catalog as datasets
from dpcl_core.errors import BadInput
from dpcl_core.scenarios import catalog as scenarios
from dpcl_core.spec import RunSpec
from pages.parts.shell import style
from pages.parts.shell.figure_card import CONFIG
from pages.parts.shell.text import plain
from pages.parts.shell.view import View
from pages.parts.training import train_form

if TYPE_CHECKING:
    from dpcl_core.figures.picture import Picture
    from dpcl_core.scenarios.preview import Preview

_NOT_HERE = "It appears when the dataset is on this computer; a preview downloads nothing."
_NO_FIT = "It appears when the settings fit the data."
_OWN_DATA = (
    "Shown is only the public plan: the home task of each class. The number of your examples in each task is private; "
    "counting them here would be a release that no budget covers."
)
_SAME_EXAMPLES = "Every task has the same examples, so the privacy spent on an example adds up over the tasks."
_SAME_CLIENTS = "A client may be in every task, so the privacy spent on a client adds up over the tasks."


def stream(view: View, values: Mapping[str, object], *, is_open: bool) -> None:
    """Draws an expander with the stream of the form's first seed; `is_open`: whether it is open at first."""
    try:
        spec = _stream_spec(values)
        shown = _preview(spec)
    except BadInput:
        st.caption(f"**The stream.** {_NO_FIT}")
        return
    if shown is None:
        st.caption(f"**The stream.** {_NOT_HERE}")
        return
    drawn = _picture(shown, style.is_dark())
    box = st.expander(f"**The stream.** {plain(drawn.finding)}", expanded=is_open, key=view.key("stream"), on_change="rerun")
    if not box.open:
        return
    with box:
        is_own = datasets.card(spec.data.dataset).is_own
        what = "blue: home task" if is_own else "darker blue: more training examples; frame: home task; bars: totals by task"
        seed = f"seed {spec.seeds[0]}" + (f"; {_of_others(spec, shown)}" if len(spec.seeds) > 1 else "")
        st.plotly_chart(drawn.figure, theme=None, width="stretch", key="chart-stream", config=CONFIG, alt=drawn.finding)
        sentences = [f"Class by task; {what}; {seed}."]
        if shown.held is not None:
            sentences.append(f"{len(shown.held)} clients hold {shown.held.min():,} to {shown.held.max():,} examples each.")
        if spec.scenario.recurrence == "every":
            sentences.append(_SAME_EXAMPLES if spec.scenario.n_users is None else _SAME_CLIENTS)
        st.caption(" ".join([*sentences, *([_OWN_DATA] if is_own else [])]))


def _stream_spec(values: Mapping[str, object]) -> RunSpec:
    """The data, the scenario and the seeds of the form, whatever its other settings are. Raises BadInput."""
    raw = train_form.raw_of(values)
    return checks.parse({name: raw[name] for name in ("data", "scenario", "seeds")})


def _preview(spec: RunSpec, place: int = 0) -> Preview | None:
    from dpcl_core.scenarios.preview import preview  # loads parquet's library

    return preview(spec.data, spec.scenario, spec.seeds[place])


def _of_others(spec: RunSpec, first: Preview) -> str:
    """How the streams of other seeds differ, judged by the second seed."""
    if scenarios.card(spec.scenario.kind).needs_values:
        return "every seed draws other orders of the values"
    if spec.scenario.n_users is not None:
        return "every seed assigns the examples to clients differently"
    other = _preview(spec, 1)
    shown = [
        (one.tasks, one.homes, None if one.counts is None else one.counts.tolist())
        for one in (first, other)
        if one is not None
    ]
    return "every seed has the same stream" if shown[0] == shown[-1] else "every seed has another stream"


@lru_cache(maxsize=60)
def _picture(shown: Preview, dark: bool) -> Picture:
    from dpcl_core.figures import stream as drawing

    return drawing.stream(shown.counts, homes=shown.homes, classes=shown.classes, tasks=shown.tasks, dark=dark)
