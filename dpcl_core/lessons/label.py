"""One person brings the only picture of a digit. What do the releases of two neighbouring datasets give away?

The bundled digits are public, so an attacker who lacks only one fact can be simulated exactly: every release is made by the
mechanisms that runs use, with fresh noise from the operating system and a ledger of its own.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dpcl_core.backbones import pixels
from dpcl_core.data import load
from dpcl_core.events import Guarantee
from dpcl_core.lessons.duel import Duel
from dpcl_core.privacy.labels import in_label_space, label_space
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.privacy.mechanisms import class_sums_std, noisy_class_sums
from dpcl_core.privacy.noise import Noise, ReleaseNoise
from dpcl_core.privacy.statement import guarantee
from dpcl_core.privacy.sums import unit_rows
from dpcl_core.scenarios.catalog import ClassIncremental
from dpcl_core.spec import Adjacency, Cell, DataSpec, PrivacySpec, RunSpec

DELTA = 1e-5
Listing = Literal["data", "prior-const"]  # the list of labels is read from the data, or was public beforehand
EmptyRule = Literal["none", "untrained", "same"]
EMPTY_RULES: dict[EmptyRule, str] = {
    "none": "no classifier for an empty task",
    "untrained": "an untrained classifier for an empty task",
    "same": "the same noisy steps for an empty task",
}
_BATCH = 500
_ADJACENCY: Adjacency = "add-remove"


@dataclass(frozen=True, slots=True, eq=False)
class Neighbours:
    """A dataset with and without one person of label `label`: known [n, K] and labels [n] without, person [1, K].

    `n_others`: how many of the known people have that label too.
    """

    title: str
    classes: tuple[str, ...]
    known: NDArray[np.float32]
    labels: NDArray[np.int64]
    person: NDArray[np.float32]
    label: int
    n_others: int

    def data(self, has_person: bool) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Features and labels of one of the two datasets."""
        if not has_person:
            return self.known, self.labels
        return np.concatenate([self.known, self.person]), np.append(self.labels, self.label)


@dataclass(frozen=True, slots=True, eq=False)
class Releases:
    """Classifiers released from one dataset, all with the same list of labels: sums [n, classes, K].

    Rows of classes that are not in `labels` were not released. `ledger` is that of the first; the others are like it.
    """

    labels: tuple[int, ...]
    sums: NDArray[np.float64]
    ledger: Ledger


@dataclass(frozen=True, slots=True)
class Door:
    """Something that an outsider can observe: its value without the person, and with."""

    name: str
    without: str
    with_person: str

    @property
    def tells(self) -> bool:
        return self.without != self.with_person


def neighbours(label: int = 9, n_others: int = 0) -> Neighbours:
    """The bundled digits with only the first `n_others` people of one class, and the next one of them as the person."""
    dataset = load.load(DataSpec(dataset="digits"))
    features = pixels.rows(dataset.train.images)
    of_class = np.flatnonzero(dataset.train.labels == label)
    rows = np.concatenate([np.flatnonzero(dataset.train.labels != label), of_class[:n_others]])
    return Neighbours(
        title=dataset.title,
        classes=dataset.classes,
        known=features[rows],
        labels=dataset.train.labels[rows],
        person=features[of_class[n_others : n_others + 1]],
        label=label,
        n_others=n_others,
    )


def without_others(pair: Neighbours) -> Neighbours:
    """The same person without all others: an empty task, and one with her alone."""
    return Neighbours(pair.title, pair.classes, pair.known[:0], pair.labels[:0], pair.person, pair.label, 0)


def release(
    pair: Neighbours, has_person: bool, listing: Listing, epsilon: float, n: int = 1, *, at_least: int = 1
) -> Releases:
    """n independent releases of one dataset: the list of labels, and noisy class sums for every label on it.

    `at_least`: labels that fewer people have are left out, where the list is read from the data.
    """
    return _released(pair, has_person, listing, epsilon, [ReleaseNoise() for _ in range(n)], at_least)


def _released(
    pair: Neighbours, has_person: bool, listing: Listing, epsilon: float, noises: Sequence[Noise], at_least: int
) -> Releases:
    features, labels = pair.data(has_person)
    ledgers = [Ledger(DELTA, _ADJACENCY, "once") for _ in noises]
    public = range(len(pair.classes))
    space = label_space(listing, public, public, labels, ledgers, task=0)
    if listing == "data":
        space = tuple(label for label in space if int((labels == label).sum()) >= at_least)
    of_space = in_label_space(labels, space)
    stds = [class_sums_std(epsilon, DELTA, _ADJACENCY)] * len(noises)
    sums = noisy_class_sums(features[of_space], labels[of_space], space, len(pair.classes), stds, noises, ledgers, task=0)
    return Releases(space, sums, ledgers[0])


def evidence(pair: Neighbours, releases: Releases, listing: Listing, epsilon: float) -> NDArray[np.float64]:
    """Log-likelihood ratio [n] of each release, with the person against without, given all pictures.

    If the list depends on the data, it decides alone: each list is possible on one side only. If it is the same on both
    sides, only the sum of the person's label differs, and its projection on her picture is the best test.
    """
    if pair.label not in releases.labels:
        return np.full(len(releases.sums), -np.inf)
    if listing == "data":
        return np.full(len(releases.sums), np.inf)
    std = class_sums_std(epsilon, DELTA, _ADJACENCY)
    return _sum_evidence(pair, releases.sums[:, pair.label], std)


def _sum_evidence(pair: Neighbours, sums: NDArray[np.float64], std: float) -> NDArray[np.float64]:
    """Log-likelihood ratio [n] of the sums [n, K] of the person's label, all others in it known."""
    person = unit_rows(pair.person)[0]
    others = unit_rows(pair.known[pair.labels == pair.label]).sum(axis=0)
    ratio: NDArray[np.float64] = ((sums - others) @ person - 0.5 * person @ person) / std**2
    return ratio


def play(pair: Neighbours, listing: Listing, epsilon: float, n: int, *, at_least: int = 1) -> Duel:
    """n rounds with the person and n without, a fresh release each; made in batches, so that memory stays small."""
    sides = []
    for is_in in (True, False):
        batches = [min(_BATCH, n - start) for start in range(0, n, _BATCH)]
        released = (release(pair, is_in, listing, epsilon, size, at_least=at_least) for size in batches)
        sides.append(np.concatenate([evidence(pair, releases, listing, epsilon) for releases in released]))
    return Duel(*sides)


def play_empty(pair: Neighbours, rule: EmptyRule, epsilon: float, n: int) -> Duel:
    """The duel over an empty task: with the person it holds one picture, without it holds none.

    The two broken rules differ visibly from a noisy release exactly when the task is empty.
    """
    lone_pair = without_others(pair)
    with_person = release(lone_pair, True, "prior-const", epsilon, n)
    # The broken rules release nothing at all, or a classifier of zeros: no noisy release equals either.
    same = rule == "same"
    without = release(lone_pair, False, "prior-const", epsilon, n).sums if same else np.zeros_like(with_person.sums)
    std = class_sums_std(epsilon, DELTA, _ADJACENCY)
    sides = []
    for sums in (with_person.sums, without):
        ratios = _sum_evidence(lone_pair, sums[:, pair.label], std)
        if not same:
            ratios = np.where(sums.any(axis=(1, 2)), np.inf, -np.inf)
        sides.append(ratios)
    return Duel(*sides)


def doors(pair: Neighbours, listing: Listing, epsilon: float) -> tuple[Door, ...]:
    """Four observable things that depend on the list of labels."""
    observations: list[dict[str, str]] = []
    for has_person in (False, True):
        noise = _Counting()
        released = _released(pair, has_person, listing, epsilon, [noise], 1)
        file = io.BytesIO()
        np.save(file, released.sums[0, list(released.labels)])
        observations.append({
            "outputs of the classifier": f"{len(released.labels)}",
            "length of the saved file": f"{len(file.getvalue()):,} bytes",
            "legend of a chart": " ".join(pair.classes[label] for label in released.labels),
            "work done: numbers of noise drawn": f"{noise.drawn:,}",
        })  # fmt: skip
    without, with_person = observations
    return tuple(Door(name, without[name], with_person[name]) for name in without)


class _Counting(ReleaseNoise):
    """Release noise that counts the numbers drawn: work that can be timed."""

    def __init__(self) -> None:
        super().__init__()
        self.drawn = 0

    def added(self, clean: NDArray[np.float64], std: float) -> NDArray[np.float64]:
        self.drawn += clean.size
        return super().added(clean, std)


def promise(pair: Neighbours, listing: Listing, epsilon: float, ledger: Ledger) -> Guarantee:
    """The guarantee of one release's ledger, as the app states it everywhere."""
    spec = RunSpec(
        method="cosine",
        scenario=ClassIncremental(tasks=1),
        labels=listing,
        privacy=PrivacySpec(epsilons=(epsilon,), delta=DELTA, noise="release"),
        seeds=(0,),
    )
    return guarantee(ledger, spec, Cell(epsilon, 0), unit="example", n_people=len(pair.labels) + 1, n_tasks=1)
