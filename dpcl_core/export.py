"""A run as files and documents: the JSON of the command line, csv of every table, figures as html, the privacy card."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, cast

from dpcl_core import checks
from dpcl_core.data import catalog as datasets
from dpcl_core.events import (
    CellFinished,
    Event,
    Guarantee,
    JsonValue,
    Leaks,
    Retained,
    Signatures,
    Started,
    TaskLearned,
    TokensScored,
    plain_number,
    to_json,
)
from dpcl_core.methods import catalog as methods
from dpcl_core.privacy import card, statement_text
from dpcl_core.privacy.statement import kind, shown, standing, ways_out
from dpcl_core.results import FIGURES, Result
from dpcl_core.spec import Cell, RunSpec

if TYPE_CHECKING:
    import pandas as pd

    from dpcl_core.layers import Layer
    from dpcl_core.runs.store import Run, Store

_Told = TokensScored | Retained | Leaks | Signatures
# What methods say of synthetic or public texts and of simulated clients' lists, by the name it is exported under.
_TOLD: Mapping[str, type[_Told]] = {
    "tokens": TokensScored,
    "retained": Retained,
    "leaks": Leaks,
    "signatures": Signatures,
}


def document(run_id: str, status: str, spec: RunSpec, events: Sequence[Event]) -> dict[str, JsonValue]:
    """The result of a run as one JSON document; `accuracy[k][i]` is on task i after task k, null where not evaluated.

    `score`: what accuracy is here, "accuracy" or "entity F1"; `budgets`: what the epsilons asked for are, bounds on all that
    gets out ("bound"), a publication's word ("claimed") or bounds on the replay alone ("replay").

    `layer`: how the settings stand to the publication of the method; null where its print is not at hand.

    `ahead[k]` is on task k + 1, not learned yet, where the stream looks ahead, and `untrained[i]` on task i before anything
    was learned: FWT is the mean of ahead[i - 1] - untrained[i].

    Where the method has several prediction rules, `by_rule` holds such a matrix for each. What a language model's run said
    of its texts stands under "tokens", "retained" and "leaks", what clients' lists were matched to under "signatures", as
    the events have it.
    """
    learned: dict[Cell, list[TaskLearned]] = {}
    for event in events:
        if isinstance(event, TaskLearned):
            learned.setdefault(event.cell, []).append(event)
    cells: list[JsonValue] = []
    for event in events:
        if isinstance(event, CellFinished):
            steps = learned[event.cell]
            rules: dict[str, JsonValue] = {rule: _square([one.by_rule[rule] for one in steps]) for rule in steps[0].by_rule}
            ahead: list[JsonValue] = [one.ahead for one in steps]
            cells.append(
                {
                    "epsilon": plain_number(event.cell.epsilon),
                    "seed": event.cell.seed,
                    "accuracy": _square([one.accuracy for one in steps]),
                    **({"ahead": ahead} if any(value is not None for value in ahead) else {}),
                    **({"untrained": list(event.untrained)} if event.untrained else {}),
                    **({"by_rule": rules} if rules else {}),
                    "metrics": dict(event.metrics),
                    "guarantee": guarantee_document(event.guarantee, spec),
                    "seconds": event.seconds,
                }
            )
    return {
        "run_id": run_id,
        "status": status,
        "spec": json.loads(spec.model_dump_json()),
        "score": datasets.score(spec.data.dataset),
        "budgets": methods.standing(spec),
        "layer": layer_document(methods.layer(spec)),
        "cells": cells,
        **{name: told for name, of in _TOLD.items() if (told := _told(events, of))},
    }


def document_of(store: Store, run: Run) -> dict[str, JsonValue]:
    """The same of a stored run, with `audits`: what its audits have found so far, the newest audit first."""
    from dpcl_core.runs.audits import Audits

    events = [event for _, event in store.events_after(run.id)]
    found: list[JsonValue] = [result.document() for audit in Audits(store).of_run(run.id) for result in audit.results]
    return {**document(run.id, run.status, run.spec, events), "audits": found}


def layer_document(layer: Layer | None) -> JsonValue:
    """A layer as JSON: its name, the publication, what differs from print, and what the publication leaves open."""
    return None if layer is None else cast(JsonValue, json.loads(json.dumps({**asdict(layer), "words": layer.words})))


def _told(events: Sequence[Event], of: type[_Told]) -> list[JsonValue]:
    """All events of a kind as JSON, without the name of the kind, and without what only serves to match lists anew."""
    return [
        {name: value for name, value in to_json(event).items() if name not in ("event", "lists", "public")}
        for event in events
        if isinstance(event, of)
    ]


def _square(rows: Sequence[tuple[float | None, ...]]) -> list[JsonValue]:
    """The rows with null for the tasks that were still to come."""
    return [[*row, *[None] * (len(rows) - len(row))] for row in rows]


def guarantee_document(given: Guarantee, spec: RunSpec) -> dict[str, JsonValue]:
    """A guarantee as JSON, and what stands behind its epsilon as flat fields; infinity is the string "inf"."""
    return {**cast(dict[str, JsonValue], _plain(asdict(given))), **_backing(given, spec)}


def _plain(value: object) -> JsonValue:
    if isinstance(value, float):
        return plain_number(value)
    if isinstance(value, Mapping):
        return {str(name): _plain(inner) for name, inner in value.items()}
    return [_plain(inner) for inner in value] if isinstance(value, tuple) else cast(JsonValue, value)


def _backing(given: Guarantee, spec: RunSpec) -> dict[str, JsonValue]:
    """What stands behind the epsilon: `guarantee` is "proved" (by the ledger), "nominal" (a publication's claim) or "none".

    The claim and the audit stand beside it, null where there is none; `eps_audit_lower` is measured, a lower bound. Where
    private data leave in two ways, `eps_replay`, `eps_head` and `eps_total` tell them apart.
    """
    claim, audit, settings = given.claim, given.audit, spec.params.model_dump(mode="json")
    return {
        "guarantee": kind(given),
        **{f"eps_{name}": plain_number(value) for name, value in ways_out(given).items()},
        "eps_claimed": None if claim is None else plain_number(claim.epsilon),
        "eps_terms": None if claim is None else {name: plain_number(term) for name, term in claim.terms.items()},
        "delta_r_rule": None if claim is None else settings.get("delta_r"),
        "theta_norm_rule": None if claim is None else settings.get("theta_norm"),
        "eps_audit_lower": None if audit is None else plain_number(audit.lower_bound),
        "audit_name": None if audit is None else audit.attack,
        "audit_trials": None if audit is None else audit.trials,
    }


def bundle(store: Store, run_id: str) -> dict[str, bytes]:
    """Every file of a run's export by name: csv tables, spec.toml, command.txt, figures as html, the privacy card.

    Where the method has several prediction rules, its tables under each of them too, as accuracy-RULE.csv; where a language
    model was trained on texts that may be shown, tokens.csv, retained.csv and leaks.csv; where clients' lists were matched,
    list-entries.csv, list-groups.csv, list-agreement.csv, list-anchors.csv and list-statistics.csv, the simulator's view.

    Raises BadInput for an unknown run.
    """
    from dpcl_core.runs import frames, matching  # pandas and plotly cost a second that `run --json` need not pay

    run = store.get(run_id)
    events = [event for _, event in store.events_after(run_id)]
    by_rule = {
        f"{name}-{rule}.csv": table.to_csv(index=False).encode()
        for rule in frames.rules(events)
        for name, table in (("accuracy", scores(events, run.spec, rule)), ("metrics", frames.metrics(events, rule)))
    }
    tables = {
        "tokens": frames.tokens, "retained": frames.retained, "leaks": frames.leaks, "list-entries": matching.entries,
        "list-groups": matching.prototypes, "list-agreement": matching.agreement, "list-anchors": matching.anchors,
        "list-statistics": matching.statistics,
    }  # fmt: skip
    told = {
        f"{name}.csv": found.to_csv(index=False).encode()
        for name, table in tables.items()
        if not (found := table(events)).empty
    }
    files = by_rule | told | {
        "accuracy.csv": scores(events, run.spec).to_csv(index=False).encode(),
        "metrics.csv": frames.metrics(events).to_csv(index=False).encode(),
        "spent.csv": frames.spent(events).to_csv(index=False).encode(),
        "result.json": (json.dumps(document_of(store, run), indent=1) + "\n").encode(),
        "spec.toml": checks.to_toml(run.spec).encode(),
        "command.txt": (checks.command_line(run.spec) + "\n").encode(),
        "guarantees.csv": _guarantees(events, run.spec).to_csv(index=False).encode(),
        "privacy.json": (json.dumps(_cards(events, run.spec), indent=1, ensure_ascii=False) + "\n").encode(),
        "privacy.txt": privacy_text(events).encode(),
        card.FILE: (json.dumps(_card(run, events), indent=1, ensure_ascii=False) + "\n").encode(),
    }
    return files | {f"{name}.html": page for name, page in _figures(run, events).items()}


def _card(run: Run, events: Sequence[Event]) -> dict[str, JsonValue]:
    """The card that anyone can check, on which every epsilon stands beside the events it follows from."""
    started = next((event for event in events if isinstance(event, Started)), None)
    dataset = run.spec.data.dataset if started is None else started.dataset_title
    finished = [event for event in events if isinstance(event, CellFinished)]
    return card.document(run.id, run.spec.method, dataset, finished)


def scores(events: Sequence[Event], spec: RunSpec, rule: str | None = None) -> pd.DataFrame:
    """`frames.accuracy`, whose column is called entity_f1 where that is what it holds."""
    from dpcl_core.runs import frames

    name = datasets.score(spec.data.dataset).lower().replace(" ", "_")
    return frames.accuracy(events, rule).rename(columns={"accuracy": name})


def accuracy_text(events: Sequence[Event], spec: RunSpec) -> str:
    """Mean accuracy on the tasks seen so far, one line a budget, one column a task; a dash where nothing was tested."""
    sums: dict[float, dict[int, list[float]]] = {}
    finished = [event for event in events if isinstance(event, CellFinished)]
    standings = {event.cell.epsilon: standing(event.guarantee) for event in finished}
    for event in events:
        if isinstance(event, TaskLearned):
            known = [value for value in event.accuracy if value is not None]
            means = sums.setdefault(event.cell.epsilon, {}).setdefault(event.task, [])
            means += [sum(known) / len(known)] if known else []
    lines = [f"{datasets.score(spec.data.dataset)} on the tasks seen so far, mean over seeds"]
    words = {
        "bound": "",
        "claimed": "  (epsilon claimed, not verified)",
        "replay": "  (epsilon of the replay alone, head not private)",
    }
    for epsilon, by_task in sums.items():
        cells = "  ".join(
            f"{100 * sum(values) / len(values):5.1f}" if values else "    –" for _, values in sorted(by_task.items())
        )
        lines.append(f"epsilon {epsilon:<6g} {cells}{words[standings.get(epsilon, 'bound')]}")
    return "\n".join(lines)


def leaks_text(events: Sequence[Event], spec: RunSpec) -> str:
    """What the models tell of the secrets planted most often, one line a budget; empty where none were planted."""
    from dpcl_core.runs import frames

    if not any(isinstance(event, Leaks) for event in events):
        return ""
    table = frames.leaks(events)
    lines = []
    for asked, rows in table.groupby("epsilon"):
        most = rows[rows["planted"] == rows["planted"].max()]
        before, after = most[most["after_task"] < 0], most[most["after_task"] == most["after_task"].max()]
        controls = rows[(rows["planted"] == 0) & (rows["after_task"] == most["after_task"].max())]
        parts = [
            f"exposure {after['exposure'].mean():.1f} bits after the last task told",
            f"{before['exposure'].mean():.1f} before the first" if not before.empty else "",
            f"controls {controls['exposure'].mean():.1f}" if not controls.empty else "",
            f"{100 * after['extracted'].mean():.0f} % printed by greedy continuation",
            f"epsilon at least {shown(after['epsilon_at_least'].max())} measured",
        ]
        claim = " (nominal, no guarantee)" if methods.is_nominal(spec.method) and math.isfinite(float(asked)) else ""
        head = f"epsilon {float(asked):g}{claim}: secrets planted {most['planted'].max()} times"
        lines.append(f"{head}: {'; '.join(part for part in parts if part)}")
    return "".join(f"{line}\n" for line in lines)


def privacy_text(events: Sequence[Event]) -> str:
    """The statement of a run in the words that the app prints: each budget, then what holds for all of them."""
    from dpcl_core.runs import frames

    return statement_text.text(frames.guarantees(events))


def _cards(events: Sequence[Event], spec: RunSpec) -> list[JsonValue]:
    from dpcl_core.runs import frames

    return [
        {"asked": plain_number(asked), **guarantee_document(given, spec)}
        for asked, given in frames.guarantees(events).items()
    ]


def _guarantees(events: Sequence[Event], spec: RunSpec) -> pd.DataFrame:
    """One row a budget: asked, accounted (inf: no bound), delta, and what stands behind it; the claim's terms as text."""
    import pandas as pd

    from dpcl_core.runs import frames

    rows = []
    for asked, given in frames.guarantees(events).items():
        backing = _backing(given, spec)
        terms = {} if given.claim is None else given.claim.terms
        backing["eps_terms"] = "; ".join(f"{name} = {term:.6g}" for name, term in terms.items()) or None
        rows.append({"asked": asked, "accounted": given.epsilon, "delta": given.delta, **backing})
    return pd.DataFrame(rows)


def _figures(run: Run, events: Sequence[Event]) -> dict[str, bytes]:
    """Pages that open without a server: each figure with its finding and its provenance."""
    from dpcl_core.figures import html

    of_run = Result(run.id, run.name, run.spec, tuple(events))
    if of_run.started is None:
        return {}  # a run that ended before its stream was open has nothing to draw
    return {name: html.page(of_run.figure(name), of_run.provenance).encode() for name in FIGURES}
