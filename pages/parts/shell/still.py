"""Parts of a page that stand still: a visitor changes nothing in them, so their messages are kept for all visitors."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import ParamSpec, cast

import streamlit as st

P = ParamSpec("P")


def still(draw: Callable[P, None]) -> Callable[P, None]:
    """The drawing of a part, which sends what it sent before for arguments of the same content: no widget may be in it.

    An argument whose name starts with an underscore follows from the others and is not looked at. What a part shows must
    follow from its arguments: neither from the session nor from the theme.
    """
    return cast("Callable[P, None]", _kept(draw))


@cache
def _kept(draw: Callable[..., None]) -> Callable[..., None]:
    return st.cache_resource(max_entries=100, show_spinner=False)(draw)
