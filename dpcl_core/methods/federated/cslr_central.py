"""CSLR under central trust: noisy mixtures of the clients' lists, and a head trained by clients that rehearse from them.

Clients match their entries themselves, to public or already released prototypes, so that one client moves the sum by no
more than its clipping norm. Replay and head read the same data: where both are sent in a round, one sample of clients serves
both, and they are one event.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Literal

import numpy as np

from dpcl_core.events import Progress
from dpcl_core.methods.common.classifier import Arrays
from dpcl_core.methods.common.dpsgd import each_task
from dpcl_core.methods.common.method import PublicContext, PublicSizes, settings_of
from dpcl_core.methods.federated import client_release
from dpcl_core.methods.federated import params as federated
from dpcl_core.methods.federated.client_release import ListsObserved, SeenLabels, TaskRows, clients_per_task
from dpcl_core.methods.federated.client_training import HeadOfRounds, RoundHead
from dpcl_core.methods.federated.lists import Floats, Ints, Lists
from dpcl_core.methods.federated.release_schedule import Horizon, Noises, ReleaseSchedule
from dpcl_core.privacy.accounting import subsampled_gaussian
from dpcl_core.privacy.ledger import REPLAY, Ledger
from dpcl_core.privacy.mechanisms import ClientVectors
from dpcl_core.published import Printed
from dpcl_core.scenarios.stream import Task
from dpcl_core.spec import Cell, RunSpec, parameter


@dataclass(frozen=True, kw_only=True)
class CslrCentralParams(
    federated.ListParams, federated.ReleaseParams, federated.RehearsalParams, federated.ClippedParams
):
    """One release per task or round, and a head averaged over clients."""

    head: Literal["private", "clean"] = parameter(
        "private", "Output layer",
        "private: the head's updates are clipped and noised, and epsilon is for both. clean: they travel as they are, as "
        "published; epsilon is for the replay alone, and both together have no bound.")
    replay_share: float = parameter(
        0.5, "Share of ε for replay",
        "Share of epsilon that the replay may spend, where the head is private; the head has what is then left.",
        gt=0, lt=1)
    releases: Literal["task", "round"] = parameter(
        "task", "Published after each",
        "task: one release a task, of every client. round: one a round, of the clients who also send updates.")


def notes(params: CslrCentralParams) -> tuple[str, ...]:
    """Caveats on the bound."""
    clean = "The head's updates travel without noise: the budget covers the replay alone, and the model has no bound."
    return (clean,) if params.head == "clean" else ()


CARD = federated.card(
    name="cslr-central", title="CSLR, trusted sum",
    summary="Every client matches its texts to public groups and sends one clipped vector. The sum gets noise once and "
    "becomes a mixture of Gaussians. Clients train the head in rounds on their own texts and rehearse generated ones. "
    "Replay and head are accounted for separately, and together.",
    source=f"{federated.SOURCE}, repaired: matched on the client, one noise on the joint vector, accounted",
    params=CslrCentralParams, key_settings=("anchors", "list_size", "matcher"), module=__name__,
    planned=f"{__name__}:planned", notes=notes,
    is_for_the_replay=lambda params: params.head == "clean",  # as published
    needs_anchors=True,
    printed=federated.printed_settings(
        federated.LISTS, federated.ONCE, federated.INVENTED, federated.ROUNDS, federated.REPLAY,
        {
            "params.head": Printed(
                ("clean",), "Updates of the head are made from people's data, too; here they are noised."
            ),
            "params.releases": Printed(("round",), "One release of everybody costs less than one a round of a few."),
            "params.clip_norm": "The printed head is not clipped.",
            "params.replay_share": "The printed head has no part of the budget.",
        },
        always=(federated.MATCHED_AT_HOME, federated.ONE_VECTOR),
        kind="repair",
    ),
    table_names=lambda spec: ("Repair: CSLR", f"{settings_of(spec, CslrCentralParams).head} head"),
    reference="CSLR",
)


def noises(params: CslrCentralParams, horizon: Horizon, epsilon: float) -> Noises:
    """Noise multipliers that keep the budget: for replay and head together, or for replay alone if the head is clean."""
    if params.head == "clean":
        return Noises(horizon.one_per_round(epsilon) if params.releases == "round" else horizon.releases(epsilon))
    together = horizon.in_rounds if params.releases == "round" else horizon.beside_releases
    return together(epsilon, params.replay_share)


class CslrCentral(HeadOfRounds):
    """One cell's mixtures and head."""

    KEPT = ("_seen", "_releases", "_head")

    def __init__(self, spec: RunSpec, cells: Sequence[Cell], context: PublicContext) -> None:
        (self._cell,), params = cells, settings_of(spec, CslrCentralParams)
        self._params = params
        self._seen, self._n_clients = SeenLabels(spec, context), clients_per_task(context)
        noise = noises(params, Horizon.of(spec, context, params), self._cell.epsilon)
        self._releases = ReleaseSchedule(spec, cells, context, [noise.release])
        self._head = RoundHead(spec, self._cell, context, noise.head)

    def learn(self, tasks: Mapping[int, Task], ledgers: Mapping[Cell, Ledger]) -> Iterator[Progress | ListsObserved]:
        task, ledger = tasks[self._cell.seed], ledgers[self._cell]
        rows = self._seen.rows(task)
        total, is_by_round = self._params.rounds, self._params.releases == "round"
        yield Progress("training", 0, total, task.index, f"lists of {task.name}")
        lists = cache(partial(self._releases.lists, rows, task.index))
        trained = partial(self._head.trained, rows, task.index, ledger, mixtures=lambda: self._releases.parts[0])
        if is_by_round:
            sums = _RoundSums(self._releases, rows, lists, task.index, self._head.coins.rate * self._n_clients)
            trained = partial(trained, extra=sums.vectors, on_sums=sums.add)
        else:
            self._releases.of_task(rows, task.index, ledgers, lists)
            yield self._releases.observed(rows, lists, task.index, 0)
        for done in trained():
            yield Progress("training", done, total, task.index, f"rounds on {task.name}")
            if is_by_round and done in (1, total):
                yield self._releases.observed(rows, lists, task.index, done - 1)

    def released(self, cell: Cell) -> Arrays:
        """The last task's noisy sums, averaged over the rounds so far, and the current head."""
        return {**self._releases.released(cell), **self._head.released()}


class _RoundSums:
    """The replay's part of a task's rounds: the mixture is decoded from the average of the rounds' noisy sums."""

    def __init__(
        self, releases: ReleaseSchedule, rows: TaskRows, lists: Callable[[], Lists], index: int, expected: float
    ) -> None:
        self._releases, self._rows, self._index = releases, rows, index
        self._lists = lists() if releases.n_groups > 1 else None
        self._layout, self._expected = releases.layout(len(rows.space)), expected
        self._std = releases.multipliers[0] * self._layout.sensitivity
        self._total, self._n_rounds = np.zeros((1, 1)), 0

    def vectors(self, chosen: Ints) -> list[ClientVectors]:
        """The replay vectors of the round's clients, matched to the releases before it."""
        prototypes = self._releases.prototypes(0, self._rows.space)
        slotted = self._releases.slotted(self._rows, self._lists, prototypes, self._index)
        return [ClientVectors(REPLAY, self._layout.vectors(slotted)[chosen], self._layout.sensitivity, [self._std])]

    def add(self, sums: Sequence[Floats]) -> None:
        """Adds a round's noisy sum and updates the mixture from the task's average so far: post-processing."""
        self._n_rounds += 1
        self._total = self._total + sums[0]
        targets = self._releases.targets(self._rows)
        average, left = self._total / self._n_rounds, self._std / math.sqrt(self._n_rounds)  # each round draws fresh noise
        (mixture,) = client_release.decoded(average, self._layout, targets, self._expected, [left])
        self._releases.keep(0, self._index, self._rows, mixture)


make_learner = CslrCentral


def planned(spec: RunSpec, facts: PublicSizes, epsilon: float, ledger: Ledger) -> None:
    """The plan of a model (`methods.references`): a release a task beside the head's rounds, or one in every round."""
    params = settings_of(spec, CslrCentralParams)
    horizon = Horizon.of(spec, facts, params)
    noise = noises(params, horizon, epsilon)
    if params.releases == "round":
        return each_task(ledger, facts, horizon.rounds_of(noise.release, noise.head))
    return each_task(ledger, facts, subsampled_gaussian(noise.release, 1.0, 1), horizon.rounds_of(noise.head))
