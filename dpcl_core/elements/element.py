"""An element drawn in the browser: its markup, style and script, as a module for the app or as one plain function.

Its scripts are modules with one default export, `element({data, parentElement, setStateValue})`; one that asks a server may
take `setTriggerValue` as well. All data come in `data`; no script imports or fetches anything.
"""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from html import escape
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

import numpy as np

from dpcl_core import paths
from dpcl_core.elements.calculator import Source
from dpcl_core.events import ScoredText
from dpcl_core.methods import catalog as methods
from dpcl_core.privacy import statement

if TYPE_CHECKING:
    from dpcl_core.explorers.tokens import Dials, Layer

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


# The text to explore: what the element in `assets/tokens/` is drawn from. It scores, shades and unfolds words by itself.


BUDGETS = (0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0)  # stops of the largest nominal ε
FIRST: Layer = "score"  # the layer shown at first
_TOKENS = paths.asset_table("tokens/words.toml")
TITLES: Mapping[Layer, str] = _TOKENS["titles"]
MEANS: Mapping[Layer, str] = _TOKENS["means"]
WORDS: Mapping[str, str] = _TOKENS["words"]
ROUNDS = (
    ("I wrote a long letter to ___ last week.", ("Anna", "Paris")),
    ("My name is ___ and I live here.", ("Grace", "Basel")),
    ("The meeting with ___ is on Monday.", ("Okafor", "Toyota")),
)


def document(
    text: ScoredText | None, dials: Dials, layer: Layer, label: str, budgets: Sequence[float], reader: str | None
) -> dict[str, object]:
    """The data of the element: its `model`, and what is `shown`."""
    return {"model": model(), **view_document(text, dials, layer, label, budgets, reader)}


def view_document(
    text: ScoredText | None, dials: Dials, layer: Layer, label: str, budgets: Sequence[float], reader: str | None
) -> dict[str, object]:
    """The data of the element but its model: text (None: typed), settings, layers with their edges and words, and the game.

    `budgets`: stops of the largest nominal ε; `reader`: the public model that scored the text, None for another.
    """
    from dpcl_core.explorers import tokens

    of_text = None if text is None else {
        "label": label, "tokens": list(text.tokens), "probability": list(text.probability), "kinds": list(text.kinds),
        "commonness": list(text.commonness), "is_stop": list(text.is_stop), "model_id": reader,
    }  # fmt: skip
    return {
        "text": of_text, "dials": asdict(dials), "layer": layer, "budgets": list(budgets),
        "layers": [_layer(each, dials) for each in tokens.SHOWN], "words": WORDS,
        "game": {"rounds": [{"sentence": sentence, "words": list(words)} for sentence, words in ROUNDS]},
    }  # fmt: skip


def _layer(layer: Layer, dials: Dials) -> dict[str, object]:
    from dpcl_core.explorers import tokens
    from dpcl_core.figures import tokens as figures_tokens

    edges = tokens.edges(layer, dials)
    origin = tokens.base(dials) if layer in tokens.WEIGHTS else 0.0
    beyond = f" from {origin:g}" if origin else ""
    ranges = figures_tokens.ranges(edges, falling=layer in tokens.FALLING, beyond=beyond)
    return {"name": layer, "title": TITLES[layer], "means": MEANS[layer], "edges": list(edges), "ranges": ranges}


@lru_cache(maxsize=1)
def model() -> dict[str, object]:
    """The model with which the element scores."""
    from dpcl_core.explorers import tokens
    from dpcl_core.lessons import modes

    return tokens.document(modes.texts().score2)


# The hero, "take one person out": what it is drawn from, in `assets/hero/`. And what Start's doors ask.


Door = Literal["digits", "words", "clients"]
DOORS: Final[Mapping[Door, tuple[str, str]]] = {  # what is behind it, and its question
    "digits": ("Digits", "What does ε cost?"),
    "words": ("Words", "Which are taken for private?"),
    "clients": ("Clients", "Can twenty agree without naming?"),
}
TITLE: Final = "Take one person out"
QUESTION: Final = "What can others learn about one person?"
TEACHING: Final = "Public digits, fixed noise: for teaching only."
STOPS: Final = (0.1, 0.2, 0.5, 1, 2, 4, 8, 16, 30, 100, 300, 1000, math.inf)
HERO_WORDS: Final = {**paths.asset_table("hero/words.toml"), "odds": statement.ODDS, "no_odds": statement.NO_ODDS}


@lru_cache(maxsize=1)
def hero_document() -> dict[str, object]:
    """The data of the element: public digits with their releases, the stops of the slider, and its words."""
    return {"digits": json.loads(_read("hero/digits.json")), "stops": [_number(stop) for stop in STOPS], "words": HERO_WORDS}


# The doors of Start, small pictures that a hand moves: what they are drawn from, mostly in `assets/doors/`.


_MATCHER, _N_ANCHORS, _NOISE = "anchors, centred", 50, 0.1
_LENGTH, _REACH = 384, 1.5  # numbers of a vector; half the width of the map, in its own units


@lru_cache(maxsize=3)
def doors_document(door: Door) -> dict[str, object]:
    """The data of one door, which never change. Raises DataMissing where the model's or the lists' files are missing."""
    stored: Any = json.loads(_read("doors/doors.json"))
    if door == "digits":  # [ε, accuracy] of the Playground's slider
        words = {"dial": "ε on the curve", "said": "ε = {epsilon}: {percent} % after five tasks"}
        return {"kind": door, "points": stored["digits"], "words": words}
    if door == "words":  # the bundled model, and how a score is shaded
        from dpcl_core.explorers import tokens

        words = {"typed": "Your sentence", "start": "Anna flew to Paris.", "score": "score {score}"}
        known = stored["words"]
        model = tokens.document(np.frombuffer(base64.b64decode(known["commonness"])))
        shades = {name: known[name] for name in ("dials", "layer", "edges")}
        return {"kind": door, "model": model, **shades, "words": words}
    from dpcl_core.explorers import matching

    every = matching.read_vectors(_LENGTH)  # twenty clients' lists, and how one matcher groups their entries at every noise
    place = every["counts"].index(_N_ANCHORS)
    lists = {"modes": every["modes"], "places": [every["places"][place]], "groups": every["groups"][_MATCHER][place]}
    words = {"dial": "noise on every list", "said": "{n} of {of} match"}
    noises = {"noises": every["noises"], "start": every["noises"].index(_NOISE)}
    return {"kind": door, "lists": lists, "reach": _REACH, **noises, "words": words}


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


ANCHORS_WORDS: Mapping[str, str] = paths.asset_table("anchors/words.toml")


def anchors_document(length: int, m: int, noise: float, matcher: str) -> dict[str, object]:
    """The data of the element: lists of vectors with `length` numbers and their groups, where to start, and its words.

    `m`: anchors; `noise`: standard deviation on every coordinate; `matcher`: a key of `MATCHERS`. Raises DataMissing.
    """
    from dpcl_core.explorers import matching

    start = {"m": m, "noise": noise, "matcher": MATCHERS[matcher]}
    return {"lists": matching.read_vectors(length), "start": start, "words": ANCHORS_WORDS}


# A classroom in the browser: what the elements in `assets/room/` and `assets/ballot/` need to ask for the room.


ROOM_WORDS: Mapping[str, str] = paths.asset_table("room/words.toml")["room"]


def room_document(code: str, *, is_poll_alone: bool = False) -> dict[str, object]:
    """The data of the element for one room. `is_poll_alone`: without everybody's runs."""
    titles = {name: card.title for name, card in methods.CARDS.items()}
    return {"code": code, "words": ROOM_WORDS, "methods": titles, "is_poll_alone": is_poll_alone}


def ballot(code: str) -> dict[str, object]:
    """The data of the element that carries a lesson's predictions into a room."""
    return {"code": code, "words": paths.asset_table("room/words.toml")["ballot"]}
