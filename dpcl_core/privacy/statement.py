"""The privacy statement of a release: headline, odds, banner, and all of it as text; `guarantee` has the lines beside."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Literal

from dpcl_core.events import Guarantee, Planned

LISTS = "the list of labels of one task alone"
# Names of the separate releases of one method, each with its own epsilon.
CHANNELS = {"replay": "replay release", "head": "head"}
TOTAL = "replay and head together"
OF_ALL = "all "  # first word of the part for all models of a run together
WEAK_EPSILON = 8.0
# Templates, because the browser fills them too while a budget is dragged.
ODDS = "An attacker who guesses whether you took part is right at most {percent} % of the time. A coin: 50 %."
NO_ODDS = "No bound: an attacker may be right every time."
EXACT_ODDS = (  # an upper bound: of a learned list of labels or of local copies, a ledger knows (epsilon, delta) alone
    "For this run an attacker is right at most {percent} % of the time; accusing 1 in 1,000 wrongly, it finds at most "
    "{hits} % of those who took part."
)
# Read from the data, a list of labels has no bound.
LIST_FROM_DATA = "The list of labels is read from the data: it can show with certainty that someone took part."
NOT_DP = "Not DP. {reason}"
SEEDED = "For teaching only: a recorded noise seed voids this bound."


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


def all_models(n_models: int, delta: float, own_delta: float) -> str:
    """The name of the part for all models of a run together, with their delta where it differs from each one's own."""
    at = f", delta {delta:g}" if delta != own_delta else ""
    return f"{OF_ALL}{n_models} models of this run together{at}"


def all_planned(plan: Planned) -> str:
    """What all models of a run together may reveal, in words that are true before the first of them is released."""
    bound = "no bound" if math.isinf(plan.epsilon) else f"epsilon {shown_number(plan.epsilon)}, delta {plan.delta:g}"
    return f"together they have {bound}, as planned before the first release, even if the run ends early"


def by_channel(parts: Mapping[str, float]) -> dict[str, float]:
    """Epsilon of the replay (0: none), of the head (0: made from the replay alone), of both; empty for other methods."""
    return {name: parts[name] for name in (*CHANNELS.values(), TOTAL) if TOTAL in parts}


def ways_out(given: Guarantee) -> dict[str, float]:
    """The epsilons of `by_channel` under short names, for tables: "replay", "head", "total"."""
    return dict(zip((*CHANNELS, "total"), by_channel(given.parts).values(), strict=False))


def three_numbers(parts: Mapping[str, float]) -> str:
    """The epsilons of `by_channel` in one sentence, for every place that shows such a result; else empty."""
    epsilons = [shown_number(epsilon) for epsilon in by_channel(parts).values()]
    return "Replay ε = {}, head ε = {}, total ε = {}.".format(*epsilons) if epsilons else ""


def spent(guarantees: Mapping[float, Guarantee]) -> str:
    """The three numbers of every budget of a run, for the line under its figures; empty for methods with one channel."""
    budgets = [(requested, ways_out(one)) for requested, one in guarantees.items() if ways_out(one)]
    lines = [
        (f"asked for {shown_number(requested)}: " if len(budgets) > 1 else "")
        + ", ".join(f"{name} ε = {shown_number(epsilon)}" for name, epsilon in epsilons.items())
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


def guarantee_words(given: Guarantee) -> Words:
    """The guarantee in words, for every surface. With several channels each headline gives their epsilons."""
    bounded = Words(
        headline=headline(given.unit, given.epsilon, given.delta, given.parts),
        covered=(given.scope, f"any {given.unit}, under {given.adjacency}"),
        not_covered=given.not_covered,
        assumptions=given.assumptions,
        caveats=given.caveats,
        odds=odds(given.epsilon, given.delta) + exact_odds(given.advantage, given.hits),
        banner=SEEDED if given.noise == "seeded" else None,
        is_private=True,
        layer=None if given.layer is None else given.layer.words,
    )
    if given.is_private:
        return bounded
    channels = f" {three_numbers(given.parts)}".rstrip()
    reason = given.caveats[0] if given.caveats else "It contains a step without a bound."
    unbounded = replace(
        bounded,
        headline=f"Not differentially private: there is no bound on what a release tells about one person.{channels}",
        covered=(),
        not_covered=("everything: no bound holds", *given.not_covered),
        odds=NO_ODDS,
        banner=f"{NOT_DP.format(reason=reason)}{channels}",
        is_private=False,
    )
    if not is_nominal(given) or given.claim is None:
        return unbounded
    # An epsilon that a publication claims and the method's mechanism does not deliver.
    claimed = f"Claimed ε = {shown_number(given.claim.epsilon)} ({given.claim.source}, not verified)."
    if given.claim.accounted is not None:
        claimed += f" The same noise accounted, if its other premises held: ε = {shown_number(given.claim.accounted)}."
    audited, proof = None, "no ledger bears it out."
    if given.audit is not None:
        least = f"{math.floor(10 * given.audit.lower_bound) / 10:g}"  # a lower bound is rounded down
        audited = (
            f"Audit: ε ≥ {least} at {100 * given.audit.confidence:g} % confidence, {given.audit.trials:,} releases a side "
            f"({given.audit.attack}). The attacker {given.audit.adversary}."
        )
        proof = f"an audit proved at least {least}."
    said, banner = f"{claimed} {unbounded.headline}", f"{claimed} No bound: {proof}{channels}"
    return replace(unbounded, headline=said, banner=banner, claimed=claimed, audited=audited)


def headline(unit: str, epsilon: float, delta: float, parts: Mapping[str, float]) -> str:
    """A finite bound in one sentence, and the epsilons of `by_channel`."""
    factor = shown_number(math.exp(epsilon)) if epsilon < 20 else f"e^{shown_number(epsilon)}"
    more = f", and 1 in {math.floor((1 + 1e-9) / delta):,} more" if delta > 0 else ""  # rounded down: no promise too much
    return (
        f"Whatever is published is at most {factor} times likelier because of any {unit}{more} "
        f"(epsilon {shown_number(epsilon)}, delta {delta:g}). {three_numbers(parts)}"
    ).rstrip()


def earlier_headline(unit: str, epsilon: float, delta: float, parts: Mapping[str, float]) -> str:
    """The same bound in the words of cards written before 2026-11-29, which stay valid."""
    factor = shown_number(math.exp(epsilon)) if epsilon < 20 else f"e^{shown_number(epsilon)}"
    return (
        f"For any {unit}, taking part makes any outcome at most {factor} times as likely "
        f"(epsilon {shown_number(epsilon)}), plus {delta:g} (delta). {three_numbers(parts)}"
    ).rstrip()


def odds_bound(epsilon: float, delta: float) -> float:
    """Largest probability of a right guess whether someone took part, from even odds: (e^eps + delta) / (1 + e^eps)."""
    return 1.0 if epsilon > 700 else min(1.0, (math.exp(epsilon) + delta) / (1 + math.exp(epsilon)))


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


def shown_number(value: float) -> str:
    """A number about privacy as it is printed: three digits, or all before the point; rounded up, infinity as ∞."""
    if math.isinf(value):
        return "∞"
    if value == 0:
        return "0"
    digits = max(0, 2 - math.floor(math.log10(abs(value))))
    # An accountant's rounding in the seventh digit is no reason to print 1.01 for a calibrated 1.
    rounded = math.ceil(value * 10.0**digits * (1 - 1e-7)) / 10.0**digits
    return f"{rounded:,.{digits}f}".rstrip("0").rstrip(".") if digits > 0 else f"{rounded:,.0f}"


# The statement of a run as plain text, for terminals and files, in the same words as in the app.


def text(guarantees: Mapping[float, Guarantee]) -> str:
    """The statement of a run by requested epsilon: each budget, then what holds for all of them."""
    lists = {requested: _lists(given) for requested, given in guarantees.items()}
    common = [line for line in next(iter(lists.values()), []) if all(line in other for other in lists.values())]
    lines: list[str] = []
    for requested, given in guarantees.items():
        said, specific = guarantee_words(given), [line for line in lists[requested] if line not in common]
        first = [line for line in (said.banner, said.headline, said.audited, said.odds) if line]
        lines += [_budget_sentence(requested, given), *(f"  {line}" for line in (*first, *specific))]
    return "\n".join([*lines, *common]) + "\n"


def _budget_sentence(requested: float, given: Guarantee) -> str:
    budget = f"Asked for epsilon {shown_number(requested)}"
    if is_nominal(given):
        return f"{budget}, which is claimed and not verified; accounted: no bound."
    if standing(given) == "replay":
        return f"{budget} for the replay alone; the head is not private, and the whole has no bound."
    return f"{budget}: accounted epsilon {shown_number(given.epsilon)}, delta {given.delta:g}."


def _lists(given: Guarantee) -> list[str]:
    said = guarantee_words(given)
    named = {"Covered": said.covered, "Not covered": said.not_covered, "Assumed": said.assumptions, "Note": said.caveats}
    return [
        *(f"{name}: {line}" for name, lines in named.items() for line in lines),
        *([f"Layer: {said.layer}"] if said.layer is not None else []),
        f"Composition: {given.composition}",
        f"By part: {_parts(given.parts)}",
        *([f"Claimed by part: {_parts(given.claim.terms)}"] if given.claim is not None else []),
    ]


def _parts(parts: Mapping[str, float]) -> str:
    """Parts with their epsilons, consecutive tasks of equal epsilon merged: "task 1 to task 5: epsilon 1"."""
    spans = []
    for _, group in groupby(parts, key=lambda name: shown_number(parts[name]) if name.startswith("task ") else name):
        first, *others = group
        span = f"{first} to {others[-1]}" if others else first
        spans.append(f"{span}: epsilon {shown_number(parts[first])}")
    return "; ".join(spans)
