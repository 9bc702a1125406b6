"""Elements as plain functions: the same scripts without modules, safe inside a page."""

from __future__ import annotations

import shutil
import subprocess
from html.parser import HTMLParser

import pytest

from dpcl_core import paths
from dpcl_core.elements import element
from dpcl_core.elements.element import BALLOT, ELEMENTS, GALLERY, ROOM, Element


@pytest.mark.parametrize("one", ELEMENTS, ids=lambda one: one.folder)
@pytest.mark.skipif(shutil.which("node") is None, reason="needs Node.js")
def test_each_is_one_function_without_modules(one: Element) -> None:
    check = f"const made = {one.classic}; process.stdout.write(`${{typeof made}} ${{made.name}} ${{made.length}}`);"
    done = subprocess.run(["node", "-"], input=check, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "function element 1"


def _of(monkeypatch: pytest.MonkeyPatch, script: str) -> Element:
    monkeypatch.setattr(element, "_read", lambda name: script if name.endswith(".mjs") else "<p></p>")
    return Element("made", ("made.mjs",))


@pytest.mark.parametrize(
    "script",
    ['import { a } from "./b.mjs";', 'const a = await import("b");', 'fetch("x");', "const a = 1;\nexport { a };"],
)
def test_scripts_that_need_others_are_refused(monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    with pytest.raises(ValueError, match="made: a script must not contain"):
        _ = _of(monkeypatch, script).classic


def test_no_text_of_the_data_ends_the_script(monkeypatch: pytest.MonkeyPatch) -> None:
    one = _of(monkeypatch, "export default function element({ data, parentElement }) {}")
    html = one.inline({"text": "</script><!--<script>"}, name="here")
    seen: list[str] = []
    parser = HTMLParser()
    parser.handle_starttag = lambda tag, attributes: seen.append(tag)  # type: ignore[method-assign, assignment]
    parser.handle_endtag = lambda tag: seen.append(f"/{tag}")  # type: ignore[method-assign, assignment]
    parser.feed(html)
    assert seen == ["div", "/div", "script", "/script"]


def test_every_script_in_the_elements_folders_belongs_to_an_element_or_a_figure() -> None:
    used = {name for one in (*ELEMENTS, GALLERY, ROOM, BALLOT) for name in one.scripts}
    used |= {"heatmap/heatmap.mjs"}  # drawn inside other pictures
    folder = paths.assets_dir()
    assert {str(path.relative_to(folder)) for path in folder.glob("*/*.mjs")} == used
