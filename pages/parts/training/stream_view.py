"""The stream that the form describes, before anything runs: one sentence always, its picture when it is opened."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import streamlit as st
from numpy.typing import NDArray

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

_NOT_HERE = "It is drawn once the dataset is on this computer; nothing is downloaded for it."
_NO_FIT = "It is drawn once the settings fit the data."
_OWN = (
    "Only the plan is shown, which is public: which class is at home in which task. How many examples of yours each task "
    "would get is private, and counting them here would be a release that no budget covers."
)
_AGAIN = "Every task has the same examples, so that what is spent on one of them adds up over the tasks."

_CLIENTS_AGAIN = "A client may be in every task, so that what is spent on one adds up over the tasks."


def stream(view: View, values: Mapping[str, object], *, is_open: bool) -> None:
    """An expander with the stream of the form's first seed; `is_open`: at first, until the visitor closes it."""
    try:
        spec = _asked(values)
        found = _preview(spec)
    except BadInput:
        st.caption(f"**The stream.** {_NO_FIT}")
        return
    if found is None:
        st.caption(f"**The stream.** {_NOT_HERE}")
        return
    drawn = _picture(found, style.is_dark())
    box = st.expander(f"**The stream.** {plain(drawn.finding)}", expanded=is_open, key=view.key("stream"), on_change="rerun")
    if not box.open:
        return
    with box:
        own = datasets.card(spec.data.dataset).is_own
        what = "blue: at home" if own else "stronger blue: more training examples; frame: home task; bars: all of a task"
        seed = f"seed {spec.seeds[0]}" + (f"; {_of_others(spec, found)}" if len(spec.seeds) > 1 else "")
        st.plotly_chart(drawn.figure, theme=None, width="stretch", key="chart-stream", config=CONFIG, alt=drawn.alt)
        said = [f"Class by task; {what}; {seed}."]
        if found.held is not None:
            said.append(f"{len(found.held)} clients hold {found.held.min():,} to {found.held.max():,} examples each.")
        if spec.scenario.recurrence == "every":
            said.append(_AGAIN if spec.scenario.n_users is None else _CLIENTS_AGAIN)
        st.caption(" ".join([*said, *([_OWN] if own else [])]))


def _asked(values: Mapping[str, object]) -> RunSpec:
    """The data, the scenario and the seeds of the form, whatever its other settings are. Raises BadInput."""
    raw = train_form.raw_of(values)
    return checks.parse({name: raw[name] for name in ("data", "scenario", "seeds")})


def _preview(spec: RunSpec, place: int = 0) -> Preview | None:
    from dpcl_core.scenarios.preview import preview  # loads parquet's library

    return preview(spec.data, spec.scenario, spec.seeds[place])


def _of_others(spec: RunSpec, found: Preview) -> str:
    """What the second seed's stream says of the others."""
    if scenarios.card(spec.scenario.kind).needs_values:
        return "every seed draws other orders of the values"
    if spec.scenario.n_users is not None:
        return "every seed deals the examples out to clients anew"
    other = _preview(spec, 1)
    shown = [(one.tasks, one.homes, _listed(one.counts)) for one in (found, other) if one is not None]
    return "every seed has the same" if shown[0] == shown[-1] else "every seed has another"


def _listed(counts: NDArray[np.int64] | None) -> list[list[int]] | None:
    return None if counts is None else counts.tolist()


@lru_cache(maxsize=60)
def _picture(found: Preview, dark: bool) -> Picture:
    from dpcl_core.figures import stream as drawing

    return drawing.stream(found.counts, homes=found.homes, classes=found.classes, tasks=found.tasks, dark=dark)
