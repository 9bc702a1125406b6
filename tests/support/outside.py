"""What a run says outside the releases of its ledger: every event, every word on a terminal, every exported file.

What is left out is listed here by name: numbers computed from released models, and times, which no bound covers.
"""

import csv
import io
import json
import re
from collections.abc import Mapping
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import asdict
from pathlib import Path

from safetensors import numpy as safetensors

from dpcl_core import checks, cli
from dpcl_core.events import CellFinished, Classifier, Event, Note, Planned, Progress, References, Started, TaskLearned
from dpcl_core.methods.common.classifier import PUBLIC
from dpcl_core.spec import RunSpec

RELEASED = {"accuracy", "pooled", "by_rule", "ahead", "metrics", "entity_f1", "AA", "AF", "BWT", "FWT", "Last", "Avg"}
TIMES = {"seconds"}
CLAIMED = {"claim", "eps_claimed", "eps_terms"}  # L2DP-ML's claim: from norms of weights that its ledger gives no bound for
AUDITED = {"eps_audit_lower", "lower_bound"}  # what an attack on invented data happened to prove
LEFT_OUT = RELEASED | TIMES | AUDITED | CLAIMED
SAID_OF_OWN_DATA = (Started, Planned, References, Progress, TaskLearned, Classifier, CellFinished, Note)
_AUDITED = re.compile(r"(proved at least |ε ≥ )\d+(\.\d+)?")
_PLACED = re.compile(r", so [^.\n]*|^It may be guessing.*\n", re.MULTILINE)  # what accuracies say of one another
_NUMBER = re.compile(r"[+-]?\d+\.\d+|\bnan\b|–|-(?= )")


def events(said: list[Event]) -> list[object]:
    """Every event without what follows from releases. How often a stage says how far it is depends on the clock."""
    found: list[object] = []
    for event in said:
        assert isinstance(event, SAID_OF_OWN_DATA), f"said of a person's own data: {event}"
        told = {name: value for name, value in asdict(event).items() if name not in RELEASED | TIMES}
        if isinstance(event, Progress):
            told["done"] = None
        if isinstance(event, Classifier):  # a learned list, and with it the rows of arrays, is a release
            told |= dict.fromkeys(("classes", "competing", "by_task", "content"))
        if not found or found[-1] != (type(event).__name__, told):
            found.append((type(event).__name__, told))
    return found


def terminal(spec: RunSpec, folder: Path) -> dict[str, object]:
    """What `run`, `show`, `runs` and `export` say and write, and how they end."""
    folder.mkdir()
    settings, store, out = folder / "spec.toml", f"sqlite:///{folder / 'runs.db'}", folder / "export"
    settings.write_text(checks.to_toml(spec), encoding="utf-8")
    (folder / "runs.db").touch()
    found: dict[str, object] = {"run": (ran := _called(["run", str(settings), "--store", store]))}
    named = re.search(r"^run (\S+)$", ran[2], re.MULTILINE)
    if named is None:
        return found
    run_id = named.group(1)
    found["show"] = _called(["show", run_id, "--store", store])
    found["runs"] = _called(["runs", "--store", store])
    found["export"] = _called(["export", run_id, "--to", str(out), "--store", store, "--unprotected"])
    found |= {path.name: _file(path) for path in sorted(out.rglob("*")) if path.is_file()}
    return dict(json.loads(json.dumps(found).replace(run_id, "RUN").replace(str(folder), "")))


def differences(found: object, expected: object, place: str = "") -> list[str]:
    """Where two nests of lists and mappings differ, and how."""
    if isinstance(found, dict) and isinstance(expected, dict) and found.keys() == expected.keys():
        return [one for name in found for one in differences(found[name], expected[name], f"{place}/{name}")]
    if isinstance(found, list) and isinstance(expected, list) and len(found) == len(expected):
        pairs = enumerate(zip(found, expected, strict=True))
        return [one for index, pair in pairs for one in differences(*pair, f"{place}/{index}")]
    return [] if found == expected else [f"{place}: {str(found)[:400]!r} instead of {str(expected)[:400]!r}"]


def _called(arguments: list[str]) -> tuple[int, str, str]:
    """Exit status, standard output with the numbers of its table of accuracies left out, standard error."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        status = cli.main(arguments)
    table, statement, rest = out.getvalue().partition("Asked for epsilon")
    numbers = re.sub(r" +", " ", _NUMBER.sub("#", _PLACED.sub("", table)))
    return status, numbers + _AUDITED.sub("", statement + rest), err.getvalue()


def _classifier(content: bytes) -> object:
    """Form and type of every released array, and all of a public one."""
    arrays = safetensors.load(content)
    return {
        name: [array.dtype.name, list(array.shape), array.tobytes().hex() if name.startswith(PUBLIC) else None]
        for name, array in arrays.items()
    }


def _file(path: Path) -> object:
    if path.suffix == ".safetensors":
        return _classifier(path.read_bytes())
    content = path.read_text(encoding="utf-8")
    if path.suffix == ".json":
        return _masked(json.loads(content))
    if path.suffix == ".csv":
        rows = list(csv.DictReader(io.StringIO(content)))
        return [{name: "" if _is_released(name, row) else value for name, value in row.items()} for row in rows]
    if path.name == "report.html":  # without its section of figures and findings, and the run's short number
        return _AUDITED.sub("", re.sub(r"<section>.*</section>| · run \w+(?=</p>)", "", content, flags=re.DOTALL))
    if path.suffix == ".html":  # a picture of accuracies: what it says of where they come from, but for the run's number
        return str(re.findall(r"<p>(.*?)</p>", content)[-1]).rpartition(" · ")[0]
    if path.suffix == ".svg":  # the same picture: its last text is where they come from
        words = re.sub(r"<[^>]*>", " ", content.rpartition("<text")[2].partition(">")[2])
        return " ".join(words.split()).rpartition(" · ")[0]
    return _AUDITED.sub("", content)


def _is_released(name: str, row: Mapping[str, str]) -> bool:
    return name in LEFT_OUT or (name == "value" and "metric" in row)


def _masked(value: object) -> object:
    if isinstance(value, dict):
        return {name: None if name in LEFT_OUT else _masked(inner) for name, inner in value.items()}
    if isinstance(value, str):
        return _AUDITED.sub("", value)
    return [_masked(inner) for inner in value] if isinstance(value, list) else value
