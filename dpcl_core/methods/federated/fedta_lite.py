"""FedTA-lite: features mixed with a trained anchor of the nearest class, and well-separated prototypes. Adds no noise.

A simplified reading: z' = norm(z + alpha a_c), c the class whose key is nearest, a_c trained by cross-entropy over cosines
to class prototypes. Keys are means of the clients' class means; a class's prototype is the client mean whose largest cosine
to the keys of other classes is smallest.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dpcl_core.events import Progress
from dpcl_core.methods.common.classifier import Arrays, Rule
from dpcl_core.methods.common.method import PublicContext, PublicSizes, refuse_budgets, settings_of
from dpcl_core.methods.federated import params as federated
from dpcl_core.methods.federated.client_release import SeenLabels, TaskRows, by_label, features, spend_unbounded
from dpcl_core.methods.federated.client_training import participation
from dpcl_core.methods.federated.lists import Floats, Ints, Reals
from dpcl_core.privacy.ledger import HEAD, REPLAY, Ledger
from dpcl_core.privacy.sums import unit_rows
from dpcl_core.published import Departure
from dpcl_core.scenarios.stream import Task, generator
from dpcl_core.spec import Cell, RunSpec, parameter


@dataclass(frozen=True, kw_only=True)
class FedTaLiteParams(federated.RoundParams):
    """Trained anchors that features are mixed with."""

    learning_rate: float = parameter(0.1, "", "Step size of plain gradient descent.", gt=0, le=100)
    mixing: float = parameter(
        0.5, "Mixing weight α", "What the nearest anchor counts beside the feature (alpha).", ge=0, le=100)


UNKNOWN = "Its mixing equations were not at hand."


def check(spec: RunSpec, facts: PublicSizes) -> None:
    """Raises BadInput for a finite budget, and as `params.check_federated` does."""
    refuse_budgets(spec, "FedTA-lite adds no noise")
    federated.check_federated(spec, facts)


CARD = federated.card(
    name="fedta-lite", title="FedTA-lite, no privacy",
    summary="Every class has a trained anchor, which is mixed into the embeddings near it. For each class the server keeps "
    "the prototype least like those of other classes. A simplified reading of its source, without noise: an upper line.",
    source="After Yu et al., CVPR 2025 (FedTA); its mixing equations were not at hand",
    params=FedTaLiteParams, key_settings=("rounds", "participation", "mixing"), module=__name__, audit="", refuses=check,
    guarantee="none",
    assumes=lambda params: federated.SIMULATED[:1],
    printed=federated.printed_settings(
        federated.ROUNDS, {"params.mixing": UNKNOWN},
        always=(Departure("", "FedTA by Yu et al. 2025", "a simplified reading of FedTA", UNKNOWN),)
    ),
    table_names=lambda spec: ("FedTA", ""),
)

_TEMPERATURE = 0.1  # of cosines in the cross-entropy


class FedTaLite:
    """One cell: keys, prototypes and tail anchors of the classes so far, each [C, d]."""

    KEPT = ("_seen", "_participation", "_keys", "_prototypes", "_anchors", "_labels")

    def __init__(self, spec: RunSpec, cells: Sequence[Cell], context: PublicContext) -> None:
        (self._cell,), params = cells, settings_of(spec, FedTaLiteParams)
        self._params, self._n_users, self._seen = params, context.n_users or 0, SeenLabels(spec, context)
        self._participation = participation(params, spec, self._cell)
        self._keys = np.zeros((context.n_classes, context.n_inputs))
        self._prototypes, self._anchors = np.zeros_like(self._keys), np.zeros_like(self._keys)
        self._labels: tuple[int, ...] = ()

    def learn(self, tasks: Mapping[int, Task], ledgers: Mapping[Cell, Ledger]) -> Iterator[Progress]:
        task = tasks[self._cell.seed]
        spend_unbounded(ledgers[self._cell], task.index, "prototypes and anchors without noise", REPLAY, HEAD)
        rows = self._seen.rows(task)
        # Keys are means of clients' class means; a prototype is one of those, away from other classes' keys.
        clients = by_label(rows.z, rows.labels, rows.users, self._n_users, rows.space)
        self._labels = tuple(sorted({*self._labels, *rows.space}))
        candidates = {
            label: unit_rows(clients.means[clients.weights[:, place] > 0, place]) for place, label in enumerate(rows.space)
        }
        for label, means in candidates.items():
            if len(means):
                self._keys[label] = unit_rows(means.mean(axis=0, keepdims=True))[0]
        for label, means in candidates.items():
            others = [other for other in self._labels if other != label]
            if len(means):
                nearest = (means @ self._keys[others].T).max(axis=1) if others else np.zeros(len(means))
                self._prototypes[label] = means[nearest.argmin()]
        random = generator(self._cell.seed, f"rounds of task {task.index}")
        for done in range(self._params.rounds):
            chosen = self._participation.draw(self._n_users)
            moves = [self._moved(rows, int(client), random) for client in chosen if (rows.users == client).any()]
            if moves:
                self._anchors = self._anchors + np.mean(moves, axis=0)
            yield Progress("training", done + 1, self._params.rounds, task.index, f"rounds on {task.name}")

    def scores(self, seed: int, task: Task) -> Mapping[str, Reals]:
        """Cosines [1, n, classes] of mixed features to prototypes, the only prediction rule."""
        mixed, _ = self._mixed(features(task.test.inputs).astype(np.float64), self._anchors)
        return {"cosine": self._seen.masked((mixed @ self._prototypes.T)[None], task)}

    def released(self, cell: Cell) -> Arrays:
        """The current keys, prototypes and anchors [C, d]."""
        return {"keys": self._keys.copy(), "prototypes": self._prototypes.copy(), "anchors": self._anchors.copy()}

    def rule(self, cell: Cell) -> Rule:
        """The prototype nearest to the features after the nearest key's anchor was mixed in."""
        return self._seen.rule("mixed-prototypes", ("keys", "prototypes", "anchors"), mixing=self._params.mixing)

    def _mixed(self, z: Floats, anchors: Floats) -> tuple[Floats, Ints]:
        """Mixed features [n, d] of unit length, and the class [n] whose anchor went in."""
        if not self._labels:
            return z, np.zeros(len(z), dtype=np.int64)
        nearest = np.array(self._labels)[(z @ self._keys[list(self._labels)].T).argmax(axis=1)]
        return unit_rows(z + self._params.mixing * anchors[nearest]), nearest

    def _moved(self, rows: TaskRows, client: int, random: np.random.Generator) -> Floats:
        """One client's update of the anchors [C, d]."""
        places, anchors = np.flatnonzero(rows.users == client), self._anchors.copy()
        labels = np.array(self._labels)
        prototypes = self._prototypes[labels]
        for _ in range(self._params.local_steps):
            batch = random.choice(places, self._params.batch_size)
            z = rows.z[batch].astype(np.float64)
            mixed, nearest = self._mixed(z, anchors)
            lengths = np.linalg.norm(z + self._params.mixing * anchors[nearest], axis=1, keepdims=True)
            residuals = np.exp((mixed @ prototypes.T - 1) / _TEMPERATURE)
            residuals /= residuals.sum(axis=1, keepdims=True)
            residuals -= rows.labels[batch][:, None] == labels
            gradients = residuals @ prototypes / _TEMPERATURE / len(batch)
            gradients -= (gradients * mixed).sum(axis=1, keepdims=True) * mixed  # back through the normalisation
            gradients = np.divide(self._params.mixing * gradients, lengths, out=np.zeros_like(gradients), where=lengths > 0)
            step = np.zeros_like(anchors)
            np.add.at(step, nearest, gradients)
            anchors -= self._params.learning_rate * step
        return anchors - self._anchors


make_learner = FedTaLite
