"""Rules of the catalogue, settings that are refused before anything starts, and what an untrained network can do."""

import math
from collections.abc import Mapping
from dataclasses import asdict, replace

import numpy as np
import pytest

from dpcl_core import checks, engine
from dpcl_core.backbones import extractor
from dpcl_core.data.dataset import Form
from dpcl_core.data.texts import Texts
from dpcl_core.events import CellFinished, References, TaskLearned, of_kind
from dpcl_core.methods import catalog, references
from dpcl_core.methods.common.method import Learner, PublicSizes
from dpcl_core.scenarios import catalog as scenarios
from dpcl_core.scenarios.stream import Examples, Task, TaskStream
from dpcl_core.spec import RunSpec
from tests.methods import pecl_small, training
from tests.support.asserting import refusal_of

EPSILONS = [0.1, 0.5, 1.0, 2.0, 4.0, 8.0, math.inf]


def spec(labels: str = "prior-const", **data: object) -> RunSpec:
    scenario, data = {"kind": "class-incremental", "tasks": 5}, {"dataset": "mnist", "backbone": "lite0", **data}
    return checks.parse(
        {"method": "cosine", "labels": labels, "data": data, "scenario": scenario, "privacy": {"epsilons": EPSILONS}}
    )


def numbers(run: RunSpec, n_people: int) -> Mapping[float, int]:
    return catalog.axes_by_epsilon(run, PublicSizes(n_people=n_people, n_tasks=5, n_classes=10))


@pytest.mark.parametrize("n_people", [100, 1000, 10_000])
def test_more_axes_with_a_larger_budget(n_people: int) -> None:
    found = list(numbers(spec(), n_people).values())
    assert found == sorted(found)
    assert found[-1] == catalog.MOST, "without noise nothing is lost by more"
    assert all(catalog.FEWEST <= number <= catalog.MOST for number in found)


def test_more_axes_with_more_people_in_proportion() -> None:
    few, many = (numbers(spec(), n)[1.0] for n in (1500, 3000))
    assert many == pytest.approx(2 * few, abs=1)


def test_noise_that_adds_up_over_tasks_costs_axes() -> None:
    one_list, lists = (numbers(spec(labels=labels), 1500)[1.0] for labels in ("prior-const", "prior"))
    assert lists == pytest.approx(math.sqrt(5) * one_list, rel=0.02)


def test_setting_decides_where_it_is_given_and_networks_without_axes_have_no_number() -> None:
    assert (set(numbers(spec(axes=77), 1000).values()), numbers(spec(axes=0), 1000)) == ({77}, {})
    assert numbers(spec(backbone="convnext-cifar100"), 1000) == {}


# A dataset of a kind that a method cannot learn on is refused before anything else, and by what is true of it.


PICTURES, OF_TEXTS = "digits", "must be a dataset of texts, such as pii-synthetic; "


@pytest.mark.parametrize("name", [card.name for card in catalog.CARDS.values() if card.params().inputs == "text"])
@pytest.mark.parametrize("dataset", [PICTURES, "har-wisdm", "ner-gum"])
def test_what_trains_a_language_model_takes_texts_alone(name: str, dataset: str) -> None:
    said = refusal_of(before_any_task, {"method": name, "data": {"dataset": dataset}})
    assert str(said) == f"data.dataset = {dataset}: {OF_TEXTS}{catalog.card(name).title} trains a language model"


@pytest.mark.parametrize(("raw", "allowed"), [
    ({"method": "l2dp-ml", "data": {"dataset": "ner-gum", "backbone": "hashed-text"}},
     "must be a dataset of pictures, windows of a sensor, texts, rows of a table or embeddings, such as digits, "
     "har-wisdm, pii-synthetic or photo-features; L2DP-ML claims nothing of the several words of a sentence"),
    ({"method": "naive", "params": {"adapter": "lora"}, "data": {"dataset": "har-wisdm", "backbone": "pixels"}},
     "must be a dataset of pictures or texts, such as digits or pii-synthetic; Naive fine-tuning adapts a network"),
])  # fmt: skip
def test_no_two_refusals_ask_for_what_the_other_forbids(raw: dict[str, object], allowed: str) -> None:
    said = refusal_of(before_any_task, raw)
    assert said.field == "data.dataset"
    assert said.allowed.startswith(allowed)


# Settings that a method on features or of Lifelong DP cannot work with are refused before anything starts, by field.


FREE = {"epsilons": [math.inf]}
KEPT = {"memory_size": 100}
BASES: dict[str, dict[str, object]] = {
    "peft-ensemble": {},
    "naive": {"labels": "prior-const"},
    "agem": {"privacy": FREE, "scenario": {"tasks": 2}},
    "joint-network": {"privacy": FREE, "scenario": {"kind": "split", "tasks": 2}, "labels": "prior-const"},
    "l2dp-ml": {"data": {"dataset": "digits", "backbone": "pixels"}},
    "dp-agem": {"scenario": {"kind": "split", "tasks": 5}},
    "independent-laplace": {"labels": "prior", "privacy": {"epsilons": [8.0], "adjacency": "replace"}},
}
HETEROGENEOUS = {"variant": "heterogeneous"}


def before_any_task(raw: dict[str, object]) -> None:
    run = checks.parse(raw)
    checks.check_run(run)
    assert not [event for event in engine.run(run) if isinstance(event, TaskLearned)]


@pytest.mark.parametrize(("method", "changes", "field", "named"), [
    ("peft-ensemble", {"params": {"sample_rate": 0.0001}}, "params.sample_rate", "0.00371"),
    ("peft-ensemble", {"params": {"sample_rate": 1.5}}, "params.sample_rate", "1"),
    ("peft-ensemble", {"params": {"clip_norm": 0}}, "params.clip_norm", "0.000000001"),
    ("peft-ensemble", {"params": {"adapter": "film"}}, "params.adapter", "head"),
    ("naive", {"params": {"adapter": "lora"}}, "params.adapter", "head"),
    ("agem", {"privacy": {"epsilons": [1.0]}}, "privacy.epsilons", "dp-agem"),
    ("agem", {"params": {"head": "per-task"}}, "params.head", "prior"),
    ("agem", {"params": {"variant": "balanced"}}, "params.steps", "balanced"),
    ("agem", {"params": {**HETEROGENEOUS, "epochs_by_task": [1, 2, 3]}}, "params.epochs_by_task", "2 "),
    ("agem", {"params": HETEROGENEOUS}, "params.epochs_by_task", "2 "),
    ("agem", {"params": {**HETEROGENEOUS, "epochs_by_task": [1, 0]}}, "params.epochs_by_task", "1000"),
    ("joint-network", {"privacy": {"epsilons": [1.0]}}, "privacy.epsilons", "inf"),
    ("joint-network", {"params": {"network": "cnn-32"}}, "params.network", "lifelong"),
    ("joint-network", {"params": {"head": "per-task"}}, "params.head", "prior"),
    ("l2dp-ml", {"params": {"encoder_share": 0}}, "params.encoder_share", "ε1"),
    ("l2dp-ml", {"params": {"encoder_share": 1}}, "params.encoder_share", "ε2"),
    ("dp-agem", {"params": {"sample_rate": 0.001}}, "params.sample_rate", "0.00371"),
    ("dp-agem", {"params": {"memory_size": 500}}, "params.memory_size", "269"),
    ("dp-agem", {"params": {"memory_size": 20, "replay_rate": 0.04}}, "params.replay_rate", "0.05"),
    ("dp-agem", {"params": {**KEPT, "budget": "fixed"}}, "params.noise_multiplier", "fixed"),
    ("dp-agem", {"params": {**KEPT, "budget": "fixed", "noise_multiplier": 2.2}, "privacy": {"epsilons": [1.0]}},
     "privacy.epsilons", "at least 4."),
    ("dp-agem", {"params": {**KEPT, "head": "per-task"}}, "params.head", "prior"),
    ("dp-agem", {"params": {**KEPT, "clip_norm": 0}}, "params.clip_norm", "0.0"),
    ("dp-agem", {"params": {"memory_epsilon_cap": 0}}, "params.memory_epsilon_cap", "0"),
    ("independent-laplace", {"privacy": {"adjacency": "add-remove"}}, "privacy.adjacency", "replace"),
    ("independent-laplace", {"params": {"project_to": 65}}, "params.project_to", "64"),
    ("independent-laplace", {"params": {"project_to": 0}, "data": {"backbone": "vit-cifar100"}},
     "params.project_to", "1"),
    ("independent-laplace", {"params": {"project_to": -1}}, "params.project_to", "0"),
    ("independent-laplace", {"params": {"clip": 0}}, "params.clip", "0"),
    ("independent-laplace", {"params": {"label_share": 1}}, "params.label_share", "0.99"),
    ("dp-agem", {"labels": "data", "public_labels": ["1"]}, "public_labels", "prior"),
])  # fmt: skip
def test_what_cannot_work_is_refused_first(method: str, changes: dict[str, object], field: str, named: str) -> None:
    raw = {"method": method, "data": {"dataset": "digits", "backbone": "pixels"}, "seeds": [0], **BASES[method], **changes}
    refused = refusal_of(before_any_task, raw)
    assert refused.field == field
    assert named in refused.allowed
    assert "\n" not in str(refused)


# Labels that compete: those of the lists so far, or, where each task has an output of its own, those of the task.


FEW_STEPS: dict[str, dict[str, object]] = {
    "agem": {"batch_size": 8}, "joint-network": {"batch_size": 8, "epochs": 1}, "l2dp-ml": {"batch_size": 8, "epochs": 1},
    "dp-agem": {"epochs": 1, "sample_rate": 0.5, "memory_size": 8, "replay_rate": 0.5}, "peft-ensemble": {"epochs": 1},
}  # fmt: skip
LISTS = [("prior-const", "shared"), ("prior", "shared"), ("prior", "per-task")]


@pytest.mark.parametrize(("method", "labels", "head"), [
    *((method, *which) for method in FEW_STEPS if method != "peft-ensemble" for which in LISTS),
    *(("peft-ensemble", labels, None) for labels in ("prior-const", "prior", "data")),
])  # fmt: skip
def test_labels_that_do_not_compete_have_no_score(method: str, labels: str, head: str | None) -> None:
    run = checks.parse({
        "method": method, "params": {**FEW_STEPS[method], **({} if head is None else {"head": head})}, "labels": labels,
        "privacy": {"epsilons": [math.inf if catalog.card(method).guarantee == "none" else 4.0]},
        "scenario": {"kind": "split", "tasks": 2}, "seeds": [0],
    })  # fmt: skip
    rows, places = np.random.default_rng(0).uniform(0, 1, (32, 36)).astype(np.float32), np.arange(32)
    parts = [Examples(rows, place % 2 + place // 16 * 2, rows=place) for place in (places[:16], places[16:])]
    tasks = [Task(index, f"task {index + 1}", one, one, (2 * index, 2 * index + 1)) for index, one in enumerate(parts)]
    known = training.public_context(36, 4, 32, 2, form=Form((6, 6, 1), 0.0, 1.0))
    own = np.eye(2, dtype=bool).repeat(2, axis=1)

    def competing(learner: Learner, of: list[Task]) -> list[list[bool]]:
        scores = [next(iter(learner.scores(0, task).values())) for task in of]
        return [np.isfinite(one).all(axis=(0, 1)).tolist() for one in scores]

    if method != "joint-network":  # which is there after the last task
        of = tasks[:1] if head == "per-task" else tasks
        early = [True] * 4 if labels == "prior-const" else own[0].tolist()
        assert competing(training.learned(run, tasks[:1], known)[0], of) == [early] * len(of)
    late = own.tolist() if head == "per-task" else [[True] * 4] * 2
    assert competing(training.learned(run, tasks, known)[0], tasks) == late


# What the public network can do untrained: found by meaning, answered, guessed, or nothing; never by a training example.


CLASSES = ("sports_news", "weather_report", "stock_market")
TEXTS = ("the sports news of today", "a weather report", "the stock market fell", "news of sports")
LABELS = (0, 1, 2, 1)
pytestmark = pytest.mark.usefixtures("home")


def read_spec(**changes: object) -> RunSpec:
    data = {"dataset": "ag_news", "backbone": "hashed-text"}
    return checks.parse({"method": "cosine", "data": data, "scenario": {"kind": "split", "tasks": 1}, **changes})


def stream(*groups: list[int], task_ids: bool = False) -> TaskStream:
    """Tasks that test these texts, by number."""
    features = extractor.features("hashed-text", Texts(TEXTS), "cpu")
    table = Examples(features, np.array(LABELS, dtype=np.int64))
    none = Examples(np.zeros((0, features.shape[1]), np.float32), np.zeros(0, np.int64))
    tasks = []
    for k, group in enumerate(groups):
        prior = tuple(sorted({LABELS[row] for row in group}))
        tasks.append(Task(k, f"task {k}", none, table.take(np.array(group)), prior, k if task_ids else None))
    return TaskStream(tuple(tasks), CLASSES, "once")


def test_a_text_gets_the_label_whose_name_is_nearest() -> None:
    """Texts 0 to 2 share words with their own label's name, text 3 with another's."""
    known = references.before_training(read_spec(), [stream([0, 1, 2, 3])], (0, 1, 2), "cpu")
    assert (known.untrained, known.chance) == (pytest.approx(3 / 4), pytest.approx(2 / 4))


def test_only_labels_that_compete_can_be_nearest() -> None:
    """Text 3 is of label 1, and the name of label 0 is nearer. In a task of label 1 alone that name is no answer."""
    given = references.before_training(read_spec(), [stream([1, 3], task_ids=True)], (0, 1, 2), "cpu")
    assert given.untrained == pytest.approx(1.0)
    public = references.before_training(read_spec(), [stream([0, 1, 3])], (1, 2), "cpu")
    assert public.untrained <= 2 / 3, "text 0 has no label that may be answered"


def test_tasks_count_the_same_and_so_do_seeds() -> None:
    known = references.before_training(read_spec(), [stream([0, 1, 2], [3]), stream([0, 3], [1, 2])], (0, 1, 2), "cpu")
    assert known.untrained == pytest.approx(((1 + 0) / 2 + (1 / 2 + 1) / 2) / 2)


@pytest.mark.parametrize(("backbone", "knows"), [("pixels", False), ("convnext-cifar100", True), ("vit-cifar100", True)])
def test_a_network_of_pictures_can_only_guess_and_without_a_network_there_is_nothing(backbone: str, knows: bool) -> None:
    asked = read_spec(data={"dataset": "digits", "backbone": backbone}, scenario={"kind": "split", "tasks": 5})
    known = references.before_training(asked, [scenarios.tested(asked.data, asked.scenario, 0, None)], range(10), "cpu")
    assert known.untrained == (known.chance if knows else None)
    assert known == references.of_labels(checks.parse({**asdict(asked), "seeds": [0]})), "from label columns, the same"


def test_old_runs_on_data_that_are_gone_get_what_the_card_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scenarios, "tested", lambda *_: None)
    assert references.of_labels(read_spec()).chance == pytest.approx(1 / 4)
    pixels = read_spec(data={"dataset": "digits", "backbone": "pixels"})
    assert references.of_labels(replace(pixels, data=replace(read_spec().data, dataset="own:gone"))) == References(0.0)


def test_a_language_model_answers_before_it_has_learned_anything_and_says_so_after_its_first_task() -> None:
    asked = checks.parse({
        "method": "lm-seqft", "params": {"length": 24, "epochs": 1, "batch_size": 6, "lora_rank": 2, "learning_rate": 0.1},
        "data": {"dataset": "pii-synthetic", "backbone": "lm-tiny", "train_per_class": 4, "test_per_class": 6},
        "scenario": {"kind": "source-incremental", "order": ["restaurants"]}, "labels": "prior", "seeds": [0, 1],
        "privacy": {"epsilons": [math.inf, 8.0], "delta": 1e-3},
    })  # fmt: skip
    said = list(engine.run(asked))
    first, second = of_kind(said, References)
    assert first.untrained is None
    assert (first.chance, first.n_tested) == (second.chance, second.n_tested)
    places = [place for place, event in enumerate(said) if isinstance(event, (TaskLearned, References))]
    assert [type(said[place]).__name__ for place in places[:3]] == ["References", "TaskLearned", "References"]
    assert sum(isinstance(event, CellFinished) for event in said) == 4
    assert 0 <= second.untrained <= 1


@pytest.mark.parametrize("method", ["lm-seqft", "lm-mtl", "lm-olora", "pecl"])
def test_the_untrained_answers_are_the_frozen_models_whatever_another_learner_has_learned(method: str) -> None:
    """A learner of its own answers: one that was trained meanwhile shares its frozen weights, not its adapters."""
    asked, tasks = pecl_small.spec(method, epsilon=float("inf"), learning_rate=0.05), pecl_small.stream()
    (cell,) = asked.cells()
    before = catalog.maker(method)(asked, [cell], pecl_small.known()).untrained(tasks[0])
    learner, *_ = pecl_small.trained(asked, tasks)
    assert np.array_equal(before, catalog.maker(method)(asked, [cell], pecl_small.known()).untrained(tasks[0]))
    learned = learner.scores(0, tasks[0])["rank"][0]
    assert not np.array_equal(before, learned), "nothing was learned, so the test shows nothing"
    assert np.isfinite(before[:, list(tasks[0].prior)]).all()
