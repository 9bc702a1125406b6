"""What tests of many rooms assert: that something includes texts or not, the first that fails named; what a refusal is.

And what a command prints that has to end well.
"""

import json
import re
from collections.abc import Callable, Container, Iterable
from typing import Any, NoReturn

import pytest

from dpcl_core import cli
from dpcl_core.errors import BadInput, StoreTrouble


def includes(said: Container[object], *wanted: object) -> None:
    """Asserts that each of these is in it."""
    for one in wanted:
        assert one in said, f"{one!r} is missing"


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """What a command prints that has to end well."""
    assert cli.main(words) == 0
    return capsys.readouterr().out


def called(*words: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    """How a command ends, and what it says on standard output and standard error."""
    return (cli.main(words), *capsys.readouterr())


def complaint(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """What a command says that has to be refused: one line, after those that it says while it waits."""
    status, out, err = called(*words, capsys=capsys)
    assert (status, out) == (2, ""), err
    assert len([line for line in err.splitlines() if not line.startswith("waiting for ")]) == 1, err
    return err


def document_of(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    """The one JSON document that a command prints that has to end well."""
    return json.loads(printed(capsys, *words, "--json"))


def refusal_of(act: Callable[..., object], *given: Any, error: type[Exception] = BadInput, **named: Any) -> Any:
    """The error with which this must be refused. What a user is told stands in one line."""
    with pytest.raises(error) as caught:
        act(*given, **named)
    assert "\n" not in str(caught.value) or not isinstance(caught.value, BadInput | StoreTrouble)
    return caught.value


def refuses(said: str, act: Callable[..., object], *given: Any, error: type[Exception] = BadInput, **named: Any) -> None:
    """Asserts that this is refused, in words that match."""
    refusal = str(refusal_of(act, *given, error=error, **named))
    assert re.search(said, refusal), refusal


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
