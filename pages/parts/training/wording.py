"""A refusal of the form in the words of its fields: the message itself names settings as files and commands do."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from dpcl_core.backbones import catalog as backbones
from dpcl_core.data import catalog as datasets
from dpcl_core.errors import BadInput
from dpcl_core.methods import catalog as methods
from dpcl_core.scenarios import catalog as scenarios
from pages.parts.shell import fields
from pages.parts.training import label_form, settings_form

# A name, in a list of options between quotes; no part of a path, of a file's name or of own:NAME.
_WORD: Final = re.compile(r"'([\w-]+)'|(?<![\w/\\.:-])([\w-]+)(?![\w/\\-]|\.\w)")
_KEY: Final = re.compile(r"\b(?:params|scenario|data|privacy)\.\w+")  # another setting, as files and commands name it
# By setting: the field's label, and its options by name.
_FIELDS: Final[Mapping[str, tuple[str, Callable[[], Mapping[str, str]]]]] = {
    "method": ("Method", lambda: {name: card.title for name, card in methods.CARDS.items()}),
    "data.dataset": ("Dataset", lambda: {name: card.title for name, card in datasets.CARDS.items()}),
    "data.backbone": ("Network for the features", lambda: {name: card.title for name, card in backbones.CARDS.items()}),
    "scenario.kind": ("Stream", lambda: {name: card.title for name, card in scenarios.CARDS.items()}),
    "labels": ("Label list", lambda: {name: title for name, (title, _) in label_form.LABELS.items()}),
    "privacy.epsilons": ("Privacy budget ε", dict),
    "privacy.delta": ("δ", dict),
    "seeds": ("Seeds", dict),
}


def in_words(refused: BadInput, values: Mapping[str, object] | None = None) -> str:
    """The refusal's sentence as the form speaks: its field's label, and options by their titles.

    `values`: of the form, whose method and stream have fields of their own; None outside it.
    """
    label = _label(refused.field, values)
    if label == refused.field:
        return str(refused)
    titles = {name: card.title for name, card in methods.CARDS.items() if "-" in name}
    if refused.field in _FIELDS:
        titles |= _FIELDS[refused.field][1]()
    setting = _setting(refused.field, values)
    options = {} if setting is None else {name: fields.option_title(name) for name in setting.options}  # read as words, too
    value = str(refused).removeprefix(f"{refused.field} = ").partition(f": {refused.allowed}")[0]
    listed = _WORD.sub(lambda word: _titled(word[2] or word[1], titles if word[2] else titles | options), refused.allowed)
    said = _KEY.sub(lambda key: _label(key[0], values), listed)
    return f"{label} = {_titled(value, titles | options)}: {said}"


def _setting(key: str, values: Mapping[str, object] | None) -> fields.Setting | None:
    return None if values is None else settings_form.setting_of(key, values)


def _label(key: str, values: Mapping[str, object] | None) -> str:
    """The label of a setting's field on the form with these values; the key itself where it has none."""
    if key in _FIELDS:
        return _FIELDS[key][0]
    setting = _setting(key, values)
    return key if setting is None else setting.title


def _titled(name: str, titles: Mapping[str, str]) -> str:
    return f"“{titles[name]}”" if name in titles else name
