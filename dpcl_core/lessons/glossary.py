"""The field's words as this project uses them, read from `assets/glossary.toml`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache, lru_cache
from typing import Annotated

from pydantic import Field

from dpcl_core import paths
from dpcl_core.documents import Document

_Words = Annotated[str, Field(min_length=1)]


class Word(Document):
    """One word and its meaning in one or two sentences. `also`: other forms that it has in texts."""

    word: _Words
    meaning: _Words
    also: tuple[_Words, ...] = ()

    @property
    def forms(self) -> tuple[str, ...]:
        """The word and all its other forms."""
        return (self.word, *self.also)


@lru_cache(maxsize=1)
def words() -> tuple[Word, ...]:
    """The glossary in its own order."""
    return tuple(map(Word.model_validate, paths.asset_table("glossary.toml")["words"]))


@lru_cache(maxsize=512)
def explained(text: str) -> str:
    """The glossary's words that occur in a short text, with their meanings, as Markdown; empty where there is none."""
    occurring = [word for word in words() if _pattern(word).search(text)]
    return "\n\n".join(f"**{word.word}**: {word.meaning}" for word in occurring)


def first_uses(text: str, seen: set[Word]) -> Iterator[tuple[int, int, Word]]:
    """Start, end and word where a word that is not in `seen` first occurs in a text, in the text's order; grows `seen`."""
    found = [(match.span(), word) for word in words() if word not in seen and (match := _pattern(word).search(text))]
    done = 0
    for (start, end), word in sorted(found, key=lambda use: (use[0][0], -use[0][1])):
        if start >= done:  # a word within a longer one waits for its next use
            seen.add(word)
            done = end
            yield start, end, word


@cache
def _pattern(word: Word) -> re.Pattern[str]:
    """A pattern for whole words; abbreviations in capitals, such as AA, match only in capitals."""
    forms = (re.escape(form) if form.isupper() else f"(?i:{re.escape(form)})" for form in word.forms)
    return re.compile(rf"(?<!\w)(?:{'|'.join(forms)})(?!\w)")
