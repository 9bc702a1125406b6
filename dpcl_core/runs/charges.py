"""What runs on a person's own data cost, and the budgets that their owner declares for all runs on the same rows.

Nothing is read but plans, so no private row changes what was spent, what is left and what is refused. A run is charged
before it starts, by what it asks for; from its first release on by the plan that it has entered (`events.Planned`), which
it cannot exceed. A run that never started has released nothing and costs nothing. One that started costs all that it may
release, however it ended: it may be resumed, and may have had results that nobody stored. So no budget is exceeded by
stopping, and a resumed run is charged once.

Why the sum is a bound for one unit (`together`): whatever the others have released, each run without a plan is (e, d)-DP by
what it asks for, as its models are and these add up. All mechanisms in the plans of all runs form one adaptive composition,
of which the accountant gives the (e, d) (`privacy.recount`: a seed of each run is one of its seeds). By basic composition
(Dwork and Roth 2014, Theorem 3.16, which holds for adaptive choices, too) epsilons and deltas of both add up.

The unit is a person, named by a column, or a row, and is left out. A row is left out in two steps where a run protects a
group that has it, a client or a person: the group leaves, and comes back without it. So a run that is (e, d)-DP for groups
is (2 e, d (1 + exp(e)))-DP for rows (`privacy.budgets`). What protects anything but the person of this column has no bound
for a person; what protects a row that is exchanged ("replace") may show how many there are, and has none for one left out.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from sqlalchemy import Connection, case, or_, select

from dpcl_core import checks
from dpcl_core.data import catalog as datasets
from dpcl_core.data import own
from dpcl_core.errors import BadInput
from dpcl_core.events import Planned, plain
from dpcl_core.methods import catalog as methods
from dpcl_core.metrics import grouped
from dpcl_core.privacy.statement import OF_ALL, all_models, shown_number
from dpcl_core.runs import tables
from dpcl_core.runs.run import spec_of
from dpcl_core.spec import SMALLEST_DELTA, RunSpec

OWN = "own:"  # before the name that an owner gave a dataset
# What a run of the queue gives away: its models; numbers that are read without noise; nothing, or what another run counts.
Gives = Literal["models", "numbers", "nothing"]
Bound = tuple[float, float]  # (epsilon, delta); an infinite epsilon: none is known
_NO_BOUND: Bound = (math.inf, 0.0)
_CLIENTS = "\x7f"  # no column's name
_ROUNDING = 1 + 1e-9  # ten times a tenth is one
_RULE = "Runs compose in sequence: those that have begun by their plans, all others by what they ask for."

_runs = tables.runs.c
_private = tables.studies.c.settings["on"].as_string() == "private"
_numbers = select(tables.audits.c.id).union_all(select(tables.turns.c.run_id).join(tables.studies).where(_private))
_gives = case(
    (_runs.id.in_(_numbers), "numbers"), (_runs.id.in_(tables.of_others), "nothing"), else_="models"
).label("gives")


@dataclass(frozen=True, slots=True)
class Budget:
    """A budget declared for all runs on the same rows. `unit`: the column of the people whom it protects; empty: rows.

    `dataset`: the name of data that have no marks, which are known by it alone. `spent`: a bound on what counts against it.
    """

    number: int
    dataset: str | None
    marks: Sequence[str]
    unit: str
    epsilon: float
    delta: float
    spent: Bound = (0.0, 0.0)

    @property
    def left(self) -> Bound:
        """What is left, rounded down to three digits; nothing where more was spent, or where no bound is known."""
        return _down(self.epsilon - self.spent[0]), _down(self.delta - self.spent[1])

    def sentence(self, dataset: str) -> str:
        """The account in words for data that it holds for, with the rule by which it adds up."""
        one = f"one person (column {self.unit})" if self.unit else "one row"
        spent = _words(self.spent) if math.isfinite(self.spent[0]) else "no bound is known of what was released"
        whole = f"Budget of {dataset} for all runs on these rows: {_words((self.epsilon, self.delta))}, for {one} left out."
        return f"{whole} Spent: {spent}. Left: {_words(self.left)}. {_RULE}"

    def document(self, dataset: str) -> object:
        """The same as JSON."""
        whole = {"dataset": dataset, "unit": self.unit or None, "epsilon": self.epsilon, "delta": self.delta}
        return plain({**whole, "spent": self.spent, "left": self.left})


@dataclass(frozen=True, slots=True)
class Charge:
    """The cost of a run: its plan, with the delta of each model, or else a bound."""

    bound: Bound
    plan: Planned | None = None
    delta: float = 0.0


def declared(connection: Connection, dataset: str) -> list[Budget]:
    """The budgets declared for rows that a dataset has, under this name, another one, or one deleted since."""
    known, budgets = own.kept_marks(dataset), [Budget(*row) for row in connection.execute(select(tables.budgets))]
    return [one for one in budgets if one.dataset == dataset or known.intersection(one.marks)]


def check_spend(
    connection: Connection, spec: RunSpec, gives: Gives = "models", *, but: str | None = None, is_start: bool = False
) -> None:
    """Raises BadInput, with what is left and what would fit, for a run that would exceed a budget; it reads no row.

    Within the transaction that queues it: of two at once, the second finds the first one's charge. `but`, `is_start`: as
    `charges` takes them.
    """
    if gives == "nothing" or not spec.data.dataset.startswith(OWN):
        return
    tables.take(connection, tables.QUEUE)
    for budget in declared(connection, spec.data.dataset):
        before, new = charges(connection, budget, but=but, is_start=is_start), _charge(spec, gives, budget.unit)
        epsilon, delta = together([*before, new])
        if epsilon > budget.epsilon * _ROUNDING or delta > budget.delta * _ROUNDING:
            raise _refusal(spec, gives, replace(budget, spent=together(before)), new.bound)


def check_again(connection: Connection, run_id: str, *, is_start: bool) -> None:
    """The same of a stored run, by what the others cost: a budget may have been declared since it was queued."""
    row = connection.execute(select(_runs.spec, _gives).where(_runs.id == run_id)).one()
    if (spec := spec_of(row.spec)) is not None:
        check_spend(connection, spec, row.gives, but=run_id, is_start=is_start)


def charges(connection: Connection, budget: Budget, *, but: str | None = None, is_start: bool = False) -> list[Charge]:
    """What counts against a budget: runs that were started or wait, deleted ones, and those on data deleted since.

    `but`: a run that does not count. `is_start`: those that wait do not, as they are asked in their turn.
    """
    counts = _runs.started.is_not(None) if is_start else or_(_runs.started.is_not(None), _runs.status == "queued")
    names = own.named_by_marks(budget.marks) if budget.dataset is None else [budget.dataset]
    query = select(_runs.id, _runs.spec, _runs.started, _gives).where(tables.dataset.in_(names), counts, _runs.id != but)
    rows = [row for row in connection.execute(query) if row.gives != "nothing"]
    told = select(tables.events.c.run_id, tables.events.c.payload).where(tables.events.c.kind == Planned.__name__)
    in_turn = connection.execute(told.where(tables.events.c.run_id.in_([row.id for row in rows])))
    plans = {one.run_id: plan for one in in_turn if isinstance(plan := tables.read_event(one.payload), Planned)}
    found = [(row, _charge(spec_of(row.spec), row.gives, budget.unit, plans.get(row.id))) for row in rows]
    # One that waits and has no bound cannot start: `check_again`.
    now = [charge for row, charge in found if row.started is not None or math.isfinite(charge.bound[0])]
    kept = [row for row in connection.execute(select(tables.kept_looks)) if set(row.marks).intersection(budget.marks)]
    return [*now, *(Charge(_for(budget.unit, row.unit, (row.epsilon, row.delta))) for row in kept)]


def together(of: Sequence[Charge]) -> Bound:
    """A bound on all of these together, proved above."""
    several = [one.bound for one in of if one.plan is None]
    several += _composed(of) if len(several) < len(of) else ()
    epsilons, deltas = zip(*several, (0.0, 0.0), strict=True)
    return math.fsum(epsilons), math.fsum(deltas)


def _composed(of: Sequence[Charge]) -> list[Bound]:
    """The bounds of all plans, of those for units of as many rows together, or else each plan's own."""
    from dpcl_core.privacy import recount  # loads the accountants
    from dpcl_core.privacy.accounting import LabelListDpEvent, Pld

    planned, found = ((one.plan, one) for one in of if one.plan is not None), list[Bound]()
    for plans in grouped((plan.ledgers[0][1].rows_per_unit, (plan, one)) for plan, one in planned).values():
        total, delta = Counter[Any](), max(one.delta for _, one in plans)
        for plan, _ in plans:
            total += recount.costs_of_all(plan.learners, dict(plan.ledgers))
        has_lists = any(isinstance(event, LabelListDpEvent) for event in total)  # each costs a delta of its own
        at = delta * sum(len(learner) for plan, _ in plans for learner in plan.learners) if has_lists else delta
        epsilon = recount.Recount(Pld(), delta, plans[0][0].ledgers[0][1]).epsilon(total, at) if at < 1 else math.inf
        found += [(epsilon, at)] if math.isfinite(epsilon) else [one.bound for _, one in plans]
    return found


def _charge(spec: RunSpec | None, gives: Gives, unit: str, plan: Planned | None = None) -> Charge:
    if spec is None or gives == "numbers":
        return Charge(_NO_BOUND)
    protects = unit_of(spec)
    if plan is None or not _is_bounded(spec):
        return Charge(_for(unit, protects, released_bound(spec, None)))
    bound = _for(unit, protects, (plan.epsilon, plan.delta))
    return Charge(bound, plan if protects == unit and math.isfinite(bound[0]) else None, spec.privacy.delta)


def _for(unit: str, protects: str | None, bound: Bound) -> Bound:
    """The bound for a budget's unit, of a run that `protects` another one (see `unit_of`)."""
    if protects == unit:
        return bound
    epsilon, delta = bound
    return _NO_BOUND if unit or protects is None or epsilon > 700 else (2 * epsilon, delta * (1 + math.exp(epsilon)))


def unit_of(spec: RunSpec) -> str | None:
    """Who may be left out of a run unnoticed: a person, by the name of the column; a row: empty; a client; None: nobody."""
    if spec.privacy.adjacency == "replace":
        return None
    return people(spec.data.dataset) if spec.scenario.n_users is None else _CLIENTS


def people(dataset: str) -> str | None:
    """The column of people in own data; empty where there is none; None for data that are not here."""
    with suppress(BadInput):
        return dict(datasets.card(dataset).roles).get("person", "")
    return None


def released_bound(spec: RunSpec, stated: Mapping[str, Any] | None) -> Bound:
    """(epsilon, delta) of all models of a run: as its ledgers add up (`joint_release`), before by its budgets.

    `stated`: what the run has stated of one of its models.
    """
    n, delta = spec.n_cells, spec.privacy.delta
    if not _is_bounded(spec):
        return math.inf, n * delta
    for name, total in (stated or {}).get("parts", {}).items():
        if name.startswith(OF_ALL) and math.isfinite(float(total)):
            return float(total), delta if name == all_models(n, delta, delta) else n * delta
    if stated is not None and spec.params.is_noise_given and n == 1:
        return float(stated["epsilon"]), delta
    if spec.params.shares_batches and len(spec.privacy.epsilons) > 1:
        return math.inf, n * delta
    # As asked for: no bound where noise is set, or epsilon is asked for a part, whatever it is.
    return math.fsum(cell.epsilon for cell in spec.cells()) if spec.params.is_total_asked else math.inf, n * delta


def _is_bounded(spec: RunSpec) -> bool:
    """Whether a run's budgets bound all that it releases, whatever the data are."""
    is_proved = methods.CARDS[spec.method].guarantee == "proved" and methods.standing(spec) == "bound"
    return is_proved and spec.privacy.noise == "release"


def _refusal(spec: RunSpec, gives: Gives, budget: Budget, asked: Bound) -> BadInput:
    fix: dict[str, object] = {}
    if gives == "numbers":
        key, value, why = "data.dataset", spec.data.dataset, "admits nothing that is read without noise, or counted nowhere"
    else:
        key = "privacy.delta" if asked[0] <= budget.left[0] else "privacy.epsilons"
        value = f"{spec.privacy.delta:g}" if key == "privacy.delta" else ", ".join(map(shown_number, spec.privacy.epsilons))
        fix, n = _fix(spec, budget), spec.n_cells
        of_all = f"for all {n} models" if n > 1 else "for the model"
        why = f"{of_all} that is up to {_words(asked)}" if math.isfinite(asked[0]) else f"no bound is known {of_all}"
    whole = f"the budget of all runs on these {'people' if budget.unit else 'rows'}"
    said = f"{why}, and {_words(budget.left)} is left of {whole}, {_words((budget.epsilon, budget.delta))}"
    return BadInput(key, value, said, fix)


def _fix(spec: RunSpec, budget: Budget) -> dict[str, object]:
    """One model that fits into what is left: at the largest of the budgets asked for that does, else at all of it."""
    (epsilon, delta), asked = budget.left, spec.privacy
    largest = max((one for one in asked.epsilons if one <= epsilon), default=epsilon)
    privacy = {"epsilons": (largest,), "delta": min(asked.delta, delta), "adjacency": "add-remove", "noise": "release"}
    changes = {**{f"privacy.{name}": one for name, one in privacy.items()}, "seeds": spec.seeds[:1]}
    if not epsilon or delta < SMALLEST_DELTA:
        return {}
    needed = _charge(checks.parse(checks.changed(asdict(spec), changes)), "models", budget.unit).bound
    before = {**{f"privacy.{name}": getattr(asked, name) for name in privacy}, "seeds": spec.seeds}
    fits = needed[0] <= epsilon and needed[1] <= delta
    return {key: value for key, value in changes.items() if value != before[key]} if fits else {}


def _words(bound: Bound) -> str:
    return f"epsilon {shown_number(bound[0])}, delta {bound[1]:.3g}"


def _down(value: float) -> float:
    """The number rounded down to three digits; 0 where it is negative."""
    if not value > 0:
        return 0.0
    scale = 10.0 ** (2 - math.floor(math.log10(value)))
    return float(f"{math.floor(value * scale * _ROUNDING) / scale:.3g}")
