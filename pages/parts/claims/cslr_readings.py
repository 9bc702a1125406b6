"""All readings of CSLR's text by three accountants, drawn row by row as they are computed."""

from __future__ import annotations

from streamlit.delta_generator import DeltaGenerator

from dpcl_core.privacy.cslr_claim import TABLE_5, Benchmark
from dpcl_core.privacy.statement import shown
from pages.parts.shell import layout

ACCOUNTANTS = {"eq_9": "Eq. 9, the paper's own", "rdp": "RDP, by dp_accounting", "pld": "**PLD, used here**"}


def draw(place: DeltaGenerator, printed: Benchmark, delta: float) -> None:
    """Draws one row per reading and one column per claim, each cell by the three accountants."""
    from dpcl_core.privacy import cslr_readings  # loads the accountant, which takes a second
    from dpcl_core.privacy.cslr_accounting import costs

    rows: list[tuple[str, ...]] = []
    for row in cslr_readings.rows(printed.n_clients, printed.n_tasks, delta).values():
        costs_by_claim = [costs(row.of(sigma)) for sigma in TABLE_5.values()]
        line = (row.name, *(f"{number(one.eq_9)} / {number(one.rdp)} / {number(one.pld)}" for one in costs_by_claim))
        rows.append(tuple(f"**{cell}**" for cell in line) if row.is_as_printed else line)
        with place:  # all rows take seconds, so each is shown as soon as it is computed
            layout.table(("reading; claims not verified", *titles()), rows)


def titles() -> list[str]:
    """A column title for each claim."""
    return [f"claimed {epsilon:g}: σ = {sigma:g}" for epsilon, sigma in TABLE_5.items()]


def number(epsilon: float | None) -> str:
    """ε with three digits, rounded up; a dash for None."""
    return "–" if epsilon is None else shown(epsilon)
