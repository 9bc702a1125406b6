"""An element drawn in the browser: its markup, style and script, as a module for the app or as one plain function.

Its scripts are modules with one default export, `element({data, parentElement, setStateValue})`; one that asks a server may
take `setTriggerValue` as well. All data come in `data`; no script imports or fetches anything.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from html import escape
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from dpcl_core import paths
from dpcl_core.elements.calculator import Source
from dpcl_core.events import ScoredText
from dpcl_core.methods import catalog as methods

if TYPE_CHECKING:
    from dpcl_core.explorers.tokens import Dials, Layer

Door = Literal["Learn", "Ask", "Use my data"]

_EXPORT = re.compile(r"^export (default )?(?=function|const|let|class)", re.MULTILINE)
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
        return f"{_EXPORT.sub('', self.module)}\n{_MOUNTED}"

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


_MOUNTED = _read("shared/mounted.mjs")
_DOM = "shared/dom.mjs"
HERO = Element("hero", (_DOM, "drag/replay.mjs", "hero/one_person.mjs", "hero/hero.mjs"))
DRAG = Element("drag", (_DOM, "drag/replay.mjs", "drag/arms.mjs", "drag/drag.mjs"))
TOKENS = Element(
    "tokens",
    (_DOM, "drag/replay.mjs", "tokens/language.mjs", "tokens/sensitivity.mjs", "tokens/tokens.mjs"),
    is_isolated=False,
)
ANCHORS = Element("anchors", (_DOM, "anchors/play.mjs", "anchors/anchors.mjs"), is_isolated=False)
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
PICTURE = Element("picture", ("picture/picture.mjs",), is_isolated=False)
GALLERY = Element("gallery", (_DOM, "gallery/gallery.mjs"), is_isolated=False)
ROOM = Element("room", (_DOM, "room/asking.mjs", "room/room.mjs"), is_isolated=False)
BALLOT = Element("ballot", (_DOM, "room/asking.mjs", "ballot/ballot.mjs"), is_isolated=False)
ELEMENTS = (HERO, DRAG, TOKENS, ANCHORS, CALCULATOR, LESSON)


# The text to explore: what the element in `assets/tokens/` is drawn from. It scores, shades and unfolds words by itself.


BUDGETS = (0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0)  # stops of the largest nominal ε
FIRST: Layer = "score"  # the layer shown at first
_TOKENS = paths.asset_table("tokens/words.toml")
TITLES: Mapping[Layer, str] = _TOKENS["titles"]
WORDS: Mapping[str, str] = _TOKENS["words"]


def document(
    text: ScoredText | None, dials: Dials, layer: Layer, label: str, budgets: Sequence[float], reader: str | None
) -> dict[str, object]:
    """The data of the element: its `model`, and what is `shown`."""
    return {"model": model(), **view_document(text, dials, layer, label, budgets, reader)}


def view_document(
    text: ScoredText | None, dials: Dials, layer: Layer, label: str, budgets: Sequence[float], reader: str | None,
    layers: Sequence[Layer] = (),
) -> dict[str, object]:  # fmt: skip
    """The data of the element but its model: text (None: typed), settings, layers with their edges and words, and the game.

    `budgets`: stops of the largest nominal ε; `reader`: the public model that scored the text, None for another; `layers`:
    those to choose from where nothing else can be moved.
    """
    from dpcl_core.explorers import tokens
    from dpcl_core.figures import tokens as figures_tokens

    shown: list[dict[str, object]] = []
    for each in layers or tokens.SHOWN:
        edges, origin = tokens.edges(each, dials), tokens.base(dials) if each in tokens.WEIGHTS else 0.0
        ranges = figures_tokens.ranges(edges, falling=each in tokens.FALLING, beyond=f" from {origin:g}" if origin else "")
        about = {"name": each, "title": TITLES[each], "means": _TOKENS["means"][each]}
        shown.append({**about, "edges": list(edges), "ranges": ranges})
    of_text = None if text is None else {
        "label": label, "tokens": list(text.tokens), "probability": list(text.probability), "kinds": list(text.kinds),
        "commonness": list(text.commonness), "is_stop": list(text.is_stop), "model_id": reader,
    }  # fmt: skip
    return {
        "text": of_text, "dials": asdict(dials), "layer": layer, "budgets": list(budgets),
        "layers": shown, "is_still": bool(layers), "words": WORDS,
        "game": {"rounds": _TOKENS["rounds"]},
    }  # fmt: skip


@lru_cache(maxsize=1)
def model() -> dict[str, object]:
    """The model with which the element scores."""
    from dpcl_core.explorers import tokens
    from dpcl_core.lessons import modes

    return tokens.document(modes.texts().score2)


# The hero of Start: what it is drawn from, in `assets/hero/`. And whom Start's doors are for.


TITLE: Final = "See what privacy costs a model that keeps learning"
QUESTION: Final = "A model learns from people's pictures. Noise limits what it tells about any one person."
TEACHING: Final = "Here the noise never changes, so it protects nobody."
N_ANSWERED: Final = 48  # questions with recorded results: counting them would keep Start waiting, so a test does
DOORS: Final[Mapping[Door, str]] = {"Learn": "45 minutes", "Ask": f"{N_ANSWERED} answered questions", "Use my data": ""}
STOPS: Final = (0.1, 0.2, 0.3, 0.5, 0.7, 1, 1.5, 2, 3, 4, 6, 8, math.inf)
FIRST_STOP: Final = 8


@lru_cache(maxsize=1)
def hero_document() -> dict[str, object]:
    """The data of the element: public digits with their sums, the stops of the slider, and its words."""
    words = paths.asset_table("hero/words.toml")
    digits: Any = json.loads(_read("hero/digits.json"))
    return {"digits": digits, "stops": [_number(stop) for stop in STOPS], "start": STOPS.index(FIRST_STOP), "words": words}


# The ε-drag: what it is drawn from. It computes results exactly from products that contain no features
# (`explorers/cosine_replay.py`), or looks up trained cells.


def drag_document(source: Source, start: float, panels: Sequence[str]) -> dict[str, object]:
    """The data of the element: the same for every budget, so it is sent only once.

    `start`: the initial budget. `panels`: from accuracy, matrix, classes.
    """
    return {
        "key": source.key, "stops": [_number(stop) for stop in source.stops], "start": _number(start),
        "delta": source.delta, "words": dict(source.words), "classes": list(source.classes),
        "interval_factor": source.interval_factor, "panels": list(panels), "replay": source.replay,
        "table": source.table or None,
    }  # fmt: skip


def _number(value: float) -> float | str:
    return "inf" if math.isinf(value) else value


# The simulated clients' lists to play with: what the element in `assets/anchors/` is drawn from.


MATCHERS = {
    "centred": "anchors, centred", "ranked": "anchors, ranked", "raw": "anchors, raw", "axes": "public axes",
    "hungarian": "Hungarian", "nearest": "nearest mean", "transport": "optimal transport", "random": "random",
}  # fmt: skip


class Start(NamedTuple):
    """What is shown first, as `document` takes it."""

    length: int = 384
    m: int = 50
    noise: float = 0.1
    matcher: str = "centred"


def anchors_document(length: int, m: int, noise: float, matcher: str) -> dict[str, object]:
    """The data of the element: lists of vectors with `length` numbers and their groups, where to start, and its words.

    `m`: anchors; `noise`: standard deviation on every coordinate; `matcher`: a key of `MATCHERS`. Raises DataMissing.
    """
    from dpcl_core.explorers import matching

    start = {"m": m, "noise": noise, "matcher": MATCHERS[matcher]}
    return {"lists": matching.read_vectors(length), "start": start, "words": paths.asset_table("anchors/words.toml")}


# A classroom in the browser: what the elements in `assets/room/` and `assets/ballot/` need to ask for the room.


ROOM_WORDS: Mapping[str, str] = paths.asset_table("room/words.toml")["room"]


def room_document(code: str, *, is_poll_alone: bool = False) -> dict[str, object]:
    """The data of the element for one room. `is_poll_alone`: without everybody's runs."""
    titles = {name: card.title for name, card in methods.CARDS.items()}
    return {"code": code, "words": ROOM_WORDS, "methods": titles, "is_poll_alone": is_poll_alone}


def ballot(code: str) -> dict[str, object]:
    """The data of the element that carries a lesson's predictions into a room."""
    return {"code": code, "words": paths.asset_table("room/words.toml")["ballot"]}
