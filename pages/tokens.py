"""Tokens: which words are treated as sensitive? A text shaded by what PeCL makes of it, what its noise hides, what leaks."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import cast

import streamlit as st

from dpcl_core.errors import BadInput
from dpcl_core.events import ScoredText, TokensScored
from dpcl_core.explorers import token_layers
from dpcl_core.explorers.token_layers import Dials, Layer, dials_of
from dpcl_core.figures.picture import Provenance
from pages.parts.shell import layout, link, state
from pages.parts.shell.header import actions, heading
from pages.parts.shell.view import View
from pages.parts.tokens import found, heat, noise, ofrun, source
from pages.parts.tokens.source import Looked

BUDGETS = (0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0)
USUAL = Dials()
_DRAWN = "tokens-layer"  # which layer the page was last drawn with, as a whole
_PAINT_SECONDS = 0.1
CODEC = link.Codec(
    [
        *source.FIELDS,
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
HELP = """**Score** is PeCL's measure of how sensitive a token is: how unlikely a language model finds it, moved a little by
how common it is. From it follow the **noise** on the token and its weight in the **loss**. The budgets that the publication
prints are nominal, and no guarantee comes with them: the noise is too small by a factor of two, depends on the token itself,
and leaves stop words out. Personal data is outlined where somebody marked them: hold the shades against the outlines."""


@state.guarded
def page() -> None:
    """The page."""
    view = View("tokens", lambda _: CODEC)
    place = heading("Tokens", "Which words are treated as sensitive?", notices=[*view.read.notices, *_trouble(view)])
    controls, answer = layout.controls_and_answer()
    with controls:
        looked = source.choose(view)
        usual = dials_of(looked.result.spec, looked.epsilon) if looked.result is not None else USUAL
        dials, values = _dials(view, usual)
    with answer:
        layer = cast(Layer, view["layer"])
        if looked.text is None or not looked.text.tokens:
            _nothing(looked)
        else:
            layer = _looked_at(view, looked, looked.text, dials, values)
        _many(looked, dials)
    share = view.commit({**looked.values, **values, "layer": layer}, CODEC)
    actions(place, share=share, help_text=HELP, view=view)


def _trouble(view: View) -> list[str]:
    """What to say about a run that a link names and that is not there."""
    if view["run"] is None:
        return []
    try:
        state.store().get(str(view["run"]))
    except BadInput as refused:
        return [f"{refused}."]
    return []


def _dials(view: View, usual: Dials) -> tuple[Dials, dict[str, object]]:
    """Settings of score and noise, starting from those of the run or the published ones; what differs goes into the link."""
    start = {name: getattr(usual, name) if view[name] is None else view[name] for name in _NAMES}
    number = {name: float(str(start[name])) for name in _NAMES if name != "loss"}
    key = "-".join(f"{value}" for value in start.values())
    alpha = st.slider(
        "α: surprise against commonness", 0.0, 1.0, number["alpha"], 0.05, key=view.key(f"alpha-{key}"),
        help="1: Score1 alone. 0: Score2 alone. Published: 0.5.",
    )  # fmt: skip
    threshold = st.slider(
        "θ: sensitive above", 0.0, 1.0, number["threshold"], 0.05, key=view.key(f"threshold-{key}"),
        help="Where the unlearning term begins. Published: 0.6.",
    )  # fmt: skip
    options = sorted({*BUDGETS, number["lower"], number["upper"]})
    lower, upper = st.select_slider(
        "Nominal ε of a token, from the most to the least noised (no guarantee)", options,
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
        losses = ["answer", "full"]
        loss = st.segmented_control(
            "What is learned", losses, default=str(start["loss"]), key=view.key(f"loss-{key}"), required=True,
            format_func={"answer": "the label only", "full": "text and label"}.__getitem__,
        )  # fmt: skip
    dials = Dials(alpha, threshold, lower, upper, usual.delta, strength, "full" if loss == "full" else "answer")
    values = {name: None if getattr(dials, name) == getattr(usual, name) else getattr(dials, name) for name in _NAMES}
    return dials, {**values, "releases": releases}


_NAMES = ("alpha", "threshold", "lower", "upper", "strength", "loss")


def _nothing(looked: Looked) -> None:
    """Why there is no heatmap, and what to do."""
    with layout.card("heat"):
        st.markdown("**No text to show yet**")
        why = looked.why or "This text has no tokens."
        (st.warning if looked.is_warning else st.info)(why)


def _looked_at(view: View, looked: Looked, text: ScoredText, dials: Dials, values: Mapping[str, object]) -> Layer:
    """Bar, heatmap and what noise leaves of the text; gives the layer that is shown."""
    is_published = looked.result is None or looked.result.standing == "claimed"
    heat.bar(text, dials, looked.name, is_published=is_published)
    key = view.key("layer")
    layer = cast(Layer, st.session_state.get(key) or view["layer"])
    st.session_state[_DRAWN] = layer
    _heat(view, key, looked.name, text, dials, {**looked.values, **values})
    if looked.is_bundled:
        noise.card(text, dials, n_releases=int(str(values["releases"])), key=view.key("draw"))
    return layer


@st.fragment
@state.guarded
def _heat(view: View, key: str, name: str, text: ScoredText, dials: Dials, values: Mapping[str, object]) -> None:
    """The heatmap alone: another layer is painted at once; the page follows, whose links must name it too.

    The browser gets a moment to paint before all the rest arrives, which it would take in first.
    """
    with layout.card("heat"):
        layer = heat.picker(cast(Layer, view["layer"]), key)
        heat.show(text, layer, dials, name, key=f"{key}-heat")
        share = view.commit({**values, "layer": layer}, CODEC)
        heat.strip(text, dials, name, share)
    if layer != st.session_state[_DRAWN]:
        time.sleep(_PAINT_SECONDS)
        st.rerun()


def _many(looked: Looked, dials: Dials) -> None:
    """Over many texts: what the score finds; of a run, what it remembers and what leaks."""
    share = st.query_params.to_dict()
    if looked.result is None:
        told = source.corpus()
        n_texts = sum(len(texts) for texts in told.texts)
        with st.spinner(f"Scoring {n_texts} texts ..."):
            of = source.everything()
        title = "synthetic texts with marked personal data, bundled model"
        found.card(of, ("examples",), dials, Provenance(title, n_texts, "PeCL's score", "", (), None, 0, ()), share)
        return
    if looked.epsilon is None:
        return
    ofrun.figures(looked.result, looked.epsilon, share=share, live=False)
    said = [event for event in looked.result.said if isinstance(event, TokensScored)]
    wanted = looked.epsilon, looked.values["model"]
    texts = [text for event in said if (event.cell.epsilon, event.model) == wanted for text in event.texts]
    if texts:
        key = (*state.where(), looked.result.run_id, len(texts), *wanted)
        found.card(texts, key, dials, replace(looked.result.provenance, n_train=len(texts)), share)


if __name__ == "__main__":
    page()
