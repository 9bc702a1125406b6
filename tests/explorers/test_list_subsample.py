"""The part of long lists that is compared: by place alone, every label's first entries before its second ones."""

from __future__ import annotations

import numpy as np
import pytest

from dpcl_core.explorers import matching_log
from dpcl_core.methods.federated.lists import Lists

D = 3


def lists_with(modes: np.ndarray) -> Lists:
    """Lists whose entry at place j of client i has mean (i, j, its mode); those of mode -1 have no weight."""
    n, length = modes.shape
    at = np.stack([*np.indices((n, length)), modes], axis=2).astype(float)
    exists = modes >= 0
    return Lists(exists / length, at, np.full((n, length, D), 0.5), (modes[..., None] == np.arange(9)).astype(float))


def test_of_every_mode_the_first_entry_comes_before_any_second(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matching_log, "SUBSAMPLE_SIZE", 5)
    modes = np.array([[0, 0, 0, -1, 1, 1, 2, 2], [3, 3, -1, -1, -1, -1, -1, 4], [-1] * 8])
    kept, found = matching_log.subsample(lists_with(modes), modes)
    assert found.tolist() == [[0, 0, 1, 1, 2], [3, 3, 4, -1, -1], [-1] * 5]
    assert kept.means[0, :, 1].tolist() == [0, 1, 4, 5, 6]
    assert kept.means[1, :3, 1].tolist() == [0, 1, 7]
    assert ((kept.weights > 0) == (found >= 0)).all()
    assert (kept.targets.argmax(axis=2)[found >= 0] == found[found >= 0]).all()
    assert (kept.covariances[found < 0] == 1 / D).all()
    assert not kept.means[found < 0].any()


def test_what_an_entry_weighs_does_not_choose_it() -> None:
    modes = np.repeat(np.arange(30), 4)[None]
    light = lists_with(modes)
    heavy = Lists(light.weights * np.linspace(1, 9, modes.size), light.means, light.covariances, light.targets)
    assert (matching_log.subsample(light, modes)[0].means == matching_log.subsample(heavy, modes)[0].means).all()
    assert matching_log.subsample(light, modes)[1].shape == (1, matching_log.SUBSAMPLE_SIZE)
    assert matching_log.is_long(modes)
    assert not matching_log.is_long(modes[:, : matching_log.LONGEST])


def test_whole_covariances_are_refused() -> None:
    modes = np.zeros((1, 2), dtype=np.int64)
    of = lists_with(modes)
    with pytest.raises(ValueError, match="full covariances"):
        matching_log.subsample(Lists(of.weights, of.means, np.zeros((1, 2, D, D)), of.targets), modes)
