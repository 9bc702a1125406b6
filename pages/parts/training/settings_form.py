"""The fields of the settings that a method or a stream has of its own, from its card: in the form and in a link."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import cast

import streamlit as st

from dpcl_core.lessons import glossary
from dpcl_core.methods import catalog as methods
from pages.parts.shell import fields, layout, link, setting_names
from pages.parts.shell.text import plain
from pages.parts.shell.view import View

Values = dict[str, object]


def link_field(prefix: str, setting: fields.Setting) -> link.Field[object]:
    """The link field of a card's setting: `s.` for the scenario, `p.` for the method."""
    name = f"{prefix}.{setting.name}"
    return link.Field(name, name, setting.title, setting.kind(), _plain(setting.default))


@dataclass(frozen=True)
class _OfCard:
    """The settings of the chosen method or stream as the form last drew them.

    `filled`: what this view fills them in with, `starts`: the same with what the visitor changed before choosing it.
    """

    name: str
    settings: tuple[fields.Setting, ...]
    filled: Values
    starts: Values
    values: Values


def draw_scenario(view: View, scenario: str) -> Values:
    """Draws the settings of a stream."""
    settings = setting_names.of_scenario(scenario)
    filled, starts = _starts(view, "s", scenario, settings)
    values = _widgets(view, "s", scenario, settings, starts)
    st.session_state[view.key("of-s")] = _OfCard(scenario, settings, filled, starts, values)
    return values


def draw_method(view: View, method: str) -> Values:
    """Draws the settings that matter most of a method, the others folded away."""
    settings = setting_names.of_method(method)
    filled, starts = _starts(view, "p", method, settings)
    front = methods.CARDS[method].matters or tuple(one.name for one in settings)
    values = _widgets(view, "p", method, [one for name in front for one in settings if one.name == name], starts)
    rest = [one for one in settings if one.name not in front]
    if rest:
        box = layout.folded("Advanced: the method's other settings", view.key("advanced"))
        if box is None:
            values |= {name: starts[name] for name in (f"p.{one.name}" for one in rest)}
        else:
            with box:
                values |= _widgets(view, "p", method, rest, starts)
    st.session_state[view.key("of-p")] = _OfCard(method, settings, filled, starts, values)
    return values


def _starts(view: View, prefix: str, name: str, settings: Sequence[fields.Setting]) -> tuple[Values, Values]:
    """What the view fills in the settings of a method ("p") or stream ("s") with, and what their widgets start from.

    The view's values belong to the method that it names; any other begins with its own defaults. What the visitor has
    changed under the one before goes along where this one has the same setting and allows the value.
    """
    before = cast("_OfCard | None", st.session_state.get(view.key(f"of-{prefix}")))
    if before is not None and before.name == name:
        return before.filled, before.starts
    is_named = view["method" if prefix == "p" else "scenario"] == name
    filled: Values = {}
    for one in settings:
        filled[f"{prefix}.{one.name}"] = view[f"{prefix}.{one.name}"] if is_named else _plain(one.default)
    if before is None:
        return filled, filled
    sorts = {one.name: one.sort for one in before.settings}
    changed = {key: value for key, value in before.values.items() if value != before.filled[key]}
    shared = {f"{prefix}.{one.name}": one for one in settings if sorts.get(one.name) == one.sort}
    carried = {key: changed[key] for key, one in shared.items() if key in changed and _allows(one, changed[key])}
    return filled, filled | carried


def _allows(setting: fields.Setting, value: object) -> bool:
    """Whether a value of this sort may stand in a link, and so in the form."""
    if value is None:
        return setting.is_optional
    with suppress(ValueError):
        setting.kind().read(setting.kind().write(value))
        return True
    return False


def _widgets(view: View, prefix: str, owner: str, settings: Sequence[fields.Setting], starts: Values) -> Values:
    """Draws a widget for every setting of a card. `owner`: whose card, since equal names of others are other settings."""
    values: Values = {}
    for pair in range(0, len(settings), 2):
        with st.container(horizontal=True, gap="small"):
            for setting in settings[pair : pair + 2]:
                name = f"{prefix}.{setting.name}"
                values[name] = _widget(setting, starts[name], view.key(f"{owner}-{name}"))
    return values


def _widget(setting: fields.Setting, start: object, key: str) -> object:
    title = setting.title
    text = "\n\n".join(filter(None, (setting.help, glossary.explained(title))))
    if setting.sort == "whole":
        low, high = (None if bound is None else int(bound) for bound in (setting.low, setting.high))
        whole = cast("int | None", start)
        return st.number_input(title, low, high, whole, step=1, key=key, help=text, placeholder="auto")
    if setting.sort == "number":
        least, most = (None if bound is None else float(bound) for bound in (setting.low, setting.high))
        number = None if start is None else float(cast(float, start))
        return st.number_input(title, least, most, number, key=key, help=text, format="%g", placeholder="auto")
    if setting.sort == "flag":
        return st.checkbox(title, bool(start), key=key, help=text)
    if setting.sort == "choice":
        options = list(setting.options)
        place = options.index(str(start))
        return st.selectbox(title, options, place, format_func=fields.option_title, key=key, help=text)
    if setting.sort == "texts":
        names = ", ".join(cast("tuple[str, ...]", start or ()))
        typed = st.text_input(title, names, key=key, help=f"{text} Separated by commas.", max_chars=300)
        return tuple(filter(None, map(str.strip, typed.split(",")))) or (None if setting.is_optional else ())
    if setting.sort == "wholes":
        numbers = " ".join(map(str, cast("tuple[int, ...]", start or ())))
        typed = st.text_input(title, numbers, key=key, help=f"{text} Separated by spaces.", max_chars=1000)
        return _wholes(typed, title) or (None if setting.is_optional else ())
    return st.text_input(title, str(start or ""), key=key, help=text, max_chars=100) or None


def _wholes(typed: str, title: str) -> tuple[int, ...]:
    """The typed whole numbers; warns about invalid parts and leaves them out."""
    numbers = []
    for part in typed.replace(",", " ").split():
        try:
            numbers.append(int(part))
        except ValueError:
            st.warning(f"{title} = {plain(part[:40])}: must be whole numbers; left out.")
    return tuple(numbers)


def _plain(value: object) -> object:
    return tuple(value) if isinstance(value, list) else value
