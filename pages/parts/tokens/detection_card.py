"""How well the score detects marked personal data over many texts, compared with a simple pattern, by kind of span."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import streamlit as st

from dpcl_core.data.texts import LOOKALIKE
from dpcl_core.events import ScoredText
from dpcl_core.explorers.token_layers import Dials
from dpcl_core.figures.picture import Picture, Provenance
from pages.parts.shell import figure_card, layout, style
from pages.parts.shell.still import still

if TYPE_CHECKING:
    import pandas as pd

_SPELLED = {"SSN": "SSN", "IBAN": "IBAN", "DOB": "date of birth", "EMAIL": "e-mail", "RECORD": "record number"}


def card(
    texts: Sequence[ScoredText], key: tuple[object, ...], dials: Dials, source: Provenance
) -> None:
    """Draws AUROC, average precision, and recall at the threshold by kind of span. `key` identifies the texts."""
    dark = style.is_dark()
    picture, table, groups, kinds = _drawn(key, dials, dark, texts)
    if groups.empty:
        with layout.card("found"):
            st.markdown("**Does the score find personal data?**")
            st.caption("No personal data is marked in these texts, so detection cannot be measured.")
        return
    figure_card.show(
        picture, source, key="detection", title="Does the score find personal data?", table=table, linked=True,
    )  # fmt: skip
    _tables(key, dials, groups, kinds)


@still
def _tables(key: tuple[object, ...], dials: Dials, _groups: pd.DataFrame, _kinds: pd.DataFrame) -> None:
    """Draws the last two tables of `measured`, which follow from the texts and the settings."""
    with layout.card("kinds"):
        st.markdown("**Precision, and detection by kind of data**")
        by_group(_groups)
        st.caption(
            "Precision: average precision. Guessing at random reaches the share of personal tokens. The pattern (a capital "
            "letter, @ or two digits in the word) is a baseline, not a proposal."
        )
        with st.expander(f"Every kind, with recall at θ = {dials.threshold:g}"):
            by_kind(_kinds)
            st.caption("The AUROC of a kind compares its tokens with tokens outside any span.")


@st.cache_resource(max_entries=40, show_spinner=False)
def _drawn(
    key: tuple[object, ...], dials: Dials, dark: bool, _texts: Sequence[ScoredText]
) -> tuple[Picture, pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """The figure and the tables of `measured`, cached for all visitors by texts and settings."""
    from dpcl_core.figures import tokens as figures

    table, groups, kinds = measured(_texts, dials)
    return figures.detection(table, dark=dark), table, groups, kinds


def measured(texts: Sequence[ScoredText], dials: Dials) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Three tables, the last two empty where no private span is marked.

    1 group, detector ("score", "pattern"), auroc, average_precision, share (of private tokens in the group).
    2 the same, wide. 3 kind, is_private, n, mean_score, nominal_epsilon, true_epsilon (means; NaN: stop words alone),
    recall (share above the threshold), auroc.
    """
    import numpy as np
    import pandas as pd

    from dpcl_core.explorers import detection, token_layers

    tokens = detection.gathered(texts)
    score = np.concatenate([token_layers.scores(text, dials) for text in texts])
    by_detector = {
        "score": detection.scores(score, tokens),
        "pattern": detection.scores(tokens.has_pattern.astype(np.float64), tokens),
    }
    rows = [
        (group, detector, one.auroc[group], one.precision[group], one.share[group])
        for detector, one in by_detector.items()
        for group in one.auroc
    ]
    table = pd.DataFrame(rows, columns=["group", "detector", "auroc", "average_precision", "share"])
    if not tokens.is_private.any():
        return table, pd.DataFrame(), pd.DataFrame()
    nominal, true = (
        np.concatenate([token_layers.values(text, layer, dials) for text in texts]) for layer in ("nominal", "true")
    )
    kinds = []
    for kind, auroc in detection.by_kind(score, tokens).items():
        inside = tokens.kinds == kind
        noised = inside & ~tokens.is_stop
        means = (float(each[noised].mean()) if noised.any() else float("nan") for each in (nominal, true))
        recall = detection.recall(score, inside, dials.threshold)
        is_private = not kind.startswith(LOOKALIKE)
        kinds.append((kind, is_private, int(inside.sum()), float(score[inside].mean()), *means, recall, auroc))
    columns = ["kind", "is_private", "n", "mean_score", "nominal_epsilon", "true_epsilon", "recall", "auroc"]
    wide = table.pivot(index="group", columns="detector", values=["auroc", "average_precision", "share"])
    return table, wide.loc[list(by_detector["score"].auroc)], pd.DataFrame(kinds, columns=columns)


def by_group(wide: pd.DataFrame) -> None:
    """Draws the second table of `measured`."""
    rows = (
        (
            str(group), f"{row['auroc', 'score']:.2f}", f"{row['auroc', 'pattern']:.2f}",
            f"{row['average_precision', 'score']:.2f}", f"{row['average_precision', 'pattern']:.2f}",
            f"{100 * row['share', 'score']:.0f} %",
        )
        for group, row in wide.iterrows()
    )  # fmt: skip
    layout.table(("kind", "AUROC, score", "AUROC, pattern", "precision, score", "precision, pattern", "personal"), rows)


def by_kind(table: pd.DataFrame) -> None:
    """Draws the third table of `measured`: private kinds first, then by ascending mean score."""
    rows = (
        (
            _kind(row.kind), f"{row.n:,}", f"{row.mean_score:.2f}", f"{row.nominal_epsilon:.2g}", f"{row.true_epsilon:.2g}",
            f"{100 * row.recall:.0f} %", f"{row.auroc:.2f}",
        )
        for row in table.sort_values(["is_private", "mean_score"], ascending=[False, True]).itertuples()
    )  # fmt: skip
    heads = ("kind", "tokens", "mean score", "mean nominal ε (no guarantee)", "mean true ε of the noise", "above θ", "AUROC")
    layout.table(heads, rows)


def _kind(kind: str) -> str:
    if kind.startswith(LOOKALIKE):
        return f"{kind.removeprefix(LOOKALIKE)} (harmless)"
    return _SPELLED.get(kind, kind.lower())
