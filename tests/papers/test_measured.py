"""What a run's results say of all its seeds together."""

from __future__ import annotations

from dataclasses import replace

from tests.papers import making


def test_what_the_ledger_adds_up_to_is_the_largest_of_all_seeds() -> None:
    """Seeds split the data differently: one may read a text again that another does not."""
    run = making.run(lambda epsilon, seed: 0.5, epsilons=(1.0, 8.0), seeds=(0, 1, 2))
    spent = {0: 1.5, 1: 3.5, 2: 2.5}
    run = replace(run, models=tuple(replace(one, accounted_epsilon=one.epsilon * spent[one.seed]) for one in run.models))
    assert (run.accounted(1.0), run.accounted(8.0), run.accounted(2.0)) == (3.5, 28.0, None)
