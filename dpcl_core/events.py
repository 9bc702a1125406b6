"""The events of a run: a closed list of frozen records, each with a JSON form."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, field, fields, is_dataclass
from typing import Any, Literal, TypeVar, cast, get_args

from dpcl_core.published import Layer
from dpcl_core.spec import Adjacency, Cell, NoiseSource, Recurrence, reader

JsonValue = None | bool | int | float | str | list["JsonValue"] | dict[str, "JsonValue"]


@dataclass(frozen=True, slots=True)
class Claim:
    """The epsilon that a publication claims for a method's configuration. Not a bound.

    `terms`: its summands; `numbers`: the numbers that the terms were computed from, by name; `source`: where it is claimed.
    `accounted`: the accountant's epsilon for the same noise, granted the claim's other premises; None where it has none.
    """

    epsilon: float
    source: str
    terms: Mapping[str, float]
    numbers: Mapping[str, float]
    accounted: float | None = None


@dataclass(frozen=True, slots=True)
class AuditNote:
    """The result of an attack on a method's mechanism: epsilon is at least `lower_bound`, with this confidence."""

    lower_bound: float
    confidence: float
    trials: int
    attack: str
    adversary: str


@dataclass(frozen=True, slots=True, repr=False)
class Guarantee:
    """The privacy guarantee of one cell's release. `epsilon` is the total of its ledger (inf: no bound).

    `parts`: the parts of the total by name (for instance one task's epsilon); `claimed_epsilon`: the requested budget.
    `noise` "seeded" voids the bound against anyone who knows the seed. `claim`: a publication's claim, for methods whose
    epsilon is nominal, with `audit` beside it. `layer`: how the run relates to the publication of its method.
    `advantage`, `hits`: bounds on the best attack on this ledger (`privacy.ledger`), hit rate minus false alarm rate, and
    hit rate at 0.1 % false alarms; None without a bound, and in runs stored before they were computed.
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

    def __repr__(self) -> str:
        return f"<Guarantee: epsilon {self.epsilon:.4g}, delta {self.delta:g}, for {self.unit}, {self.adjacency}>"

    def __hash__(self) -> int:
        return hash((self.epsilon, self.delta, self.unit, self.adjacency, self.claimed_epsilon))

    @property
    def is_private(self) -> bool:
        return math.isfinite(self.epsilon)


MechanismKind = Literal["gaussian", "label-list", "local", "no-bound", "nothing"]


@dataclass(frozen=True, slots=True)
class Mechanism:
    """A mechanism as plain numbers.

    "gaussian": `steps` sums, each with Gaussian noise of `noise_multiplier` times the add-remove sensitivity; a unit's
    example i is in a step with probability `sample_rates[i]` (one example and 1.0: always). "label-list": one decision per
    label, each within (`epsilon`, `delta`); "local": a noisy copy of every record, each within `epsilon`; "no-bound":
    private data without noise; "nothing": no output.
    """

    kind: MechanismKind
    noise_multiplier: float | None = None
    sample_rates: tuple[float, ...] = ()
    steps: int = 1
    epsilon: float | None = None
    delta: float | None = None


@dataclass(frozen=True, slots=True)
class Spending:
    """`count` equal entries of a ledger: a mechanism applied while learning `task` to the people of the tasks `people_of`.

    `shares_batches`: other models of the run with the same seed were trained on the same random batches; `channels`: the
    mechanism of each release alone, where there are several.
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
    """A ledger as plain records, for recomputation; `recurrence`: "every" where a unit may be in every task.

    `rows_per_unit`: how many rows a privacy unit has at most; the entries are for one row.
    """

    adjacency: Adjacency
    recurrence: Recurrence
    entries: tuple[Spending, ...]
    rows_per_unit: int = 1


@dataclass(frozen=True, slots=True)
class Started:
    """The stream is open: public facts about it. `dataset_title` names the data truthfully (subset, stand-in)."""

    n_tasks: int
    task_names: tuple[str, ...]
    dataset_title: str
    n_train: int
    n_test: int


@dataclass(frozen=True, slots=True)
class Planned:
    """What all models of a run together may reveal, entered before the first release: (`epsilon`, `delta`), inf: no bound.

    `n_people`, `n_tasks`: public numbers of the run's privacy units and tasks.
    `learners`: every planned model, by the learner that takes it; models of one learner and seed may share batches.
    `ledgers`: all that a model will do to private data, one for each budget of the run, the same for every seed.
    """

    epsilon: float
    delta: float
    n_people: int
    n_tasks: int
    learners: tuple[tuple[Cell, ...], ...]
    ledgers: tuple[tuple[float, Written], ...]


@dataclass(frozen=True, slots=True)
class Progress:
    """Progress of the run: `done` of `total` units of work, in which phase, learning which task (None: before the first)."""

    phase: Literal["data", "backbone", "training", "evaluating"]
    done: int
    total: int
    task: int | None
    text: str


@dataclass(frozen=True, slots=True)
class TaskLearned:
    """Test accuracy after a task (entry i: on task i <= task), and the ledger's epsilon so far.

    None is "not evaluated", never zero: a task without test examples, no model released yet, or an empty label list.
    `pooled`: accuracy over all test examples of the tasks seen so far; it differs from the mean where tasks differ in size.
    `by_rule`: the accuracies under each of the method's prediction rules, the run's own first; empty where there is only one
    rule.
    `ahead`: accuracy on the next task, not learned yet, in streams that look ahead (micro-F1 where that is the metric).
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
    """Scores of one text token by token, from a language model and token counts; pages compute all they show from these.

    `tokens` as printed, blanks included; `probability`: P(token | tokens before it), in (0, 1]; `commonness`: Score2
    of PeCL (Eq. 3); `is_stop`: the token is in a stop word; `kinds`: the kind of its marked span, "" outside any.
    """

    tokens: tuple[str, ...]
    probability: tuple[float, ...]
    commonness: tuple[float, ...]
    is_stop: tuple[bool, ...]
    kinds: tuple[str, ...]
    label: str


@dataclass(frozen=True, slots=True)
class TokensScored:
    """Some training texts of a task, scored. For synthetic or public texts only.

    `model`: the weights used, the frozen public ones ("base") or those after the task was learned ("current").
    """

    cell: Cell
    task: int
    model: Literal["base", "current"]
    texts: tuple[ScoredText, ...]


@dataclass(frozen=True, slots=True)
class Retained:
    """Memorisation after a task of the texts of each task i <= task, in nats per token above the frozen public model.

    `ordinary`: tokens outside marked spans; `private`: tokens inside spans of private kinds (None where none is marked).
    """

    cell: Cell
    task: int
    ordinary: tuple[float, ...]
    private: tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class Leaks:
    """Canary exposure and extraction after a task, by how often each code was planted (level 0: controls).

    `levels`: repetitions, ascending; for each of them `exposure` (mean bits, Carlini et al. 2019), `below` (the same rank
    counted from the least likely end), `first` (share that is the single most likely code), `extracted` (share that greedy
    continuation prints), `codes` (how many were tested, fewer during the run than at its end). `epsilon_at_least`: lower
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
    """The entries of all clients' lists, as columns with one value per entry.

    `client`: the owner of its list; `weight`: its share of that list; `mean`, `signature`: its position on the map of that
    space, whose axes public data fix; `group`: the id it was matched to, -1 for none; `margin`: (d2 - d1) / (d2 + d1), in
    [0, 1], of its distances d1 <= d2 to the nearest two prototypes; `regret`: relative increase of its list's total cost if
    the entry were barred from its group, None where the rule is not one to one; `mode`: its true mode, -1 if unknown.
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
    """The prototypes that entries are matched to, as columns indexed by group id, on the same maps as `ListEntries`.

    `mean_spread`, `signature_spread`: covariance (xx, xy, yy) of the privacy noise in a released prototype; zeros where it
    is public or without noise. `full`: the means themselves, None where the event has no full lists either.
    """

    name: tuple[str, ...]
    mean: tuple[tuple[float, float], ...]
    signature: tuple[tuple[float, float], ...]
    mean_spread: tuple[tuple[float, float, float], ...]
    signature_spread: tuple[tuple[float, float, float], ...]
    full: QuantizedRows | None = None


@dataclass(frozen=True, slots=True)
class AnchorScores:
    """How well the first m anchors separate pairs of modes, as columns with one value per m.

    `mean_rate`, `least_rate`: share of anchors that separate a pair by at least `gap`, for the average and the worst pair
    (CSLR, Def. 1); `least_gap`: the worst pair's largest distance at one anchor; `needed`: the anchors that Theorem 2
    requires at `least_rate`, inf where that is 0; `agreement`: adjusted Rand index with these anchors only.
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
    """Vectors [n, `width`] in 8-bit precision, enough for a figure: row i is `steps[i]` times integers.

    `values`: these integers row by row, as signed bytes, compressed by zlib, in base64.
    """

    width: int
    steps: tuple[float, ...]
    values: str


@dataclass(frozen=True, slots=True)
class FullLists:
    """The lists of one task in full, rounded, so that a page can re-run matching with other anchors or added noise.

    `weight` [N, L]: shares; `mode` [N, L]: an entry's true mode, -1 if unknown; `means`, `log_variances`: of the entries
    with a weight, client by client (None: their covariances are matrices). `client` [N]: the lists' owners, where each
    client belongs to one task; empty where all clients are in every task: then the first N clients.
    """

    weight: tuple[tuple[float, ...], ...]
    mode: tuple[tuple[int, ...], ...]
    means: QuantizedRows
    log_variances: QuantizedRows | None
    client: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class PublicPart:
    """Public inputs of signatures and maps: anchors [m, d], axes [r, d] from a `centre` [d], the spherical
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
    """How the clients' lists were matched in one round. Simulation only: the server never sees this.

    For public or synthetic data only. `shown`: share of the variance of means, and of signatures, on the two axes of their
    maps; `matcher`: the one that the run uses; `agreement`: adjusted Rand index of groups against modes by matcher, on the
    same lists (empty where modes are unknown), and `agreement_at` the same at each of `noise_levels`, the standard deviation
    of noise on a coordinate of every entry's mean; `demanded`: the noise that the run's budget requires by trust ("central",
    "local"); `signal`, `noise`: lengths, by name of the released statistic; `anchors`: None where there is no pair of modes
    to separate; `mode_names`: names of the modes by number, empty if unknown. `lists`: the full lists of this task;
    `public`: the public inputs of their matching; each is given once, for the first seed, and None elsewhere.
    `n_compared`: number of entries for agreement and anchors, where lists are too long for all (None: all).
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
    """One model is finished: its metrics (None where undefined), its guarantee, its share of the run time, its ledger.

    `ledger` is None in runs that were stored before ledgers were. `untrained`: accuracy of the untrained model on each task,
    in streams that look ahead (the baseline of FWT); else empty.
    """

    cell: Cell
    metrics: Mapping[str, float | None]
    guarantee: Guarantee
    seconds: float
    ledger: Written | None = None
    untrained: tuple[float | None, ...] = ()


Fact = bool | int | float | str | tuple[int, ...] | tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class Classifier:
    """A model's classifier after a task: what its learner has released, and nothing else.

    `rule`: a function in its family's `rules`; `classes`: the class of each row of its arrays; `competing`: the classes that
    can be predicted; `by_task`: those of each task so far, where the task of an example is known when it is predicted;
    `facts`: public numbers and names; `uses_all`: the arrays of earlier tasks belong to it. `content`: the arrays as a
    safetensors file, in base64; names of arrays that no example has changed begin with "public.".
    """

    cell: Cell
    task: int
    rule: str
    classes: tuple[str, ...]
    competing: tuple[str, ...]
    by_task: tuple[tuple[str, ...], ...]
    facts: Mapping[str, Fact]
    uses_all: bool
    content: str


@dataclass(frozen=True, slots=True)
class References:
    """Scores between which a run is read: mean accuracy over its tasks, in [0, 1], from public facts alone.

    `chance`: what the best single answer reaches, whatever the example (`scenarios.catalog.chance`). `untrained`: the public
    network as it came; None for a network trained from scratch, and for a language model until it has been asked: a later
    event of this kind then replaces the first. `n_tested`: how many equally weighted test examples stand behind the mean,
    None for entity F1. `ceiling`: all tasks learned at once without noise; None in stored events, filled in by `results`.
    """

    chance: float
    untrained: float | None = None
    _: KW_ONLY  # a count and a score are both numbers: by place, one was once taken for the other
    n_tested: float | None = None
    ceiling: float | None = None


@dataclass(frozen=True, slots=True)
class Note:
    """Information or a warning for readers of the result."""

    level: Literal["info", "warning"]
    text: str


# A closed list: adding a kind is a design decision.
Event = (
    Started | Planned | References | Progress | TaskLearned | Classifier | TokensScored | Retained | Leaks | Signatures
    | CellFinished | Note
)  # fmt: skip
Kind = TypeVar("Kind", bound=Event)
_KINDS: Mapping[str, type[Event]] = {kind.__name__: kind for kind in get_args(Event)}


def of_kind(events: Iterable[Event], kind: type[Kind]) -> Iterator[Kind]:
    """The events of one kind, in order."""
    return (event for event in events if isinstance(event, kind))


def to_json(event: Event) -> dict[str, JsonValue]:
    """The event as a JSON document; infinity is the string "inf", the kind is under "event"."""
    return {"event": type(event).__name__, **cast(dict[str, JsonValue], plain(event))}


def from_json(document: Mapping[str, JsonValue]) -> Event:
    """The event of a document by `to_json`. Raises KeyError for an unknown kind."""
    given = dict(document)
    return cast(Event, reader(cast("Any", _KINDS[str(given.pop("event"))])).validate_python(given))


def plain_number(value: float) -> float | str:
    """A number that strict JSON can hold: infinity as the string "inf"."""
    return value if math.isfinite(value) else ("inf" if value > 0 else "-inf")


def plain(value: object) -> JsonValue:
    """A record, or its fields, as strict JSON: tuples as lists, infinity as the string "inf"."""
    if value is None or isinstance(value, (str, int)):  # most values, and a large matrix has many
        return value
    if isinstance(value, float):
        return plain_number(value)
    if is_dataclass(value):
        return {one.name: plain(getattr(value, one.name)) for one in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(inner) for key, inner in value.items()}
    if isinstance(value, (tuple, list)):
        return [plain(inner) for inner in value]
    return cast(JsonValue, value)
