"""A refusal of the form in the words of its fields: the message itself names settings as files and commands do."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from dpcl_core.errors import BadInput
from dpcl_core.methods import catalog as methods
from pages.parts.shell import fields, setting_names

# A name, in a list of options between quotes; no part of a path, of a file's name or of own:NAME.
_WORD: Final = re.compile(r"'([\w-]+)'|(?<![\w/\\.:-])([\w-]+)(?![\w/\\-]|\.\w)")
_KEY: Final = re.compile(r"\b(?:params|scenario|data|privacy)\.\w+")  # another setting, as files and commands name it
_READ_AS_WORDS: Final = ("privacy.adjacency", "privacy.noise", "tuned")  # whose options are names between quotes alone


def in_words(refused: BadInput, values: Mapping[str, object] | None = None) -> str:
    """The refusal's sentence as the form speaks: its field's label, and options by their titles.

    `values`: of the form, whose method and stream have fields of their own; None outside it.
    """
    key = refused.field
    label = _label(key, values)
    if label == key:
        return str(refused)
    method, scenario = _form(values) or ("", "")
    titles = {name: card.title for name, card in methods.CARDS.items() if "-" in name}
    options = dict(setting_names.options(key, scenario))
    if key not in _READ_AS_WORDS:
        titles, options = titles | options, {}
    setting = setting_names.setting_of(key, method, scenario) if values is not None else None
    options |= {} if setting is None else {name: fields.option_title(name) for name in setting.options}  # read as words, too
    value = str(refused).removeprefix(f"{key} = ").partition(f": {refused.allowed}")[0]
    listed = _WORD.sub(lambda word: _titled(word[2] or word[1], titles if word[2] else titles | options), refused.allowed)
    said = _KEY.sub(lambda other: _label(other[0], values), listed)
    return f"{label} = {_titled(value, titles | options)}: {said}"


def _form(values: Mapping[str, object] | None) -> tuple[str, str] | None:
    """The form's method and stream."""
    return None if values is None else (str(values["method"]), str(values["scenario"]))


def _label(key: str, values: Mapping[str, object] | None) -> str:
    form = _form(values)
    return setting_names.TITLES.get(key, key) if form is None else setting_names.title(key, *form)


def _titled(name: str, titles: Mapping[str, str]) -> str:
    return f"“{titles[name]}”" if name in titles else name
