"""The answers of the calculator of steps, kept for all visitors.

Not in the page's file, which runs at every visit: a function that Streamlit caches is read anew each time it is defined.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import streamlit as st

from dpcl_core.spec import Adjacency

if TYPE_CHECKING:
    from dpcl_core.privacy.calculator import Answer


@st.cache_data(max_entries=500, show_spinner=False)
def solved(
    epsilon: float | None, sigma: float | None, delta: float | None, rate: float, steps: int, adjacency: Adjacency
) -> Answer:
    """The third of ε, noise and δ that two of them leave, for steps of subsampled noise."""
    from dpcl_core.privacy import calculator  # loads the accountant, which takes a second

    return calculator.solve(epsilon=epsilon, sigma=sigma, delta=delta, sample_rate=rate, n_steps=steps, adjacency=adjacency)


@st.cache_data(max_entries=500, show_spinner=False)
def best_attack(answer: Answer, rate: float, steps: int, adjacency: Adjacency) -> tuple[float, float]:
    """What the best attack on such a training gains: see `tradeoff`."""
    from dpcl_core.privacy import accounting, tradeoff

    best = tradeoff.of_events([accounting.subsampled_gaussian(answer.sigma, rate, steps)], answer.delta, adjacency)
    return best.advantage, best.hits
