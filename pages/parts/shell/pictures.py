"""Pictures that are kept for all visitors: to tell tables apart takes a fraction of the time of building a figure."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, ParamSpec, cast

import streamlit as st

from dpcl_core.figures.picture import Picture

if TYPE_CHECKING:
    import pandas as pd

P = ParamSpec("P")


def kept(build: Callable[P, Picture]) -> Callable[P, Picture]:
    """The builder of a figure, which gives the picture that it built before for tables and options of the same content."""
    return cast("Callable[P, Picture]", _kept(build))


@cache
def _kept(build: Callable[..., Picture]) -> Callable[..., Picture]:
    import pandas as pd

    return st.cache_resource(max_entries=100, show_spinner=False, hash_funcs={pd.DataFrame: content})(build)


def content(table: pd.DataFrame) -> bytes:
    """A digest of a table's column names, types and values in order; its row names do not count.

    Streamlit's own takes four times as long for the small tables of a page, and looks at a part of long ones only.
    """
    digest = hashlib.blake2b(digest_size=16)
    for name, column in table.items():
        values = column.to_numpy()
        digest.update(f"{name!r} {values.dtype} {len(values)}:".encode())
        digest.update(values.tobytes() if values.dtype.kind in "biuf" else repr(values.tolist()).encode())
    return digest.digest()
