"""What runs on a person's own data cost, and whether a run fits into the budgets that were declared for its rows.

A run is charged before it starts, by what it asks for; a model that has finished, by its ledger. Nothing else is read: no
private row changes what was spent, what is left and what is refused. A run that never started has released nothing and costs
nothing; one that started costs all that it may still release, however it ended, as it may be resumed or had results that
nobody stored. So a budget cannot be exceeded by stopping, and a resumed run is charged once. Two bounds are used (`bounds`):

* All models together. Run i is (e_i, d_i)-DP for one unit, whatever the runs before it released. Basic composition (Dwork
  and Roth 2014, Theorem 3.16 and its adaptive form): all of them are (sum of e_i, sum of d_i)-DP.
* Models whose ledgers are known, by these. Their mechanisms form one adaptive composition, whose (e, d) the accountant
  gives at one delta (`privacy.joint_release`, for which each seed of each run is a seed of its own); with all others, that
  is again basic composition. Which bound is used depends on public numbers alone, so the smaller one may be taken.

The unit is a person, named by a column, or a row. A row is left out in two steps where a run protects a group that has it, a
client or a person: the group leaves, and comes back without it. So a run that is (e, d)-DP for groups is, for rows,
(2 e, d (1 + exp(e)))-DP (`privacy.group`). A run that protects anything but the person of this column has no bound for a
person. A budget is about a unit that is left out: a run under "replace" may show how many there are, and has no bound for it.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from sqlalchemy import Connection, Row, select

from dpcl_core import checks
from dpcl_core.data import catalog as datasets
from dpcl_core.data import marks
from dpcl_core.errors import BadInput
from dpcl_core.events import CellFinished, Written
from dpcl_core.methods import catalog as methods
from dpcl_core.privacy import statement
from dpcl_core.privacy.statement import shown
from dpcl_core.runs import event_rows, locks, tables
from dpcl_core.spec import SMALLEST_DELTA, Cell, RunSpec

OWN = "own:"  # before the name that an owner gave a dataset
# What a run of the queue gives away: its models, numbers that are read without noise, or nothing that others do not count.
Gives = Literal["models", "numbers", "nothing"]
Bound = tuple[float, float]  # (epsilon, delta); an infinite epsilon: none is known
_NO_BOUND: Bound = (math.inf, 0.0)
_CLIENTS = "\x7f"  # no column's name
_ROUNDING = 1 + 1e-9  # ten times a tenth is one


@dataclass(frozen=True, slots=True)
class Budget:
    """A declared budget for all runs on the same rows. `unit`: the column of the people whom it protects; empty: rows.

    `dataset`: the name of data that have no marks, which are known by it alone.
    """

    number: int
    dataset: str | None
    marks: Sequence[str]
    unit: str
    epsilon: float
    delta: float

    @property
    def protected(self) -> str:
        return "people" if self.unit else "rows"

    def holds(self, bound: Bound) -> bool:
        """Whether so much is within the budget."""
        return bound[0] <= self.epsilon * _ROUNDING and bound[1] <= self.delta * _ROUNDING

    def left(self, spent: Bound) -> Bound:
        """What is left of it, rounded down to three digits; nothing where more was spent, or where no bound is known."""
        return _down(self.epsilon - spent[0]), _down(self.delta - spent[1])


@dataclass(frozen=True, slots=True)
class Charge:
    """A run's cost: the bound on its `whole`; the ledgers of finished models, with their `delta`, and the `rest`'s bound."""

    whole: Bound
    rest: Bound = _NO_BOUND
    ledgers: Mapping[Cell, Written] = field(default_factory=dict)
    delta: float = 0.0

    @property
    def rows(self) -> set[int]:
        """How many rows a unit has at most, if there are ledgers: those that agree in it compose."""
        return {one.rows_per_unit for one in self.ledgers.values()}


def declared(connection: Connection, dataset: str) -> list[Budget]:
    """The budgets declared for rows that a dataset has, under this name, another one, or one deleted since."""
    known, budgets = marks.kept(dataset), [Budget(*row) for row in connection.execute(select(tables.budgets))]
    return [one for one in budgets if one.dataset == dataset or known.intersection(one.marks)]


def check(connection: Connection, spec: RunSpec, gives: Gives = "models") -> None:
    """Raises BadInput, with what is left and what would fit, for a run that would exceed a budget; it reads no row.

    Within the transaction that queues it: of two at once, the second finds the first one's charge.
    """
    _check(connection, spec, gives, None, is_start=False)


def check_again(connection: Connection, run_id: str, *, is_start: bool) -> None:
    """The same of a stored run, by its other runs' charges: a budget may have been declared since it was queued.

    `is_start`: those that only wait do not count, since they are asked in their turn.
    """
    row = connection.execute(_ROWS.where(tables.runs.c.id == run_id)).one_or_none()
    if row is not None and row.shard is None and (spec := spec_of(row.spec)) is not None:
        _check(connection, spec, _gives(row), run_id, is_start=is_start)


def _check(connection: Connection, spec: RunSpec, gives: Gives, but: str | None, *, is_start: bool) -> None:
    if gives == "nothing" or not spec.data.dataset.startswith(OWN):
        return
    locks.take(connection, locks.QUEUE)
    for budget in declared(connection, spec.data.dataset):
        before = charges(connection, budget, but=but, launched_alone=is_start)
        new = _charge(spec, gives, budget.unit, ())
        if not any(map(budget.holds, bounds([*before, new]))):
            raise _refusal(spec, gives, budget, new.whole, budget.left(spent(budget, before)))


def charges(
    connection: Connection, budget: Budget, *, but: str | None = None, launched_alone: bool = False
) -> list[Charge]:
    """What counts against a budget: runs that were started or wait, deleted ones, and those on data deleted since.

    `but`: a run that does not count.
    """
    runs = tables.runs.c
    counted = runs.started.is_not(None) if launched_alone else runs.started.is_not(None) | (runs.status == "queued")
    names = marks.named(budget.marks) if budget.dataset is None else [budget.dataset]
    rows = connection.execute(_ROWS.where(tables.dataset.in_(names), counted, runs.id != but)).all()
    rows = [row for row in rows if row.shard is None and _gives(row) != "nothing"]
    told = select(tables.events.c.run_id, tables.events.c.payload).where(
        tables.events.c.run_id.in_([row.id for row in rows]), tables.events.c.kind == CellFinished.__name__
    )
    finished: dict[str, list[CellFinished]] = {row.id: [] for row in rows}
    for one in connection.execute(told):
        if isinstance(event := event_rows.read(one.payload), CellFinished):
            finished[one.run_id].append(event)
    found = [(row, _charge(spec_of(row.spec), _gives(row), budget.unit, finished[row.id])) for row in rows]
    # One that waits and has no bound cannot start: `check_again`.
    now = [charge for row, charge in found if row.started is not None or math.isfinite(charge.whole[0])]
    kept = connection.execute(select(tables.kept_looks)).all()
    deleted = [row for row in kept if set(row.marks).intersection(budget.marks)]
    return [*now, *(Charge(_for(budget.unit, row.unit, (row.epsilon, row.delta))) for row in deleted)]


def bounds(of: Sequence[Charge]) -> Iterator[Bound]:
    """Bounds on all of these together, each proved (see above): by what runs have in all, and by ledgers where known."""
    yield _added([one.whole for one in of])
    counted = Counter(rows for one in of for rows in one.rows)
    if not counted:
        return
    from dpcl_core.privacy import written  # loads the accountants
    from dpcl_core.privacy.accounting import Pld, Unaccountable
    from dpcl_core.privacy.joint_release import joint_release

    ((rows, _),) = counted.most_common(1)
    pooled = [one for one in of if one.rows == {rows}]
    delta = max(one.delta for one in pooled)
    ledgers = {
        Cell(cell.epsilon, place << 32 | cell.seed): written.read(ledger, delta, Pld())
        for place, one in enumerate(pooled)
        for cell, ledger in one.ledgers.items()
    }
    try:
        together = joint_release(ledgers)
    except Unaccountable:
        return
    yield _added([together, *(one.rest if one.rows == {rows} else one.whole for one in of)])


def spent(budget: Budget, of: Sequence[Charge]) -> Bound:
    """The smallest bound on these charges, of those whose delta is within the budget's if there is one."""
    return min(bounds(of), key=lambda bound: (not budget.holds((0.0, bound[1])), bound))


def _added(several: Sequence[Bound]) -> Bound:
    epsilons, deltas = zip(*several, (0.0, 0.0), strict=True)
    return math.fsum(epsilons), math.fsum(deltas)


def _charge(spec: RunSpec | None, gives: Gives, unit: str, finished: Sequence[CellFinished]) -> Charge:
    if spec is None or gives == "numbers":
        return Charge(_NO_BOUND)
    stated = {"epsilon": finished[0].guarantee.epsilon, "parts": finished[0].guarantee.parts} if finished else None
    whole = _for(unit, unit_of(spec), released(spec, stated))
    ledgers = {one.cell: one.ledger for one in finished if one.ledger is not None}
    rest = [cell for cell in spec.cells() if cell not in ledgers]
    is_pooled = unit_of(spec) == unit and _is_bounded(spec) and not (rest and spec.params.shares_batches)
    if not is_pooled or not ledgers:
        return Charge(whole)
    return Charge(whole, _asked(spec, rest), ledgers, spec.privacy.delta)


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
    try:
        return dict(datasets.card(dataset).roles).get("person", "") or ""
    except BadInput:
        return None


def released(spec: RunSpec, stated: Mapping[str, Any] | None) -> Bound:
    """(epsilon, delta) of all models of a run: as its ledgers add up (`joint_release`), before by its budgets.

    `stated`: what the run has stated of one of its models.
    """
    n, delta = spec.n_cells, spec.privacy.delta
    if not _is_bounded(spec):
        return math.inf, n * delta
    for name, total in (stated or {}).get("parts", {}).items():
        if name.startswith(statement.OF_ALL) and math.isfinite(float(total)):
            return float(total), delta if name == statement.all_models(n, delta, delta) else n * delta
    if stated is not None and spec.params.is_noise_given and n == 1:
        return float(stated["epsilon"]), delta
    if spec.params.shares_batches and len(spec.privacy.epsilons) > 1:
        return math.inf, n * delta
    return _asked(spec, list(spec.cells()))


def _asked(spec: RunSpec, cells: Sequence[Cell]) -> Bound:
    """What these models ask for in all; no bound where noise is set, whatever is asked for."""
    epsilon = math.inf if cells and spec.params.is_noise_given else math.fsum(cell.epsilon for cell in cells)
    return epsilon, len(cells) * spec.privacy.delta


def _is_bounded(spec: RunSpec) -> bool:
    """Whether a run's budgets bound all that it releases, whatever the data are."""
    card = methods.CARDS[spec.method]
    is_proved = card.guarantee == "proved" and methods.standing(spec) == "bound"
    return is_proved and spec.privacy.noise == "release"


def spec_of(text: str) -> RunSpec | None:
    """Stored settings; None where this program no longer has what they name."""
    try:
        return checks.parse(json.loads(text))
    except (BadInput, ValueError):
        return None


_ROWS = (
    select(
        tables.runs.c.id, tables.runs.c.spec, tables.runs.c.started, tables.audits.c.id.label("audit"),
        tables.shards.c.id.label("shard"), tables.studies.c.id.label("study"), tables.studies.c.settings,
    ).select_from(
        tables.runs.outerjoin(tables.audits, tables.audits.c.id == tables.runs.c.id)
        .outerjoin(tables.shards, tables.shards.c.id == tables.runs.c.id)
        .outerjoin(tables.turns, tables.turns.c.run_id == tables.runs.c.id)
        .outerjoin(tables.studies, tables.studies.c.id == tables.turns.c.study_id)
    )
)  # fmt: skip


def _gives(row: Row[*tuple[Any, ...]]) -> Gives:
    if row.study is not None:
        return of_tuning(row.settings.get("on"))
    return "models" if row.audit is None else "numbers"


def of_tuning(on: str) -> Gives:
    """What a tuning gives away: nothing of the private data where it reads a public stand-in."""
    return "numbers" if on == "private" else "nothing"


def _refusal(spec: RunSpec, gives: Gives, budget: Budget, asked: Bound, left: Bound) -> BadInput:
    said = (
        f"epsilon {left[0]:g}, delta {left[1]:g} is left of the budget declared for all runs on these {budget.protected} "
        f"(epsilon {shown(budget.epsilon)}, delta {budget.delta:g})"
    )
    if gives == "numbers":
        why = "admits no audit and no tuning on the private data: their numbers are read without noise, so no bound is known"
        return BadInput("data.dataset", spec.data.dataset, f"{why}, and {said}; tune on a public stand-in instead")
    fix, n, named = _fix(spec, budget, left), spec.n_cells, ", ".join(map(shown, spec.privacy.epsilons))
    if math.isinf(asked[0]):
        why = f"have no bound for one of the {budget.protected} left out" + (", all models together" if n > 1 else "")
        return BadInput("privacy.epsilons", named, f"{why}, and {said}", fix)
    models = f"for all {n} models" if n > 1 else "for this run"
    field, value = ("privacy.delta", f"{spec.privacy.delta:g}") if asked[0] <= left[0] else ("privacy.epsilons", named)
    too_much = f"{models} that is up to epsilon {shown(asked[0])}, delta {asked[1]:.3g}, and {said}"
    return BadInput(field, value, f"{too_much}: take smaller budgets, or fewer of them or of seeds", fix)


def _fix(spec: RunSpec, budget: Budget, left: Bound) -> dict[str, object]:
    """One model that fits into what is left: at the largest of the budgets asked for that does, else at all of it."""
    fitting = [epsilon for epsilon in spec.privacy.epsilons if epsilon <= left[0]]
    privacy: dict[str, object] = {
        "epsilons": (max(fitting, default=left[0]),), "delta": min(spec.privacy.delta, left[1]),
        "adjacency": "add-remove", "noise": "release",
    }  # fmt: skip
    one = spec.model_copy(update={"privacy": spec.privacy.model_copy(update=privacy), "seeds": spec.seeds[:1]})
    whole = _charge(one, "models", budget.unit, ()).whole
    if not left[0] or left[1] < SMALLEST_DELTA or whole[0] > left[0] or whole[1] > left[1]:
        return {}
    changed = {f"privacy.{name}": value for name, value in privacy.items() if value != getattr(spec.privacy, name)}
    return changed | ({"seeds": one.seeds} if len(spec.seeds) > 1 else {})


def _down(value: float) -> float:
    """The number rounded down to three digits; 0 where it is negative."""
    if not value > 0:
        return 0.0
    scale = 10.0 ** (2 - math.floor(math.log10(value)))
    return float(f"{math.floor(value * scale * _ROUNDING) / scale:.3g}")
