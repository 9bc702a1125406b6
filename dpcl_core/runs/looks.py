"""How often a person's own data were looked at: every launched run, tuning and audit in a store, and what they add up to.

Each run's bound is about that run alone. Whoever tries several and shows the best one has used the data several times. What
is counted is public: settings, under the name of the data. Data under another name are the same if they share rows of their
public test parts (`data.marks`); a hash of the private rows would tell neighbours apart. Deleted runs are looks as well, and
so are runs on data that were deleted and came back.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, func, insert, select

from dpcl_core.data import marks
from dpcl_core.privacy.statement import shown
from dpcl_core.runs import charges, tables
from dpcl_core.runs.charges import OWN
from dpcl_core.runs.store import Store
from dpcl_core.spec import RunSpec

_COUNTED = ("runs", "models", "tuned", "audits", "epsilon", "delta")
_RULE = "Showing the best of several uses them all. Only new data start at one again."
_KNOWN = "Some were at data with the same rows, under another name or deleted since."


@dataclass(frozen=True, slots=True)
class Looks:
    """Looks at one dataset. `runs` with `models` in all; `tuned`: settings tried on it; `audits`: trainings repeated.

    `epsilon`, `delta`: of all releases together, by basic composition of runs; infinite where one has no known bound.
    `is_known`: some of them were at data of another name, or deleted since, that share rows with these.
    """

    dataset: str
    runs: int
    models: int
    tuned: int
    audits: int
    epsilon: float
    delta: float
    is_known: bool = False

    @property
    def sentence(self) -> str:
        """The count in words, with what it adds up to."""
        tried = (self.tuned, "setting tried by tunings")
        parts = [(self.runs, "run"), (self.models, "model"), tried, (self.audits, "audit")]
        counted = [_count(n, what) for n, what in parts if n]
        if not counted:
            return f"Nobody has looked at {self.dataset} yet: the first run is the first look."
        total = f"at most epsilon {shown(self.epsilon)}, delta {self.delta:.2g}"
        together = total if math.isfinite(self.epsilon) else "no bound is known, as one of them has none"
        known = f" {_KNOWN}" if self.is_known else ""
        return f"Looks at {self.dataset} so far: {', '.join(counted)}.{known} All of them together: {together}. {_RULE}"

    def document(self) -> dict[str, str | int | float]:
        """As JSON."""
        counts = {"runs": self.runs, "models": self.models, "tuned": self.tuned, "audits": self.audits}
        epsilon = self.epsilon if math.isfinite(self.epsilon) else "inf"
        return {"dataset": self.dataset, **counts, "epsilon": epsilon, "delta": self.delta}


def of(store: Store, dataset: str) -> Looks | None:
    """The looks so far at a dataset, and at data that share rows with it; None for public ones, which nobody counts."""
    if not dataset.startswith(OWN):
        return None
    known = marks.kept(dataset)
    with store.reading() as connection:
        found = of_names(connection, marks.sharing(dataset))
        before = [row for row in connection.execute(select(tables.kept_looks)) if known.intersection(row.marks)]
    added = {name: getattr(found, name) + sum(getattr(row, name) for row in before) for name in _COUNTED}
    return Looks(dataset, **added, is_known=bool(before) or found.is_known)


def of_names(connection: Connection, names: Sequence[str]) -> Looks:
    """The looks at the datasets of these names by runs that are in the store."""
    is_launched = tables.dataset.in_(names) & tables.runs.c.started.is_not(None)
    launched = select(tables.runs.c.id, tables.runs.c.spec).where(is_launched)
    is_audit = tables.runs.c.id.in_(select(tables.audits.c.id))
    tried = select(tables.studies.c.settings, func.count(tables.trials.c.number)).outerjoin(tables.trials)
    found = connection.execute(launched.where(tables.runs.c.id.not_in(tables.of_others))).all()
    of_cells = select(tables.cells.c.run_id, tables.cells.c.guarantee)
    cells = connection.execute(of_cells.where(tables.cells.c.run_id.in_([row.id for row in found])))
    stated = {row.run_id: row.guarantee for row in cells}
    launches = [(charges.spec_of(row.spec), stated.get(row.id)) for row in found]
    audits = len(connection.execute(launched.where(is_audit)).all())
    studies = connection.execute(tried.group_by(tables.studies.c.id)).all()
    return _added(names, launches, sum(n for settings, n in studies if _is_on(settings, names)), audits)


def keep(connection: Connection, dataset: str) -> None:
    """Keeps the number of looks at data that are about to be deleted, so that it goes on if the same rows come back."""
    found, known = of_names(connection, [dataset]), marks.kept(dataset)
    counts = {name: getattr(found, name) for name in _COUNTED}
    if known and any(counts.values()):
        specs = map(charges.spec_of, connection.scalars(select(tables.runs.c.spec).where(tables.dataset == dataset)))
        units = {None if spec is None else charges.unit_of(spec) for spec in specs}
        unit = units.pop() if len(units) == 1 else None
        connection.execute(insert(tables.kept_looks).values(marks=sorted(known), unit=unit, **counts))


def marks_kept(store: Store) -> marks.Marks:
    """The marks of data that were deleted since somebody looked at them."""
    with store.reading() as connection:
        return frozenset(mark for row in connection.execute(select(tables.kept_looks.c.marks)) for mark in row.marks)


def sentence(store: Store, dataset: str) -> str:
    """The looks at a dataset in words; empty for public data."""
    found = of(store, dataset)
    return "" if found is None else found.sentence


Launch = tuple[RunSpec | None, Mapping[str, Any] | None]  # settings, and what the run has stated of one of its models


def _added(names: Sequence[str], launches: Sequence[Launch], tuned: int, audits: int) -> Looks:
    """A tuning on the data and an audit of a run have no bound: their numbers are read without noise."""
    specs = [spec for spec, _ in launches]
    models = sum(spec.n_cells for spec in specs if spec is not None)
    totals = [(math.inf, 0.0) if spec is None else charges.released(spec, stated) for spec, stated in launches]
    epsilon, delta = (math.fsum(column) for column in zip(*totals, (0.0, 0.0), strict=True))
    has_no_bound = tuned or audits
    dataset, *others = names
    looked = any(spec is not None and spec.data.dataset in others for spec in specs)
    return Looks(dataset, len(specs), models, tuned, audits, math.inf if has_no_bound else epsilon, delta, looked)


def _is_on(settings: object, names: Sequence[str]) -> bool:
    """Whether a tuning reads the private data of one of these names, not a public stand-in."""
    if not isinstance(settings, dict) or settings.get("on") != "private":
        return False
    return settings.get("base", {}).get("data", {}).get("dataset") in names


def _count(n: int, what: str) -> str:
    head, _, rest = what.partition(" ")
    return f"{n:,} {head}{'' if n == 1 else 's'}{' ' + rest if rest else ''}"
