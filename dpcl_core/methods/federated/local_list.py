"""CSLR under local trust: every client noises its list before sending it, so the server never sees a clean sum.

The server clusters the noisy lists and trains the head on the result; both are post-processing here.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dpcl_core.methods.common.classifier import Arrays
from dpcl_core.methods.common.method import PublicContext
from dpcl_core.methods.federated import matchers
from dpcl_core.methods.federated import params as federated
from dpcl_core.methods.federated.client_release import ListsObserved, NoiseStd, Replay, TaskRows, side_by_side
from dpcl_core.methods.federated.cslr_server_head import CslrServerHead
from dpcl_core.methods.federated.lists import Lists, simplex
from dpcl_core.methods.federated.matchers import PublicView, pooled
from dpcl_core.privacy.ledger import REPLAY, Ledger
from dpcl_core.privacy.mechanisms import ClientVectors, noisy_client_vectors
from dpcl_core.privacy.noise import Noise, noise_of
from dpcl_core.privacy.sums import clipped_rows
from dpcl_core.published import ADDED
from dpcl_core.scenarios.stream import generator
from dpcl_core.spec import Cell, RunSpec


@dataclass(frozen=True, kw_only=True)
class LocalListParams(federated.ListParams, federated.ReleaseParams, federated.ServerParams):
    """One noisy list per client and task; a head trained on the server's aggregate of them."""


CARD = federated.card(
    name="local-list", title="Noisy lists, no trusted server",
    summary="Every client adds noise to its own list of Gaussians once per task and sends it. The server clusters the noisy "
    "lists and trains the head on texts generated from their averages. Shows what it costs to trust no one.",
    source=f"{federated.SOURCE}, under local trust",
    params=LocalListParams, key_settings=("anchors", "list_size", "matcher"), module=__name__,
    planned="dpcl_core.methods.federated.release_schedule:releases", cells_per_learner="epsilons",
    derived=lambda params, facts: (
        f"{facts.n_tasks} lists of every client, each noised before it leaves; the head costs nothing more."
    ),
    assumes=lambda params: federated.SIMULATED[:1],
    needs_anchors=True, printed=ADDED,
    table_names=lambda spec: ("Added: noisy lists, no trusted server", federated.axes(spec)),
    reference="CSLR",
)


_SHARE_SCALE = 0.5  # scale of shares and targets beside the means in a noisy list


def noisy_lists(
    lists: Lists, view: PublicView, multipliers: Sequence[float], noises: Sequence[Noise], ledgers: Sequence[Ledger], *,
    task: int,
) -> list[Lists]:
    """Local trust: every client clips and noises its list before sending it; one set of noisy lists per budget.

    A client sends [clip(residual means, B sqrt(L)) / (B sqrt(L)) ; a shares ; a targets / sqrt(L)] with a = 0.5. The first
    block has norm at most 1, shares sum to at most 1 and each target is clipped to 1: the sensitivity is sqrt(1 + 2 a²). The
    server decodes means m0 + U r, and shares and targets on the simplex; covariances are the diagonal of the public one.

    `multipliers`: noise over sensitivity, one per budget.
    """
    n, length = lists.weights.shape
    scale, root = view.radius * np.sqrt(length), np.sqrt(length)
    present = np.where(lists.weights[:, :, None] > 0, view.residuals(lists.means), 0.0)
    residuals = clipped_rows(side_by_side(present), scale) / scale
    targets = _SHARE_SCALE * side_by_side(clipped_rows(lists.targets, 1.0)) / root
    vectors = np.concatenate([residuals, _SHARE_SCALE * lists.weights, targets], axis=1)
    bound = float(np.sqrt(1 + 2 * _SHARE_SCALE**2))
    part = ClientVectors(REPLAY, vectors, bound, [multiplier * bound for multiplier in multipliers])
    what = f"every client's list of {length}, noised at home"
    received = noisy_client_vectors(part, noises, ledgers, task=task, what=what)
    ends = [residuals.shape[1], residuals.shape[1] + length]
    parts = [[values.reshape(n, length, -1) for values in np.split(rows, ends, axis=1)] for rows in received]
    variances = np.broadcast_to(np.diag(view.covariance), lists.means.shape)
    decoded = [
        (simplex(w[..., 0] / _SHARE_SCALE), view.restored(scale * r), simplex(root / _SHARE_SCALE * y)) for r, w, y in parts
    ]
    return [Lists(weights, means, variances, of_labels) for weights, means, of_labels in decoded]


class LocalList(CslrServerHead):
    """The server receives every client's noisy list, one per task and budget."""

    KEPT, kept_records = (*CslrServerHead.KEPT, "_noises", "_parts", "_received"), (Replay, Lists)
    received = "lists"

    def __init__(self, spec: RunSpec, cells: Sequence[Cell], context: PublicContext) -> None:
        super().__init__(spec, cells, context)
        self._noises = [noise_of(spec.privacy.noise, cell, "lists") for cell in cells]
        self._parts: list[list[Replay]] = [[] for _ in cells]
        self._received: list[Lists] = []  # the last task's noisy lists, by budget

    def _receive(self, rows: TaskRows, index: int, ledgers: Mapping[Cell, Ledger]) -> ListsObserved:
        public, multipliers = self._releases.public, self._releases.multipliers
        lists, of_cells = self._releases.lists(rows, index), [ledgers[cell] for cell in self._cells]
        self._received = noisy_lists(lists, public.view, multipliers, self._noises, of_cells, task=index)
        for parts, noisy in zip(self._parts, self._received, strict=True):
            parts.append(self._clustered(noisy, len(rows.space) * self._releases.n_groups, index))
        local = [z * public.view.radius * math.sqrt(1.5 * lists.weights.shape[1]) for z in multipliers]  # noisy_lists' scale
        root = math.sqrt(max(1, len(lists)))
        stds = [NoiseStd(std / root, z, std) for std, z in zip(local, multipliers, strict=True)]
        return ListsObserved(lambda: lists, index, 0, self._parts, stds, public)

    def released(self, cell: Cell) -> Arrays:
        """The last task's noisy lists as the server gets them: `weights` [clients, L], `means`, `targets`; and the head."""
        lists = self._received[self._cells.index(cell)]
        return {"weights": lists.weights, "means": lists.means, "targets": lists.targets, **super().released(cell)}

    def _clustered(self, noisy: Lists, n_groups: int, index: int) -> Replay:
        """Clusters the received lists: weighted averages of the groups, with the public covariance."""
        view, matcher = self._releases.public.view, self._releases.matcher
        features, first = matchers.list_features(noisy, matcher.features), view.residuals(noisy.means)[..., 0]
        random = generator(self._seed, f"matching of task {index}")
        ids = pooled(features, n_groups, matcher.rule, first, None, noisy.weights, random).ids
        belongs = (ids.ravel()[None] == np.arange(n_groups)[:, None]) * noisy.weights.ravel()
        totals = belongs.sum(axis=1)
        shares = np.where(totals > 0, totals, 1.0)[:, None]
        means = belongs @ noisy.means.reshape(-1, noisy.means.shape[2]) / shares
        targets = belongs @ noisy.targets.reshape(-1, noisy.targets.shape[2]) / shares
        weights = np.maximum(totals / max(totals.sum(), 1e-12), 0)
        return Replay(simplex(weights), means, view.covariance, simplex(targets))


make_learner = LocalList
