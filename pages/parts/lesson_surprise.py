"""Lesson "Surprise is not privacy": token scores, their ranking of personal data and look-alikes, and memorised texts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
import streamlit as st

from dpcl_core.events import ScoredText
from dpcl_core.explorers import tokens as explorers_tokens
from dpcl_core.explorers.tokens import Dials, values
from dpcl_core.figures import tokens as figures
from dpcl_core.figures.picture import Provenance
from dpcl_core.lessons import modes as game
from pages.parts import token_heat, token_text
from pages.parts.layout import table
from pages.parts.lesson_stage import Stage
from pages.parts.text import percent

ALPHAS = (0.0, 0.2, 0.3, 0.5, 0.7, 0.8, 1.0)
SHARES = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99)
_TITLE = "Does the score find personal data?"
TOP = 0.2  # share of all tokens that counts as most surprising
_NEAR, _WELL = 0.05, 0.8  # distance from 0.5 that still counts as chance; AUROC that counts as well separated


def look(stage: Stage) -> int:
    """A text shaded by surprise, and the kinds of the most surprising tokens of all texts."""
    corpus = token_text.corpus()
    places = range(len(corpus.sources))
    picked = st.selectbox(
        "Family of texts", places, index=1, format_func=corpus.sources.__getitem__, key=stage.key("family")
    )
    stage.press("Score a text", lambda: True)
    dials, texts = Dials(), token_text.everything(token_text.BUNDLED)
    number = int(st.number_input("Text, 1 to 20", 1, 20, 4, key=stage.key("number")))
    text = corpus.text(picked, number - 1)
    stage.see()
    token_heat.picture(text, "score1", dials, f"A made-up text of {corpus.sources[picked]}", key=stage.key("scored"))
    tokens = explorers_tokens.gathered(texts)
    surprise = np.concatenate([values(each, "score1", dials) for each in texts])
    most = surprise >= np.quantile(surprise, 1 - TOP)
    private, lookalike = tokens.is_private[most].mean(), tokens.is_lookalike[most].mean()
    st.markdown(
        f"**Of the {most.sum():,} most surprising tokens in {len(texts)} texts, {percent(private, 0)} are personal, "
        f"{percent(lookalike, 0)} only look like it, and {percent(1 - private - lookalike, 0)} are neither.**"
    )
    return 0 if private > 0.5 else 1


def rank(stage: Stage) -> int:
    """Personal tokens against all others, with and without stop words."""
    stage.results("Score all texts", lambda: True)
    aurocs = _bars(stage, [explorers_tokens.EVERY, explorers_tokens.NO_STOPS])
    return 0 if aurocs[explorers_tokens.EVERY] > 0.9 else 1 if aurocs[explorers_tokens.EVERY] > 0.6 else 2


def lookalikes(stage: Stage) -> int:
    """Personal tokens against harmless ones that look like them."""
    stage.results("Compare with look-alikes", lambda: True)
    aurocs = _bars(stage, [explorers_tokens.EVERY, explorers_tokens.NO_STOPS, explorers_tokens.AGAINST])
    alone = aurocs[explorers_tokens.AGAINST]
    if alone < 0.5 - _NEAR:
        return 2
    return 1 if alone <= 0.5 + _NEAR or aurocs[explorers_tokens.EVERY] - alone > _NEAR else 0


def alpha(stage: Stage) -> int:
    """Detection of personal data at every weight α."""

    def ranked() -> dict[str, dict[float, float]]:
        texts = token_text.everything(token_text.BUNDLED)
        tokens = explorers_tokens.gathered(texts)
        by = {each: explorers_tokens.scores(game.ranked(texts, Dials(alpha=each)), tokens).auroc for each in ALPHAS}
        return {name: {each: by[each][name] for each in ALPHAS} for name in by[ALPHAS[0]]}

    curves = stage.press("Rank at every α", ranked)
    chosen = stage.choose("mix", ALPHAS)
    nearest = min(ALPHAS, key=lambda each: abs(each - chosen))
    stage.see()
    picture = figures.by_alpha(curves, chosen=nearest, dark=stage.dark)
    stage.card(picture, _provenance(), pd.DataFrame(curves).rename_axis("alpha").reset_index(), _TITLE)
    best = max(curves[explorers_tokens.AGAINST].values())
    return 0 if best > _WELL else 1 if best > 0.5 + _NEAR else 2


def misses(stage: Stage) -> int:
    """Kinds of words by their mean score, and the noise that follows."""
    stage.results("Sort the kinds", lambda: True)
    _, _, kinds = token_heat.measured(token_text.everything(token_text.BUNDLED), Dials())
    token_heat.by_kind(kinds)
    st.caption(f"θ = {Dials().threshold:g}: above it, a token is to be unlearned. AUROC is against unmarked tokens.")
    scores = kinds.set_index("kind")["mean_score"]
    named = [float(scores.get(kind, 0.0)) for kind in ("CONDITION", "NAME", "D:city")]
    return named.index(max(named))


def feedback(stage: Stage) -> int:
    """Scores by a model that has memorised the texts to a growing share."""

    def learned() -> list[tuple[float, float, float, float, float]]:
        return [(share, *_private(_by_heart(share))) for share in SHARES]

    rows_by_share = stage.press("Learn by heart", learned)
    share = stage.choose("by-heart", SHARES)
    stage.see()
    texts = token_text.everything(token_text.BUNDLED)
    number = next((place for place, text in enumerate(texts) if "NAME" in text.kinds), 0)
    text, name = _by_heart(share)[number], "A made-up text, partly memorised"
    token_heat.picture(text, "score", Dials(), name, key=stage.key("known"))
    table(("memorised", "mean score", "mean nominal ε (no guarantee)", "above θ", "AUROC, all tokens"), (
        (f"**{percent(each, 0)}**" if each == share else percent(each, 0), f"{score:.2f}", f"{nominal:.2g}",
         percent(recall, 0), f"{auroc:.2f}")
        for each, score, nominal, recall, auroc in rows_by_share
    ), names=0, title=f"Personal tokens of {len(texts)} texts")  # fmt: skip
    st.caption("Model and memory are mixed: (1 − share) P + share M, M from these texts alone. A stand-in for training.")
    st.page_link("pages/tokens.py", label=":primary[Score other texts on Sensitive words →]")
    change = rows_by_share[-1][1] - rows_by_share[0][1]
    return 2 if change < -0.02 else 0 if change > 0.02 else 1


def _bars(stage: Stage, groups: list[str]) -> dict[str, float]:
    """Draws bars of score and pattern for these comparisons; returns the score's AUROC by comparison."""
    table, _, _ = token_heat.measured(token_text.everything(token_text.BUNDLED), Dials())
    shown = table[table["group"].isin(groups)]
    stage.card(figures.detection(shown, dark=stage.dark), _provenance(), shown, _TITLE)
    by = shown[shown["detector"] == "score"].set_index("group")["auroc"]
    return {str(group): float(value) for group, value in by.items()}


@st.cache_resource(max_entries=len(SHARES), show_spinner=False)
def _by_heart(share: float) -> Sequence[ScoredText]:
    """All texts, scored by a model that has memorised them to this share."""
    return game.learned(token_text.everything(token_text.BUNDLED), share)


def _private(texts: Sequence[ScoredText]) -> tuple[float, float, float, float]:
    """For personal tokens: mean score, mean nominal ε if noised, share above the threshold; and AUROC over all tokens."""
    dials, tokens = Dials(), explorers_tokens.gathered(texts)
    score, private = game.ranked(texts, dials), tokens.is_private
    nominal = np.concatenate([values(text, "nominal", dials) for text in texts])[private]
    return (
        float(score[private].mean()),
        float(np.nanmean(nominal)),
        explorers_tokens.recall(score, private, dials.threshold),
        explorers_tokens.scores(score, tokens).auroc[explorers_tokens.EVERY],
    )


def _provenance() -> Provenance:
    n_texts = len(token_text.everything(token_text.BUNDLED))
    return Provenance("made-up texts with marked personal data", n_texts, "bundled model")
