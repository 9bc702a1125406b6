"""Where a classifier's list of labels comes from, and the filter that keeps other examples out (Tobaben et al., sec. 4)."""

from __future__ import annotations

from collections.abc import Sequence

import dp_accounting as dp
import numpy as np
from numpy.typing import NDArray

from dpcl_core.privacy.ledger import Ledger
from dpcl_core.spec import LabelSetting, PrivacySpec


def label_space(
    setting: LabelSetting,
    prior: Sequence[int],
    public: Sequence[int],
    labels: NDArray[np.int64],
    ledgers: Sequence[Ledger],
    *,
    task: int,
) -> tuple[int, ...]:
    """The labels of the classifier released at a task, ascending.

    "prior": the task's own public list; "prior-const": one public list for all tasks (both restricted to `public`).
    "data": whatever occurs in `labels` [n]. One person can be the only one with a label, and then the list tells on him
    with certainty, so every ledger gets an entry without a bound (Prop. 4.6).
    """
    if setting == "data":
        for ledger in ledgers:
            ledger.spend(dp.NonPrivateDpEvent(), task=task, what="list of labels read from the data")
        return tuple(int(label) for label in np.unique(labels))
    return tuple(sorted(set(prior) & set(public) if setting == "prior" else set(public)))


def kept(labels: NDArray[np.int64], space: Sequence[int]) -> NDArray[np.bool_]:
    """Mask [n] of the examples whose label is in the space (Eq. 6). Comes before counting, normalising or batching."""
    return np.isin(labels, np.asarray(space, dtype=np.int64))


def label_spaces(
    setting: LabelSetting,
    prior: Sequence[int],
    public: Sequence[int],
    labels: NDArray[np.int64],
    ledgers: Sequence[Ledger],
    *,
    task: int,
) -> tuple[tuple[int, ...], ...]:
    """The label list of every cell that learns this task, one a ledger; see `label_space`."""
    space = label_space(setting, prior, public, labels, ledgers, task=task)
    return (space,) * len(ledgers)


def training_budget(privacy: PrivacySpec, setting: LabelSetting, epsilon: float) -> tuple[float, float]:
    """What of (epsilon, delta) is left for the weights once the list of labels is paid for."""
    return epsilon, privacy.delta
