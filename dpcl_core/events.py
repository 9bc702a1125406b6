"""What a run can say: a closed list of frozen records, each with a JSON form."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Literal, cast

from pydantic import TypeAdapter

from dpcl_core.layers import Layer
from dpcl_core.spec import Adjacency, Cell, NoiseSource, Recurrence

JsonValue = None | bool | int | float | str | list["JsonValue"] | dict[str, "JsonValue"]


@dataclass(frozen=True, slots=True)
class Claim:
    """The epsilon that a publication claims for what a method did. A label of a configuration, not a bound.

    `terms`: what it is the sum of; `numbers`: what the terms were computed from, by name; `source`: where it is claimed.
    `accounted`: what an accountant makes of the same noise, granted the claim's other premises; None where it has no answer.
    """

    epsilon: float
    source: str
    terms: Mapping[str, float]
    numbers: Mapping[str, float]
    accounted: float | None = None


@dataclass(frozen=True, slots=True)
class AuditNote:
    """What an attack on a method's mechanism proved: epsilon is at least `lower_bound`, with this confidence."""

    lower_bound: float
    confidence: float
    trials: int
    attack: str
    adversary: str


@dataclass(frozen=True, slots=True)
class Guarantee:
    """What one cell's release protects, and what it does not. `epsilon` is what its ledger adds up to (inf: no bound).

    `parts` names what the total is made of (for instance one task's epsilon); `claimed_epsilon` is what the form asked for.
    `noise` "seeded" voids the bound for whoever knows the seed. `claim`: what a publication says, for methods whose epsilon
    is nominal; `audit` then stands beside it. `layer`: how the run stands to the publication of its method.
    `advantage`, `hits`: what the best attack on this ledger can do (`privacy.tradeoff`): hits less false alarms at most, and
    hits at 0.1 % false alarms; None without a bound, and in runs stored before it was computed.
    """

    epsilon: float
    delta: float
    unit: str
    adjacency: str
    composition: str
    scope: str
    claimed_epsilon: float | None
    noise: NoiseSource
    assumptions: tuple[str, ...]
    not_covered: tuple[str, ...]
    caveats: tuple[str, ...]
    parts: Mapping[str, float]
    claim: Claim | None = None
    audit: AuditNote | None = None
    layer: Layer | None = None
    advantage: float | None = None
    hits: float | None = None

    @property
    def is_private(self) -> bool:
        return math.isfinite(self.epsilon)


MechanismKind = Literal["gaussian", "label-list", "local", "no-bound", "nothing"]


@dataclass(frozen=True, slots=True)
class Mechanism:
    """A mechanism as plain numbers.

    "gaussian": `steps` sums, each under Gaussian noise of `noise_multiplier` times what one unit can move it by under
    add-remove; a unit's example i is in a step with chance `sample_rates[i]` (one example and 1.0: always). "label-list": a
    decision a label, each within (`epsilon`, `delta`); "local": a noisy copy of every record within `epsilon`; "no-bound":
    private data as they are; "nothing": nothing gets out.
    """

    kind: MechanismKind
    noise_multiplier: float | None = None
    sample_rates: tuple[float, ...] = ()
    steps: int = 1
    epsilon: float | None = None
    delta: float | None = None


@dataclass(frozen=True, slots=True)
class Spending:
    """`count` equal entries of a ledger: what was done while learning `task`, to the people of the tasks `people_of`.

    `shares_batches`: other models of the run with the same seed were trained on the very same random batches; `channels`:
    what each way out costs alone, where there are several.
    """

    what: str
    task: int
    people_of: tuple[int, ...]
    count: int
    mechanism: Mechanism
    shares_batches: bool = False
    channels: Mapping[str, Mechanism] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Written:
    """A ledger written down, so that anyone can add it up again; `recurrence`: "every" where one may be in every task."""

    adjacency: Adjacency
    recurrence: Recurrence
    entries: tuple[Spending, ...]


@dataclass(frozen=True, slots=True)
class Started:
    """The stream is open: public facts about what will be learned. `titles` names the data truthfully (subset, stand-in)."""

    n_tasks: int
    task_names: tuple[str, ...]
    dataset_title: str
    n_train: int
    n_test: int


@dataclass(frozen=True, slots=True)
class Progress:
    """How far the run is: `done` of `total` units of work, in which phase, learning which task (None: before the first)."""

    phase: Literal["data", "backbone", "training", "evaluating"]
    done: int
    total: int
    task: int | None
    text: str


@dataclass(frozen=True, slots=True)
class TaskLearned:
    """Test accuracy after a task (entry i: on task i <= task), and the epsilon the ledger adds up to by then.

    None is "not evaluated", never zero: a task without test examples, no model released yet, or one that knows no label.
    `pooled` is accuracy over all test examples of the tasks seen so far; it differs from the mean where tasks differ in
    size. `by_rule` has the accuracies under each of the method's prediction rules, the run's own first; empty where there
    is one rule only.
    `ahead`: accuracy on the next task, not learned yet, in streams that look ahead (micro-F1 wherever that is the metric).
    """

    cell: Cell
    task: int
    accuracy: tuple[float | None, ...]
    pooled: float | None
    epsilon: float
    by_rule: Mapping[str, tuple[float | None, ...]] = field(default_factory=dict)
    ahead: float | None = None


@dataclass(frozen=True, slots=True)
class ScoredText:
    """One text as a language model and its counts see it, token by token; from these a page computes everything it shows.

    `tokens` as printed, blanks included; `probability`: P(token | tokens before it), in (0, 1]; `commonness`: Score2
    of PeCL (Eq. 3); `is_stop`: the token lies in a stop word; `kinds`: the marked span it lies in, "" outside any.
    """

    tokens: tuple[str, ...]
    probability: tuple[float, ...]
    commonness: tuple[float, ...]
    is_stop: tuple[bool, ...]
    kinds: tuple[str, ...]
    label: str


@dataclass(frozen=True, slots=True)
class TokensScored:
    """Some training texts of a task, scored. Said of synthetic or public texts only.

    `model`: by which weights, the frozen public ones ("base") or those after the task was learned ("current").
    """

    cell: Cell
    task: int
    model: Literal["base", "current"]
    texts: tuple[ScoredText, ...]


@dataclass(frozen=True, slots=True)
class Retained:
    """What a model remembers after a task, of the texts of each task i <= task: nats a token above the frozen public model.

    `ordinary`: tokens outside marked spans; `private`: tokens inside spans of private kinds (None where none is marked).
    """

    cell: Cell
    task: int
    ordinary: tuple[float, ...]
    private: tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class Leaks:
    """What a model after a task tells of planted secrets, by how often each was planted (entry 0 of a level: controls).

    `levels`: repetitions, ascending; for each of them `exposure` (mean bits, Carlini et al. 2019), `below` (the same rank
    counted from the least likely end), `first` (share that is the single most likely code), `extracted` (share that greedy
    continuation prints), `codes` (how many were asked for, fewer on the way than in the end). `epsilon_at_least`: lower
    confidence bound from planted against control codes. `task` -1: before the first task.
    """

    cell: Cell
    task: int
    levels: tuple[int, ...]
    exposure: tuple[float, ...]
    below: tuple[float, ...]
    first: tuple[float, ...]
    extracted: tuple[float, ...]
    codes: tuple[int, ...]
    epsilon_at_least: float
    confidence: float


@dataclass(frozen=True, slots=True)
class ListEntries:
    """The entries of all clients' lists, one place an entry in every column.

    `client`: whose list it is in; `weight`: its share of that list; `mean`, `signature`: where it lies on the map of that
    space, whose axes public data fix; `group`: the id it was matched to, -1 for none; `margin`: (d2 - d1) / (d2 + d1), in
    [0, 1], of its distances d1 <= d2 to the nearest two prototypes; `regret`: the share that its list's total cost would
    grow by were the entry barred from its group, None where the rule is not one to one; `mode`: what it really is of, -1
    if nobody knows.
    """

    client: tuple[int, ...]
    weight: tuple[float, ...]
    mean: tuple[tuple[float, float], ...]
    signature: tuple[tuple[float, float], ...]
    group: tuple[int, ...]
    margin: tuple[float, ...]
    regret: tuple[float | None, ...]
    mode: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Prototypes:
    """What entries are matched to, one place a group (its id) in every column, on the same maps as `ListEntries`.

    `mean_spread`, `signature_spread`: covariance (xx, xy, yy) of the privacy noise in a released prototype; zeros where it
    is public or free of noise. `full`: the means themselves, None where lists are not told in full either.
    """

    name: tuple[str, ...]
    mean: tuple[tuple[float, float], ...]
    signature: tuple[tuple[float, float], ...]
    mean_spread: tuple[tuple[float, float, float], ...]
    signature_spread: tuple[tuple[float, float, float], ...]
    full: QuantizedRows | None = None


@dataclass(frozen=True, slots=True)
class AnchorScores:
    """How well the first m anchors tell apart what must be told apart, one place an m in every column.

    `mean_rate`, `least_rate`: share of anchors that see a pair at least `gap` apart, of the average and of the worst pair
    (CSLR, Def. 1); `least_gap`: the worst pair's largest distance at one anchor; `needed`: the anchors that Theorem 2 asks
    for at `least_rate`, inf where that is 0; `agreement`: adjusted Rand index when they are all the anchors there are.
    """

    gap: float
    m: tuple[int, ...]
    mean_rate: tuple[float, ...]
    least_rate: tuple[float, ...]
    least_gap: tuple[float, ...]
    needed: tuple[float, ...]
    agreement: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class QuantizedRows:
    """Vectors [n, `width`] of which a picture needs no more than two digits: row i is `steps[i]` times whole numbers.

    `values`: these numbers row by row, signed bytes, compressed by zlib, in base64.
    """

    width: int
    steps: tuple[float, ...]
    values: str


@dataclass(frozen=True, slots=True)
class FullLists:
    """The lists of one task in full, rounded: with them a page matches anew, by other anchors or under noise.

    `weight` [N, L]: shares; `mode` [N, L]: what an entry is of, -1 if nobody knows; `means`, `log_variances`: of the entries
    with a weight, client by client (None: their covariances are matrices). `client` [N]: whose they are, where each client
    belongs to one task; empty where all are in every task: the first ones'.
    """

    weight: tuple[tuple[float, ...], ...]
    mode: tuple[tuple[int, ...], ...]
    means: QuantizedRows
    log_variances: QuantizedRows | None
    client: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class PublicPart:
    """What signatures and maps are made with, public: anchors [m, d], public axes [r, d] from a `centre` [d], the spherical
    covariance's `variance`, and the centre and two axes of the means' map [3, d] and of the signatures' [3, m].
    """

    anchors: QuantizedRows
    axes: QuantizedRows
    centre: tuple[float, ...]
    variance: float
    mean_map: tuple[tuple[float, ...], ...]
    signature_map: tuple[tuple[float, ...], ...]


@dataclass(frozen=True, slots=True)
class Signatures:
    """How the clients' lists were matched in one round: the simulator's view, never visible to the server.

    Said of public or synthetic data only. `shown`: share of the variance of means, and of signatures, that the two axes of
    their maps hold; `matcher`: the one that the run uses; `agreement`: adjusted Rand index of groups against modes by
    matcher, on the same lists (empty where modes are unknown), and `agreement_at` the same at each of `noise_levels`, the
    standard deviation of noise on a coordinate of every entry's mean; `demanded`: the noise that the run's budget demands
    by trust ("central", "local"); `signal`, `noise`: lengths, by name of the released statistic; `anchors`: None where
    there is no pair of modes to tell apart; `mode_names`: of the modes by number, empty where nobody knows. `lists`: those
    of this very task in full, `public`: what they are matched by, each told once for the first seed and None elsewhere.
    `n_compared`: entries that agreement and anchors were measured on, where lists are too long for all (None: all).
    """

    cell: Cell
    task: int
    round: int
    entries: ListEntries
    prototypes: Prototypes
    shown: tuple[float, float]
    matcher: str
    agreement: Mapping[str, float]
    noise_levels: tuple[float, ...]
    agreement_at: Mapping[str, tuple[float, ...]]
    demanded: Mapping[str, float]
    signal: Mapping[str, float]
    noise: Mapping[str, float]
    anchors: AnchorScores | None = None
    mode_names: tuple[str, ...] = ()
    lists: FullLists | None = None
    public: PublicPart | None = None
    n_compared: int | None = None


@dataclass(frozen=True, slots=True)
class CellFinished:
    """One model is done: its metrics (None where undefined), its guarantee, the seconds of work counted to it, its ledger.

    `ledger` is None in runs that were stored before ledgers were. `untrained`: accuracy on each task of the model that has
    learned nothing, in streams that look ahead (FWT is measured from it); else empty.
    """

    cell: Cell
    metrics: Mapping[str, float | None]
    guarantee: Guarantee
    seconds: float
    ledger: Written | None = None
    untrained: tuple[float | None, ...] = ()


@dataclass(frozen=True, slots=True)
class Note:
    """Something a reader of the result should know."""

    level: Literal["info", "warning"]
    text: str


# A closed list: adding one is a decision.
Event = Started | Progress | TaskLearned | TokensScored | Retained | Leaks | Signatures | CellFinished | Note
_READERS: Mapping[str, TypeAdapter[Event]] = {
    kind.__name__: TypeAdapter(kind)
    for kind in (Started, Progress, TaskLearned, TokensScored, Retained, Leaks, Signatures, CellFinished, Note)
}


def to_json(event: Event) -> dict[str, JsonValue]:
    """A JSON document of the event; infinity is the string "inf", a kind's name stands under "event"."""
    return {"event": type(event).__name__, **cast(dict[str, JsonValue], _plain(asdict(event)))}


def from_json(document: Mapping[str, JsonValue]) -> Event:
    """The event that `to_json` wrote. Raises KeyError for an unknown kind."""
    fields = dict(document)
    return _READERS[str(fields.pop("event"))].validate_python(fields)


def plain_number(value: float) -> float | str:
    """A number that strict JSON can hold: infinity as the string "inf"."""
    return value if math.isfinite(value) else ("inf" if value > 0 else "-inf")


def _plain(value: object) -> JsonValue:
    if isinstance(value, float):
        return plain_number(value)
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, (tuple, list)):
        return [_plain(inner) for inner in value]
    return cast(JsonValue, value)
