"""Sensitive words on Explore: which words PeCL treats as sensitive, what its noise hides, and what a trained model leaks."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import streamlit as st

from dpcl_core.elements.element import BUDGETS, FIRST
from dpcl_core.events import TokensScored
from dpcl_core.explorers import token_reader, tokens
from dpcl_core.explorers.tokens import Dials, Layer, dials_of
from dpcl_core.figures.picture import Provenance
from pages.parts import fields, layout, link, pecl_claim, state, token_heat, token_text
from pages.parts.text import WORDS

USUAL = Dials()
_NAMES = ("alpha", "threshold", "lower", "upper", "strength", "loss")  # of the fields that are dials, too
CODEC = link.Codec(
    [
        *token_text.FIELDS,
        link.Field("layer", "l", "layer", link.Choice(tokens.SHOWN), FIRST),
        link.Field("alpha", "a", "α", link.Maybe(link.Number(0.0, 1.0)), None),
        link.Field("threshold", "th", "θ", link.Maybe(link.Number(0.0, 1.0)), None),
        link.Field("lower", "lo", "lower nominal ε", link.Maybe(link.Number(BUDGETS[0], BUDGETS[-1])), None),
        link.Field("upper", "up", "upper nominal ε", link.Maybe(link.Number(BUDGETS[0], BUDGETS[-1])), None),
        link.Field("strength", "la", "λ", link.Maybe(link.Number(0.0, 100.0)), None),
        link.Field("loss", "lf", "loss", link.Maybe(link.Choice(("answer", "full"))), None),
        link.Field("releases", "r", "releases", link.Whole(1, 100), 1),
    ]
)


def page() -> None:
    """The view."""
    view = state.View("tokens", lambda _: CODEC)
    place = layout.heading(
        "Explore", "Which words does the method think are private?",
        notices=[*view.read.notices, *fields.linked_run(view)[1]],
    )  # fmt: skip
    controls, answer = layout.controls_and_answer()
    with controls:
        selected = token_text.choose(view)
        usual = dials_of(selected.result.spec, selected.epsilon) if selected.result is not None else USUAL
        dials, releases = _dials(view, usual)
    with answer:
        layer = cast(Layer, view["layer"])
        if selected.is_typed or (selected.text is not None and selected.text.tokens):
            dials, layer = _text(view, selected, dials, layer, releases)
        else:
            with layout.card("heat"):
                st.markdown("**No text to show yet**")
                (st.warning if selected.is_warning else st.info)(selected.why or "This text has no tokens.")
        _many(selected, dials)
    values = {name: None if getattr(dials, name) == getattr(usual, name) else getattr(dials, name) for name in _NAMES}
    view.commit({**selected.values, **values, "releases": releases, "layer": layer}, CODEC)
    layout.actions(place, is_shared=True, help_text=WORDS["sensitive_words"]["help"], view=view)


def _dials(view: state.View, usual: Dials) -> tuple[Dials, int]:
    """Draws the settings that the explorer has no slider for; returns the settings to start from, and the releases."""
    start = {name: getattr(usual, name) if view[name] is None else view[name] for name in _NAMES}
    number = {name: float(str(start[name])) for name in _NAMES if name != "loss"}
    with st.expander("More of the method"):
        alpha = st.slider(
            "α: surprise against commonness", 0.0, 1.0, number["alpha"], 0.05, key=view.key(f"alpha-{number['alpha']}"),
            help="1: Score1 alone. 0: Score2 alone. Published: 0.5.",
        )  # fmt: skip
        lower = st.select_slider(
            "Nominal ε of the most sensitive token (no guarantee)", sorted({*BUDGETS, number["lower"]}), number["lower"],
            key=view.key(f"lower-{number['lower']}"), format_func=lambda each: f"{each:g}", help="Published: 1.",
        )  # fmt: skip
        strength = st.number_input(
            "λ: strength of unlearning", 0.0, 100.0, number["strength"], key=view.key(f"strength-{number['strength']}"),
            help="Published: 1.",
        )  # fmt: skip
        losses = {"answer": "the label only", "full": "text and label"}
        key = view.key(f"loss-{start['loss']}")
        learned = fields.segmented(view, "loss", "What is learned", losses, start=str(start["loss"]), key=key)
        releases = st.select_slider(
            "Releases of each token (epochs with fresh noise)", sorted({*token_heat.RELEASES, int(str(view["releases"]))}),
            int(str(view["releases"])), key=view.key("releases"),
        )  # fmt: skip
    upper = max(number["upper"], lower)
    start_dials = replace(usual, alpha=alpha, threshold=number["threshold"], lower=lower, upper=upper, strength=strength)
    return replace(start_dials, loss="full" if learned == "full" else "answer"), releases


def _text(view: state.View, selected: token_text.Selected, start: Dials, layer: Layer, releases: int) -> tuple[Dials, Layer]:
    """Draws the explorer and, for a text that the server has, what its noise is worth; returns settings and layer."""
    text, banner = selected.text, st.container()
    budgets = sorted({*BUDGETS, start.upper})
    with layout.card("heat"):
        key = view.key("explorer")
        dials, layer = token_heat.draw(text, start, layer, selected.name, budgets, reader=selected.reader, key=key)
        if text is not None:
            token_heat.footer(text, dials, selected.name)
    if text is None:
        return dials, layer
    with banner:
        true = tokens.text_epsilon(text, dials)
        said = f"The paper's ε is only a name here: nothing is protected. True ε for this text: {true:,.0f}."
        if selected.result is not None and selected.result.standing != "claimed":
            said = f"{said} This run adds other noise: see its statement on the Privacy page."
        pecl_claim.not_dp(said)
    if selected.reader is not None:
        box = layout.folded("What can an attacker read of it?", view.key("read"))
        if box is not None:
            with box:
                token_heat.draw_read(text, dials, selected.reader, n_releases=releases, key=view.key("draw"))
    return dials, layer


def _many(selected: token_text.Selected, dials: Dials) -> None:
    """Draws detection over many texts and, for a run, memorisation and leaks."""
    if selected.result is None:
        reader = selected.reader or token_text.BUNDLED
        try:
            with st.spinner("Scoring texts ..."):
                scored = token_text.everything(reader)
        except token_reader.ReaderEnded as error:
            st.warning(f"Detection over many texts is not shown: {error}.")
            return
        words = f"synthetic texts with marked personal data, {token_text.MODEL_NAMES[reader]}"
        token_heat.detection_card(scored, ("examples", reader), dials, Provenance(words, len(scored), "PeCL's score"))
        return
    if selected.epsilon is None:
        return
    token_heat.leak_figures(selected.result, selected.epsilon, live=False)
    events = [event for event in selected.result.events if isinstance(event, TokensScored)]
    wanted = selected.epsilon, selected.values["model"]
    texts = [text for event in events if (event.cell.epsilon, event.model) == wanted for text in event.texts]
    if texts:
        key = (*state.where(), selected.result.run_id, len(texts), *wanted)
        token_heat.detection_card(texts, key, dials, replace(selected.result.provenance, n_train=len(texts)))
