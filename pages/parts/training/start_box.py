"""The box with Start: what a run of the form would take, why it may not be started, and the button."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

import streamlit as st

from dpcl_core import checks, presets
from dpcl_core.backbones import catalog as backbones
from dpcl_core.data import catalog as datasets
from dpcl_core.errors import BadInput
from dpcl_core.figures.picture import epsilon_text
from dpcl_core.methods import catalog as methods
from dpcl_core.methods.common.public_sizes import of_spec
from dpcl_core.methods.noise_forecast import forecast
from dpcl_core.papers import questions
from dpcl_core.privacy import noise_forecast
from dpcl_core.scenarios import catalog as scenarios
from dpcl_core.spec import RunSpec
from pages.parts.claims import privacy_bar
from pages.parts.rooms import membership
from pages.parts.shell import layout, setting_names, state, status_line
from pages.parts.shell.text import plain
from pages.parts.shell.view import View
from pages.parts.training import question_picker, train_form, wording

if TYPE_CHECKING:
    from dpcl_core.runs.run import Split


def draw(
    view: View, values: train_form.Values, spec: RunSpec | None, refusal: str | None, device: str, split: Split | None
) -> None:
    """Draws the box for the form's spec, or for the sentence that refuses its values."""
    with st.container(key="start-box", gap="small"):
        if refusal:
            st.error(plain(refusal))
            _mend_button(view, values)
            question_picker.smaller(view, values)
        elif spec is not None:
            _noise_warning(spec)
            privacy_bar.looks(spec.data.dataset)
            layer = methods.layer(spec)
            named = "" if layer is None else f" Layer: {plain(layer.title)}."
            st.caption(_estimate(spec, device) + named, help=None if layer is None else plain(layer.words))
        costly = _costly(spec, device)
        if costly:
            st.error(plain(wording.in_words(costly, values)))
            if costly.fix:
                _mend_button(view, values, costly.fix)
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


def _noise_warning(spec: RunSpec) -> None:
    """Draws the note, if there is one and the feature dimension is known beforehand: a headline, with details on demand."""
    if note := _note(key=spec.model_dump_json(), _spec=spec):
        short, text = note
        box = layout.popover(plain(short), "noise-warning", type="tertiary", width="stretch")
        if box is not None:
            box.markdown(plain(text))


@st.cache_data(max_entries=200, show_spinner=False)
def _note(key: str, _spec: RunSpec) -> tuple[str, str] | None:
    from dpcl_core.scenarios.preview import classes_per_task  # loads parquet's library

    n_features = _n_features(_spec)
    if n_features is None:
        return None
    try:
        facts = of_spec(_spec)
        n_home = classes_per_task(_spec.data, _spec.scenario, _spec.seeds[0])
    except BadInput:
        return None  # reported where the form is checked
    n_home = n_home or facts.n_classes / facts.n_tasks
    try:
        forecasts = forecast(_spec, n_features=n_features, classes_per_task=n_home, facts=facts)
    except BadInput as refused:
        return "ε: one budget is out of reach", f"{refused}."
    text = noise_forecast.note(forecasts)
    return (noise_forecast.headline(forecasts), text) if text is not None else None


def _n_features(spec: RunSpec) -> int | None:
    """Feature dimension of the backbone, else of the example; None if unknown before loading."""
    dimension = backbones.card(spec.data.backbone).feature_dim
    if dimension is not None or spec.data.backbone != "pixels":
        return dimension
    return datasets.card(spec.data.dataset).n_values


def _mend_button(view: View, values: train_form.Values, fix: Mapping[str, object] | None = None) -> None:
    """Draws "Use … instead" for refused settings: by this `fix`, else if the refusals on the way say what to use."""
    raw = train_form.raw_of(values)
    changes = fix or checks.repair(raw)
    if not changes:
        return

    def mend() -> None:
        mended = train_form.values_of(checks.parse(checks.changed(raw, changes)))
        if values["delta"] is None and "privacy.delta" not in changes:
            mended["delta"] = None  # by the rule for the new data
        method, scenario = str(mended["method"]), str(mended["scenario"])
        shown = {name: view[name] for name in ("run", "study", "question")}
        view.go(train_form.codec(method, scenario).write({**mended, **shown}))

    mended = {**values, **_chosen(changes)}
    named = [word for key, value in changes.items() if (word := _word(key, value, mended))]
    label = f"Use {named[0]} instead" if len(named) == 1 else "Use settings that go together"
    st.button(label, key="mend", width="stretch", on_click=mend)
    if len(named) > 1:
        st.caption(plain(f"They are: {'; '.join(named)}."))


def _chosen(changes: Mapping[str, object]) -> train_form.Values:
    """The method and the stream that these changes choose."""
    chosen: train_form.Values = {"method": changes["method"]} if "method" in changes else {}
    if "scenario" in changes:
        chosen["scenario"] = cast("Mapping[str, object]", changes["scenario"])["kind"]
    return chosen


def _word(key: str, value: object, mended: train_form.Values) -> str:
    """A change as the form with the mended values says it; empty for a value left out, which goes with another change."""
    if setting := setting_names.setting_of(key, str(mended["method"]), str(mended["scenario"])):
        return f"an empty “{setting.title}”" if value is None else f"“{setting.title}” = {setting.shown(value)}"
    if value is None:
        return ""
    match key:
        case "params":
            return "the method's defaults"
        case "method":
            return methods.card(str(value)).title
        case "data.dataset":
            return datasets.card(str(value)).title
        case "data.backbone":
            return backbones.card(str(value)).title
        case "scenario":
            return scenarios.card(str(cast("Mapping[str, object]", value)["kind"])).title
        case "labels":
            return f"“{setting_names.LABELS[str(value)][0]}” as label list"
        case "privacy.epsilons":
            return f"ε = {'; '.join(epsilon_text(epsilon) for epsilon in cast('tuple[float, ...]', value))}"
        case "privacy.delta":
            return f"δ = {value:g}"
        case "privacy.adjacency":
            return f"“{setting_names.adjacency(str(mended['scenario']))[str(value)]}”"
    return f"“{setting_names.TITLES.get(key, key)}” = {value}"
