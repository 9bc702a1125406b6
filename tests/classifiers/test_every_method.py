"""What a run keeps of every method classifies as its learner did, and is nothing that had not left the learner."""

import base64
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from safetensors import numpy as safetensors

from dpcl_core import engine
from dpcl_core.classifiers import predict
from dpcl_core.events import Classifier
from dpcl_core.methods import catalog
from dpcl_core.methods.common.classifier import PUBLIC, Step, masked
from dpcl_core.methods.common.method import Learner
from dpcl_core.scenarios.stream import Task
from tests.support.tiers import of_methods
from tests.support.watching import watched
from tests.test_neighbours import ALSO as NEW
from tests.test_neighbours import METHODS, D, lies, spec

_STEPS = {"epochs": 1, "sample_rate": 0.5}
# Settings under which a method's rule reads other arrays.
_PICTURES = {"dataset": "digits", "backbone": "vit-cifar100", "train_per_class": 3, "test_per_class": 2}
_ADAPTED = {"labels": "prior-const", "data": _PICTURES}
ALSO = {
    "film, all members": ("peft-ensemble", {**_ADAPTED, "params": {**_STEPS, "adapter": "film", "rule": "entropy"}}),
    "lora": ("naive", {**_ADAPTED, "params": {**_STEPS, "adapter": "lora"}}),
    "statistics of batches": ("l2dp-ml", {"params": {"batch_size": 20, "epochs": 1, "first_layer": "batch-norm"}}),
    "task given": ("agem", {**METHODS["agem"][1], "params": {"batch_size": 20, "epochs": 1, "head": "per-task"}}),
    "projected": ("independent-laplace", {"params": {"steps": 2, "project_to": 8}, "privacy": {"adjacency": "replace"}}),
    "a network's features": ("dp-coeff-memory", {**_ADAPTED, "data": {**_PICTURES, "backbone": "convnext-cifar100"}}),
}
_OPENED = ("adapters on texts", "a network of one's own", *(name for name in NEW if name.startswith("one class")))
ALSO |= {name: (NEW[name][0], {**NEW[name][2], "labels": "prior-const"}) for name in _OPENED}
# Noise remembered over tasks, and releases shrunk before they are added.
OF_STREAMS = {
    f"{method}, {value}": (
        method, {**METHODS[method][1], "labels": "prior-const", "params": {**METHODS[method][1]["params"], setting: value}},
    )
    for method, setting, value in (
        ("label-means", "prediction", "added"), ("label-means", "prediction", "by-stream"),
        ("cslr-server-head", "prediction", "added"), ("cslr-server-head", "prediction", "by-stream"),
        ("label-means", "noise_over_tasks", "remembered"),
    )
}  # fmt: skip
Arrays = Mapping[str, NDArray[np.generic]]


class Watched:
    """A method's learner, with the tasks that it was given and copies of what it released after each."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.learner: Learner | None = None
        self.tasks: list[Task] = []
        self.released: dict[int, Arrays] = {}
        real = catalog.maker

        def made(name: str, *arguments: object) -> Learner:
            self.learner = learner = real(name)(*arguments)  # type: ignore[arg-type]
            watched(patch, learner, "learn", lambda steps, given: self.tasks.append(given[0][0]))
            watched(patch, learner, "released", self.copy)
            return learner

        patch.setattr(catalog, "maker", lambda name: partial(made, name))

    def copy(self, found: Arrays, given: tuple[object, ...]) -> None:
        self.released[self.tasks[-1].index] = {name: np.array(array) for name, array in found.items()}


@pytest.mark.parametrize("name", of_methods([*METHODS, *ALSO, *OF_STREAMS], also=[*_OPENED, *OF_STREAMS]))
def test_a_kept_classifier_is_what_was_released_and_classifies_as_the_learner(
    name: str, data_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    also = {**ALSO, **OF_STREAMS}
    method, changes = also[name] if name in also else (name, METHODS[name][1])
    door = NEW[name][1] if name in NEW else METHODS[method][0]
    monkeypatch.setenv("DPCL_NETWORKS", "tests.support.own_networks")
    lies(door, D, tmp_path, monkeypatch)
    asked, seen = spec(method, changes, door[0]), Watched(monkeypatch)
    monkeypatch.setattr(engine, "_with_untrained", lambda events, *_: events)  # a second learner, which is asked, not kept
    kept = [event for event in engine.run(asked) if isinstance(event, Classifier)]
    if catalog.card(method).no_classifier(asked.params):
        assert not kept
        return
    assert kept, "it has a rule, or one sentence that says why not"
    assert kept[-1].task == len(seen.tasks) - 1
    steps = []
    for event in kept:
        arrays = safetensors.load(base64.b64decode(event.content))
        for name, array in arrays.items():
            if not name.startswith(PUBLIC):
                np.testing.assert_array_equal(array, seen.released[event.task][name])
        steps.append(Step(arrays, event.classes, event.competing, event.facts))
    last, learner = kept[-1], seen.learner
    assert learner is not None
    for place, task in enumerate(seen.tasks):
        (expected,) = next(iter(learner.scores(0, task).values()))
        if task.task_id is not None:  # an example comes with its task
            expected = masked(expected, task.prior)
        names = last.by_task[place] if last.by_task else last.competing
        chosen = [*(steps if last.uses_all else steps[-1:])]
        chosen[-1] = Step(chosen[-1].arrays, last.classes, names, last.facts, place)
        found = predict.rule(last.rule)(chosen, task.test.inputs)
        of_learner = expected[:, [last.classes.index(name) for name in names]]
        assert found.shape == of_learner.shape
        # Sums may be added in another order, for which single precision leaves a hundred thousandth.
        np.testing.assert_allclose(found, of_learner, rtol=1e-4, atol=1e-4)
        others = np.delete(expected, [last.classes.index(name) for name in names], axis=1)
        assert not np.isfinite(others).any(), "what the learner can say, the classifier can say"
