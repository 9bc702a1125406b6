"""The button beside a refusal that puts settings in their place which can be carried out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import streamlit as st

from dpcl_core import checks
from dpcl_core.backbones import catalog as backbones
from dpcl_core.data import catalog as datasets
from dpcl_core.figures.picture import epsilon_text
from dpcl_core.methods import catalog as methods
from dpcl_core.scenarios import catalog as scenarios
from pages.parts.shell import setting_names
from pages.parts.shell.text import plain
from pages.parts.shell.view import View
from pages.parts.training import train_form


def button(view: View, values: train_form.Values, fix: Mapping[str, object] | None = None) -> None:
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
