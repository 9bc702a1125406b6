"""Said before Start: budgets that need more noise than the model can survive. A note, never a refusal."""

from __future__ import annotations

import streamlit as st

from dpcl_core.backbones import catalog as backbones
from dpcl_core.data import catalog as datasets
from dpcl_core.errors import BadInput
from dpcl_core.methods.common.public_sizes import of_spec
from dpcl_core.methods.noise_forecast import forecast
from dpcl_core.privacy import noise_forecast
from dpcl_core.spec import RunSpec
from pages.parts.shell.text import plain


def show(spec: RunSpec) -> None:
    """The note, where there is one and the size of the features is known beforehand: what to expect, the rest on demand."""
    if found := _note(spec.model_dump_json(), spec):
        short, text = found
        with st.popover(plain(short), type="tertiary", width="stretch"):
            st.markdown(plain(text))


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
        return None  # said where the form is checked
    n_home = n_home or facts.n_classes / facts.n_tasks
    try:
        outlooks = forecast(_spec, n_features=n_features, classes_per_task=n_home, facts=facts)
    except BadInput as refused:
        return "ε: one budget is out of reach", f"{refused}."
    text = noise_forecast.note(outlooks)
    return (noise_forecast.headline(outlooks), text) if text is not None else None


def _n_features(spec: RunSpec) -> int | None:
    """The network's own number; else as many as an example has values; None where only loading tells."""
    known = backbones.card(spec.data.backbone).feature_dim
    if known is not None or spec.data.backbone != "pixels":
        return known
    return datasets.card(spec.data.dataset).n_values
