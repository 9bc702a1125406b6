"""The privacy card of a run as a document, so that others can add it up, and as a value of Python: JSON with its events."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from dpcl_core.errors import BadInput
from dpcl_core.events import (
    CellFinished,
    Event,
    JsonValue,
    Mechanism,
    Planned,
    Started,
    Written,
    of_kind,
    plain_number,
)
from dpcl_core.privacy import statement
from dpcl_core.spec import RunSpec

if TYPE_CHECKING:
    from dpcl_core.privacy.dp_events import dp

FILE = "privacy_card.json"
NAME = "privacy card of a continual learner"
_HOW_TO_CHECK = (
    "Each epsilon follows from the events beside it. Check them with any accountant, or with: python -m dpcl_core verify "
    "privacy_card.json. That finds inconsistency, not forgery."
)
_MOST_SHOWN = 50  # models


class Card(dict[str, JsonValue]):
    """The document that `docs/privacy_card.md` describes, ready for `json.dumps`."""

    def __repr__(self) -> str:
        """One line: what ran, and for each model what it promises."""
        cells = cast("list[dict[str, Any]]", self["cells"])
        kept = ", ".join(f"epsilon {float(one['epsilon']):.3g} ({one['guarantee']})" for one in cells[:8])
        return f"<Privacy card of {self['method']} on {self['dataset']}: {kept}{', …' if len(cells) > 8 else ''}>"

    def __hash__(self) -> int:  # type: ignore[override]  # a document that nobody changes
        return hash(json.dumps(self, sort_keys=True))

    def _repr_html_(self) -> str:
        """What a notebook shows: what ran, and the epsilon of each model."""
        from html import escape

        cells = cast("list[dict[str, Any]]", self["cells"])
        rows = "".join(
            f"<tr><td>{float(one['asked']):g}</td><td>{one['seed']}</td><td>{float(one['epsilon']):.4g}</td>"
            f"<td>{float(one['delta']):g}</td><td>{escape(str(one['guarantee']))}</td></tr>"
            for one in cells[:_MOST_SHOWN]
        )
        more = f"<p>and {len(cells) - _MOST_SHOWN} models more</p>" if len(cells) > _MOST_SHOWN else ""
        head = "<tr><th>asked ε</th><th>seed</th><th>accounted ε</th><th>δ</th><th>guarantee</th></tr>"
        title = escape(f"Privacy card of {self['method']} on {self['dataset']}")
        return f"<div><p><b>{title}</b></p><table>{head}{rows}</table>{more}</div>"

    def save(self, path: str | Path) -> None:
        """Writes the card to a file, which `dpcl verify` checks."""
        Path(path).write_text(json.dumps(self, indent=1, ensure_ascii=False, allow_nan=False), encoding="utf-8")

    def to_dp_events(self, epsilon: float | None = None) -> dp.DpEvent:
        """What a model did to the people who pay most, as one event of `dp_accounting`: its accountants give the same ε.

        `epsilon`: the budget that was asked for, where the card has several; of its seeds the first. Count people as the
        card does: add-remove is `ADD_OR_REMOVE_ONE`, replace is `REPLACE_ONE`. Raises BadInput for a budget that is not on
        the card, for people of several rows, and for mechanisms that the package does not know.
        """
        cells = cast("list[dict[str, Any]]", self["cells"])
        found = next((one for one in cells if epsilon is None or float(one["asked"]) == epsilon), None)
        if found is None or found["events"] is None:
            asked = sorted({float(one["asked"]) for one in cells if one["events"] is not None})
            raise BadInput("epsilon", epsilon, f"must be a budget of the card: {', '.join(f'{one:g}' for one in asked)}")
        if found["rows_per_unit"] > 1:
            several = f"{found['rows_per_unit']} rows of a person"
            raise BadInput("card", several, "must be of people with one row: dp_accounting has no group bound")
        return _composed(found)


def _composed(cell: dict[str, Any]) -> dp.DpEvent:
    """The events of the group of people with the largest epsilon, composed."""
    from dpcl_core.privacy.dp_events import dp  # loads the accountants, as the next line does
    from dpcl_core.privacy.ledger import Entry, Ledger

    ledger = Ledger(cell["delta"], cell["adjacency"], cell["recurrence"])
    for one in cell["events"]:
        people = tuple(task - 1 for task in one["people_of"])
        ledger.entries += [Entry(_dp_event(one, dp), one["task"] - 1, one["what"], people)] * one["count"]
    groups = list(ledger.events_by_people().values())
    worst = max(groups, key=lambda events: ledger.composed(events, ledger.delta), default=[])
    known = (dp.GaussianDpEvent, dp.PoissonSampledDpEvent, dp.SelfComposedDpEvent, dp.NonPrivateDpEvent, dp.NoOpDpEvent)
    if other := next((event for event in worst if not isinstance(event, known)), None):
        raise _unknown(type(other).__name__)
    return dp.ComposedDpEvent(worst)


def _dp_event(one: dict[str, Any], dp: Any) -> Any:
    match one["mechanism"], one.get("sample_rates"):
        case "gaussian", [1.0]:
            return dp.SelfComposedDpEvent(dp.GaussianDpEvent(one["noise_multiplier"]), one["steps"])
        case "gaussian", [rate]:
            step = dp.PoissonSampledDpEvent(rate, dp.GaussianDpEvent(one["noise_multiplier"]))
            return dp.SelfComposedDpEvent(step, one["steps"])
        case "no-bound", _:
            return dp.NonPrivateDpEvent()
        case "nothing", _:
            return dp.NoOpDpEvent()
    raise _unknown(one["mechanism"])


def _unknown(name: str) -> BadInput:
    return BadInput("card", name, "is a mechanism that dp_accounting does not know: take the numbers of the card itself")


def document(run_id: str, method: str, dataset: str, finished: Sequence[CellFinished], planned: Planned | None) -> Card:
    """The card of a run. `events` are null for a model stored before ledgers were, `all_models` before plans were."""
    return Card(
        card=NAME,
        version=2,
        how_to_check=_HOW_TO_CHECK,
        run_id=run_id,
        method=method,
        dataset=dataset,
        all_models=None if planned is None else _planned(planned),
        cells=[_cell(one) for one in finished],
    )


def content(run_id: str, spec: RunSpec, events: Sequence[Event]) -> bytes:
    """The card of a run so far as a file, by its events."""
    started, plan = next(of_kind(events, Started), None), next(of_kind(events, Planned), None)
    dataset = spec.data.dataset if started is None else started.dataset_title
    found = document(run_id, spec.method, dataset, list(of_kind(events, CellFinished)), plan)
    return (json.dumps(found, indent=1, ensure_ascii=False) + "\n").encode()


def _planned(plan: Planned) -> dict[str, JsonValue]:
    any_one = plan.ledgers[0][1]
    return {
        "epsilon": plain_number(plan.epsilon),
        "delta": plan.delta,
        "people": plan.n_people,
        "tasks": plan.n_tasks,
        "adjacency": any_one.adjacency,
        "recurrence": any_one.recurrence,
        "rows_per_unit": any_one.rows_per_unit,
        "learners": [[{"asked": plain_number(c.epsilon), "seed": c.seed} for c in learner] for learner in plan.learners],
        "models": [{"asked": plain_number(asked), "events": _events(ledger)} for asked, ledger in plan.ledgers],
    }


def _cell(event: CellFinished) -> dict[str, JsonValue]:
    guarantee, ledger = event.guarantee, event.ledger
    said = statement.guarantee_words(guarantee)
    return {
        "asked": plain_number(event.cell.epsilon),
        "seed": event.cell.seed,
        "guarantee": statement.kind(guarantee),
        "unit": guarantee.unit,
        "noise": guarantee.noise,
        "epsilon": plain_number(guarantee.epsilon),
        "delta": guarantee.delta,
        "adjacency": "replace" if guarantee.adjacency.startswith("replace") else "add-remove",
        "recurrence": None if ledger is None else ledger.recurrence,
        "parts": {name: plain_number(value) for name, value in guarantee.parts.items()},
        "rows_per_unit": 1 if ledger is None else ledger.rows_per_unit,
        "events": None if ledger is None else _events(ledger),
        "statement": {  # as every surface shows it
            "headline": said.banner or said.headline,
            "composition": guarantee.composition,
            "scope": guarantee.scope,
            "covered": list(said.covered),
            "not_covered": list(said.not_covered),
            "assumptions": list(said.assumptions),
            "notes": list(said.caveats),
        },
    }


def _events(ledger: Written) -> list[JsonValue]:
    return [
        {
            "what": entry.what,
            "task": entry.task + 1,
            "people_of": [task + 1 for task in entry.people_of],
            "count": entry.count,
            "adjacency": ledger.adjacency,
            **numbers(entry.mechanism),
            "shares_batches": entry.shares_batches,
            "channels": {name: numbers(one) for name, one in entry.channels.items()},
        }
        for entry in ledger.entries
    ]


def numbers(one: Mechanism) -> dict[str, JsonValue]:
    """A mechanism on a card, with only the numbers that its kind has."""
    found: dict[str, JsonValue] = {"epsilon": one.epsilon, "delta": one.delta}
    if one.kind == "gaussian":
        found = {"noise_multiplier": one.noise_multiplier, "sample_rates": list(one.sample_rates), "steps": one.steps}
    return {"mechanism": one.kind, **{name: value for name, value in found.items() if value is not None}}
