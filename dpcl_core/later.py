"""Modules that take long to load, imported when something of them is first used: a card, and most pages, need none of it."""

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

__all__ = ["Late", "pd", "torch"]


class Late(ModuleType):
    """A module that is loaded when something of it is first used."""

    def __getattr__(self, name: str) -> object:
        return getattr(import_module(self.__name__), name)


if TYPE_CHECKING:
    import pandas as pd
    import torch
else:
    pd, torch = map(Late, ("pandas", "torch"))
