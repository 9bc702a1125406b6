"""Elements as plain functions: the same scripts without modules, safe inside a page."""

from html.parser import HTMLParser
from pathlib import Path

import pytest

from dpcl_core import paths
from dpcl_core.elements import element
from dpcl_core.elements.element import BALLOT, ELEMENTS, GALLERY, PICTURE, ROOM, Element
from dpcl_core.site import build
from pages.parts.figure_card import json_bytes
from tests.support import javascript


@pytest.mark.parametrize("one", ELEMENTS, ids=lambda one: one.folder)
@javascript.NEEDED
def test_each_is_one_function_without_modules(one: Element) -> None:
    check = f"const made = {one.classic}; process.stdout.write(`${{typeof made}} ${{made.name}} ${{made.length}}`);"
    assert javascript.printed(check, kind="commonjs") == "function element 1"


@pytest.mark.parametrize("one", [*ELEMENTS, GALLERY, ROOM, BALLOT], ids=lambda one: one.folder)
@javascript.NEEDED
def test_each_is_a_module_that_reads_bytes(one: Element, tmp_path: Path) -> None:
    (tmp_path / "module.mjs").write_text(one.module_of_bytes, encoding="utf-8")
    check = "import made from './module.mjs'; process.stdout.write(typeof made)"
    assert javascript.printed(check, tmp_path) == "function"


@javascript.NEEDED
def test_bytes_of_json_are_the_data(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    one = _of(monkeypatch, "export default function element({ data, add }) {\n  return data.text + add;\n}")
    (tmp_path / "module.mjs").write_text(one.module_of_bytes, encoding="utf-8")
    sent = list(json_bytes({"text": "ε ≤ 1 \U0001f600"}))
    drawn = f"made({{data: Uint8Array.from({sent}), add: '!', parentElement: {{}}}})"
    check = f"import made from './module.mjs'; process.stdout.write({drawn})"
    assert javascript.printed(check, tmp_path) == "ε ≤ 1 \U0001f600!"


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
    used = {name for one in (*ELEMENTS, PICTURE, GALLERY, ROOM, BALLOT) for name in one.scripts}
    used.add("shared/mounted.mjs")
    used |= {f"live/{Path(name).stem}.mjs" for name in build.scripts() if name not in ("live/dom.js", build.CACHE)}
    folder = paths.assets_dir()
    assert {str(path.relative_to(folder)) for path in folder.glob("*/*.mjs")} == used
