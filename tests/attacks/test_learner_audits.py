"""Audits through learners: they find something and prove no more than is accounted, and a fault in a learner is an error.

Also on data and streams that were opened to methods later: the attacker plants examples of his own, so what of such a run is
played are its method, stream, lists and adapters.
"""

import itertools
import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

from dpcl_core import cli, combinations, errors
from dpcl_core.attacks import catalog, feature_games, federated_games, language_games, lifelong_games, play
from dpcl_core.attacks.play import Game
from dpcl_core.methods import catalog as methods
from dpcl_core.methods.federated.client_release import WeightedSlots
from dpcl_core.privacy import audit_bounds, gaussian
from tests.attacks import mutants
from tests.attacks.asked import asked
from tests.support.asserting import refuses
from tests.support.tiers import quick
from tests.test_any_data import KINDS, QUICK, network

FEATURES, LIFELONG = "dpcl_core.methods.features", "dpcl_core.methods.lifelong"
LANGUAGE, FEDERATED = "dpcl_core.methods.language.adapted_model", "dpcl_core.methods.federated"
ADJACENCIES, PERMUTED = ("add-remove", "replace"), {"kind": "permuted", "tasks": 2}
TEXTS: dict[str, Any] = {
    "labels": "prior", "scenario": {"kind": "source-incremental"},
    "data": {"dataset": "pii-synthetic", "backbone": "lm-tiny"},
}  # fmt: skip
CLIENTS: dict[str, Any] = {"labels": "prior", "scenario": {"kind": "federated", "clients": 20}}
PHOTOGRAPHS, TABLES = {"dataset": "cifar10", "backbone": "lite0"}, {"dataset": "own:table", "backbone": "pixels"}
NEWS, READ = {"dataset": "ag_news", "backbone": "hashed-text"}, {"dataset": "ag_news", "backbone": "lm-tiny"}
VIT = {"dataset": "cifar10", "backbone": "vit-cifar100"}
SPLIT, CLASSES = {"kind": "split", "tasks": 5}, {"kind": "class-incremental", "tasks": 2}
BLURRED, ONE_OF_ALL = {"kind": "i-blurry", "tasks": 2}, {"kind": "one-vs-rest", "tasks": 2}
CLASSES_OF_20, BLURRED_OF_20, ONE_OF_ALL_OF_20 = ({**one, "clients": 20} for one in (CLASSES, BLURRED, ONE_OF_ALL))
DOMAINS_OF_20 = {"kind": "federated", "clients": 20, "protocol": "domain-incremental", "partition": "domain"}
Make = Callable[[float], Game]


def cosine(epsilon: float, *, is_natural: bool = False, **more: Any) -> Game:
    return feature_games.cosine_game(asked("cosine", epsilon, **more), epsilon, is_natural=is_natural)


def head(epsilon: float, method: str = "peft-ensemble", **more: Any) -> Game:
    return feature_games.head_worst_case_game(asked(method, epsilon, preset="digits-peft-head", **more), epsilon)


def adapter(epsilon: float, kind: str, *, method: str = "peft-ensemble", **params: Any) -> Game:
    data = {"dataset": "digits", "backbone": "vit-cifar100"}
    spec = asked(method, epsilon, preset="digits-peft-head", data=data, params={"adapter": kind, **params})
    return feature_games.adapter_worst_case_game(spec)


def text_adapter(epsilon: float, kind: str, *, method: str = "peft-ensemble", data: Any = READ, **params: Any) -> Game:
    params = {"adapter": kind, "lora_rank": 1, **params}
    return feature_games.adapter_worst_case_game(asked(method, epsilon, data=data, params=params, labels="prior"))


def agem(epsilon: float, **more: Any) -> Game:
    return lifelong_games.distinct_label_game(asked("dp-agem", epsilon, **{"scenario": SPLIT, **more}), epsilon)


def sums(epsilon: float, *, is_natural: bool = False, **more: Any) -> Game:
    spec = asked("dp-coeff-memory", epsilon, **{"data": {"backbone": "pixels"}, **more})
    return lifelong_games.sum_game(spec, epsilon, is_natural=is_natural)


def record(epsilon: float, **more: Any) -> Game:
    spec = asked("independent-laplace", epsilon, adjacency="replace", **more)
    return lifelong_games.record_game(spec, epsilon, is_natural=False)


def text(epsilon: float, method: str, **more: Any) -> Game:
    return language_games.distinct_answer_game(asked(method, epsilon, **{**TEXTS, **more}))


def copies(epsilon: float, method: str, *, is_natural: bool = False, **params: Any) -> Game:
    spec = asked(method, epsilon, adjacency="replace", params={"length": 16, **params}, **TEXTS)
    return language_games.copy_game(spec, epsilon, is_natural=is_natural)


def clients(epsilon: float, method: str = "label-means", *, is_natural: bool = False, **more: Any) -> Game:
    spec = asked(method, epsilon, **{"params": {}, **CLIENTS, **more})
    return federated_games.release_game(spec, epsilon, is_natural=is_natural)


def remembered(epsilon: float, method: str, **more: Any) -> Game:
    """Sums of a stream that remembers its noise; of clients each is in one task, as each belongs to one of its sources."""
    params = {"noise_over_tasks": "remembered"}
    if method == "cosine":
        return cosine(epsilon, labels="prior-const", params=params, **more)
    spec = asked(method, epsilon, labels="prior-const", params=params, scenario=DOMAINS_OF_20, **more)
    return federated_games.release_game(spec, epsilon, is_natural=False)


def rounds(epsilon: float, method: str, *, of: Any = CLIENTS, **params: Any) -> Game:
    return federated_games.round_game(asked(method, epsilon, params={"rounds": 4, **params}, **of), epsilon)


# A game, its budget, learners on each side, more than what is proved, and the accounted epsilon at least and at most. With
# the standard error of the separation mu at so many persons, known or measured, the limits lie two of them and more away.
FOUND: list[tuple[Make, float, int, float, tuple[float, float]]] = [
    (cosine, 1.0, 2000, 0.0, (0.9999, 1.0001)),  # mu = 0.268, error 0.034
    (partial(cosine, is_natural=True), 1.0, 2000, -1.0, (0.9999, 1.0001)),
    (head, 1.0, 12, 0.0, (0.95, 1.0001)),  # 2,700 persons a side: mu measured as 0.24, error 0.03
    (agem, 8.0, 4, 0.5, (7.99, 8.01)),
    (sums, 8.0, 300, 1.5, (7.999, 8.001)),  # mu = 1.6, error 0.1
    (partial(sums, is_natural=True), 8.0, 300, 1.5, (7.999, 8.001)),
    (record, 8.0, 400, 1.5, (7.9, 8.0)),
    (record, math.inf, 200, 2.5, (math.inf, math.inf)),
    (partial(text, method="lm-seqft"), 8.0, 4, -1.0, (7.99, 8.01)),  # 58 texts: mu about 1, error 0.2
    (partial(text, method="lm-er"), 8.0, 4, -1.0, (7.99, 8.01)),
    (partial(copies, method="pecl", mode="local"), 8.0, 4, 0.7, (7.9, 8.0)),  # 230 texts: mu about 1, error 0.1
    (partial(copies, method="lm-mtl", mechanism="fn"), 8.0, 4, 0.7, (7.9, 8.0)),
    (partial(copies, method="lm-mtl", mechanism="fn", is_natural=True), 8.0, 4, -1.0, (7.9, 8.0)),
    (partial(copies, method="lm-er", mechanism="fn", label_share=0.5), 8.0, 10, 0.3, (7.9, 8.0)),
    (clients, 1.0, 20, 0.2, (0.999, 1.001)),  # 1,800 a side: error 0.03
    (partial(clients, adjacency="replace"), 1.0, 20, 0.2, (0.999, 1.001)),
    (partial(clients, is_natural=True), 1.0, 30, -1.0, (0.999, 1.001)),
    (partial(remembered, method="cosine"), 4.0, 600, 2.5, (3.999, 4.0)),  # mu = 0.91, error 0.06
    (partial(remembered, method="label-means"), 4.0, 12, 2.5, (3.999, 4.0)),
    # On other data and streams; of less than nothing (-1.0) there are too few persons to prove anything.
    (partial(clients, data=PHOTOGRAPHS, scenario=CLASSES_OF_20), 1.0, 20, 0.2, (0.9, 1.001)),
    (partial(agem, data=NEWS, scenario=CLASSES), 8.0, 4, 0.5, (7.2, 8.008)),
    (partial(sums, data=NEWS, scenario=CLASSES, labels="prior"), 8.0, 300, 1.5, (7.2, 8.008)),
    (partial(text, method="lm-seqft", data=READ, scenario=BLURRED), 8.0, 4, -1.0, (7.2, 8.008)),
    (partial(text, method="lm-seqft", data=READ, scenario=ONE_OF_ALL), 8.0, 4, -1.0, (7.2, 8.008)),
    (partial(text_adapter, kind="lora"), 8.0, 6, -1.0, (7.2, 8.008)),
]
FOUND_SLOWLY: list[tuple[Make, float, int, float, tuple[float, float]]] = [
    (partial(cosine, adjacency="replace"), 1.0, 2000, 0.0, (0.9999, 1.0001)),
    (partial(cosine, scenario=PERMUTED), 1.0, 2000, 1.0, (2.3, 2.6)),  # in all five tasks: mu is sqrt 5 times as large
    (cosine, math.inf, 1000, 4.0, (math.inf, math.inf)),
    (partial(cosine, is_natural=True), math.inf, 1000, 4.0, (math.inf, math.inf)),
    *((partial(cosine, labels="data", adjacency=one), 1.0, 2000, 5.0, (math.inf, math.inf)) for one in ADJACENCIES),
    *((partial(cosine, labels="dp-learned", adjacency=one), 8.0, 1000, 0.8, (7.0, 8.0)) for one in ADJACENCIES),
    (partial(head, method="naive"), 1.0, 12, 0.0, (0.95, 1.0001)),
    (partial(head, method="non-cl"), 1.0, 12, 0.0, (0.95, 1.5)),  # all data again at every task
    (partial(head, adjacency="replace"), 8.0, 4, 0.5, (7.5, 8.01)),
    (partial(head, labels="dp-learned"), 8.0, 4, 0.5, (7.0, 8.01)),
    (partial(head, scenario=PERMUTED), 8.0, 4, 0.5, (7.5, 16.0)),
    (partial(agem, adjacency="replace"), 8.0, 4, 0.5, (7.99, 8.01)),
    (agem, math.inf, 2, 0.3, (math.inf, math.inf)),  # an eighth of them is in no batch
    (partial(sums, adjacency="replace"), 8.0, 300, 1.5, (7.999, 8.001)),
    (partial(sums, data={"backbone": "vit-cifar100"}), 8.0, 300, 1.5, (7.999, 8.001)),
    (partial(sums, adjacency="replace", data={"backbone": "vit-cifar100"}), 8.0, 300, 1.5, (7.999, 8.001)),
    (partial(sums, adjacency="replace", scenario={"kind": "permuted", "tasks": 4}), 8.0, 200, 1.5, (7.999, 8.001)),
    (partial(record, params={"project_to": 0}), 8.0, 400, 1.5, (7.9, 8.0)),
    (partial(record, params={"project_to": 0}), math.inf, 200, 2.5, (math.inf, math.inf)),
    (partial(record, scenario={"kind": "permuted", "tasks": 4}), 8.0, 400, 0.0, (7.0, 8.0)),
    *((partial(text, method=one), 8.0, 4, -1.0, (7.99, 8.01)) for one in ("lm-ewc", "lm-gem", "lm-olora", "lm-mtl", "pecl")),
    *((partial(clients, method=one), 1.0, 3, -1.0, (0.999, 1.001)) for one in ("cslr-server-head", "local-list")),
    (partial(clients, method="cslr-server-head", is_natural=True), 1.0, 30, -1.0, (0.999, 1.001)),
    (partial(clients, method="local-list", is_natural=True), 1.0, 30, -1.0, (0.999, 1.001)),
    (partial(rounds, method="dp-fedavg"), 8.0, 20, 1.0, (7.99, 8.01)),  # 290 clients: mu about 1.1, error 0.09
    (partial(rounds, method="fedcil-dp"), 8.0, 20, -1.0, (7.99, 8.01)),
    (partial(clients, data=TABLES, scenario=BLURRED_OF_20, adjacency="replace"), 1.0, 20, 0.2, (0.9, 1.001)),
    (partial(clients, data=TABLES, scenario=ONE_OF_ALL_OF_20), 1.0, 20, 0.2, (0.9, 1.001)),
    *((partial(agem, data=NEWS, scenario=one), 8.0, 4, 0.5, (7.2, 8.008)) for one in (BLURRED, ONE_OF_ALL)),
]


@pytest.mark.usefixtures("fixed_noise")
@pytest.mark.parametrize(("make", "epsilon", "n", "least", "accounted"), [*FOUND, *quick(0, FOUND_SLOWLY)])
def test_persons_are_found_to_a_part_and_no_more_than_is_accounted(
    make: Make, epsilon: float, n: int, least: float, accounted: tuple[float, float]
) -> None:
    game = make(epsilon)
    found = game.audited(epsilon, n)
    assert found.claimed == epsilon
    assert accounted[0] <= found.accounted <= accounted[1]
    assert max(0, least) <= found.lower_bound <= found.accounted
    assert found.lower_bound > least
    assert not found.exceeds
    assert found.through == "learner"
    if getattr(make, "func", make) in (cosine, head, agem, record):
        assert found.bound == ("gaussian" if game.is_gaussian and math.isfinite(found.accounted) else "counting")


@pytest.mark.usefixtures("fixed_noise")
@pytest.mark.parametrize(("make", "epsilon", "n"), [(cosine, 4.0, 600), (partial(remembered, method="cosine"), 4.0, 600),
                                                    (partial(remembered, method="label-means"), 4.0, 12)])  # fmt: skip
def test_who_watches_the_stream_sees_more_than_who_looks_at_the_newest_model(make: Make, epsilon: float, n: int) -> None:
    """At 600 persons a side and more an area's standard error is below 0.016: the last of five differs by four of them."""
    found = make(epsilon).audited(epsilon, n)
    assert len(found.over_tasks) == 5
    all_of, newest = np.array(found.over_tasks).T
    assert all_of[0] == pytest.approx(newest[0])
    assert all_of[-1] > newest[-1] + 0.05
    assert all_of[-1] > all_of[0] - 0.01
    assert all_of[-1] == pytest.approx(norm.cdf(1 / gaussian.sigma(epsilon, 1e-5) / math.sqrt(2)), abs=0.05)
    assert audit_bounds.Audited.read(found.document()) == found


@pytest.mark.usefixtures("fixed_noise")
def test_an_audit_says_what_it_measured_and_what_it_would_catch() -> None:
    found = clients(1.0).audited(1.0, 20)
    assert (found.trials, found.bound) == (1800, "gaussian")
    assert found.detects.startswith("noise × 0.")


BOTH = [
    (partial(asked, "naive", math.inf, preset="digits-peft-head", params={"epochs": 2}), feature_games, 100),
    (partial(asked, "lm-gem", 8.0, adjacency="replace", **TEXTS), language_games, 32),
]
BOTH_SLOWLY = [
    *(
        (
            partial(
                asked, method, 8.0, preset="digits-peft-head", adjacency="replace" if method == "naive" else "add-remove",
                data={"dataset": "digits", "backbone": "vit-cifar100"}, params={"adapter": kind},
            ), feature_games, 64,
        )
        for method, kind in (("peft-ensemble", "film"), ("naive", "lora"), ("non-cl", "film"))
    ),
    (partial(asked, "dp-agem", math.inf, scenario=SPLIT), lifelong_games, 100),
    (partial(asked, "dp-fedavg", 1.0, adjacency="replace", params={"rounds": 2}, **CLIENTS), federated_games, 100),
]  # fmt: skip


@pytest.mark.usefixtures("fixed_noise")
@pytest.mark.parametrize(("make", "games", "trials"), [*BOTH, *quick(0, BOTH_SLOWLY)])
def test_each_budget_has_a_worst_case_and_a_natural_person(
    make: Callable[[], Any], games: Any, trials: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(games, "_MOST_NATURAL", 8)
    worst, natural = catalog.auditor(make().method)(make(), trials)
    assert "real" not in worst.attack
    assert "real" in natural.attack
    assert all(0 <= one.lower_bound <= one.accounted and one.through == "learner" for one in (worst, natural))


def longer_vectors(patch: pytest.MonkeyPatch) -> None:
    """Statistics ten times as long as they should be, in a sum whose noise is for the length that is written down."""
    honest = WeightedSlots.vectors
    patch.setattr(WeightedSlots, "vectors", lambda self, slotted: 10 * honest(self, slotted))
    patch.setattr("dpcl_core.privacy.mechanisms.clipped_rows", lambda vectors, bound: np.asarray(vectors, np.float64))


def scaled(module: str, factor: float) -> Callable[[pytest.MonkeyPatch], None]:
    return lambda patch: mutants.scaled_noise(patch, module, factor)


def shared(module: str) -> Callable[[pytest.MonkeyPatch], None]:
    """One draw of noise for all tasks: the difference of two releases has none of it."""
    return lambda patch: mutants.noise_of_all_tasks(patch, module)


# A fault, the game that it is put into, its budget, learners on each side, and what is proved at least.
Fault = tuple[Callable[[pytest.MonkeyPatch], None], Make, float, int, float]
CAUGHT: list[Fault] = [
    (scaled(f"{LIFELONG}.quadratic", 0.4), sums, 8.0, 150, 8.0),
    (shared(f"{LIFELONG}.quadratic"), sums, 8.0, 150, 4.0),
    (scaled(LANGUAGE, 0.1), partial(copies, method="lm-er", mechanism="fn"), 1.0, 2, 1.0),
    (scaled(f"{FEDERATED}.release_schedule", 0.2), clients, 1.0, 3, 1.0),
    (longer_vectors, clients, 1.0, 3, 1.0),
    (longer_vectors, partial(clients, method="cslr-server-head"), 1.0, 3, 1.0),
    (shared(f"{FEDERATED}.release_schedule"), partial(clients, scenario=DOMAINS_OF_20), 1.0, 3, 1.0),
    (scaled(f"{FEDERATED}.release_schedule", 0.2), partial(clients, data=PHOTOGRAPHS, scenario=CLASSES_OF_20), 1.0, 3, 1.0),
    (scaled(f"{LIFELONG}.dp_agem", 0.3), partial(agem, data=NEWS, scenario=CLASSES), 1.0, 4, 1.0),
    (scaled(f"{LIFELONG}.quadratic", 0.4), partial(sums, data=NEWS, scenario=CLASSES, labels="prior"), 8.0, 150, 8.0),
    (scaled(LANGUAGE, 0.1), partial(text, method="lm-seqft", data=READ, scenario=BLURRED), 1.0, 16, 1.0),
    (scaled(LANGUAGE, 0.1), partial(text, method="lm-seqft", data=READ, scenario=ONE_OF_ALL), 1.0, 16, 1.0),
    (scaled(f"{FEATURES}.trainer", 0.1), partial(text_adapter, kind="lora"), 1.0, 8, 1.0),
    (mutants.longer_adapters, partial(text_adapter, kind="lora", clip_norm=0.05), 1.0, 6, 1.0),
]
TABLES_OF_20 = {"labels": "prior", "data": TABLES, "scenario": CLASSES_OF_20}
CAUGHT_SLOWLY: list[Fault] = [
    (scaled(f"{FEATURES}.cosine", 0.5), cosine, 1.0, 1200, 1.0),
    (scaled(f"{FEATURES}.cosine", 0.5), partial(cosine, is_natural=True), 1.0, 1200, 1.0),
    (shared(f"{FEATURES}.cosine"), cosine, 1.0, 500, 3.0),
    (shared(f"{FEATURES}.cosine"), partial(cosine, is_natural=True), 1.0, 500, 3.0),
    (scaled(f"{FEATURES}.trainer", 0.4), head, 1.0, 6, 1.0),
    (mutants.unclipped_heads, head, 1.0, 4, 1.0),
    (shared(f"{FEATURES}.trainer"), head, 8.0, 4, 8.0),
    (scaled(f"{FEATURES}.trainer", 0.1), partial(adapter, kind="lora"), 1.0, 8, 1.0),
    (mutants.longer_adapters, partial(adapter, kind="film", clip_norm=0.05), 1.0, 6, 1.0),
    (mutants.unclipped_networks, agem, 1.0, 2, 1.0),
    (scaled(f"{LIFELONG}.dp_agem", 0.3), agem, 1.0, 4, 1.0),
    (scaled(f"{LIFELONG}.quadratic", 0.02), record, 1.0, 200, 1.0),
    (scaled(LANGUAGE, 0.1), partial(text, method="lm-er"), 1.0, 16, 1.0),
    (scaled(LANGUAGE, 0.1), partial(text, method="pecl", adjacency="replace"), 1.0, 16, 1.0),
    (mutants.longer_texts, partial(text, method="lm-seqft"), 1.0, 8, 1.0),
    (scaled(f"{FEDERATED}.release_schedule", 0.2), partial(clients, method="cslr-server-head"), 1.0, 3, 1.0),
    (scaled(f"{FEDERATED}.local_list", 0.2), partial(clients, method="local-list"), 1.0, 3, 1.0),
    (scaled(f"{FEDERATED}.client_training", 0.25), partial(rounds, method="dp-fedavg"), 1.0, 16, 1.0),
    (scaled(f"{FEDERATED}.fedcil_dp", 1e-4), partial(rounds, method="fedcil-dp", participation=1.0), 1.0, 24, 1.0),
    (scaled(f"{FEATURES}.trainer", 0.05), partial(text_adapter, kind="all", method="naive", data=VIT), 1.0, 8, 1.0),
    (scaled(f"{FEDERATED}.client_training", 0.1), partial(rounds, method="dp-fedavg", participation=1.0, of=TABLES_OF_20),
     1.0, 16, 1.0),
]  # fmt: skip


@pytest.mark.usefixtures("fixed_noise")
@pytest.mark.parametrize(("fault", "make", "epsilon", "n", "least"), [*CAUGHT, *quick(0, CAUGHT_SLOWLY)])
def test_a_fault_is_called_an_error(
    fault: Callable[[pytest.MonkeyPatch], None], make: Make, epsilon: float, n: int, least: float,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """The attacker goes by the honest learner: the game is made before the fault is."""
    game = make(epsilon)
    fault(monkeypatch)
    found = game.audited(epsilon, n)
    assert found.lower_bound > least
    if least >= epsilon:
        assert found.exceeds
        assert 0.95 * epsilon < found.accounted < 1.001 * epsilon, "the ledger knows nothing of it"
        assert found.confidence == 0.999, "looked at twice before it is called wrong"


@pytest.mark.usefixtures("fixed_noise")
def test_the_terminal_ends_with_status_1_where_more_is_proved_than_accounted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    mutants.scaled_noise(monkeypatch, f"{FEATURES}.cosine", 0.2)
    assert cli.main(["audit", "--preset", "digits-cosine", "--set", "privacy.epsilons=[1.0]", "--trials", "300"]) == 1
    told = capsys.readouterr()
    assert told.out.startswith("ERROR, audited above accounted: claimed epsilon 1, accounted 1, audited at least ")
    assert told.err == "cosine leaks more than its ledger accounts for: do not release it, and report this\n"


# With real noise.


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "method", "least"),
    [
        (cosine, "cosine", 0.6), *((partial(head, method=one), one, 0.3) for one in ("peft-ensemble", "naive", "non-cl")),
        (agem, "dp-agem", 0.3), (clients, "label-means", 0.3),
    ],
)  # fmt: skip
def test_nine_of_ten_audits_prove_that_much(make: Make, method: str, least: float) -> None:
    game, trials = make(1.0), catalog.audit_of(method).trials
    found = [game.audited(1.0, game.n_each(trials)).lower_bound for _ in range(10)]
    print(f"{method}, epsilon 1:", " ".join(f"{one:.2f}" for one in found))
    assert sorted(found)[1] >= least


@pytest.mark.slow
def test_200_short_audits_with_real_noise_raise_no_more_than_18_alarms() -> None:
    """At a level of 5 % more have a chance of 0.6 %."""
    game, alarms = cosine(1.0), 0
    for _ in range(200):
        one, other, accounted = game.scores(1.0, 600)
        alarms += play.judged(one, other, 1.0, accounted, 1e-5, "", "", is_gaussian=True).exceeds
    print("cosine, false alarms of 200:", alarms)
    assert alarms <= 18


def test_without_replacement_there_are_no_copies_to_audit() -> None:
    refuses("must be replace", catalog.auditor("independent-laplace"), asked("independent-laplace", 8.0), 100)


def test_every_method_that_says_proved_has_an_audit_through_its_learner() -> None:
    for name, card in methods.CARDS.items():
        if card.guarantee == "proved":
            assert card.audit.startswith("dpcl_core.attacks."), name
            assert "learner" in catalog.audit_of(name).attacks, name


def test_whatever_data_a_method_takes_it_has_an_audit_or_says_why_not() -> None:
    """Through its learner, in one training, or a sentence: which of them follows from the method, not from the data."""
    n_audits = 0
    for (family, of_family), (kind, like) in itertools.product(QUICK.items(), KINDS.items()):
        for method in of_family:
            card, data = methods.card(method), combinations._card(like)
            if not any(not combinations.why_not(data, card, one) for one in combinations.scenarios.CARDS.values()):
                continue
            spec = asked(method, 4.0, data={"dataset": like, "backbone": network(kind, method)}, scenario=CLASSES)
            try:
                catalog.auditor(method)
                n_audits += 1
            except errors.BadInput:
                assert play.refusal(spec), (family, kind, method)
    assert n_audits >= 20
