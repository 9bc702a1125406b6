"""The three label settings on the six-symbol example of the paper (Table 1), and the leak of the first."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpcl_core.privacy.labels import in_label_space, label_space
from dpcl_core.privacy.ledger import Ledger

IN_DATA = ((1, 2), (1, 4, 5), (4, 6))
PRIOR = ((1, 2, 3), (3, 4), (4, 6))
PUBLIC = (1, 2, 3, 4, 6)


def spaces(setting: str) -> list[tuple[int, ...]]:
    book = Ledger(1e-5, "add-remove", "once")
    return [
        label_space(setting, prior, PUBLIC, np.array(present), [book], task=0)  # type: ignore[arg-type]
        for present, prior in zip(IN_DATA, PRIOR, strict=True)
    ]


@pytest.mark.parametrize(
    ("setting", "expected"), [("data", IN_DATA), ("prior", PRIOR), ("prior-const", (PUBLIC, PUBLIC, PUBLIC))]
)
def test_the_label_space_of_each_setting(setting: str, expected: tuple[tuple[int, ...], ...]) -> None:
    assert tuple(spaces(setting)) == expected


@pytest.mark.parametrize(
    ("setting", "n_kept", "noise_only"),
    [
        ("prior", ((1, 2), (4,), (4, 6)), ((3,), (3,), ())),
        ("prior-const", ((1, 2), (1, 4), (4, 6)), ((3, 4, 6), (2, 3, 6), (1, 2, 3))),
    ],
)
def test_kept_and_noise_only_labels(
    setting: str, n_kept: tuple[tuple[int, ...], ...], noise_only: tuple[tuple[int, ...], ...]
) -> None:
    for present, space, survivors, empty in zip(IN_DATA, spaces(setting), n_kept, noise_only, strict=True):
        labels = np.array(present)
        assert tuple(labels[in_label_space(labels, space)]) == survivors
        assert tuple(sorted(set(space) - set(survivors))) == empty


def test_a_public_list_narrows_the_task_lists() -> None:
    book = Ledger(1e-5, "add-remove", "once")
    assert label_space("prior", (1, 2, 3), (2, 3, 9), np.array([1]), [book], task=0) == (2, 3)


def test_public_settings_cost_nothing_and_do_not_look_at_the_data() -> None:
    for setting in ("prior", "prior-const"):
        book = Ledger(1e-5, "add-remove", "once")
        seen = {
            label_space(setting, (0, 1), (0, 1, 2), np.array(labels, dtype=np.int64), [book], task=0)  # type: ignore[arg-type]
            for labels in ([], [7], [0, 1])
        }
        assert len(seen) == 1
        assert book.entries == []


def test_labels_from_the_data_differ_on_neighbours_and_are_booked_without_a_bound() -> None:
    book = Ledger(1e-5, "add-remove", "once")
    without = label_space("data", (0, 1, 2), (0, 1, 2), np.array([0, 0, 1]), [book], task=0)
    with_person = label_space("data", (0, 1, 2), (0, 1, 2), np.array([0, 0, 1, 2]), [book], task=0)
    assert 2 in with_person
    assert 2 not in without
    assert book.epsilon() == math.inf
