"""The style sheet for cards, bars and narrow screens, which Streamlit's configuration cannot express, and the script that
answers a press. A page's document has both, so that they come before any message and only once.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

import streamlit as st

from dpcl_core.elements import element
from dpcl_core.errors import BadInput
from dpcl_core.figures.picture import capital as capital
from dpcl_core.paths import asset_table, assets_dir

WORDS: Final[Mapping[str, Mapping[str, str]]] = asset_table("pages.toml")  # texts of several sentences, by module


@dataclass(frozen=True)
class _Markup:
    """Markup to insert as it is. A string Streamlit would take for the name of a file first, and search for indentation."""

    text: str

    def _repr_html_(self) -> str:
        return self.text


@cache
def in_document() -> str:
    """What every document has at the start of its body: the style sheets, and the script that answers Start and Stop."""
    return f"{_sheets().text}<script>{element.in_html(_read('acknowledge.js'))}</script>"


def apply() -> None:
    """Inserts the style sheets where the document is the framework's own, as at an address that no page has."""
    st.html(_sheets())


@cache
def _sheets() -> _Markup:
    return _Markup(f"<style>{element.theme()}{_read('style.css')}</style>")


def _read(name: str) -> str:
    return Path(__file__).with_name(name).read_text(encoding="utf-8")


def is_dark() -> bool:
    """Whether the dark theme is active (False until the browser reports its theme)."""
    return st.context.theme.type == "dark"


# A button with the BibTeX of this project and of its sources.


def button() -> None:
    """Draws the button, which shows the entries for copying or download."""
    with st.popover("BibTeX", help="How to cite this project and the four papers"):
        entries = (assets_dir() / "citations.bib").read_text(encoding="utf-8")
        st.code(entries, language=None, wrap_lines=True)
        st.download_button("Download", lambda: entries, "dpcl.bib", "text/x-bibtex", key="bibtex-file", on_click="ignore")


# Text for pages: percentages, capitals, labels in refusals, and escaping: no name is ever a link, a formula or an image.


_MARKUP = re.compile(r"([\\`*_{}\[\]()<>#+!|$~:&-])")


def percent(share: float, digits: int = 1) -> str:
    """A share as a percentage with `digits` decimals."""
    return f"{100 * share:.{digits}f}\N{NO-BREAK SPACE}%"


def labelled(refused: BadInput, labels: Mapping[str, str]) -> str:
    """The sentence of a refusal with the label that its field has on the page, by its name in code, where it has one."""
    return labels.get(refused.field, refused.field) + str(refused).removeprefix(refused.field)


def plain(text: str) -> str:
    """The text on one line, with all Markdown markup escaped."""
    return _MARKUP.sub(r"\\\1", " ".join(text.split()))
