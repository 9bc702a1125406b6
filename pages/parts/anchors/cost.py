"""What the matching costs in privacy: replay, head and total apart, by more than one accountant where there are some."""

from __future__ import annotations

import math

import streamlit as st

from dpcl_core.events import Guarantee
from dpcl_core.privacy.statement import shown
from pages.parts.anchors.play import Play
from pages.parts.shell import layout
from pages.parts.shell.text import plain

_NO_HEAD = "—"


def of_play(play: Play) -> None:
    """What the simulated releases would cost if the digits were private data. Numbers of the noise, not of this data."""
    from dpcl_core.lessons import modes
    from dpcl_core.privacy import cslr_accounting

    with layout.card("anchor-cost"):
        st.markdown("**What it would cost**")
        if play.is_local:
            world = modes.world(play.kind, play.length, play.clients, play.draw)
            std = modes.std_of_lists(world, 4.0)
            st.markdown(
                f"The server sees every client's own list, so against the server this is **local** protection: the noise "
                f"must hide a whole list, and no other client helps. For ε = 4 over {modes.N_ROUNDS} rounds it takes noise "
                f"**{std:.2g}** on each coordinate of a mean; here it is **{play.noise:g}**. Groups lie about 0.4 apart."
            )
            st.caption("Head: none is trained here. One client's list counts as its means, clipped together.")
            return
        if math.isinf(play.budget):
            st.markdown("Without noise there is no bound: replay ε = ∞, head none, total ε = ∞.")
            return
        reading = cslr_accounting.Reading(
            modes.noise_multiplier(play.budget), n_rounds=modes.N_ROUNDS, n_statistics=1, sampling="everyone",
            n_clients=play.clients, delta=modes.DELTA,
        )  # fmt: skip
        found = cslr_accounting.costs(reading)
        st.markdown(
            "| | replay | head | total |\n|---|---:|---:|---:|\n"
            f"| asked for | {shown(play.budget)} | {_NO_HEAD} | {shown(play.budget)} |\n"
            f"| computed, PLD | {_number(found.pld)} | {_NO_HEAD} | **{_number(found.pld)}** |\n"
            f"| computed, RDP | {_number(found.rdp)} | {_NO_HEAD} | {_number(found.rdp)} |\n"
        )
        st.caption(
            f"All {play.clients} clients in each of {modes.N_ROUNDS} rounds, nothing sampled. Noise: "
            f"{reading.noise_multiplier:.3g} times the sensitivity B√K of a client's clipped vector of all groups; a client "
            f"more or less, δ = {modes.DELTA:g}. Matching reads a client's own entries and earlier releases alone: it costs "
            "nothing. No head is trained here. The noise comes from an ordinary generator, for demonstration."
        )


def of_run(given: Guarantee | None, *, is_over: bool) -> None:
    """A run's three numbers, its assumptions, and where its claim is taken apart."""
    with layout.card("anchor-cost"):
        st.markdown("**What it costs**")
        if given is None:
            text = "No model was finished, so nothing is stated." if is_over else "Stated as soon as a model is finished."
            st.caption(text)
            return
        claimed = given.claim.epsilon if given.claim is not None else None
        rows = "".join(f"| {plain(name)} | {shown(value)} |\n" for name, value in given.parts.items())
        if claimed is not None:
            rows += f"| claimed, not verified | {shown(claimed)} |\n"
        st.markdown(f"| | ε |\n|---|---:|\n{rows}| **total** | **{shown(given.epsilon)}** |\n")
        st.caption(plain(f"δ = {given.delta:g}; {given.adjacency}; {given.composition}. Parts compose; they do not add up."))
        for text in (*given.assumptions, *given.caveats):
            st.markdown(f"- {plain(text)}")
        st.page_link("pages/privacy.py", label=":primary[Claimed and computed, assumption by assumption →]")


def _number(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.3g}"
