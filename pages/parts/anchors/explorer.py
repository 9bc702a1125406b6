"""The simulation's lists to play with: noise and anchors move them, six can be matched by hand; drawn in the browser.

The element in `assets/anchors/` gets all it needs once; it reports noise, anchors and matcher only when they are let go.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache

import streamlit as st

from dpcl_core.elements.anchors import MATCHERS, document
from dpcl_core.elements.element import ANCHORS
from dpcl_core.explorers import anchor_play
from pages.parts.anchors.simulation import Setup
from pages.parts.shell import address, layout
from pages.parts.shell.mount import mounted, written
from pages.parts.shell.text import plain


def draw(setup: Setup, *, key: str) -> Setup:
    """Draws the card; returns the settings with which it was left."""
    with layout.card("anchor-play"):
        data = _data(setup.length, setup.m, setup.noise, setup.matcher)
        reported = mounted(ANCHORS)(key=key, data=data, on_settings_change=lambda: None).get("settings")
        now = left(reported, setup)
        with st.container(key="strip-anchor-play", horizontal=True, vertical_alignment="center", gap="small"):
            st.caption(plain(now.provenance().line()), width="stretch")
            st.download_button(
                "CSV", lambda: csv(now), "anchors.csv", "text/csv", key="csv-anchor-play", type="tertiary",
                on_click="ignore", help="The groups of every matcher at this noise and number of anchors",
            )  # fmt: skip
            address.offer()
    return now


@lru_cache(maxsize=16)
def _data(length: int, m: int, noise: float, matcher: str) -> bytes:
    return written(document(length, m, noise, matcher))


def csv(setup: Setup) -> str:
    """One row for each entry: client, true digit, and its group by every matcher."""
    import pandas as pd

    lists = anchor_play.read(setup.length)
    at, level = lists["counts"].index(setup.m), lists["noises"].index(setup.noise)
    truth = list(map(int, lists["modes"]))
    table = pd.DataFrame({"client": [entry // lists["n_modes"] for entry in range(len(truth))], "digit": truth})
    for name, by in lists["groups"].items():
        table[name] = list(map(int, by[at][level]))
    written: str = table.to_csv(index=False)
    return written


def left(reported: object, setup: Setup) -> Setup:
    """The settings that the browser reports; the given ones for what it cannot have reported."""
    if not isinstance(reported, Mapping):
        return setup
    keys = {name: key for key, name in MATCHERS.items()}
    matcher, m, noise = keys.get(str(reported.get("matcher"))), reported.get("m"), reported.get("noise")
    lists = anchor_play.read(setup.length)
    if matcher is None or m not in lists["counts"] or noise not in lists["noises"]:
        return setup
    return replace(setup, matcher=matcher, m=int(str(m)), noise=float(str(noise)))
