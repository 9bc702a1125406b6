"""From what a person writes to a spec: every wrong value gives one sentence naming field, value and what is allowed."""

from __future__ import annotations

import json
import math
import re
import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpcl_core import checks, presets
from dpcl_core.backbones import bundled
from dpcl_core.backbones import catalog as backbones
from dpcl_core.errors import BadInput, DataMissing
from dpcl_core.methods import catalog as methods
from tests.support.asserting import refusal_of, refuses


def refused(raw: dict[str, object]) -> BadInput:
    refusal = refusal_of(lambda: checks.check_run(checks.parse(raw)))
    assert not re.search(r"\n|pydantic|Traceback|type=|https?:", str(refusal))
    return refusal


@pytest.mark.parametrize(("raw", "field", "allowed"), [
    ({"method": "perceptron"}, "method", "cosine"),
    ({"data": {"dataset": "mnits"}}, "data.dataset", "digits"),
    ({"data": {"backbone": "vit-nothing"}}, "data.backbone", "pixels"),
    ({"data": {"dataset": "../../etc/passwd"}}, "data.dataset", "must be one of"),
    ({"data": {"dataset": "own:../../etc"}}, "data.dataset", "letters"),
    ({"scenario": {"kind": "none"}}, "scenario.kind", "class-incremental"),
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


@pytest.mark.usefixtures("data_dir")
def test_a_dataset_that_is_not_here_says_what_to_put_where() -> None:
    with pytest.raises(DataMissing, match=r"data\.dataset = own:mine"):
        checks.check_run(checks.parse({"data": {"dataset": "own:mine"}}))


@pytest.mark.parametrize("name", presets.names())
def test_presets_survive_toml_and_json_and_keep_their_digest(name: str) -> None:
    spec = presets.load(name)
    again = checks.parse(checks.read_toml(checks.to_toml(spec)))
    assert (again, again.digest()) == (spec, spec.digest())
    assert checks.parse(spec.jsonable()) == spec
    again = checks.parse(json.loads(spec.to_json()))
    assert again == spec
    assert type(again.params) is type(spec.params)
    assert again.digest() == spec.digest()


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
    raw = checks.apply_sets(
        {"privacy": {"delta": 1e-5}},
        ["method=cosine", "privacy.epsilons=[1, inf]", "scenario.tasks=2", 'data.dataset="digits"', "seeds=[3]"],
    )
    spec = checks.parse(raw)
    assert (spec.privacy.epsilons, spec.privacy.delta, spec.seeds) == ((1.0, math.inf), 1e-5, (3,))


@pytest.mark.parametrize(
    ("assignment", "says"),
    [("seeds", "--set = seeds"), ("=3", "--set = =3"), ("method.name=cosine", "method.name = cosine")],
)
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
    said = refused(raw)
    assert str(said) == "params.batch_size = 300: must be at most 263, the number of training examples of task 4"
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
    tables = {"method": "naive", "params": {}, "scenario": {"kind": "class-incremental", "tasks": 2}}
    assert checks.parse(tables) == spec


@pytest.mark.parametrize(("fields", "says"), [
    ({"params": {"rate": 1}}, "params.rate = 1: no such setting"),
    ({"params": 3}, "params = 3: must be a table"),
    ({"method": "naiv"}, "method = naiv: did you mean naive? It must be one of cosine"),
    ({"scenario": {"kind": "x"}}, "scenario.kind = x: must be one of class-incremental"),
])
def test_foreign_settings_are_refused_where_a_spec_is_made(fields: dict[str, object], says: str) -> None:
    refuses(re.escape(says), checks.parse, {"method": "naive", **fields})


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
