"""Settings models become widgets and link fields without loss."""

from __future__ import annotations

from typing import Annotated, Literal

import pytest
from pydantic import BaseModel, Field

from dpcl_core.methods import catalog as methods
from dpcl_core.scenarios import catalog as scenarios
from pages.parts import fields, trainform


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
    codec = trainform.codec(method, scenario)
    names = {field.name for field in codec.fields}
    assert {f"p.{name}" for name in methods.CARDS[method].params.model_fields} <= names
    own = set(scenarios.CARDS[scenario].settings.model_fields) - {"kind", *trainform.NO_WIDGET}
    assert {f"s.{name}" for name in own} <= names
