"""The engine in a page of a browser: settings in, events out, as JSON; and the page's exercise. It runs in Pyodide, and in
tests as it is.

Nothing is kept but in memory, and nothing is asked of anyone: own rows are files of a file system that ends with the page's
worker. Whatever fails is a document with `failure`, whose `sentence` a reader can act on.
"""

import io
import json
import math
import shutil
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Literal, cast
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray

from dpcl_core import checks, engine, events, paths, presets
from dpcl_core.attacks.catalog import closing_notes
from dpcl_core.classifiers import folder as folders
from dpcl_core.data import catalog as datasets
from dpcl_core.data import intake, schema, understood
from dpcl_core.data.rows import digits
from dpcl_core.errors import BadInput, DataMissing, failure_kind
from dpcl_core.events import CellFinished, Classifier, Event, JsonValue, Planned, References, Spending, of_kind
from dpcl_core.explorers.matching_log import Observer
from dpcl_core.figures import answer
from dpcl_core.methods import catalog as methods
from dpcl_core.metrics import grouped
from dpcl_core.privacy import card_document, gaussian, statement
from dpcl_core.spec import RunSpec

OWN = "own"  # what links call the file of whoever made them: it is not in them
FORMS = (".csv", ".tsv", ".jsonl", ".npz")  # of own data, read without a package that a page would have to load
IN_THE_APP = "runs in the installed app: a page has no torch, no parquet files and no other network than hashed words"
_TOO_LITTLE = "This device gives the page too little memory: take fewer rows, models or tasks, or the installed app."


class Page:
    """What one page is doing: the run under way or finished, and what of it was kept."""

    def __init__(self) -> None:
        self._spec: RunSpec | None = None
        self._running: Iterator[Event] = iter(())
        self._events: list[Event] = []
        self._kept: list[Classifier] = []
        self._began = 0.0

    def check(self, settings: str) -> str:
        """Whether these settings can be carried out here: the number of models, the command and the link of the run."""
        return _answered(lambda: _checked(json.loads(settings)))

    def own(self, name: str, content: Any, roles: str, first_line: bool | None = None) -> str:
        """Takes a file in as own data in place of an earlier one: its public facts, and the settings of a first run on it.

        `content`: its bytes; `roles`: the columns with a role, as JSON; `first_line`: whether that names the columns.
        """
        return _answered(lambda: _taken_in(name, content, json.loads(roles), first_line))

    def start(self, settings: str) -> str:
        """Begins a run; `step` carries it out. It replaces the one before."""

        def begun() -> JsonValue:
            raw = json.loads(settings)
            _checked(raw)
            self._spec = spec = checks.parse(raw)
            self._events, self._kept, self._began = [], [], time.monotonic()
            self._running = engine.run(spec, observe=Observer, audit=closing_notes)
            return {"models": spec.n_cells}

        return _answered(begun)

    def step(self) -> str:
        """The next event of the run; null at its end. A released classifier is kept, and not an event of a page."""

        def stepped() -> JsonValue:
            for event in self._running:
                if isinstance(event, Classifier):
                    self._kept = [one for one in self._kept if one.uses_all or one.cell != event.cell] + [event]
                    continue
                self._events.append(event)
                return events.to_json(event)
            return None

        return _answered(stepped)

    def outcome(self) -> str:
        """What the finished run has to say: finding, metrics, statement, ledger, link."""
        return _answered(lambda: _outcome(self._spec, self._events, self._kept, time.monotonic() - self._began))

    def card(self) -> str:
        """The privacy card of the finished run, which `dpcl verify` checks."""
        assert self._spec is not None
        return card_document.content("", self._spec, self._events).decode()

    def classifier(self) -> bytes:
        """The released classifiers with bounds, their card and how to use them, as a zip file."""
        assert self._spec is not None
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in folders.bundle("", self._spec, self._events, self._kept).items():
                archive.writestr(name, content)
        return packed.getvalue()

    def exercise(self, code: str) -> str:
        """What the tests of an exercise say of a reader's code."""
        return _answered(lambda: cast(JsonValue, tested(code)))


def _answered(work: Callable[[], JsonValue]) -> str:
    """The result of some work as JSON, or why it failed."""
    try:
        return json.dumps(work(), allow_nan=False)
    except Exception as error:  # whatever it is, the page shows one sentence
        return json.dumps({"ok": False, "failure": _failure(error)}, allow_nan=False)


def _failure(error: Exception) -> dict[str, JsonValue]:
    kind, sentence = failure_kind(error), str(error)
    field, value, fix = None, None, cast(JsonValue, {})
    if isinstance(error, BadInput):
        field, value, fix = cast(JsonValue, error.field), cast(JsonValue, str(error.value)), events.plain(error.fix)
        if isinstance(error, DataMissing):
            sentence = f"{field} = {value}: {IN_THE_APP}"
    elif isinstance(error, ImportError) and error.name:
        kind, sentence = "data-missing", f"This run needs {error.name}: it {IN_THE_APP}"
    elif kind == "out-of-memory":
        sentence = _TOO_LITTLE
    elif kind == "internal":
        sentence = f"Something unforeseen happened ({type(error).__name__}: {sentence[:200]}): please report it."
    return {"kind": kind, "field": field, "value": value, "fix": fix, "sentence": sentence}


def _checked(raw: Mapping[str, object]) -> JsonValue:
    data = raw.get("data", {})
    if isinstance(data, Mapping) and data.get("dataset") == OWN:
        raise BadInput("data.dataset", OWN, "must be a file of yours: choose it, it is not in the link")
    spec = checks.parse(raw)
    checks.check_run(spec)
    if spec.params.inputs != "features":
        raise DataMissing("params", spec.params.inputs, IN_THE_APP)
    methods.maker(spec.method)
    return {"ok": True, "models": spec.n_cells, "command": checks.command_line(spec), "link": link(spec)}


def link(spec: RunSpec) -> str:
    """The end of an address that repeats a run: its settings, and never a row, a name of a file or of a column's value."""
    settings = spec.jsonable()
    if spec.data.dataset.startswith("own:"):
        settings["data"]["dataset"] = OWN
        settings["public_labels"] = None
        settings["scenario"].pop("order", None)  # sources are words of the file
    return "#run=" + quote(json.dumps(settings, separators=(",", ":")))


def _taken_in(name: str, content: Any, roles: Mapping[str, str], first_line: bool | None) -> JsonValue:
    ending = Path(name).suffix.lower()
    if ending not in FORMS:
        raise BadInput("file", name, f"must be one of {', '.join(FORMS)}; another file {IN_THE_APP}")
    shutil.rmtree(paths.home() / "data", ignore_errors=True)  # the one before
    folder = paths.make_folder(paths.home() / "own")
    path = folder / f"data{ending}"
    line: Literal["names", "data"] | None = None if first_line is None else "names" if first_line else "data"
    asked = intake.Asked(schema.Columns(**{role: column for role, column in roles.items() if column}), first_line=line)
    try:
        path.write_bytes(bytes(content))
        with intake.own_name(str(path), asked) as own:
            spec = presets.on_own(own, {})
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    public = understood.report(own).public
    facts = {
        "kind": public.understood.kind, "classes": ", ".join(public.classes), "sources": ", ".join(public.sources),
        "training examples, nominally": f"{public.n_train:,}", "test examples": f"{public.n_test:,}",
    }  # fmt: skip
    return events.plain({
        "dataset": own, "public": [[key, value] for key, value in facts.items() if value],
        "columns": [column.name for column in public.understood.columns], "classes": list(public.classes),
        "roles": dict(datasets.card(own).roles), "assumed": presets.assumed(spec), "settings": spec.jsonable(),
    })  # fmt: skip


def _outcome(spec: RunSpec | None, seen: list[Event], kept: list[Classifier], seconds: float) -> JsonValue:
    if spec is None or not (finished := [*of_kind(seen, CellFinished)]):
        raise BadInput("run", "none", "must have finished first")
    plan, known = next(of_kind(seen, Planned)), [*of_kind(seen, References)][-1]
    guarantees = {one.cell.epsilon: one.guarantee for one in sorted(finished, key=lambda one: one.guarantee.epsilon)}
    card, score = methods.card(spec.method), datasets.score(spec.data.dataset)
    finals = grouped((one.cell.epsilon, final) for one in finished if (final := one.metrics["AA"]) is not None)
    usual, standing = spec.privacy.usual_epsilon, methods.standing(spec)
    return events.plain({
        "title": f"{card.title} on {datasets.called(spec.data.dataset)}",
        "finding": answer.sentence(usual, finals[usual], known, score=score, standing=standing) if finals.get(usual) else "",
        "warning": answer.warning(finals, known, score=score, standing=standing),
        "score": score, "chance": known.chance, "models": [_model(one) for one in finished],
        "guarantees": [_guarantee(asked, one) for asked, one in guarantees.items()],
        "statement": statement.text(guarantees), "all_models": f"{statement.all_planned(plan)}.",
        "ledger": [
            {"epsilon": one.cell.epsilon, "seed": one.cell.seed, "rows": list(map(_entry, one.ledger.entries))}
            for one in finished if one.ledger is not None
        ],
        "has_classifier": bool(kept) and any(folders.protected(one.guarantee) for one in finished),
        "why_no_classifier": card.no_classifier(spec.params) or "",
        "link": link(spec), "command": checks.command_line(spec), "seconds": round(seconds, 2),
    })  # fmt: skip


def _model(one: CellFinished) -> dict[str, object]:
    about = {"epsilon": one.cell.epsilon, "metrics": one.metrics, "spent": one.guarantee.epsilon, "seconds": one.seconds}
    return {"seed": one.cell.seed, **about}


def _guarantee(asked: float, given: events.Guarantee) -> dict[str, object]:
    said = statement.guarantee_words(given)
    return {
        "covered": said.covered, "not_covered": said.not_covered, "assumptions": said.assumptions, "notes": said.caveats,
        "headline": said.headline, "banner": said.banner, "odds": said.odds, "claimed": said.claimed, "layer": said.layer,
        "audited": said.audited, "composition": given.composition, "scope": given.scope, "kind": statement.kind(given),
        "asked": asked, "epsilon": given.epsilon, "delta": given.delta,
    }  # fmt: skip


def _entry(one: Spending) -> dict[str, object]:
    numbers = {key: value for key, value in card_document.numbers(one.mechanism).items() if key != "mechanism"}
    return {
        "task": one.task + 1, "people_of": [task + 1 for task in one.people_of], "what": one.what, "count": one.count,
        "mechanism": one.mechanism.kind, "numbers": numbers,
    }  # fmt: skip


# An exercise that runs in the page "Train in this page": ten lines of a learner, and the tests that they must pass.
#
# The code is the reader's own, runs in the reader's browser alone, and sees public digits.


Floats = NDArray[np.float64]
Noise = Callable[[Any], Floats]
Learn = Callable[[Floats, NDArray[np.int64], int, float, Noise], Floats]
_EPSILON, _DELTA, _SHARE = 1.0, 1e-5, 0.8
_SEED: Final = 20_251_129  # of the noise: for teaching only
_LONG = 10.0  # the length of a row that no honest picture has
_CLASSES, _WIDTH, _ABSENT = 4, 6, 3  # of a small dataset, and its class without a row


Verdict = tuple[bool, str]  # whether a test is passed, and its result in a sentence


class _Wrong(Exception):
    """The code cannot be tested; its text says why."""


def tested(code: str) -> dict[str, list[Any]]:
    """What a learner's code does right and wrong: `passed` and `said`, one of each a test, in order.

    `code`: Python that defines `learn(rows, labels, n_classes, sigma, noise)`; NumPy is there as `np`. Never raises for what
    the code does: a mistake in it is the one sentence said.
    """
    try:
        learn = _defined(code)
        found = [_one_person(learn), _every_class(learn), _right(learn)]
    except _Wrong as wrong:
        found = [(False, str(wrong))]
    return {"passed": [is_passed for is_passed, _ in found], "said": [said for _, said in found]}


def _defined(code: str) -> Learn:
    names: dict[str, Any] = {"np": np}
    _tried(lambda: exec(compile(code, "learner", "exec"), names))
    if not callable(names.get("learn")):
        raise _Wrong("There is no function learn(rows, labels, n_classes, sigma, noise).")

    def learn(rows: Floats, labels: NDArray[np.int64], n_classes: int, sigma: float, noise: Noise) -> Floats:
        given: Floats = _tried(
            lambda: np.asarray(names["learn"](rows.copy(), labels.copy(), n_classes, sigma, noise), np.float64)
        )
        wanted = (n_classes, rows.shape[1])
        if given.shape != wanted:
            raise _Wrong(f"learn gave numbers of shape {list(given.shape)}: it must give sums {list(wanted)}.")
        if not np.isfinite(given).all():
            raise _Wrong("learn gave a number that is not finite.")
        return given

    return learn


def _tried(does: Callable[[], Any]) -> Any:
    try:
        return does()
    except Exception as error:
        trace, line = error.__traceback__, getattr(error, "lineno", None)
        while trace is not None:
            line = trace.tb_lineno if trace.tb_frame.f_code.co_filename == "learner" else line
            trace = trace.tb_next
        what = getattr(error, "msg", None) or str(error) or type(error).__name__
        raise _Wrong(f"Line {line}: {what}." if line else f"{what}.") from error


def _small() -> tuple[Floats, NDArray[np.int64]]:
    """Rows and labels of a few people; the first row is far too long."""
    rows = np.random.default_rng(_SEED).normal(size=(12, _WIDTH))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    rows[0] *= _LONG
    return rows, np.arange(12) % _ABSENT


def _one_person(learn: Learn) -> Verdict:
    """Whether leaving out any one row moves the sums before noise by at most 1."""
    rows, labels = _small()
    whole = learn(rows, labels, _CLASSES, 0.0, np.zeros)
    others = (np.delete(np.arange(len(rows)), one) for one in range(len(rows)))
    moved = max(float(np.linalg.norm(whole - learn(rows[of], labels[of], _CLASSES, 0.0, np.zeros))) for of in others)
    if moved <= 1 + 1e-9:  # rounding of sums of a dozen numbers is 1e-15
        return True, "One person moves the sums by at most 1."
    return False, f"One person moves the sums by {moved:.3g}, and may by at most 1: what bounds a row's length?"


def _every_class(learn: Learn) -> Verdict:
    """Whether every number of every class gets a draw of its own, times sigma."""
    rows, labels = _small()
    drawn = iter(range(1, 10**6))

    def noise(shape: Any) -> Floats:
        return np.array([float(next(drawn)) for _ in range(math.prod(np.atleast_1d(shape)))]).reshape(shape)

    sigma = 2.0
    added = (learn(rows, labels, _CLASSES, sigma, noise) - learn(rows, labels, _CLASSES, sigma, np.zeros)) / sigma
    if bare := [label for label in range(_CLASSES) if np.allclose(added[label], 0)]:
        return False, f"Class {bare[0]} gets no noise, because nobody is in it: and that is told to everyone."
    draws = np.rint(added)
    if not np.allclose(draws, added) or len(np.unique(draws)) < added.size:
        return False, "Each number needs a draw of its own, times sigma: noise that two share can be subtracted."
    return True, "Every class gets noise, whether or not somebody is in it."


def _right(learn: Learn) -> Verdict:
    """Whether the noisy sums tell new digits apart."""
    images, labels = digits()
    rows, n_train = np.asarray(images.content).reshape(len(labels), -1) / 255, 3 * len(labels) // 4
    generator, sigma = np.random.default_rng(_SEED), gaussian.sigma(_EPSILON, _DELTA)
    sums = learn(rows[:n_train], labels[:n_train], 10, sigma, generator.standard_normal)
    scores = rows[n_train:] @ (sums / np.maximum(np.linalg.norm(sums, axis=1), 1e-12)[:, None]).T
    share = float((scores.argmax(axis=1) == labels[n_train:]).mean())
    said = f"With ε = {_EPSILON:g} it gets {100 * share:.1f} % of new digits right"
    return share >= _SHARE, f"{said}." if share >= _SHARE else f"{said}: {100 * _SHARE:.0f} % are possible."


PAGE = Page()
check, own, start, step = PAGE.check, PAGE.own, PAGE.start, PAGE.step
outcome, card, classifier, exercise = PAGE.outcome, PAGE.card, PAGE.classifier, PAGE.exercise
