"""Files that leave compressed, and that a browser keeps: the framework's scripts, its icons, and what elements draw from.

Each is compressed once, by `python -m pages.parts.served` where the app is installed, else by the first server. What is not
compressed yet, and what a browser asks for in parts, leaves as it is. The page that
trains in a browser is handed out beside the app, from a folder of its own.
"""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from functools import cache, lru_cache
from gzip import compress
from hashlib import sha256
from itertools import accumulate, pairwise
from pathlib import Path
from struct import pack, unpack_from
from typing import Final

import numpy as np
import streamlit as st
from numpy.typing import NDArray
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Receive, Scope, Send

from dpcl_core import paths
from dpcl_core.data.files import replacing

STATIC: Final = Path(st.__file__).parent / "static" / "static"
_PLAIN: Final = "identity"
_FOREVER: Final = "public, immutable, max-age=31536000"
_ENDINGS: Final = (".js", ".css", ".svg")  # of files that are not compressed already
HERE: Final = "here"  # the address of the page that trains in a browser, below the server's own, and its file
HERE_PAGE: Final = "train-here.html"


def _brotli(data: bytes, level: int = 10) -> bytes:  # 11: 2 % less for twice the time
    import pyarrow as pa  # loaded only where something is not compressed yet

    return bytes(pa.Codec("brotli", compression_level=level).compress(data))


_WAYS: Final[Mapping[str, Callable[[bytes], bytes]]] = {"br": _brotli, "gzip": compress, _PLAIN: bytes}  # the best first


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
        _keep(_PLAIN, name, lambda: subset(font.read_bytes(), named(STATIC.glob("js/*.js"))))
        text = sheet.read_text(encoding="utf-8").replace(f"../media/{font.name}", f"../{name}")
        return f"./static/css/{sheet.name}", address("index.css", text.encode())
    except (OSError, ValueError, LookupError, struct.error):
        return None


def here() -> Path | None:
    """The folder of the page that trains in a browser, as `dpcl site --live` has put it; None where there is none yet."""
    return next((place for place in paths.shared_dirs("live") if (place / HERE_PAGE).exists()), None)


def routes() -> list[Mount]:
    """The address of that folder's files; looked for once, when the server starts."""
    place, base = here(), st.get_option("server.baseUrlPath").strip("/")
    path = "/".join(["", *filter(None, [base]), HERE])
    return [] if place is None else [Mount(path, StaticFiles(directory=place))]


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
_CMAP, _POST, _GLYF, _LOCA, _GSUB, _TAGGED = 0, 7, 10, 11, 28, 63  # how WOFF2 numbers tables
_HEAD: Final = 48  # bytes of its own, before the list of tables


def named(scripts: Iterable[Path]) -> set[str]:
    """The icons that scripts name."""
    return {name.decode() for script in scripts for name in _ICON.findall(script.read_bytes())}


def subset(font: bytes, icons: Collection[str]) -> bytes:
    """The font, a WOFF2 file, with these icons alone. Raises ValueError, LookupError, OSError or struct.error for others."""
    import pyarrow as pa  # has the compression; loaded only where the font is made

    at, lengths = _HEAD, {}
    for _ in range(int.from_bytes(font[12:14])):
        kind = font[at]
        for _ in range(2 if kind in (_GLYF, _LOCA) else 1):  # of these two, the length as packed follows
            lengths[kind], at = _number(font, at + (5 if kind == _TAGGED else 1 if kind not in lengths else 0))
    size = int.from_bytes(font[20:24])
    body = pa.Codec("brotli").decompress(font[at : at + size], sum(lengths.values()), asbytes=True)
    ends = accumulate(lengths.values())
    tables = {kind: body[end - length : end] for (kind, length), end in zip(lengths.items(), ends, strict=True)}
    tables[_CMAP], letters = _ascii(tables[_CMAP])
    tables[_GSUB], kept = _ligatures(tables[_GSUB], letters, icons)
    tables[_GLYF] = _outlines(tables[_GLYF], [0, *letters, *kept])
    tables[_POST] = b"\0\3" + tables[_POST][2:32]  # without names
    whole = b"".join(table.ljust(lengths[kind], b"\0") for kind, table in tables.items())
    packed = _brotli(whole, 11)
    padded = font[:at] + packed + bytes(-(at + len(packed)) % 4)
    return padded[:8] + pack(">I", len(padded)) + padded[12:20] + pack(">I", len(packed)) + padded[24:]


def _number(font: bytes, at: int) -> tuple[int, int]:
    """A number in groups of seven bits, and where it ends."""
    value = 0
    while font[at] & 128:
        value, at = value << 7 | font[at] & 127, at + 1
    return value << 7 | font[at], at + 1


def _ascii(cmap: bytes) -> tuple[bytes, dict[int, str]]:
    """The table of characters with ASCII alone, and the character of each of its glyphs."""
    records = [unpack_from(">HHI", cmap, 4 + 8 * number) for number in range(int.from_bytes(cmap[2:4]))]
    at = next(place for *kind, place in records if kind == [3, 10])
    ranges = (unpack_from(">III", cmap, at + 16 + 12 * number) for number in range(*unpack_from(">I", cmap, at + 12)))
    kept = [each for each in ranges if each[1] < 128]
    letters = {glyph + code - first: chr(code) for first, last, glyph in kept for code in range(first, last + 1)}
    head = pack(">HHHHIHHIII", 0, 1, 3, 10, 12, 12, 0, 16 + 12 * len(kept), 0, len(kept))
    return head + b"".join(pack(">III", *each) for each in kept), letters


def _ligatures(gsub: bytes, letters: dict[int, str], icons: Collection[str]) -> tuple[bytes, list[int]]:
    """The table of ligatures with those whose letters are an icon's name, in their old places; and their glyphs."""
    new, kept = bytearray(gsub), []

    def numbers(at: int, count: int) -> tuple[int, ...]:
        return unpack_from(f">{count}H", gsub, at)

    top = numbers(8, 1)[0]
    for lookup in (top + each for each in numbers(top + 2, *numbers(top, 1))):
        kind, _, n_parts = numbers(lookup, 3)
        for part in (lookup + each for each in numbers(lookup + 6, n_parts)):
            at = part + int.from_bytes(gsub[part + 4 : part + 8])
            _, coverage, n_groups = numbers(at, 3)
            form, n_spans = numbers(at + coverage, 2)
            if (kind, *numbers(part, 2), form) != (7, 1, 4, 2):
                raise ValueError("its ligatures are kept in another way")
            spans = (numbers(at + coverage + 4 + 6 * number, 3) for number in range(n_spans))
            firsts = [glyph for first, last, _ in spans for glyph in range(first, last + 1)]
            for first, group in zip(firsts, (at + each for each in numbers(at + 6, n_groups)), strict=True):
                stay = []
                for offset in numbers(group + 2, *numbers(group, 1)):
                    glyph, length = numbers(group + offset, 2)
                    if "".join(letters[each] for each in (first, *numbers(group + offset + 4, length - 1))) in icons:
                        stay.append(offset)
                        kept.append(glyph)
                    else:
                        new[group + offset : group + offset + 2 + 2 * length] = bytes(2 + 2 * length)
                size = 2 + 2 * numbers(group, 1)[0]
                new[group : group + size] = pack(f">{len(stay) + 1}H", len(stay), *stay).ljust(size, b"\0")
    return bytes(new), kept


def _outlines(glyf: bytes, kept: Collection[int]) -> bytes:
    """The outlines, packed as WOFF2 does, of these glyphs; of all others, none."""
    *head, n_ends, n_points, n_kinds, n_moves, n_parts, n_boxes, n_programs = unpack_from(">HHHH7I", glyf)
    starts = list(accumulate((n_ends, n_points, n_kinds, n_moves), initial=36))
    rest = glyf[starts[-1] :]
    contours, points, kinds, moves = (np.frombuffer(glyf[a:b], np.uint8) for a, b in pairwise(starts))
    if n_parts or n_programs or any(rest[:n_boxes]) or points.max() > 252:  # which would take more than a byte
        raise ValueError("its glyphs are made of others, or have boxes of their own")
    contours = contours.view(">u2")
    is_kept = np.isin(np.arange(len(contours)), list(kept))

    def sums(of: NDArray[np.integer], lengths: NDArray[np.integer]) -> NDArray[np.int64]:
        """The sum of each glyph's part of the numbers."""
        before = np.append(0, np.cumsum(of, dtype=np.int64))
        ends = np.cumsum(lengths, dtype=np.int64)
        found: NDArray[np.int64] = before[ends] - before[ends - lengths]
        return found

    n_of = sums(points, contours)
    each = kinds % 128
    n_moved = sums(1 + (each >= 84) + (each >= 120) + (each >= 124), n_of) + (contours > 0)  # and the length of no program
    new = [(contours * is_kept).astype(">u2").tobytes()]
    new += [one[np.repeat(is_kept, n)].tobytes() for one, n in ((points, contours), (kinds, n_of), (moves, n_moved))]
    return pack(">HHHH7I", *head, *map(len, new), 0, n_boxes, 0) + b"".join(new) + rest


if __name__ == "__main__":  # where the app is installed
    paths.shared_dirs("served")[0].mkdir(parents=True, exist_ok=True)
    fill()
    style()
