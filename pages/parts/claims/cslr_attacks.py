"""Attacks on CSLR as printed, to be played: its noise over all rounds, clustered lists, the head in the clear."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

import streamlit as st

from dpcl_core.figures.picture import epsilon_text
from pages.parts.claims.calculator import TRIALS, Game, attacks
from pages.parts.shell import link
from pages.parts.shell.view import View

if TYPE_CHECKING:
    from dpcl_core.privacy.cslr_accounting import Reading

FIELDS: list[link.Field[Any]] = [link.Field("r_claim", "rx", "claim that is attacked", link.Number(1.0, 8.0), 4.0)]


def part(view: View, reading: Reading, claims: Mapping[float, float]) -> float:
    """Which claim (epsilon: noise multiplier) is attacked, and what each attack proves once played; gives the claim."""
    from dpcl_core.attacks.cslr_games import ATTACKS, Setting, audited
    from dpcl_core.privacy.lower_bound import bound_of_counts

    asked = cast(float, view["r_claim"])
    start = asked if asked in claims else 4.0
    st.markdown("**Attack it**")
    chosen = st.segmented_control(
        "Claim that is attacked, not verified", list(claims), default=start, required=True, key=view.key("r_claim"),
        format_func=lambda epsilon: f"ε = {epsilon_text(epsilon)}, σ = {claims[epsilon]:g}",
    )  # fmt: skip
    claimed = chosen if chosen in claims else start
    rate = 1.0 if reading.sampling == "everyone" else reading.sample_rate
    setting = Setting(
        claimed, claims[claimed] / reading.sensitivity, reading.n_rounds, rate, reading.delta,
        n_statistics=reading.n_statistics * (2 if reading.with_list else 1),
    )  # fmt: skip
    st.caption(
        "Real games with the noise of this reading, on invented clients: is one of them in, or not? Each rule is fixed on "
        "releases of the attacker's own making. Each takes seconds, the second one more of them."
    )
    # Lists are of a run whose clients noise them; the card of a server that sees them has what they cost.
    games = {name: attack for name, attack in ATTACKS.items() if name != "lists"}
    attacks(
        (Game(name, one.title, one.adversary, one.n_releases(TRIALS)) for name, one in games.items()),
        lambda name: audited(setting, name, TRIALS),
        setting,
        key="list-audit",
        than=lambda found: f"the claimed {found.claimed:g}",
        more=lambda name, found: _found(found.attack.removeprefix(games[name].attack).removeprefix("; ")),
    )
    most = {n: math.floor(100 * bound_of_counts(n, n, 0, n, reading.delta)) / 100 for n in (TRIALS, 10 * TRIALS, 100)}
    st.caption(
        f"Without one error {TRIALS:,} releases a side prove {most[TRIALS]:.2f}, {10 * TRIALS:,} prove "
        f"{most[10 * TRIALS]:.2f} and 100 prove {most[100]:.2f}, no more: the number of rounds limits what can be shown, "
        "not the attack."
    )
    return claimed


def _found(said: str) -> str:
    """What an attack says of how it went, as a sentence of its own."""
    return f" {said[0].upper()}{said[1:]}." if said else ""
