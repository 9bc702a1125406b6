"""CSLR as printed: the server clusters the lists of each round's clients and averages them by group under Table 5's noise;
clients rehearse from the averages, and the head is averaged without noise.

Choices where the paper is silent: lists are fitted once per task; each task's last mixture is kept for good; a task, or each
of its labels, has K = `modes_per_task` groups; a round's groups are matched to the running average of earlier releases.
Where the printed method does not work, settings offer both forms: lists per task or per label, noised before matching or
not, averages by Eq. 2 or by shares, one round's release or a running average, raw targets or targets on the simplex.

The method as a whole has no DP bound. If the server clusters clean lists, one client can change the groups of other clients'
entries, so that even the replay has no bound. With one group per label nothing is clustered, and the replay has a bound
unless its sums are divided by the number of clients in the round, which is private. Lists noised on the client have a bound,
and everything computed from them keeps it. The claim's `accounted` is what the noise would cost if the printed sensitivity
held.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Literal

import numpy as np
from annotated_types import Interval

from dpcl_core.errors import BadInput
from dpcl_core.events import Claim, Progress
from dpcl_core.methods.common.classifier import Arrays, Rule
from dpcl_core.methods.common.method import PublicContext, PublicSizes, settings_of
from dpcl_core.methods.federated import client_release, matchers, published_release
from dpcl_core.methods.federated import params as federated
from dpcl_core.methods.federated.client_release import ListsObserved, NoiseStd, Replay
from dpcl_core.methods.federated.client_training import HeadOfRounds, RoundHead
from dpcl_core.methods.federated.lists import Floats, Ints, ListLearner, Lists, Singles
from dpcl_core.methods.federated.matchers import EntryMatcher, PublicEmbeddings, PublicView, pooled
from dpcl_core.methods.federated.published_release import Aggregation, SlotSums
from dpcl_core.privacy import cslr_accounting
from dpcl_core.privacy.cslr_accounting import TABLE_5
from dpcl_core.privacy.ledger import REPLAY, Ledger
from dpcl_core.privacy.noise import noise_of
from dpcl_core.published import Printed
from dpcl_core.scenarios.stream import Task, generator
from dpcl_core.spec import Cell, RunSpec, parameter

_MATCHERS: Mapping[federated.Matcher, str] = {
    "signature": "CSLR",
    "random": "CSLR-NoAnchor (Random)",
    "pca-mean": "Added: matched by public axes",
    "target": "Added: matched by targets",
}
_RULES: Mapping[federated.Rule, str] = {
    "nearest": "CSLR-NearestMean",
    "hungarian": "CSLR-Hungarian",
    "ot": "CSLR-OptimalTransport",
}


@dataclass(frozen=True, kw_only=True)
class CslrPublishedParams(federated.ListParams, federated.RehearsalParams, federated.RoundParams):
    """Lists pooled and clustered by the server every round; the noise of Table 5; a head without noise."""

    clusters_together: ClassVar[bool] = True
    modes_per_task: int = parameter(
        4, "Groups of a task",
        "Groups that a round's lists are clustered into, of every label or of the whole task, as lists are; the paper's 1 "
        "leaves nothing to match.", ge=1, le=64)
    lists: Literal["label", "task"] = parameter(
        "label", "Lists made for each",
        "What a client's list is of. label: one for each label of a task, so that an entry has one label. task: one of "
        "all that the client has of a task, as printed; an entry's target is then a mixture of labels.")
    rule: federated.Rule = parameter(
        "hungarian", "Decision rule",
        "nearest: each to its nearest group. hungarian: one to one, at least cost. ot: optimal transport.")
    second_moments: Literal["diagonal", "full"] = parameter(
        "diagonal", "Covariances", "What is released of second moments; full is as printed, and costs seconds a round.")
    dimensions: Annotated[int, Interval(ge=2, le=1024)] | None = parameter(
        None, "Public axes", "Public axes on which all of it happens; empty: the embedding as it is, as printed.")
    noisy_lists: bool = parameter(
        False, "Noise on lists",
        "Whether clients noise the four statistics of every entry before lists are matched, by Table 5 and again in every "
        "round, as printed (Algorithm 1, line 2).")
    aggregation: Literal["shares", "entries"] = parameter(
        "shares", "Unit of averaging",
        "How groups are averaged. shares: entries count by their share of a client's texts, over the expected number of "
        "clients. entries: each counts the same, over the clients that came, as printed (Eq. 2).")
    averaging: float = parameter(
        0.9, "Weight of the last classifier",
        "What the replayed mixture keeps of a task's earlier rounds; 0: a round's own release alone (Eq. 2).",
        ge=0, lt=1)
    targets: Literal["simplex", "raw"] = parameter(
        "simplex", "Anchor targets",
        "Noisy targets of the mixture. simplex: brought back to shares that add up to 1. raw: as released, as printed.")


PRINTED = federated.printed_settings(
    federated.LISTS, federated.INVENTED, federated.ROUNDS, federated.REPLAY,
    {
        "privacy.epsilons": Printed((1.0, 4.0, 8.0), "Without noise, to see what the noise costs."),
        "params.second_moments": Printed(("full",), "Diagonals take a 384th of the numbers and of the time."),
        "params.dimensions": Printed((None,), "On a few public axes the noise is shorter."),
        "params.lists": Printed(
            federated.lists_of_task,
            "An entry of one label names its group; an entry of a mixture is named only by its target.",
            words="one list of all that a client has of a task",
        ),
        "params.noisy_lists": Printed((True,), "Noise on every list leaves nothing to match with these numbers of clients."),
        "params.aggregation": Printed(
            ("entries",), "How many clients came is private, and one without a group would draw its mean to zero."
        ),
        "params.averaging": Printed((0.0,), "An average over rounds has less noise, and costs nothing more."),
        "params.targets": Printed(("raw",), "Noisy targets are no distribution."),
    },
)


def check(spec: RunSpec, facts: PublicSizes) -> None:
    """Raises BadInput for a budget without printed noise, inconsistent lists, and unit length on projected axes."""
    federated.check_federated(spec, facts)
    params = settings_of(spec, CslrPublishedParams)
    if params.dimensions is not None:
        federated.check_axes(spec, params.dimensions)
        if params.unit_length:
            allowed = "must be false with params.dimensions: rows on axes are no units"
            raise BadInput("params.unit_length", "true", allowed, {"params.unit_length": False})
    for epsilon in spec.privacy.epsilons:
        if math.isfinite(epsilon) and epsilon not in TABLE_5:
            allowed = "must be 1, 4, 8 or inf: no noise is printed for any other"
            printed = sorted({_nearest_printed(other) for other in spec.privacy.epsilons})
            raise BadInput("privacy.epsilons", f"{epsilon:,.10g}", allowed, {"privacy.epsilons": tuple(printed)})


def _nearest_printed(epsilon: float) -> float:
    """The budget with printed noise whose ratio to this one is nearest to 1; infinity stays."""
    return epsilon if math.isinf(epsilon) else min(TABLE_5, key=lambda printed: abs(math.log(printed / epsilon)))


def notes(params: CslrPublishedParams) -> tuple[str, ...]:
    """Caveats shown first in the privacy statement."""
    head = "The head's updates travel without noise, and no number here covers them."
    if params.noisy_lists:
        lists = (
            "Lists are noised before they leave a client, and all that follows is made of them: the replay's bound counts "
            "each of a client's lists in full, for the server sees whose they are."
        )
        return head, lists
    if params.aggregation == "entries":
        return head, "Sums are divided by how many clients came, a private number: no bound follows even for the replay."
    if params.modes_per_task == 1:
        return (head,)
    clustered = (
        "Lists are clustered together, so that one client can move what others are counted as: no bound follows even for "
        "the replay, and the accounted number grants the printed sensitivity."
    )
    return head, clustered


def table_names(spec: RunSpec) -> tuple[str, str]:
    """Named after the matcher; a variant for each setting that differs from the main tables."""
    params = settings_of(spec, CslrPublishedParams)
    if params.list_size == 1:
        return "DP-Stat-Share", ""
    if params.matcher == "mean":
        return _RULES[params.rule], ""
    variant = [f"L = {params.list_size}"] if params.list_size != 4 else []
    if params.matcher == "signature":
        variant += [f"m = {params.anchors}"] if params.anchors != 100 else []
        is_usual = (params.signature_covariance, params.signature_norm) == ("shared-spherical", "centred")
        if not is_usual and PRINTED.layer(spec).name != "as printed":
            variant.append(f"{params.signature_norm} log-densities, covariance: {params.signature_covariance}")
    return _MATCHERS[params.matcher], ", ".join(variant)


def differences(spec: RunSpec) -> tuple[str, ...]:
    """Our choices for what the paper leaves open."""
    params = settings_of(spec, CslrPublishedParams)
    sentences = [
        *federated.differences(spec),
        "Not given either: the fit of lists, full or diagonal second moments, how statistics of several entries are "
        f"added up, the weight of replay. Ours: {params.restarts} starts of a fit; {params.second_moments}; by shares; "
        f"{params.replay_weight:g}.",
    ]
    if params.modes_per_task > 1:
        sentences.append(f"{params.modes_per_task} groups of a label, since one a task leaves nothing to match.")
        if params.matcher == "signature":
            sentences.append(
                "Nor what is done to log-densities, and by which rule entries are clustered. Ours: "
                f"{params.signature_norm}, covariance {params.signature_covariance}; {params.rule}."
            )
    return tuple(sentences)


CARD = federated.card(
    name="cslr-published", title="CSLR as published",
    summary="In every round some clients send lists of Gaussians. The server clusters them by their log-densities at public "
    "sentences and averages each group with the paper's noise; clients rehearse texts generated from the averages. The "
    "claimed epsilon leaves out the head, and its noise costs more than it claims.",
    source=federated.SOURCE,
    params=CslrPublishedParams, key_settings=("anchors", "list_size", "matcher"), module=__name__,
    audit="dpcl_core.attacks.cslr_games", refuses=check, guarantee="nominal", notes=notes,
    assumes=lambda params: federated.SIMULATED[:1],
    needs_anchors=True, printed=PRINTED, table_names=table_names, reference="CSLR", differences=differences,
)

_N_AXES = 2  # axes of the view that orders groups and draws maps


@dataclass(slots=True, eq=False)
class _CurrentTask:
    """State of the task being learned: its clients' lists, and running averages of the groups' releases.

    `reference`: the average that later rounds' groups are matched to; `sums`: the average that is replayed.
    """

    index: int
    ledger: Ledger
    lists: Lists
    features: Floats
    n_groups: int
    random: np.random.Generator
    reference: SlotSums | None = None
    sums: SlotSums | None = None


class CslrPublished(HeadOfRounds):
    """One cell's mixtures, one part a task, and its head."""

    KEPT, kept_records = ("_seen", "_head", "_parts", "_noise"), (Replay,)

    def __init__(self, spec: RunSpec, cells: Sequence[Cell], context: PublicContext) -> None:
        (self._cell,), params = cells, settings_of(spec, CslrPublishedParams)
        self._params, self._seen, self._n_users = params, client_release.SeenLabels(spec, context), context.n_users or 0
        self._n_clients, n_axes = client_release.clients_per_task(context), params.dimensions or _N_AXES
        self._public = PublicEmbeddings.of(context.anchors, self._cell.seed, n_axes, None, params.anchors)
        self._axes: PublicView | None = None  # where set, everything below reads only coordinates on these axes
        if params.dimensions is not None:
            self._axes, rows = self._public.view, (self._public.anchors, self._public.others)
            anchors, others = map(self._axes.residuals, rows)
            self._public = PublicEmbeddings(anchors, others, PublicView.of(others, _N_AXES))
            context = replace(context, n_inputs=self._axes.axes.shape[1])
        self._matcher = EntryMatcher.of(params, self._public)
        self._sigma = cslr_accounting.printed_multiplier(self._cell.epsilon) if math.isfinite(self._cell.epsilon) else 0.0
        self._noise = noise_of(spec.privacy.noise, self._cell, "replay")
        self._head = RoundHead(spec, self._cell, context, 0.0)
        self._parts: list[Replay] = []
        self._aggregation = Aggregation(params.aggregation == "shares", params.targets == "simplex")
        self._spec, self._context = spec, context

    def learn(self, tasks: Mapping[int, Task], ledgers: Mapping[Cell, Ledger]) -> Iterator[Progress | ListsObserved]:
        task, ledger = tasks[self._cell.seed], ledgers[self._cell]
        rows, params, seed = self._seen.rows(task), self._params, self._cell.seed
        rows, by_label = replace(rows, z=self._read(rows.z)), params.lists == "label"
        yield Progress("training", 0, params.rounds, task.index, f"lists of {task.name}")
        n_lists = len(rows.space) if by_label else 1
        n_groups = n_lists * params.modes_per_task
        ledger.claimed = self._claimed(n_lists * params.list_size, n_groups) if self._sigma > 0 else None
        if what := self._without_bound():
            client_release.spend_unbounded(ledger, task.index, what, REPLAY)
        fit = ListLearner(params.list_size, params.restarts, form=params.second_moments)
        draws = client_release.draws_of(seed, f"list of task {task.index}")
        lists = client_release.user_lists(rows, range(self._n_users), fit, draws, by_label=by_label)
        compared = matchers.list_features(lists, self._matcher.features)
        random = generator(seed, f"matching of task {task.index}")
        state = _CurrentTask(task.index, ledger, lists, compared, n_groups, random)
        rounds = self._head.trained(
            rows, task.index, ledger, mixtures=lambda: self._parts, on_start=lambda chosen: self._average(state, chosen)
        )
        for done in rounds:
            yield Progress("training", done, params.rounds, task.index, f"rounds on {task.name}")
            if done in (1, params.rounds):
                z = self._sigma / (params.participation * self._n_clients)
                std = NoiseStd(z, z, self._sigma, params.second_moments)
                yield ListsObserved(lambda: state.lists, task.index, done - 1, [self._parts], [std], self._public)

    def released(self, cell: Cell) -> Arrays:
        """The last task's averages that the server keeps, `weights`, `means` and `targets`, and the current head."""
        latest = self._parts[-1]
        return {"weights": latest.weights, "means": latest.means, "targets": latest.targets, **self._head.released()}

    def rule(self, cell: Cell) -> Rule:
        """The head's largest logit, on the public axes where it reads only these."""
        public = {} if self._axes is None else {"centre": self._axes.centre, "axes": self._axes.axes}
        return self._seen.rule("federated-head", ("head",), public=public, n_hidden=self._params.hidden)

    def _read(self, z: Singles) -> Singles:
        """Embeddings [n, d] unchanged, or their coordinates [n, dimensions] on the public axes if the settings project."""
        return z if self._axes is None else self._axes.residuals(z).astype(np.float32)

    def _without_bound(self) -> str:
        """The reasons why the replay has no bound; empty where it has one."""
        if self._params.noisy_lists:
            return ""
        if self._params.modes_per_task > 1:
            return "lists clustered together: one client can move the entries of others"
        return "" if self._aggregation.by_shares else "sums divided by how many clients came, a private number"

    def _average(self, state: _CurrentTask, chosen: Ints) -> None:
        """Clusters and averages the lists of a round's clients; an empty round releases noise alone.

        Groups keep their identity from round to round: each round's are matched to the running average of the releases.
        """
        lists, sigma, rule, coins = state.lists.take(chosen), self._sigma, self._aggregation, self._head.coins
        given = [sigma], [self._noise], [state.ledger]
        if self._params.noisy_lists:
            (received,) = published_release.noisy_statistics(lists, *given, task=state.index)
            ids, expected = self._ids(state, received.lists()), coins.rate * self._n_clients
            sums = published_release.average_received(
                received, ids, state.n_groups, sigma, self._noise, expected=expected, rule=rule
            )
        else:
            ids, is_pooled = self._ids(state, lists, state.features[chosen]), self._params.modes_per_task > 1
            (sums,) = published_release.noisy_slot_sums(
                lists, ids, state.n_groups, *given, task=state.index, batches=coins, n_clients=self._n_clients,
                pooled=is_pooled, rule=rule,
            )  # fmt: skip
        state.reference = sums if state.reference is None else state.reference.mixed(sums)
        state.sums = sums if state.sums is None else state.sums.mixed(sums, self._params.averaging)
        self._parts[state.index :] = [state.sums.replay(rule=rule)]

    def _ids(self, state: _CurrentTask, lists: Lists, features: Floats | None = None) -> Ints:
        """Groups int64 [n, L] of a round's lists; `features` [n, L, f] of their entries where already computed.

        With one group per list nothing is clustered: an entry's place in its client's list gives its group.
        """
        n, n_entries = lists.weights.shape
        if not n:
            return np.zeros((0, n_entries), dtype=np.int64)
        if self._params.modes_per_task == 1:
            return np.tile(np.repeat(np.arange(state.n_groups), n_entries // state.n_groups), (n, 1))
        seen = matchers.list_features(lists, self._matcher.features) if features is None else features
        first = self._public.view.residuals(lists.means)[..., 0]
        released = None
        if state.reference is not None:
            released = self._matcher.features(state.reference.replay(rule=self._aggregation).elements())
        return pooled(seen, state.n_groups, self._matcher.rule, first, released, lists.weights, state.random).ids

    def _claimed(self, n_entries: int, n_groups: int) -> Claim:
        """The paper's number, and what its noise costs over all rounds of this run under the printed premises.

        Where no premise covers it, the actual release is counted: lists beside the sums, and entries clipped one by one,
        of norm sqrt(L) for a client's `n_entries` L and sqrt(K) for K groups.
        """
        params, privacy = self._params, self._spec.privacy
        longest = max(n_entries if params.noisy_lists else 1, n_groups if params.aggregation == "entries" else 1)
        n_tasks = self._context.n_tasks if self._context.recurrence == "every" else 1
        reading = cslr_accounting.Reading(
            self._sigma, n_rounds=n_tasks * params.rounds, sampling="poisson" if params.participation < 1 else "everyone",
            sample_rate=params.participation, n_clients=self._n_users, delta=privacy.delta, adjacency=privacy.adjacency,
            sensitivity=math.sqrt(longest), with_list=params.noisy_lists,
        )  # fmt: skip
        claim = cslr_accounting.nominal_claim(self._cell.epsilon, reading)
        return replace(claim, accounted=cslr_accounting.costs(reading).pld)


make_learner = CslrPublished
