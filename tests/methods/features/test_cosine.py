"""The cosine classifier: against a nearest class mean written anew, and the laws of its noise."""

import math
from collections.abc import Sequence
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import kstest, norm
from sklearn.datasets import load_digits

from dpcl_core.methods.common import classifier
from dpcl_core.methods.features import cosine
from dpcl_core.methods.features.cosine import CosineClassifier, CosineParams, make_learner
from dpcl_core.privacy import gaussian
from dpcl_core.privacy import sums as privacy_sums
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.privacy.noise import SeededNoise
from dpcl_core.scenarios.catalog import ClassIncremental
from dpcl_core.scenarios.stream import Examples, Task, TaskStream
from dpcl_core.spec import Cell, PrivacySpec, RunSpec
from tests.methods import training
from tests.methods.training import public_context, spreads, taught
from tests.support.watching import watched

DELTA = 1e-5
N_CLASSES, SIZE = 4, 3


def spec(labels: str, epsilons: tuple[float, ...], seeds: tuple[int, ...] = (0,), noise: str = "release") -> RunSpec:
    privacy = PrivacySpec(epsilons=epsilons, delta=DELTA, noise=noise)  # type: ignore[arg-type]
    chosen = {"scenario": ClassIncremental(tasks=2), "labels": labels, "privacy": privacy, "seeds": seeds}
    return RunSpec(method="cosine", params=CosineParams(), **chosen)  # type: ignore[arg-type]


def task(index: int, features: np.ndarray, labels: np.ndarray, prior: Sequence[int]) -> Task:
    examples = Examples(features, np.asarray(labels, dtype=np.int64))
    return Task(index, f"task {index + 1}", examples, examples, tuple(prior))


def stream() -> list[Task]:
    """Two tasks over four classes, two classes each, three features."""
    generator = np.random.default_rng(5)
    return [
        task(index, generator.standard_normal((12, SIZE)), np.arange(12) % 2 + 2 * index, (2 * index, 2 * index + 1))
        for index in range(2)
    ]


def learned(run: RunSpec, tasks: Sequence[Task], n_classes: int = N_CLASSES) -> tuple[CosineClassifier, dict[Cell, Ledger]]:
    return training.learned(run, tasks, public_context(tasks[0].train.inputs.shape[1], n_classes, 100, len(tasks)))


def sums(run: RunSpec, tasks: Sequence[Task]) -> np.ndarray:
    """Final noisy sums [epsilons, classes, K] of the first seed."""
    return learned(run, tasks)[0]._sums[0]


def draws(labels: str, tasks: Sequence[Task], n: int) -> np.ndarray:
    """Independent draws of the noise on the final sums [n, classes, K]: one a seed, all seeds on the same tasks."""
    return learned(spec(labels, (1.0,), tuple(range(n))), tasks)[0]._sums[:, 0] - clean_sums(tasks)


def clean_sums(tasks: Sequence[Task]) -> np.ndarray:
    found = np.zeros((N_CLASSES, SIZE))
    for each in tasks:
        for row, label in zip(each.train.inputs, each.train.labels, strict=True):
            found[label] += row / np.linalg.norm(row)
    return found


@pytest.mark.parametrize(("labels", "times"), [("prior", 1), ("prior-const", 2)])
def test_noise_variance_of_a_class_is_sigma_squared_times_the_tasks_it_was_noised_in(labels: str, times: int) -> None:
    """Also rejects noise that is 10 % too large or too small: the test is worth its name."""
    tasks, sigma = stream(), gaussian.sigma(1.0, DELTA)
    values = np.concatenate([draws(labels, tasks, 100) for _ in range(25)])
    for label in range(N_CLASSES):
        std = math.sqrt(times) * sigma  # of 7,500 values: its standard error is 1.6 % of the variance
        assert [spreads(values[:, label] * factor, std) for factor in (1, 1.1, 0.9)] == [True, False, False]
    assert not spreads(values, math.sqrt(3 - times) * sigma), "the other setting's law must not fit"


def test_the_law_of_the_final_sums_does_not_depend_on_the_order_of_tasks() -> None:
    tasks, sigma = stream(), gaussian.sigma(1.0, DELTA) * math.sqrt(2)
    for order in (tasks, [task(0, *_data(tasks[1])), task(1, *_data(tasks[0]))]):
        standard = np.concatenate([draws("prior-const", order, 100) for _ in range(4)]).reshape(400, -1) / sigma
        for column in standard.T:  # 24 tests: one false alarm in 40,000 runs
            assert kstest(column, norm.cdf).pvalue > 1e-6


def _data(each: Task) -> tuple[np.ndarray, np.ndarray, tuple[int, ...]]:
    return each.train.inputs, each.train.labels, each.prior


def test_without_noise_the_order_of_tasks_changes_nothing() -> None:
    tasks = stream()
    run = spec("prior", (math.inf,))
    np.testing.assert_allclose(sums(run, tasks), sums(run, tasks[::-1]), atol=1e-12)


def nearest_class_mean(train: np.ndarray, labels: np.ndarray, test: np.ndarray) -> np.ndarray:
    """Nearest class mean of unit features by cosine, written without the project's code."""
    unit = np.array([row / math.sqrt(float(row @ row)) for row in train])
    means = {label: unit[labels == label].mean(axis=0) for label in sorted(set(labels.tolist()))}
    predicted = []
    for row in test:
        cosines = {label: float(row @ mean) / (np.linalg.norm(row) * np.linalg.norm(mean)) for label, mean in means.items()}
        predicted.append(max(cosines, key=lambda label: cosines[label]))
    return np.array(predicted)


@pytest.mark.parametrize("labels", ["data", "prior", "prior-const", "dp-learned"])
def test_without_noise_it_is_the_nearest_class_mean_by_cosine(labels: str) -> None:
    pixels, digits = load_digits(return_X_y=True)
    train, test = slice(0, 1300), slice(1300, None)
    tasks = [
        task(index, pixels[train][mask], digits[train][mask], (2 * index, 2 * index + 1))
        for index in range(5)
        for mask in [np.isin(digits[train], (2 * index, 2 * index + 1))]
    ]
    learner, _ = learned(spec(labels, (math.inf,)), tasks, n_classes=10)
    predicted = learner.cosines(0, pixels[test])[0].argmax(axis=1)
    np.testing.assert_array_equal(predicted, nearest_class_mean(pixels[train], digits[train], pixels[test]))


def test_scores_are_cosines_and_unreleased_or_empty_classes_lose() -> None:
    tasks = stream()
    learner, _ = learned(spec("prior", (1.0, math.inf)), tasks[:1])
    scores = learner.cosines(0, tasks[0].test.inputs)
    assert scores.shape == (2, 12, N_CLASSES)
    assert np.isneginf(scores[:, :, 2:]).all()
    assert (np.abs(scores[:, :, :2]) <= 1 + 1e-12).all()
    const, _ = learned(spec("prior-const", (1.0, math.inf)), tasks[:1])
    later = const.cosines(0, tasks[0].test.inputs)[:, :, 2:]
    assert np.isfinite(later[0]).all(), "with noise every public label is released from task 1 on"
    assert np.isneginf(later[1]).all(), "without noise a class without data has no direction"


def test_examples_outside_the_public_list_are_dropped_before_anything_is_computed() -> None:
    features, labels, _ = _data(stream()[0])
    narrow = sums(spec("prior", (math.inf,)), [task(0, features, labels, (0,))])[0]
    assert narrow[0].any()
    assert not narrow[1:].any()


def test_structure_is_the_same_on_neighbours_unless_labels_come_from_the_data() -> None:
    features, labels, _ = _data(stream()[0])
    more_features, more_labels = np.vstack([features, np.ones(SIZE)]), np.append(labels, 3)
    for setting, same in (("prior", True), ("prior-const", True), ("data", False)):
        released = [
            np.isfinite(learned(spec(setting, (1.0,)), [task(0, x, y, (0, 1, 3))])[0].cosines(0, features)).all(axis=1)
            for x, y in ((features, labels), (more_features, more_labels))
        ]
        assert np.array_equal(*released) is same


def test_a_learned_list_is_each_budgets_own_and_keeps_single_people_out() -> None:
    """Label 0 has enough people for every budget, label 1 for the larger one alone, label 2 one person.

    By chance the small budget names label 1 in one of 400 lists, and label 2 is named in one of 200,000: more than three and
    more than one of twenty come up with probability below 1e-6.
    """
    rows, features = [1000, 40, 1], np.random.default_rng(0).standard_normal((1041, SIZE))
    one = task(0, features, np.repeat(np.arange(3), rows), ())
    n_listed = np.zeros((3, 3), dtype=int)
    for _ in range(20):
        learner, ledgers = learned(spec("dp-learned", (1.0, 20.0, math.inf)), [one], 3)
        listed = np.isfinite(learner.cosines(0, features[:1]))[:, 0]
        n_listed += listed
        assert not learner._sums[0][~listed].any(), "what is not listed is not summed, noise included"
        for cell, ledger in ledgers.items():
            assert len(ledger.entries) == 2
            assert ledger.epsilon() == math.inf if math.isinf(cell.epsilon) else ledger.epsilon() <= cell.epsilon
    assert (n_listed[:, 0].tolist(), n_listed[1:, 1].tolist()) == ([20, 20, 20], [20, 20])
    assert n_listed[0, 1] <= 3
    assert n_listed[2, 2] == 20
    assert n_listed[:2, 2].sum() <= 1


def test_the_noise_of_a_learned_list_is_that_of_what_the_list_leaves() -> None:
    one = task(0, np.zeros((1000, 400)), np.zeros(1000), ())
    noise = learned(spec("dp-learned", (1.0,), tuple(range(20))), [one], 1)[0]._sums
    assert spreads(noise, gaussian.sigma(0.9, DELTA / 2))
    assert not spreads(noise, gaussian.sigma(1.0, DELTA))


def test_budgets_and_seeds_never_share_noise() -> None:
    tasks = [task(0, np.zeros((1, 400)), np.zeros(1), (0, 1))]
    for noise in ("release", "seeded"):
        learner, _ = learned(spec("prior", (1.0, 2.0), (0, 1), noise), tasks, n_classes=2)
        draws = learner._sums.reshape(-1, 400)
        assert np.abs(np.corrcoef(draws)[np.triu_indices(len(draws), 1)]).max() < 6 / math.sqrt(400)


@pytest.mark.parametrize("recurrence", ["once", "every"])
def test_the_example_of_eighty_lines_is_this_classifier(recurrence: str) -> None:
    """Sums to the last digit under the same seeded noise, predictions, and epsilon to the accuracy of its bisection."""
    path = Path(__file__).resolve().parents[3] / "examples" / "cosine_in_80_lines.py"
    found = spec_from_file_location("cosine_in_80_lines", path)
    assert found.loader is not None
    example = module_from_spec(found)
    found.loader.exec_module(example)
    cell, tasks = Cell(0.7, 3), stream()
    run = spec("prior", (cell.epsilon,), (cell.seed,), noise="seeded")
    known = public_context(SIZE, N_CLASSES, 100, 2)
    learner, ledger = make_learner(run, [cell], known), Ledger(DELTA, "add-remove", recurrence)  # type: ignore[arg-type]
    its_ledger = example.Ledger(DELTA, same_people_in_all_tasks=recurrence == "every")
    model, noise = example.CosineClassifier(N_CLASSES, SIZE, cell.epsilon, its_ledger), SeededNoise(cell, "class sums")
    for one in tasks:
        list(learner.learn({cell.seed: one}, {cell: ledger}))
        classes = list(one.prior)
        model.learn(one.index, one.train.inputs, one.train.labels, classes, noise.normal((len(classes), SIZE)))
    np.testing.assert_array_equal(model.sums, learner.released(cell)["sums"])
    assert its_ledger.epsilon() == pytest.approx(ledger.epsilon(), rel=1e-6)  # the engine's noise is rounded up by as much
    test = np.concatenate([one.test.inputs for one in tasks])
    np.testing.assert_array_equal(model.predict(test), learner.cosines(cell.seed, test)[0].argmax(axis=1))


def test_several_seeds_scale_a_row_once_and_get_the_sums_that_one_seed_gets(monkeypatch: pytest.MonkeyPatch) -> None:
    scaled: list[int] = []
    watched(monkeypatch, privacy_sums, "unit_rows", lambda found, given: scaled.append(len(found)))
    pixels, digits = load_digits(return_X_y=True)
    table = Examples(pixels.astype(np.float32), digits.astype(np.int64), rows=np.arange(len(digits)))
    tasks = {
        seed: [
            Task(index, "", part, part, tuple(sorted(classes)))
            for index, classes in enumerate(np.random.default_rng(seed).permutation(10).reshape(5, 2).tolist())
            for part in [table.take(np.flatnonzero(np.isin(digits, classes)))]
        ]
        for seed in range(3)
    }  # fmt: skip

    def sums_of(seeds: tuple[int, ...]) -> np.ndarray:
        run = spec("prior", (math.inf,), seeds)
        cells = list(run.cells())
        learner = make_learner(run, cells, public_context(64, 10, 100, 5))
        ledgers = {cell: Ledger(DELTA, "add-remove", "once") for cell in cells}
        for step in range(5):
            list(learner.learn({seed: tasks[seed][step] for seed in seeds}, ledgers))
        return learner._sums

    together = sums_of((0, 1, 2))
    assert sum(scaled) == len(digits)
    for seed in range(3):
        np.testing.assert_array_equal(together[seed], sums_of((seed,))[0])
    assert sum(scaled) == len(digits), "of one seed nothing is kept"


def test_a_run_scales_its_test_rows_once_and_its_sums_once_a_task(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a task costs beside its products does not grow with the number of tasks."""
    scaled: list[int] = []
    watched(monkeypatch, cosine, "unit_rows", lambda found, given: scaled.append(len(found)))
    test = Examples(np.random.default_rng(0).standard_normal((400, 8)).astype(np.float32), np.arange(400) % 40)
    tasks = [
        Task(index, f"task {index + 1}", part, part, (2 * index, 2 * index + 1))
        for index in range(20)
        for part in [test.take(np.flatnonzero(test.labels // 2 == index))]
    ]
    run, stream = spec("prior", (1.0, math.inf)), TaskStream(tuple(tasks), tuple(map(str, range(40))), "once")
    learner = make_learner(run, list(run.cells()), public_context(8, 40, 100, 20))
    for step, one in enumerate(tasks):
        taught(learner, run, [one])
        results = classifier.evaluated(learner, 0, stream, step, 2)
    assert sum(scaled) == 400 + 20 * 2 * 40
    for place, result in enumerate(results):
        right = [learner.cosines(0, one.test.inputs)[place].argmax(axis=1) == one.test.labels for one in tasks]
        assert result.by_task == tuple(each.mean() for each in right)
