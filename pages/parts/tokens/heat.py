"""The heatmap of a text: a choice of layer, the shaded text, its legend, and the finding in words."""

from __future__ import annotations

from html import escape

import numpy as np
import streamlit as st

from dpcl_core.data.texts import LOOKALIKE
from dpcl_core.elements.element import HEATMAP
from dpcl_core.elements.tokens import MEANS, TITLES
from dpcl_core.events import ScoredText
from dpcl_core.explorers import token_layers
from dpcl_core.explorers.token_layers import Dials, Layer
from dpcl_core.figures import heatmap
from dpcl_core.figures.picture import counted
from pages.parts.shell import address
from pages.parts.shell.mount import mounted
from pages.parts.shell.text import capital, plain

_COLUMNS: dict[Layer, str] = {  # of the CSV, where they differ from the layer's name
    "nominal": "nominal_epsilon_no_guarantee", "true": "epsilon_of_the_noise", "sigma": "sigma_over_clip_norm",
    "printed": "loss_weight_printed", "flipped": "loss_weight_flipped", "hinge": "loss_weight_hinge",
}  # fmt: skip


def picker(start: Layer, key: str) -> Layer:
    """The chosen layer."""
    options = list(TITLES)
    picked = st.pills(
        "Layer", options, default=start, format_func=TITLES.__getitem__, key=key, required=True, label_visibility="collapsed"
    )
    return picked or start


def picture(text: ScoredText, layer: Layer, dials: Dials, name: str, *, key: str) -> None:
    """Draws the shaded text and its legend. `key`: of the element, the same for every layer."""
    mounted(HEATMAP)(key=key, data=document(text, layer, dials, name))


def document(text: ScoredText, layer: Layer, dials: Dials, name: str) -> dict[str, dict[str, object]]:
    """The data that the browser element draws (`figures/heatmap.py`)."""
    values, edges = token_layers.values(text, layer, dials), token_layers.edges(layer, dials)
    origin = token_layers.base(dials) if layer in token_layers.WEIGHTS else None
    numbers = [heatmap.number(value, edges, origin) for value in values.tolist()]
    shades = token_layers.shades(layer, values, dials).tolist()
    beyond = f" from {origin:g}" if origin else ""
    ranges = heatmap.ranges(edges, falling=layer in token_layers.FALLING, beyond=beyond)
    legend = heatmap.legend(ranges, has_spans=any(text.kinds), has_stops=layer in token_layers.NOISE and any(text.is_stop))
    return heatmap.document(text.tokens, shades, numbers, text.kinds, legend=legend, label=name)


def show(text: ScoredText, layer: Layer, dials: Dials, name: str, *, key: str) -> None:
    """Draws the meaning of the layer, the text, the finding, and a warning where the printed formula leaves its range."""
    st.caption(f"{MEANS[layer]} Darker: treated as more sensitive.")
    picture(text, layer, dials, name, key=key)
    st.markdown(f"**{plain(finding(text, dials))}**")
    if (warning := token_layers.warning([text], dials)) and layer in ("score", *token_layers.NOISE):
        st.caption(f"{plain(warning)} Nominal, no guarantee.")


def finding(text: ScoredText, dials: Dials) -> str:
    """A sentence: how many tokens of each sort have a score above the threshold."""
    is_above = (token_layers.scores(text, dials) > dials.threshold).tolist()
    sorts: dict[str, list[bool]] = {"personal": [], "harmless look-alike": [], "other": []}
    for above, kind in zip(is_above, text.kinds, strict=True):
        sort = "other" if not kind else "harmless look-alike" if kind.startswith(LOOKALIKE) else "personal"
        sorts[sort].append(above)
    if not any(text.kinds):
        return f"The score is above θ = {dials.threshold:g} for {sum(is_above)} of {counted(len(is_above), 'token')}."
    counts = [f"{sum(rows)} of {len(rows)} {sort} tokens" for sort, rows in sorts.items() if rows]
    listed = f"{', '.join(counts[:-1])}{' and ' if counts[1:] else ''}{counts[-1]}"
    return f"The score is above θ = {dials.threshold:g} for {listed}."


def bar(text: ScoredText, dials: Dials, name: str, *, is_published: bool) -> None:
    """Draws the bar that says this noise has no proved guarantee, with printed and exact ε.

    `is_published`: the shown text has this noise; otherwise a run's own statement covers it, on the Privacy page.
    """
    nominal, true = token_layers.values(text, "nominal", dials), token_layers.values(text, "true", dials)
    is_noised = [not stop for stop in text.is_stop]
    whose = "PeCL as published protects no token, no text and no person."
    if not is_published:
        whose = "These numbers are PeCL's as published. This run adds other noise: see its statement on the Privacy page."
    cells = [("wide not", "Nominal budget, no guarantee.", whose)]
    if any(is_noised):
        low, high = (f"{each:.3g}" for each in (nominal[is_noised].min(), nominal[is_noised].max()))
        least, most = (f"{each:.3g}" for each in (true[is_noised].min(), true[is_noised].max()))
        text_epsilon = f"{token_layers.text_epsilon(text, dials):,.0f}"
        exact = f"Exact ε of that noise {least} to {most}, of this text {text_epsilon}."
        beyond = ""
        if token_layers.warning([text], dials) is not None:
            beyond = f" Scores below 0 (tokens common in every task) put it above {dials.upper:g}, as printed in the paper."
        numbers = f"{low} to {high} (nominal, no guarantee).{beyond} {exact}"
        cells.append(("wide", "ε printed per token", numbers))
    n_stops = sum(text.is_stop)
    stops = f"{counted(n_stops, 'stop word token')}: no noise. " if n_stops else ""
    cells.append(("not", "Not covered", f"{stops}The noise level reveals the token."))
    cells.append(("", "", f"{capital(name)}."))
    spans = "".join(
        f'<div class="bar-cell {kind}">{f"<b>{escape(head)}</b> " if head else ""}{escape(words)}</div>'
        for kind, head, words in cells
    )
    st.html(f'<div class="privacy-bar not-dp" role="note" aria-label="Not differentially private">{spans}</div>')


def budgets(text: ScoredText, dials: Dials) -> str:
    """The range of printed budgets: a score below 0 puts a token's above the upper end."""
    printed = token_layers.values(text, "nominal", dials)
    most = max([dials.upper, *printed[~np.isnan(printed)].tolist()])
    return f"nominal ε {dials.lower:g} to {most:.3g}, no guarantee"


def footer(text: ScoredText, dials: Dials, name: str) -> None:
    """Draws the provenance line, the CSV download and the link."""
    with st.container(key="strip-heat", horizontal=True, vertical_alignment="center", gap="small"):
        settings = f"α = {dials.alpha:g} · θ = {dials.threshold:g} · {budgets(text, dials)}"
        provenance = f"{name} · {len(text.tokens)} tokens · {settings}"
        st.caption(plain(provenance), width="stretch")
        st.download_button(
            "CSV", lambda: csv(text, dials), "tokens.csv", "text/csv", key="csv-heat", type="tertiary", on_click="ignore",
            help="Every token with the numbers of every layer",
        )  # fmt: skip
        address.offer()


def csv(text: ScoredText, dials: Dials) -> str:
    """All layers as CSV, one row per token."""
    import pandas as pd

    columns = {"token": text.tokens, "kind": text.kinds, "is_stop": text.is_stop}
    layers = {_COLUMNS.get(layer, layer): token_layers.values(text, layer, dials) for layer in token_layers.LAYERS}
    written: str = pd.DataFrame({**columns, **layers}).to_csv(index=False)
    return written
