"""The number of anchors that Theorem 2 of CSLR requires, and its other theorems at given sizes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import streamlit as st

from dpcl_core.explorers import cslr_theorems
from pages.parts.claims.calculator import Controls
from pages.parts.shell import layout, link

if TYPE_CHECKING:
    from dpcl_core.privacy.cslr_accounting import Reading

_VALUES, _REPLAYED, _FEWEST = 384, 500, 3  # values of an embedding; samples per round; clients in the smallest round
FIELDS: list[link.Field[Any]] = [
    link.Field("r_hit", "rp", "p", link.Number(0.001, 1.0), cslr_theorems.TABLE_8[100][0]),
    link.Field("r_eta", "re", "η", link.Number(1e-9, 1.0), 0.05),
    link.Field("r_length", "rm", "L", link.Whole(1, 1000), 4),
]


def part(controls: Controls, reading: Reading) -> None:
    """Draws the controls of Theorem 2, its result, and Table 8."""
    st.markdown("**How many anchors?**")
    with st.container(horizontal=True, gap="small"):
        hit = controls.number("r_hit", "p, probability that an anchor separates two entries")
        eta = controls.number("r_eta", "η, failure probability")
        length = controls.whole("r_length", "L, entries of a list")
    entries = cslr_theorems.n_entries(reading.n_rounds, reading.sample_rate * reading.n_clients, length)
    needed = cslr_theorems.anchors_needed(entries, eta, hit)
    st.markdown(
        f"Theorem 2, m ≥ ln(N²/η)/p with N = {entries:,} entries in all: **{needed:,} anchors** separate all required "
        f"pairs with probability {1 - eta:.6g}."
    )
    rows = (
        (f"{m}", f"{printed:.2f}", f"{cslr_theorems.anchors_needed(entries, eta, printed):,}", f"{margin:.2f}")
        for m, (printed, margin) in cslr_theorems.TABLE_8.items()
    )
    layout.table(("m, Table 8", "p̂ printed", "m by Theorem 2", "margin printed"), rows, names=0)
    not_all, wrong = cslr_theorems.misaligned(length)
    first, second = cslr_theorems.forgetting_terms(_VALUES, _REPLAYED, _FEWEST)
    st.caption(
        "p is a share of anchors: more anchors estimate it better but do not raise it, although the printed column grows. "
        "What grows is the largest difference at any anchor, and the smallest p̂ over all pairs, which few anchors "
        "underestimate. The theorem says when entries of different modes are separated. It does not say that entries of one "
        f"mode stay together, and more anchors separate these as well. Proposition 3: {length} entries in random order are "
        f"not all correct with probability {not_all:.4g}; the share of wrong slots is {wrong:.4g}. Theorem 5 at {_VALUES} "
        f"values, {_REPLAYED} samples and {_FEWEST} clients: terms of {first:.2f} and {second:.2f} on a loss from 0 to 1, "
        "times unknown constants."
    )
