"""The privacy card of a run as a document: what of its models is written down, so that others can add it up."""

from __future__ import annotations

import json
from collections.abc import Sequence

from dpcl_core.events import (
    CellFinished,
    Event,
    Guarantee,
    JsonValue,
    Mechanism,
    Planned,
    Spending,
    Started,
    Written,
    of_kind,
    plain_number,
)
from dpcl_core.privacy import statement
from dpcl_core.privacy.card_events import Card
from dpcl_core.spec import Adjacency, RunSpec

FILE = "privacy_card.json"
NAME = "privacy card of a continual learner"
_HOW_TO_CHECK = (
    "Each epsilon follows from the events beside it. Check them with any accountant, or with: python -m dpcl_core verify "
    "privacy_card.json. That finds inconsistency, not forgery."
)


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
        "statement": _statement(guarantee),
    }


def _statement(given: Guarantee) -> dict[str, JsonValue]:
    """The statement of a model as every surface shows it."""
    said = statement.guarantee_words(given)
    return {
        "headline": said.banner or said.headline,
        "composition": given.composition,
        "scope": given.scope,
        "covered": list(said.covered),
        "not_covered": list(said.not_covered),
        "assumptions": list(said.assumptions),
        "notes": list(said.caveats),
    }


def _events(ledger: Written) -> list[JsonValue]:
    return [_event(entry, ledger.adjacency) for entry in ledger.entries]


def _event(entry: Spending, adjacency: Adjacency) -> dict[str, JsonValue]:
    return {
        "what": entry.what,
        "task": entry.task + 1,
        "people_of": [task + 1 for task in entry.people_of],
        "count": entry.count,
        "adjacency": adjacency,
        **numbers(entry.mechanism),
        "shares_batches": entry.shares_batches,
        "channels": {name: numbers(one) for name, one in entry.channels.items()},
    }


def numbers(one: Mechanism) -> dict[str, JsonValue]:
    """A mechanism on a card, with only the numbers that its kind has."""
    found: dict[str, JsonValue] = {"epsilon": one.epsilon, "delta": one.delta}
    if one.kind == "gaussian":
        found = {"noise_multiplier": one.noise_multiplier, "sample_rates": list(one.sample_rates), "steps": one.steps}
    return {"mechanism": one.kind, **{name: value for name, value in found.items() if value is not None}}
