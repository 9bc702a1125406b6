"""What tests of many rooms assert: that something includes texts or not, the first that fails named; what a refusal is.

And what a command prints that has to end well.
"""

import json
from collections.abc import Callable, Container, Iterable
from typing import Any, NoReturn

import pytest

from dpcl_core import cli
from dpcl_core.errors import BadInput


def includes(said: Container[object], *wanted: object) -> None:
    """Asserts that each of these is in it."""
    for one in wanted:
        assert one in said, f"{one!r} is missing"


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """What a command prints that has to end well."""
    assert cli.main(words) == 0
    return capsys.readouterr().out


def complaint(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """What a command says that has to be refused."""
    assert cli.main(words) == 2
    return capsys.readouterr().err


def document_of(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    """The one JSON document that a command prints that has to end well."""
    return json.loads(printed(capsys, *words, "--json"))


def refusal_of(act: Callable[..., object], *given: Any, **named: Any) -> BadInput:
    """The refusal of what must be refused."""
    with pytest.raises(BadInput) as caught:
        act(*given, **named)
    return caught.value


def refuses(said: str, act: Callable[..., object], *given: Any, error: type[Exception] = BadInput, **named: Any) -> None:
    """Asserts that this is refused, in words that match; no words: in any."""
    with pytest.raises(error, match=said or None):
        act(*given, **named)


def raising(error: BaseException | type[BaseException]) -> Callable[..., NoReturn]:
    """What raises this, whatever it is given."""

    def act(*_: object, **__: object) -> NoReturn:
        raise error

    return act


def in_turn(errors: Iterable[BaseException | None], act: Callable[..., Any]) -> Callable[..., Any]:
    """What raises one of these at each call, or nothing where it is None, and then always does its work."""
    left = iter(errors)

    def acting(*given: Any, **named: Any) -> Any:
        if (error := next(left, None)) is not None:
            raise error
        return act(*given, **named)

    return acting


def excludes(said: Container[object], *others: object) -> None:
    """Asserts that none of these is in it."""
    for one in others:
        assert one not in said, f"{one!r} is there"
