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
from pages.parts.training import label_form

_WORD: Final = re.compile(r"'([\w-]+)'|([\w-]+)")  # a name, in a list of options between quotes
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


def in_words(refused: BadInput) -> str:
    """The refusal's sentence as the form speaks: its field's label, and options by their titles."""
    if refused.field not in _FIELDS:
        return str(refused)
    label, options = _FIELDS[refused.field]
    titles = {**{name: card.title for name, card in methods.CARDS.items() if "-" in name}, **options()}
    value = str(refused).removeprefix(f"{refused.field} = ").partition(f": {refused.allowed}")[0]
    listed = _WORD.sub(lambda word: _titled(word[1] or word[2], titles), refused.allowed)
    return f"{label} = {_titled(value, titles)}: {listed}"


def _titled(name: str, titles: Mapping[str, str]) -> str:
    return f"“{titles[name]}”" if name in titles else name
