"""A run that dies at any event and is resumed is the unbroken run: the same events, ledgers, arrays, bit for bit.

Noise is seeded, so that there is one unbroken run. A life of a run ends by throwing its generator away; the next one has
nothing of it but what was saved.
"""

import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType

import numpy as np
import pytest
from safetensors import numpy as safetensors

from dpcl_core import checks, machine
from dpcl_core.errors import BadInput
from dpcl_core.events import CellFinished, Event, Progress, TaskLearned, to_json
from dpcl_core.methods import catalog as methods
from dpcl_core.methods.common.state import Checkpoint, is_public
from dpcl_core.methods.lifelong import nets
from dpcl_core.runs import worker
from dpcl_core.scenarios.stream import Task
from dpcl_core.spec import RunSpec
from tests.classifiers.test_every_method import ALSO as EVERY
from tests.data.making import put
from tests.support.asserting import refuses
from tests.support.replay import Memory
from tests.support.tiers import of_methods
from tests.test_neighbours import ALSO as NEW
from tests.test_neighbours import METHODS, WINDOWS, D, home, lies, shared, spec  # noqa: F401

_LM = METHODS["lm-mtl"][1]["params"]
# Settings under which a method keeps other things.
ALSO = {
    **EVERY,
    "noisy copies, replayed": ("lm-er", {"params": {**_LM, "mechanism": "fn"}, "privacy": {"adjacency": "replace"}}),
    "noisy copies, collected": ("lm-mtl", {"params": {**_LM, "mechanism": "fn"}, "privacy": {"adjacency": "replace"}}),
    "given lists": ("dp-coeff-memory", {"labels": "dp-learned", "privacy": {"epsilons": [40.0]}}),
    "local": ("pecl", {"params": {**_LM, "mode": "local"}, "privacy": {"adjacency": "replace"}}),
    **{name: (method, changes) for name, (method, _, changes) in NEW.items() if name != "clients with tagged words"},
}
CHEAP = (  # with `TAKEN`, more than thirty lives that end too early
    "dp-coeff-memory", "naive", "l2dp-ml", "dp-fedavg", "fedta-lite", "a network's features", "projected", "local",
    "noisy copies, replayed", "noisy copies, collected", "given lists", "adapters on texts", "a network of one's own",
    "clients with windows", "one class against the rest, seen", "sentences that no client holds",
)  # fmt: skip
SMALLER = {
    **{name: door for name, (_, door, _) in NEW.items()},
    "l2dp-ml": WINDOWS,  # its losses on pictures take ten seconds of a processor in every life
}


class Died(BaseException):
    """The process ends here."""


class Doomed(Memory):
    """Checkpoints of a process that dies while it saves that of one task: before it is durable, or after."""

    def __init__(self, saved: dict[int, list[Checkpoint]], task: int, *, is_durable: bool) -> None:
        super().__init__(saved)
        object.__setattr__(self, "_end", (task, is_durable))

    def save(self, checkpoint: Checkpoint) -> None:
        task, is_durable = self._end  # type: ignore[attr-defined]
        if checkpoint.task != task or is_durable:
            super().save(checkpoint)
        if checkpoint.task == task:
            raise Died


def asked_of(name: str, root: Path, patch: pytest.MonkeyPatch, n_tasks: Sequence[int] = (3, 2), **more: object) -> RunSpec:
    """A cheap run of the method or of one of `ALSO`, of the first of these numbers of tasks that its data allow."""
    method, changes = ALSO[name] if name in ALSO else (name, METHODS[name][1])
    door = SMALLER.get(name, METHODS[method][0])
    lies(door, D, root, patch)
    patch.setenv("DPCL_NETWORKS", "tests.support.own_networks")
    scenario = changes.get("scenario", {"kind": "class-incremental"})
    for n in n_tasks:
        try:
            asked = spec(method, {**changes, "scenario": {**scenario, "tasks": n}, **more}, door[0])
            checks.check_run(asked)
        except BadInput:
            continue
        return asked
    raise AssertionError(name)


def results(events: Sequence[Event]) -> list[Mapping[str, object]]:
    """All but progress, as documents; without durations, and without the audit at the end, which draws anew each time."""
    found = []
    for event in events:
        if not isinstance(event, Progress):
            document = to_json(event)
            document.pop("seconds", None)
            if isinstance(event, CellFinished):
                document["guarantee"].pop("audit")  # type: ignore[union-attr]
            found.append(document)
    return found


def states(keep: Memory) -> list[object]:
    """What the checkpoints have beside their events; the arrays byte for byte, each where it is used."""
    found: list[object] = []
    for checkpoint in (one for of_group in keep.saved.values() for one in of_group):
        document = json.loads(checkpoint.document or "{}")
        document.pop("seconds", None)
        arrays = safetensors.load(checkpoint.arrays) if checkpoint.arrays else {}
        found.append((checkpoint.group, checkpoint.task, spelled_out(document, arrays)))
    return found


def spelled_out(document: object, arrays: Mapping[str, np.ndarray]) -> object:
    """A document with arrays in place of their names: two arrays may be equal in one life, and the same one in another."""
    if isinstance(document, dict):
        for kind in ("array", "scalar", "tensor"):
            if kind in document:
                array = arrays[document[kind]]
                return kind, array.dtype, array.shape, array.tobytes()
        if "network" in document:
            return {name: arrays[of].tobytes() for name, of in document["network"].items()}
        return {name: spelled_out(one, arrays) for name, one in document.items()}
    return [spelled_out(one, arrays) for one in document] if isinstance(document, list) else document


def life(asked: RunSpec, keep: Memory, n_events: int | None = None) -> list[Event]:
    """The events that leave before the process dies: after so many, or where `keep` ends it."""
    left: list[Event] = []
    stream = worker.real_engine(asked, "cpu", keep)
    try:
        for event in stream if n_events is None else islice(stream, n_events):
            left.append(event)
    except Died:
        pass
    stream.close()
    return left


def only_saved_events_left(left: Sequence[Event], keep: Memory) -> bool:
    """Whether every event of a task that is no function of public facts is in a checkpoint.

    Without the budget's name: what leaves names the budget asked for, a checkpoint the one that given lists leave of it.
    """
    saved = [unnamed(event) for of_group in keep.saved.values() for one in of_group for event in results(one.events)]
    learning = [event for event in left if hasattr(event, "cell") and not is_public(event)]
    return all(unnamed(event) in saved for event in results(learning))


def unnamed(event: Mapping[str, object]) -> Mapping[str, object]:
    return {key: value for key, value in event.items() if key != "cell"}


@pytest.mark.parametrize("method", of_methods((*METHODS, *ALSO), also=CHEAP))
def test_every_method_goes_on_as_if_nothing_had_happened(method, tmp_path, monkeypatch):
    """Dies when the first task's first event has left, then while it saves the last task; the third life finishes."""
    asked = asked_of(method, tmp_path, monkeypatch)
    unbroken = Memory()
    events = list(worker.real_engine(asked, "cpu", unbroken))
    expected = results(events)
    (of_group,) = unbroken.saved.values()
    last = of_group[-1].task
    keep = Memory()
    first = life(asked, keep, 1 + next(place for place, event in enumerate(events) if isinstance(event, TaskLearned)))
    assert [one.task for one in keep.saved[0]] == [0]
    second = life(asked, Doomed(keep.saved, last, is_durable=False))
    assert [one.task for one in keep.saved[0]] == list(range(last))
    for left in (first, second):
        assert only_saved_events_left(left, keep)
        assert results(left) == expected[: len(results(left))]
    assert (results(life(asked, keep)), states(keep)) == (expected, states(unbroken))
    # All is saved, and not passed on: nothing is learned again.
    assert results(life(asked, keep)) == expected


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_a_run_may_die_at_any_event(method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, n_lost, n_differences = kills(asked_of(method, tmp_path, monkeypatch, (3, 4, 2)))
    assert (n_lost, n_differences) == (0, 0)


def kills(asked: RunSpec) -> tuple[int, int, int]:
    """Lets a run die at each of its events; how often, how many cells were lost, how many lives ended otherwise.

    An end is the same if every result, ledger and array is; nothing may have left before it was saved.
    """
    unbroken = Memory()
    events = list(worker.real_engine(asked, "cpu", unbroken))
    expected, expected_states = results(events), states(unbroken)
    n_lost = n_differences = 0
    for n_events in range(1, len(events)):
        keep = Memory()
        left = life(asked, keep, n_events)
        is_sound = only_saved_events_left(left, keep)
        found = results(life(asked, keep))
        finished = [event for event in (*results(left), *expected) if event["event"] == CellFinished.__name__]
        n_lost += sum(event not in found for event in finished)
        n_differences += not (is_sound and found == expected and states(keep) == expected_states)
    return len(events) - 1, n_lost, n_differences


@pytest.mark.parametrize("is_durable", [False, True])
def test_in_a_release_noise_is_drawn_once_for_what_leaves(is_durable, tmp_path, monkeypatch):
    """Noise is the system's. What leaves a task that was broken off is the same in two runs; what was saved stays."""
    asked = asked_of("cosine", tmp_path, monkeypatch, privacy={"epsilons": [40.0], "noise": "release"})
    unbroken = results(list(worker.real_engine(asked, "cpu")))
    lives = []
    for _ in range(2):
        keep = Memory()
        lives.append(life(asked, Doomed(keep.saved, 0, is_durable=is_durable)))
    assert lives[0] == lives[1], "no function of the noise has left"
    assert not any(isinstance(event, TaskLearned) for event in lives[0])
    saved = [event for one in keep.saved.get(0, []) for event in results(one.events)]
    assert bool(saved) == is_durable
    after = list(worker.real_engine(asked, "cpu", keep))
    assert saved in ([], [event for event in results(after) if event.get("task") == 0])
    ledgers = [event["ledger"] for event in (*unbroken, *results(after)) if event["event"] == "CellFinished"]
    assert ledgers[0] == ledgers[1], "every task is charged, and charged once"
    assert {entry["task"] for entry in ledgers[0]["entries"]} == set(range(asked.scenario.tasks))  # type: ignore[attr-defined]


def test_a_method_that_cannot_be_kept_is_not_tried_again_once_something_has_left(tmp_path, monkeypatch):
    """Its first task may be, from which nothing has left."""
    from dpcl_core.methods.features.cosine import CosineClassifier

    class Forgetful(CosineClassifier):
        KEPT = property()  # type: ignore[assignment]  # hasattr() says no

    module = ModuleType("forgetful_of_this_test")
    module.make_learner = Forgetful  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    card = replace(methods.card("cosine"), module=module.__name__)
    monkeypatch.setattr(methods, "CARDS", {**methods.CARDS, "cosine": card})
    asked = asked_of("cosine", tmp_path, monkeypatch)
    keep = Memory()
    life(asked, Doomed(keep.saved, 0, is_durable=False))
    assert any(isinstance(event, CellFinished) for event in worker.real_engine(asked, "cpu", keep))
    keep = Memory()
    life(asked, Doomed(keep.saved, 0, is_durable=True))
    with pytest.raises(BadInput, match="resume = cosine: cannot be resumed: the state of its method was not kept"):
        list(worker.real_engine(asked, "cpu", keep))


@pytest.mark.parametrize(
    ("name", "value", "why"), [("program", "0.0.1", "version 0.0.1"), ("data", "", "its data have changed")])
def test_a_checkpoint_of_other_data_or_another_program_is_refused(name, value, why, tmp_path, monkeypatch):
    asked = asked_of("cosine", tmp_path, monkeypatch)
    keep = Memory()
    life(asked, Doomed(keep.saved, 0, is_durable=True))
    (checkpoint,) = keep.saved[0]
    changed = json.dumps({**json.loads(checkpoint.document or ""), name: value})
    refuses(why, lambda: list(worker.real_engine(asked, "cpu", Memory({0: [replace(checkpoint, document=changed)]}))))


@pytest.mark.parametrize("is_hidden", [False, True])
def test_a_run_on_own_data_that_were_written_again_is_not_resumed(is_hidden, tmp_path, monkeypatch):
    """It is said whether or not a row has changed; where the time of writing is hidden, the rows' keys show it. No label
    changes."""
    monkeypatch.setenv("DPCL_DATA", str(tmp_path))
    rows = [f"{row}.5,{row % 7},{'wxyz'[row % 4]}" for row in range(200)]
    for part in ("test", "train"):
        path = put(tmp_path / "mine" / f"{part}.csv", "\n".join(["a,b,label", *rows]))
    asked = checks.parse({
        "method": "cosine", "labels": "prior-const", "data": {"dataset": "own:mine", "backbone": "pixels"},
        "scenario": {"kind": "class-incremental", "tasks": 2}, "privacy": {"epsilons": [8.0], "noise": "seeded"},
        "seeds": [0],
    })  # fmt: skip
    keep = Memory()
    life(asked, Doomed(keep.saved, 0, is_durable=True))
    assert any(isinstance(event, CellFinished) for event in worker.real_engine(asked, "cpu", Memory({0: [*keep.saved[0]]})))
    at = path.stat().st_mtime_ns
    if is_hidden:
        path.write_text("\n".join(["a,b,label", *(row.replace(".5", ".25") for row in rows)]), encoding="utf-8")
    os.utime(path, ns=(at, at + (0 if is_hidden else 1)))
    refuses("its data have changed, or were written again, since it began", list, worker.real_engine(asked, "cpu", keep))


def test_no_checkpoint_has_an_example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of methods that keep examples: no row of the data is among the arrays, whole or as network input."""
    for method in ("agem", "dp-agem", "joint-network", "non-cl"):
        asked = asked_of(method, tmp_path, monkeypatch)
        rows: list[np.ndarray] = []
        keep = Memory()
        with monkeypatch.context() as patch:
            watch(method, rows, patch)
            last_but_one = asked.scenario.tasks - 2  # type: ignore[attr-defined]
            life(asked, Doomed(keep.saved, last_but_one, is_durable=True))
        assert rows
        assert all(row.nbytes >= 16 for row in rows)
        (*_, newest) = keep.saved[0]
        for row in rows:
            assert row.tobytes() not in newest.arrays


def watch(method: str, rows: list[np.ndarray], patch: pytest.MonkeyPatch) -> None:
    """Collects a few training rows that the method's learner is given."""
    real = methods.maker

    def maker(name: str) -> object:
        def made(*arguments: object) -> object:
            learner = real(name)(*arguments)  # type: ignore[arg-type]
            learn, form = learner.learn, arguments[2].form  # type: ignore[attr-defined]

            def watched(tasks: Mapping[int, Task], ledgers: object) -> object:
                for given in (task.train.inputs for task in tasks.values()):
                    rows.extend(row for row in given if row.any())
                    if form is not None:
                        rows.extend(nets.tensor(given, form).permute(0, 2, 3, 1).flatten(1).numpy())
                yield from learn(tasks, ledgers)  # type: ignore[arg-type]

            learner.learn = watched  # type: ignore[method-assign, assignment]
            return learner

        return made

    patch.setattr(methods, "maker", maker)


RECORD = Path(__file__).resolve().parent.parent / "docs" / "kills.json"
_INTRODUCTION = """# Runs that were killed at every event

Made by `make kills`. A run of each method dies at each of its events in turn and is resumed from its checkpoints. A cell is
lost if it had finished, or finishes in the unbroken run, and is missing from the resumed one. A difference is any result,
ledger entry, released array or kept number that is not, bit for bit, that of the unbroken run, and any event that had left
before it was saved.

| method | kills | lost cells | differences | day | commit |
| --- | --- | --- | --- | --- | --- |
"""


def page(record: Mapping[str, Sequence[int | str]]) -> str:
    """The counts as a page of the documentation. By method: kills, lost cells, differences, the day and the commit."""
    rows = [f"| `{method}` | {' | '.join(map(str, record[method]))} |" for method in METHODS if method in record]
    total = " | ".join(f"{sum(int(row[place]) for row in record.values()):,}" for place in range(3))
    return _INTRODUCTION + "\n".join([*rows, f"| all {len(rows)} | {total} | | |"]) + "\n"


def test_the_page_of_kills_has_the_record() -> None:
    record = json.loads(RECORD.read_text(encoding="utf-8"))
    assert RECORD.with_suffix(".md").read_text(encoding="utf-8") == page(record)
    assert all(row[1:3] == [0, 0] for row in record.values())


def main(named: Sequence[str]) -> None:
    """Kills runs of the named methods, or of all, and writes the counts down after each."""
    for method in named or METHODS:
        with TemporaryDirectory() as root, pytest.MonkeyPatch.context() as patch:
            patch.setenv("DPCL_HOME", str(Path(root) / "home"))
            row: list[int | str] = [*kills(asked_of(method, Path(root), patch, (3, 4, 2)))]
        print(f"{method}: {row[0]} kills, {row[1]} lost cells, {row[2]} differences", flush=True)
        record = json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else {}
        row = [*row, time.strftime("%Y-%m-%d"), machine.commit()]
        record = {name: row if name == method else record[name] for name in METHODS if name in {*record, method}}
        RECORD.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
        RECORD.with_suffix(".md").write_text(page(record), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
