"""A run as files and documents: the JSON of the command line, csv of every table, figures as html, the privacy card."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from dpcl_core import checks
from dpcl_core.events import CellFinished, Event, Guarantee, JsonValue, TaskLearned, plain_number
from dpcl_core.privacy.statement import shown, words
from dpcl_core.spec import RunSpec

if TYPE_CHECKING:
    from dpcl_core.runs.store import Run, Store


def document(run_id: str, status: str, spec: RunSpec, events: Sequence[Event]) -> dict[str, JsonValue]:
    """The result of a run as one JSON document; `accuracy[k][i]` is on task i after task k, null where not evaluated."""
    rows: dict[tuple[float, int], list[tuple[float, ...]]] = {}
    for event in events:
        if isinstance(event, TaskLearned):
            rows.setdefault((event.cell.epsilon, event.cell.seed), []).append(event.accuracy)
    cells: list[JsonValue] = []
    for event in events:
        if isinstance(event, CellFinished):
            matrix = rows[event.cell.epsilon, event.cell.seed]
            cells.append(
                {
                    "epsilon": plain_number(event.cell.epsilon),
                    "seed": event.cell.seed,
                    "accuracy": [[*row, *[None] * (len(matrix) - len(row))] for row in matrix],
                    "metrics": dict(event.metrics),
                    "guarantee": guarantee_document(event.guarantee),
                    "seconds": event.seconds,
                }
            )
    return {"run_id": run_id, "status": status, "spec": json.loads(spec.model_dump_json()), "cells": cells}


def guarantee_document(given: Guarantee) -> dict[str, JsonValue]:
    """A guarantee as JSON; infinity is the string "inf"."""
    fields: dict[str, JsonValue] = {}
    for name, value in asdict(given).items():
        if isinstance(value, float):
            fields[name] = plain_number(value)
        elif isinstance(value, Mapping):
            fields[name] = {part: plain_number(number) for part, number in value.items()}
        else:
            fields[name] = list(value) if isinstance(value, tuple) else value
    return fields


def bundle(store: Store, run_id: str) -> dict[str, bytes]:
    """Every file of a run's export by name: csv tables, spec.toml, command.txt, figures as html, the privacy card.

    Raises BadInput for an unknown run.
    """
    from dpcl_core.runs import frames  # pandas and plotly cost a second that `run --json` need not pay

    run = store.get(run_id)
    events = [event for _, event in store.events_after(run_id)]
    files = {
        "accuracy.csv": frames.accuracy(events).to_csv(index=False).encode(),
        "metrics.csv": frames.metrics(events).to_csv(index=False).encode(),
        "spent.csv": frames.spent(events).to_csv(index=False).encode(),
        "result.json": (json.dumps(document(run.id, run.status, run.spec, events), indent=1) + "\n").encode(),
        "spec.toml": checks.to_toml(run.spec).encode(),
        "command.txt": (checks.command_line(run.spec) + "\n").encode(),
        "privacy.json": (json.dumps(_cards(events), indent=1, ensure_ascii=False) + "\n").encode(),
        "privacy.txt": privacy_text(events).encode(),
    }
    return files | {f"{name}.html": page for name, page in _figures(run, events).items()}


def privacy_text(events: Sequence[Event]) -> str:
    """The statement of every budget of a run, in the words that the app prints."""
    return "\n".join(_statement(epsilon, given) for epsilon, given in _guarantees(events).items()) + "\n"


def _guarantees(events: Sequence[Event]) -> dict[float, Guarantee]:
    found: dict[float, Guarantee] = {}
    for event in events:
        if isinstance(event, CellFinished):
            # Seeds differ in class order only; where they spend differently, the worst one is the run's.
            known = found.get(event.cell.epsilon)
            if known is None or event.guarantee.epsilon > known.epsilon:
                found[event.cell.epsilon] = event.guarantee
    return found


def _statement(asked: float, given: Guarantee) -> str:
    said = words(given)
    parts = ["; ".join(f"{name}: epsilon {shown(value)}" for name, value in given.parts.items())]
    lines = [
        f"Asked for epsilon {shown(asked)}; accounted for epsilon {shown(given.epsilon)}, delta {given.delta:g}.",
        *([said.banner] if said.banner else []),
        said.headline,
        said.odds,
        *(f"Covered: {text}" for text in said.covered),
        *(f"Not covered: {text}" for text in said.not_covered),
        *(f"Assumed: {text}" for text in said.assumptions),
        *(f"Note: {text}" for text in said.caveats),
        f"Composition: {given.composition}",
        *(f"By part: {text}" for text in parts if text),
    ]
    return "\n".join(lines) + "\n"


def _cards(events: Sequence[Event]) -> list[JsonValue]:
    return [{"asked": plain_number(asked), **guarantee_document(g)} for asked, g in _guarantees(events).items()]


def _figures(run: Run, events: Sequence[Event]) -> dict[str, bytes]: ...
