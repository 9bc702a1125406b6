"""Any stream with clients: the examples of its tasks are held by clients, and all that a client holds is protected.

The stream decides which task an example is in, and a lot drawn for each label which client holds it. Both are public
functions of that example alone, so that no client moves what another one holds. A client may hold examples of every task.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from dpcl_core.scenarios import catalog, federated
from dpcl_core.scenarios.catalog import (
    ClassIncremental,
    Federated,
    IBlurry,
    OfClients,
    OneVsRest,
    Permuted,
    SiBlurry,
    SourceIncremental,
    Split,
)
from dpcl_core.scenarios.stream import Table, TaskStream
from dpcl_core.spec import Recurrence, ScenarioSpec, fields_of, parameter


@dataclass(frozen=True, kw_only=True)
class Held(OfClients):
    """What a stream has beside its own settings where clients hold the examples."""

    alpha: float = parameter(
        0.5, ge=0.01, le=1000,
        description="Each label's examples are dealt out in shares drawn from a Dirichlet distribution of this "
        "concentration: small, and most examples of a label lie with few clients.",
    )  # fmt: skip

    @property
    def recurrence(self) -> Recurrence:
        return "every"

    def pooled(self, n_classes: int, sources: tuple[str, ...]) -> ScenarioSpec | None:
        """The stream without clients."""
        plain = catalog.card(str(fields_of(type(self))["kind"].default)).settings
        return plain(**{name: getattr(self, name) for name in fields_of(plain)})


@dataclass(frozen=True, kw_only=True)
class HeldClassIncremental(Held, ClassIncremental):
    """New classes in every task, with clients."""


@dataclass(frozen=True, kw_only=True)
class HeldSplit(Held, Split):
    """Classes in their own order, with clients."""


@dataclass(frozen=True, kw_only=True)
class HeldPermuted(Held, Permuted):
    """Values in another order, with clients."""


@dataclass(frozen=True, kw_only=True)
class HeldSourceIncremental(Held, SourceIncremental):
    """New sources, with clients."""


@dataclass(frozen=True, kw_only=True)
class HeldIBlurry(Held, IBlurry):
    """Blurred tasks of equal size, with clients."""


@dataclass(frozen=True, kw_only=True)
class HeldSiBlurry(Held, SiBlurry):
    """Blurred tasks of random size, with clients."""


@dataclass(frozen=True, kw_only=True)
class HeldOneVsRest(Held, OneVsRest):
    """One class against the rest, with clients."""


_HELD = (
    HeldClassIncremental, HeldSplit, HeldPermuted, HeldSourceIncremental, HeldIBlurry, HeldSiBlurry, HeldOneVsRest,
)  # fmt: skip
_SETTINGS: Mapping[str, type[ScenarioSpec]] = {one.kind: one for one in _HELD}


def settings_of(kind: str, *, has_clients: bool) -> type[ScenarioSpec]:
    """The settings of a stream, for a method with clients or without. Raises BadInput for an unknown stream."""
    plain = catalog.card(kind).settings
    return _SETTINGS.get(kind, plain) if has_clients else plain


def dealt_out(settings: Held, table: Table, seed: int) -> Table:
    """The table with the client of every training example. Raises BadInput where a client expects fewer than ten."""
    of_all = Federated(clients=settings.clients, alpha=settings.alpha, protocol="one-vs-rest")  # where all examples occur
    return federated.dealt_out(of_all, table, (), seed)


def of_clients(stream: TaskStream, settings: Held) -> TaskStream:
    """The stream with the client as privacy unit, in any task."""
    return replace(
        stream, recurrence=settings.recurrence, unit="user", assumed=federated.ASSUMED, looks_ahead=True,
    )  # fmt: skip
