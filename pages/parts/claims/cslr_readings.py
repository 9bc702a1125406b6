"""Every reading of CSLR's text by three accountants, row by row as they are computed."""

from __future__ import annotations

from collections.abc import Mapping

from streamlit.delta_generator import DeltaGenerator

from dpcl_core.privacy.statement import shown

ACCOUNTANTS = {
    "eq_9": "Eq. 9, the paper's own",
    "rdp": "RDP, by dp_accounting",
    "pld": "**PLD, which counts here**",
}


def table(place: DeltaGenerator, n_clients: int, n_tasks: int, delta: float, claims: Mapping[float, float]) -> None:
    """One row a reading, one column a claim (epsilon: noise multiplier), each cell by the three accountants."""
    from dpcl_core.privacy import cslr_readings  # loads the accountant, which takes a second
    from dpcl_core.privacy.cslr_accounting import costs

    found = cslr_readings.rows(n_clients, n_tasks, delta).values()
    titles = " | ".join(f"claimed {epsilon:g}: σ = {sigma:g}" for epsilon, sigma in claims.items())
    text = f"| what is counted; claims not verified | {titles} |\n|---|---:|---:|---:|\n"
    for row in found:
        cells = []
        for sigma in claims.values():
            one = costs(row.of(sigma))
            cells.append(f"{number(one.eq_9)} / {number(one.rdp)} / {number(one.pld)}")
        line = [row.name, *cells]
        text += "| " + " | ".join(f"**{cell}**" if row.is_as_printed else cell for cell in line) + " |\n"
        place.markdown(text)  # the accountants take seconds for all of them: what is known is shown


def number(epsilon: float | None) -> str:
    """Three digits, rounded up; a dash where there is no answer."""
    return "–" if epsilon is None else shown(epsilon)
