"""Claimed, accounted, audited: Theorem 2 of Lai et al. term by term, a run's own claim, and attacks to be played."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, cast

import streamlit as st

from dpcl_core.data.dataset import Form
from dpcl_core.errors import BadInput
from dpcl_core.events import Guarantee
from dpcl_core.methods.lifelong.cards import claim
from dpcl_core.privacy.statement import shown, words
from pages.parts.claims import privacy_bar, shared_noise_claim
from pages.parts.shell import layout, link
from pages.parts.shell.text import plain
from pages.parts.shell.view import View

if TYPE_CHECKING:
    from dpcl_core.attacks.l2dp_games import Setting  # loads scipy's optimisers, which take part of a second

DELTA = 1e-5
TRIALS = 1000
_BATCHES = (100, 500, 2499, 50_000)
NETWORKS: dict[str, tuple[str, Form]] = {
    "mnist": ("grey pictures, 28 × 28", Form((28, 28, 1), 0.0, 1.0)),
    "cifar": ("colour pictures, 32 × 32", Form((32, 32, 3), 0.0, 1.0)),
    "sensor": ("sensor windows, 100 × 3", Form((100, 3), -1.0, 1.0)),
}
RULES: dict[str, str] = {"literal": "literal: all inputs and units", "witness": "witness: one patch, one feature map"}
FIELDS: list[link.Field[Any]] = [
    link.Field("claims", "l", "claims open", link.Flag(), False),
    link.Field("l_network", "lw", "network", link.Choice(tuple(NETWORKS)), "mnist"),
    link.Field("l_rule", "lr", "numbers in Δ_R", link.Choice(tuple(RULES)), "literal"),
    link.Field("l_epsilon", "le", "ε claimed", link.Number(0.01, 100.0), 0.5),
    link.Field("l_share", "ls", "encoder's share", link.Number(0.05, 0.95), 0.5),
    link.Field("l_batch", "lb", "λ", link.Whole(1, 100_000), 500),
    link.Field("l_norm", "lt", "‖θ1‖", link.Number(0.01, 1000.0), 0.53),
    link.Field("l_inputs", "ld", "d", link.Maybe(link.Whole(1, 10**7)), None),
    link.Field("l_hidden", "lh", "|h1|", link.Maybe(link.Whole(1, 10**7)), None),
    *shared_noise_claim.FIELDS,
]
TITLE = "Claimed, accounted, audited: one noise for all (Lifelong DP, L2DP-ML)"
ABOUT = """L2DP-ML (Lai et al. 2022) is published with an ε from its Theorem 2. It draws its noise **once** and adds the
same numbers to every record. The theorem is shown here as it is printed, and beside it what attacks measure: **claimed** is
what the paper says, **accounted** what a ledger can prove (here: no bound), **audited** what an attack has shown that ε must
at least be."""


def part(view: View, given: Guarantee | None) -> dict[str, object]:
    """The section; drawn only while it is open. `given`: of the run on the page, where its ε is only claimed."""
    box = st.expander(TITLE, expanded=bool(view["claims"]) or given is not None, key=view.key("claims"), on_change="rerun")
    values: dict[str, object] = {field.name: view[field.name] for field in FIELDS} | {"claims": bool(box.open)}
    if not box.open:
        return values
    with box:
        st.markdown(ABOUT)
        left, right = st.columns(2)
        with left:
            plan, own = _theorem(view, of_a_run=given is not None)
            values |= own
        with right:
            if plan is not None:
                epsilon, share, norm = (cast(float, own[name]) for name in ("l_epsilon", "l_share", "l_norm"))
                _audits(_setting(plan, given, epsilon, share), given)
                _scales(claim.sizes(NETWORKS[str(own["l_network"])][1], 10), epsilon, share, norm)
        values |= shared_noise_claim.part(view, plan.input_scale if plan is not None else None)
    return values


def of_run(given: Guarantee) -> None:
    """The claim of a run with its terms, what its ledger holds, and what the audit at its end proved."""
    assert given.claim is not None
    said, terms = words(given), given.claim.terms
    rows = "".join(f"| claimed: {name} | {_term(term)} |\n" for name, term in terms.items())
    least = "no audit" if given.audit is None else f"at least {math.floor(10 * given.audit.lower_bound) / 10:g}"
    with layout.card("claim"):
        st.markdown("**Claimed, accounted, audited**")
        st.markdown(
            f"| of this run | ε |\n|---|---:|\n{rows}"
            f"| **claimed** in all ({plain(given.claim.source)}, not verified) | {shown(given.claim.epsilon)} |\n"
            f"| **accounted** by the ledger | no bound |\n| **audited** | **{least}** |\n"
        )
        st.caption(plain(said.audited or "This run was not audited."))
        numbers = " · ".join(f"{name} = {_term(value)}" for name, value in given.claim.numbers.items())
        st.caption(plain(f"Computed from {numbers}."))


def _term(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def _theorem(view: View, *, of_a_run: bool) -> tuple[claim.Plan | None, dict[str, object]]:
    """The controls and the terms they make."""
    with layout.card("theorem"):
        st.markdown("**What Theorem 2 says**")
        if of_a_run:
            st.caption("Numbers to try; those of the run stand above.")
        network = _select(view, "l_network", "Network for", {name: title for name, (title, _) in NETWORKS.items()})
        rule = _select(view, "l_rule", "Numbers in Δ_R", RULES)
        sizes = claim.sizes(NETWORKS[network][1], 10)
        by_rule = (sizes.n_inputs, sizes.n_hidden) if rule == "literal" else (sizes.n_patch, sizes.n_positions)
        with st.container(horizontal=True, gap="small"):
            d, hidden = (
                int(
                    st.number_input(
                        title, 1, 10**7, cast("int | None", view[name]) or usual, key=f"{view.key(name)}-{network}-{rule}",
                        width=150,
                    )
                )
                for name, title, usual in zip(("l_inputs", "l_hidden"), ("d", "|h1|"), by_rule, strict=True)
            )  # fmt: skip
            start = cast(int, view["l_batch"])
            batch = int(st.number_input("λ, records in a mean", 1, 100_000, start, key=view.key("l_batch"), width=170))
        with st.container(horizontal=True, gap="small"):
            epsilon = _number(view, "l_epsilon", "ε claimed", 0.01, 100.0)
            norm = _number(view, "l_norm", "‖θ1‖", 0.01, 1000.0)
        share = st.slider(
            "Share of the encoder (ε1 and the two terms of the data set)", 0.05, 0.95, cast(float, view["l_share"]), 0.05,
            key=view.key("l_share"),
        )  # fmt: skip
        plan = _planned(claim.Sizes(d, hidden, d, hidden, sizes.n_last, 10), batch, epsilon, share, norm)
        if plan is not None:
            _terms(plan, norm, sizes.n_inputs)
    values: dict[str, object] = {"l_network": network, "l_rule": rule, "l_epsilon": epsilon, "l_share": share}
    values |= {"l_batch": batch, "l_norm": norm}
    values |= {"l_inputs": None if d == by_rule[0] else d, "l_hidden": None if hidden == by_rule[1] else hidden}
    return plan, values


def _planned(sizes: claim.Sizes, batch: int, epsilon: float, share: float, norm: float) -> claim.Plan | None:
    try:
        return claim.plan(sizes, "literal", batch, epsilon, share, norm)  # d and |h1| are already those of the rule
    except BadInput as refused:
        st.error(plain(str(refused)))
        return None


def _terms(plan: claim.Plan, norm: float, n_inputs: int) -> None:
    made = plan.claim(norm)
    rows = "".join(f"| {name} | {_term(term)} |\n" for name, term in made.terms.items())
    st.markdown(
        f"| term | ε |\n|---|---:|\n{rows}| **claimed in all, not verified** | **{shown(made.epsilon)}** |\n"
        "| **accounted** | **no bound** |\n"
    )
    fresh = 2 * n_inputs / plan.input_scale
    st.caption(
        f"Δ_R = d(|h1| + 2) = {plan.delta_r:,.0f}, γ_x = Δ_R/λ = {_term(plan.gamma_x)}, γ = 2Δ_R/(λ‖θ1‖) = "
        f"{_term(plan.gamma(norm))}. Noise: Laplace of scale b = Δ_R/(ε1 λ) = **{_term(plan.input_scale)}** on each value "
        f"of an input (its range is 2), {_term(plan.hidden_scale)} on each hidden unit, drawn once for all records. Drawn "
        f"anew for every record, this noise would protect a record's {n_inputs:,} values with ε = 2 · {n_inputs:,}/b = "
        f"{_term(fresh)}, where the theorem counts ε1/γ_x."
    )
    privacy_bar.not_dp(
        f"Claimed ε = {shown(made.epsilon)} ({claim.SOURCE}, not verified). One noise vector is shared by all records. "
        "Subtracting two noisy records removes it."
    )


def _scales(sizes: claim.Sizes, epsilon: float, share: float, norm: float) -> None:
    """The noise for other λ under either reading of Δ_R, at the same budget."""
    rows = ""
    rules: tuple[claim.DeltaR, ...] = ("literal", "witness")
    for rule in rules:
        for batch in _BATCHES:
            plan = claim.plan(sizes, rule, batch, epsilon, share, norm)
            terms = plan.terms(norm)
            rows += f"| {rule} | {batch:,} | {_term(plan.epsilon1)} | {_term(terms['ε1/γ_x'])} | {_term(terms['ε1/γ'])} "
            rows += f"| {_term(plan.input_scale)} | {_term(plan.hidden_scale)} |\n"
    with layout.card("scales"):
        st.markdown("**The noise at the same ε, for other λ**")
        st.caption("The paper names neither λ nor which numbers stand in Δ_R. λ = 50,000: Algorithm 1, on whole tasks.")
        st.markdown(f"| Δ_R | λ | ε1 | ε1/γ_x | ε1/γ | b | on a hidden unit |\n|---|---:|---:|---:|---:|---:|---:|\n{rows}")


def _select(view: View, name: str, title: str, options: dict[str, str]) -> str:
    names = list(options)
    return st.selectbox(
        title, names, index=names.index(str(view[name])), format_func=options.__getitem__, key=view.key(name)
    )


def _number(view: View, name: str, title: str, low: float, high: float) -> float:
    return float(
        st.number_input(title, low, high, float(cast(float, view[name])), key=view.key(name), format="%g", width=150)
    )


def _setting(plan: claim.Plan, given: Guarantee | None, epsilon: float, share: float) -> Setting:
    """The noise that is attacked: that of the run on the page, else that of the theorem's card."""
    from dpcl_core.attacks.l2dp_games import Setting

    if given is None or given.claim is None:
        return Setting(epsilon, share, plan.input_scale, plan.scale2)
    terms, numbers = given.claim.terms, given.claim.numbers
    total = given.claim.epsilon
    of_output = terms.get("ε2", 0.5 * total) / total
    scale2 = numbers.get("Δ_L", plan.sizes.delta_l) / terms.get("ε2", plan.epsilon2)
    return Setting(total, 1 - of_output, numbers.get("noise scale on an input value", plan.input_scale), scale2)


def _audits(setting: Setting, given: Guarantee | None) -> None:
    from dpcl_core.attacks.l2dp_games import ATTACKS, audited

    whose = "the run above" if given is not None else "the numbers beside"
    with layout.card("audits"):
        st.markdown("**Attack it**")
        st.caption(
            f"Real games on public digits with noise of the scales of {whose}: which of two data sets was it? The rule is "
            "fixed beforehand; no attacker is told the noise. Claimed: "
            f"ε = {shown(setting.epsilon)}; accounted: no bound. Each takes seconds."
        )
        for name, attack in ATTACKS.items():
            st.markdown(f"**{attack.title}.** The attacker {attack.adversary}.")
            kept = st.session_state.setdefault("audits-done", {})
            n = min(TRIALS, attack.most or TRIALS)
            if st.button(f"Play {2 * n:,} rounds", key=f"audit-{name}"):
                with st.spinner("Playing ..."):
                    kept[name, setting] = audited(setting, name, TRIALS, DELTA)
            if (found := kept.get((name, setting))) is not None:
                least = math.floor(100 * found.lower_bound) / 100
                verdict = "more than is claimed" if least > setting.epsilon else "no more than is claimed"
                st.markdown(
                    f"Audited: **ε is at least {least:.2f}**, {verdict} ({found.confidence:.0%} confidence, "
                    f"{found.trials:,} releases a side, δ = {found.delta:g})."
                )
        st.caption(
            "So many rounds without one error prove no more than "
            f"{_most(TRIALS):.2f} ({_most(100):.2f} for the last): the number of rounds limits what can be shown, not the "
            "attack."
        )


def _most(n: int) -> float:
    from dpcl_core.privacy.lower_bound import bound_of_counts

    return math.floor(100 * bound_of_counts(n, n, 0, n, DELTA)) / 100
