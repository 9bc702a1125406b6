"""A stranger's file, read in a process of its own: how much memory its rows take is known only once they are read.

That process may use `MEMORY_BYTES`, where the system can limit it (not Windows), and what it took is free when it ends. Two
at once read files for one server.
"""

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, cast

from pydantic import BeforeValidator, SerializeAsAny, TypeAdapter

from dpcl_core.data import copying, intake, schema, understood
from dpcl_core.data.intake import Given
from dpcl_core.errors import BadInput, instead_of
from dpcl_core.scenarios import catalog, federated
from dpcl_core.spec import PrivacySpec, ScenarioSpec, validated

MEMORY_BYTES = 2 * 2**30
SECONDS = 300
MOST_TASKS = 12
_BEST = 3  # labels that are shown of an example
_OUT_OF_MEMORY = 3  # exit status
_turns = threading.BoundedSemaphore(2)


def _scenario(said: Any) -> ScenarioSpec:
    """Settings of a scenario, as its card reads them."""
    return said if isinstance(said, ScenarioSpec) else validated(
        federated.settings_of(str(said["kind"]), has_clients="clients" in said), said
    )


_Scenario = Annotated[SerializeAsAny[ScenarioSpec], BeforeValidator(_scenario)]


@dataclass(frozen=True, slots=True)
class Looked:
    """What was understood of a file. `plan`: its classes and sources. `network`: what makes its features.

    `privacy`, `usual`: of a run of which nothing is said; `streams`: all scenarios that the data allow, by their number of
    tasks.
    """

    found: understood.Understood
    plan: catalog.Plan | None
    network: str
    privacy: PrivacySpec
    usual: _Scenario
    streams: dict[int, list[_Scenario]]


def look(given: Given) -> Looked:
    """What a run would make of a file. Raises BadInput."""
    from dpcl_core import checks, presets  # imported late: what a form needs of a file takes less time than these

    with intake.looked_at(given) as name:
        found = understood.understand(name)
        raw = presets.settings(name)
        spec = checks.parse({part: raw[part] for part in ("data", "scenario", "privacy")})
        plan = catalog.plan(spec.data)
        n_most = min(MOST_TASKS, max(2, 0 if plan is None else len(plan.classes)))
        streams = {n_tasks: presets.streams(name, n_tasks) for n_tasks in range(2, n_most + 1)}
        return Looked(found, plan, spec.data.backbone, spec.privacy, spec.scenario, streams)


def keep(given: Given) -> str:
    """Keeps a file as own:NAME and gives that name. Raises BadInput."""
    with intake.taken_in(given) as name:
        return name


@dataclass(frozen=True, slots=True)
class Tried:
    """Examples at `path` for the released classifier in the folder `classifier`."""

    path: Path
    classifier: Path


@dataclass(frozen=True, slots=True)
class Answered:
    """Each example's name with its label, and the labels that were next to it, best first; what is to be known of them."""

    labels: tuple[tuple[str, tuple[str, ...]], ...]
    warnings: tuple[str, ...]


def predict(tried: Tried) -> Answered:
    """What a released classifier says of examples. Raises BadInput."""
    from dpcl_core.classifiers.predict import predicted

    found = predicted(tried.classifier, tried.path)
    ranked = [(one.name, sorted(one.scores, key=lambda label: -one.scores[label])[:_BEST]) for one in found.predictions]
    return Answered(tuple((name, tuple(labels)) for name, labels in ranked), found.warnings)


Task = Literal["look", "keep", "columns", "first line", "predict"]
# What is asked of a file, by name, with the types of question and answer: besides its understanding and its name as kept
# data, what the form of its schema needs, and what a classifier says of it.
_TASKS: Mapping[Task, tuple[Callable[[Any], Any], Any, Any]] = {
    "look": (look, Given, Looked),
    "keep": (keep, Given, str),
    "columns": (lambda given: intake.columns(given.path, given.asked.instead or schema.Schema()), Given, list[str]),
    "first line": (lambda given: intake.first_line(given.path), Given, str),
    "predict": (predict, Tried, Answered),
}


def answer(task: Task, given: Given | Tried, *, is_apart: bool = True) -> Any:
    """What `look`, `keep`, `predict`, or `intake` by this name, says of a file; `is_apart`: in a process of its own.

    Raises BadInput where it refuses, and where that process needs more than it may.
    """
    read, question, kind = _TASKS[task]
    if not is_apart:
        return read(given)
    command = [sys.executable, "-m", "dpcl_core.apart", task, str(MEMORY_BYTES)]
    allowed = "needs more memory or time than this server gives to one file: bring fewer rows, or smaller pictures"
    request, too_much = TypeAdapter(question).dump_json(given), BadInput(copying.FIELD, given.path.name, allowed)
    with instead_of(subprocess.TimeoutExpired, say=too_much), _turns:
        done = subprocess.run(command, input=request, capture_output=True, timeout=SECONDS, check=False)
    if done.returncode == _OUT_OF_MEMORY or done.returncode < 0:  # a library may end the process in the place of an error
        raise too_much
    if done.returncode:
        raise RuntimeError(done.stderr.decode(errors="replace"))
    said = json.loads(done.stdout)
    if (refused := said.get("refused")) is not None:
        raise BadInput(*refused)
    return TypeAdapter(kind).validate_python(said["answer"])


def main() -> int:
    """Answers the request on standard input: a task, within so many bytes of memory."""
    task, memory = sys.argv[1], int(sys.argv[2])
    read, question, kind = _TASKS[cast(Task, task)]
    with suppress(ImportError):  # Windows
        import resource

        resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
    try:
        given = TypeAdapter(question).validate_json(sys.stdin.buffer.read())
        said = {"answer": TypeAdapter(kind).dump_python(read(given), mode="json")}
    except BadInput as refused:
        said = {"refused": [refused.field, str(refused.value), refused.allowed]}
    except MemoryError:
        return _OUT_OF_MEMORY
    print(json.dumps(said))
    return 0


if __name__ == "__main__":
    sys.exit(main())
