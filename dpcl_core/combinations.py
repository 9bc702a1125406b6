"""What goes with what: every dataset with every method, stream and setting of lists, by cards and the engine's own checks.

A combination is allowed if a run with it can start, whatever else has to be set. One that is refused has a structural
reason, which no code could mend, or nobody has written it yet.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import product

from dpcl_core import checks
from dpcl_core.data import catalog as datasets
from dpcl_core.data.card import DatasetCard, Kind
from dpcl_core.errors import BadInput
from dpcl_core.methods import catalog as methods
from dpcl_core.methods.common.method import MethodCard
from dpcl_core.scenarios import catalog as scenarios
from dpcl_core.spec import LABELS

# One of each kind of data and form of stream, so that numbers do not grow with the catalogue; the last two are people's own.
USUAL = (
    "digits", "mnist", "cifar10", "cifar100", "5-datasets-mnist-m", "har-wisdm", "pii-synthetic", "ag_news",
    "amazon-domains", "ner-gum", "own:table", "own:embeddings",
)  # fmt: skip
UNWRITTEN = "not written yet"
_BY_CLASS = ("class-incremental", "split", "i-blurry", "si-blurry", "one-vs-rest")  # streams that a label puts an example in


@dataclass(frozen=True, slots=True)
class Combination:
    """One of them: the names, whether it is allowed, and why not: a key of `REASONS`, or `UNWRITTEN`."""

    dataset: str
    method: str
    stream: str
    labels: str
    allowed: bool
    reason: str = ""

    def row(self) -> dict[str, object]:
        """As a JSON row, with its reason in a sentence."""
        return {**asdict(self), "reason": REASONS[self.reason][0] if self.reason in REASONS else self.reason}


Holds = Callable[[DatasetCard, MethodCard, scenarios.ScenarioCard], bool]
# The structural reasons: a sentence, and whether it holds, by cards alone.
REASONS: Mapping[str, tuple[str, Holds]] = {
    "no texts": (
        "a language model reads texts with one label each, and these data are none",
        lambda data, method, stream: method.params().inputs == "text" and data.kind != "text",
    ),
    "no clients": (
        "the stream is of clients, and the method protects single examples",
        lambda data, method, stream: stream.has_clients and not method.has_clients,
    ),
    "no sources": (
        "each task is a source, and the data have none: no sites, styles, rates or months",
        lambda data, method, stream: stream.name == "source-incremental" and not has_sources(data),
    ),
    "no places": (
        "the stream puts values in another order, and to a language model words in another order are no sentence",
        lambda data, method, stream: stream.needs_values and method.params().inputs == "text",
    ),
    "many labels": (
        "a label puts an example in its task, and a sentence of tagged words has several labels",
        lambda data, method, stream: data.kind == "tagged" and stream.name in _BY_CLASS,
    ),
    "several rows": (
        "a sentence of tagged words is several rows, and the method's publication claims nothing of so many",
        lambda data, method, stream: data.kind == "tagged" and method.guarantee == "nominal" and not method.has_clients,
    ),
}


def table(names: Sequence[str] | None = None) -> list[Combination]:
    """All combinations of these datasets (None: the catalogue's, and people's own tables and embeddings)."""
    cards = [_card(name) for name in (dict.fromkeys((*datasets.CARDS, *USUAL)) if names is None else names)]
    every = [(card, has_sources(card)) for card in cards]
    known: dict[tuple[object, ...], str] = {}
    found = []
    streams = scenarios.CARDS.values()
    for (data, is_parted), method, stream, labels in product(every, methods.CARDS.values(), streams, LABELS):
        alike = (data.kind, data.has_people, is_parted, method.name, stream.name)  # all that decides
        if alike not in known:
            known[alike] = why_not(data, method, stream)
        why = known[alike] or ("" if labels in method.labels else UNWRITTEN)
        found.append(Combination(data.name, method.name, stream.name, labels, not why, why))
    return found


def why_not(data: DatasetCard, method: MethodCard, stream: scenarios.ScenarioCard) -> str:
    """A key of `REASONS`, `UNWRITTEN` for what the checks refuse without one, or nothing where these go together."""
    if key := structural(data, method, stream):
        return key
    reads = method.params().inputs
    network = "lm-tiny" if reads == "text" else "hashed-text" if data.kind in ("text", "tagged") else "pixels"
    protocol = {"protocol": "domain-incremental"} if stream.has_clients and data.kind == "tagged" else {}
    spec = checks.parse({
        "method": method.name, "labels": method.labels[0], "data": {"dataset": data.name, "backbone": network},
        "scenario": {"kind": stream.name, **protocol},
    })  # fmt: skip
    try:
        checks.check_cards(spec, data)
    except BadInput:
        return UNWRITTEN
    return ""


def structural(data: DatasetCard, method: MethodCard, stream: scenarios.ScenarioCard) -> str:
    """The key of the first structural reason why these cannot go together; empty where there is none."""
    return next((key for key, (_, holds) in REASONS.items() if holds(data, method, stream)), "")


def has_sources(data: DatasetCard) -> bool:
    """Whether data of this card have parts that can be tasks; own tables may have a column of sites or of months."""
    if data.members or data.sources or data.kind in ("sensor", "table") or data.has_people:
        return True
    return datasets.available(data) is None and bool(datasets.facts(data.name).sources)


def summary(found: Sequence[Combination]) -> str:
    """The numbers in words: how many are allowed, and of the others how many for each reason."""
    counts = Counter(one.reason for one in found)
    lines = [f"{counts['']:,} of {len(found):,} combinations can start."]
    lines += [f"{counts[key]:>7,}  {sentence}" for key, (sentence, _) in REASONS.items()]
    return "\n".join([*lines, f"{counts[UNWRITTEN]:>7,}  {UNWRITTEN}"])


def _card(name: str) -> DatasetCard:
    if name.startswith("own:"):
        kind: Kind = "table" if name == "own:table" else "embedding"
        return DatasetCard(name, name, "", "", "", n_classes=0, n_train=0, n_test=0, kind=kind)
    return datasets.card(name)
