"""The privacy claim of L2DP-ML: Theorem 2 of Lai et al. term by term, a run's own claim, and attacks to run."""

from typing import Any

import streamlit as st

from dpcl_core.attacks import l2dp_games
from dpcl_core.data.dataset import Form
from dpcl_core.errors import BadInput
from dpcl_core.events import Claim, Guarantee
from dpcl_core.methods.lifelong import claim
from dpcl_core.privacy.audit_bounds import bound_of_counts
from dpcl_core.privacy.statement import shown_number
from pages.parts import fields, layout, link, pecl_claim, state
from pages.parts.claim_calculator import TRIALS, UNBOUNDED, ClaimSection, attacks, rounded_down
from pages.parts.text import WORDS, plain

# The theorem term by term, with a run's own claim and attacks.


DELTA = 1e-5
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
]
TITLE = "Claimed, accounted, audited: one noise for all (Lifelong DP, L2DP-ML)"


def _body(view: state.View, given: Guarantee | None) -> None:
    left, right = st.columns(2)
    with left:
        plan, asked = _theorem(view, of_a_run=given is not None)
    with right:
        if plan is not None:
            setting = _setting(plan, given, *asked)
            whose = "the run above" if given is not None else "the numbers on the left"
            with layout.card("audits", "**Attack it**"):
                epsilon = shown_number(setting.epsilon)
                st.caption(WORDS["lifelong_claims"]["attacks"].format(whose=whose, epsilon=epsilon))
                attacks(
                    l2dp_games.ATTACKS, lambda name: l2dp_games.audited(setting, name, TRIALS, DELTA), setting, key="audit",
                    than=lambda result: "is claimed",
                )  # fmt: skip
                most, of_last = (rounded_down(bound_of_counts(n, n, 0, n, DELTA)) for n in (TRIALS, 100))
                st.caption(
                    f"Without any error, this many rounds prove at most {most:.2f} ({of_last:.2f} for the last attack): "
                    "the number of rounds is the limit, not the attack."
                )
    layout.arrow("lessons", "This noise on pictures, and what it leaves to learn", {"v": "1", "l": "shared"})


def _lines(given: Guarantee, claimed: Claim) -> tuple[dict[str, str], str]:
    rows = {f"claimed: {name}": _term(term) for name, term in claimed.terms.items()}
    rows[f"**claimed** in all ({plain(claimed.source)}, not verified)"] = shown_number(claimed.epsilon)
    numbers = " · ".join(f"{name} = {_term(value)}" for name, value in claimed.numbers.items())
    return rows | UNBOUNDED, f"Computed from {numbers}."


def _term(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def _theorem(view: state.View, *, of_a_run: bool) -> tuple[claim.Plan | None, tuple[float, float]]:
    """Draws the controls and the terms of the theorem; returns the noise plan (None: invalid), and ε and encoder's share."""
    with layout.card("theorem", "**What Theorem 2 says**"):
        if of_a_run:
            st.caption("Numbers to try; the run's own are above.")
        network = fields.select(view, "l_network", "Network for", {name: title for name, (title, _) in NETWORKS.items()})
        rule = fields.select(view, "l_rule", "Numbers in Δ_R", RULES)
        sizes = claim.sizes(NETWORKS[network][1], 10)
        by_rule = (sizes.n_inputs, sizes.n_hidden) if rule == "literal" else (sizes.n_patch, sizes.n_positions)
        with st.container(horizontal=True, gap="small"):
            d = fields.whole(view, "l_inputs", "d", usual=by_rule[0], of=f"{network}-{rule}")
            hidden = fields.whole(view, "l_hidden", "|h1|", usual=by_rule[1], of=f"{network}-{rule}")
            batch = fields.whole(view, "l_batch", "λ, records in a mean", width=170)
        with st.container(horizontal=True, gap="small"):
            epsilon = fields.number(view, "l_epsilon", "ε claimed", width=150)
            norm = fields.number(view, "l_norm", "‖θ1‖", width=150)
        share = fields.share(view, "l_share", "Encoder's share (ε1 and the two terms of the dataset)", 0.05, 0.05)
        chosen = claim.Sizes(d, hidden, d, hidden, sizes.n_last, 10)
        try:
            plan = claim.plan(chosen, "literal", batch, epsilon, share, norm)  # d and |h1| are those of the chosen rule
        except BadInput as refused:
            st.error(plain(str(refused)))
            return None, (epsilon, share)
        claimed, n_inputs = plan.claim(norm), sizes.n_inputs
        rows = {name: _term(term) for name, term in claimed.terms.items()}
        rows |= {"**claimed in all, not verified**": f"**{shown_number(claimed.epsilon)}**", "**accounted**": "**no bound**"}
        layout.draw_table(("term", "ε"), rows.items())
        numbers = {
            "gamma_x": plan.gamma_x, "gamma": plan.gamma(norm), "inputs": plan.input_scale, "units": plan.hidden_scale,
            "fresh": 2 * n_inputs / plan.input_scale,
        }  # fmt: skip
        terms = {name: _term(value) for name, value in numbers.items()}
        st.caption(WORDS["lifelong_claims"]["costs"].format(plan=plan, n=n_inputs, **terms))
        said = WORDS["lifelong_claims"]["not_dp"]
        pecl_claim.not_dp(said.format(epsilon=shown_number(claimed.epsilon), source=claim.SOURCE))
    return plan, (epsilon, share)


def _setting(plan: claim.Plan, given: Guarantee | None, epsilon: float, share: float) -> l2dp_games.Setting:
    """The attacked noise: that of the run on the page, else that of the theorem's card."""
    if given is None or given.claim is None:
        return l2dp_games.Setting(epsilon, share, plan.input_scale, plan.scale2)
    terms, numbers = given.claim.terms, given.claim.numbers
    total = given.claim.epsilon
    of_output = terms.get("ε2", 0.5 * total) / total
    scale2 = numbers.get("Δ_L", plan.sizes.delta_l) / terms.get("ε2", plan.epsilon2)
    return l2dp_games.Setting(total, 1 - of_output, numbers.get("noise scale on an input value", plan.input_scale), scale2)


CLAIM = ClaimSection(TITLE, WORDS["lifelong_claims"]["about"], FIELDS, claim.SOURCE, _lines, _body)
