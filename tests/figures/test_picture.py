"""Provenance lines, names of budgets, and figures as pages of their own."""

from __future__ import annotations

import math
from dataclasses import replace

from dpcl_core.figures import html
from dpcl_core.figures.curves import accuracy_over_tasks
from dpcl_core.figures.picture import Provenance, epsilon_label, epsilon_phrase, epsilon_text
from tests.figures.making import accuracy

SOURCE = Provenance(
    dataset="Digits <8×8>", n_train=1437, method="DP cosine classifier", labels="data", epsilons=(math.inf, 0.5), delta=1e-5,
    n_seeds=(1,), runs=("abcdef123456",), is_seeded=True,
)  # fmt: skip


def test_provenance_names_everything_and_warns() -> None:
    assert SOURCE.line() == (
        "Digits <8×8> · n = 1,437 · DP cosine classifier · labels from the data (not DP) · ε = 0.5, ∞ · δ = 1e-05 · "
        "1 seed · seeded noise: a recorded seed voids the guarantee · run abcd"
    )


def test_runs_with_different_numbers_of_seeds_are_not_said_to_have_the_same() -> None:
    assert " · 5 and 1 seeds · " in replace(SOURCE, n_seeds=(5, 1)).line()
    assert " · 5, 3 and 1 seeds · " in replace(SOURCE, n_seeds=(5, 3, 1)).line()
    assert "seeds" not in replace(SOURCE, n_seeds=()).line()


def test_budgets_in_words() -> None:
    assert (epsilon_label(math.inf), epsilon_label(0.25), epsilon_phrase(8.0)) == ("no noise", "ε = 0.25", "at ε = 8")
    assert [epsilon_text(epsilon) for epsilon in (0.5, 1000.0, 12345.0, 1e6)] == ["0.5", "1,000", "12,345", "1,000,000"]


def test_html_page_needs_no_network_and_escapes() -> None:
    page = html.page(accuracy_over_tasks(accuracy(), n_tasks=4), SOURCE)
    assert "Digits &lt;8×8&gt;" in page
    assert "After 4 tasks" in page
    head = page.split("<script", 1)[0] + "".join(part.split(">", 1)[0] for part in page.split("<script")[1:])
    assert "src=" not in head


def test_claimed_budgets_are_called_claims_wherever_numbers_come_from() -> None:
    assert "claimed ε = 0.5, ∞, not verified" in replace(SOURCE, standings=("claimed",)).line()
    assert "ε = 0.5, ∞, for some runs a claim, not verified" in replace(SOURCE, standings=("claimed", "bound")).line()
    assert "claim" not in replace(SOURCE, standings=("claimed",), epsilons=(math.inf,)).line()
    assert epsilon_label(0.5, "claimed") == "claimed ε = 0.5"
    assert "replay ε = 0.5, ∞, head not private" in replace(SOURCE, standings=("replay",)).line()
    mixed = replace(SOURCE, standings=("replay", "bound")).line()
    assert "ε = 0.5, ∞, for some runs the replay's alone, head not private" in mixed
    assert epsilon_label(0.5, "replay") == "replay ε = 0.5, total ∞"
    assert epsilon_phrase(math.inf, "claimed") == "without noise"
    assert "asked ε = 0.5, ∞, no bound" in replace(SOURCE, standings=("none",)).line()
    assert "ε = 0.5, ∞, for some runs only asked for, no bound" in replace(SOURCE, standings=("none", "bound")).line()
    assert epsilon_label(0.5, "none") == "asked ε = 0.5, total ∞"
