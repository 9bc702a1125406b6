"""A note before Start about budgets whose noise will drown what the model learns. Never a refusal."""

from __future__ import annotations

import streamlit as st

from dpcl_core.backbones import catalog as backbones
from dpcl_core.data import catalog as datasets
from dpcl_core.errors import BadInput
from dpcl_core.methods.common.public_sizes import of_spec
from dpcl_core.methods.noise_forecast import forecast
from dpcl_core.privacy import noise_forecast
from dpcl_core.spec import RunSpec
from pages.parts.shell import layout
from pages.parts.shell.text import plain


def show(spec: RunSpec) -> None:
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
