"""Exports of a run: the JSON document of the command line, tables as CSV, figures as HTML and SVG, the privacy card;
all of them as files in a folder.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from dpcl_core import checks, presets
from dpcl_core import events as kinds
from dpcl_core.backbones import catalog as backbones
from dpcl_core.classifiers import folder as folders
from dpcl_core.data import catalog as datasets
from dpcl_core.errors import BadInput
from dpcl_core.events import CellFinished, Event, Guarantee, JsonValue, TaskLearned, of_kind, plain, plain_number, to_json
from dpcl_core.later import pd
from dpcl_core.methods import catalog as methods
from dpcl_core.metrics import grouped, mean
from dpcl_core.papers import measured
from dpcl_core.privacy import card_document as card
from dpcl_core.privacy.statement import kind, shown_number, standing, ways_out
from dpcl_core.results import FIGURES, Result, method_title, of_run, question, references
from dpcl_core.runs import administration, frames
from dpcl_core.scenarios import catalog as scenarios
from dpcl_core.spec import RunSpec, fields_of, json_schema

if TYPE_CHECKING:
    from dpcl_core.runs.run import Run
    from dpcl_core.runs.store import Store


# The catalogs as JSON rows, for the command line and the pages.


Catalog = Literal["methods", "datasets", "backbones", "scenarios", "presets"]
Row = dict[str, JsonValue]
LAYERS = {"paper": "as printed or made to work, by its settings", "repair": "repaired", "added": "added, in no paper"}


def catalog_rows(catalog: Catalog) -> list[Row]:
    """One JSON row per catalog entry, from its card; `missing`: why it cannot be used on this computer, or null.

    Of a network, `trained_on` says in words on what, null where it was not trained; `saw` names the datasets among that,
    which are refused as private.
    """
    if catalog == "presets":
        kept = ("name", "title", "seconds", "live_demo")
        every = map(presets.about, presets.names())
        return [{**{name: getattr(one, name) for name in kept}, "summary": one.question} for one in every]
    more: Mapping[str, tuple[Mapping[str, Any], Callable[[Any], Row]]] = {
        "methods": (methods.CARDS, lambda card: {
            "guarantee": card.guarantee, "layer": LAYERS[card.printed.kind], "printed": card.printed.document(),
            "labels": list(card.labels), "scenarios": list(card.scenarios),
            "params": json_schema(card.params)["properties"] if fields_of(card.params) else {},
        }),
        "datasets": (datasets.CARDS, lambda card: {"kind": card.kind, "missing": datasets.available(card)}),
        "backbones": ({name: backbones.card(name) for name in backbones.names()}, lambda card: {
            "trained_on": card.trained_on, "saw": list(card.saw), "missing": backbones.available(card),
        }),
        "scenarios": (scenarios.CARDS, lambda card: {"settings": json_schema(card.settings)["properties"]}),
    }  # fmt: skip
    cards, own = more[catalog]
    return [
        {"name": card.name, "title": card.title, "summary": card.summary, "source": card.source, **own(card)}
        for card in cards.values()
    ]


# A notebook's cells: what a person reads, and the code behind it.
_NOTEBOOK = {
    "The same settings, carried out again: noise is drawn anew, so numbers differ as much as seeds do.":
    'import tomllib\n\nimport dpcl_core as dpcl\n\nsettings = tomllib.loads("""\n{toml}""")\nresult = dpcl.run(settings)',
    "What came out, in sentences and as a figure.":
    'for name in ("accuracy", "forgetting", "tradeoff"):\n    print(result.figure(name).finding)\n'
    'result.figure("accuracy").figure',
    "Metrics, mean over seeds.":
    'result.metrics.groupby(["epsilon", "metric"])["value"].mean().unstack().round(3)',
    "What is protected: the ledger answers, not the setting.":
    "for epsilon, guarantee in result.guarantees.items():\n    print(epsilon, guarantee.epsilon, guarantee.unit)",
}  # fmt: skip


def run_notebook(spec: RunSpec) -> str:
    """The run as a notebook (nbformat 4): its settings, the run again, figures, metrics and statement.

    Its code needs this project, and the run's data.
    """
    cells: list[dict[str, object]] = []

    def add(kind: str, text: str, **more: object) -> None:
        of_cell = {"cell_type": kind, "id": f"cell-{len(cells)}", "metadata": {}, "source": text.splitlines(keepends=True)}
        cells.append({**of_cell, **more})

    add("markdown", f"# {method_title(spec)}\n\n{question(spec)}")
    for words, code in _NOTEBOOK.items():
        add("markdown", words)
        add("code", code.replace("{toml}", checks.to_toml(spec)), execution_count=None, outputs=[])
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    notebook = {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


# Events about synthetic or public texts and simulated clients' lists, by the key under which they are exported.
_DETAILS = {"tokens": kinds.TokensScored, "retained": kinds.Retained, "leaks": kinds.Leaks, "signatures": kinds.Signatures}
# The names of a bundle's files, whatever the run; those of figures are in FIGURES.
_TABLES = "accuracy|metrics|spent|guarantees|tokens|retained|leaks|list-(?:entries|groups|agreement|anchors|statistics)"
_OF_A_BUNDLE = re.compile(
    rf"(?:{_TABLES}|(?:accuracy|metrics)-[^/]+)\.csv|(?:{'|'.join(FIGURES)}|report)\.html|(?:{'|'.join(FIGURES)})\.svg"
    rf"|result\.json|privacy\.json|{re.escape(card.FILE)}|spec\.toml|command\.txt|privacy\.txt|notebook\.ipynb|citations\.bib"
    rf"|{folders.NAME}/(?:{re.escape(folders.DOCUMENT)}|[^/]+\.safetensors)"
)


def result_document(
    run_id: str, status: str, spec: RunSpec, events: Sequence[Event], ceiling: float | None = None
) -> dict[str, JsonValue]:
    """The result of a run as one JSON document; `accuracy[k][i]` is on task i after task k, null if not evaluated.

    `score`: the measure, "accuracy" or "entity F1"; `budgets`: the meaning of the requested epsilons, bounds on the whole
    release ("bound"), a publication's claim ("claimed"), bounds on the replay alone ("replay") or on nothing ("none").

    `layer`: how the settings relate to the method's publication; null if its printed settings are not recorded.

    `references`, in [0, 1]: `chance`; `untrained`, the public network as it came, null for a network trained from scratch;
    `ceiling`, all tasks learned at once without noise, null if neither a record nor the store (`ceiling`) has it.

    `ahead[k]`: accuracy on task k + 1, not learned yet, if the stream looks ahead; `untrained[i]`: on task i before any
    training. FWT is the mean of ahead[i - 1] - untrained[i].

    If the method has several prediction rules, `by_rule` holds such a matrix for each. "tokens", "retained" and "leaks" hold
    the events about a language model's texts, "signatures" those about matched client lists.
    """
    known, layer = references(spec, events, ceiling), methods.layer(spec)
    learned = grouped((event.cell, event) for event in of_kind(events, TaskLearned))
    details = {  # without the kind's name, and without the inputs that only serve to re-match lists
        key: [
            {name: value for name, value in to_json(event).items() if name not in ("event", "lists", "public")}
            for event in events
            if isinstance(event, kind)
        ]
        for key, kind in _DETAILS.items()
    }
    return {
        "run_id": run_id,
        "status": status,
        "spec": spec.jsonable(),
        "score": datasets.score(spec.data.dataset),
        "budgets": methods.standing(spec),
        "layer": None if layer is None else json.loads(json.dumps({**asdict(layer), "words": layer.words})),
        "references": {"chance": known.chance, "untrained": known.untrained, "ceiling": known.ceiling},
        "cells": [_cell(event, learned[event.cell], spec) for event in of_kind(events, CellFinished)],
        **{key: cast(JsonValue, records) for key, records in details.items() if records},
    }


def _cell(finished: CellFinished, steps: Sequence[TaskLearned], spec: RunSpec) -> dict[str, JsonValue]:
    """One model as JSON: `steps` are its accuracies after each task."""

    def square(rows: Sequence[tuple[float | None, ...]]) -> list[JsonValue]:
        """The rows as a square matrix: null for tasks not yet learned."""
        return [[*row, *[None] * (len(rows) - len(row))] for row in rows]

    rules: dict[str, JsonValue] = {rule: square([one.by_rule[rule] for one in steps]) for rule in steps[0].by_rule}
    ahead: list[JsonValue] = [one.ahead for one in steps]
    return {
        "epsilon": plain_number(finished.cell.epsilon),
        "seed": finished.cell.seed,
        "accuracy": square([one.accuracy for one in steps]),
        **({"ahead": ahead} if any(value is not None for value in ahead) else {}),
        **({"untrained": list(finished.untrained)} if finished.untrained else {}),
        **({"by_rule": rules} if rules else {}),
        "metrics": dict(finished.metrics),
        "guarantee": _guarantee(finished.guarantee, spec),
        "seconds": finished.seconds,
    }


def document_of(store: Store, run: Run) -> dict[str, JsonValue]:
    """The document of a stored run, with `audits`: the results of its audits so far, the newest audit first.

    On one's own data also `looks`: how often they were used, and what that adds up to.
    """
    from dpcl_core.runs.audits import Audits

    found = result_document(run.id, run.status, run.spec, store.events(run.id), measured.known(run.spec, store=store))
    found["audits"] = [result.document() for audit in Audits(store).of_run(run.id) for result in audit.results]
    if (seen := administration.looks_at(store, run.spec.data.dataset)) is not None:
        found["looks"] = cast(JsonValue, seen.document())
    return found


def _guarantee(given: Guarantee, spec: RunSpec) -> dict[str, JsonValue]:
    """A guarantee as JSON, with the evidence for its epsilon as flat fields; infinity is the string "inf"."""
    return {**cast(dict[str, JsonValue], plain(asdict(given))), **_backing(given, spec)}


def _backing(given: Guarantee, spec: RunSpec) -> dict[str, JsonValue]:
    """The evidence for the epsilon: `guarantee` is "proved" (by the ledger), "nominal" (a publication's claim) or "none".

    Claim and audit fields are null where there is none; `eps_audit_lower` is a measured lower bound. If private data are
    released in two ways, `eps_replay`, `eps_head` and `eps_total` give each and the total.
    """
    claim, audit, settings = given.claim, given.audit, spec.params.jsonable()
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


def bundle(store: Store, run_id: str, *, unprotected: bool = False) -> dict[str, bytes]:
    """Every file of a run's export by name: CSV tables, spec.toml, command.txt, figures as HTML and SVG, the privacy card, a
    report that is one page, a notebook, BibTeX.

    If the method has several prediction rules: its tables under each, as accuracy-RULE.csv. If a language model was trained
    on texts that may be shown: tokens.csv, retained.csv and leaks.csv. If clients' lists were matched: list-entries.csv,
    list-groups.csv, list-agreement.csv, list-anchors.csv and list-statistics.csv, the simulator's view. The released
    classifiers as classifier/…; those without a privacy bound only if `unprotected`.

    Tables count tasks from 0, as the API does; report.html says so. Raises BadInput for an unknown run, for one
    without results of its own, and for one that has not learned a task.
    """
    from dpcl_core.papers import catalog  # reads what all papers print

    run = store.get_with_results(run_id)
    events = store.events(run_id)
    if not any(of_kind(events, TaskLearned)):
        raise BadInput("run", run_id, f"is {run.status} and has learned no task: there is nothing to export")
    result = of_run(store, run)
    seen = administration.sentence(store, run.spec.data.dataset)
    tables = {"accuracy": result.scores, "metrics": result.metrics, "spent": result.spent}
    tables["guarantees"] = _guarantees_table(result)
    for of_rule in (replace(result, rule=rule) for rule in result.rules):
        tables |= {f"accuracy-{of_rule.rule}": of_rule.scores, f"metrics-{of_rule.rule}": of_rule.metrics}
    details = {
        "tokens": frames.tokens, "retained": frames.retained, "leaks": frames.leaks, "list-entries": frames.entries,
        "list-groups": frames.prototypes, "list-agreement": frames.agreement, "list-anchors": frames.anchors,
        "list-statistics": frames.statistics,
    }  # fmt: skip
    tables |= {name: frame for name, table in details.items() if not (frame := table(events)).empty}
    guarantees = [
        {"asked": plain_number(requested), **_guarantee(given, run.spec)} for requested, given in result.guarantees.items()
    ]
    texts = {
        **{f"{name}.csv": table.to_csv(index=False) for name, table in tables.items()},
        "result.json": json.dumps(document_of(store, run), indent=1) + "\n",
        "spec.toml": checks.to_toml(run.spec),
        "command.txt": checks.command_line(run.spec) + "\n",
        "privacy.json": json.dumps(guarantees, indent=1, ensure_ascii=False) + "\n",
        "privacy.txt": str(result.statement) + (f"{seen}\n" if seen else ""),
        "report.html": result.to_html(seen),
        "notebook.ipynb": run_notebook(run.spec),
        "citations.bib": catalog.citations(run.spec),
        **_figures(result),
    }
    kept = folders.files(run.id, run.spec, events, store.classifiers(run.id), unprotected=unprotected)
    of_card = {card.FILE: card.content(run.id, run.spec, events)}
    return {name: content.encode() for name, content in texts.items()} | of_card | kept


def classifier(store: Store, run_id: str) -> dict[str, bytes]:
    """The files that use what a run released after its last task: arrays, the privacy card, and a README with the lines.

    Raises BadInput for a run without a classifier that has a privacy bound.
    """
    run = store.get_with_results(run_id)
    return folders.bundle(run.id, run.spec, store.events(run_id), store.classifiers(run.id))


def check_folder(target: Path) -> None:
    """Raises BadInput unless a bundle may be written there: into a new or empty folder, or in place of an earlier bundle."""
    allowed = "must be a new or empty folder, or one that holds an export alone"
    if target.exists() and not target.is_dir():
        raise BadInput("--to", str(target), f"{allowed}; this is a file")
    there = _files_in(target)
    if there and card.FILE not in there:
        raise BadInput("--to", str(target), f"{allowed}; {there[0]} is there, and no {card.FILE}: name another folder")
    for name in there:
        if not _OF_A_BUNDLE.fullmatch(name):
            raise BadInput("--to", str(target), f"{allowed}; {name} is no file of one: name another folder, or move it")


def write(target: Path, files: Mapping[str, bytes]) -> None:
    """Writes a bundle into the folder, in place of an earlier one: classifiers without a bound must not stay behind, which
    whoever passes the folder on would give away. Raises BadInput as `check_folder` does, and OSError.
    """
    check_folder(target)
    target.mkdir(parents=True, exist_ok=True)
    for name in _files_in(target):
        if name != card.FILE:  # it tells the folder of a bundle, also of one that was not written to its end
            (target / name).unlink()
    for name in sorted(files, key=lambda name: name != card.FILE):
        (target / name).parent.mkdir(exist_ok=True)
        (target / name).write_bytes(files[name])


def _files_in(target: Path) -> list[str]:
    """All that lies in the folder, by relative name, but for the folder of classifiers itself."""
    names = (path.relative_to(target).as_posix() for path in sorted(target.rglob("*")))
    return [name for name in names if name != folders.NAME or (target / name).is_symlink() or not (target / name).is_dir()]


def result_text(result: Result) -> str:
    """The result of a run for a terminal: accuracies, where it ended, leaks of planted secrets, the privacy statement.

    Accuracies are means over the tasks seen so far: one line per budget, one column per task, a dash if nothing was tested.
    A line each says where the run ended between chance and the ceiling, and which budgets cannot be told from chance.
    """
    spec, events = result.spec, result.events
    means = grouped((event.cell.epsilon, (event.task, mean(event.accuracy))) for event in of_kind(events, TaskLearned))
    standings = {event.cell.epsilon: standing(event.guarantee) for event in of_kind(events, CellFinished)}
    lines = [f"{result.score} on the tasks seen so far, mean over seeds"]
    remarks = {
        "bound": "",
        "claimed": "  (epsilon claimed, not verified)",
        "replay": "  (epsilon of the replay alone, head not private)",
        "none": "  (epsilon only asked for, no bound)",
    }
    for epsilon, of_tasks in means.items():
        by_task = [mean(of_seeds) for _, of_seeds in sorted(grouped(of_tasks).items())]
        cells = "  ".join("    –" if known is None else f"{100 * known:5.1f}" for known in by_task)
        lines.append(f"epsilon {epsilon:<6g} {cells}{remarks[standings.get(epsilon, 'bound')]}")
    lines += filter(None, (result.placed(spec.privacy.usual_epsilon), result.lost))
    return "\n".join([*lines, f"{leaks_text(events, spec)}{result.statement}"])


def leaks_text(events: Sequence[Event], spec: RunSpec) -> str:
    """What the models leak of the secrets planted most often, one line per budget; empty if none were planted."""
    if next(of_kind(events, kinds.Leaks), None) is None:
        return ""  # before pandas is loaded
    table = frames.leaks(events)
    lines = []
    for epsilon, rows in table.groupby("epsilon"):
        most = rows[rows["planted"] == rows["planted"].max()]
        before, after = most[most["after_task"] < 0], most[most["after_task"] == most["after_task"].max()]
        controls = rows[(rows["planted"] == 0) & (rows["after_task"] == most["after_task"].max())]
        parts = [
            f"exposure {after['exposure'].mean():.1f} bits after the last task measured",
            f"{before['exposure'].mean():.1f} before the first" if not before.empty else "",
            f"controls {controls['exposure'].mean():.1f}" if not controls.empty else "",
            f"{100 * after['extracted'].mean():.0f} % printed by greedy continuation",
            f"epsilon at least {shown_number(after['epsilon_at_least'].max())} measured",
        ]
        claim = " (nominal, no guarantee)" if methods.is_nominal(spec.method) and math.isfinite(float(epsilon)) else ""
        head = f"epsilon {float(epsilon):g}{claim}: secrets planted {most['planted'].max()} times"
        lines.append(f"{head}: {'; '.join(part for part in parts if part)}")
    return "".join(f"{line}\n" for line in lines)


def _guarantees_table(result: Result) -> pd.DataFrame:
    """One row per budget: asked, accounted (inf: no bound), delta, and the evidence; the claim's terms as text."""
    rows = []
    for requested, given in result.guarantees.items():
        backing = _backing(given, result.spec)
        terms = {} if given.claim is None else given.claim.terms
        backing["eps_terms"] = "; ".join(f"{name} = {term:.6g}" for name, term in terms.items()) or None
        rows.append({"asked": requested, "accounted": given.epsilon, "delta": given.delta, **backing})
    return pd.DataFrame(rows)


def _figures(result: Result) -> dict[str, str]:
    """Each figure with its provenance: as an interactive HTML page with its finding, and as SVG."""
    from dpcl_core.figures import html, svg

    if result.started is None:
        return {}  # a run that ended before its stream was open has nothing to draw
    pictures, source = {name: result.figure(name) for name in FIGURES}, result.provenance
    pages = {f"{name}.html": html.page(picture, source) for name, picture in pictures.items()}
    return pages | {f"{name}.svg": svg.draw_svg(picture, source=source.line()) for name, picture in pictures.items()}
