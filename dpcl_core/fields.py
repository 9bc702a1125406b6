"""Settings as forms of their fields, and checks by these forms: what a page without pydantic knows of settings.

A form is made of the settings' own types, so that nothing is written down twice. Values and refusals are those of pydantic;
a test compares the two on the whole catalogue and on settings that are made at random.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import MISSING, dataclass, field, fields, is_dataclass, replace
from decimal import Decimal
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, cast, get_args, get_origin, get_type_hints

from dpcl_core.errors import instead_of

Kind = Literal["integer", "number", "boolean", "choice", "text", "list", "row", "dictionary", "table", "any"]
_KINDS: Mapping[object, Kind] = {bool: "boolean", int: "integer", float: "number", str: "text", dict: "dictionary"}
_BOUNDS = {"le": "less than or equal to", "lt": "less than", "ge": "greater than or equal to", "gt": "greater than"}
_WHOLE = re.compile(r"\s*([+-]?\d+(?:_\d+)*)(?:\.0*)?\s*", re.ASCII)
_YES, _NO = ("1", "on", "t", "true", "y", "yes"), ("0", "off", "f", "false", "n", "no")
_WORDS = {**dict.fromkeys(_YES, True), **dict.fromkeys(_NO, False)}


class Invalid(ValueError):
    """A refused value, with the details that pydantic gives of it."""

    def __init__(
        self, kind: str, message: str, given: object, place: tuple[str, ...] = (), about: Mapping[str, object] | None = None
    ) -> None:
        super().__init__(message)
        self.kind, self.message, self.given, self.place, self.about = kind, message, given, place, about or {}

    def errors(self, include_url: bool = False) -> list[dict[str, Any]]:
        """The one refusal, as a pydantic error lists its own."""
        return [{"type": self.kind, "loc": self.place, "msg": self.message, "input": self.given, "ctx": self.about}]


def _within(name: str) -> AbstractContextManager[None]:
    """A refusal in this context is one of a field of this name."""
    return instead_of(Invalid, say=lambda of: Invalid(of.kind, of.message, of.given, (name, *of.place), of.about))


@dataclass(frozen=True)
class Form:
    """What a value must be. `of`: of a list's items, of each place of a row, of a dictionary's keys and values.

    `length`: smallest and largest number of items or characters; `before`, `after`: checks before and after the type's own.
    """

    kind: Kind
    optional: bool = False
    choices: tuple[object, ...] = ()
    bounds: Mapping[str, float] = field(default_factory=dict)
    is_finite: bool = False
    length: tuple[int, float] = (0, math.inf)
    of: tuple[Form, ...] = ()
    model: type[Any] | None = None
    before: tuple[Callable[[Any], Any], ...] = ()
    after: tuple[Callable[[Any], Any], ...] = ()

    def validate_python(self, given: object) -> Any:
        """The value as the type has it. Raises Invalid."""
        if given is None and self.optional:
            return None
        value = _asked(self.after, _made(self, _asked(self.before, given, given)), given)
        if self.kind == "text":
            _counted(value, self.length, "Value", given)
        return value


def form_of(hint: object) -> Form:
    """The form of a type, such as of a class of settings."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _limited(form_of(inner[0]), inner[1:])
    if origin in (Union, UnionType):
        (one,) = (option for option in inner if option is not NoneType)
        return replace(form_of(one), optional=True)
    if origin is Literal:
        return Form("choice", choices=inner)
    if origin is tuple:
        return Form("list", of=(form_of(inner[0]),)) if inner[-1] is ... else Form("row", of=tuple(map(form_of, inner)))
    if origin is dict:
        return Form("dictionary", of=tuple(map(form_of, inner)))
    if isinstance(hint, type) and is_dataclass(hint):
        return Form("table", model=hint)
    return Form(_KINDS.get(hint, "any"))


def _limited(form: Form, limits: Sequence[object]) -> Form:
    """The form with these limits: bounds and lengths of annotated_types, and checks."""
    for limit in limits:
        if callable(check := getattr(limit, "check", None)):
            is_first = getattr(limit, "mode", "after") == "before"
            form = replace(form, before=(*form.before, check)) if is_first else replace(form, after=(*form.after, check))
        form = _bounded(form, {name: getattr(limit, name, None) for name in (*_BOUNDS, "min_length", "max_length")})
    return form


def _bounded(form: Form, said: Mapping[str, Any]) -> Form:
    bounds = {name: said[name] for name in _BOUNDS if said.get(name) is not None}
    least, most = said.get("min_length"), said.get("max_length")
    length = form.length[0] if least is None else least, form.length[1] if most is None else most
    return replace(form, bounds={**form.bounds, **bounds}, length=length)


def of_fields(model: type[Any]) -> Mapping[str, Form]:
    """The form of each field of a dataclass, with the bounds in the field's metadata."""
    return _of_fields(cast("Any", model))


@cache
def _of_fields(model: Any) -> Mapping[str, Form]:
    hints = get_type_hints(model, include_extras=True)
    found = {one.name: (form_of(hints[one.name]), one.metadata) for one in fields(model) if one.init}
    made = {name: _bounded(form, said) for name, (form, said) in found.items()}
    return {name: replace(form, is_finite=found[name][1].get("allow_inf_nan") is False) for name, form in made.items()}


def _asked(checks: Sequence[Callable[[Any], Any]], value: Any, given: object) -> Any:
    for check in checks:
        try:
            value = check(value)
        except ValueError as error:
            raise Invalid("value_error", f"Value error, {error}", given, about={"error": error}) from error
    return value


def _made(form: Form, given: Any) -> Any:
    """The value of the form's own type, within its bounds."""
    match form.kind:
        case "table":
            return _record(form.model, given)
        case "list" | "row":
            return _items(form, given)
        case "dictionary":
            return _dictionary(form, given)
        case "any":
            return given
        case "choice":
            for one in form.choices:
                if one == given:
                    return one
            *most, last = map(repr, form.choices)
            listed = f"{', '.join(most)} or {last}" if most else last
            raise Invalid("literal_error", f"Input should be {listed}", given)
    value: Any = _BASIC[form.kind](given)
    if form.is_finite and not math.isfinite(value):
        raise Invalid("finite_number", "Input should be a finite number", given)
    for name, limit in sorted(form.bounds.items(), key=lambda one: list(_BOUNDS).index(one[0])):
        if not {"le": value <= limit, "lt": value < limit, "ge": value >= limit, "gt": value > limit}[name]:
            digits = format(Decimal(repr(limit)), "f")
            digits = digits.rstrip("0").rstrip(".") if "." in digits else digits
            raise Invalid(name, f"Input should be {_BOUNDS[name]} {digits}", given)
    return value


def _counted(value: Any, length: tuple[int, float], what: str, given: object) -> None:
    """Raises Invalid for another length than is allowed."""
    for is_wrong, words, limit, kind, name in (
        (len(value) > length[1], "at most", length[1], "too_long", "max_length"),
        (len(value) < length[0], "at least", length[0], "too_short", "min_length"),
    ):
        if is_wrong:
            said = f"{what} should have {words} {limit} item{'s' * (limit != 1)} after validation, not {len(value)}"
            raise Invalid(kind, said, given, about={name: limit})


def _record(model: Any, given: Any) -> Any:
    """A dataclass of a table; one that is made already as it is."""
    if isinstance(given, model):
        return given
    if not isinstance(given, Mapping):
        raise Invalid("dataclass_type", f"Input should be a dictionary or an instance of {model.__name__}", given)
    forms, values = of_fields(model), {}
    for one in fields(model):
        if one.name in given:
            with _within(one.name):
                values[one.name] = forms[one.name].validate_python(given[one.name])
        elif one.init and one.default is MISSING and one.default_factory is MISSING:
            raise Invalid("missing", "Field required", given, (one.name,))
    for name, value in given.items():
        if name not in forms:
            raise Invalid("unexpected_keyword_argument", "Unexpected keyword argument", value, (str(name),))
    return _asked([lambda of: model(**of)], values, given)


def _items(form: Form, given: Any) -> tuple[Any, ...]:
    if not isinstance(given, list | tuple | set | frozenset):
        raise Invalid("tuple_type", "Input should be a valid tuple", given)
    values = tuple(given)
    if form.kind == "row":
        _counted(values, (len(form.of), len(form.of)), "Tuple", given)
        return tuple(of.validate_python(one) for of, one in zip(form.of, values, strict=True))
    made, wrong = [], list[Invalid]()
    for one in values:
        try:
            made.append(form.of[0].validate_python(one))
        except Invalid as error:
            wrong.append(error)
    if not wrong or len(made) > form.length[1]:  # too many is said before what is wrong with one
        _counted(values, form.length, "Tuple", given)
    if wrong:
        raise wrong[0]
    return tuple(made)


def _dictionary(form: Form, given: Any) -> dict[Any, Any]:
    if not isinstance(given, Mapping):
        raise Invalid("dict_type", "Input should be a valid dictionary", given)
    keys, inner = form.of
    made = {}
    for key, value in given.items():
        with _within(str(key)):
            made[keys.validate_python(key)] = inner.validate_python(value)
    return made


def _text(given: Any) -> str:
    if not isinstance(given, str):
        raise Invalid("string_type", "Input should be a valid string", given)
    return given


def _integer(given: Any) -> int:
    if isinstance(given, int):
        return int(given)
    if isinstance(given, float):
        if not math.isfinite(given):
            raise Invalid("finite_number", "Input should be a finite number", given)
        if not given.is_integer():
            raise Invalid("int_from_float", "Input should be a valid integer, got a number with a fractional part", given)
        if not -(2**63) < given < 2**63:
            raise Invalid("int_parsing_size", "Unable to parse input string as an integer, exceeded maximum size", given)
        return int(given)
    if isinstance(given, str):
        if whole := _WHOLE.fullmatch(given):
            return int(whole[1])
        raise Invalid("int_parsing", "Input should be a valid integer, unable to parse string as an integer", given)
    raise Invalid("int_type", "Input should be a valid integer", given)


def _number(given: Any) -> float:
    if isinstance(given, int | float):
        return float(given)
    if isinstance(given, str):
        try:
            return float(given.encode("ascii"))
        except ValueError:  # also of other scripts' digits
            said = "Input should be a valid number, unable to parse string as a number"
            raise Invalid("float_parsing", said, given) from None
    raise Invalid("float_type", "Input should be a valid number", given)


def _boolean(given: Any) -> bool:
    if isinstance(given, str):
        if given.lower() in _WORDS:
            return _WORDS[given.lower()]
    elif isinstance(given, int) or (isinstance(given, float) and given.is_integer() and abs(given) < 2**63):
        if given in (0, 1):
            return bool(given)
    else:
        raise Invalid("bool_type", "Input should be a valid boolean", given)
    raise Invalid("bool_parsing", "Input should be a valid boolean, unable to interpret input", given)


_BASIC: Mapping[Kind, Callable[[Any], Any]] = {"integer": _integer, "number": _number, "boolean": _boolean, "text": _text}


def flat(tables: Mapping[str, object]) -> dict[str, object]:
    """Settings by the names that files and commands have for them: `privacy.delta`."""
    found: dict[str, object] = {}
    for key, value in tables.items():
        found |= {f"{key}.{name}": one for name, one in value.items()} if isinstance(value, Mapping) else {key: value}
    return found


def in_json(value: object) -> str:
    """Settings, a table, a list or a value as JSON in the very letters of pydantic: digests of settings are of these."""
    if is_dataclass(value):
        value = {one.name: getattr(value, one.name) for one in fields(value)}
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{in_json(str(key))}:{in_json(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(in_json, value)) + "]"
    if isinstance(value, float):
        if not math.isfinite(value):
            return {math.inf: '"Infinity"', -math.inf: '"-Infinity"'}.get(value, '"NaN"')
        # Where Python turns to powers of ten, the other writer has one digit more before it does.
        return format(Decimal(repr(value)), "f") if 1e-5 <= abs(value) < 1e-4 else repr(value).replace("e-0", "e-")
    return json.dumps(value, ensure_ascii=False)


def in_toml(value: object) -> str:
    """A setting as TOML: a truth value, a number, a table, a list or a text."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return "inf" if math.isinf(value) else repr(value)
    if isinstance(value, int):
        return str(value)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key} = {in_toml(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, (tuple, list)):
        return "[" + ", ".join(in_toml(inner) for inner in value) + "]"
    # A JSON string is a TOML basic string, except that TOML requires the delete character to be escaped.
    return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")
