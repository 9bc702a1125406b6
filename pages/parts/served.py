"""Files that leave compressed, and that a browser keeps: the framework's scripts, its icons, and what elements draw from.

Each is compressed once, by `python -m pages.parts.served` where the app is installed, else by the first server. What is not
compressed yet, and what a browser asks for in parts, leaves as it is. The page that
trains in a browser is handed out beside the app, from a folder of its own.
"""

import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from functools import cache, lru_cache, partial
from gzip import compress
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import Final

import brotli
import streamlit as st
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Receive, Scope, Send

from dpcl_core import paths
from dpcl_core.data.files import replacing
from dpcl_core.errors import instead_of

STATIC: Final = Path(st.__file__).parent / "static" / "static"
_PLAIN: Final = "identity"
_FOREVER: Final = "public, immutable, max-age=31536000"
_ENDINGS: Final = (".js", ".css", ".svg")  # of files that are not compressed already
HERE: Final = "here"  # the address of the page that trains in a browser, below the server's own, and its file
HERE_PAGE: Final = "train-here.html"


_WAYS: Final[Mapping[str, Callable[[bytes], bytes]]] = {  # the best first
    "br": partial(brotli.compress, quality=10),  # 11: 2 % less for twice the time
    "gzip": compress,
    _PLAIN: bytes,
}


def fill() -> None:
    """Makes what is missing: first all files compressed quickly, then all of them well."""
    files = sorted((path for path in STATIC.rglob("*") if path.suffix in _ENDINGS), key=lambda path: path.stat().st_size)
    with suppress(OSError):  # a folder that cannot be written to
        for way in ("gzip", "br"):
            for path in files:
                _keep(way, path.relative_to(STATIC).as_posix(), path.read_bytes)


@lru_cache(maxsize=32)
def address(name: str, content: bytes) -> str:
    """The address, seen from a page, of public data that everybody may read. Raises OSError where they cannot be kept."""
    stem, dot, ending = name.rpartition(".")
    name = f"own/{stem}.{sha256(content).hexdigest()[:16]}{dot}{ending}"
    for way in ("gzip", _PLAIN):
        _keep(way, name, lambda: content)
    return f"./static/{name}"


@cache
def style() -> tuple[str, str] | None:
    """The address of the framework's style sheet, and of ours, whose icon font has the framework's own icons alone.

    None where it cannot be made or kept.
    """
    sheet, font = next(STATIC.glob("css/index.*.css"), None), next(STATIC.glob("media/MaterialSymbols-*.woff2"), None)
    if sheet is None or font is None:
        return None
    made_of = f"{st.__version__} {font.name}".encode() + Path(__file__).read_bytes()
    name = f"own/icons.{sha256(made_of).hexdigest()[:16]}.woff2"
    try:
        _keep(_PLAIN, name, lambda: subset(font, named(STATIC.glob("js/*.js"))))
        text = sheet.read_text(encoding="utf-8").replace(f"../media/{font.name}", f"../{name}")
        return f"./static/css/{sheet.name}", address("index.css", text.encode())
    except (OSError, ValueError):
        return None


def here() -> Path | None:
    """The folder of the page that trains in a browser, as `dpcl site --live` has put it; None where there is none yet."""
    return next((place for place in paths.shared_dirs("live") if (place / HERE_PAGE).exists()), None)


def routes() -> list[Mount]:
    """The address of that folder's files; looked for once, when the server starts."""
    place, base = here(), st.get_option("server.baseUrlPath").strip("/")
    return [] if place is None else [Mount("/".join(["", *filter(None, [base]), HERE]), StaticFiles(directory=place))]


def _keep(way: str, name: str, make: Callable[[], bytes]) -> None:
    """Makes a file where neither place has it: in the environment if that has a folder for it, else in the user's cache."""
    places = paths.shared_dirs("served")
    if not any((place / way / name).exists() for place in places):
        place = places[not os.access(places[0], os.W_OK)] / way / name
        place.parent.mkdir(parents=True, exist_ok=True)
        with replacing(place) as file:
            file.write(_WAYS[way](make()))
        place.chmod(0o644)  # an environment may be shared


class Compressed:
    """Answers for the files of this module and of the framework; passes all other requests on."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        self.kept = {way: StaticFiles(directory=STATIC) for way in _WAYS}
        for way, files in self.kept.items():
            files.all_directories = [place / way for place in paths.shared_dirs("served")]
        self.kept[_PLAIN].all_directories.append(STATIC)
        self.below = "/".join(["", *filter(None, [st.get_option("server.baseUrlPath").strip("/")]), "static", ""])

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers with the best form that the browser takes, for a year: a file's name says what is in it."""
        if scope["type"] == "http" and scope["path"].startswith(self.below):
            headers = Headers(scope=scope)
            taken = [_PLAIN] if "range" in headers else [*accepted(headers.get("accept-encoding", "")), _PLAIN]
            for way in (way for way in self.kept if way in taken):
                with suppress(HTTPException):
                    answer = await self.kept[way].get_response(scope["path"].removeprefix(self.below), scope)
                    answer.headers.update({"cache-control": _FOREVER, "vary": "Accept-Encoding"})
                    if way != _PLAIN and answer.status_code == 200:
                        answer.headers["content-encoding"] = way
                    await answer(scope, receive, send)
                    return
        await self.app(scope, receive, send)


def accepted(header: str) -> list[str]:
    """The encodings that a request's header names without refusing them."""
    named = (part.replace(" ", "").lower().partition(";q=") for part in header.split(","))
    return [name for name, _, weight in named if not weight or weight.strip("0.")]


# The framework's icon font with only the icons that its scripts name: some kilobytes in place of 375.


_ICON: Final = re.compile(rb"\bmaterial/(\w+):")


def named(scripts: Iterable[Path]) -> set[str]:
    """The icons that scripts name."""
    return {name.decode() for script in scripts for name in _ICON.findall(script.read_bytes())}


def subset(font: Path, icons: Collection[str]) -> bytes:
    """The font, a WOFF2 file, with these icons alone: what draws one is a ligature of the letters of its name.

    Raises ValueError for a file of another kind, which another version of the framework may bring.
    """
    from fontTools.subset import Options, Subsetter  # loaded only where the font is made
    from fontTools.ttLib import TTFont

    with instead_of(Exception, say=ValueError(f"{font.name} has no ligatures that a font of icons has")):
        whole, made = TTFont(font), BytesIO()
        letters = {glyph: chr(code) for code, glyph in whole.getBestCmap().items() if code < 128}
        parts = (part.ExtSubTable for lookup in whole["GSUB"].table.LookupList.Lookup for part in lookup.SubTable)
        groups = (each for part in parts for each in part.ligatures.items())
        drawn = [
            one.LigGlyph
            for first, group in groups
            for one in group
            if "".join(letters.get(glyph, "?") for glyph in (first, *one.Component)) in icons
        ]
        kept = Subsetter(Options(layout_closure=False, layout_features=["*"]))  # closed, letters would bring all along
        kept.populate(glyphs=drawn, text="".join(letters.values()))
        kept.subset(whole)
        whole.save(made)
    return made.getvalue()


if __name__ == "__main__":  # where the app is installed
    paths.shared_dirs("served")[0].mkdir(parents=True, exist_ok=True)
    fill()
    style()
