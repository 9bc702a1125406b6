"""A classifier's list of labels, public, read or learned, and the filter for other examples (Tobaben et al., sec. 4)."""

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from dpcl_core.privacy.accounting import LABELS_CHANGED, LabelListDpEvent, list_budget
from dpcl_core.privacy.dp_events import dp
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.privacy.noise import Noise, noise_of
from dpcl_core.spec import Adjacency, Cell, LabelSetting, PrivacySpec, RunSpec

# A list of labels released under differential privacy: optimal partition selection (Desfontaines et al. 2022).


ONE = 1 << 64  # probability 1: probabilities are multiples of 2^-64, the resolution of one random word
_EXACT = 60  # binary places of e^epsilon in the recursion
_SHRUNK = 1 - 2.0**-50  # covers the last bits of the library's exponential


def release_labels(
    labels: NDArray[np.int64], epsilon: float, delta: float, noise: Noise, ledger: Ledger, *, task: int,
    people_of: Sequence[int],
) -> tuple[int, ...]:  # fmt: skip
    """The released labels among `labels` [n], ascending: (epsilon, delta)-DP under the ledger's adjacency.

    Every label that occurs is released with a probability that depends only on its own count (see `chances`), so the list is
    a vector of independent decisions, one per label. A person is one record with one label. Adding or removing it changes
    one count by one: the decisions of all other labels keep their distribution, that label's is (epsilon, delta)-close, and
    so is the list. Replacing it changes at most two counts; each decision then gets half of epsilon and of delta, and basic
    composition makes the list (epsilon, delta)-DP. A label without records is never released, so the set of possible labels
    need not be known.

    `people_of`: the tasks whose people the records may come from.
    """
    names, counts = np.unique(labels.astype(np.int64, copy=False), return_counts=True)
    of_one = event(epsilon, delta, ledger.adjacency)
    what = f"list of labels, each named where enough people have it, epsilon {epsilon:.3g}, delta {delta:.2g}"
    ledger.spend(of_one, task=task, what=what, people_of=tuple(people_of))
    chance = chances(of_one.epsilon, of_one.delta, int(counts.max(initial=0)))
    drawn = noise.words(int(names.max(initial=-1)) + 1)[names]  # one per label, whichever others occur
    named = zip(names.tolist(), counts.tolist(), drawn.tolist(), strict=True)
    return tuple(name for name, count, word in named if word < chance[count])


def event(epsilon: float, delta: float, adjacency: Adjacency) -> LabelListDpEvent:
    """What the release of such a list costs."""
    changed = LABELS_CHANGED[adjacency]
    return LabelListDpEvent(epsilon / changed, delta / changed)


def chances(epsilon: float, delta: float, largest: int) -> list[int]:
    """Probability, in units of 2^-64, that a label of n people is released, for n = 0 ... `largest`: as large as DP allows.

    p(0) = 0;  p(n) = min(e^eps p(n-1) + delta,  1 - e^-eps (1 - p(n-1) - delta),  1).

    Two counts n-1 and n are (epsilon, delta)-close when, for "released" and for "not released", either probability is at
    most e^eps times the other plus delta. p grows with n, so two of the four inequalities always hold. The others are
    p(n) <= e^eps p(n-1) + delta, the first term above, and 1 - p(n-1) <= e^eps (1 - p(n)) + delta, the second solved for
    p(n). Larger probabilities would break one of them: no mechanism that decides by counts releases more. A label of one
    person is released with probability delta.

    The recursion runs in integers rounded towards fewer labels, so the inequalities hold exactly for the probabilities
    used, not only for the formula.
    """
    growth = int(math.exp(min(epsilon, 700.0)) * _SHRUNK * 2**_EXACT)
    small = int(delta * ONE)
    probabilities = [0]
    for _ in range(largest):
        last = probabilities[-1]
        up = (growth * last >> _EXACT) + small
        down = ONE + (-((ONE - last - small) << _EXACT) // growth)  # floor of 1 - (1 - p - delta) / e^eps
        probabilities.append(max(last, min(up, down, ONE)))
    return probabilities


LIST_READ = "list of labels read from the data"


def label_space(
    setting: LabelSetting, prior: Sequence[int], public: Sequence[int], labels: NDArray[np.int64],
    ledgers: Sequence[Ledger], *, task: int, people_of: tuple[int, ...] | None = None,
) -> tuple[int, ...]:  # fmt: skip
    """The labels of the classifier released at a task, ascending, where one list serves all ledgers.

    "prior": the task's own public list (or a list that the scenario has read, with its entry in the ledgers already);
    "prior-const": one public list for all tasks (both restricted to `public`). Any other: the labels that occur in `labels`
    [n], read without noise.
    """
    if setting == "prior":
        return tuple(sorted(set(prior) & set(public)))
    if setting == "prior-const":
        return tuple(sorted(public))
    spend_on_read_list(ledgers, task=task, people_of=people_of)
    return tuple(int(label) for label in np.unique(labels))


def spend_on_read_list(ledgers: Iterable[Ledger], *, task: int, people_of: tuple[int, ...] | None = None) -> None:
    """Writes into every ledger that a list of labels was read from the data.

    If one person is the only one with a label, the list reveals that person with certainty: no bound (Prop. 4.6).
    """
    for ledger in ledgers:
        ledger.spend(dp.NonPrivateDpEvent(), task=task, what=LIST_READ, people_of=people_of)


def in_label_space(labels: NDArray[np.int64], space: Sequence[int]) -> NDArray[np.bool_]:
    """Mask [n] of the examples whose label is in the space (Eq. 6). Apply it before counting, normalising or batching."""
    return np.isin(labels, np.asarray(space, dtype=np.int64))


def listed_labels(released: NDArray[np.bool_], n_classes: int) -> NDArray[np.int64]:
    """The labels with rows in an array that leaves a learner: the declared ones and any others that were released.

    Args: released: which labels were released [labels]; n_classes: how many are declared (they come first).
    """
    return np.flatnonzero(released | (np.arange(len(released)) < n_classes))


class LabelLists:
    """The label lists of a run's cells, one per task, according to the setting. Keeps public facts only, no examples.

    Under "dp-learned" every cell learns its own lists: two cells never share noise.
    """

    def __init__(self, spec: RunSpec, public: Sequence[int], n_tasks: int) -> None:
        self._spec, self._public, self._n_tasks = spec, public, n_tasks

    def public(self, prior: Sequence[int]) -> tuple[int, ...] | None:
        """The list of every cell at a task with this public list; None where lists are read or learned from the data."""
        if self._spec.labels in ("prior", "prior-const"):
            return label_space(self._spec.labels, prior, self._public, np.empty(0, np.int64), (), task=0)
        return None

    def released(
        self, cells: Sequence[Cell], prior: Sequence[int], labels: NDArray[np.int64], ledgers: Mapping[Cell, Ledger], *,
        tasks: tuple[int, ...],
    ) -> tuple[tuple[int, ...], ...]:  # fmt: skip
        """The label list of each of `cells`, which learn from records with these labels [n]; recorded in their ledgers.

        `tasks`: the tasks whose people the records may come from; the last one is the task being learned.
        """
        task = tasks[-1]
        if self._spec.labels != "dp-learned":
            books = [ledgers[cell] for cell in cells]
            space = label_space(self._spec.labels, prior, self._public, labels, books, task=task, people_of=tasks)
            return (space,) * len(cells)
        return tuple(self._learned(cell, labels, ledgers[cell], tasks) for cell in cells)

    def _learned(self, cell: Cell, labels: NDArray[np.int64], ledger: Ledger, tasks: tuple[int, ...]) -> tuple[int, ...]:
        if math.isinf(cell.epsilon):
            return label_space("data", (), (), labels, [ledger], task=tasks[-1], people_of=tasks)
        rows = len(tasks) if ledger.recurrence == "every" else 1  # a person is in one task otherwise
        epsilon, delta = list_budget(self._spec.privacy, cell.epsilon, self._n_tasks, rows)
        noise = noise_of(self._spec.privacy.noise, cell, f"labels of task {tasks[-1]}")
        return release_labels(labels, epsilon, delta, noise, ledger, task=tasks[-1], people_of=tasks)


def people_to_be_named(privacy: PrivacySpec, epsilon: float, n_tasks: int, at_most: int) -> int | None:
    """Number of people in a task with which a label is learned with probability 1/2 or more; None: above `at_most`."""
    if math.isinf(epsilon):
        return 1
    of_one = event(*list_budget(privacy, epsilon, n_tasks), privacy.adjacency)
    by_count = chances(of_one.epsilon, of_one.delta, at_most)
    return next((n for n, chance in enumerate(by_count) if 2 * chance >= ONE), None)
