"""What the public network can do untrained: found by meaning, answered, guessed, or nothing; never by a training example."""

from __future__ import annotations

from dataclasses import asdict, replace

import numpy as np
import pytest

from dpcl_core import checks, engine
from dpcl_core.backbones import extractor
from dpcl_core.data.texts import Texts
from dpcl_core.events import CellFinished, References, TaskLearned, of_kind
from dpcl_core.methods import catalog as methods
from dpcl_core.methods import references
from dpcl_core.scenarios import catalog
from dpcl_core.scenarios.stream import Examples, Task, TaskStream
from dpcl_core.spec import RunSpec
from tests.methods import pecl_small

CLASSES = ("sports_news", "weather_report", "stock_market")
TEXTS = ("the sports news of today", "a weather report", "the stock market fell", "news of sports")
LABELS = (0, 1, 2, 1)
pytestmark = pytest.mark.usefixtures("home")


def spec(**changes: object) -> RunSpec:
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
    known = references.before_training(spec(), [stream([0, 1, 2, 3])], (0, 1, 2), "cpu")
    assert known.untrained == pytest.approx(3 / 4)
    assert known.chance == pytest.approx(2 / 4)


def test_only_labels_that_compete_can_be_nearest() -> None:
    """Text 3 is of label 1, and the name of label 0 is nearer. In a task of label 1 alone that name is no answer."""
    given = references.before_training(spec(), [stream([1, 3], task_ids=True)], (0, 1, 2), "cpu")
    assert given.untrained == pytest.approx(1.0)
    public = references.before_training(spec(), [stream([0, 1, 3])], (1, 2), "cpu")
    assert public.untrained <= 2 / 3, "text 0 has no label that may be answered"


def test_tasks_count_the_same_and_so_do_seeds() -> None:
    streams = [stream([0, 1, 2], [3]), stream([0, 3], [1, 2])]
    known = references.before_training(spec(), streams, (0, 1, 2), "cpu")
    assert known.untrained == pytest.approx(((1 + 0) / 2 + (1 / 2 + 1) / 2) / 2)


@pytest.mark.parametrize(("backbone", "knows"), [("pixels", False), ("convnext-cifar100", True), ("vit-cifar100", True)])
def test_a_network_of_pictures_can_only_guess_and_without_a_network_there_is_nothing(backbone: str, knows: bool) -> None:
    asked = spec(data={"dataset": "digits", "backbone": backbone}, scenario={"kind": "split", "tasks": 5})
    opened = catalog.tested(asked.data, asked.scenario, 0, None)
    known = references.before_training(asked, [opened], range(10), "cpu")
    assert known.untrained == (known.chance if knows else None)
    assert known == references.of_labels(checks.parse({**asdict(asked), "seeds": [0]})), "from label columns, the same"


def test_old_runs_on_data_that_are_gone_get_what_the_card_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalog, "tested", lambda *_: None)
    assert references.of_labels(spec()).chance == pytest.approx(1 / 4)
    gone = replace(spec(data={"dataset": "digits", "backbone": "pixels"}), data=replace(spec().data, dataset="own:gone"))
    assert references.of_labels(gone) == References(0.0)


def test_a_language_model_answers_before_it_has_learned_anything_and_says_so_after_its_first_task() -> None:
    asked = checks.parse(
        {
            "method": "lm-seqft",
            "params": {"length": 24, "epochs": 1, "batch_size": 6, "lora_rank": 2, "learning_rate": 0.1},
            "data": {"dataset": "pii-synthetic", "backbone": "lm-tiny", "train_per_class": 4, "test_per_class": 6},
            "scenario": {"kind": "source-incremental", "order": ["restaurants"]},
            "labels": "prior",
            "privacy": {"epsilons": [float("inf"), 8.0], "delta": 1e-3},
            "seeds": [0, 1],
        }
    )
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
    before = methods.maker(method)(asked, [cell], pecl_small.known()).untrained(tasks[0])
    learner, *_ = pecl_small.trained(asked, tasks)
    assert np.array_equal(before, methods.maker(method)(asked, [cell], pecl_small.known()).untrained(tasks[0]))
    learned = learner.scores(0, tasks[0])["rank"][0]
    assert not np.array_equal(before, learned), "nothing was learned, so the test shows nothing"
    assert np.isfinite(before[:, list(tasks[0].prior)]).all()
