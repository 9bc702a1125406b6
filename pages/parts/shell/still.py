"""Parts of a page that no visitor changes: the messages that drew them once are kept, and sent again to everybody."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import ParamSpec, cast

import streamlit as st

P = ParamSpec("P")


def still(draw: Callable[P, None]) -> Callable[P, None]:
    """Makes the drawing of a part send, for arguments that it had before, what it sent then. No widget may be in it.

    What it shows must follow from its arguments alone, never from the session or the theme. An argument whose name starts
    with an underscore must follow from the others; it is not compared.
    """
    return cast("Callable[P, None]", _kept(draw))


@cache
def _kept(draw: Callable[..., None]) -> Callable[..., None]:
    return st.cache_resource(max_entries=100, show_spinner=False)(draw)
