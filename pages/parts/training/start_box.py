"""The box with Start: what a run of the form would take, why it may not be started, and the button."""

from __future__ import annotations

from typing import TYPE_CHECKING

import streamlit as st

from dpcl_core import presets
from dpcl_core.errors import BadInput
from dpcl_core.methods import catalog as methods
from dpcl_core.methods.common.public_sizes import of_spec
from dpcl_core.papers import questions
from dpcl_core.spec import RunSpec
from pages.parts.claims import privacy_bar
from pages.parts.rooms import membership
from pages.parts.shell import state, status_line
from pages.parts.shell.text import plain
from pages.parts.shell.view import View
from pages.parts.training import mending, noise_warning, question_picker, train_form, wording

if TYPE_CHECKING:
    from dpcl_core.runs.run import Split


def draw(
    view: View, values: train_form.Values, spec: RunSpec | None, refusal: str | None, device: str, split: Split | None
) -> None:
    """Draws the box for the form's spec, or for the sentence that refuses its values."""
    with st.container(key="start-box", gap="small"):
        if refusal:
            st.error(plain(refusal))
            mending.button(view, values)
            question_picker.smaller(view, values)
        elif spec is not None:
            noise_warning.show(spec)
            privacy_bar.looks(spec.data.dataset)
            layer = methods.layer(spec)
            named = "" if layer is None else f" Layer: {plain(layer.title)}."
            st.caption(_estimate(spec, device) + named, help=None if layer is None else plain(layer.words))
        costly = _costly(spec, device)
        if costly:
            st.error(plain(wording.in_words(costly, values)))
            if costly.fix:
                mending.button(view, values, costly.fix)
        is_off = spec is None or costly is not None
        if st.button("Start", type="primary", width="stretch", disabled=is_off, key="start") and spec is not None:
            _start(spec, device, split)


def _estimate(spec: RunSpec, device: str) -> str:
    waiting = sum(state.store().queues().get(device, ()))
    queue = "Queue: empty." if not waiting else f"Queue: {waiting} before it."
    n_models = spec.n_cells
    models = f"{n_models} model{'s' if n_models > 1 else ''}."
    seconds, is_here = _seconds(spec, device)
    parts = [_derived(key=spec.model_dump_json(), _spec=spec), models, status_line.estimate(seconds, is_here=is_here), queue]
    return " ".join(filter(None, parts))


@st.cache_data(max_entries=200, show_spinner=False)
def _derived(key: str, _spec: RunSpec) -> str:
    """Quantities derived from the method's settings on this dataset, in words; `key` identifies the spec for the cache."""
    card, facts = methods.card(_spec.method), of_spec(_spec)
    return " ".join(filter(None, [card.derived(_spec.params, facts), card.totals(_spec, facts)]))


def _seconds(spec: RunSpec, device: str) -> tuple[float | None, bool]:
    """The expected duration from past runs of this spec, else from the preset with this spec; whether it is from here."""
    here, preset = state.store().estimate_seconds(spec, device=device), _preset_of(spec)
    return (here if here is not None or preset is None else preset.seconds), here is not None


def _costly(spec: RunSpec | None, device: str) -> BadInput | None:
    """Why such a run may not be started: above a limit of a shared server, or a budget of own data; None: it may be."""
    from dpcl_core.runs import budgets

    store = state.store()
    if spec is None:
        return None
    try:
        if store.visitor is not None:
            store.check_cost(spec, _seconds(spec, device)[0])
        budgets.check(store, spec)
    except BadInput as refused:
        return refused
    return None


def _preset_of(spec: RunSpec) -> presets.Preset | None:
    """The preset with this very spec."""
    digest = spec.digest()
    return next((presets.about(name) for name in presets.names() if questions.digests(name)[0] == digest), None)


def _start(spec: RunSpec, device: str, split: Split | None) -> None:
    from dpcl_core.runs import devices

    preset = _preset_of(spec)
    here = device if split is None else devices.here(device)  # its own process gathers what the parts give
    run_id = state.store().create(spec, name=None if preset is None else preset.title, device=here, split=split)
    membership.share([run_id])
    state.executor().submit(run_id)
    st.session_state["show-run"] = run_id
    st.rerun()
