"""The privacy cost of matching: replay, head and total separately, by several accountants where they apply."""

from __future__ import annotations

import math

import streamlit as st

from dpcl_core.events import Guarantee
from dpcl_core.privacy.statement import shown
from pages.parts.anchors.simulation import Setup
from pages.parts.shell import layout
from pages.parts.shell.text import plain

_NO_HEAD = "—"


def of_simulation(setup: Setup) -> None:
    """Draws what the simulated releases would cost if the digits were private. Depends on the noise, not on the data."""
    from dpcl_core.lessons import modes
    from dpcl_core.privacy import cslr_accounting

    with layout.card("anchor-cost"):
        st.markdown("**What it would cost**")
        if setup.is_local:
            world = modes.world(setup.kind, setup.length, setup.clients, setup.draw)
            std = modes.std_of_lists(world, 4.0)
            st.markdown(
                f"The server sees every client's own list, so protection against the server is **local**: the noise must "
                f"hide a whole list, and averaging over clients does not help. For ε = 4 over {modes.N_ROUNDS} rounds it "
                f"takes noise **{std:.2g}** on each coordinate of a mean; here it is **{setup.noise:g}**. Groups are about "
                "0.4 apart."
            )
            st.caption("No head is trained here. A client's list counts as its means, clipped jointly.")
            return
        if math.isinf(setup.budget):
            st.markdown("Without noise there is no bound: replay ε = ∞, head none, total ε = ∞.")
            return
        reading = cslr_accounting.Reading(
            modes.noise_multiplier(setup.budget), n_rounds=modes.N_ROUNDS, n_statistics=1, sampling="everyone",
            n_clients=setup.clients, delta=modes.DELTA,
        )  # fmt: skip
        costs = cslr_accounting.costs(reading)
        layout.table(("ε", "replay", "head", "total"), (
            ("requested", shown(setup.budget), _NO_HEAD, shown(setup.budget)),
            ("computed, PLD", _number(costs.pld), _NO_HEAD, f"**{_number(costs.pld)}**"),
            ("computed, RDP", _number(costs.rdp), _NO_HEAD, _number(costs.rdp)),
        ))  # fmt: skip
        st.caption(
            f"All {setup.clients} clients take part in each of {modes.N_ROUNDS} rounds; nothing is sampled. Noise: "
            f"{reading.noise_multiplier:.3g} times B√K, the sensitivity of a client's clipped vector of all groups; one "
            f"client more or less, δ = {modes.DELTA:g}. Matching costs nothing: it reads only a client's own entries and "
            "earlier releases. No head is trained here. The noise comes from an ordinary generator, for demonstration."
        )


def of_run(given: Guarantee | None, *, is_over: bool) -> None:
    """Draws a run's ε for replay, head and total, its assumptions, and a link to the claim on the Privacy page."""
    with layout.card("anchor-cost"):
        st.markdown("**What it costs**")
        if given is None:
            text = "No model finished, so no ε is stated." if is_over else "The ε appears when the first model is finished."
            st.caption(text)
            return
        claimed = given.claim.epsilon if given.claim is not None else None
        rows = [(plain(name), shown(value)) for name, value in given.parts.items()]
        if claimed is not None:
            rows.append(("claimed, not verified", shown(claimed)))
        layout.table(("part", "ε"), [*rows, ("**total**", f"**{shown(given.epsilon)}**")])
        st.caption(plain(f"δ = {given.delta:g}; {given.adjacency}; {given.composition}. Parts compose; they do not add up."))
        for text in (*given.assumptions, *given.caveats):
            st.markdown(f"- {plain(text)}")
        st.page_link("pages/privacy.py", label=":primary[Claimed and computed, assumption by assumption →]")


def _number(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.3g}"
