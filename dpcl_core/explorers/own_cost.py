"""What a run of sums cost one person: the epsilon of her own rows, where the promise is for the longest ones allowed.

Her vectors v_t, one a task (zero where she has no row), of length at most 1 in units of the bound, move the clean sums of a
stream by v. All releases together, with her and without, are two Gaussians of one covariance, at a distance of
mu = ||sum_t v_t (x) C e_t|| / (sigma Delta) standard deviations, Delta = ||C e_0||: mu^2 is the sum over tasks s and t of
<v_s, v_t> <C e_s, C e_t> / (sigma Delta)^2. With fresh noise C is the identity. Her epsilon at the card's delta follows
exactly (`gaussian.epsilon`), and a longer vector of another person never makes it larger.

Where vectors differ in length, her epsilon is a function of her data and nothing protects it: on own data it goes to the
owner's terminal and nowhere else. Nothing here writes a file or an event.
"""

import math
from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import NDArray

from dpcl_core import checks, engine
from dpcl_core.backbones.extractor import result_of
from dpcl_core.data import own
from dpcl_core.errors import BadInput
from dpcl_core.events import CellFinished, Written
from dpcl_core.methods import catalog as methods
from dpcl_core.methods.common.stream_noise import remembers
from dpcl_core.methods.federated.client_release import Question
from dpcl_core.methods.federated.label_means import LabelMeans
from dpcl_core.privacy import continual, gaussian
from dpcl_core.spec import RunSpec

Floats = NDArray[np.float64]
EQUAL, BY_CLIENT = "cosine", "label-means"  # methods whose people all have vectors of length 1, and clients of any length
UNPROTECTED = "Not protected: never publish. It depends on this client's data, and no noise hides it."


@dataclass(frozen=True, slots=True)
class OwnCost:
    """The epsilon [tasks] of a person who is in that task alone with the longest vector, and of one in all of them."""

    alone: tuple[float, ...]
    in_all: float


@dataclass(frozen=True, slots=True)
class ClientCost:
    """Lengths [tasks] of a client's vectors, as shares of the longest allowed, and the client's own epsilon."""

    lengths: tuple[float, ...]
    epsilon: float


def refusal(spec: RunSpec, written: Written | None) -> str | None:
    """Why a run's own costs are not known here, as the end of a sentence about the method; None if they are."""
    if spec.method not in (EQUAL, BY_CLIENT):
        return "releases more than sums of people's vectors: nobody's own ε is a closed form"
    if written is None or written.rows_per_unit > 1:
        return "has a person of several rows, whose directions are not known"
    kinds = {(entry.mechanism.kind, entry.mechanism.sample_rates) for entry in written.entries}
    return None if kinds == {("gaussian", (1.0,))} else "releases more than sums with noise, such as a learned list"


def of_everyone(spec: RunSpec, written: Written, n_tasks: int) -> OwnCost:
    """What the longest vector costs, by the task that it is in: a function of public facts alone."""
    alone = tuple(_epsilon(spec, written, np.diag(np.eye(n_tasks)[task])) for task in range(n_tasks))
    return OwnCost(alone, _epsilon(spec, written, np.ones((n_tasks, n_tasks))))


def of_client(spec: RunSpec, finished: CellFinished, client: int) -> ClientCost:
    """What one client's own vectors cost at a finished model's budget. Reads the data again. Private: see above.

    Raises BadInput for a method without such vectors, a client that is none, and own data of somebody else.
    """
    dataset, written = spec.data.dataset, finished.ledger
    if (why := refusal(spec, written)) is not None or spec.method != BY_CLIENT:
        raise BadInput("method", spec.method, why or "has no clients: all rows have length 1, see the page Privacy")
    assert written is not None
    if dataset.startswith("own:") and own.owner(dataset) != "":
        raise BadInput("data.dataset", dataset, "must be yours: a visitor's own cost is the visitor's alone")
    n_users = spec.scenario.n_users or 0
    if not 1 <= client <= n_users:
        raise BadInput("--person", client, f"must be a client, from 1 to {n_users}")
    opened = result_of(engine.open_run(checks.check_run(spec)))
    streams, context = opened.of_cells([finished.cell])
    learner = cast(LabelMeans, methods.maker(spec.method)(opened.run.spec, [finished.cell], context))
    vectors = []
    for task in streams[finished.cell.seed].tasks:
        question = Question(task.index, 0, 0, np.zeros(0))
        vectors.append(learner.answers(task, question, np.array([client - 1]))[0] / learner.longest(task))
    width = max(map(len, vectors))  # where each task has its own list, noise is fresh, and widths do not matter
    rows = np.stack([np.pad(one, (0, width - len(one))) for one in vectors])
    return ClientCost(tuple(np.linalg.norm(rows, axis=1).tolist()), _epsilon(spec, written, rows @ rows.T))


def _epsilon(spec: RunSpec, written: Written, products: Floats) -> float:
    """The epsilon of a person whose vectors have these inner products [tasks, tasks]; fresh noise reads the diagonal."""
    overlaps = np.eye(len(products))  # <C e_s, C e_t> / Delta^2 [tasks, tasks]
    if remembers(spec):
        of = continual.choose(len(products)).factorisation
        encoder = np.stack([np.pad(of.encoder(task), (0, of.n_tasks - 1 - task)) for task in range(of.n_tasks)])
        overlaps = encoder.T @ encoder / of.sensitivity() ** 2
    squares = 0.0
    for entry in written.entries:
        sigma, tasks = cast(float, entry.mechanism.noise_multiplier), list(entry.people_of)
        moved = float((products * overlaps)[np.ix_(tasks, tasks)].sum())
        squares += entry.count * entry.mechanism.steps * moved / sigma**2
    return gaussian.epsilon(1 / math.sqrt(squares), spec.privacy.delta) if squares > 0 else 0.0
