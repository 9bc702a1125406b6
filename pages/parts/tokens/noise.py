"""Inversion of noisy embeddings: each one decoded as the nearest token of the public table."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

import streamlit as st

from dpcl_core.events import ScoredText
from dpcl_core.explorers import token_layers
from dpcl_core.explorers.token_layers import Dials
from dpcl_core.explorers.token_reader import ReaderEnded
from pages.parts.shell import layout
from pages.parts.tokens import heat, text_source

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

RELEASES = (1, 3, 10, 30, 100)
_KEPT = "tokens-read"
HONEST = 8.0  # epsilon of a whole text, for the noise that has a bound


@dataclass(frozen=True)
class Read:
    """The text that an attacker decodes: each token's nearest neighbour, whether it is right, and whether it had noise."""

    printed: tuple[str, ...]
    is_right: tuple[bool, ...]
    is_noised: tuple[bool, ...]

    @property
    def share(self) -> float | None:
        """Share of noised tokens read correctly; None if none has noise."""
        noised = [right for right, had in zip(self.is_right, self.is_noised, strict=True) if had]
        return sum(noised) / len(noised) if noised else None


@st.fragment
def card(text: ScoredText, dials: Dials, reader: str, *, n_releases: int, key: str) -> None:
    """Draws the text as read from its noisy embeddings; fresh noise for every text, every setting and every press.

    `reader`: the model whose tokens and embeddings they are.
    """
    with layout.card("noise"):
        st.markdown("**What remains readable**")
        try:
            reads = _latest(text, reader, dials, n_releases)
        except ReaderEnded as error:
            st.caption(f"Not shown: {error}.")
            return
        if reads is None:
            st.caption("This text has other tokens in the model, so its embeddings cannot be shown.")
            return
        published, bounded = reads
        st.html(_markup(published))
        n_noised = sum(published.is_noised)
        n_right = round((published.share or 0.0) * n_noised)
        clean = len(text.tokens) - n_noised
        stops = f" {clean} stop word token{'s have' if clean != 1 else ' has'} no noise." if clean else ""
        st.markdown(
            f"**The nearest embedding of the public table gives {n_right} of {n_noised} noised tokens correctly.{stops}**"
        )
        rows = [
            (f"as published, {heat.budgets(text, dials)}", published, n_releases),
            (f"one noise for all tokens, once: ε = {HONEST:g} for the whole text, proved", bounded, 1),
        ]
        heads = ("noise", "releases", "noised tokens read")
        layout.table(heads, ((name, str(n), _percent(read.share)) for name, read, n in rows))
        st.button("Draw again", key=key, on_click=_forget, help="Fresh noise; none is recorded")
        st.caption(
            f"δ = {dials.delta:g}. Embeddings of {text_source.MODEL_NAMES[reader]}, clipped to their median norm. "
            "Fresh noise in every epoch is one release per epoch; the attacker averages them. As published, stop words get "
            "no noise. Where nothing can be read, a model can learn almost nothing either."
        )


def _latest(text: ScoredText, reader: str, dials: Dials, n_releases: int) -> tuple[Read, Read] | None:
    """The text decoded under the published noise and under noise with a bound; cached for text, noise level and releases.

    None if the text has other tokens in the model. Raises ReaderEnded.
    """
    import numpy as np

    from dpcl_core.privacy import token_noise

    key = reader, text.tokens, token_layers.values(text, "sigma", dials).tobytes(), n_releases
    kept = st.session_state.get(_KEPT)
    if kept is None or kept[0] != key:
        read = _read if reader == text_source.BUNDLED else _read_big
        published = read(text, np.nan_to_num(token_layers.values(text, "sigma", dials), nan=0.0), n_releases)
        honest = token_noise.ratio_for(HONEST, dials.delta, len(text.tokens))
        bounded = read(text, np.full(len(text.tokens), honest), 1)
        kept = key, None if published is None or bounded is None else (published, bounded)
        st.session_state[_KEPT] = kept
    reads: tuple[Read, Read] | None = kept[1]
    return reads


def _forget() -> None:
    st.session_state.pop(_KEPT, None)


def _read_big(text: ScoredText, ratios: NDArray[np.float64], n_releases: int) -> Read | None:
    """The same by the process that has the big model."""
    found = text_source.big().read("".join(text.tokens), ratios.tolist(), n_releases)
    return None if found is None else Read(*found, tuple((ratios > 0).tolist()))


def _read(text: ScoredText, ratios: NDArray[np.float64], n_releases: int) -> Read | None:
    """The nearest token of each noisy embedding; `ratios` [m]: σ / C, 0 for no noise. None if the text has other tokens."""
    import numpy as np

    from dpcl_core.attacks import embedding_inversion
    from dpcl_core.backbones.language import plain, tokenizer
    from dpcl_core.privacy.embeddings import clipped
    from dpcl_core.privacy.noise import ReleaseNoise

    tokens = _ids(text)
    if tokens is None:
        return None
    table = plain.load().embeddings
    clip_norm = float(np.median(np.linalg.norm(table, axis=1)))
    rows = clipped(table, clip_norm)
    seen = embedding_inversion.seen(rows[tokens], ratios * clip_norm, n_releases, ReleaseNoise())
    nearest, _ = embedding_inversion.nearest(rows, seen)
    vocabulary = tokenizer.load("lm-tiny")
    return Read(
        tuple(vocabulary.shown(token) for token in nearest.tolist()),
        tuple((nearest == tokens).tolist()),
        tuple((ratios > 0).tolist()),
    )


def _ids(text: ScoredText) -> NDArray[np.int64] | None:
    """Token ids [m] int64 in the bundled tokenizer; None if it tokenizes the text differently."""
    import numpy as np

    from dpcl_core.backbones.language import tokenizer

    ids, _ = tokenizer.load("lm-tiny").encode("".join(text.tokens))
    return np.array(ids, np.int64) if ids and len(ids) == len(text.tokens) else None


def _markup(read: Read) -> str:
    """The decoded text as HTML: right tokens bold and underlined, wrong ones faint, tokens without noise plain."""
    parts = []
    for printed, right, had in zip(read.printed, read.is_right, read.is_noised, strict=True):
        name = "exact" if not had else "right" if right else "wrong"
        word = printed.lstrip(" ")
        parts.append(f"{printed[: len(printed) - len(word)]}<i class='{name}'>{escape(word)}</i>")
    legend = (
        '<ul class="heat-legend" aria-label="Legend"><li><i class="right">read right</i></li>'
        '<li><i class="wrong">read wrong</i></li><li><i class="exact">had no noise</i></li></ul>'
    )
    return f'<div class="heat read" dir="auto" role="group" aria-label="What is read">{"".join(parts)}</div>{legend}'


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.1f} %"
