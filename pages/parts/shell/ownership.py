"""Whose data are whose. On a server that others reach, each browser sees its own data and those of the computer."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

import streamlit as st

from dpcl_core.data import own
from dpcl_core.errors import BadInput
from dpcl_core.runs import visitors
from pages.parts.shell import visitor

if TYPE_CHECKING:
    from collections.abc import Iterable

WHERE: Final = "The file goes no further than the computer that serves this page."
_HERE: Final = ("localhost", "127.0.0.1", "::1")


def is_shared() -> bool:
    """Whether other computers reach this server."""
    return visitors.VARIABLE in os.environ or st.get_option("server.address") not in _HERE


def is_mine(name: str) -> bool:
    """Whether this visitor may use a dataset, and see the runs on it: public data, the computer's, and the visitor's own."""
    return not name.startswith("own:") or not is_shared() or own.owner(name) in ("", visitor.digest())


def may_delete(name: str) -> bool:
    """Whether this visitor may delete data: on a server that others reach, the visitor's own and not the computer's."""
    return not is_shared() or own.owner(name) == visitor.digest()


def check(name: str) -> None:
    """Raises BadInput for data of another visitor, who has a link or guesses a name; the same where there are none."""
    if not is_mine(name):
        raise BadInput("data.dataset", name, "is none of your data on this server: choose others, or bring your own")


def mine(names: Iterable[str]) -> list[str]:
    """Those of the datasets that this visitor may use."""
    return [name for name in names if is_mine(name)]
