"""Settings models become widgets and link fields without loss."""

from __future__ import annotations

from typing import Annotated, Literal

import pytest
from pydantic import BaseModel, Field

from dpcl_core import checks
from dpcl_core.methods import catalog as methods
from dpcl_core.methods.common.card import MethodCard
from dpcl_core.scenarios import catalog as scenarios
from dpcl_core.spec import fields_of
from pages.parts import fields, train_form


class Odd(BaseModel):
    steps: Annotated[int, Field(ge=1, le=50)] = Field(10, description="How many.")
    rate: Annotated[float, Field(gt=0, le=1)] = 0.5
    mode: Literal["a", "b"] = Field("a", title="How it is done")
    fast: bool = False
    order: tuple[str, ...] | None = None
    size: Annotated[int, Field(ge=2)] | None = None
    epochs: tuple[int, ...] | None = None


def test_bounds_help_and_sorts_are_read_from_the_model() -> None:
    found = {setting.name: setting for setting in fields.settings(Odd)}
    assert (found["steps"].sort, found["steps"].low, found["steps"].high) == ("whole", 1, 50)
    assert found["steps"].help == "How many."
    assert found["rate"].sort == "number"
    assert (found["rate"].title, found["mode"].title) == ("Rate", "How it is done")
    assert found["mode"].options == ("a", "b")
    assert found["fast"].sort == "flag"
    assert (found["order"].sort, found["order"].is_optional) == ("texts", True)
    assert (found["epochs"].sort, found["epochs"].is_optional) == ("wholes", True)
    assert found["epochs"].kind().read("3,1,2") == (3, 1, 2)
    assert (found["size"].low, found["size"].is_optional) == (2, True)


def test_a_setting_without_a_widget_is_refused_by_name() -> None:
    class Nested(BaseModel):
        inner: dict[str, int] = {}

    with pytest.raises(TypeError, match="inner"):
        fields.settings(Nested)


@pytest.mark.parametrize("scenario", list(scenarios.CARDS))
@pytest.mark.parametrize("method", list(methods.CARDS))
def test_every_card_has_widgets_and_a_link(method: str, scenario: str) -> None:
    codec = train_form.codec(method, scenario)
    names = {field.name for field in codec.fields}
    assert {f"p.{name}" for name in fields_of(methods.CARDS[method].params)} <= names
    own = set(fields_of(scenarios.CARDS[scenario].settings)) - {"kind", *fields.NO_WIDGET}
    assert {f"s.{name}" for name in own} <= names


@pytest.mark.parametrize(
    "scenario",
    [
        {"kind": "split", "tasks": 5, "classes_per_task": 2, "order": [5, 1, 2, 3, 4]},
        {"kind": "permuted", "tasks": 20, "of": "values", "images": "disjoint", "order": list(range(20, 0, -1))},
        {"kind": "source-incremental", "order": ["50 Hz", "5 Hz", "20 Hz"]},
    ],
    ids=lambda scenario: str(scenario["kind"]),
)
def test_a_stream_survives_the_way_through_a_link(scenario: dict[str, object]) -> None:
    spec = checks.parse({"data": {"dataset": "har-wisdm", "train_per_source": 300}, "scenario": scenario})
    read = train_form.codec_for(train_form.parameters_of(spec)).read(train_form.parameters_of(spec))
    assert not read.notices
    again = checks.parse(train_form.raw_of(read.values))
    assert (again.scenario, again.data) == (spec.scenario, spec.data)


def test_permutations_of_ones_own_are_for_files_and_commands_not_for_links() -> None:
    spec = checks.parse({"scenario": {"kind": "permuted", "tasks": 2, "permutations": [[1, 0, 2], [2, 1, 0]]}})
    assert checks.parse(checks.read_toml(checks.to_toml(spec))) == spec
    parameters = train_form.parameters_of(spec)
    assert not any("permutations" in key for key in parameters)
    assert parameters["s.tasks"] == "2"


@pytest.mark.parametrize("card", methods.CARDS.values(), ids=lambda card: card.name)
def test_at_most_three_settings_stand_in_front_and_each_exists(card: MethodCard) -> None:
    named = {setting.name for setting in fields.settings(card.params)}
    assert set(card.matters) <= named
    assert len(set(card.matters)) == len(card.matters) == min(3, len(named))


def test_no_title_or_option_of_a_method_is_a_raw_name() -> None:
    for card in methods.CARDS.values():
        for setting in fields.settings(card.params):
            assert "_" not in setting.title
            assert setting.title[:1].isupper()
            assert not any("_" in fields.option_title(option) for option in setting.options)
    assert [fields.option_title(option) for option in ("ot", "per-task")] == ["Optimal transport", "Per task"]
