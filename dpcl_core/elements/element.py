"""An element drawn in the browser: its markup, style and script, as a module for the app or as one plain function.

Its scripts are modules with one default export, `element({data, parentElement, setStateValue})`; one that asks a server may
take `setTriggerValue` as well. All data come in `data`; no script imports or fetches anything.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from html import escape

from dpcl_core import paths

_EXPORT = re.compile(r"^export (default )?(?=function|const|let|class)", re.MULTILINE)
_OF_BYTES = (
    "\nconst bytesAsText = new TextDecoder();\n"
    "export default ({ data, ...others }) => element({ ...others, data: JSON.parse(bytesAsText.decode(data)) });\n"
)
_FORBIDDEN = re.compile(r"^\s*import\b|\bimport\s*\(|\bfetch\s*\(|^export\s*\{", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Element:
    """`scripts`: files in `assets/`, in order; markup is FOLDER/FOLDER.html and style FOLDER/FOLDER.css, if there is one.

    `is_isolated`: its style is its own; else it uses classes of `theme` as well.
    """

    folder: str
    scripts: tuple[str, ...]
    is_isolated: bool = True

    @property
    def html(self) -> str:
        """Its markup."""
        return _read(f"{self.folder}/{self.folder}.html")

    @property
    def css(self) -> str:
        """Its style, empty where the theme's is enough."""
        name = f"{self.folder}/{self.folder}.css"
        return _read(name) if (paths.assets_dir() / name).exists() else ""

    @property
    def module(self) -> str:
        """Its scripts as one module with a default export."""
        return "\n".join(map(_read, self.scripts))

    @property
    def module_of_bytes(self) -> str:
        """The same module for `data` that come as bytes of JSON."""
        return _EXPORT.sub("", self.module) + _OF_BYTES

    @property
    def classic(self) -> str:
        """The same as an expression, whose value is the default export: a page opened from a file can run no module.

        Raises ValueError for a script that imports or fetches.
        """
        module = self.module
        if found := _FORBIDDEN.search(module):
            raise ValueError(f"{self.folder}: a script must not contain {found.group().strip()!r}")
        return f"(() => {{\n{_EXPORT.sub('', module)}\nreturn element;\n}})()"

    def inline(self, data: object, *, name: str) -> str:
        """The element as HTML to put into any page: a place with the id `name`, and a script that draws it there.

        An event "feed" on the place, with other data as its detail, draws these.
        """
        root = 'place.attachShadow({mode: "open"})' if self.is_isolated else "place"
        inside = json.dumps(f"<style>{self.css}</style>{self.html}")
        script = (
            f"const place = document.getElementById({json.dumps(name)}), root = {root};\n"
            f"root.innerHTML = {inside};\n"
            f"const element = {self.classic};\n"
            "const draw = (data) => element({data, parentElement: root, setStateValue() {}});\n"
            'place.addEventListener("feed", (event) => draw(event.detail));\n'
            f"draw({json.dumps(data, allow_nan=False)});"
        )
        return f'<div id="{escape(name)}"></div>\n<script>(() => {{\n{in_html(script)}\n}})();</script>\n'


def theme() -> str:
    """The style that elements which are not isolated need of their page, the app or a plain one."""
    return _read("shared/theme.css")


def in_html(script: str) -> str:
    """The script without any text that would end it, or open a comment, inside an HTML page."""
    return script.replace("</", "<\\/").replace("<!--", "<\\!--")


def _read(name: str) -> str:
    return (paths.assets_dir() / name).read_text(encoding="utf-8")


_DOM = "shared/dom.mjs"
HERO = Element("hero", (_DOM, "drag/replay.mjs", "hero/one_person.mjs", "hero/hero.mjs"))
DRAG = Element("drag", (_DOM, "drag/replay.mjs", "drag/drag.mjs"))
TOKENS = Element(
    "tokens",
    (_DOM, "drag/replay.mjs", "tokens/language.mjs", "tokens/sensitivity.mjs", "tokens/tokens.mjs"),
    is_isolated=False,
)
ANCHORS = Element("anchors", (_DOM, "anchors/play.mjs", "anchors/anchors.mjs"), is_isolated=False)
DOOR = Element(
    "doors",
    (_DOM, "drag/replay.mjs", "tokens/language.mjs", "tokens/sensitivity.mjs", "anchors/play.mjs", "doors/doors.mjs"),
    is_isolated=False,
)
CALCULATOR = Element("calculator", (_DOM, "drag/replay.mjs", "calculator/accountant.mjs", "calculator/calculator.mjs"))
LESSON = Element(
    "lesson",
    (
        _DOM, "drag/replay.mjs", "lesson/games.mjs", "lesson/pictures.mjs", "lesson/label_steps.mjs",
        "lesson/noise_steps.mjs", "lesson/lesson.mjs",
    ),
    is_isolated=False,
)  # fmt: skip
# These are for the app's pages alone: what they show comes from runs, or from asking its server.
HEATMAP = Element("heatmap", ("heatmap/heatmap.mjs",), is_isolated=False)
PICTURE = Element("picture", ("picture/picture.mjs",), is_isolated=False)
GALLERY = Element("gallery", (_DOM, "gallery/gallery.mjs"), is_isolated=False)
ROOM = Element("room", (_DOM, "room/asking.mjs", "room/room.mjs"), is_isolated=False)
BALLOT = Element("ballot", (_DOM, "room/asking.mjs", "ballot/ballot.mjs"), is_isolated=False)
ELEMENTS = (HERO, DRAG, TOKENS, ANCHORS, DOOR, CALCULATOR, LESSON)
