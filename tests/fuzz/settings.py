"""Settings as nobody would write them: drawn from the schemas of the cards, most within their bounds, some far outside."""

import json
import math
import random
import resource
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from importlib import import_module
from multiprocessing import get_context
from multiprocessing.connection import Connection

from dpcl_core import checks, engine, errors
from dpcl_core.backbones import catalog as backbones
from dpcl_core.data import catalog as datasets
from dpcl_core.methods import catalog as methods
from dpcl_core.scenarios import catalog as scenarios
from dpcl_core.spec import DataSpec, PrivacySpec, json_schema
from tests.support.asserting import excludes

Schema = Mapping[str, object]
_ODD: tuple[object, ...] = (
    None, True, "", " ", "\0", "é\u202e", "../../etc", "x" * 5000, "digits", "inf", "nan", 0, -1, 1, 2**31, 2**63, 2**64,
    10**400, -(10**400), 0.5, -0.0, 1e-320, 1e308, math.inf, -math.inf, math.nan, [], [[]], [None], ["a", "a"],
    [1, 1], {}, {"": 1}, {"kind": {}}, [0] * 2000, [{"a": [1]}], b"bytes", (1, 2), "own:", "own:..", "own:a",
    "hf:", "hf:a/b/c", "timm:", "st:x", "∞",
)  # fmt: skip
_HOSTED = ("own:cats", "hf:nobody/nothing", "st:nobody/nothing", "timm:resnet18")


def drawn(draw: random.Random) -> dict[str, object]:
    """A table of settings. Methods, streams, data and networks are drawn so that about one of four fits together."""
    method = draw.choice(list(methods.CARDS))
    kinds = list(scenarios.CARDS) if draw.random() < 0.2 else list(methods.CARDS[method].scenarios)
    kind = draw.choice(kinds)
    raw: dict[str, object] = {
        "method": method, "params": _of(json_schema(methods.CARDS[method].params), draw),
        "scenario": {**_of(json_schema(scenarios.CARDS[kind].settings), draw), "kind": kind},
        "data": _of(json_schema(DataSpec), draw), "privacy": _of(json_schema(PrivacySpec), draw),
        "seeds": sorted({draw.choice([0, 1, 2**32 - 1]) for _ in range(2)}),
        "labels": draw.choice(methods.CARDS[method].labels),
    }  # fmt: skip
    known = [*datasets.CARDS, *_HOSTED] if draw.random() < 0.5 else ["digits", "pii-synthetic-tiny"]
    dataset, backbone = draw.choice(known), draw.choice([*backbones.CARDS, *_HOSTED])
    if draw.random() < 0.5:  # what fits the data
        backbone = backbones.fitting(dataset, is_language_model=methods.CARDS[method].params().inputs == "text") or backbone
    raw["data"] = {**_table(raw["data"]), "dataset": dataset, "backbone": backbone}
    for _ in range(draw.choice([0, 0, 0, 1, 1, 2, 5])):
        _spoil(raw, draw)
    return raw


def refusal(raw: Mapping[str, object]) -> errors.BadInput | None:
    """None if the settings can be carried out; else the error, whose sentence is checked. Any other exception is a finding.

    Settings that are accepted are the same after a trip through TOML and through JSON.
    """
    try:
        spec = checks.parse(raw)
        assert checks.parse(checks.read_toml(checks.to_toml(spec))) == spec, "TOML changes it"
        assert checks.parse(json.loads(spec.to_json())) == spec, "JSON changes it"
        checks.check_run(spec)
    except errors.BadInput as refused:
        sentence = str(refused)
        excludes(sentence, "\n", "Traceback")
        assert len(sentence) < 3000
        json.dumps(sentence).encode()  # nothing that cannot be written down
        return refused
    return None


def mended(raw: Mapping[str, object]) -> dict[str, object] | None:
    """The settings with what their refusals offer to change, if that mends them; what is offered must then be accepted."""
    with suppress(errors.BadInput):
        changes = checks.repair(raw)
        if changes:
            mended = checks.changed(raw, changes)
            assert refusal(mended) is None, f"{changes} does not mend it"
            return mended
    return None


def first_steps(raw: Mapping[str, object], seconds: float, megabytes: int) -> str:
    """Why a run of settings that were accepted fails within its first seconds; empty if it does not.

    Only what its settings could have told counts: not that a training diverges. The run has a process of its own, a copy of
    this one with all libraries loaded, which may not take more memory: a run too large for any computer fails as it would
    there.
    """
    _load_everything()
    processes = get_context("fork")
    answers, sent = processes.Pipe(duplex=False)
    run = processes.Process(target=_run, args=(raw, megabytes, sent), daemon=True)
    run.start()
    sent.close()
    answer = ""
    if answers.poll(seconds):
        try:
            answer = answers.recv()
        except EOFError:
            answer = f"the process ended with status {run.exitcode}"
    run.kill()
    run.join()
    return answer


def _run(raw: Mapping[str, object], megabytes: int, sent: Connection) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (megabytes * 2**20, resource.getrlimit(resource.RLIMIT_AS)[1]))
    answer = ""
    try:
        for _ in engine.run(checks.parse(raw)):
            pass
    except Exception as error:
        kind = errors.failure_kind(error)
        answer = "" if kind in ("diverged", "out-of-memory") else f"{kind}: {type(error).__name__}: {error}"
    sent.send(answer)


@cache
def _load_everything() -> None:
    """Loads what any run needs, so that a run's first seconds are not those of its imports."""
    for module in ("dpcl_core.backbones.causal", *(card.module for card in methods.CARDS.values())):
        import_module(module)


def _of(schema: Schema, draw: random.Random) -> dict[str, object]:
    """Values for some of a model's settings, within the bounds of its schema."""
    own = _table(schema["properties"])
    return {name: _value(_table(own[name]), draw) for name in own if draw.random() < 0.3}


def _value(schema: Schema, draw: random.Random) -> object:
    if "const" in schema:
        return schema["const"]
    if isinstance(options := schema.get("enum"), list):
        return draw.choice(options)
    if isinstance(either := schema.get("anyOf"), list):
        return _value(_table(draw.choice(either)), draw)
    match schema.get("type"):
        case "integer":
            low, high = _bounds(schema, 0, 40)
            return draw.choice([draw.randint(int(low), int(high)), int(low), int(low) + 1, schema.get("default", int(low))])
        case "number":
            low, high = _bounds(schema, 0.0, 20.0)
            return draw.choice([draw.uniform(low, high), 10 ** draw.uniform(-3, 1), schema.get("default", low)])
        case "boolean":
            return draw.random() < 0.5
        case "array":
            items = _table(schema.get("items", {}))
            return [_value(items, draw) for _ in range(draw.choice([1, 1, 2, 3]))]
        case "null":
            return None
        case _:
            return schema.get("default", draw.choice(["a", "0", "1", "digits"]))


def _bounds(schema: Schema, low: float, high: float) -> tuple[float, float]:
    lows = [schema[name] for name in ("minimum", "exclusiveMinimum") if name in schema]
    highs = [schema[name] for name in ("maximum", "exclusiveMaximum") if name in schema]
    least = float(str(lows[0])) if lows else low
    most = float(str(highs[0])) if highs else max(high, least)
    return least, most


def _spoil(raw: dict[str, object], draw: random.Random) -> None:
    """Puts an odd value, or an odd key, somewhere into the table."""
    place = raw
    while isinstance(inner := place.get(draw.choice([*place, ""])), dict) and draw.random() < 0.8:
        place = inner
    name = draw.choice([*place, draw.choice(["", "x", "__class__", "kind", "data.dataset", "é" * 300])])
    place[name] = draw.choice(_ODD)


def _table(value: object) -> dict[str, object]:
    return dict(value) if isinstance(value, dict) else {}
