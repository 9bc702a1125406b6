"""Waiting for a store that is away for a while, said once."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from dpcl_core.cli.output import one_line, say
from dpcl_core.errors import StoreLocked, StoreTrouble, StoreUnknown, StoreUnusable
from dpcl_core.runs import database
from dpcl_core.runs.patience import Patience
from dpcl_core.runs.store import Store

T = TypeVar("T")


def opened(url: str | None) -> Store:
    """The store, once it can be opened; of one that `--store` names a mistyped path makes none.

    Raises StoreTrouble at once where no waiting helps.
    """
    database.check_there(url)
    return _outlasted(lambda: Store(url), StoreTrouble)


def unlocked(act: Callable[[], T]) -> T:
    """The result of `act`, which is called again while another program keeps the store locked.

    Any other trouble is raised at once: it may have come after what was written, and would then be written twice.
    """
    return _outlasted(act, StoreLocked)


def _outlasted(act: Callable[[], T], passing: type[StoreTrouble]) -> T:
    """The result of `act`, once troubles of this kind have passed."""
    is_said = False

    def tried() -> tuple[T] | StoreTrouble:
        nonlocal is_said
        try:
            return (act(),)
        except (StoreUnknown, StoreUnusable) as lasting:
            return lasting
        except StoreTrouble as trouble:
            if not isinstance(trouble, passing):
                return trouble
            if not is_said:
                say(f"waiting for the store: {one_line(trouble)}")
            is_said = True
            raise

    found = Patience().outlast(tried)
    if isinstance(found, StoreTrouble):
        raise found
    return found[0]
