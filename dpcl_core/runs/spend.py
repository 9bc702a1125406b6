"""What estimators have released of the data of one name: a small file of public numbers in the home.

A release is entered before anything is read, so that no crash forgets one. Every release consists of Gaussian steps of known
noise, so that all of one name add up exactly, whoever made them: copies, folds, other processes of the same user.

One that protects a row is no bound for a person who has several. So where some releases protect rows and others persons,
nobody has a bound for all of them.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, astuple, dataclass, field, replace
from pathlib import Path
from typing import Any

from dpcl_core import paths
from dpcl_core.data.files import hold_file, replacing
from dpcl_core.errors import BadInput, StoreTrouble, instead_of
from dpcl_core.privacy.accounting import Pld, gaussian_step
from dpcl_core.privacy.budgets import check_accounted, check_budget, epsilon_of
from dpcl_core.privacy.dp_events import dp
from dpcl_core.privacy.statement import shown_number
from dpcl_core.spec import Adjacency

DEFAULT = "default"  # the name of data that were given none
_FILE = "estimators.json"
_ROUNDING = 1 + 1e-9


@dataclass(frozen=True, slots=True, order=True)
class Release:
    """Gaussian steps: their noise multiplier for a row (0: no bound is known), and how many rows of a person count.

    `rows` 0: nobody said whose a row is, and a row is protected. `rate`: chance that a row is in a step's batch.
    """

    sigma: float
    rows: int
    rate: float = 1.0
    steps: int = 1

    def times(self, count: int) -> dp.DpEvent:
        """So many of it, as an event."""
        return dp.SelfComposedDpEvent(gaussian_step(self.sigma, self.rate), self.steps * count)


@dataclass(frozen=True, slots=True)
class Budget:
    """The most that all releases together may tell: (epsilon, delta) under this adjacency."""

    epsilon: float
    delta: float
    adjacency: Adjacency


@dataclass(frozen=True, slots=True, repr=False)
class Account:
    """All releases of the data of one name.

    `releases`: how many there were of each kind. `streams`: the kinds of each estimator whose calls hold different people,
    by the user's word: a person is in one of these calls, and each kind counts once.
    """

    data_id: str
    releases: Mapping[Release, int] = field(default_factory=dict)
    streams: Mapping[str, tuple[Release, ...]] = field(default_factory=dict)
    budget: Budget | None = None

    def epsilon(self, delta: float, adjacency: Adjacency) -> float:
        """Epsilon of all releases together, for anyone who may be in all of them; inf: no bound."""
        counted = Counter(self.releases) + Counter(one for kinds in self.streams.values() for one in kinds)
        if any(not one.sigma for one in counted) or len({bool(one.rows) for one in counted}) > 1:
            return math.inf
        events = [one.times(n) for one, n in sorted(counted.items())]
        rows = max((one.rows for one in counted), default=0)
        return epsilon_of(Pld(), events, delta, adjacency, max(1, rows)) if events else 0.0

    def entered(self, release: Release, stream: str | None) -> Account:
        """The account with one more release."""
        if stream is None:
            return replace(self, releases={**self.releases, release: self.releases.get(release, 0) + 1})
        return replace(self, streams={**self.streams, stream: tuple(sorted({*self.streams.get(stream, ()), release}))})

    def sentence(self, delta: float, adjacency: Adjacency) -> str:
        """What was spent, and of what, in words."""
        spent = self.epsilon(delta, adjacency)
        total = "no bound is known" if math.isinf(spent) else f"epsilon {shown_number(spent)}, delta {delta:g}"
        said = f"All estimators fitted on {self.data_id!r} together: {total}."
        return said if self.budget is None else f"{said} Budget: {_words(self.budget)}."

    def __repr__(self) -> str:
        held = self.budget or Budget(math.inf, 1e-5, "add-remove")
        return self.sentence(held.delta, held.adjacency)


def account(data_id: str | None = None) -> Account:
    """What was released of the data of this name; None: of data that were given no name."""
    name = checked_name(data_id)
    return _read().get(name, Account(name))


def charge(data_id: str | None, release: Release, stream: str | None = None) -> None:
    """Enters a release before it is made.

    `stream`: a name for calls that hold different people. Raises BadInput where that would exceed the declared budget;
    nothing is entered then. Raises StoreTrouble where the home cannot keep it.
    """
    name = checked_name(data_id)
    with _changing() as accounts:
        before = accounts.get(name, Account(name))
        after, budget = before.entered(release, stream), before.budget
        if budget is not None and after.epsilon(budget.delta, budget.adjacency) > budget.epsilon * _ROUNDING:
            spent = before.epsilon(budget.delta, budget.adjacency)
            so_far = f"epsilon {shown_number(spent)} is spent" if math.isfinite(spent) else "what is spent has no bound"
            allowed = f"has a budget of {_words(budget)}, which one more release would exceed: {so_far}; nothing was read"
            raise BadInput("data_id", name, allowed)
        accounts[name] = after


def declare(data_id: str | None, epsilon: float, delta: float, adjacency: Adjacency) -> Account:
    """Declares a budget in place of one before; an infinite epsilon: there is none. What was spent stays counted.

    Raises BadInput for numbers that promise nothing.
    """
    name, budget = checked_name(data_id), None
    if epsilon != math.inf:
        check_budget(epsilon)
        check_accounted(delta)
        budget = Budget(float(epsilon), float(delta), adjacency)
    with _changing() as accounts:
        accounts[name] = replace(accounts.get(name, Account(name)), budget=budget)
        return accounts[name]


def checked_name(data_id: object) -> str:
    """The name of an account. Raises BadInput for what is no name."""
    if data_id is None:
        return DEFAULT
    if not isinstance(data_id, str) or not 0 < len(data_id) <= 100 or not data_id.isprintable():
        raise BadInput("data_id", data_id, "must be a name of at most 100 letters, or None for the default account")
    return data_id


def _words(budget: Budget) -> str:
    return f"epsilon {shown_number(budget.epsilon)}, delta {budget.delta:g}, {budget.adjacency}"


def _read() -> dict[str, Account]:
    path = paths.home() / _FILE
    damaged = StoreTrouble(f"{path.name} in the home folder is damaged: what was spent is not known")
    with _kept(path, "read"), instead_of(ValueError, TypeError, AttributeError, KeyError, say=damaged):
        written = json.loads(path.read_bytes()) if path.exists() else {}
        return {name: _account(name, **one) for name, one in written.items()}


def _kept(path: Path, done: str) -> AbstractContextManager[None]:
    said = f"{path.name} in the home folder cannot be {done}"
    return instead_of(OSError, say=lambda error: StoreTrouble(f"{said}: {error.strerror}"))


def _account(name: str, releases: Sequence[Sequence[Any]], streams: Mapping[str, Any], budget: Any) -> Account:
    counts = {Release(*one): int(n) for *one, n in releases}
    kinds = {key: tuple(Release(*one) for one in of_stream) for key, of_stream in streams.items()}
    return Account(name, counts, kinds, budget and Budget(**budget))


def _document(one: Account) -> dict[str, object]:
    releases = [[*astuple(release), n] for release, n in one.releases.items()]
    streams = {key: [astuple(release) for release in kinds] for key, kinds in one.streams.items()}
    return {"releases": releases, "streams": streams, "budget": one.budget and asdict(one.budget)}


@contextmanager
def _changing() -> Iterator[dict[str, Account]]:
    """All accounts, to be changed by one process at a time; they are on the disk when the context ends."""
    path = paths.home() / _FILE
    with _kept(path, "written"), hold_file(paths.make_folder(path.parent) / f".{_FILE}.lock") as is_held:
        if not is_held:
            raise StoreTrouble("the home folder is where files cannot be locked: set DPCL_HOME to another folder")
        accounts = _read()
        yield accounts
        with replacing(path) as file:
            file.write(json.dumps({name: _document(one) for name, one in accounts.items()}).encode())
