"""Pictures are built once for all visitors."""

from __future__ import annotations

import pandas as pd
import pytest

from dpcl_core.figures import theme
from dpcl_core.figures.picture import Picture
from pages.parts.shell import pictures
from tests.pages.conftest import Open, drawings


def test_equal_tables_give_the_picture_that_was_built_and_others_a_new_one() -> None:
    built: list[float] = []

    def build(table: pd.DataFrame, *, dark: bool = False) -> Picture:
        built.append(float(table["value"].sum()))
        return theme.nothing("", dark, 100)

    draw = pictures.kept(build)
    first = draw(pd.DataFrame({"value": [1.0, 2.0]}))
    assert pictures.kept(build)(pd.DataFrame({"value": [1.0, 2.0]})) is first
    assert draw(pd.DataFrame({"value": [1.0, 3.0]})) is not first
    assert draw(pd.DataFrame({"value": [1.0, 2.0]}), dark=True) is not first
    assert built == [3.0, 4.0, 3.0]


@pytest.mark.parametrize("name", ["train", "privacy", "published", "anchors"])
def test_a_page_seen_before_builds_no_figure(name: str, open_page: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    page = open_page(name)
    assert page.get("plotly_chart") or drawings(page)

    def refused(*_: object, **__: object) -> None:
        raise AssertionError("a figure is built again")

    monkeypatch.setattr(theme, "layout", refused)
    page.run()
    assert not page.exception
    assert page.get("plotly_chart") or drawings(page)
