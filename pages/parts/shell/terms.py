"""Texts whose words of the glossary are explained on hover and on keyboard focus, each where a page first uses it."""

from __future__ import annotations

import re
from html import escape

import streamlit as st

from dpcl_core.lessons import glossary

_SEEN = "explained-words"  # session key: words that the page has explained in this run
_KEPT = re.compile(r"`[^`]*`|\$[^$]*\$|!?\[[^\]]*\]\([^)]*\)|<[^>]*>")  # code, formulas, links, tags


def begin() -> None:
    """Starts a page: no word is explained yet."""
    st.session_state[_SEEN] = set()


def markdown(text: str) -> None:
    """Draws the project's own Markdown with its words explained. Never for text of a visitor: tags in it are drawn."""
    st.markdown(marked(text, st.session_state.setdefault(_SEEN, set())), unsafe_allow_html=True)


def marked(text: str, seen: set[glossary.Word]) -> str:
    """The Markdown with tags around the first use of every word that is not in `seen`; grows `seen`."""
    parts, done = [], 0
    for kept in _KEPT.finditer(text):
        parts += [_prose(text[done : kept.start()], seen), kept.group()]
        done = kept.end()
    return "".join([*parts, _prose(text[done:], seen)])


def _prose(text: str, seen: set[glossary.Word]) -> str:
    parts, done = [], 0
    for start, end, word in glossary.first_uses(text, seen):
        meaning = escape(f"{word.word}: {word.meaning}")
        parts.append(f'{text[done:start]}<span class="term" role="term" tabindex="0" aria-description="{meaning}">')
        parts.append(f"{text[start:end]}</span>")
        done = end
    return "".join([*parts, text[done:]])
