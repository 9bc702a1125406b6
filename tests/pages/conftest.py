"""A home of its own for every test, and pages run in it without a browser."""

import json
import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl
from xml.etree import ElementTree

import pytest
import streamlit as st
from streamlit.components.v2 import manifest_scanner
from streamlit.runtime.pages_manager import PagesManager
from streamlit.testing.v1 import AppTest

from dpcl_core.elements.element import PICTURE
from pages.parts import document, figure_card
from tests.support.waiting import PATIENCE_SECONDS

ROOT = Path(__file__).resolve().parents[2]
Open = Callable[..., AppTest]
Patch = pytest.MonkeyPatch


def told(page: AppTest, element: str) -> list[Any]:
    """What each of the page's elements of this name is drawn from."""
    return [json.loads(one.proto.bytes) for one in page.get("bidi_component") if one.proto.component_name == element]


def drawings(page: AppTest) -> list[ElementTree.Element]:
    """The figures that the page draws as SVG."""
    return [ElementTree.fromstring(one["svg"]) for one in told(page, PICTURE.folder)]


def charts(page: AppTest) -> list[dict[str, Any]]:
    """The figures that the page draws by Plotly."""
    return [json.loads(chart.proto.spec) for chart in page.get("plotly_chart")]


@pytest.fixture
def by_plotly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every figure is drawn by Plotly, whose traces a test can read, as where there are too many marks for an SVG."""
    monkeypatch.setattr(figure_card, "_MOST_MARKS", -1)


@pytest.fixture(scope="session", autouse=True)
def installed_components() -> Iterator[None]:
    """Of all installed packages AppTest reads the metadata anew for every page that it opens; here, once."""
    with pytest.MonkeyPatch.context() as patch:
        once = lru_cache(manifest_scanner.scan_component_manifests)
        patch.setattr(manifest_scanner, "scan_component_manifests", once)
        yield


@pytest.fixture(autouse=True)
def sound(monkeypatch: pytest.MonkeyPatch) -> None:
    """No run of a page may end in an exception, leave a figure without words, or offer two options of one title.

    A browser tells a select box's options apart by their words alone: equal ones lead to the first of them.
    """
    run = AppTest._run

    def checked(page: AppTest, *arguments: object, **named: object) -> AppTest:
        run(page, *arguments, **named)  # type: ignore[arg-type]
        assert not page.exception, page.exception[0].value
        assert all(chart.proto.alt for chart in page.get("plotly_chart"))
        assert all(drawing.attrib["aria-label"] for drawing in drawings(page))
        assert all(len(set(box.options)) == len(box.options) for box in page.selectbox)
        return page

    monkeypatch.setattr(AppTest, "_run", checked)


@pytest.fixture
def idle(monkeypatch: pytest.MonkeyPatch) -> None:
    """No worker starts: what is queued waits."""
    for name in ("submit", "schedule"):
        monkeypatch.setattr(f"dpcl_core.runs.executor.LocalExecutor.{name}", lambda *_: None)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home with no store yet; the app's caches are emptied with it."""
    monkeypatch.setenv("DPCL_HOME", str(tmp_path))
    for name in ("DPCL_STORE", "DPCL_DATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    st.cache_resource.clear()
    st.cache_data.clear()
    return tmp_path


@pytest.fixture
def open_page(home: Path, monkeypatch: pytest.MonkeyPatch) -> Open:
    """Opens a page of the app by name with the query parameters of a link; without its server, no queue moves."""
    make = PagesManager.__init__

    def made(self: PagesManager, *arguments: object, **named: object) -> None:
        """AppTest makes every run the first of a fresh server; here a press must not be lost to the start over."""
        make(self, *arguments, **named)  # type: ignore[arg-type]
        PagesManager.uses_pages_directory = False

    monkeypatch.setattr(PagesManager, "__init__", made)

    def opened(name: str, **query: str) -> AppTest:
        name, view = document.MOVED.get(name, (name, ""))  # a view by the name of the page that it was
        query |= parse_qsl(view)
        page = AppTest.from_file(str(ROOT / "app.py"), default_timeout=PATIENCE_SECONDS).switch_page(f"pages/{name}.py")
        for key, value in query.items():
            page.query_params[key] = value
        return page.run()

    return opened


def press(page: AppTest, label: str) -> AppTest:
    """The page after a press on the button with this label, else on the first whose label begins so."""
    found = sorted((one for one in page.button if one.label.startswith(label)), key=lambda one: one.label != label)
    assert found, f"no button {label!r} among {[button.label for button in page.button]}"
    found[0].click()
    return page.run()


def labels(page: AppTest) -> list[str]:
    """The labels of the page's buttons."""
    return [button.label for button in page.button]


def box(page: AppTest, kind: str, label: str) -> Any:
    """The first field of a kind ("selectbox", "radio") with this label."""
    return next(field for field in getattr(page, kind) if field.label == label)


def address(page: AppTest) -> dict[str, str]:
    """The address of the page, one text for each key."""
    return {key: text if isinstance(text, str) else text[0] for key, text in dict(page.query_params).items()}


def turned(page: AppTest, control: str, value: object = True) -> AppTest:
    """The page after a press for which AppTest has no hands: something unfolded, another tab, a choice of a control."""
    page.session_state[control] = value
    return page.run()


def unfolded(page: AppTest, name: str, *, is_open: bool = True) -> AppTest:
    """Train with one of its folds ("advanced", "more" or "tune") opened or closed."""
    return turned(page, f"train-{name}-{page.session_state['view:train'].epoch}", is_open)


def words(page: AppTest) -> str:
    """Everything a reader sees as text, one string."""
    kinds = ("title", "header", "subheader", "markdown", "caption", "error", "warning", "info")
    found = [element.value for kind in kinds for element in page.get(kind)]
    found += [html.proto.body for html in page.get("html") if "<style>" not in html.proto.body]
    said = "\n".join(str(text).replace("\\", "") for text in found)
    return re.sub(r'<span class="term"[^>]*>([^<]*)</span>', r"\1", said)  # explained words
