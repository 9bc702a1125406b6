"""Elements, colours and texts of SVG: escaped, with the few tags that Plotly's texts use, and estimated widths."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Sequence
from html import escape, unescape

LINE = 1.3  # heights of the letters from one line to the next, as Plotly sets them
_HIGH, _ASCENT = 1.2, 0.95  # of a single line, and of what is above its base line
_TAG = re.compile(r"(</?(?:b|i|sup|sub)>|<br ?/?>)")
_STYLES = {
    "b": 'font-weight="bold"', "i": 'font-style="italic"', "sup": 'font-size="70%" dy="-0.45em"',
    "sub": 'font-size="70%" dy="0.3em"',
}  # fmt: skip
_RAISED = {"sup": 0.45 * 0.7, "sub": -0.3 * 0.7}  # what brings the next run back to the base line
_WIDER = 1.14  # a reader's font may be wider than Helvetica, as DejaVu Sans is
# Widths of letters in Helvetica, in thousandths of the font's size.
_WIDTHS = {
    222: "ijl'", 278: " .,:;!/|ftI[]\\", 333: "()-r`\"{}*", 500: "ckvsxyzJ", 556: "abdeghnopqu0123456789$#?_L",
    584: "+=<>~^−", 611: "FTZ", 667: "ABEKPSVXY&", 722: "wCDHNRU", 778: "GOQ", 833: "mM", 889: "%", 944: "W", 1000: "@—…",
}  # fmt: skip
_WIDTH_OF = {letter: width / 1000 for width, letters in _WIDTHS.items() for letter in letters}
_COLOUR = re.compile(r"#[0-9a-fA-F]{6}|#[0-9a-fA-F]{3}|[a-z]+")
_RGBA = re.compile(r"rgba?\(\s*([\d.]+)\s*,\s*([\d.]+)\s*,\s*([\d.]+)\s*(?:,\s*([\d.]+)\s*)?\)")


def plain(value: float) -> str:
    """A coordinate with at most two decimals."""
    text = f"{value:.2f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def element(name: str, body: str = "", /, **attributes: object) -> str:
    """An element; underscores in attributes become hyphens, None leaves one out, and every value is escaped."""
    parts = [name]
    for key, value in attributes.items():
        if value is not None:
            text = plain(float(value)) if isinstance(value, int | float) else escape(str(value), quote=True)
            parts.append(f'{key.strip("_").replace("_", "-")}="{text}"')
    return f"<{' '.join(parts)}>{body}</{name}>" if body else f"<{' '.join(parts)}/>"


def paint(kind: str, colour: str) -> dict[str, object]:
    """The attributes of a fill or stroke (`kind`); raises TypeError for what is no colour."""
    opacity, found = 1.0, _RGBA.fullmatch(colour)
    if found is not None:
        red, green, blue, alpha = found.groups()
        opacity = float(alpha or 1)
        colour = "#{:02x}{:02x}{:02x}".format(*(round(float(part)) for part in (red, green, blue)))
    elif not _COLOUR.fullmatch(colour):
        raise TypeError(f"no colour that can be drawn as SVG: {colour!r}")
    return {kind: colour} | ({f"{kind}_opacity": opacity} if opacity < 1 else {})


def letters(words: str) -> str:
    """A plain text, escaped."""
    return escape(words, quote=False)


def lines(markup: str) -> list[str]:
    """The lines of a text, each with the tags that it contains."""
    return re.split(r"<br ?/?>", markup)


def plain_lines(markup: str) -> list[str]:
    """The lines of a text as they are read, without tags."""
    return [unescape(_TAG.sub("", line)) for line in lines(markup)]


def width(markup: str, size: float) -> float:
    """The estimated width of a text's longest line in pixels, at a font size in pixels."""
    return max(map(_width, plain_lines(markup))) * size


def _width(text: str) -> float:
    return _WIDER * math.fsum(_WIDTH_OF.get(letter, _other(letter)) for letter in text)


def _other(letter: str) -> float:
    if unicodedata.combining(letter):
        return 0.0
    return 1.0 if unicodedata.east_asian_width(letter) in "WF" else 0.6


def height(markup: str, size: float) -> float:
    """The height of a text in pixels."""
    return (len(lines(markup)) - 1) * LINE * size + _HIGH * size


def wrapped(markup: str, size: float, room: float) -> str:
    """The text, broken between words where a line is wider than `room` pixels."""
    broken: list[str] = []
    for line in lines(markup):
        now = ""
        for word in line.split(" "):
            longer = f"{now} {word}" if now else word
            if now and width(longer, size) > room:
                broken.append(now)
                now = word
            else:
                now = longer
        broken.append(now)
    return "<br>".join(broken)


def text(
    markup: str, x: float, y: float, *, size: float, colour: str, across: str = "middle", down: str = "middle",
    angle: float = 0.0, scale: float = 1.0,
) -> str:  # fmt: skip
    """A text at (x, y). `across`: its "start", "middle" or "end" is at x; `down`: its "top", "middle", "bottom" or the first
    line's "base" is at y; `angle`: clockwise, in degrees; `scale`: smaller than its size.
    """
    size *= scale
    rows = lines(markup)
    above = {"top": 0.0, "middle": height(markup, size) / 2, "bottom": height(markup, size), "base": _ASCENT * size}[down]
    turn = f"rotate({plain(angle)} {plain(x)} {plain(y)})" if angle else None
    first = y - above + _ASCENT * size
    body = "".join(
        element("tspan", _runs(row), x=x, y=first + place * LINE * size) if len(rows) > 1 else _runs(row)
        for place, row in enumerate(rows)
    )
    return element(
        "text", body, x=x, y=first, font_size=size, text_anchor=across, transform=turn, **paint("fill", colour)
    ) if body else ""  # fmt: skip


def _runs(row: str) -> str:
    """A line as escaped text, with a tspan for each run of a style."""
    styles: list[str] = []
    runs, back = "", 0.0
    for part in _TAG.split(row):
        if _TAG.fullmatch(part):
            name = part.strip("</>")
            if not part.startswith("</"):
                styles.append(name)
            elif name in styles:
                styles.remove(name)
                back += _RAISED.get(name, 0.0)
            continue
        words = letters(unescape(part))
        if not runs and words.startswith(" "):
            words = f"\xa0{words[1:]}"  # SVG drops a blank at the start of a text
        if words:
            given = [_STYLES[style] for style in dict.fromkeys(styles)]
            given += [f'dy="{plain(back)}em"'] if back and not any("dy" in one for one in given) else []
            runs, back = runs + (f"<tspan {' '.join(given)}>{words}</tspan>" if given else words), 0.0
    return runs


def path(points: Sequence[tuple[float, float]], *, closed: bool = False) -> str:
    """The data of a path through these points."""
    places = "L".join(f"{plain(x)},{plain(y)}" for x, y in points)
    return f"M{places}{'Z' if closed else ''}"
