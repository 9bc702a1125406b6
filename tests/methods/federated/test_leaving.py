"""Through every method of clients that says "proved": one client's leaving changes nothing that the others send."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module

import numpy as np
import pytest

from dpcl_core.methods import catalog
from dpcl_core.methods.federated import local_list
from dpcl_core.methods.federated.lists import Lists
from dpcl_core.privacy.mechanisms import ClientVectors
from dpcl_core.spec import fields_of
from tests.support import clients

# The published modes and those without noise promise no bound: pooled clustering may move what others send.
METHODS = [name for name, card in catalog.CARDS.items() if card.scenarios == ("federated",) and card.guarantee == "proved"]
MEET = ("client_release", "published_release", "client_training", "fedcil_dp")  # modules where clients' vectors meet
SMALL = {
    "rounds": 1, "local_steps": 2, "hidden": 4, "batch_size": 4, "dimensions": 4, "anchors": 20, "restarts": 1,
    "steps": 1, "samples": 2, "noise_size": 2, "consolidation_steps": 1, "participation": 1.0,
}  # fmt: skip
OF, PUBLIC = clients.stream(per_class=20, classes_per_task=2)
GONE = 3


class Heard(Exception):
    """Ends a run once clients have sent something."""


def sent(method: str, of: object, patch: pytest.MonkeyPatch) -> list[np.ndarray]:
    """What the clients' vectors are when they first meet, under seeded draws: [..., clients, D] of each part."""
    heard: list[np.ndarray] = []

    def hears(parts: list[ClientVectors], *_: object, **__: object) -> None:
        heard.extend(np.array(part.vectors) for part in parts)
        raise Heard

    def hears_lists(lists: Lists, *_: object, **__: object) -> None:
        heard.extend(part.reshape(len(lists), -1) for part in (lists.weights, lists.means, lists.targets))
        raise Heard

    patch.setattr(local_list, "noisy_lists", hears_lists)
    for module in MEET:
        patch.setattr(import_module(f"dpcl_core.methods.federated.{module}"), "noisy_client_sums", hears)
    params = {name: value for name, value in SMALL.items() if name in fields_of(catalog.card(method).params)}
    with pytest.raises(Heard):
        clients.run(clients.spec(method, params=params, privacy={"epsilons": [4.0], "noise": "seeded"}), of, PUBLIC)  # type: ignore[arg-type]
    return heard


@pytest.mark.parametrize("method", METHODS)
def test_a_client_that_leaves_changes_nothing_that_others_send(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tasks = []
    for task in OF.tasks:
        assert task.train.users is not None
        tasks.append(replace(task, train=task.train.take(np.flatnonzero(task.train.users != GONE))))
    before, after = (sent(method, of, monkeypatch) for of in (OF, replace(OF, tasks=tuple(tasks))))
    assert len(before) == len(after) > 0
    for one, other in zip(before, after, strict=True):
        others = np.delete(one, GONE, axis=-2)
        assert others.any()
        np.testing.assert_array_equal(other if other.shape == others.shape else np.delete(other, GONE, axis=-2), others)
