"""The stream that a scenario makes of a file: the scenarios that the data allow, and the tasks of the one chosen."""

from __future__ import annotations

from typing import TYPE_CHECKING

import streamlit as st

from dpcl_core.errors import BadInput
from dpcl_core.scenarios import catalog as scenarios
from dpcl_core.spec import ScenarioSpec
from pages.parts.shell import layout, style
from pages.parts.shell.figure_card import CONFIG
from pages.parts.shell.text import plain

if TYPE_CHECKING:
    from dpcl_core.apart import Looked

_PLAN = "The public plan alone: how many of your examples a task has is private, and no budget covers counting them."
_KIND = "own-scenario-kind"
_UNEQUAL = "Groups of classes, not all equally large"


def draw(looked: Looked) -> ScenarioSpec:
    """Draws the choice and the stream; gives the scenario chosen."""
    if looked.plan is None:
        return looked.usual
    with layout.card("own-stream"):
        title, number = st.columns([3, 1])
        n_tasks = min(int(st.session_state.get("own-tasks", 2)), max(looked.streams))
        offered = looked.streams[n_tasks]
        if looked.usual not in offered and n_tasks == 2:
            offered = [looked.usual, *offered]
        kinds = [one.kind for one in offered]
        wanted = st.session_state.get(_KIND, looked.usual.kind)
        with title:
            place = st.selectbox(
                "Scenario", range(len(offered)), kinds.index(wanted) if wanted in kinds else 0,
                format_func=lambda place: _title(offered[place], looked), key=f"own-scenario-{'-'.join(kinds)}",
            )  # fmt: skip
        scenario = offered[place]
        if scenario.kind != looked.usual.kind:
            st.session_state[_KIND] = scenario.kind
        else:  # it follows the columns again
            st.session_state.pop(_KIND, None)
        with number:
            is_fixed = "tasks" not in type(scenario).model_fields
            st.number_input("Tasks", 2, max(looked.streams), n_tasks, key="own-tasks", disabled=is_fixed)
        _stream(looked, scenario)
    return scenario


def _title(scenario: ScenarioSpec, looked: Looked) -> str:
    if scenario == looked.usual and scenario.kind == "i-blurry":
        return _UNEQUAL
    return scenarios.card(scenario.kind).title


def _stream(looked: Looked, scenario: ScenarioSpec) -> None:
    from dpcl_core.figures import stream
    from dpcl_core.scenarios import preview

    assert looked.plan is not None
    try:
        shown = preview.planned(looked.plan, scenario, 0)
    except BadInput as refused:
        st.error(plain(str(refused)))
        return
    drawn = stream.stream(None, homes=shown.homes, classes=shown.classes, tasks=shown.tasks, dark=style.is_dark())
    st.markdown(f"**The stream.** {plain(drawn.finding)}")
    st.plotly_chart(drawn.figure, theme=None, width="stretch", key="own-chart", config=CONFIG, alt=drawn.finding)
    st.caption(f"{plain(scenarios.card(scenario.kind).summary)} {_PLAN}")
