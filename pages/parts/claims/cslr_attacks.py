"""Attacks on CSLR as printed, to be played: its noise over all rounds, clustered lists, the head in the clear."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

import streamlit as st

from dpcl_core.figures.picture import epsilon_text
from pages.parts.shell import link
from pages.parts.shell.view import View

if TYPE_CHECKING:
    from dpcl_core.privacy.cslr_accounting import Reading

TRIALS = 1000
FIELDS: list[link.Field[Any]] = [link.Field("r_claim", "rx", "claim that is attacked", link.Number(1.0, 8.0), 4.0)]


def part(view: View, reading: Reading, claims: Mapping[float, float]) -> dict[str, object]:
    """The card: which claim (epsilon: noise multiplier) is attacked, and what each attack proves once it was played."""
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
    kept = st.session_state.setdefault("list-audits-done", {})
    for name, attack in ATTACKS.items():
        if name == "lists":  # of a run whose clients noise them; the card of a server that sees them has what they cost
            continue
        st.markdown(f"**{attack.title}.** The attacker {attack.adversary}.")
        if st.button(f"Play {2 * attack.n_releases(TRIALS):,} rounds", key=f"list-audit-{name}"):
            with st.spinner("Playing ..."):
                kept[name, setting] = audited(setting, name, TRIALS)
        if (found := kept.get((name, setting))) is not None:
            least = math.floor(100 * found.lower_bound) / 100
            verdict = "more" if least > found.claimed else "no more"
            more = found.attack.removeprefix(attack.attack).removeprefix("; ")
            st.markdown(
                f"Audited: **ε is at least {least:.2f}**, {verdict} than the claimed {found.claimed:g} "
                f"({found.confidence:.0%} confidence, {found.trials:,} releases a side, δ = {found.delta:g})."
                + (f" {more[0].upper()}{more[1:]}." if more else "")
            )
    most = {n: math.floor(100 * bound_of_counts(n, n, 0, n, reading.delta)) / 100 for n in (TRIALS, 10 * TRIALS, 100)}
    st.caption(
        f"Without one error {TRIALS:,} releases a side prove {most[TRIALS]:.2f}, {10 * TRIALS:,} prove "
        f"{most[10 * TRIALS]:.2f} and 100 prove {most[100]:.2f}, no more: the number of rounds limits what can be shown, "
        "not the attack."
    )
    return {"r_claim": claimed}
