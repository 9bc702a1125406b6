"""A run on clients' data, whole: what a learner is told, what its guarantee says, and what is refused before it starts."""

import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import dp_accounting as dp
import numpy as np
import pytest
from numpy.typing import NDArray
from threadpoolctl import threadpool_info, threadpool_limits

from dpcl_core import checks, engine, export
from dpcl_core.events import CellFinished, Event, Note, Progress, Started, TaskLearned
from dpcl_core.learning import Group
from dpcl_core.methods import catalog as methods
from dpcl_core.methods.common.method import PublicContext
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.scenarios.stream import Task
from dpcl_core.spec import Cell, RunSpec
from tests.data.making import write_both
from tests.support.asserting import refusal_of, refuses

TOPICS = ("rivers run deep", "goals were scored", "shares fell again", "atoms were split")
FEDAVG: dict[str, object] = {"method": "dp-fedavg"}  # of clients who may hold anything
TINY = {"dataset": "pii-synthetic-tiny", "backbone": "hashed-text"}
TOLD: list[PublicContext] = []
SEEN: list[tuple[str, NDArray[np.int64], tuple[int, ...]]] = []


class Counting:
    """Releases nothing of worth, and predicts the first label that it may; before it has learned a task as well."""

    def __init__(self, spec: RunSpec, cells: Sequence[Cell], known: PublicContext) -> None:
        self.cells, self.known = cells, known
        TOLD.append(known)

    def learn(self, tasks: Mapping[int, Task], ledgers: Mapping[Cell, Ledger]) -> Iterator[Progress]:
        for task in tasks.values():
            SEEN.append((task.name, task.train.users, task.train.inputs.shape))
            for ledger in ledgers.values():
                ledger.spend(dp.GaussianDpEvent(20.0), task=task.index, what="counts")
        yield from ()

    def scores(self, seed: int, task: Task) -> Mapping[str, NDArray[np.floating]]:
        first = np.zeros((len(self.cells), len(task.test), self.known.n_classes))
        first[:, :, task.prior[0] if task.task_id is not None else 0] = 1
        return {"argmax": first}


@pytest.fixture(autouse=True)
def method(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The method `counting`, and forty short texts on each of four topics, from two domains in turn."""
    module = ModuleType("counting_of_this_test")
    module.make_learner = Counting  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    card = replace(
        methods.card("cosine"), name="counting", module=module.__name__, planned="", scenarios=("federated",),
        needs_anchors=True, refuses=lambda spec, facts: None,
    )  # fmt: skip
    monkeypatch.setattr(methods, "CARDS", {**methods.CARDS, "counting": card})
    TOLD.clear()
    SEEN.clear()
    labels = [topic for topic in range(4) for _ in range(40)]
    texts = [f"{TOPICS[topic]} {place}" for place, topic in enumerate(labels)]
    domains = ["a" if place % 2 else "b" for place in range(len(labels))]
    write_both(data_dir / "mine", text=texts, label=labels, domain=domains)


def run(**scenario: object) -> list[Event]:
    return list(engine.run(spec(scenario)))


def spec(scenario: dict[str, object], **more: object) -> RunSpec:
    raw = {"method": "counting", "data": {"dataset": "own:mine", "backbone": "hashed-text"}, "seeds": [13]}
    privacy = {"epsilons": [1.0], "noise": "seeded"}
    return checks.parse({**raw, "scenario": {"kind": "federated", "clients": 5, **scenario}, "privacy": privacy, **more})


def test_a_learner_is_told_of_clients_and_public_sentences() -> None:
    said = run()
    (known,) = TOLD
    assert (known.n_users, known.n_people, known.recurrence, known.n_classes) == (5, 640, "every", 4), "nominal"
    assert known.anchors.shape == (2_000, 384)
    assert [(name, shape) for name, _, shape in SEEN] == [(str(topic), (40, 384)) for topic in range(4)]
    assert np.bincount(np.concatenate([users for _, users, _ in SEEN]), minlength=5).min() >= 10
    notes = [event.text for event in said if isinstance(event, Note)]
    assert "Public sentences: 2,000 invented texts of this project's public corpus." in notes


def test_the_guarantee_is_about_clients() -> None:
    said = next(event for event in run() if isinstance(event, CellFinished))
    assert said.guarantee.unit == "one client, with everything that it holds"
    assert "a client may be in every task" in said.guarantee.composition
    assert "the number of clients is public, and so is the network that computes the features" in said.guarantee.assumptions
    assert any(sentence.startswith("Only 5 clients") for sentence in said.guarantee.caveats)
    assert not any("only a single text" in sentence for sentence in said.guarantee.not_covered)


@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="needs two cores")
def test_short_lists_are_multiplied_in_one_thread_and_only_during_the_run() -> None:
    """Two threads that share such a product wait for each other for most of the time."""
    with threadpool_limits(2):
        before, during = _n_threads(), set[int]()
        for event in engine.run(spec({})):
            if isinstance(event, TaskLearned):
                during |= _n_threads()
        assert (during, _n_threads(), before) == ({1}, before, {2})


def _n_threads() -> set[int]:
    return {library["num_threads"] for library in threadpool_info()}


def test_labels_of_one_vs_rest_are_the_stream_s_own() -> None:
    said = run(protocol="one-vs-rest", order=["2", "0"])
    (known,) = TOLD
    assert known.classes == ("not 2", "2", "not 0", "0")
    learned = [event for event in said if isinstance(event, TaskLearned)]
    assert [event.accuracy for event in learned] == [(0.5,), (0.5, 0.5)]
    assert [event.ahead for event in learned] == [0.5, None]
    finished = next(event for event in said if isinstance(event, CellFinished))
    assert finished.metrics["FWT"] == 0.0, "what was known before learning is what the untrained model knew"


def test_nothing_is_computed_for_sources_that_are_no_task() -> None:
    said = run(protocol="domain-incremental", order=["b"])
    started = next(event for event in said if isinstance(event, Started))
    assert (started.n_train, started.n_test, started.task_names) == (320, 80, ("b",)), "nominal: no training row is counted"
    assert {event.total for event in said if isinstance(event, Progress) and event.phase == "backbone"} == {400, 2_000}
    assert [shape for _, _, shape in SEEN] == [(80, 384)]


def test_forward_transfer_is_asked_for_in_federated_streams_alone() -> None:
    said = run(protocol="domain-incremental")
    assert [event.ahead is None for event in said if isinstance(event, TaskLearned)] == [False, True]
    (cell,) = export.result_document("r1", "done", spec({"protocol": "domain-incremental"}), said)["cells"]  # type: ignore[misc,union-attr]
    assert (cell["ahead"], cell["accuracy"]) == ([0.25, None], [[0.25, None], [0.25, 0.25]])  # type: ignore[index,call-overload]
    assert next(event for event in said if isinstance(event, CellFinished)).metrics["FWT"] == 0.0


def test_forward_transfer_can_be_recomputed_from_an_export() -> None:
    """From the document alone, of a head that learns: mean of what the next task gains over the untrained model."""
    from tests.support import clients

    of, public = clients.stream(per_class=40)
    asked = clients.spec("dp-fedavg", params={"rounds": 3, "local_steps": 5, "learning_rate": 0.1, "participation": 1.0})
    (cell,) = asked.cells()
    known = clients.known(of, public)
    run = checks.ResolvedRun.of(asked, known)
    said = list(Group(asked, run, [cell], {0: replace(of, looks_ahead=True)}, known).events())
    (told,) = json.loads(json.dumps(export.result_document("r1", "done", asked, said)["cells"]))
    gains = [late - early for late, early in zip(told["ahead"][:-1], told["untrained"][1:], strict=True)]
    assert len(told["untrained"]) == len(of.tasks)
    assert told["metrics"]["FWT"] == pytest.approx(sum(gains) / len(gains))
    assert len(set(told["ahead"][:-1]) | set(told["untrained"])) > 1, "something moved"


@pytest.mark.parametrize(("scenario", "more", "said"), [
    ({"protocol": "one-vs-rest"}, {"public_labels": ["9"]}, "public_labels = 9: must be classes of own:mine: not 0, 0"),
    ({}, {"privacy": {"epsilons": [1.0], "delta": 0.25}}, "must be below 1/5 = 0.2, one over the number of clients"),
    ({}, {"data": {"dataset": "own:mine", "backbone": "pixels"}}, "must be an encoder of texts for"),
    ({}, {"data": {"dataset": "digits", "backbone": "minilm"}, **FEDAVG}, "is an encoder, which reads texts only"),
    ({"clients": 0}, {}, "scenario.clients = 0: must be"),
    ({}, {"method": "label-means", "params": {"dimensions": 385}}, "dimensions = 385: must be at most 384, the"),
    ({}, {"method": "cslr-published", "params": {"dimensions": 385}}, "dimensions = 385: must be at most 384, the"),
    ({"alpha": 0}, {}, "scenario.alpha = 0: must be"),
    ({"clients": 200}, {"data": TINY, "method": "cslr-server-head"}, "scenario.clients = 200: must be at most"),
    (
        {"clients": 2},
        {"data": {"dataset": "digits", "train_per_class": 1}, **FEDAVG},
        "scenario.clients = 2: must have 10 training examples each, and there are 10 in all",
    ),
    ({"clients": 500}, {"data": {"dataset": "digits"}, **FEDAVG}, "scenario.clients = 500: must be at most 134"),
])
def test_what_cannot_be_is_refused_before_features_are_computed(scenario, more, said):
    assert said in str(refusal_of(lambda: checks.check_run(spec(scenario, **more))))


@pytest.mark.parametrize(("labels", "scenario", "public", "lacking"), [
    ("prior", {}, ["0", "1", "3"], "2"),
    ("prior", {"tasks": 2}, ["0", "1"], "task 2"),
    ("prior", {"protocol": "one-vs-rest", "order": ["2", "0"]}, ["not 2", "2"], "0"),
    ("prior-const", {"protocol": "one-vs-rest", "order": ["2", "0"]}, ["not 2", "2"], "0"),
    ("prior", {"tasks": 2}, ["0", "3"], None),
    ("prior", {"protocol": "domain-incremental"}, ["0"], None),
    ("prior-const", {}, ["0"], None),  # one list for all tasks: what others hold is dropped
])
def test_a_task_without_a_public_label_is_refused_before_features_are_computed(labels, scenario, public, lacking):
    asked = spec(scenario, labels=labels, public_labels=public)
    if lacking is None:
        checks.check_run(asked)
        return
    refused = refusal_of(checks.check_run, asked)
    assert refused.field == "public_labels"
    assert refused.allowed == f"must name a label of every task: {lacking} would have none"


def test_tagged_words_need_tasks_that_keep_sentences_whole(tmp_path: Path) -> None:
    words, tags = [["Ada", "slept"], ["Rome", "grew"]] * 60, [["B-PER", "O"], ["B-LOC", "O"]] * 60
    write_both(tmp_path / "data" / "named", tokens=words, tags=tags, domain=["a", "b"] * 60)
    data = {"dataset": "own:named", "backbone": "hashed-text"}
    refuses(r"^scenario\.protocol = class-incremental: must be domain-incremental", checks.check_run, spec({}, data=data))
    found = list(engine.run(spec({"protocol": "domain-incremental"}, data=data)))
    learned = [event for event in found if isinstance(event, TaskLearned)]
    assert [event.accuracy for event in learned] == [(0.0,), (0.0, 0.0)], "no entity told: F1 is 0, accuracy one half"
    assert any("micro-F1 of whole names" in event.text for event in found if isinstance(event, Note))
    (known,) = TOLD
    assert known.anchors.shape == (2_000, 384)
