"""How often a person's own data were looked at: every launched run, tuning and audit in a store, and what they add up to.

Each run's bound is about that run alone. Whoever tries several and shows the best one has used the data several times. What
is counted is public: settings, under the name that the owner gave the data. A hash of the rows would tell neighbours apart.
A new name stands for new data; that it does is the owner's word. Deleted runs are looks as well.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import func, select

from dpcl_core import checks
from dpcl_core.errors import BadInput
from dpcl_core.methods import catalog as methods
from dpcl_core.privacy.statement import shown
from dpcl_core.runs import tables
from dpcl_core.runs.store import Store
from dpcl_core.spec import RunSpec

_OWN = "own:"  # before the name that an owner gave a dataset
_RULE = "Showing the best of several uses them all. Only new data, under a name of their own, start at one again."


@dataclass(frozen=True, slots=True)
class Looks:
    """Looks at one dataset. `runs` with `models` in all; `tuned`: settings tried on it; `audits`: trainings repeated.

    `epsilon`, `delta`: of all releases together, by basic composition; infinite where one of them has no bound.
    """

    dataset: str
    runs: int
    models: int
    tuned: int
    audits: int
    epsilon: float
    delta: float

    @property
    def sentence(self) -> str:
        """The count in words, with what it adds up to."""
        tried = (self.tuned, "setting tried by tunings")
        parts = [(self.runs, "run"), (self.models, "model"), tried, (self.audits, "audit")]
        counted = [_count(n, what) for n, what in parts if n]
        if not counted:
            return f"Nobody has looked at {self.dataset} yet: the first run is the first look."
        total = f"at most epsilon {shown(self.epsilon)}, delta {self.delta:.2g}"
        together = total if math.isfinite(self.epsilon) else "no bound, as one of them has none"
        return f"Looks at {self.dataset} so far: {', '.join(counted)}. All of them together: {together}. {_RULE}"

    def document(self) -> dict[str, str | int | float]:
        """As JSON."""
        counts = {"runs": self.runs, "models": self.models, "tuned": self.tuned, "audits": self.audits}
        epsilon = self.epsilon if math.isfinite(self.epsilon) else "inf"
        return {"dataset": self.dataset, **counts, "epsilon": epsilon, "delta": self.delta}


def of(store: Store, dataset: str) -> Looks | None:
    """The looks at a dataset so far; None for public ones, which nobody needs to count."""
    if not dataset.startswith(_OWN):
        return None
    others = select(tables.turns.c.run_id).union_all(select(tables.audits.c.id))
    launched = select(tables.runs.c.spec).where(tables.names_dataset(dataset), tables.runs.c.started.is_not(None))
    is_audit = tables.runs.c.id.in_(select(tables.audits.c.id))
    tried = select(tables.studies.c.settings, func.count(tables.trials.c.number)).outerjoin(tables.trials)
    with store.reading() as connection:
        specs = [_spec(text) for text in connection.scalars(launched.where(tables.runs.c.id.not_in(others)))]
        audits = len(connection.scalars(launched.where(is_audit)).all())
        studies = connection.execute(tried.group_by(tables.studies.c.id)).all()
    tuned = sum(n for settings, n in studies if _is_on(settings, dataset))
    return _added(dataset, specs, tuned, audits)


def sentence(store: Store, dataset: str) -> str:
    """The looks at a dataset in words; empty for public data."""
    found = of(store, dataset)
    return "" if found is None else found.sentence


def _added(dataset: str, specs: Sequence[RunSpec | None], tuned: int, audits: int) -> Looks:
    """A tuning on the data and an audit of a run have no bound: their numbers are read without noise."""
    epsilon, delta, models = 0.0, 0.0, 0
    for spec in specs:
        models += 0 if spec is None else spec.n_cells
        epsilon += math.inf if spec is None or not _is_bounded(spec) else sum(cell.epsilon for cell in spec.cells())
        delta += 0.0 if spec is None else spec.n_cells * spec.privacy.delta
    return Looks(dataset, len(specs), models, tuned, audits, math.inf if tuned or audits else epsilon, delta)


def _is_bounded(spec: RunSpec) -> bool:
    """Whether a run's budgets bound all that it releases, whatever the data are."""
    card = methods.CARDS[spec.method]
    is_proved = card.guarantee == "proved" and methods.standing(spec) == "bound"
    return is_proved and spec.labels != "data" and spec.privacy.noise == "release"


def _is_on(settings: object, dataset: str) -> bool:
    """Whether a tuning reads the private data of this name, not a public stand-in."""
    if not isinstance(settings, dict) or settings.get("on") != "private":
        return False
    return bool(settings.get("base", {}).get("data", {}).get("dataset") == dataset)


def _spec(text: str) -> RunSpec | None:
    """Stored settings; None where this program no longer has what they name."""
    try:
        return checks.parse(json.loads(text))
    except (BadInput, ValueError):
        return None


def _count(n: int, what: str) -> str:
    head, _, rest = what.partition(" ")
    return f"{n:,} {head}{'' if n == 1 else 's'}{' ' + rest if rest else ''}"
