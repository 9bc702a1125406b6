"""What follows from the trials: the papers' arithmetic for the full data, and the sentence about privacy."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, replace

import pytest

from dpcl_core import checks
from dpcl_core.tuning import search
from dpcl_core.tuning.settings import Sizes, Trial, TuneSpec
from tests.support.asserting import includes

BASE = checks.parse({"method": "peft-ensemble", "privacy": {"epsilons": [1.0]}, "seeds": [0]})
PRIVATE, PUBLIC = TuneSpec(base=BASE, on="private"), TuneSpec(base=BASE, on="public", proxy="mnist")
SIZES = Sizes(n_tune=3500, n_validation=1500, n_final=5000)


def a_trial(number: int, accuracy: float | None, **more: float) -> Trial:
    settings = {"learning_rate": 1e-3, "batch_size": 350, "clip_norm": 2.0} | more
    return Trial(number, **settings, accuracy=accuracy, trouble=None if accuracy is not None else "lost it", seconds=1.0)


def test_settings_are_carried_over_as_the_papers_do() -> None:
    found = search.transferred(a_trial(0, 0.5), SIZES)
    assert found.ratio == pytest.approx(1.429, abs=5e-4)
    assert found.learning_rate_factor == pytest.approx(1.195, abs=5e-4)
    assert found.learning_rate == pytest.approx(1e-3 * math.sqrt(10 / 7))
    assert found.sample_rate == 350 / 3500  # the sampling rate stays, so the accounting does
    assert found.batch_size == pytest.approx(500)
    assert found.clip_norm == 2.0


def test_the_best_trial_is_the_first_of_the_most_accurate_and_never_a_failed_one() -> None:
    assert search.best([a_trial(0, None), a_trial(1, 0.0), a_trial(2, 0.7), a_trial(3, 0.7)]).number == 2  # type: ignore[union-attr]
    assert search.best([a_trial(0, None)]) is None
    assert search.best([]) is None


@pytest.mark.parametrize("tune", [PRIVATE, PUBLIC])
def test_the_run_that_follows_says_on_what_it_was_tuned_and_keeps_the_epochs(tune: TuneSpec) -> None:
    final = search.tuned_spec(tune, search.transferred(a_trial(0, 0.5), SIZES))
    assert final.tuned == tune.on
    before, after = asdict(BASE.params), asdict(final.params)
    changed = {name for name in before if before[name] != after[name]}
    assert changed == {"learning_rate", "clip_norm"}  # the sampling rate is 0.1 before and after, the epochs stay
    assert replace(final, params=BASE.params, tuned="no") == BASE


def test_another_grid_of_the_same_method_takes_the_settings_too() -> None:
    grid = replace(BASE, seeds=(1, 2, 3))
    final = search.tuned_spec(PRIVATE, search.transferred(a_trial(0, 0.5), SIZES), base=grid)
    assert final.seeds == (1, 2, 3)
    assert asdict(final.params)["clip_norm"] == 2.0


def test_the_sentence_counts_every_use_of_private_data_and_none_of_public_ones() -> None:
    said = search.privacy_sentence(PRIVATE)
    includes(said, "not accounted", "21 uses of the same data")
    said = search.privacy_sentence(PUBLIC)
    includes(said, "mnist", "private data were not touched")
    assert "uses" not in said


def test_the_document_is_strict_json_with_or_without_trials() -> None:
    trials = [a_trial(0, 0.5), a_trial(1, None)]
    document = json.loads(json.dumps(search.document("ab", "finished", PRIVATE, SIZES, trials), allow_nan=False))
    assert document["best"]["number"] == 0
    assert document["trials"][1]["trouble"] == "lost it"
    assert document["transferred"]["sample_rate"] == 0.1
    words = document["command"].split()
    assert "'tuned=\"private\"'" in words
    empty = search.document("ab", "cancelled", PUBLIC, None, [])
    assert empty["best"] is empty["transferred"] is empty["command"] is None


def test_the_terminal_text_names_failed_trials_and_what_to_run_next() -> None:
    text = search.text(PRIVATE, SIZES, [a_trial(0, 0.5), a_trial(1, None)])
    includes(text, "lost it", "best: trial 1, measured on 1500 held-out examples", "python -m dpcl_core run")
    assert text.rstrip().endswith(search.privacy_sentence(PRIVATE))
