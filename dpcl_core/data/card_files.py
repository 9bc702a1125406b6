"""Cards that are data, not code: the tables of a TOML file in `assets/cards/`, one a card. Errors name file and key."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from typing import TypeVar

from pydantic import TypeAdapter, ValidationError

from dpcl_core import paths
from dpcl_core.errors import BadInput, first_of

Table = Mapping[str, object]
_Card = TypeVar("_Card")


def tables(file: str) -> dict[str, Table]:
    """The tables of a file by name, in its order. A table that is `like` another inherits its keys.

    Raises BadInput naming the file, and the table where it is one.
    """
    try:
        written = tomllib.loads((paths.assets_dir() / "cards" / file).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise BadInput(file, type(error).__name__, f"must be a TOML file: {error}") from error
    full: dict[str, Table] = {}
    for name, table in written.items():
        if not isinstance(table, dict):
            raise BadInput(f"{file}: {name}", table, f"must be a table, such as [{name}]")
        other = table.pop("like", None)
        if other is not None and str(other) not in full:
            raise BadInput(f"{file}: {name}.like", other, "must be the name of a table above this one")
        full[name] = {**full.get(str(other), {}), **table}
    return full


def checked(form: TypeAdapter[_Card], file: str, name: str, table: Table) -> _Card:
    """A table as an instance of its type. Raises BadInput naming file, table, key and what is allowed."""
    try:
        return form.validate_python(table)
    except ValidationError as error:
        raise first_of(error, f"{file}: {name}") from error
