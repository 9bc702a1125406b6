"""The methods by name. A card imports no torch; the learner's module is loaded by the worker alone.

Methods outside the package: modules named in `DPCL_METHODS`, separated by commas, each with a `CARD`.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, cast, get_args

from dpcl_core.backbones import bundled
from dpcl_core.backbones import catalog as backbones
from dpcl_core.data import catalog as datasets
from dpcl_core.data.card import DatasetCard, Kind
from dpcl_core.errors import BadInput, entry
from dpcl_core.methods.common.method import MakeLearner, MethodCard, PublicSizes
from dpcl_core.scenarios import catalog as scenarios
from dpcl_core.spec import RunSpec

if TYPE_CHECKING:
    from dpcl_core.privacy.statement import Standing
    from dpcl_core.published import Layer


_ELSEWHERE = "DPCL_METHODS"

# The methods of this package by family, in the order of lists. A method's file has its name, without "lm-"; a new one is one
# word here.
_FAMILIES = {
    "features": ("cosine", "peft-ensemble", "naive", "non-cl"),
    "lifelong": ("agem", "l2dp-ml", "dp-agem", "dp-coeff-memory", "independent-laplace", "joint-network"),
    "language": ("lm-seqft", "lm-er", "lm-ewc", "lm-gem", "lm-olora", "lm-mtl", "pecl-published", "pecl"),
    "federated": (
        "cslr-server-head", "cslr-central", "cslr-published", "local-list", "label-means", "dp-stat-share", "dp-fedavg",
        "fedcil-dp", "fedta-lite",
    ),
}  # fmt: skip
_BY_TORCH = ("lifelong", "language")  # all their methods train by torch, which a page of a browser does not have


class _Cards(Mapping[str, MethodCard]):
    """The cards by name. Each one's module is loaded when first asked for: it has what the learner computes with."""

    def __init__(self) -> None:
        families = [name for name in _FAMILIES if sys.platform != "emscripten" or name not in _BY_TORCH]
        root = __name__.removesuffix(".catalog")
        named = [(family, name) for family in families for name in _FAMILIES[family]]
        self._modules = {name: f"{root}.{of}.{name.removeprefix('lm-').replace('-', '_')}" for of, name in named}

    @cached_property
    def _read(self) -> dict[str, MethodCard]:
        return _added(self._modules)

    def __getitem__(self, name: str) -> MethodCard:
        if name not in self._read:
            self._read[name] = import_module(self._modules[name]).CARD
        return self._read[name]

    def __iter__(self) -> Iterator[str]:
        return iter({**self._modules, **self._read})

    def __len__(self) -> int:
        return len({**self._modules, **self._read})

    def __contains__(self, name: object) -> bool:
        return name in self._modules or name in self._read


CARDS: Mapping[str, MethodCard] = _Cards()


def _added(built_in: Collection[str]) -> dict[str, MethodCard]:
    """Cards of the modules named in `DPCL_METHODS`. Raises BadInput for a module without a card, and for a name in use."""
    cards: dict[str, MethodCard] = {}
    for module in filter(None, map(str.strip, os.environ.get(_ELSEWHERE, "").split(","))):
        must = "must be a module on PYTHONPATH with a MethodCard called CARD"
        try:
            card = import_module(module).CARD
        except Exception as error:  # whatever somebody else's module raises
            raise BadInput(_ELSEWHERE, module, f"{must} ({type(error).__name__}: {error})") from error
        if not isinstance(card, MethodCard):
            raise BadInput(_ELSEWHERE, module, f"{must}; its CARD is a {type(card).__name__}")
        if card.name in built_in or card.name in cards:
            raise BadInput(_ELSEWHERE, module, f"its card must have a new name: there is already a method {card.name}")
        cards[card.name] = card
    return cards


def card(name: str) -> MethodCard:
    """The card of a method. Raises BadInput naming the known ones."""
    return entry("method", name, CARDS)


def is_nominal(name: str) -> bool:
    """Whether a method's epsilon is only claimed by its publication; False for a method that no longer exists."""
    return name in CARDS and CARDS[name].guarantee == "nominal"


def standing(spec: RunSpec) -> Standing:
    """Whether a run's budgets bound all that is released, the replay alone or nothing, or are a publication's claim."""
    if is_nominal(spec.method):
        return "claimed"
    if spec.method in CARDS and CARDS[spec.method].is_for_the_replay(spec.params):
        return "replay"
    return "none" if spec.reads_labels else "bound"


def layer(spec: RunSpec) -> Layer | None:
    """How a run relates to its method's publication; None for a method that no longer exists."""
    return CARDS[spec.method].printed.layer(spec) if spec.method in CARDS else None


def maker(name: str) -> MakeLearner:
    """The function that makes a method's learner; imports its module, torch included where it needs it."""
    return cast(MakeLearner, import_module(card(name).module).make_learner)


# Kinds of data that a method and a scenario accept. Checked first: no other setting repairs a dataset of the wrong kind.


_NAMES: Mapping[Kind, str] = {
    "image": "pictures",
    "sensor": "windows of a sensor",
    "text": "texts",
    "tagged": "tagged sentences",
    "table": "rows of a table",
    "embedding": "embeddings",
}
_VALUES: tuple[Kind, ...] = ("image", "sensor", "table", "embedding")


def check_kinds(spec: RunSpec, dataset: DatasetCard) -> None:
    """Raises BadInput for a dataset of a kind that the method or the scenario does not accept."""
    for kinds, reason in _requirements(spec):
        if dataset.kind not in kinds:
            named = _either([_NAMES[kind] for kind in kinds])
            first = {card.kind: card.name for card in reversed(list(datasets.CARDS.values()))}  # not of every kind
            examples = _either([first[kind] for kind in kinds if kind in first])
            allowed = f"must be a dataset of {named}, such as {examples}; {reason}"
            raise BadInput("data.dataset", dataset.name, allowed, _fix(spec))


def _fix(spec: RunSpec) -> dict[str, object]:
    """The first dataset of this computer that method and stream both accept; a stream of the method's where none can be."""
    wanted = [kinds for kinds, _ in _requirements(spec)]
    fitting = [kind for kind in get_args(Kind) if all(kind in kinds for kinds in wanted)]
    if not fitting:
        return {"scenario": {"kind": card(spec.method).scenarios[0]}}
    here = (card.name for card in datasets.CARDS.values() if card.kind in fitting and datasets.available(card) is None)
    return {"data.dataset": name} if (name := next(here, None)) else {}


def _requirements(spec: RunSpec) -> Iterator[tuple[tuple[Kind, ...], str]]:
    """Accepted kinds of data, each set with the reason."""
    method, scenario = card(spec.method), scenarios.card(spec.scenario.kind)
    if spec.params.inputs == "text":
        yield ("text",), f"{method.title} trains a language model"
    if spec.params.inputs == "images":
        network = backbones.card(spec.data.backbone)
        read: tuple[Kind, ...] = network.reads if network.name.startswith(backbones.OWN) else ("image", "text")
        named = _either([_NAMES[kind] for kind in read])
        yield read, f"{method.title} adapts a network of {named} with these settings"
    if scenario.needs_values and spec.params.inputs == "text":
        yield _VALUES, f"scenario.kind = {scenario.name} rearranges values, and words have no places of their own"
    if method.guarantee == "nominal" and not method.has_clients:
        single = tuple(kind for kind in get_args(Kind) if kind != "tagged")
        yield single, f"{method.title} claims nothing of the several words of a sentence"


def _either(names: Sequence[str]) -> str:
    *others, last = names
    return f"{', '.join(others)} or {last}" if others else last


# How many public axes a run's features are taken along: a public rule of the budget and of the size of a class.


FEWEST, MOST = 16, 640


def axes_by_epsilon(spec: RunSpec, facts: PublicSizes) -> Mapping[float, int]:
    """Number of axes for each budget; empty where features are taken as the network gives them."""
    network = backbones.card(spec.data.backbone)
    if spec.params.inputs == "text" or spec.data.axes == 0 or bundled.public_part(network, spec.data.dataset) is None:
        return {}
    return {epsilon: spec.data.axes or by_rule(spec, epsilon, facts) for epsilon in spec.privacy.epsilons}


def by_rule(spec: RunSpec, epsilon: float, facts: PublicSizes) -> int:
    """Five times the people of a class over the noise on their sum, between 16 and 640, all public numbers.

    The noise is that of one Gaussian release a task under this budget; under one list for all tasks a class that comes once
    gets it in every task. Measured with the cosine classifier on CIFAR-10 along CIFAR-100's axes, 20 to 700 examples a
    class, epsilon 0.5 to 8: the rule's number was within a factor of two of the best of nine.
    """
    from dpcl_core.privacy import gaussian
    from dpcl_core.privacy.accounting import training_budget

    if math.isinf(epsilon):
        return MOST
    left, delta = training_budget(spec.privacy, spec.labels, epsilon)
    noise = gaussian.sigma(left, delta, gaussian.SENSITIVITY[spec.privacy.adjacency])
    adds_up = card(spec.method).is_one_release and spec.labels in ("prior-const", "dp-learned")
    ratio = facts.n_people / facts.n_classes / (noise * math.sqrt(facts.n_tasks if adds_up else 1))
    return round(min(MOST, max(FEWEST, 5.0 * ratio)))
