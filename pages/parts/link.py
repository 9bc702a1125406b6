"""Links: encodes a page's settings and view state as query parameters, and decodes them without loss.

A page lists the contents of its link as `Field`s. `Codec` writes them with short keys in a fixed order, omits defaults,
keeps unknown keys, and replaces every invalid value, with a notice of the value used instead.
Pure: no streamlit.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar
from urllib.parse import urlencode

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from dpcl_core.errors import BadInput

VERSION = "1"
LARGE = "large"  # key of the presenter's size, which every page's link may have
VIEW = "view"  # key of the view that is open, of a page of several; in the session, too
MAX_LENGTH = 2000
_TRACKER = re.compile(r"fbclid|gclid|utm_\w+")  # keys that messengers and search engines add to a link
UNBOUNDED = 1e300  # a bound so far away is none
_LISTED = 8  # names that a notice lists
T = TypeVar("T")


class Kind(Protocol[T]):
    """Encodes and decodes one kind of value in a link; `read` raises ValueError for invalid text."""

    def read(self, text: str) -> T: ...

    def write(self, value: T) -> str: ...


def checked(value: T, *, is_allowed: bool) -> T:
    """The value that was read. Raises ValueError for one that is not allowed."""
    if not is_allowed:
        raise ValueError(value)
    return value


class Written:
    """A kind whose values are written as Python prints them."""

    def write(self, value: object) -> str:
        return str(value)


@dataclass(frozen=True)
class Text(Written):
    """A short text."""

    max_length: int = 100

    def read(self, text: str) -> str:
        return checked(text, is_allowed=len(text) <= self.max_length)


@dataclass(frozen=True)
class Choice(Written):
    """One of a list of names."""

    options: tuple[str, ...]

    def read(self, text: str) -> str:
        return checked(text, is_allowed=text in self.options)


@dataclass(frozen=True)
class Flag:
    """Yes or no, as 1 or 0."""

    def read(self, text: str) -> bool:
        return checked(text == "1", is_allowed=text in ("0", "1"))

    def write(self, value: bool) -> str:
        return "1" if value else "0"


@dataclass(frozen=True)
class Whole(Written):
    """A whole number between two bounds, both allowed."""

    low: int
    high: int

    def read(self, text: str) -> int:
        is_plain = text.lstrip("-").isdecimal() and text.isascii()  # no blanks, underscores or other digits
        return checked(int(text), is_allowed=is_plain and self.low <= int(text) <= self.high)


@dataclass(frozen=True)
class Number:
    """A number between two bounds, both allowed; "inf" where the upper bound is infinite."""

    low: float
    high: float

    def read(self, text: str) -> float:
        value = math.inf if text in ("inf", "∞") else float(text)
        return checked(value, is_allowed=self.low <= value <= self.high)  # refuses NaN, too

    def write(self, value: float) -> str:
        return "inf" if math.isinf(value) else f"{value!r}".removesuffix(".0")


BUDGET = Number(low=5e-324, high=math.inf)  # any epsilon above 0, infinity included


@dataclass(frozen=True)
class Many(Generic[T]):
    """Several values of one kind in order, none of them empty, separated by commas."""

    kind: Kind[T]
    max_items: int = 32

    def read(self, text: str) -> tuple[T, ...]:
        parts = text.split(",") if text else []
        checked(text, is_allowed=len(parts) <= self.max_items and all(parts))
        return tuple(self.kind.read(part.replace("%2C", ",").replace("%25", "%")) for part in parts)

    def write(self, value: Sequence[T]) -> str:
        return ",".join(self.kind.write(item).replace("%", "%25").replace(",", "%2C") for item in value)


@dataclass(frozen=True)
class Maybe(Generic[T]):
    """A value or nothing; nothing is written as "-"."""

    kind: Kind[T]

    def read(self, text: str) -> T | None:
        return None if text == "-" else self.kind.read(text)

    def write(self, value: T | None) -> str:
        return "-" if value is None else self.kind.write(value)


def allowed(kind: object) -> str:
    """What a kind allows, in words; empty for a kind of a page's own."""
    match kind:
        case Text(length):
            return f"a text of at most {length} characters"
        case Choice(options):
            others = f" and {len(options) - _LISTED} others" if len(options) > _LISTED else ""
            return f"one of {', '.join(options[:_LISTED])}{others}"
        case Flag():
            return "0 or 1"
        case Whole(low, high):
            return f"a whole number from {low:,} to {high:,}"
        case Number(BUDGET.low, high):
            return "a number above 0" + (", or inf" if math.isinf(high) else f", at most {high:g}")
        case Number(low, high) if max(-low, high) < UNBOUNDED:
            return f"a number from {low:g} to {high:g}"
        case Number(low, high):
            least = f" of at least {low:g}" if -low < UNBOUNDED else ""
            return f"a number{least}" + (f" of at most {high:g}" if high < UNBOUNDED else "")
        case Many(each, most):
            return f"at most {most} values between commas, each {words}" if (words := allowed(each)) else ""
        case Maybe(one):
            return allowed(one)
    return ""


@dataclass(frozen=True)
class Field(Generic[T]):
    """One field of a link: its name in code, its short key, its title for readers, and its default.

    `word`: a second key for links typed by hand, read where the short key is missing, never written. `always`: it is written
    with its default, too. `invalid`: what takes the place of an invalid value, and what the notice says of it (None: the
    default, by its text).
    """

    name: str
    key: str
    title: str
    kind: Kind[T]
    default: T
    word: str = ""
    always: bool = False
    invalid: tuple[T, str] | None = None

    def instead(self) -> tuple[T, str]:
        """What takes the place of an invalid value, and what a notice says of it."""
        said = "" if self.default is None else self.kind.write(self.default).replace("inf", "∞")
        return self.invalid or (self.default, f"using {said} instead" if said else "that is left out")


@dataclass(frozen=True)
class Read:
    """A decoded link: a value for every field, the unknown keys (kept), and a notice for each value not used."""

    values: Mapping[str, object]
    unknown: Mapping[str, str]
    notices: tuple[str, ...]


class Codec:
    """Writes and reads the links of one page."""

    def __init__(self, *fields: Field[Any]) -> None:
        self.fields = fields
        keys = ["v", LARGE, *(key for field in self.fields for key in (field.key, field.word) if key)]
        self._keys = {*keys}
        if len(self._keys) != len(keys):
            raise ValueError(f"two fields share a link key: {keys}")

    def write(self, values: Mapping[str, object], unknown: Mapping[str, str] | None = None) -> dict[str, str]:
        """Query parameters of a view: the version, what is not a default in field order, then unknown keys by name.

        Unknown keys are dropped if the link would exceed 2,000 characters; raises BadInput if it is too long without them.
        """
        known = {"v": VERSION} | {
            field.key: field.kind.write(values[field.name])
            for field in self.fields
            if field.name in values and (field.always or values[field.name] != field.default)
        }
        others = {key: text for key, text in sorted((unknown or {}).items()) if key not in self._keys}
        for parameters in (known | others, known):
            if (length := len(urlencode(parameters))) <= MAX_LENGTH:
                return parameters
        raise BadInput("link", f"{length} characters", f"must have at most {MAX_LENGTH}")

    def read(self, parameters: Mapping[str, str]) -> Read:
        """Decodes a link; an invalid value becomes its default and adds a notice."""
        values: dict[str, object] = {}
        notices: list[str] = []
        version = parameters.get("v", VERSION)
        if version != VERSION:
            notices.append(f"The link has version {_short(version)}; this app reads version {VERSION} and uses what it can.")
        for field in self.fields:
            values[field.name] = field.default
            if (raw := parameters.get(field.key, parameters.get(field.word))) is not None:
                try:
                    values[field.name] = field.kind.read(raw)
                except (ValueError, OverflowError):
                    values[field.name], instead = field.instead()
                    must = f": must be {words}" if (words := allowed(field.kind)) else ""
                    notices.append(f"The link asks for {field.title} = {_short(raw) or 'nothing'}{must}; {instead}.")
        if unknown := {key: text for key, text in parameters.items() if key not in self._keys}:
            names = ", ".join(_short(key) for key in sorted(unknown))
            notices.append(f"The link also has {names}, unknown to this page: kept in the link, not used.")
        return Read(values, unknown, tuple(notices))


def without_trackers(parameters: Mapping[str, str]) -> dict[str, str]:
    """The parameters of a link without those that messengers and search engines add: no page means them."""
    return {key: text for key, text in parameters.items() if not _TRACKER.fullmatch(key)}


def address(base: str, parameters: Mapping[str, str]) -> str:
    """The full link: `base` without its own query, and the parameters in their order."""
    return f"{base.partition('?')[0]}?{urlencode(parameters)}"


def _short(text: str) -> str:
    return text if len(text) <= 40 else text[:37] + "..."


# The address bar: the parameters of the visited page's view, beside them the presenter's size, and links to the view.


# Session keys: the page's own view, known only when all of its controls are drawn, and the places of links that await it.
_OWN, _PLACES = "own-view-of-page", "links-to-this-view"


def parameters() -> dict[str, str]:
    """The parameters of the page's own view."""
    beside = {LARGE, VIEW} if VIEW in st.session_state else {LARGE}
    return {key: text for key, text in without_trackers(st.query_params.to_dict()).items() if key not in beside}


def open_view() -> dict[str, str]:
    """The parameter of the page's open view; empty on a page that has one alone."""
    return {VIEW: str(st.session_state[VIEW])} if VIEW in st.session_state else {}


def put(settings: Mapping[str, str]) -> None:
    """Writes the settings of the open view to the address bar and leaves the presenter's size as it is there."""
    size = {LARGE: st.query_params[LARGE]} if LARGE in st.query_params else {}
    st.query_params.from_dict({**open_view(), **settings, **size})


def restore() -> None:
    """Writes the address of what was drawn last, where a browser has sent an older one."""
    st.query_params.from_dict(st.session_state.get(_OWN) or open_view())


def begin() -> None:
    """Starts a page: its view is not known yet."""
    st.session_state[_OWN], st.session_state[_PLACES] = None, []


def settle() -> None:
    """Writes all links that the page has drawn so far: the address bar has its view now."""
    view = st.session_state[_OWN] = without_trackers(st.query_params.to_dict())
    for place in st.session_state.setdefault(_PLACES, []):
        _write(place, view)


def offer(source: str) -> None:
    """Draws the button that shows the link to this view, and what is shown there."""
    with st.popover("link", type="tertiary"):
        st.caption(source)
        draw()


def draw() -> None:
    """Draws the link to this view, at once or as soon as the page knows its view."""
    place, view = st.empty(), st.session_state.get(_OWN)
    if view is None:
        st.session_state.setdefault(_PLACES, []).append(place)
    else:
        _write(place, view)


def _write(place: DeltaGenerator, view: Mapping[str, str]) -> None:
    place.code(address(st.context.url or "", view), language=None, wrap_lines=True)
