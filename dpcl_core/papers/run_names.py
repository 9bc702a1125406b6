"""What a preset's runs are called on screen, by the labels of its file: `assets/run_names.toml`."""

from __future__ import annotations

import re
import tomllib
from functools import cache

from dpcl_core import paths

_NUMBER = r"(\d+(?:\.\d+)?)"


def run_name(label: str) -> str:
    """The words for a run's label: a known beginning with any number of known endings; the label itself if it has none."""
    beginnings, endings = _patterns()
    if (whole := _words(label, beginnings)) is not None:
        return whole
    for place in (found.start() for found in re.finditer("-", label)):  # the first that fits has the longest ending
        name, rest = run_name(label[:place]), _endings(label[place + 1 :], endings)
        if rest and name != label[:place]:
            return ", ".join(filter(None, [name, *rest]))
    return label


def _endings(text: str, patterns: _Patterns) -> list[str]:
    """The words of an ending, or of several joined by hyphens; empty where there is one that is not known."""
    if (words := _words(text, patterns)) is not None:
        return [words]
    for place in (found.start() for found in re.finditer("-", text)):
        first, rest = _words(text[:place], patterns), _endings(text[place + 1 :], patterns)
        if first is not None and rest:
            return [first, *rest]
    return []


_Patterns = tuple[tuple[re.Pattern[str], str], ...]


def _words(text: str, patterns: _Patterns) -> str | None:
    for pattern, words in patterns:
        if found := pattern.fullmatch(text):
            for number in found.groups():
                words = words.replace("#", number, 1)
            return words
    return None


@cache
def _patterns() -> tuple[_Patterns, _Patterns]:
    """Beginnings and endings, each a pattern with its words."""
    table = tomllib.loads((paths.assets_dir() / "run_names.toml").read_text(encoding="utf-8"))
    compiled = [
        tuple((re.compile(re.escape(label).replace("NUMBER", _NUMBER)), words) for label, words in table[name].items())
        for name in ("beginnings", "endings")
    ]
    return compiled[0], compiled[1]
