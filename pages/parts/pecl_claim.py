"""The privacy claim of PeCL: printed ε, the true ε of its token noise, what the noise level reveals, and attacks to run."""

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import streamlit as st

from dpcl_core.events import Claim, Guarantee
from dpcl_core.figures import tokens
from dpcl_core.figures.picture import Provenance, counted, epsilon_label
from dpcl_core.methods import catalog as methods
from dpcl_core.privacy import audit_bounds, text_mechanisms
from dpcl_core.privacy.statement import guarantee_words, odds, shown_number, standing
from dpcl_core.runs import administration
from dpcl_core.spec import RunSpec
from pages.parts import fields, figure_card, layout, link, state
from pages.parts.claim_calculator import TRIALS, UNBOUNDED, ClaimSection, attacks, rounded_down
from pages.parts.text import WORDS, plain

# The privacy bar next to every result: what is protected and what is not, in the words of the statement.


NO_NOISE = "No noise is added: no privacy."
_PROTECTED, _NOT_DP = "What is protected", "Not differentially private"


def privacy_bar(guarantees: Mapping[float, Guarantee], *, chosen: float | None = None, more: bool = True) -> None:
    """Draws one bar for the guarantees of a run, keyed by requested ε.

    The words are those of `chosen`, else of the largest ε with a bound; a run without a bound gets the red-edged "not DP"
    banner. `more`: names the first limits, and adds the full statement of every ε as a popover (else the caller draws
    one, and what no attack on this ledger exceeds).
    Draws nothing for an empty mapping.
    """
    if not guarantees:
        return
    bounded = [budget for budget, guarantee in guarantees.items() if guarantee.is_private]
    shown = chosen if chosen is not None and chosen in guarantees else max(bounded, default=min(guarantees))
    statement, bound = guarantee_words(guarantees[shown]), (guarantees[shown].epsilon, guarantees[shown].delta)
    if statement.claimed is not None:
        cells = [
            ("wide not", statement.banner or "", ""),
            ("wide", "", statement.audited or statement.odds),
            ("not", "Why", guarantees[shown].caveats[0] if guarantees[shown].caveats else ""),
        ]
    elif statement.is_private:
        cells = [
            ("not", statement.banner or "", ""),
            ("wide", "", f"{statement.headline} {statement.odds if more else odds(*bound)}"),
            *([("covered", "Covered", _first_two(statement.covered, "point"))] if more else []),
        ]
    else:
        cells = [("not", statement.banner or statement.headline, ""), ("wide", "", statement.odds)]
    if more:
        cells.append(("not", "Not covered", _first_two(statement.not_covered, "limit")))
    if (layer := guarantees[shown].layer) is not None:
        cells.append(("", "Layer", layer.title))
    html = "".join(_cell(*cell) for cell in cells if any(cell[1:]))
    _bar(html, is_dp=statement.is_private, label=_PROTECTED if statement.is_private else _NOT_DP)
    if more and (box := layout.popover("Full statement", "privacy-bar-more", type="tertiary")) is not None:
        parts = (_statement(epsilon_label(budget, standing(one)), one) for budget, one in sorted(guarantees.items()))
        box.markdown("\n\n---\n\n".join(parts))


def looks(dataset: str) -> None:
    """Draws how often a person's own data were used so far, and what that adds up to; nothing for public data."""
    if found := administration.looks_at(state.store(), dataset):
        st.caption(plain(found.sentence))


def side_by_side(guarantees: Sequence[tuple[str, Guarantee]]) -> None:
    """Draws one cell per run: its guarantee in one sentence, or that there is none."""
    statements = [(name, guarantee_words(guarantee)) for name, guarantee in guarantees]
    html = "".join(
        _cell("covered", name, one.headline) if one.is_private else _cell("not", name, one.banner or one.headline)
        for name, one in statements
    )
    _bar(html, is_dp=all(one.is_private for _, one in statements))


def _first_two(texts: tuple[str, ...], what: str) -> str:
    """The first two texts, and how many more the full statement has."""
    more = f" · {counted(len(texts) - 2, f'more {what}')}" if len(texts) > 2 else ""
    return " · ".join(texts[:2]) + more


def pending(spec: RunSpec, *, is_over: bool) -> None:
    """Draws the bar before a model is finished: the full statement needs the whole ledger, some facts do not."""
    reason = NO_NOISE if all(map(math.isinf, spec.privacy.epsilons)) else no_bound_reason(spec.method)
    if not reason and spec.reads_labels:
        reason = "The list of labels is read from the data: no bound holds, whatever ε is."
    if reason:
        not_dp(reason)
        return
    text = "The statement appears when the first model is finished; it is computed from the ledger."
    if is_over:
        text = "No model was finished, so no protection is stated. What was released before the end has spent its ε."
    if spec.privacy.noise == "seeded":
        text += " <b>Seeded noise: for teaching only.</b>"
    _bar(f'<div class="bar-cell not">{text}</div>')


def no_bound_reason(method: str) -> str:
    """Why this method has no bound under any settings; empty for a method with a bound."""
    if methods.is_nominal(method):
        return "The ε of this method is claimed by its paper and not verified: no bound holds. Every run of it is audited."
    has_none = method in methods.CARDS and methods.CARDS[method].guarantee == "none"
    return "This method adds no noise: no privacy." if has_none else ""


def not_dp(reason: str) -> None:
    """Draws the red-edged "not DP" banner with the reason."""
    _bar(_cell("not", "Not DP.", reason), is_dp=False, label=_NOT_DP)


def _cell(kind: str, head: str, text: str) -> str:
    bold = f"<b>{escape(head)}</b> " if head else ""
    return f'<div class="bar-cell {kind}">{bold}{escape(text)}</div>'


def _bar(cells: str, *, is_dp: bool = True, label: str = _PROTECTED) -> None:
    edge = "" if is_dp else " not-dp"
    st.html(f'<div class="privacy-bar{edge}" role="note" aria-label="{label}">{cells}</div>')


def _statement(title: str, guarantee: Guarantee) -> str:
    statement = guarantee_words(guarantee)
    lists = (("Covered", statement.covered), ("Not covered", statement.not_covered))
    listed = (f"{name}: {'; '.join(items)}" for name, items in lists if items)
    caveats = "\n".join(f"- {caveat}" for caveat in guarantee.caveats)
    texts = (f"**{title}** {statement.headline}", statement.audited, statement.odds, *listed, statement.layer, caveats)
    return "\n\n".join(filter(None, texts))


_LOW, _HIGH = 0.1, 100.0
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


def _body(view: state.View, given: Guarantee | None) -> None:
    left, right = st.columns(2)
    with left, layout.card("token-costs", "**What Eq. 5 prints, and what it costs**"):
        with st.container(horizontal=True, gap="small"):
            epsilon = fields.number(view, "t_epsilon", "nominal ε of a token")
            clip = fields.number(view, "t_clip", "C, length of an embedding")
        with st.container(horizontal=True, gap="small"):
            length = fields.whole(view, "t_length", "tokens of a text")
            epochs = fields.whole(view, "t_epochs", "epochs")
            times = fields.whole(view, "t_times", "times a name occurs")
        delta = fields.delta(view, "t_delta")
        _costs(epsilon, clip, length, epochs, times, delta)
    with right:
        _curves(epsilon, length, epochs, times, delta)
        _level(view, epsilon, delta)
    left, right = st.columns(2)
    with left, layout.card("token-more", "**What no number above covers**"):
        st.markdown(WORDS["pecl_claim"]["not_covered"])
    with right:
        _audits(epsilon, length, epochs, delta)


def _lines(given: Guarantee, claimed: Claim) -> tuple[dict[str, str], str]:
    """The nominal ε of a run, and the true ε of their noise."""
    rows = {f"{plain(name)} (no guarantee)": _number(value) for name, value in claimed.terms.items()}
    true = {name: value for name, value in claimed.numbers.items() if name.startswith("true ε")}
    rows |= {plain(name): _number(value) for name, value in true.items()}
    rest = " · ".join(f"{name} = {_number(value)}" for name, value in claimed.numbers.items() if name not in true)
    return rows | UNBOUNDED, f"Claimed: {claimed.source}. {rest}. True: exact for noise that does not depend on the token."


def _costs(epsilon: float, clip: float, length: int, epochs: int, times: int, delta: float) -> None:
    ratio = text_mechanisms.printed_ratio(epsilon, delta)

    def true(n_releases: int, share: float = 1.0) -> str:
        return _number(text_mechanisms.true_epsilon(share * ratio, delta, n_releases))

    nominal, epoch_text, plain_sum = _number(epsilon), _times(epochs, "epoch"), _number(length * epsilon)
    remark = text_mechanisms.remark_1([epsilon] * length, delta)
    layout.draw_table(("of", "nominal, no guarantee", "true ε"), (
        ("one token, one release", nominal, f"**{true(1)}**"),
        (f"one token, {epoch_text} with fresh noise", nominal, f"**{true(epochs)}**"),
        (f"a name that occurs {_times(times, 'time')}, one epoch", nominal, f"**{true(times)}**"),
        (f"the same name, {epoch_text}", nominal, f"**{true(times * epochs)}**"),
        (f"a text of {_times(length, 'token')}: plain sum, one release", plain_sum, f"**{true(length)}**"),
        (f"the same text: Remark 1, {epoch_text}", _number(remark), f"**{true(length * epochs)}**"),
        ("the same text, one release, with noise for sensitivity 2C", "", true(length, 2.0)),
    ))  # fmt: skip
    needed = text_mechanisms.ratio_for(epsilon, delta)
    st.caption(WORDS["pecl_claim"]["costs"].format(
        ratio=_number(ratio), sigma=_number(ratio * clip), needed=_number(needed), times=needed / ratio,
        delta=text_mechanisms.true_delta(epsilon, ratio),
    ))  # fmt: skip
    not_dp(
        f"Nominal ε = {shown_number(epsilon)} ({text_mechanisms.PAPER}), no guarantee: the noise level reveals the token, "
        "stop words have no noise, and training reads the raw text."
    )


def _curves(epsilon: float, length: int, epochs: int, times: int, delta: float) -> None:
    nominal = sorted({0.5, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, epsilon})
    costs = {
        "one token": 1,
        f"one token, {_times(epochs, 'epoch')}": epochs,
        f"a name, {_times(times, 'time')}": times,
        f"a text of {_times(length, 'token')}": length,
    }
    true = {
        name: [text_mechanisms.true_epsilon(text_mechanisms.printed_ratio(one, delta), delta, count) for one in nominal]
        for name, count in costs.items()
    }
    picture = figure_card.built(tokens.true_costs, nominal, true, chosen=epsilon)
    figure_card.show(
        picture, Provenance("computed", None, "PeCL as published, Eq. 5", delta=delta), key="token-curves",
        title="Nominal and true", linked=True,
    )  # fmt: skip


def _level(view: state.View, epsilon: float, delta: float) -> None:
    """Draws what the noise level reveals if both embeddings are equal."""
    with layout.card("token-level", "**The noise level alone reveals the token**"):
        options = {n: str(n) for n in sorted({64, 128, 768, 4096, view["t_width"]})}
        width = fields.segmented(view, "t_width", "Values of an embedding, d", options)
        rows = []
        for factor in (1.01, 1.1, 1.2, 2.0):
            first, second = (text_mechanisms.printed_ratio(one, delta) for one in (epsilon, factor * epsilon))
            level_epsilon = text_mechanisms.scale_epsilon(first, second, width, delta)
            share = 50 + 50 * text_mechanisms.scale_advantage(first, second, width)
            rows.append((f"{_number(epsilon)} or {_number(factor * epsilon)}", _number(level_epsilon), f"{share:.1f} %"))
        layout.draw_table(("nominal ε of two tokens, no guarantee", "ε of the noise level", "guessed right"), rows)
        st.caption(WORDS["pecl_claim"]["level"].format(width=width, percent=100 / math.sqrt(2 * width)))


def _audits(epsilon: float, length: int, epochs: int, delta: float) -> None:
    from dpcl_core.attacks.token_noise_games import ATTACKS, Setting, audited  # loads the accountant, which takes a second

    setting = Setting(epsilon, max(10.0, 2 * epsilon), delta, min(epochs, 20), length)
    with layout.card("token-audits", "**Attack it**"):
        st.caption(WORDS["pecl_claim"]["attacks"].format(epsilon=shown_number(setting.lower)))
        attacks(
            ATTACKS, lambda name: audited(setting, name, TRIALS), setting, key="token-audit",
            than=lambda result: f"the nominal {_number(result.claimed)}",
        )  # fmt: skip
        most = rounded_down(audit_bounds.one_way_bound(TRIALS, TRIALS, 0, TRIALS, setting.delta))
        st.caption(WORDS["pecl_claim"]["most"].format(n=TRIALS, most=most))


def _times(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


_number = tokens.budget_number
TITLE = "Claimed, accounted, audited: noise by the token (PeCL)"
CLAIM = ClaimSection(TITLE, WORDS["pecl_claim"]["about"], FIELDS, text_mechanisms.SOURCE, _lines, _body)
