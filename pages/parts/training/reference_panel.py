"""Where a run ended between chance, the untrained network and the ceiling, and a button that computes the ceiling."""

from __future__ import annotations

from typing import TYPE_CHECKING

import streamlit as st

from dpcl_core.errors import BadInput
from dpcl_core.papers import ceilings
from dpcl_core.results import Result
from pages.parts.shell import state, stored_results
from pages.parts.shell.text import plain
from pages.parts.training.run_panel import attempt

if TYPE_CHECKING:
    from dpcl_core.spec import RunSpec

HELP = """**Guessing**: always the answer that is most frequent in the public test part. **Untrained**: the public network as
it came. An encoder of texts takes the label whose name is nearest, a language model answers; a network of pictures has never
heard of the labels and can only guess. **All at once without noise**: the same kind of model trained on all tasks together,
without privacy. All are means over the tasks, after the last one."""
_ON_DEMAND = "Trains on all tasks at once without noise, for comparison. Nothing protects it: for public benchmarks only."

_NO_CEILING = "No ceiling: learning all tasks at once reached less than other runs do, or than the untrained network."


def panel(result: Result, chosen: float) -> None:
    """Draws the sentence for the chosen budget, a warning if budgets cannot be told from chance, and the button."""
    said = result.placed(chosen)
    if not said:
        return
    with st.container(key="references-row", horizontal=True, vertical_alignment="center", gap="small"):
        st.markdown(f"**{plain(said)}**", help=HELP, width="stretch")
        if result.run_id is not None and result.references.ceiling is None:
            _button(result)
    if result.lost:
        st.warning(plain(result.lost))


def _button(result: Result) -> None:
    try:
        wanted = ceilings.settings(result.spec)
    except BadInput:
        return  # a person's own data, or no method that takes these tasks at once
    under_way = next((run for run in state.store().unfinished() if run.readable_spec == wanted), None)
    if under_way is not None:
        _watch(under_way.id)
        return
    if stored_results.is_ceiling_tried(result.spec):
        st.caption(_NO_CEILING)
        return
    st.button("Compute the ceiling", key="ceiling", help=_ON_DEMAND, on_click=attempt(lambda: _start(result, wanted)))


@st.fragment(run_every=1.0)
@state.guarded
def _watch(run_id: str) -> None:
    """Draws the state of the ceiling's run; when it ends, reruns the page without a timer."""
    run = state.store().get(run_id)
    if run.is_over:
        stored_results.look_for_ceilings()
        st.rerun()
    st.caption(f"Ceiling: {run.status} …", width="content")


def _start(result: Result, wanted: RunSpec) -> None:
    """Queues the run of the ceiling, unless it has ended meanwhile. Raises BadInput if it cannot be carried out here."""
    from dpcl_core import checks
    from dpcl_core.runs import devices

    stored_results.look_for_ceilings()
    if stored_results.is_ceiling_tried(result.spec):
        return
    checks.check(wanted)
    run_id = state.store().create(wanted, name=f"Ceiling of {result.name}"[:100], device=devices.default())
    state.executor().submit(run_id)
