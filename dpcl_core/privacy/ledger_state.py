"""A ledger's entries as JSON and back, exactly: a resumed run's ledger is the unbroken run's, event for event.

`privacy.written` is for readers and merges equal entries; here every event comes back as the object that it was.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import cast

import dp_accounting as dp

from dpcl_core.events import Claim, JsonValue
from dpcl_core.privacy.accounting import LabelListDpEvent, LocalDpEvent, SampledGroupDpEvent, Unaccountable
from dpcl_core.privacy.ledger import Entry, Ledger

_KINDS: Mapping[str, type[dp.DpEvent]] = {
    kind.__name__: kind
    for kind in (
        dp.GaussianDpEvent,
        dp.PoissonSampledDpEvent,
        dp.SelfComposedDpEvent,
        dp.NonPrivateDpEvent,
        dp.NoOpDpEvent,
        LabelListDpEvent,
        LocalDpEvent,
        SampledGroupDpEvent,
    )
}


def document(ledger: Ledger) -> dict[str, JsonValue]:
    """The ledger's entries and claim. Raises Unaccountable for an unknown kind of event."""
    entries: list[JsonValue] = [
        {
            "event": _written(entry.event),
            "task": entry.task,
            "what": entry.what,
            "people_of": list(entry.people_of),
            "shares_batches": entry.shares_batches,
            "channels": {name: _written(event) for name, event in entry.channels.items()},
        }
        for entry in ledger.entries
    ]
    claim = None if ledger.claimed is None else cast(JsonValue, asdict(ledger.claimed))
    return {"entries": entries, "claimed": claim}


def refill(ledger: Ledger, kept: Mapping[str, JsonValue]) -> None:
    """Gives a new ledger of the same cell the entries and the claim of a `document`."""
    ledger.entries = [_entry(cast("dict[str, JsonValue]", one)) for one in cast("list[JsonValue]", kept["entries"])]
    claim = cast("dict[str, JsonValue] | None", kept["claimed"])
    ledger.claimed = None if claim is None else Claim(**claim)  # type: ignore[arg-type]


def _entry(one: dict[str, JsonValue]) -> Entry:
    return Entry(
        _read(one["event"]),
        cast(int, one["task"]),
        cast(str, one["what"]),
        tuple(cast("list[int]", one["people_of"])),
        cast(bool, one["shares_batches"]),
        {name: _read(event) for name, event in cast("dict[str, JsonValue]", one["channels"]).items()},
    )


def _written(value: object) -> JsonValue:
    if isinstance(value, dp.DpEvent):
        kind = type(value)
        if _KINDS.get(kind.__name__) is not kind:
            raise Unaccountable(f"{value} cannot be kept in a checkpoint")
        return {"kind": kind.__name__, "of": [_written(getattr(value, name)) for name in kind.__match_args__]}
    return list(value) if isinstance(value, tuple) else cast(JsonValue, value)


def _read(value: JsonValue) -> object:
    if isinstance(value, dict):
        return _KINDS[cast(str, value["kind"])](*map(_read, cast("list[JsonValue]", value["of"])))
    return tuple(value) if isinstance(value, list) else value
