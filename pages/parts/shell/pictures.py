"""Pictures that are kept for all visitors: to tell tables apart takes a fraction of the time of building a figure."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import ParamSpec, cast

import streamlit as st

from dpcl_core.figures.picture import Picture

P = ParamSpec("P")


def kept(build: Callable[P, Picture]) -> Callable[P, Picture]:
    """The builder of a figure, which gives the picture that it built before for tables and options of the same content.

    For tables of less than 50,000 rows: of longer ones only a part is compared.
    """
    return cast("Callable[P, Picture]", _kept(build))


@cache
def _kept(build: Callable[..., Picture]) -> Callable[..., Picture]:
    return st.cache_resource(max_entries=100, show_spinner=False)(build)
