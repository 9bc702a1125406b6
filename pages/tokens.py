"""Tokens page: which words PeCL treats as sensitive, what its noise hides, and what a trained model leaks."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import cast

import streamlit as st

from dpcl_core.events import ScoredText, TokensScored
from dpcl_core.explorers import token_layers
from dpcl_core.explorers.token_layers import Dials, Layer, dials_of
from dpcl_core.explorers.token_reader import ReaderEnded
from dpcl_core.figures.picture import Provenance
from pages.parts.shell import layout, link, pickers, state
from pages.parts.shell.header import actions, heading
from pages.parts.shell.view import View
from pages.parts.tokens import detection_card, heat, noise, run_figures, text_source
from pages.parts.tokens.text_source import Selected

BUDGETS = (0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0)
USUAL = Dials()
_NAMES = ("alpha", "threshold", "lower", "upper", "strength", "loss")  # of the fields that are dials, too
_DRAWN = "tokens-layer"  # the layer with which the whole page was last drawn
_PAINT_SECONDS = 0.1
CODEC = link.Codec(
    [
        *text_source.FIELDS,
        link.Field("layer", "l", "layer", link.Choice(token_layers.LAYERS), "score"),
        link.Field("alpha", "a", "α", link.Maybe(link.Number(0.0, 1.0)), None),
        link.Field("threshold", "th", "θ", link.Maybe(link.Number(0.0, 1.0)), None),
        link.Field("lower", "lo", "lower nominal ε", link.Maybe(link.Number(BUDGETS[0], BUDGETS[-1])), None),
        link.Field("upper", "up", "upper nominal ε", link.Maybe(link.Number(BUDGETS[0], BUDGETS[-1])), None),
        link.Field("strength", "la", "λ", link.Maybe(link.Number(0.0, 100.0)), None),
        link.Field("loss", "lf", "loss", link.Maybe(link.Choice(("answer", "full"))), None),
        link.Field("releases", "r", "releases", link.Whole(1, 100), 1),
    ]
)
HELP = """**Score** is PeCL's measure of how sensitive a token is: how unlikely a language model finds it, corrected by how
common it is. It determines the **noise** on the token and its weight in the **loss**. The published budgets are nominal and
come without a guarantee: the noise is too small by a factor of two, depends on the token itself, and leaves stop words out.
Outlines mark personal data: compare the shades with them."""


@state.guarded
def page() -> None:
    """The page."""
    view = View("tokens", lambda _: CODEC)
    place = heading(
        "Sensitive words", "PeCL: which words are treated as sensitive?",
        notices=[*view.read.notices, *pickers.missing_run(view)],
    )  # fmt: skip
    controls, answer = layout.controls_and_answer()
    with controls:
        selected = text_source.choose(view)
        usual = dials_of(selected.result.spec, selected.epsilon) if selected.result is not None else USUAL
        dials, values = _dials(view, usual)
    with answer:
        layer = cast(Layer, view["layer"])
        if selected.text is None or not selected.text.tokens:
            _empty(selected)
        else:
            layer = _text(view, selected, selected.text, dials, values)
        _many(selected, dials)
    share = view.commit({**selected.values, **values, "layer": layer}, CODEC)
    actions(place, share=share, help_text=HELP, view=view)


def _dials(view: View, usual: Dials) -> tuple[Dials, dict[str, object]]:
    """Draws the settings of score and noise, starting from the run's or the published ones; returns them and link values."""
    start = {name: getattr(usual, name) if view[name] is None else view[name] for name in _NAMES}
    number = {name: float(str(start[name])) for name in _NAMES if name != "loss"}
    key = "-".join(f"{value}" for value in start.values())
    alpha = st.slider(
        "α: surprise against commonness", 0.0, 1.0, number["alpha"], 0.05, key=view.key(f"alpha-{key}"),
        help="1: Score1 alone. 0: Score2 alone. Published: 0.5.",
    )  # fmt: skip
    threshold = st.slider(
        "θ: sensitive above this score", 0.0, 1.0, number["threshold"], 0.05, key=view.key(f"threshold-{key}"),
        help="The unlearning term acts above this score. Published: 0.6.",
    )  # fmt: skip
    options = sorted({*BUDGETS, number["lower"], number["upper"]})
    lower, upper = st.select_slider(
        "Nominal ε of a token, from most to least noise (no guarantee)", options,
        (number["lower"], number["upper"]), key=view.key(f"budget-{key}"), format_func=lambda each: f"{each:g}",
        help="As published: 1 to 10.",
    )  # fmt: skip
    releases = st.select_slider(
        "Releases of each token (epochs with fresh noise)", sorted({*noise.RELEASES, int(str(view["releases"]))}),
        int(str(view["releases"])), key=view.key("releases"),
    )  # fmt: skip
    with st.expander("The loss"):
        strength = st.number_input(
            "λ: strength of unlearning", 0.0, 100.0, number["strength"], key=view.key(f"strength-{key}"),
            help="Published: 1.",
        )  # fmt: skip
        losses = {"answer": "the label only", "full": "text and label"}
        loss = st.segmented_control(
            "What is learned", list(losses), default=str(start["loss"]), key=view.key(f"loss-{key}"), required=True,
            format_func=losses.__getitem__,
        )  # fmt: skip
    dials = Dials(alpha, threshold, lower, upper, usual.delta, strength, "full" if loss == "full" else "answer")
    values = {name: None if getattr(dials, name) == getattr(usual, name) else getattr(dials, name) for name in _NAMES}
    return dials, {**values, "releases": releases}


def _empty(selected: Selected) -> None:
    """Draws the reason why there is no heatmap, and what to do."""
    with layout.card("heat"):
        st.markdown("**No text to show yet**")
        why = selected.why or "This text has no tokens."
        (st.warning if selected.is_warning else st.info)(why)


def _text(view: View, selected: Selected, text: ScoredText, dials: Dials, values: Mapping[str, object]) -> Layer:
    """Draws the bar, the heatmap, and what is readable under noise; returns the shown layer."""
    is_published = selected.result is None or selected.result.standing == "claimed"
    heat.bar(text, dials, selected.name, is_published=is_published)
    key = view.key("layer")
    layer = cast(Layer, st.session_state.get(key) or view["layer"])
    st.session_state[_DRAWN] = layer
    _heat(view, key, selected.name, text, dials, {**selected.values, **values})
    if selected.reader is not None:
        noise.card(text, dials, selected.reader, n_releases=int(str(values["releases"])), key=view.key("draw"))
    return layer


@st.fragment
@state.guarded
def _heat(view: View, key: str, name: str, text: ScoredText, dials: Dials, values: Mapping[str, object]) -> None:
    """Draws the heatmap as a fragment, so that a new layer appears at once; the page then reruns to update its links.

    A short wait lets the browser paint the layer before the rest of the page arrives.
    """
    with layout.card("heat"):
        layer = heat.picker(cast(Layer, view["layer"]), key)
        heat.show(text, layer, dials, name, key=f"{key}-heat")
        share = view.commit({**values, "layer": layer}, CODEC)
        heat.footer(text, dials, name, share)
    if layer != st.session_state[_DRAWN]:
        time.sleep(_PAINT_SECONDS)
        st.rerun()


def _many(selected: Selected, dials: Dials) -> None:
    """Draws detection over many texts and, for a run, memorisation and leaks."""
    share = st.query_params.to_dict()
    if selected.result is None:
        reader = selected.reader or text_source.BUNDLED
        try:
            with st.spinner("Scoring texts ..."):
                scored = text_source.everything(reader)
        except ReaderEnded as error:
            st.warning(f"Detection over many texts is not shown: {error}.")
            return
        words = f"synthetic texts with marked personal data, {text_source.MODEL_NAMES[reader]}"
        detection_card.card(scored, ("examples", reader), dials, Provenance(words, len(scored), "PeCL's score"), share)
        return
    if selected.epsilon is None:
        return
    run_figures.figures(selected.result, selected.epsilon, share=share, live=False)
    events = [event for event in selected.result.events if isinstance(event, TokensScored)]
    wanted = selected.epsilon, selected.values["model"]
    texts = [text for event in events if (event.cell.epsilon, event.model) == wanted for text in event.texts]
    if texts:
        key = (*state.where(), selected.result.run_id, len(texts), *wanted)
        detection_card.card(texts, key, dials, replace(selected.result.provenance, n_train=len(texts)), share)


if __name__ == "__main__":
    page()
