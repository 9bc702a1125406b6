"""From what a person writes to a spec: every wrong value gives one sentence naming field, value and what is allowed."""

import json
import math
import random
import re
import shlex
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_core import to_json

from dpcl_core import checks, presets, spec
from dpcl_core.backbones import bundled
from dpcl_core.backbones import catalog as backbones
from dpcl_core.data import catalog as datasets
from dpcl_core.data.schema import Schema
from dpcl_core.errors import BadInput, first_of
from dpcl_core.fields import form_of, in_json, of_fields
from dpcl_core.methods import catalog as methods
from dpcl_core.scenarios import catalog as scenarios
from dpcl_core.spec import DataSpec, PrivacySpec, RunSpec, Settings, reader
from tests.support.asserting import refusal_of, refuses


def refused(raw: dict[str, object]) -> BadInput:
    refusal = refusal_of(lambda: checks.check_run(checks.parse(raw)))
    assert not re.search(r"\n|pydantic|Traceback|type=|https?:", str(refusal))
    return refusal


@pytest.mark.parametrize(("raw", "field", "allowed"), [
    ({"method": "perceptron"}, "method", "cosine"),
    ({"method": "naiv"}, "method", "did you mean naive? It must be one of cosine"),
    ({"data": {"dataset": "mnits"}}, "data.dataset", "digits"),
    ({"data": {"backbone": "vit-nothing"}}, "data.backbone", "pixels"),
    ({"data": {"dataset": "../../etc/passwd"}}, "data.dataset", "must be one of"),
    ({"data": {"dataset": "own:../../etc"}}, "data.dataset", "letters"),
    ({"scenario": {"kind": "none"}}, "scenario.kind", "must be one of class-incremental"),
    ({"scenario": "five"}, "scenario", "table"),
    ({"scenario": {"tasks": 0}}, "scenario.tasks", "greater than or equal to 1"),
    ({"scenario": {"tasks": 11}}, "scenario.tasks", "at most 10"),
    ({"scenario": {"tasks": 3}}, "scenario.tasks", "divide"),
    ({"scenario": {"task": 5}}, "scenario.task", "no such setting"),
    ({"scenario": {"kind": "source-incremental"}}, None, ""),
    ({"labels": "oracle"}, "labels", "'prior-const' or 'dp-learned'"),
    ({"labels": "data", "public_labels": ["1"]}, "public_labels", "prior"),
    ({"public_labels": ["eleven"]}, "public_labels", "classes of digits"),
    ({"privacy": {"epsilons": [0]}}, "privacy.epsilons", "above 0"),
    ({"privacy": {"epsilons": [-1]}}, "privacy.epsilons", "above 0"),
    ({"privacy": {"epsilons": ["banana"]}}, "privacy.epsilons", "above 0"),
    ({"privacy": {"epsilons": [math.nan]}}, "privacy.epsilons", "above 0"),
    ({"privacy": {"epsilons": [1.1e6]}}, "privacy.epsilons", "at most 1,000,000, or inf"),
    ({"privacy": {"epsilons": [True]}}, "privacy.epsilons", "above 0"),
    ({"privacy": {"epsilons": [1, 1.0]}}, "privacy.epsilons", "twice"),
    ({"privacy": {"epsilons": []}}, "privacy.epsilons", "at least 1"),
    ({"privacy": {"delta": 0}}, "privacy.delta", "greater than 0"),
    ({"privacy": {"delta": 1}}, "privacy.delta", "less than 1"),
    ({"privacy": {"delta": "small"}}, "privacy.delta", "number"),
    ({"privacy": {"delta": 0.01}}, "privacy.delta", "below 1/"),
    ({"privacy": {"delta": 9e-13}}, "privacy.delta", "at least 1e-12"),
    ({"seeds": [0, 0]}, "seeds", "twice"),
    ({"seeds": []}, "seeds", "must have at least 1"),
    ({"seeds": [True]}, "seeds", "must be"),
    ({"privacy": {"label_share": 1}}, "privacy.label_share", "0.999"),
    ({"seeds": 7}, "seeds", "must be a list"),
    ({"params": {"learning_rate": 1}}, "params.learning_rate", "no such setting"),
    ({"method": "naive", "params": {"rate": 1}}, "params.rate", "no such setting"),
    ({"method": "naive", "params": 3}, "params", "must be a table"),
    ({"method": "naive", "params": {"clip_norm": 1e-27}}, "params.clip_norm", "greater than or equal to 0.000000001"),
    ({"method": "lm-gem", "params": {"embedding_clip": 1e30}}, "params.embedding_clip", "less than or equal to 1000000"),
    ({"data": {"train_per_class": 0}}, "data.train_per_class", "greater than or equal to 1"),
    ({"data": {"train_per_class": 5, "train_per_source": 9}}, "data.train_per_source", "clear one of the two"),
])
def test_wrong_settings_are_refused_in_one_sentence(raw: dict[str, object], field: str | None, allowed: str) -> None:
    error = refused(raw)
    if field is not None:
        assert error.field == field
    assert allowed in str(error)


@pytest.mark.parametrize(("dataset", "backbone", "axes", "fix"), [
    ("digits", "pixels", 64, None),  # no public axes
    ("cifar10", "convnext-cifar100", 64, None),
    ("cifar10-100", "lite0", 64, None),  # all of its public axes were made of these pictures
    ("cifar10", "lite0", 641, 640),
])
def test_axes_that_there_are_not_are_refused(dataset, backbone, axes, fix):
    error = refused({"data": {"dataset": dataset, "backbone": backbone, "axes": axes}})
    assert (error.field, error.value, error.fix) == ("data.axes", axes, {"data.axes": fix})
    if fix is not None:
        bundled.refuse(backbones.card(backbone), dataset, fix)


def test_delta_is_compared_with_the_people_of_the_subset() -> None:
    raw: dict[str, object] = {"data": {"train_per_class": 5}, "privacy": {"delta": 0.01}}
    checks.check_run(checks.parse(raw))
    assert "1/50" in str(refused({**raw, "privacy": {"delta": 0.02}}))


@pytest.mark.parametrize("name", presets.names())
def test_presets_survive_toml_and_json_and_keep_their_digest(name: str) -> None:
    spec = presets.load(name)
    again = checks.parse(checks.read_toml(checks.to_toml(spec)))
    assert (again, again.digest()) == (spec, spec.digest())
    assert checks.parse(spec.jsonable()) == spec
    again = checks.parse(json.loads(spec.to_json()))
    assert (again, type(again.params), again.digest()) == (spec, type(spec.params), spec.digest())


@given(
    epsilons=st.lists(st.one_of(st.floats(1e-3, 1e3), st.just(math.inf)), min_size=1, max_size=6, unique=True),
    delta=st.floats(1e-12, 0.9),
    seeds=st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=5, unique=True),
    labels=st.sampled_from(["data", "prior", "prior-const", "dp-learned"]),
    public=st.none() | st.lists(st.text(min_size=1, max_size=8), min_size=1, max_size=4, unique=True),
    tasks=st.integers(1, 50),
)
def test_any_spec_survives_toml(epsilons, delta, seeds, labels, public, tasks):
    raw = {"privacy": {"epsilons": epsilons, "delta": delta}, "seeds": seeds, "labels": labels, "scenario": {"tasks": tasks}}
    spec = checks.parse({**raw, **({"public_labels": public} if public else {})})
    assert checks.parse(checks.read_toml(checks.to_toml(spec))) == spec


def test_sets_are_read_as_toml_and_bare_words_as_text() -> None:
    sets = ["method=cosine", "privacy.epsilons=[1, inf]", "scenario.tasks=2", 'data.dataset="digits"', "seeds=[3]"]
    spec = checks.parse(checks.apply_sets({"privacy": {"delta": 1e-5}}, sets))
    assert (spec.privacy.epsilons, spec.privacy.delta, spec.seeds) == ((1.0, math.inf), 1e-5, (3,))


@pytest.mark.parametrize(("assignment", "says"), [
    ("seeds", "--set = seeds"), ("=3", "--set = =3"), ("method.name=cosine", "method.name = cosine")
])
def test_broken_sets_are_refused(assignment: str, says: str) -> None:
    refuses(says, checks.apply_sets, {"method": "cosine"}, [assignment])


def test_broken_toml_is_refused_with_its_line() -> None:
    refuses("line 2", checks.read_toml, "method = 'cosine'\nseeds = = 3")


def in_batches(size: int) -> dict[str, object]:
    """A run of a method with whole batches, on digits in five tasks."""
    privacy, scenario = {"epsilons": ["inf"], "delta": 1e-4}, {"kind": "split", "tasks": 5}
    return {"method": "agem", "params": {"batch_size": size}, "scenario": scenario, "privacy": privacy}


def test_a_batch_larger_than_the_smallest_task_of_any_seed_is_refused_before_a_start() -> None:
    raw = in_batches(300)
    assert str(refused(raw)) == "params.batch_size = 300: must be at most 263, the number of training examples of task 4"
    checks.check_run(checks.parse({**raw, "params": {"batch_size": 263}}))
    drawn = {**raw, "scenario": {"kind": "class-incremental", "tasks": 10}, "params": {"batch_size": 133}}
    assert str(refused(drawn)).startswith("params.batch_size = 133: must be at most ")
    with pytest.raises(BadInput, match="must be at most 20, the number of training examples of task 2"):
        checks.refuse_small_task(checks.parse(raw), [("task 1", 900), ("task 2", 20), ("task 3", 300)])


def test_what_fills_a_batch_are_examples_with_public_labels() -> None:
    raw = {**in_batches(120), "public_labels": [str(2 * pair) for pair in range(5)]}
    checks.check_run(checks.parse(raw))
    larger = {**raw, "params": {"batch_size": 180}}
    assert str(refused(larger)).startswith("params.batch_size = 180: must be at most 1")
    assert str(refused(larger)).endswith("with public labels")
    lacking = {**raw, "public_labels": ["0", "1"]}
    assert str(refused(lacking)) == "public_labels = 0, 1: must name a label of every task: task 2 would have none"


def test_a_spec_made_in_python_takes_the_settings_of_its_method() -> None:
    spec = checks.parse({"method": "naive", "scenario": {"tasks": 2}})
    assert spec.params == methods.card("naive").params()
    assert checks.parse({"method": "naive", "params": {}, "scenario": {"kind": "class-incremental", "tasks": 2}}) == spec


@pytest.mark.parametrize("method", methods.CARDS)
@pytest.mark.parametrize("dataset", ["digits", "pii-synthetic"])
@pytest.mark.parametrize("scenario", ["class-incremental", "permuted", "source-incremental", "federated"])
def test_a_refused_pair_is_mended_and_a_possible_one_left_alone(method: str, dataset: str, scenario: str) -> None:
    raw = {"method": method, "data": {"dataset": dataset}, "scenario": {"kind": scenario}}
    changes = checks.repair(raw)
    try:
        checks.check_run(checks.parse(raw))
    except BadInput:
        assert changes
    else:
        assert not changes
    mended = checks.parse(checks.changed(raw, changes))
    checks.check_run(mended)
    assert mended.method == method


def test_a_fix_is_a_command_that_gives_the_same_settings() -> None:
    raw = {"method": "joint-network", "privacy": {"epsilons": [1.0]}, "scenario": {"kind": "federated"}}
    changes = checks.repair(raw)
    assert changes == {"scenario": {"kind": "class-incremental"}, "privacy.epsilons": (math.inf,)}
    sets = shlex.split(checks.as_sets(changes))[1::2]
    assert checks.parse(checks.apply_sets(raw, sets)) == checks.parse(checks.changed(raw, changes))


def test_a_list_for_each_task_leaves_out_examples_of_other_tasks_before_batches_are_cut() -> None:
    """In a blurry stream a task has few examples of its own labels; the check knows it as the learner does."""
    raw = {
        "method": "l2dp-ml", "labels": "prior", "seeds": [1], "data": {"dataset": "digits", "backbone": "pixels"},
        "scenario": {"kind": "i-blurry", "disjoint_percent": 0, "blurry_percent": 85},
    }  # fmt: skip
    with pytest.raises(BadInput, match=r"params\.batch_size = 100: must be at most 76, the number of training examples"):
        checks.check_run(checks.parse(raw))
    checks.check_run(checks.parse({**raw, "labels": "prior-const"}))


# Settings without pydantic: the same values and the same refusals, for the whole catalogue and for settings at random.


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
    for raw, one, other in zip(every, [said(checks.parse, raw) for raw in every], full, strict=True):
        assert is_same(one, other), raw
    assert len([one for one in full if one[0] == "made"]) > N_RANDOM / 10, "most of them say nothing of what is made"


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
