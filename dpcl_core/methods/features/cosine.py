"""The DP cosine classifier (Tobaben et al., Algorithm 1): noisy sums of unit-length features, one per class."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpcl_core.events import Progress
from dpcl_core.methods.common import stream_noise
from dpcl_core.methods.common.classifier import Rule
from dpcl_core.methods.common.dpsgd import learned_list
from dpcl_core.methods.common.method import PublicContext, PublicSizes, labelled
from dpcl_core.methods.common.stream_noise import PredictionParams, RememberedParams, remembers
from dpcl_core.methods.features import params, trainer
from dpcl_core.privacy.accounting import training_budget
from dpcl_core.privacy.continual import Stream, check_size, noisy_named_sums, noisy_stream_sums, shrunk
from dpcl_core.privacy.dp_events import dp
from dpcl_core.privacy.labels import LabelLists, listed_labels
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.privacy.mechanisms import class_sums_std, noisy_class_sums
from dpcl_core.privacy.noise import Noise, noise_of
from dpcl_core.privacy.noise_forecast import NoiseForecast, noise_to_signal
from dpcl_core.privacy.sums import UnitRows, by_blocks, unit_rows
from dpcl_core.scenarios.stream import Examples, Task
from dpcl_core.spec import Cell, RunSpec

_MOST_SCALED = 1 << 28  # bytes of a table whose rows are kept scaled, too


@dataclass(frozen=True, kw_only=True)
class CosineParams(PredictionParams, RememberedParams):
    """How the noise of several tasks goes together; its size follows from the budget alone."""


class CosineClassifier:
    """Noisy class sums of all budgets and seeds of a run, in one array [seeds, epsilons, classes, K].

    Keeps nothing else of private rows but, for several seeds, their scaled copies: each is scaled once.

    Budgets of one seed with the same labels share a task's clean sums, which exist only inside the mechanism; they never
    share noise. With remembered noise the clean sums of all tasks stay in memory, and in no checkpoint (`recall`).
    """

    KEPT = ("_noises", "_sums", "_shrunk", "_stream_releases", "_released")
    is_task_unread = True

    def __init__(self, spec: RunSpec, cells: Sequence[Cell], context: PublicContext) -> None:
        self._epsilons = tuple(dict.fromkeys(cell.epsilon for cell in cells))
        self._seeds = tuple(dict.fromkeys(cell.seed for cell in cells))
        budgets = [training_budget(spec.privacy, spec.labels, epsilon) for epsilon in self._epsilons]
        self._stds = [class_sums_std(epsilon, delta, spec.privacy.adjacency) for epsilon, delta in budgets]
        self._lists = LabelLists(spec, context.public, context.n_tasks)
        self._noises: dict[Cell, Noise] = {cell: noise_of(spec.privacy.noise, cell, "class sums") for cell in cells}
        self._sums = np.zeros((len(self._seeds), len(self._epsilons), context.n_labels, context.n_inputs))
        self._n_classes = context.n_classes
        self._streams: dict[int, Stream] = {}
        if remembers(spec):
            check_size(8 * context.n_tasks * context.n_classes * context.n_inputs)
            factorisation = stream_noise.chosen(context).factorisation
            self._streams = {seed: Stream(factorisation, *self._sums.shape[2:]) for seed in self._seeds}
        self._stream_releases: dict[int, list[NDArray[np.float64]]] = {seed: [] for seed in self._streams}
        self._shrunk = np.zeros_like(self._sums) if stream_noise.has_shrunk(spec, context.n_tasks) else None
        self._is_shrunk = stream_noise.predicts_shrunk(spec, context.n_tasks)
        self._released = np.zeros(self._sums.shape[:3], dtype=np.bool_)
        self._units: UnitRows | None = None
        # Made of what is released and public: by seed and rule the directions of its sums, and which are some; test rows.
        self._directions: dict[tuple[int, str], tuple[NDArray[np.float32], NDArray[np.bool_]]] = {}
        self._tests: tuple[NDArray[np.generic] | None, NDArray[np.float32]] = (None, np.zeros((0, 0), np.float32))

    def learn(self, tasks: Mapping[int, Task], ledgers: Mapping[Cell, Ledger]) -> Iterator[Progress]:
        for done, (row, seed) in enumerate(enumerate(self._seeds), start=1):
            task = tasks[seed]
            cells, labels = [Cell(epsilon, seed) for epsilon in self._epsilons], task.train.labels
            spaces = self._lists.released(cells, task.prior, labels, ledgers, tasks=(task.index,))
            (self._learn_remembered if self._streams else self._learn_fresh)(row, task, cells, spaces, ledgers)
            for rule in ("cosine", "shrunk"):
                self._directions.pop((seed, rule), None)
            yield Progress("training", done, len(self._seeds), task.index, f"summing features of {task.name}")

    def _learn_fresh(
        self, row: int, task: Task, cells: Sequence[Cell], spaces: Sequence[tuple[int, ...]], ledgers: Mapping[Cell, Ledger]
    ) -> None:
        """Releases and adds a seed's task, with noise of its own."""
        for space in dict.fromkeys(spaces):  # one space, unless every budget has learned its own
            alike = [place for place, other in enumerate(spaces) if other == space]
            train, stds = labelled(task, space), [self._stds[place] for place in alike]
            of = [cells[place] for place in alike]
            drawn, entered = [self._noises[cell] for cell in of], [ledgers[cell] for cell in of]
            found = noisy_class_sums(
                self._scaled(train), train.labels, space, self._sums.shape[2], stds, drawn, entered, task=task.index
            )
            self._add(row, alike, found, stds)
            self._released[row][np.ix_(alike, space)] = True

    def _scaled(self, train: Examples) -> NDArray[np.generic] | UnitRows:
        """The examples' features; of several seeds, which learn the same rows, as rows that are scaled once.

        Not of a large table, where a second copy would cost more memory than the file.
        """
        is_large = train.table.nbytes > _MOST_SCALED
        if len(self._seeds) == 1 or train.rows is None or train.columns is not None or is_large:
            return train.inputs
        if self._units is None or self._units.table is not train.table:
            self._units = UnitRows(train.table, train.rows)
        return self._units.at(train.rows)

    def recall(self, learned: Sequence[Mapping[int, Task]]) -> None:
        """Adds the clean sums of earlier tasks again: they are in no checkpoint."""
        for tasks in learned:
            for seed in self._streams:
                self._sum_up(tasks[seed], seed)

    def _sum_up(self, task: Task, seed: int) -> None:
        """Adds a task's rows to its seed's stream: of learned lists all, as a label may be named later."""
        listed = self._lists.public(task.prior)
        train = task.train if listed is None else labelled(task, listed)
        self._streams[seed].add(train.inputs, train.labels)

    def _learn_remembered(
        self, row: int, task: Task, cells: Sequence[Cell], spaces: Sequence[tuple[int, ...]], ledgers: Mapping[Cell, Ledger]
    ) -> None:
        """Releases a seed's task under remembered noise: of all classes, or of those that learned lists name so far."""
        seed, before = self._seeds[row], self._released[row].copy()
        self._sum_up(task, seed)
        stream, drawn, entered = self._streams[seed], [self._noises[one] for one in cells], [ledgers[one] for one in cells]
        for place, space in enumerate(spaces):
            self._released[row, place, list(space)] = True
        if self._lists.public(task.prior) is not None:
            self._remember(row, noisy_stream_sums(stream, self._stds, drawn, entered, task=task.index))
            return
        self._stream_releases[seed] = [*self._stream_releases[seed], np.zeros_like(self._sums[row])]
        pairs = zip(self._stds, drawn, entered, self._released[row], before, strict=True)
        for place, (std, noise, ledger, named, known) in enumerate(pairs):
            found = noisy_named_sums(stream, std, noise, ledger, task=task.index, named=named, new=named & ~known)
            for release, one in zip(self._stream_releases[seed], found, strict=True):
                release[place] += one  # where it has been zero
        self._sums[row] = stream.factorisation.running_sums(self._stream_releases[seed])

    def _add(self, row: int, places: Sequence[int], found: NDArray[np.float64], stds: Sequence[float]) -> None:
        """Adds what a task released [places, classes, K] of a seed, with noise of these standard deviations."""
        self._sums[row, places] += found
        if self._shrunk is not None:
            self._shrunk[row, places] += np.stack([shrunk(one, std) for one, std in zip(found, stds, strict=True)])

    def _remember(self, row: int, released: NDArray[np.float64]) -> None:
        """Keeps a stream's release [epsilons, classes, K] and reads the running sums off all releases so far."""
        seed = self._seeds[row]
        releases, of = self._stream_releases[seed], self._streams[seed].factorisation
        releases.append(released)
        after, noise = of.running_sums(releases), of.step_noise(len(releases) - 1) * of.sensitivity()
        self._add(row, range(len(self._epsilons)), after - self._sums[row], [std * noise for std in self._stds])
        self._sums[row] = after  # as read off: the sum of changes may differ in its last digit

    def scores(self, seed: int, task: Task) -> Mapping[str, NDArray[np.float32]]:
        """Cosines [epsilons, n, classes] of the task's test examples by rule, the run's own first.

        Where one list stands for several tasks: with sums as they were added up, and with each task's part shrunk.
        """
        test, (table, units) = task.test, self._tests
        if table is not test.table:  # once a run: tasks, seeds and budgets share the table
            units = _single(test.table)
            self._tests = test.table, units
        units = units if test.rows is None else units[test.rows]
        units = units if test.columns is None else units[:, test.columns]
        names = ["cosine"] if self._shrunk is None else ["cosine", "shrunk"]
        return {name: self._cosines(seed, units, name) for name in (names[::-1] if self._is_shrunk else names)}

    def _shrunk_of(self, row: int) -> NDArray[np.float64]:
        """A seed's shrunk sums [epsilons, classes, K]; as added up for a model of which nothing would be left."""
        assert self._shrunk is not None
        found: NDArray[np.float64] = np.where(
            self._shrunk[row].any(axis=(1, 2), keepdims=True), self._shrunk[row], self._sums[row]
        )
        return found

    def released(self, cell: Cell) -> Mapping[str, NDArray[np.generic]]:
        """`sums` [classes, K] over all tasks so far, and which `labels` [classes] are released; see `listed_labels`."""
        place = self._seeds.index(cell.seed), self._epsilons.index(cell.epsilon)
        listed = listed_labels(self._released[place], self._n_classes)
        found: dict[str, NDArray[np.generic]] = {"sums": self._sums[place][listed], "labels": self._released[place][listed]}
        return found if self._shrunk is None else {**found, "shrunk": self._shrunk_of(place[0])[place[1]][listed]}

    def rule(self, cell: Cell) -> Rule:
        """The released label whose sum has the largest cosine."""
        released = self._released[self._seeds.index(cell.seed), self._epsilons.index(cell.epsilon)]
        columns = listed_labels(released, self._n_classes)
        return Rule("cosine", ("shrunk" if self._is_shrunk else "sums",), columns, np.flatnonzero(released))

    def cosines(self, seed: int, inputs: NDArray[np.generic]) -> NDArray[np.float32]:
        """Cosines [epsilons, n, classes] of inputs [n, K]; -inf for labels not released yet and for zero sums.

        Classes are the declared ones, then any other released ones; see `listed_labels`.
        """
        return self._cosines(seed, _single(inputs), "cosine")

    def _cosines(self, seed: int, units: NDArray[np.float32], rule: str) -> NDArray[np.float32]:
        if (seed, rule) not in self._directions:
            row = self._seeds.index(seed)
            sums = self._sums[row] if rule == "cosine" else self._shrunk_of(row)
            listed = listed_labels(self._released[row].any(axis=0), self._n_classes)
            found = np.stack([_single(of_budget) for of_budget in sums[:, listed]])
            # Without noise a class without data has a zero sum: it must lose, not win as NaN or with a cosine of 0.
            self._directions[seed, rule] = found, self._released[row][:, listed] & found.any(axis=2)
        directions, usable = self._directions[seed, rule]
        return np.where(usable[:, None], units @ directions.transpose(0, 2, 1), np.float32(-np.inf))


def _single(rows: NDArray[np.generic]) -> NDArray[np.float32]:
    """Released sums or public test rows [n, K] at length 1 in single precision, which is enough to compare cosines."""
    return by_blocks(rows, rows.shape[1], unit_rows)


make_learner = CosineClassifier


def planned(spec: RunSpec, facts: PublicSizes, epsilon: float, ledger: Ledger) -> None:
    """The plan of a model (`methods.references`): one noisy sum of every class a task, or one mechanism for all tasks."""
    std = class_sums_std(*training_budget(spec.privacy, spec.labels, epsilon), spec.privacy.adjacency)
    everyone = tuple(range(facts.n_tasks))
    for task in everyone:
        learned_list(spec, facts, epsilon, ledger, (task,))
        if task == 0 or not remembers(spec):
            people = everyone if remembers(spec) else None
            ledger.spend(dp.GaussianDpEvent(std), task=task, what="planned sums", people_of=people)


def forecast(
    spec: RunSpec, epsilon: float, *, n_features: int, classes_per_task: float, facts: PublicSizes
) -> NoiseForecast:
    """The noise on a class's sum, in each task whose release has a sum for it."""
    class_size, uses = facts.n_people / facts.n_classes, facts.n_tasks if spec.labels == "prior-const" else 1
    sigma = trainer.sigma(spec, epsilon)
    if remembers(spec):
        sigma, uses = sigma * stream_noise.chosen(facts).least, 1
    ratio = noise_to_signal(sigma, n_features, class_size, uses=uses)
    return NoiseForecast(epsilon, ratio, class_size, uses > 1, None)


CARD = params.card(
    name="cosine",
    title="DP cosine classifier",
    summary="Sums the unit-length features of each class once per task, with Gaussian noise. A test example gets the class "
    "whose noisy sum is closest in direction. Nothing is trained, so a later task cannot overwrite an earlier one.",
    source="Tobaben et al. 2025, Algorithm 1",
    params=CosineParams, key_settings=("noise_over_tasks", "prediction"), refuses=stream_noise.check_remembered,
    derived=stream_noise.derived, module=__name__, planned=f"{__name__}:planned", audit="dpcl_core.attacks.feature_games",
    forecast=forecast, is_one_release=True, is_in_playground=True, table_names=lambda spec: ("Cosine classifier", ""),
    printed=params.printed(
        {
            "params.noise_over_tasks": stream_noise.FRESH_PRINTED, "params.prediction": stream_noise.ADDED_PRINTED,
            "privacy.epsilons": "How σ follows from ε is not printed; ours is the exact Gaussian mechanism.",
        },
    ),
)
