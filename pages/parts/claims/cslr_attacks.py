"""Attacks on CSLR as printed: on its noise over all rounds, on clustered lists, and on the head without noise."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, cast

import streamlit as st

from dpcl_core.figures.picture import epsilon_text
from dpcl_core.privacy.cslr_claim import TABLE_5
from pages.parts.claims.calculator import TRIALS, Game, attacks
from pages.parts.shell import link
from pages.parts.shell.view import View

if TYPE_CHECKING:
    from dpcl_core.privacy.cslr_accounting import Reading

FIELDS: list[link.Field[Any]] = [link.Field("r_claim", "rx", "claim that is attacked", link.Number(1.0, 8.0), 4.0)]


def part(view: View, reading: Reading) -> float:
    """Draws the choice of a claim and its attacks; returns the chosen claim."""
    from dpcl_core.attacks.cslr_games import ATTACKS, Setting, audited
    from dpcl_core.privacy.lower_bound import bound_of_counts

    linked = cast(float, view["r_claim"])
    start = linked if linked in TABLE_5 else 4.0
    st.markdown("**Attack it**")
    chosen = st.segmented_control(
        "Claim that is attacked, not verified", list(TABLE_5), default=start, required=True, key=view.key("r_claim"),
        format_func=lambda epsilon: f"ε = {epsilon_text(epsilon)}, σ = {TABLE_5[epsilon]:g}",
    )  # fmt: skip
    claimed = chosen if chosen in TABLE_5 else start
    setting = Setting(
        claimed, TABLE_5[claimed] / reading.sensitivity, reading.n_rounds, reading.sample_rate, reading.delta,
        n_statistics=reading.n_statistics * (2 if reading.with_list else 1),
    )  # fmt: skip
    st.caption(
        "Real attacks on the noise of this reading, with simulated clients: does one of them take part? Each decision rule "
        "is fixed beforehand on the attacker's own releases. Each attack takes seconds, the second one longer."
    )
    # The attack on lists needs a run whose clients add noise; its cost is on the card about local privacy.
    games = {name: attack for name, attack in ATTACKS.items() if name != "lists"}
    attacks(
        (Game(name, one.title, one.adversary, one.n_releases(TRIALS)) for name, one in games.items()),
        lambda name: audited(setting, name, TRIALS),
        setting,
        key="list-audit",
        than=lambda result: f"the claimed {result.claimed:g}",
        more=lambda name, result: _sentence(result.attack.removeprefix(games[name].attack).removeprefix("; ")),
    )
    most = {n: math.floor(100 * bound_of_counts(n, n, 0, n, reading.delta)) / 100 for n in (TRIALS, 10 * TRIALS, 100)}
    st.caption(
        f"Without any error, {TRIALS:,} releases per side prove at most {most[TRIALS]:.2f}, {10 * TRIALS:,} at most "
        f"{most[10 * TRIALS]:.2f} and 100 at most {most[100]:.2f}: the number of rounds is the limit, not the attack."
    )
    return claimed


def _sentence(remark: str) -> str:
    """An attack's remark on its outcome as a separate sentence; empty for none."""
    return f" {remark[0].upper()}{remark[1:]}." if remark else ""
