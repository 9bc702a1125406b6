"""Audits of methods on data and streams that were opened to them later, and faults that these must call errors.

The attacker plants examples of his own: what of the run is played are its method, stream, lists and adapters.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from dpcl_core import combinations
from dpcl_core.attacks import catalog, feature_games, federated_games, language_games, lifelong_games, play
from dpcl_core.attacks.play import Game
from dpcl_core.errors import BadInput
from dpcl_core.methods import catalog as methods
from tests.attacks.asked import asked
from tests.attacks.test_learner_audits import (
    FEATURES,
    FEDERATED,
    LANGUAGE,
    LIFELONG,
    Fault,
    Make,
    longer_adapters,
    scaled,
    slow,
)
from tests.test_any_data import KINDS, QUICK, network

PHOTOGRAPHS, TABLES = {"dataset": "cifar10", "backbone": "lite0"}, {"dataset": "own:table", "backbone": "pixels"}
NEWS, READ = {"dataset": "ag_news", "backbone": "hashed-text"}, {"dataset": "ag_news", "backbone": "lm-tiny"}
CLASSES, BLURRED = {"kind": "class-incremental", "tasks": 2}, {"kind": "i-blurry", "tasks": 2}
ONE_OF_ALL = {"kind": "one-vs-rest", "tasks": 2}
CLIENTS = {"clients": 20}


def clients(epsilon: float, data: dict[str, str], scenario: dict[str, Any], adjacency: str = "add-remove") -> Game:
    spec = asked("label-means", epsilon, adjacency=adjacency, data=data, scenario={**scenario, **CLIENTS}, labels="prior")
    return federated_games.release_game(spec, epsilon, is_natural=False)


def rounds(epsilon: float, data: dict[str, str], scenario: dict[str, Any]) -> Game:
    params = {"rounds": 4, "participation": 1.0}
    spec = asked("dp-fedavg", epsilon, data=data, scenario={**scenario, **CLIENTS}, params=params, labels="prior")
    return federated_games.round_game(spec, epsilon)


def head(epsilon: float, scenario: dict[str, Any]) -> Game:
    return lifelong_games.distinct_label_game(asked("dp-agem", epsilon, data=NEWS, scenario=scenario), epsilon)


def sums(epsilon: float) -> Game:
    spec = asked("dp-coeff-memory", epsilon, data=NEWS, scenario=CLASSES, labels="prior")
    return lifelong_games.sum_game(spec, epsilon, is_natural=False)


def language(epsilon: float, scenario: dict[str, Any]) -> Game:
    return language_games.distinct_answer_game(asked("lm-seqft", epsilon, data=READ, scenario=scenario, labels="prior"))


def adapters(epsilon: float, kind: str, data: dict[str, str] = READ, method: str = "peft-ensemble", **params: Any) -> Game:
    params = {"adapter": kind, "lora_rank": 1, **params}
    return feature_games.adapter_worst_case_game(asked(method, epsilon, data=data, params=params, labels="prior"))


# A game, its budget, learners on each side, and more than what is proved (-1: too few persons to prove anything).
FOUND: list[tuple[Make, float, int, float]] = [
    (partial(clients, data=PHOTOGRAPHS, scenario=CLASSES), 1.0, 20, 0.2),
    (partial(head, scenario=CLASSES), 8.0, 4, 0.5),
    (sums, 8.0, 300, 1.5),
    (partial(language, scenario=BLURRED), 8.0, 4, -1.0),
    (partial(language, scenario=ONE_OF_ALL), 8.0, 4, -1.0),
    (partial(adapters, kind="lora"), 8.0, 6, -1.0),
]
FOUND_SLOWLY: list[tuple[Make, float, int, float]] = [
    (partial(clients, data=TABLES, scenario=BLURRED, adjacency="replace"), 1.0, 20, 0.2),
    (partial(clients, data=TABLES, scenario=ONE_OF_ALL), 1.0, 20, 0.2),
    (partial(head, scenario=BLURRED), 8.0, 4, 0.5),
    (partial(head, scenario=ONE_OF_ALL), 8.0, 4, 0.5),
]


@pytest.mark.usefixtures("fixed_noise")
@pytest.mark.parametrize(("make", "epsilon", "n", "least"), [*FOUND, *slow(FOUND_SLOWLY)])
def test_persons_are_found_to_a_part_and_no_more_than_is_accounted(make: Make, epsilon: float, n: int, least: float) -> None:
    found = make(epsilon).audited(epsilon, n)
    assert 0.9 * epsilon <= found.accounted <= 1.001 * epsilon
    assert max(0, least) <= found.lower_bound <= found.accounted
    assert found.lower_bound > least
    assert not found.exceeds


CAUGHT: list[Fault] = [
    (scaled(f"{FEDERATED}.release_schedule", 0.2), partial(clients, data=PHOTOGRAPHS, scenario=CLASSES), 1.0, 3, 1.0),
    (scaled(f"{LIFELONG}.dp_agem", 0.3), partial(head, scenario=CLASSES), 1.0, 4, 1.0),
    (scaled(f"{LIFELONG}.quadratic", 0.4), sums, 8.0, 150, 8.0),
    (scaled(LANGUAGE, 0.1), partial(language, scenario=BLURRED), 1.0, 16, 1.0),
    (scaled(LANGUAGE, 0.1), partial(language, scenario=ONE_OF_ALL), 1.0, 16, 1.0),
    (scaled(f"{FEATURES}.trainer", 0.1), partial(adapters, kind="lora"), 1.0, 8, 1.0),
    (longer_adapters, partial(adapters, kind="lora", clip_norm=0.05), 1.0, 6, 1.0),
]
ALL = partial(adapters, kind="all", data={"dataset": "cifar10", "backbone": "vit-cifar100"}, method="naive")
CAUGHT_SLOWLY: list[Fault] = [
    (scaled(f"{FEATURES}.trainer", 0.05), ALL, 1.0, 8, 1.0),
    (scaled(f"{FEDERATED}.client_training", 0.1), partial(rounds, data=TABLES, scenario=CLASSES), 1.0, 16, 1.0),
]


@pytest.mark.usefixtures("fixed_noise")
@pytest.mark.parametrize(("fault", "make", "epsilon", "n", "least"), [*CAUGHT, *slow(CAUGHT_SLOWLY)])
def test_a_fault_is_called_an_error(fault, make, epsilon, n, least, monkeypatch):
    """The attacker goes by the honest learner: the game is made before the fault is."""
    game = make(epsilon)
    fault(monkeypatch)
    found = game.audited(epsilon, n)
    assert found.lower_bound > least
    assert found.exceeds
    assert 0.9 * epsilon < found.accounted < 1.001 * epsilon, "the ledger knows nothing of it"


def test_whatever_data_a_method_takes_it_has_an_audit_or_says_why_not() -> None:
    """Through its learner, in one training, or a sentence: which of them follows from the method, not from the data."""
    n_audits = 0
    for family, of_family in QUICK.items():
        for kind, like in KINDS.items():
            for method in of_family:
                card, data = methods.card(method), combinations._card(like)
                if not any(not combinations.why_not(data, card, one) for one in combinations.scenarios.CARDS.values()):
                    continue
                spec = asked(method, 4.0, data={"dataset": like, "backbone": network(kind, method)}, scenario=CLASSES)
                try:
                    catalog.auditor(method)
                    n_audits += 1
                except BadInput:
                    assert play.refusal(spec), (family, kind, method)
    assert n_audits >= 20
