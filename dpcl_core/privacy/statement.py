"""The privacy statement: what a release protects and what it does not; the only source of these words."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from dpcl_core.events import AuditNote, Guarantee, Planned
from dpcl_core.layers import Layer
from dpcl_core.privacy.protected import PROTECTED, Protected
from dpcl_core.spec import Cell, Inputs, RunSpec

if TYPE_CHECKING:
    from dpcl_core.privacy.ledger import Ledger  # loads the accountants, which take seconds; the app only needs the words

_COMPOSITION = {
    "once": "parallel: every {noun} is in one task only, so the task that spends most counts",
    "every": "sequential: {article} {noun} may be in every task, so the tasks add up",
}
_REUSED = (
    "every {noun} is in one task, but releases after later tasks read it again: its uses add up, and the {noun}s "
    "used most count"
)
_JOINT = {
    "once": "one training reads the {noun}s of all tasks together: each is used in it alone, and the largest cost counts",
    "every": "one training reads all tasks together: {article} {noun} may be in every task, and counts once for each",
}
_NETWORK: Mapping[Inputs, str] = {
    "features": "the network that computes the features",
    "images": "the network that computes the features",
    "text": "the language model before it is adapted, with its list of tokens",
}
_LABELS = {
    "prior": "the list of labels of each task, and which task a label belongs to, were public beforehand (oracle prior)",
    "prior-const": "one list of all labels was public beforehand",
    "dp-learned": "every {noun} has one label; which labels there are need not be public",
}
_RULE = "which task {article} {noun} belongs to depends on that {noun} alone, through a public rule"
_ROWS = (
    "group bound: noise is for one row, and {several} have at most {rows} that count, whatever tasks they are in: "
    "{rows} times a row's epsilon, at a delta that grows with it"
)
_KEPT_ROWS = (
    "of each {noun} at most {rows} {row_word} {count}, chosen by public coins of their own bytes: no other {noun}'s matter"
)
_SCOPE = "every classifier released along the stream, one after each task"
_SCOPE_OF_ONE = "the only classifier that is released, after the last task"
LISTS = "the list of labels of one task alone"
# Names of the separate releases of one method, each with its own epsilon.
CHANNELS = {"replay": "replay release", "head": "head"}
TOTAL = "replay and head together"
OF_ALL = "all "  # first word of the part for all models of a run together
_NOT_COVERED = {
    "no": "settings chosen by looking at results on the same data (tuning)",
    "public": "settings changed since by looking at results on the same data (tuning)",
    "private": "settings were tuned on the private data; that is not accounted",
}
_COUNTED = (
    "how many training examples there are in all, of each class and in each task is counted in the benchmark's files, and "
    "taken as public"
)
_TIMES = "how long the work took: times depend on the data, and are stored coarsely only"
_TUNED_ON_PUBLIC = (
    "settings were tuned on public data, in which none of the protected people is: so whoever set up the run declares, and "
    "nothing checks it"
)
FEW_PEOPLE = 500
WEAK_EPSILON = 8.0
# Templates, because the browser fills them too while a budget is dragged.
ODDS = (
    "Worst case, from even odds: guessing whether someone took part is right at most {percent} % of the time "
    "(50 % is a coin)."
)
NO_ODDS = "No bound: an attacker may be right every time."
EXACT_ODDS = (  # an upper bound: of a learned list of labels or of local copies, a ledger knows (epsilon, delta) alone
    "With exactly this ledger no guess is right more than {percent} % of the time; at 0.1 % false alarms none finds more "
    "than {hits} % of those who took part."
)
# Read from the data, a list of labels has no bound.
LIST_FROM_DATA = "The list of labels is read from the data: it can show with certainty that someone took part."
NOT_DP = "Not DP. {reason}"
SEEDED = "For teaching only: a recorded noise seed voids this bound."
GAUSSIAN_ODDS = "One Gaussian release with exactly this noise: the best possible guess is right {percent} % of the time."


@dataclass(frozen=True, slots=True)
class Words:
    """A guarantee in plain words. `banner` is set where there is no bound, or where a recorded seed voids it.

    `claimed` and `audited`: a publication's epsilon that no ledger supports, and the lower bound that an attack proved.
    `layer`: how the run relates to its method's publication, and everything in which it differs.
    """

    headline: str
    covered: tuple[str, ...]
    not_covered: tuple[str, ...]
    assumptions: tuple[str, ...]
    caveats: tuple[str, ...]
    odds: str
    banner: str | None
    is_private: bool
    claimed: str | None = None
    audited: str | None = None
    layer: str | None = None


Kind = Literal["proved", "nominal", "none"]
# What a budget is: a bound on all releases, a publication's claim, a bound on the replay where the head has none, or nothing
# but a wish ("none"), because the lists of labels are read from the data.
Standing = Literal["bound", "claimed", "replay", "none"]


def kind(given: Guarantee) -> Kind:
    """The support of a release's epsilon: a ledger ("proved"), a publication's claim ("nominal"), or nothing ("none")."""
    if given.is_private:
        return "proved"
    return "nominal" if given.claim is not None and math.isfinite(given.claim.epsilon) else "none"


def is_nominal(given: Guarantee) -> bool:
    """Whether its epsilon is only claimed: never show it as a bound, nor on one line with epsilons that are bounds."""
    return kind(given) == "nominal"


def guarantee(
    ledger: Ledger,
    spec: RunSpec,
    cell: Cell,
    *,
    unit: str,
    n_people: int,
    n_tasks: int,
    assumed: Sequence[str] = (),
    limits: Sequence[str] = (),
    planned: Planned | None = None,
    audit: AuditNote | None = None,
    notes: Sequence[str] = (),
    layer: Layer | None = None,
) -> Guarantee:
    """The guarantee of one cell, computed from its ledger.

    Args: unit: the privacy unit, one of `protected`; n_people: public nominal number of them in the training data; assumed:
    the stream's assumptions where no public rule says which task a record belongs to; limits: what these data leave
    unprotected, for this unit; planned: what all models of the run were planned to do;
    audit: the lower bound by an attack on the method's mechanism; notes: caveats of the method with these settings; layer:
    how these settings relate to the method's publication.
    """
    from dpcl_core.privacy import tradeoff  # loads the accountants, as the ledger has

    protected = PROTECTED[unit]
    best = tradeoff.of_ledger(ledger)
    words_of = {"noun": protected.noun, "article": protected.article}
    epsilon = ledger.epsilon()
    composition, rows = _composition(ledger), ledger.rows_per_unit
    if rows > 1:
        composition = f"{_ROWS.format(several=protected.several, rows=rows)}; of rows: {composition}"
        words_of = {"noun": "row", "article": "a"}
    parts = parts_of(
        ledger, one=protected.one, has_list=spec.labels == "dp-learned", n_tasks=n_tasks if protected.in_several else 1
    )
    n_models, scope = spec.n_cells, _SCOPE_OF_ONE if _is_joint(ledger) else _SCOPE
    assumptions = [
        *([] if spec.reads_labels else [_LABELS[spec.labels].format(**words_of)]),
        *(assumed or [_RULE.format(**words_of)]),
        f"the number of {protected.several} is public, and so is {_NETWORK[spec.params.inputs]}",
        *([] if spec.data.dataset.startswith("own:") else [_COUNTED]),
        *([_kept_rows(protected.noun, rows)] if unit == "person" else []),
        *(["which examples are in the subset is a public coin of each one's own bytes"] if spec.data.is_subset else []),
        *([_TUNED_ON_PUBLIC] if spec.tuned == "public" else []),
    ]
    not_covered = [_NOT_COVERED[spec.tuned], "the test examples, taken as public", _TIMES]
    not_covered += [*([protected.beyond] if protected.beyond else []), *limits]
    if ledger.recurrence == "once" and n_tasks > 1 and protected.in_several:
        not_covered.append(f"{protected.in_several}: see the sum for one in every task")
    if n_models > 1:
        line = f"the {n_models} models of this run taken together: each bound holds for one model alone"
        if planned is not None:
            line += f"; {all_planned(planned)}"
            parts[all_models(n_models, planned.delta, spec.privacy.delta)] = planned.epsilon
        not_covered.append(line)
    return Guarantee(
        epsilon=epsilon,
        delta=spec.privacy.delta,
        unit=protected.unit,
        adjacency=f"{spec.privacy.adjacency}: {protected.neighbours[spec.privacy.adjacency]}",
        composition=composition.format(**words_of),
        scope=f"{scope}, with its list of labels" if spec.labels == "dp-learned" else scope,
        claimed_epsilon=cell.epsilon,
        noise=spec.privacy.noise,
        assumptions=tuple(assumptions),
        not_covered=tuple(not_covered),
        caveats=_caveats(spec, cell, epsilon, n_people, protected, notes),
        parts=parts,
        claim=ledger.claimed,
        audit=audit,
        layer=layer,
        advantage=None if best is None else best.advantage,
        hits=None if best is None else best.hits,
    )


def _kept_rows(noun: str, rows: int) -> str:
    counted = ("row", "counts") if rows == 1 else ("rows", "count")
    return _KEPT_ROWS.format(noun=noun, rows=rows, row_word=counted[0], count=counted[1])


def parts_of(ledger: Ledger, *, one: str, has_list: bool, n_tasks: int) -> dict[str, float]:
    """The parts of a ledger's total by name: tasks, groups of people, channels, learned lists, a person in every task.

    `one`: whom the unit represents (`protected`); `has_list`: whether lists of labels were learned.
    """
    parts = {f"task {task + 1}": value for task, value in ledger.by_task().items()}
    if ledger.recurrence == "once" and _reads_other_tasks(ledger):
        parts |= ledger.by_people()
    if channels := ledger.by_channel():
        parts |= {shown_as: channels.get(name, 0.0) for name, shown_as in CHANNELS.items()} | {TOTAL: ledger.epsilon()}
    if has_list:
        parts[LISTS] = ledger.lists_alone()
    if n_tasks > 1:
        parts[f"the same {one} in every task"] = ledger.if_in_every_task()
    return parts


def all_models(n_models: int, delta: float, own_delta: float) -> str:
    """The name of the part for all models of a run together, with their delta where it differs from each one's own."""
    at = f", delta {delta:g}" if delta != own_delta else ""
    return f"{OF_ALL}{n_models} models of this run together{at}"


def all_planned(plan: Planned) -> str:
    """What all models of a run together may reveal, in words that are true before the first of them is released."""
    bound = "no bound" if math.isinf(plan.epsilon) else f"epsilon {shown(plan.epsilon)}, delta {plan.delta:g}"
    return f"together they have {bound}, as planned before the first release, even if the run ends early"


def _composition(ledger: Ledger) -> str:
    """How a ledger's entries compose for one unit, as a template."""
    if _is_joint(ledger):
        return _JOINT[ledger.recurrence]
    return _REUSED if ledger.recurrence == "once" and _reads_other_tasks(ledger) else _COMPOSITION[ledger.recurrence]


def _reads_other_tasks(ledger: Ledger) -> bool:
    """Whether data of one task are read when another is learned."""
    return any(entry.people_of != (entry.task,) for entry in ledger.entries)


def _is_joint(ledger: Ledger) -> bool:
    """Whether all tasks are learned together after the last one, and nothing but lists of labels is released before."""
    from dpcl_core.privacy.accounting import LabelListDpEvent  # loads the accountants, as the next line does
    from dpcl_core.privacy.labels import LIST_READ

    trained = [e for e in ledger.entries if not isinstance(e.event, LabelListDpEvent) and e.what != LIST_READ]
    return _reads_other_tasks(ledger) and len({entry.task for entry in trained}) == 1


def _caveats(
    spec: RunSpec, cell: Cell, epsilon: float, n_people: int, protected: Protected, notes: Sequence[str]
) -> tuple[str, ...]:
    caveats: list[str] = []
    if spec.reads_labels:
        caveats.append(LIST_FROM_DATA)
    if math.isinf(cell.epsilon):
        caveats.append("No noise was added: this is the result without differential privacy.")
    else:
        caveats += notes
    if math.isfinite(cell.epsilon) and spec.privacy.noise == "seeded":
        caveats.append("The noise is seeded so that the run can be repeated: anyone who knows the seed can subtract it.")
    if spec.tuned == "private":
        caveats.append("Settings were tuned on the private data, which is not accounted: the bound is not the whole story.")
    if math.isfinite(epsilon) and epsilon >= WEAK_EPSILON:
        caveats.append(f"At epsilon {shown(epsilon)} the worst-case odds protect little.")
    if n_people < FEW_PEOPLE:
        caveats.append(f"Only {n_people} {protected.several}: results are poor and the assumptions are fragile.")
    if spec.labels == "dp-learned" and math.isfinite(epsilon):
        caveats.append(
            "The list of labels is learned from the data within this bound: a label that few people have is left out on "
            "purpose, and their examples are not used."
        )
    if not spec.data.dataset.startswith("own:"):
        caveats.append("The datasets here are public: this is a simulation of what such a release would protect.")
    return tuple(caveats)


def by_channel(parts: Mapping[str, float]) -> dict[str, float]:
    """Epsilon of the replay (0: none), of the head (0: made from the replay alone), of both; empty for other methods."""
    return {name: parts[name] for name in (*CHANNELS.values(), TOTAL) if TOTAL in parts}


def ways_out(given: Guarantee) -> dict[str, float]:
    """The same by short names, for tables: "replay", "head", "total"."""
    return dict(zip((*CHANNELS, "total"), by_channel(given.parts).values(), strict=False))


def three_numbers(parts: Mapping[str, float]) -> str:
    """The epsilons of `by_channel` in one sentence, for every place that shows such a result; else empty."""
    epsilons = [shown(epsilon) for epsilon in by_channel(parts).values()]
    return "Replay ε = {}, head ε = {}, total ε = {}.".format(*epsilons) if epsilons else ""


def spent(guarantees: Mapping[float, Guarantee]) -> str:
    """The three numbers of every budget of a run, for the line under its figures; empty for methods with one channel."""
    budgets = [(requested, ways_out(one)) for requested, one in guarantees.items() if ways_out(one)]
    lines = [
        (f"asked for {shown(requested)}: " if len(budgets) > 1 else "")
        + ", ".join(f"{name} ε = {shown(epsilon)}" for name, epsilon in epsilons.items())
        for requested, epsilons in budgets
    ]
    return "; ".join(lines)


def standing(given: Guarantee) -> Standing:
    """The kind of guarantee that the requested budget of a release has."""
    if is_nominal(given):
        return "claimed"
    if given.is_private:
        return "bound"
    if 0 < ways_out(given).get("replay", 0.0) < math.inf:
        return "replay"
    asked = given.claimed_epsilon
    return "none" if asked is not None and math.isfinite(asked) else "bound"


def words(given: Guarantee) -> Words:
    """The guarantee in words, for every surface. With several channels each headline gives their epsilons."""
    channels = f" {three_numbers(given.parts)}".rstrip()
    layer = None if given.layer is None else given.layer.words
    if not given.is_private:
        reason = given.caveats[0] if given.caveats else "It contains a step without a bound."
        unbounded = Words(
            headline=f"Not differentially private: there is no bound on what a release tells about one person.{channels}",
            covered=(),
            not_covered=("everything: no bound holds", *given.not_covered),
            assumptions=given.assumptions,
            caveats=given.caveats,
            odds=NO_ODDS,
            banner=f"{NOT_DP.format(reason=reason)}{channels}",
            is_private=False,
            layer=layer,
        )
        return _with_claim(unbounded, given, channels) if is_nominal(given) else unbounded
    return Words(
        headline=headline(given.unit, given.epsilon, given.delta, given.parts),
        covered=(given.scope, f"any {given.unit}, under {given.adjacency}"),
        not_covered=given.not_covered,
        assumptions=given.assumptions,
        caveats=given.caveats,
        odds=odds(given.epsilon, given.delta) + exact_odds(given.advantage, given.hits),
        banner=SEEDED if given.noise == "seeded" else None,
        is_private=True,
        layer=layer,
    )


def headline(unit: str, epsilon: float, delta: float, parts: Mapping[str, float]) -> str:
    """A finite bound in one sentence, and the epsilons of `by_channel`."""
    factor = shown(math.exp(epsilon)) if epsilon < 20 else f"e^{shown(epsilon)}"
    return (
        f"For any {unit}, taking part makes any outcome at most {factor} times as likely (epsilon {shown(epsilon)}), plus "
        f"{delta:g} (delta). {three_numbers(parts)}"
    ).rstrip()


def _with_claim(unbounded: Words, given: Guarantee, channels: str) -> Words:
    """The words for an epsilon that a publication claims and the method's mechanism does not deliver."""
    assert given.claim is not None
    claimed = f"Claimed ε = {shown(given.claim.epsilon)} ({given.claim.source}, not verified)."
    if given.claim.accounted is not None:
        claimed += f" The same noise accounted, if its other premises held: ε = {shown(given.claim.accounted)}."
    audited, proof = None, "no ledger bears it out."
    if given.audit is not None:
        least = f"{math.floor(10 * given.audit.lower_bound) / 10:g}"  # a lower bound is rounded down
        audited = (
            f"Audit: ε ≥ {least} at {100 * given.audit.confidence:g} % confidence, {given.audit.trials:,} releases a side "
            f"({given.audit.attack}). The attacker {given.audit.adversary}."
        )
        proof = f"an audit proved at least {least}."
    headline, banner = f"{claimed} {unbounded.headline}", f"{claimed} No bound: {proof}{channels}"
    return replace(unbounded, headline=headline, banner=banner, claimed=claimed, audited=audited)


def odds_bound(epsilon: float, delta: float) -> float:
    """Largest probability of a right guess whether someone took part, from even odds: (e^eps + delta) / (1 + e^eps)."""
    if epsilon > 700:
        return 1.0
    return min(1.0, (math.exp(epsilon) + delta) / (1 + math.exp(epsilon)))


def odds(epsilon: float, delta: float) -> str:
    """The odds line beside every epsilon."""
    if math.isinf(epsilon):
        return NO_ODDS
    return ODDS.format(percent=f"{math.ceil(odds_bound(epsilon, delta) * 1e4 - 1e-6) / 100:g}")  # a bound is rounded up


def exact_odds(advantage: float | None, hits: float | None) -> str:
    """What no attack on this ledger exceeds, in a sentence to follow `odds`; empty where unknown."""
    if advantage is None or hits is None:
        return ""
    right, hits_percent = (math.ceil(1e4 * value - 1e-6) / 100 for value in ((1 + advantage) / 2, hits))  # both are bounds
    return f" {EXACT_ODDS.format(percent=f'{right:g}', hits=f'{hits_percent:g}')}"


def gaussian_odds_bound(sigma: float, sensitivity: float = 1.0) -> float:
    """Probability of a right guess by the best test on one Gaussian release, even odds: Phi(sensitivity / (2 sigma))."""
    return 1.0 if sigma == 0 else 0.5 * math.erfc(-sensitivity / (2 * sigma) / math.sqrt(2))


def at_least(epsilon: float) -> str:
    """A lower bound as it is printed: two decimals, rounded down."""
    return f"{math.floor(100 * epsilon) / 100:.2f}"


def shown(value: float) -> str:
    """A number about privacy as it is printed: three digits, or all before the point; rounded up, infinity as ∞."""
    if math.isinf(value):
        return "∞"
    if value == 0:
        return "0"
    digits = max(0, 2 - math.floor(math.log10(abs(value))))
    # An accountant's rounding in the seventh digit is no reason to print 1.01 for a calibrated 1.
    rounded = math.ceil(value * 10.0**digits * (1 - 1e-7)) / 10.0**digits
    return f"{rounded:,.{digits}f}".rstrip("0").rstrip(".") if digits > 0 else f"{rounded:,.0f}"
