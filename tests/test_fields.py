"""Settings without pydantic: the same values and the same refusals, for the whole catalogue and for settings at random."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic_core import to_json

from dpcl_core import checks, presets, spec
from dpcl_core.backbones import catalog as backbones
from dpcl_core.data import catalog as datasets
from dpcl_core.data.schema import Schema
from dpcl_core.errors import BadInput, first_of
from dpcl_core.fields import form_of, in_json, of_fields
from dpcl_core.methods import catalog as methods
from dpcl_core.scenarios import catalog as scenarios
from dpcl_core.spec import DataSpec, PrivacySpec, RunSpec, Settings, reader

MODELS: list[type[Settings]] = [
    *(card.params for card in methods.CARDS.values()),
    *(card.settings for card in scenarios.CARDS.values()), DataSpec, PrivacySpec, Schema,
]  # fmt: skip
N_RANDOM = 2_000  # settings; the seed is fixed, so a failure comes again
# What a form, a file or a link may hold in the place of a value.
ODD: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 5, 10**12, 0.5, 2.0, -0.5, 1e-12, 1e30, math.inf, -math.inf, math.nan,
    "", "1", " 7 ", "2.0", "1_0", "0.5", "inf", "∞", "nan", "1e-5", "x", "yes", "OFF", "fresh", "prior", "²", "١",
    [], [1], [1, 1], ["a", "a"], [1.5, "inf"], ["x"], [[1, 0]], list(range(40)), {}, {"x": 1},
)  # fmt: skip


def said(read: Any, table: object) -> tuple[object, ...]:
    """What comes of a table: the value, or the sentence of its refusal."""
    try:
        return ("made", read(table))
    except BadInput as error:
        return ("refused", str(error), dict(error.fix))
    except ValueError as error:
        return ("refused", str(first_of(error, "t", ["t.tasks", "t.steps"])), {})  # type: ignore[arg-type]


def is_same(one: tuple[object, ...], other: tuple[object, ...]) -> bool:
    """NaN is the same as NaN: both readers keep it where a setting takes it."""
    return repr(one) == repr(other)


def tables(model: type[Settings], draw: random.Random, count: int) -> Iterator[dict[str, object]]:
    """Tables of a model with odd values in some of its fields, and now and then a field that it does not have."""
    names = list(of_fields(model))
    for _ in range(count):
        chosen = draw.sample(names, draw.randint(0, min(3, len(names))))
        table = {name: draw.choice([*ODD, *of_fields(model)[name].choices]) for name in chosen}
        if draw.random() < 0.1:
            table["taskz"] = 1
        yield table


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_every_class_of_settings_is_read_alike(model: type[Settings]) -> None:
    draw = random.Random(model.__name__)
    extra = {"kind": model.kind} if hasattr(model, "kind") else {}
    for name in of_fields(model):  # every field with every odd value
        for value in ODD:
            table = {**extra, name: value}
            plain, full = said(form_of(model).validate_python, table), said(reader(model).validate_python, table)
            assert is_same(plain, full), (table, plain, full)
    for table in tables(model, draw, 200):
        readers = form_of(model).validate_python, reader(model).validate_python
        plain, full = (said(read, {**extra, **table}) for read in readers)
        assert is_same(plain, full), (table, plain, full)
    for odd in (None, 5, "x", []):
        assert is_same(said(form_of(model).validate_python, odd), said(reader(model).validate_python, odd))


def runs_at_random(count: int) -> Iterator[dict[str, object]]:
    draw = random.Random(52)
    for _ in range(count):
        method, scenario = draw.choice(list(methods.CARDS.values())), draw.choice(list(scenarios.CARDS.values()))
        raw: dict[str, object] = {"method": method.name, "scenario": {"kind": scenario.name}}
        for name, model in (("params", method.params), ("data", DataSpec), ("privacy", PrivacySpec)):
            raw[name] = next(tables(model, draw, 1))
        raw["scenario"] = {"kind": scenario.name, **next(tables(scenario.settings, draw, 1))}
        raw |= {name: draw.choice(ODD) for name in draw.sample(["seeds", "labels", "public_labels", "tuned", "sedes"], 1)}
        yield raw if draw.random() < 0.7 else {"method": method.name, "scenario": {"kind": scenario.name}}


def test_whole_runs_at_random_are_read_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    every = list(runs_at_random(N_RANDOM))
    full = [said(checks.parse, raw) for raw in every]
    monkeypatch.setattr(spec, "reader", form_of)
    plain = [said(checks.parse, raw) for raw in every]
    for raw, one, other in zip(every, plain, full, strict=True):
        assert is_same(one, other), raw
    made = [one for one in full if one[0] == "made"]
    assert len(made) > N_RANDOM / 10, "most of them say nothing of what is made"


def test_cards_and_presets_are_read_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    from dpcl_core.data import card

    full = card._catalogue(), backbones.read(), scenarios.read_cards(), [presets.load(name) for name in presets.names()]
    monkeypatch.setattr(spec, "reader", form_of)
    assert (card._catalogue(), backbones.read(), scenarios.read_cards()) == full[:3]
    assert [presets.load(name) for name in presets.names()] == full[3]
    assert full[0].keys() == datasets.CARDS.keys()


def test_json_is_written_in_the_same_letters() -> None:
    """Digests of settings are digests of these letters."""
    draw = random.Random(7)
    numbers = [draw.uniform(-1, 1) * 10.0 ** draw.randint(-30, 30) for _ in range(2000)]
    others = [1e-5, 9.9e-5, 1e-4, 1e15, 1e16, 5e-324, 'a\x7f\u2028é\x01\t"\\', *ODD]
    for value in [*numbers, *others]:
        assert in_json(value) == to_json(value, inf_nan_mode="strings").decode(), value
    for name in presets.names():
        one: RunSpec = presets.load(name)
        assert (in_json(one), json.loads(in_json(one))) == (one.to_json(), one.jsonable())
