"""Faults in what methods share, given lists and noise remembered over tasks, and the check that each turns red."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import wraps
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from dpcl_core import checks, engine, events
from dpcl_core.methods.common import given_lists, state
from dpcl_core.methods.common.method import PublicContext
from dpcl_core.methods.features import cosine
from dpcl_core.privacy import continual
from dpcl_core.privacy import labels as of_labels
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.privacy.sums import unit_rows
from dpcl_core.scenarios.stream import Examples, Task
from dpcl_core.spec import Cell
from tests.methods.features import test_runs
from tests.privacy import test_continual

N_TASKS, N_CLASSES, WIDTH, N_ROWS = 4, 3, 8, 60
Draw = tuple[Cell, np.ndarray, float, np.ndarray]  # the model, clean values, their noise's deviation, what left


@dataclass
class Play:
    """What a learner drew and left behind."""

    draws: list[Draw] = field(default_factory=list)
    ledgers: dict[Cell, Ledger] = field(default_factory=dict)
    learner: Any = None

    def joint(self, other: Play, cell: Cell) -> float:
        """mu between two plays of all that left of a model: independent Gaussians of known deviations."""
        pairs = zip(self.of(cell), other.of(cell), strict=True)
        return math.sqrt(sum(np.square((one[1] - two[1]) / one[2]).sum() for one, two in pairs))

    def of(self, cell: Cell) -> list[Draw]:
        return [draw for draw in self.draws if draw[0] == cell]


def played(*, gone: int | None = None, is_resumed: bool = False, order: int = 1) -> Play:
    """Two budgets over four tasks. `gone`: the task that lacks its first row; `order`: of rows, forwards or backwards."""
    spec = checks.parse(
        {
            "method": "cosine", "data": {"dataset": "digits"}, "labels": "prior-const", "seeds": [0],
            "scenario": {"kind": "i-blurry", "tasks": N_TASKS}, "privacy": {"epsilons": [1.0, 700.0]},
            "params": {"noise_over_tasks": "remembered"},
        }
    )  # fmt: skip
    cells, found, public = list(spec.cells()), Play(), tuple(range(N_CLASSES))
    context = PublicContext(n_people=N_TASKS * N_ROWS, n_tasks=N_TASKS, n_classes=N_CLASSES, n_inputs=WIDTH, public=public)
    found.ledgers = {cell: Ledger(spec.privacy.delta, "add-remove", "once") for cell in cells}
    tasks = [task_of(index, gone == index, order) for index in range(N_TASKS)]
    with pytest.MonkeyPatch.context() as patch:
        honest = cosine.noise_of
        patch.setattr(cosine, "noise_of", lambda kind, cell, what: Heard(honest(kind, cell, what), cell, found.draws))
        found.learner = cosine.make_learner(spec, cells, context)
        for index, task in enumerate(tasks):
            list(found.learner.learn({0: task}, found.ledgers))
            if is_resumed and index == 1:
                found.learner._noises = dict.fromkeys(cells)  # the system's noise has no state
                document, arrays = state.saved({"learner": found.learner})
                found.learner = cosine.make_learner(spec, cells, context)
                fresh, found.learner._noises = found.learner._noises, dict.fromkeys(cells)
                state.restore({"learner": found.learner}, document, arrays)
                found.learner._noises = fresh
                found.learner.recall([{0: one} for one in tasks[:2]])
    return found


def task_of(index: int, is_gone: bool, order: int) -> Task:
    """A task with rows of all classes; label 2 is rare before the third."""
    rows = np.random.default_rng(index).standard_normal((N_ROWS, WIDTH)) * 10.0 ** np.arange(-3, 5)
    labels = np.arange(N_ROWS) % (N_CLASSES if index >= 2 else 2)
    chosen = np.arange(int(is_gone), N_ROWS)[::order]
    none = Examples(rows[:0], labels[:0])
    return Task(index, f"task {index + 1}", Examples(rows[chosen], labels[chosen]), none, tuple(range(N_CLASSES)))


class Heard:
    """Noise whose every addition is written down."""

    def __init__(self, source: Any, cell: Cell, draws: list[Draw]) -> None:
        self.source, self.cell, self.draws = source, cell, draws

    def added(self, clean: np.ndarray, std: float) -> np.ndarray:
        found = self.source.added(clean, std)
        self.draws.append((self.cell, clean.copy(), std, found))
        return found


# What finds faults: each returns what does not fit, in words.


def more_than_charged(*, is_resumed: bool = False) -> str:
    """A person of the first task, whose column of C is the longest: the joint mu of all that left against the charge."""
    there, away = played(is_resumed=is_resumed), played(gone=0, is_resumed=is_resumed)
    for cell, ledger in there.ledgers.items():
        (entry,) = ledger.entries
        found, charged = there.joint(away, cell), 1 / entry.event.noise_multiplier
        if not (1 - 1e-4) * charged <= found <= charged:
            return f"mu is {found:.4g}, and {charged:.4g} is charged"
    return ""


def changed_by_a_resume() -> str:
    return more_than_charged(is_resumed=True)


def one_task_too_many() -> str:
    found = played()
    try:
        list(found.learner.learn({0: replace(task_of(0, False, 1), index=N_TASKS)}, found.ledgers))
    except ValueError:
        return ""
    return "a fifth of four tasks was released"


def failing(test: Callable[..., None], *given: Any) -> Callable[[], str]:
    """A test that stands elsewhere."""

    @wraps(test)
    def find() -> str:
        try:
            test(*given)
        except AssertionError as error:
            return str(error)
        return ""

    return find


def not_in_every_order() -> str:
    forwards, backwards = played(), played(order=-1)
    same = all(np.array_equal(one[1], two[1]) for one, two in zip(forwards.draws, backwards.draws, strict=True))
    return "" if same else "clean sums depend on the order of rows"


def one_noise_for_two() -> str:
    found = played()
    one, other = ([(out - clean) / std for _, clean, std, out in found.of(cell)] for cell in found.ledgers)
    likeness = abs(np.corrcoef(np.ravel(one), np.ravel(other))[0, 1])
    return "" if likeness < 0.6 else "two budgets share their noise"  # of 96 numbers; 0.6 is six deviations


# The faults.


def wrong_column(patch: pytest.MonkeyPatch) -> None:
    last = lambda self, n_tasks=1, gap=1: float(self.column[0])  # noqa: E731  # the last column of C has one entry
    patch.setattr(continual.Factorisation, "sensitivity", last)


def redrawn(patch: pytest.MonkeyPatch) -> None:
    """Who goes on releases the tasks before once more, and forgets what was released."""
    honest = cosine.CosineClassifier.recall

    def again(self: Any, learned: Any) -> None:
        for tasks in learned:
            honest(self, [tasks])
            (stream,), noises = self._streams.values(), list(self._noises.values())
            self._stream_releases[0][stream.n_tasks - 1] = continual.noisy_stream_sums(
                stream, self._stds, noises, [Ledger(1e-5, "add-remove", "once") for _ in noises], task=stream.n_tasks - 1
            )

    patch.setattr(cosine.CosineClassifier, "recall", again)


def no_decay(patch: pytest.MonkeyPatch) -> None:
    honest = continual._power
    patch.setattr(continual, "_power", lambda exponent, pole, n_tasks: honest(exponent, 1.0, n_tasks))


def unending(patch: pytest.MonkeyPatch) -> None:
    """Nobody counts tasks, and beyond the last the weights go on."""
    honest = continual.Factorisation.encoder

    def encoder(self: Any, task: int) -> Any:
        weights = honest(self, min(task, self.n_tasks - 1))
        return np.append(weights, np.zeros(task + 1 - len(weights)))

    patch.setattr(continual, "_enter", lambda *args: None)
    patch.setattr(continual.Factorisation, "encoder", encoder)
    patch.setattr(cosine.CosineClassifier, "_remember", lambda self, row, released: None)


def once(patch: pytest.MonkeyPatch) -> None:
    honest = continual.Factorisation.sensitivity
    patch.setattr(continual.Factorisation, "sensitivity", lambda self, n_tasks=1, gap=1: honest(self, 1, gap))


def own_origin(patch: pytest.MonkeyPatch) -> None:
    """A label that is named late begins then."""
    honest = continual.noisy_named_sums

    def late(*args: Any, new: Any, **named: Any) -> Any:
        return honest(*args, new=np.zeros_like(new), **named)

    patch.setattr(cosine, "noisy_named_sums", late)


def floating(patch: pytest.MonkeyPatch) -> None:
    """Rows are added up as they come, in single precision."""

    def add(self: Any, features: Any, labels: Any) -> None:
        sums = np.zeros(self._shape, np.float32)
        for row, label in zip(unit_rows(features).astype(np.float32), labels, strict=True):
            sums[label] += row
        self._sums.append(np.rint(sums / self._step * 2**10).astype(np.int64))

    patch.setattr(continual.Stream, "add", add)


def shared_noise(patch: pytest.MonkeyPatch) -> None:
    """The second budget's noise is the first one's, made larger or smaller."""
    kept: dict[Any, Any] = {}

    def noised(stream: Any, clean: Any, std: float, noise: Heard) -> Any:
        scale, key = std * stream.factorisation.sensitivity(), (id(stream), stream.n_tasks)
        kept.setdefault(key, noise.source.added(np.zeros_like(clean), 1.0))
        noise.draws.append((noise.cell, clean, scale, clean + scale * kept[key]))
        return noise.draws[-1][3]

    patch.setattr(continual, "_noised", noised)


_ROOT = test_continual.test_the_square_root_is_the_matrix_square_root_up_to_its_grid
_WORST = test_continual.test_the_worst_tasks_of_a_person_are_found_by_enumeration
_LATE = test_runs.test_a_label_that_is_named_late_has_all_its_rows_and_hidden_ones_nothing
FAULTS: Mapping[str, tuple[Callable[[pytest.MonkeyPatch], None], Callable[[], str]]] = {
    "Δ from the wrong column": (wrong_column, more_than_charged),
    "noise redrawn at a resume": (redrawn, changed_by_a_resume),
    "decay left out of C": (no_decay, failing(_ROOT, 0.8)),
    "a task more than T": (unending, one_task_too_many),
    "k tasks of a person counted once": (once, failing(_WORST, 9, 4, 1, 1.0)),
    "noise of a late label begins late": (own_origin, failing(_LATE)),
    "sums in the order of rows": (floating, not_in_every_order),
    "noise shared between budgets": (shared_noise, one_noise_for_two),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_an_honest_stream_passes(fault: str) -> None:
    assert FAULTS[fault][1]() == ""


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_in_the_stream_is_found(fault: str) -> None:
    plant, find = FAULTS[fault]
    with pytest.MonkeyPatch.context() as patch:
        plant(patch)
        assert find() != ""


def table() -> list[str]:
    """The table's lines for `docs/sabotage.md`: each fault, and the check that finds it."""
    rows = [f"| {name} | `{find.__name__}` |" for name, (_, find) in FAULTS.items()]
    return ["| fault in remembered noise | found by |", "| --- | --- |", *rows]


# Faults in lists that are given to learners, and the check that each turns red.


N_LISTS, EPSILON = 2, 4.0


def counts_more_than_one_entry() -> bool:
    """A client's leaving must take one entry off one label's count, and nothing else."""
    users, found = np.repeat(np.arange(8), 6), np.random.default_rng(1).integers(0, 5, 48)
    list_table = np.zeros((48, 1), np.float32)
    whole = Counter(given_lists.one_label_of_each(Examples(list_table, found, users), Cell(EPSILON, 0), 0).tolist())
    for leaving in range(8):
        kept = users != leaving
        without = Examples(list_table[kept], found[kept], users[kept])
        after = Counter(given_lists.one_label_of_each(without, Cell(EPSILON, 0), 0).tolist())
        if sum((whole - after).values()) != 1 or after - whole:
            return True
    return False


def breaks_the_budget() -> bool:
    """A run's ledger must hold a list for every task, and cost what was asked for with the training, no more."""
    raw = {
        "method": "label-means", "labels": "dp-learned", "seeds": [0], "params": {"dimensions": 4},
        "data": {"dataset": "digits", "backbone": "pixels", "train_per_class": 40}, "privacy": {"epsilons": [EPSILON]},
        "scenario": {"kind": "class-incremental", "tasks": N_LISTS, "clients": 10},
    }  # fmt: skip
    try:
        (finished,) = events.of_kind(list(engine.run(checks.parse(raw))), events.CellFinished)
    except ValueError:  # more in the ledger than was planned
        return True
    assert finished.ledger is not None
    return str(finished.ledger).count("list of labels, each named") != N_LISTS or not finished.guarantee.epsilon <= EPSILON


def every_label(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(given_lists, "one_label_of_each", lambda train, cell, task: train.labels)


def by_others(patch: pytest.MonkeyPatch) -> None:
    """Labels are dealt out over all clients' rows: who leaves moves the rest."""

    def dealt(train: Any, cell: Any, task: int) -> Any:
        order = np.random.default_rng(len(train)).permutation(len(train))
        _, first = np.unique(train.users[order], return_index=True)
        return train.labels[order][first]

    patch.setattr(given_lists, "one_label_of_each", dealt)


def unwritten(patch: pytest.MonkeyPatch) -> None:
    class Silent:
        adjacency = "add-remove"

        def spend(self, *args: object, **named: object) -> None:
            pass

    def released(found: Any, epsilon: float, delta: float, noise: Any, ledger: Any, **named: Any) -> Any:
        return of_labels.release_labels(found, epsilon, delta, noise, Silent(), **named)  # type: ignore[arg-type]

    patch.setattr(given_lists, "release_labels", released)


def undivided(patch: pytest.MonkeyPatch) -> None:
    """Every task's list gets the share of all lists."""
    honest = given_lists.budget
    patch.setattr(given_lists, "budget", lambda privacy, epsilon, facts: honest(privacy, 10 * epsilon, facts))


def kept_whole(patch: pytest.MonkeyPatch) -> None:
    """The learner trains with the whole budget, as if lists were free."""
    patch.setattr(checks, "for_training", lambda spec, *, is_on_top: replace(spec, labels="prior"))


Check = Callable[[], bool]
LIST_FAULTS: Mapping[str, tuple[Callable[[pytest.MonkeyPatch], None], Check]] = {
    "a client names all its labels": (every_label, counts_more_than_one_entry),
    "a client's label hangs on other clients": (by_others, counts_more_than_one_entry),
    "a list is not written down": (unwritten, breaks_the_budget),
    "every task's list takes the share of all": (undivided, breaks_the_budget),
    "the learner trains with the whole budget": (kept_whole, breaks_the_budget),
}


@pytest.mark.parametrize("check", [counts_more_than_one_entry, breaks_the_budget])
def test_lists_as_they_are_are_right(check: Check) -> None:
    assert not check()


@pytest.mark.parametrize("fault", LIST_FAULTS)
def test_a_fault_in_given_lists_is_found(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    put, check = LIST_FAULTS[fault]
    put(monkeypatch)
    assert check()


def test_a_client_s_name_on_a_list_costs_what_is_charged() -> None:
    """The two probabilities of one label's decision, on neighbouring counts, are as close as the ledger says."""
    spent, delta = 0.5, 1e-6
    for less, more in pairwise([one / of_labels.ONE for one in of_labels.chances(spent, delta, 30)]):
        assert more <= math.exp(spent) * less + delta + 1e-15
        assert 1 - less <= math.exp(spent) * (1 - more) + delta + 1e-15


def list_table() -> list[str]:
    """The rows of the documentation's list_table."""
    return ["| fault in given lists | found by |", "| --- | --- |",
            *(f"| {fault} | `{check.__name__}` |" for fault, (_, check) in LIST_FAULTS.items())]  # fmt: skip
