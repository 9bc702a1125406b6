"""One run, whole: its events in order and through JSON, its metrics by hand, its numbers against their laws."""

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpcl_core import checks, engine, events, learning, metrics
from dpcl_core.errors import BadInput
from dpcl_core.events import CellFinished, Event, Note, Planned, Progress, Started, TaskLearned, from_json, of_kind, to_json
from dpcl_core.methods import catalog as methods
from dpcl_core.privacy import card as privacy_card
from dpcl_core.privacy import card_document, gaussian
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.spec import Cell, RunSpec
from tests.support.asserting import refuses
from tests.support.signatures import ENTRIES, TOLD
from tests.support.tiers import of_methods, quick

pytestmark = pytest.mark.usefixtures("home")


def spec(**changes: object) -> RunSpec:
    privacy = {"epsilons": [1.0, math.inf], "noise": "seeded"}
    return checks.parse({"privacy": privacy, "seeds": [0, 1], "data": {"dataset": "digits"}, **changes})


def learned(events: list[Event]) -> dict[tuple[Cell, int], TaskLearned]:
    return {(event.cell, event.task): event for event in events if isinstance(event, TaskLearned)}


def test_events_come_in_order_and_every_cell_finishes() -> None:
    run = spec()
    events = list(engine.run(run))
    kinds = [type(event) for event in events]
    assert set(kinds[:kinds.index(Started)]) == {Progress}
    assert TaskLearned not in kinds[kinds.index(CellFinished) :]
    points = learned(events)
    assert set(points) == {(cell, task) for cell in run.cells() for task in range(5)}
    for (_, task), event in points.items():
        assert len(event.accuracy) == task + 1
        assert all(0 <= value <= 1 for value in event.accuracy)
    finished = [event for event in events if isinstance(event, CellFinished)]
    assert [event.cell for event in finished] == list(run.cells())
    for event in finished:
        assert dict(event.metrics) == metrics.summary([points[event.cell, task].accuracy for task in range(5)])


def test_without_noise_the_order_of_classes_changes_forgetting_and_not_the_end() -> None:
    """As many test pictures of every class: the last classifier has seen all of them, whichever came first."""
    run = spec(privacy={"epsilons": [math.inf]}, seeds=[0, 1, 2, 3], data={"dataset": "digits", "test_per_class": 20})
    found = [event.metrics for event in engine.run(run) if isinstance(event, CellFinished)]
    ends, forgotten = ([one[name] for one in found] for name in ("AA", "AF"))
    assert ends == pytest.approx([ends[0]] * 4, abs=1e-12)
    assert len(set(forgotten)) > 1


def test_the_epsilon_of_a_point_is_what_the_ledger_adds_up_to() -> None:
    points = learned(list(engine.run(spec())))
    for task in range(5):
        assert points[Cell(1.0, 0), task].epsilon == pytest.approx(1.0, rel=2e-5)
        assert points[Cell(math.inf, 0), task].epsilon == math.inf


def test_the_models_of_a_run_together_have_a_bound_of_their_own() -> None:
    """Two budgets, two seeds, one Gaussian a task: the closed form of the four that a person is in."""
    events = list(engine.run(spec(privacy={"epsilons": [1.0, 4.0]})))
    sigmas = [gaussian.sigma(epsilon, 1e-5) for epsilon in (1.0, 4.0)]
    expected = gaussian.epsilon((2 * sum(sigma**-2 for sigma in sigmas)) ** -0.5, 1e-5)
    for event in events:
        if isinstance(event, CellFinished):
            assert event.guarantee.parts["all 4 models of this run together"] == pytest.approx(expected, rel=1e-4)
            assert any("together they have epsilon" in text for text in event.guarantee.not_covered)


def test_accuracy_grows_with_epsilon_and_is_the_same_for_all_label_settings_without_noise() -> None:
    epsilons = [0.1, 1.0, 8.0, math.inf]
    finals: dict[str, dict[float, float]] = {}
    for labels in ("data", "prior", "prior-const", "dp-learned"):
        run = spec(labels=labels, privacy={"epsilons": epsilons}, seeds=list(range(10)))
        found: dict[float, list[float]] = {}
        for event in engine.run(run):
            if isinstance(event, CellFinished):
                found.setdefault(event.cell.epsilon, []).append(event.metrics["AA"] or 0.0)
        finals[labels] = {epsilon: sum(values) / len(values) for epsilon, values in found.items()}
    for by_epsilon in finals.values():
        values = [by_epsilon[epsilon] for epsilon in epsilons]
        assert values[0] < values[1] < values[2] + 0.02
        assert values[2] < values[3] + 0.02
    assert finals["data"][math.inf] == pytest.approx(finals["prior"][math.inf])
    assert finals["prior"][math.inf] == pytest.approx(finals["prior-const"][math.inf])
    assert finals["dp-learned"][math.inf] == finals["data"][math.inf]
    # A tenth of 0.1 names a label that 144 people have with chance 3e-4 (delta (e^(n eps) - 1) / (e^eps - 1)). One
    # that is named is worth 0.01 at most in the mean over ten seeds; five of the hundred are named with a chance below 1e-9.
    assert finals["dp-learned"][0.1] < 0.05
    # One list noises every class in every task: at a small budget it must lose clearly (paper card: 89 against 81).
    assert finals["prior"][1.0] > finals["prior-const"][1.0] + 0.03


def test_labels_outside_the_public_list_are_never_predicted() -> None:
    run = spec(public_labels=["0", "1", "2"], privacy={"epsilons": [math.inf]}, seeds=[0], scenario={"tasks": 1})
    event = next(event for event in engine.run(run) if isinstance(event, TaskLearned))
    assert event.pooled < 0.35  # three of ten classes can be right


def test_a_subset_says_so_and_counts_its_people() -> None:
    events = list(engine.run(spec(data={"dataset": "digits", "train_per_class": 10})))
    started = next(event for event in events if isinstance(event, Started))
    assert started.n_train == 100
    assert "subset" in started.dataset_title
    finished = next(event for event in events if isinstance(event, CellFinished))
    assert any("Only 100" in text for text in finished.guarantee.caveats)


def test_noise_that_no_model_survives_is_said_before_the_first_task() -> None:
    run = engine.run(spec(privacy={"epsilons": [0.05, 8.0]}, seeds=[0]))
    said = [event for event in run if isinstance(event, (Note, TaskLearned))]
    assert isinstance(said[1], Note)
    assert "together they have epsilon" in said.pop(1).text  # type: ignore[union-attr]
    assert isinstance(said[0], Note)
    assert "accuracy will be near chance" in said[0].text
    assert not any(isinstance(event, Note) for event in said[1:])
    assert isinstance(said[-1], TaskLearned)
    near_chance = next(e for e in said if isinstance(e, TaskLearned) and e.cell.epsilon == 0.05 and e.task == 4)
    assert near_chance.pooled < 0.3, "and so it is"


def test_what_has_no_bound_is_not_released(monkeypatch: pytest.MonkeyPatch) -> None:
    """Noise made for a budget of which the accountant knows no bound; without noise there is none to be expected."""
    monkeypatch.setattr(Ledger, "epsilon", lambda ledger: math.inf)
    assert learned(list(engine.run(spec(privacy={"epsilons": [math.inf]}))))
    said: list[Event] = []
    with pytest.raises(BadInput, match=r"privacy.epsilons = 1.0: is not kept: at delta = .* its noise has no bound"):
        said.extend(iter(engine.run(spec(privacy={"epsilons": [1.0]}))))
    assert not learned(said)


@pytest.mark.parametrize("method", of_methods(methods.CARDS, also=("dp-coeff-memory", "naive")))
@pytest.mark.parametrize("labels", quick(2, ["data", "prior", "prior-const", "dp-learned"]))
def test_every_method_keeps_the_common_rules(method: str, labels: str) -> None:
    """Same spec, same events; every task has its ledger entry; labels from the data are never called DP."""
    card = methods.card(method)
    if labels not in card.labels or card.has_clients:  # tests/methods and tests/test_any_data hold these
        return
    without = {"privacy": {"epsilons": [math.inf]}} if methods.card(method).guarantee == "none" else {}
    if method == "independent-laplace":  # local privacy bounds what a copy tells, not whether there is one
        without = {"privacy": {"epsilons": [1.0, math.inf], "noise": "seeded", "adjacency": "replace"}}
    if method == "dp-agem":  # whole networks, example by example: a few steps on some pictures are enough here
        few = {"epochs": 1, "sample_rate": 0.5, "memory_size": 50}
        without = {"params": few, "data": {"dataset": "digits", "train_per_class": 30}}
    run = spec(method=method, labels=labels, **without)
    if run.params.inputs != "text":  # these have texts of their own, below
        the_common_rules_hold(run, n_tasks=5)


@pytest.mark.parametrize(
    ("method", "params"),
    quick(1, [
        *((name, {}) for name, card in methods.CARDS.items() if card.params().inputs == "text"),
        *(("pecl", {"mode": "local"}), ("lm-er", {"mechanism": "fn"}), ("lm-mtl", {"mechanism": "fn"})),
    ]),
)
def test_every_method_on_texts_keeps_them_too(method, params, texts_at, monkeypatch):
    monkeypatch.setenv("DPCL_HOME", str(texts_at))
    run = spec(
        method=method, labels="prior", seeds=[0], params={"length": 20, "epochs": 1, "batch_size": 8, **params},
        data={"dataset": "pii-synthetic-tiny", "backbone": "lm-tiny", "train_per_class": 4, "test_per_class": 1},
        scenario={"kind": "source-incremental", "order": ["policy", "restaurants"]},
        privacy={"epsilons": [1.0], "noise": "seeded", "adjacency": "replace" if params else "add-remove"},
    )  # fmt: skip
    the_common_rules_hold(run, n_tasks=2)


@pytest.fixture(scope="module")
def texts_at(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the synthetic texts are written once for all methods."""
    return tmp_path_factory.mktemp("texts")


def the_common_rules_hold(run: RunSpec, n_tasks: int) -> None:
    card = methods.card(run.method)
    first, second = (list(engine.run(run)) for _ in range(2))
    assert [e for e in first if isinstance(e, TaskLearned)] == [e for e in second if isinstance(e, TaskLearned)]
    finished = [event for event in first if isinstance(event, CellFinished)]
    assert [event.cell for event in finished] == list(run.cells())
    if run.labels == "prior":  # the card of every method holds up before a second accountant
        plan = next(of_kind(first, Planned))
        found = privacy_card.verify(json.dumps(card_document.document("0" * 12, run.method, "", finished, plan)).encode())
        assert [one.verdict for one in found] == ["matches"] * len(finished), [*map(privacy_card.sentence, found)]
    for event in finished:
        assert event.guarantee.unit == ("one training text" if run.params.inputs == "text" else "one training example")
        if event.cell.epsilon == 1.0:
            tasks, told = [f"task {k + 1}" for k in range(n_tasks)], list(event.guarantee.parts)
            there = [name for name in tasks if name in told]
            assert [name for name in told if name.startswith("task")] == there
            if there != tasks:  # all trained together, when the last has come: everyone's account is there all the same
                assert card.trains_on == "all"
                assert [name for name in told if name.startswith("people of")] == [f"people of {name}" for name in tasks]
            has_no_bound = run.labels == "data" or card.guarantee == "nominal"
            assert (event.guarantee.epsilon == math.inf) == has_no_bound
            assert (event.guarantee.claim is not None) == (card.guarantee == "nominal")
            assert has_no_bound or event.guarantee.epsilon <= 1.0 + 2e-5 or run.method == "non-cl"


@pytest.mark.parametrize(
    ("seconds", "kept"), [(0.00123, 0.002), (0.31, 0.5), (1.0, 1.0), (1.01, 2.0), (4.2, 5.0), (73.0, 100.0), (512.0, 1000.0)]
)
def test_times_are_kept_coarsely(seconds: float, kept: float) -> None:
    assert learning.coarse(seconds) == pytest.approx(kept, rel=1e-12)


GUARANTEE = events.Guarantee(
    math.inf, 1e-5, "one training example", "add-remove", "parallel", "every classifier", None, "release", ("a",), (),
    ("b", "inf"), {"task 1": 1.0, "all": math.inf},
)  # fmt: skip
SUMS = events.Spending("sums", 0, (0, 1), 2, events.Mechanism("gaussian", 3.0, (0.1, 1.0), 5))
TEXTS = events.Spending("texts", 0, (0, 1), 1, events.Mechanism("no-bound"))
SCORED = events.ScoredText(
    (" Grace", "\n", " \u05e9\u05dc\u05d5\u05dd", "\U0001f600"), (0.25, 1.0, 1e-9, 0.5), (-0.154, 0.0, 0.3, 0.1),
    (False, True, False, False), ("NAME", "", "D:city", ""), "neutral",
)  # fmt: skip
ROWS = events.QuantizedRows(2, (0.5,), "eJz7DwABAQEA")
EVENTS = [
    events.Started(2, ("one", "two"), "Digits", 100, 10),
    events.Progress("training", 1, 5, None, "summing"),
    events.TaskLearned(Cell(math.inf, 3), 1, (0.5, 0.25), 0.4, math.inf),
    events.CellFinished(Cell(1.0, 0), {"AA": 0.5, "AF": None}, GUARANTEE, 1.5),
    events.Note("warning", "careful"),
    events.Planned(
        math.inf, 1e-5, 900, 2, ((Cell(1.0, 0),), (Cell(math.inf, 0),)),
        ((1.0, events.Written("replace", "once", (SUMS,), 3)), (math.inf, events.Written("replace", "once", (TEXTS,), 3))),
    ),
    events.References(0.25, None, n_tested=412.5),
    events.References(0.0, 0.5, n_tested=None, ceiling=0.75),
    events.TokensScored(Cell(10.0, 0), 2, "current", (SCORED, events.ScoredText((), (), (), (), (), ""))),
    events.Retained(Cell(math.inf, 1), 1, (0.5, -0.1), (None, 2.5)),
    events.Leaks(
        Cell(8.0, 0), -1, (0, 1, 16), (1.4, 1.5, 13.3), (1.4, 1.0, 0.0), (0.0, 0.0, 1.0), (0.0, 0.0, 0.5), (10, 5, 5),
        0.0, 0.95,
    ),
    replace(
        TOLD, entries=replace(ENTRIES, group=(0, -1, 0, 0), regret=(0.5, None, 0.0, 1.5)),
        demanded={"central": 0.03, "local": math.inf},
        lists=events.FullLists(((1.0, 0.0),), ((2, -1),), ROWS, None),
        public=events.PublicPart(ROWS, ROWS, (0.0, 1.0), 0.5, ((0.0, 1.0),) * 3, ((0.0,),) * 3),
    ),
]  # fmt: skip


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_an_event_survives_strict_json(event: object) -> None:
    back = from_json(json.loads(json.dumps(to_json(event), allow_nan=False)))  # type: ignore[arg-type]
    assert (back, type(back)) == (event, type(event))


def test_text_that_looks_like_infinity_stays_text() -> None:
    back = from_json(json.loads(json.dumps(to_json(EVENTS[3]))))
    assert isinstance(back, events.CellFinished)
    assert back.guarantee.caveats == ("b", "inf")


def test_an_unknown_kind_is_an_error() -> None:
    with pytest.raises(KeyError):
        from_json({"event": "Telegram"})


MATRIX = [[0.9], [0.7, 0.8], [0.75, 0.5, 1.0]]


def test_a_hand_computed_matrix() -> None:
    assert metrics.average_accuracy(MATRIX) == pytest.approx([0.9, 0.75, 0.75])
    assert (metrics.forgetting(MATRIX)[0], metrics.forgetting(MATRIX)[1]) == ([], pytest.approx([0.2]))
    assert metrics.forgetting(MATRIX)[2] == pytest.approx([0.15, 0.3])
    assert metrics.average_forgetting(MATRIX) == [None, pytest.approx(0.2), pytest.approx(0.225)]
    numbers = {"AA": 0.75, "AF": 0.225, "BWT": (0.75 - 0.9 + 0.5 - 0.8) / 2, "Last": 0.75, "Avg": (0.9 + 0.75 + 0.75) / 3}
    assert metrics.summary(MATRIX) == {**{name: pytest.approx(value) for name, value in numbers.items()}, "FWT": None}


def test_one_task_has_no_forgetting_and_no_transfer() -> None:
    assert metrics.summary([[0.6]]) == {"AA": 0.6, "AF": None, "BWT": None, "FWT": None, "Last": 0.6, "Avg": 0.6}


def test_forward_transfer_needs_the_entries_above_the_diagonal() -> None:
    full = [[0.9, 0.3, 0.1], [0.7, 0.8, 0.4], [0.7, 0.5, 1.0]]
    assert metrics.forward_transfer(full, [0.1, 0.1, 0.1]) == pytest.approx((0.2 + 0.3) / 2)
    assert metrics.forward_transfer(MATRIX, [0.1, 0.1, 0.1]) is None


def test_improvement_is_negative_forgetting() -> None:
    assert metrics.average_forgetting([[0.5], [0.7, 0.9]])[1] == pytest.approx(-0.2)


matrices = st.integers(2, 7).flatmap(
    lambda n: st.tuples(*[st.lists(st.floats(0, 1), min_size=k + 1, max_size=k + 1) for k in range(n)])
)


@given(matrices)
def test_forgetting_is_the_best_since_the_task_was_learned(matrix: tuple[list[float], ...]) -> None:
    """The square matrix with the lower half mirrored, whose entries above the diagonal do not count, against a loop."""
    n = len(matrix)
    square = [[matrix[max(k, i)][min(k, i)] for i in range(n)] for k in range(n)]
    for k, row in enumerate(metrics.forgetting(square)):
        assert row == [max(square[j][i] for j in range(i, k)) - square[k][i] for i in range(k)]


@given(matrices)
def test_accuracy_and_forgetting_together_cannot_exceed_the_best(matrix: tuple[list[float], ...]) -> None:
    """AA + (T-1)/T AF = mean of each task's best accuracy before the end (its final one for the last task), hence <= 1."""
    n, found = len(matrix), metrics.summary(matrix)
    best = [max(matrix[k][i] for k in range(i, n - 1)) for i in range(n - 1)] + [matrix[-1][-1]]
    assert found["AA"] + (n - 1) / n * found["AF"] == pytest.approx(sum(best) / n)
    assert found["AA"] + (n - 1) / n * found["AF"] <= 1 + 1e-9


def test_what_was_not_evaluated_is_left_out_of_every_mean() -> None:
    """Task 2 has no test examples, and no model was there to test after task 1."""
    matrix = [[None], [0.6, None], [0.5, None, 0.9], [0.3, None, 0.8, 1.0]]
    assert metrics.average_accuracy(matrix) == [None, pytest.approx(0.6), pytest.approx(0.7), pytest.approx(0.7)]
    assert metrics.forgetting(matrix)[1] == [None], "nothing was known about task 1 before"
    assert metrics.forgetting(matrix)[3] == [pytest.approx(0.3), None, pytest.approx(0.1)]
    assert metrics.average_forgetting(matrix) == [None, None, pytest.approx(0.1), pytest.approx(0.2)]
    numbers = {"AA": 0.7, "AF": 0.2, "BWT": -0.1, "Last": 0.7, "Avg": (0.6 + 0.7 + 0.7) / 3}
    found = metrics.summary(matrix)  # task 3 alone was tested when it was new and at the end
    assert found == {**{name: pytest.approx(value) for name, value in numbers.items()}, "FWT": None}


def test_one_model_released_at_the_end_has_an_accuracy_and_nothing_else() -> None:
    found = metrics.summary([[None], [None, None], [0.5, 0.7, 0.9]])
    same = pytest.approx(0.7)
    assert found == {"AA": same, "AF": None, "BWT": None, "FWT": None, "Last": same, "Avg": same}


def test_a_run_in_which_nothing_was_tested_has_no_metrics() -> None:
    assert set(metrics.summary([[None], [None, None]]).values()) == {None}


def test_a_missing_entry_below_the_diagonal_is_an_error() -> None:
    refuses(r"accuracy\[1\]\[1\]", metrics.summary, [[0.5], [0.5]], error=ValueError)
