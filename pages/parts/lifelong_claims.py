"""The privacy claim of L2DP-ML: Theorem 2 of Lai et al. term by term, a run's own claim, and attacks to run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any, cast

import numpy as np
import streamlit as st
from numpy.typing import NDArray

from dpcl_core.attacks import l2dp_games
from dpcl_core.data.dataset import Form
from dpcl_core.errors import BadInput
from dpcl_core.events import Claim, Guarantee
from dpcl_core.figures import stream
from dpcl_core.figures.picture import Provenance
from dpcl_core.lessons import shared_noise
from dpcl_core.methods.lifelong import claim
from dpcl_core.privacy.audit_bounds import bound_of_counts
from dpcl_core.privacy.noise import ReleaseNoise
from dpcl_core.privacy.statement import shown_number
from pages.parts import figure_card, layout, link, pecl_claim, state, text
from pages.parts.claim_calculator import TRIALS, UNBOUNDED, ClaimSection, Controls, attacks, rounded_down
from pages.parts.text import WORDS, percent, plain

# Shared noise, interactively: its scale, a learner's accuracy under it, and what subtracting two pictures reveals.


SCALES = (0.1, 0.5, 1.4, 5.0, 13.0, 45.0, 200.0, 1000.0, 8000.0, 40_000.0, 200_000.0)
LEARNERS = ("one noise for all", "one noise for all, cut off", "fresh noise for each")
_UNITS, _RECORDS = 16, 50


def draw_lifelong_claim(view: state.View, theorem: float | None) -> dict[str, object]:
    """Draws slider, accuracies, subtraction and second singular value. `theorem`: the scale from the theorem's card."""
    linked = cast("float | None", view["l_scale"])
    start = linked if linked is not None else min(SCALES, key=lambda scale: abs(scale - (theorem or 13.0)))
    left, right = st.columns(2)
    with left, layout.card("sharing", "**The noise on a pixel**"):
        title, key = "Scale b of the Laplace noise; a pixel has a range of 2", f"{view.key('l_scale')}-{start:g}"
        scale = float(st.select_slider(title, sorted({*SCALES, start}), start, format_func=_text, key=key))
        noisy, clean = _accuracies(scale), _accuracies(0.0)
        kinds = {
            "one noise for all, before a ReLU": (noisy.shared, clean.shared),
            "one noise for all, cut off at ±1": (noisy.shared_clipped, clean.shared_clipped),
            "fresh noise for each picture": (noisy.independent, clean.independent),
        }
        heads = ("accuracy of a small learner on new pictures", f"b = {_text(scale)}", "no noise")
        layout.draw_table(heads, ((name, *map(percent, pair)) for name, pair in kinds.items()))
        st.caption(WORDS["lifelong_claims"]["learners"])
        if st.button("Train at every scale", key="every-scale"):
            st.session_state["every-scale-seen"] = True
        if st.session_state.get("every-scale-seen"):
            pictures, scales = bundled_pictures(), sorted({0.0, scale, *SCALES})
            with st.spinner("Training ..."):
                curves = accuracy_curves({each: _accuracies(each) for each in scales})
            picture = stream.accuracy_by_scale(curves, chosen=scale, chance=1 / len(pictures.classes), dark=text.is_dark())
            figure_card.show(picture, pictures_source(), key="every-scale-figure", title="Accuracy of three learners")
    with right, layout.card("subtract"):
        _subtraction(scale)
        _second_value(scale)
    return {"l_scale": None if linked is None and scale == start else scale}


def accuracy_curves(accuracies: Mapping[float, shared_noise.Accuracies]) -> dict[str, dict[float, float]]:
    """Accuracy by scale of the noise, for each of the three learners."""
    columns = zip(*((each.shared, each.shared_clipped, each.independent) for each in accuracies.values()), strict=True)
    return {name: dict(zip(accuracies, column, strict=True)) for name, column in zip(LEARNERS, columns, strict=True)}


def _subtraction(scale: float) -> None:
    st.markdown("**Subtract two records**")
    if st.button("Subtract two records", key="subtract-two"):
        st.session_state["subtracted"] = True
    if not st.session_state.get("subtracted"):
        st.caption("Two pictures with the same noise, and the difference of the noisy pictures.")
        return
    pictures = bundled_pictures()
    first, second = (pictures.train[row] for row in pictures.one_of_each()[[3, 8]])
    noise = _noise(scale)
    left = (first + noise) - (second + noise)
    error = max(float(np.abs(left - (first - second)).max()), 1e-16)
    picture = stream.strips(
        {
            "without noise (public teaching data)": [first, second],
            f"the same with one noise, b = {_text(scale)}": [first + noise, second + noise],
            "first minus second: without, with noise": [first - second, left],
        },
        ["first", "second"],
        finding=f"The noise is gone from the difference: no pixel is off by more than {error:.0e}, which is rounding.",
        dark=text.is_dark(),
    )
    figure_card.show(picture, pictures_source(), key="subtract-figure", title="Two pictures, the same noise")


def _second_value(scale: float) -> None:
    st.markdown("**The second singular value**")
    st.caption(WORDS["lifelong_claims"]["second_value"])
    if not st.button("Test two candidates", key="second-value"):
        return
    records = bundled_pictures().train[: _RECORDS + 1]
    theta = np.random.default_rng(0).normal(0, (2 / records.shape[1]) ** 0.5, (records.shape[1], _UNITS))
    chi1, chi2 = (scale * ReleaseNoise().laplace((size,)) for size in theta.shape)
    gradient = l2dp_games.encoder_gradient(records[:-1], theta, chi1, chi2)
    candidates = {"the true data": records[:-1], "one picture replaced": np.vstack([records[:-2], records[-1:]])}
    values = {
        name: float(l2dp_games.second_singular_value(gradient, l2dp_games.cross_covariance(rows, theta)))
        for name, rows in candidates.items()
    }
    heads = ("candidate", f"second singular value at b = {_text(scale)}")
    layout.draw_table(heads, ((name, f"{value:.2g}") for name, value in values.items()))


# The bundled digits as training and test pictures.
bundled_pictures = st.cache_resource(show_spinner=False)(shared_noise.pictures)


@st.cache_data(max_entries=50, show_spinner=False)
def _accuracies(scale: float) -> shared_noise.Accuracies:
    return shared_noise.accuracies(bundled_pictures(), scale)


@st.cache_data(max_entries=50, show_spinner=False)
def _noise(scale: float) -> NDArray[np.float64]:
    return scale * ReleaseNoise().laplace((bundled_pictures().n_pixels,))


def pictures_source() -> Provenance:
    """Where numbers on these pictures come from."""
    pictures = bundled_pictures()
    return Provenance(pictures.title, len(pictures.train), "Laplace noise on pixels")


def _text(scale: float) -> str:
    return f"{scale:,.0f}" if scale >= 1000 else f"{scale:g}"


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
    link.Field("l_scale", "lc", "noise on a pixel", link.Maybe(link.Number(0.001, 1e9)), None),
]
TITLE = "Claimed, accounted, audited: one noise for all (Lifelong DP, L2DP-ML)"


@dataclass(frozen=True)
class Inputs:
    """The values of the controls, except the sizes in Δ_R."""

    network: str
    epsilon: float
    share: float
    norm: float


def _body(view: state.View, given: Guarantee | None) -> dict[str, object]:
    controls = Controls(view, FIELDS)
    left, right = st.columns(2)
    with left:
        plan, inputs = _theorem(controls, of_a_run=given is not None)
    with right:
        if plan is not None:
            setting = _setting(plan, given, inputs)
            whose = "the run above" if given is not None else "the numbers on the left"
            with layout.card("audits", "**Attack it**"):
                st.caption(
                    f"Real attacks on public digits with the noise scales of {whose}: which of two datasets was used? The "
                    "decision rule is fixed beforehand; no attacker knows the noise. Claimed: "
                    f"ε = {shown_number(setting.epsilon)}; accounted: no bound. Each takes seconds."
                )
                attacks(
                    l2dp_games.ATTACKS, lambda name: l2dp_games.audited(setting, name, TRIALS, DELTA), setting, key="audit",
                    than=lambda result: "is claimed",
                )  # fmt: skip
                most, of_last = (rounded_down(bound_of_counts(n, n, 0, n, DELTA)) for n in (TRIALS, 100))
                st.caption(
                    f"Without any error, this many rounds prove at most {most:.2f} ({of_last:.2f} for the last attack): "
                    "the number of rounds is the limit, not the attack."
                )
            _scales(claim.sizes(NETWORKS[inputs.network][1], 10), inputs)
    return controls.values | draw_lifelong_claim(view, plan.input_scale if plan is not None else None)


def _lines(given: Guarantee, claimed: Claim) -> tuple[dict[str, str], str]:
    rows = {f"claimed: {name}": _term(term) for name, term in claimed.terms.items()}
    rows[f"**claimed** in all ({plain(claimed.source)}, not verified)"] = shown_number(claimed.epsilon)
    numbers = " · ".join(f"{name} = {_term(value)}" for name, value in claimed.numbers.items())
    return rows | UNBOUNDED, f"Computed from {numbers}."


def _term(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def _theorem(controls: Controls, *, of_a_run: bool) -> tuple[claim.Plan | None, Inputs]:
    """Draws the controls and the terms of the theorem; returns the noise plan (None: invalid) and the inputs."""
    with layout.card("theorem", "**What Theorem 2 says**"):
        if of_a_run:
            st.caption("Numbers to try; the run's own are above.")
        network = controls.select("l_network", "Network for", {name: title for name, (title, _) in NETWORKS.items()})
        rule = controls.select("l_rule", "Numbers in Δ_R", RULES)
        sizes = claim.sizes(NETWORKS[network][1], 10)
        by_rule = (sizes.n_inputs, sizes.n_hidden) if rule == "literal" else (sizes.n_patch, sizes.n_positions)
        with st.container(horizontal=True, gap="small"):
            d = controls.whole("l_inputs", "d", usual=by_rule[0], of=f"{network}-{rule}")
            hidden = controls.whole("l_hidden", "|h1|", usual=by_rule[1], of=f"{network}-{rule}")
            batch = controls.whole("l_batch", "λ, records in a mean", width=170)
        with st.container(horizontal=True, gap="small"):
            epsilon = controls.number("l_epsilon", "ε claimed", width=150)
            norm = controls.number("l_norm", "‖θ1‖", width=150)
        share = controls.share("l_share", "Encoder's share (ε1 and the two terms of the dataset)", 0.05, 0.05)
        inputs = Inputs(network, epsilon, share, norm)
        chosen = claim.Sizes(d, hidden, d, hidden, sizes.n_last, 10)
        try:
            plan = claim.plan(chosen, "literal", batch, epsilon, share, norm)  # d and |h1| are those of the chosen rule
        except BadInput as refused:
            st.error(plain(str(refused)))
            return None, inputs
        claimed, n_inputs = plan.claim(norm), sizes.n_inputs
        rows = {name: _term(term) for name, term in claimed.terms.items()}
        rows |= {"**claimed in all, not verified**": f"**{shown_number(claimed.epsilon)}**", "**accounted**": "**no bound**"}
        layout.draw_table(("term", "ε"), rows.items())
        st.caption(
            f"Δ_R = d(|h1| + 2) = {plan.delta_r:,.0f}, γ_x = Δ_R/λ = {_term(plan.gamma_x)}, γ = 2Δ_R/(λ‖θ1‖) = "
            f"{_term(plan.gamma(norm))}. Noise: Laplace of scale b = Δ_R/(ε1 λ) = **{_term(plan.input_scale)}** on each "
            f"value of an input (its range is 2), {_term(plan.hidden_scale)} on each hidden unit, drawn once for all "
            f"records. If drawn independently for every record, this noise would protect a record's {n_inputs:,} values "
            f"with ε = 2 · {n_inputs:,}/b = {_term(2 * n_inputs / plan.input_scale)}, where the theorem counts ε1/γ_x."
        )
        pecl_claim.not_dp(
            f"Claimed ε = {shown_number(claimed.epsilon)} ({claim.SOURCE}, not verified). One noise vector is shared by "
            "all records. Subtracting two noisy records removes it."
        )
    return plan, inputs


def _scales(sizes: claim.Sizes, inputs: Inputs) -> None:
    """Draws the noise at the same ε for other λ, under both readings of Δ_R."""
    rows = []
    rules: tuple[claim.DeltaR, ...] = ("literal", "witness")
    for rule, batch in product(rules, (100, 500, 2499, 50_000)):
        plan = claim.plan(sizes, rule, batch, inputs.epsilon, inputs.share, inputs.norm)
        terms = plan.terms(inputs.norm)
        numbers = (plan.epsilon1, terms["ε1/γ_x"], terms["ε1/γ"], plan.input_scale, plan.hidden_scale)
        rows.append((rule, f"{batch:,}", *map(_term, numbers)))
    with layout.card("scales", "**The noise at the same ε, for other λ**"):
        st.caption("The paper states neither λ nor the numbers in Δ_R. λ = 50,000: Algorithm 1, on whole tasks.")
        layout.draw_table(("Δ_R", "λ", "ε1", "ε1/γ_x", "ε1/γ", "b", "on a hidden unit"), rows)


def _setting(plan: claim.Plan, given: Guarantee | None, inputs: Inputs) -> l2dp_games.Setting:
    """The attacked noise: that of the run on the page, else that of the theorem's card."""
    if given is None or given.claim is None:
        return l2dp_games.Setting(inputs.epsilon, inputs.share, plan.input_scale, plan.scale2)
    terms, numbers = given.claim.terms, given.claim.numbers
    total = given.claim.epsilon
    of_output = terms.get("ε2", 0.5 * total) / total
    scale2 = numbers.get("Δ_L", plan.sizes.delta_l) / terms.get("ε2", plan.epsilon2)
    return l2dp_games.Setting(total, 1 - of_output, numbers.get("noise scale on an input value", plan.input_scale), scale2)


CLAIM = ClaimSection(TITLE, WORDS["lifelong_claims"]["about"], FIELDS, claim.SOURCE, _lines, _body)
