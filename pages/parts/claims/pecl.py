"""The privacy claim of PeCL: printed ε, the true ε of its token noise, what the noise level reveals, and attacks to run."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, cast

import streamlit as st

from dpcl_core.events import Guarantee
from dpcl_core.figures.picture import Provenance
from dpcl_core.privacy import token_noise
from dpcl_core.privacy.statement import shown
from pages.parts.claims import privacy_bar
from pages.parts.claims.calculator import TRIALS, UNBOUNDED, Claim, Controls, Game, attacks
from pages.parts.shell import figure_card, layout, link, style
from pages.parts.shell.text import plain
from pages.parts.shell.view import View

_WIDTHS = (64, 128, 768, 4096)
_LOW, _HIGH = 0.1, 100.0
_UPPER = 10.0
_CURVE = (0.5, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0)
FIELDS: list[link.Field[Any]] = [
    link.Field("tokens", "t", "token claims open", link.Flag(), False),
    link.Field("t_epsilon", "te", "nominal ε", link.Number(_LOW, _HIGH), 1.0),
    link.Field("t_clip", "tc", "C", link.Number(1e-3, 1e3), 1.0),
    link.Field("t_length", "tl", "tokens of a text", link.Whole(1, 4096), 64),
    link.Field("t_epochs", "tp", "epochs", link.Whole(1, 1000), 3),
    link.Field("t_times", "tn", "occurrences of a name", link.Whole(1, 10_000), 20),
    link.Field("t_delta", "td", "δ of a token", link.Number(1e-12, 0.1), 1e-6),
    link.Field("t_width", "tw", "values of an embedding", link.Whole(1, 100_000), 768),
]
TITLE = "Claimed, accounted, audited: noise by the token (PeCL)"
ABOUT = """PeCL (Zhan et al.) adds noise to the embedding of every token of a text: the more surprising the token, the more
noise. It prints an ε for each token, from 1 for the most surprising to 10 for the least. Its formulas are computed here as
printed, next to the true cost of this noise. **Published: heuristic noise, nominal budget only. No differential privacy
guarantee for tokens, texts or people.**"""
NOT_COVERED = """- **Stop words are released exactly.** They get no noise. Between a stop word and a noised token the only
valid δ is 1, and the positions of stop words are visible.
- **One token changes the noise of all later ones.** Their probabilities depend on it, and their noise on their
probabilities. "Texts that differ in one token" therefore differ in everything after it.
- **The clean token is used again.** The loss is computed against the raw token, and scores, counts and the memory use the
raw text. The trained weights depend on more than the noisy embeddings, so even correct noise on these would not protect
what is trained.
- **An occurrence is not a person.** A name occurs many times, and every epoch reads it again with fresh noise, which
averages out.

Repaired, with a bound from a ledger: `pecl`, with noise of the same size on every token, drawn once, or with noise on
gradients."""


@dataclass(frozen=True)
class Inputs:
    """The values of the controls."""

    epsilon: float
    clip: float
    length: int
    epochs: int
    times: int
    delta: float


def _body(view: View, given: Guarantee | None) -> dict[str, object]:
    controls = Controls(view, FIELDS)
    left, right = st.columns(2)
    with left, layout.card("token-costs"):
        inputs = _inputs(controls)
        _costs(inputs)
    with right:
        _curves(inputs)
        width = _level(view, inputs)
    left, right = st.columns(2)
    with left, layout.card("token-more"):
        st.markdown("**What no number above covers**")
        st.markdown(NOT_COVERED)
    with right:
        _audits(inputs)
    return controls.values | {"t_width": width}


def _lines(given: Guarantee) -> tuple[dict[str, str], str]:
    """The nominal ε of a run, and the true ε of their noise."""
    assert given.claim is not None
    claimed = given.claim
    rows = {f"{plain(name)} (no guarantee)": _number(value) for name, value in claimed.terms.items()}
    true = {name: value for name, value in claimed.numbers.items() if name.startswith("true ε")}
    rows |= {plain(name): _number(value) for name, value in true.items()}
    rest = " · ".join(f"{name} = {_number(value)}" for name, value in claimed.numbers.items() if name not in true)
    return rows | UNBOUNDED, f"Claimed: {claimed.source}. {rest}. True: exact for noise that does not depend on the token."


def _inputs(controls: Controls) -> Inputs:
    st.markdown("**What Eq. 5 prints, and what it costs**")
    with st.container(horizontal=True, gap="small"):
        epsilon = controls.number("t_epsilon", "nominal ε of a token")
        clip = controls.number("t_clip", "C, length of an embedding")
    with st.container(horizontal=True, gap="small"):
        length = controls.whole("t_length", "tokens of a text")
        epochs = controls.whole("t_epochs", "epochs")
        times = controls.whole("t_times", "times a name occurs")
    return Inputs(epsilon, clip, length, epochs, times, controls.delta("t_delta"))


def _costs(inputs: Inputs) -> None:
    epsilon, delta, length, epochs, times = inputs.epsilon, inputs.delta, inputs.length, inputs.epochs, inputs.times
    ratio = token_noise.printed_ratio(epsilon, delta)

    def true(n_releases: int, share: float = 1.0) -> str:
        return _number(token_noise.true_epsilon(share * ratio, delta, n_releases))

    nominal, epoch_text, remark = _number(epsilon), _times(epochs, "epoch"), token_noise.remark_1([epsilon] * length, delta)
    plain_sum = _number(length * epsilon)
    layout.table(("of", "nominal, no guarantee", "true ε"), (
        ("one token, one release", nominal, f"**{true(1)}**"),
        (f"one token, {epoch_text} with fresh noise", nominal, f"**{true(epochs)}**"),
        (f"a name that occurs {_times(times, 'time')}, one epoch", nominal, f"**{true(times)}**"),
        (f"the same name, {epoch_text}", nominal, f"**{true(times * epochs)}**"),
        (f"a text of {_times(length, 'token')}: plain sum, one release", plain_sum, f"**{true(length)}**"),
        (f"the same text: Remark 1, {epoch_text}", _number(remark), f"**{true(length * epochs)}**"),
        ("the same text, one release, with noise for sensitivity 2C", "", true(length, 2.0)),
    ))  # fmt: skip
    needed = token_noise.ratio_for(epsilon, delta)
    st.caption(
        f"Eq. 5: σ/C = √(2 ln(1.25/δ))/ε = {_number(ratio)}, so σ = {_number(ratio * inputs.clip)} here; C does not affect "
        f"ε. Two clipped embeddings can be 2C apart, but the noise is scaled to C. It would have to be {_number(needed)}, "
        f"{needed / ratio:.2f} times as much. At the printed ε the true δ is "
        f"{token_noise.true_delta(epsilon, ratio):.2g}. Exact (Balle and Wang 2018) for noise that does not depend on the "
        "token; this noise does. Remark 1 is called advanced composition but is always larger than the plain sum."
    )
    privacy_bar.not_dp(
        f"Nominal ε = {shown(epsilon)} ({token_noise.PAPER}), no guarantee: the noise level reveals the token, stop words "
        "have no noise, and training reads the raw text."
    )


def _curves(inputs: Inputs) -> None:
    from dpcl_core.figures import token_budget

    epsilon, delta, length, epochs, times = inputs.epsilon, inputs.delta, inputs.length, inputs.epochs, inputs.times
    nominal = sorted({*_CURVE, epsilon})
    costs = {
        "one token": 1,
        f"one token, {_times(epochs, 'epoch')}": epochs,
        f"a name, {_times(times, 'time')}": times,
        f"a text of {_times(length, 'token')}": length,
    }
    true = {
        name: [token_noise.true_epsilon(token_noise.printed_ratio(one, delta), delta, count) for one in nominal]
        for name, count in costs.items()
    }
    picture = token_budget.true_costs(nominal, true, chosen=epsilon, dark=style.is_dark())
    figure_card.show(
        picture, Provenance("computed", None, "PeCL as published, Eq. 5", delta=delta), key="token-curves",
        title="Nominal and true", linked=True,
    )  # fmt: skip


def _level(view: View, inputs: Inputs) -> int:
    """Draws what the noise level reveals if both embeddings are equal; returns the chosen width."""
    epsilon, delta, start = inputs.epsilon, inputs.delta, cast(int, view["t_width"])
    with layout.card("token-level"):
        st.markdown("**The noise level alone reveals the token**")
        options = sorted({*_WIDTHS, start})
        title, key = "Values of an embedding, d", view.key("t_width")
        width = int(st.segmented_control(title, options, default=start, required=True, key=key) or start)
        rows = []
        for factor in (1.01, 1.1, 1.2, 2.0):
            first, second = (token_noise.printed_ratio(one, delta) for one in (epsilon, factor * epsilon))
            level_epsilon = token_noise.scale_epsilon(first, second, width, delta)
            share = 50 + 50 * token_noise.scale_advantage(first, second, width)
            rows.append((f"{_number(epsilon)} or {_number(factor * epsilon)}", _number(level_epsilon), f"{share:.1f} %"))
        layout.table(("nominal ε of two tokens, no guarantee", "ε of the noise level", "guessed right"), rows)
        st.caption(
            f"Two tokens with the same embedding; only their noise differs. The norm of one noisy vector of {width:,} "
            f"values reveals its σ to within {100 / math.sqrt(2 * width):.1f} %, and σ follows from the token's probability."
        )
    return width


def _audits(inputs: Inputs) -> None:
    from dpcl_core.attacks.token_noise_games import ATTACKS, Setting, audited  # loads the accountant, which takes a second
    from dpcl_core.privacy.lower_bound import one_way_bound

    upper = max(_UPPER, 2 * inputs.epsilon)
    setting = Setting(inputs.epsilon, upper, inputs.delta, min(inputs.epochs, 20), inputs.length)
    with layout.card("token-audits"):
        st.markdown("**Attack it**")
        st.caption(
            "Real attacks on the published mechanism, with the numbers above: which of two tokens was it? The decision rule "
            f"is fixed before the counted releases. Nominal for the attacked token: ε = {shown(setting.lower)}, no "
            "guarantee; accounted: no bound. Each takes about a second."
        )
        attacks(
            (Game(name, one.title, one.adversary, TRIALS * one.times) for name, one in ATTACKS.items()),
            lambda name: audited(setting, name, TRIALS),
            setting, key="token-audit", than=lambda result: f"the nominal {_number(result.claimed)}",
        )  # fmt: skip
        most = math.floor(100 * one_way_bound(TRIALS, TRIALS, 0, TRIALS, setting.delta)) / 100
        st.caption(
            f"{TRIALS:,} releases per side without an error prove at most {most:.2f}. If the nominal ε is larger, the "
            "number of rounds is the limit, not the attack."
        )


def _times(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _number(value: float) -> str:
    from dpcl_core.figures.token_budget import number

    return number(value)


CLAIM = Claim(TITLE, ABOUT, FIELDS, token_noise.SOURCE, _lines, _body)
