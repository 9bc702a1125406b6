"""Text without secrets: the one place that decides what is a secret and takes it out of messages, logs and pages."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from urllib.parse import unquote

MASK = "***"
_PASSWORD = re.compile(r"(://[^:/@\s]*:).*(?:@|%40)")  # up to the last @: a password may contain one
_NAMES_A_SECRET = "pass|secret|key|token"
_PARAMETER = re.compile(rf"(?i)([?&;][^=&;\s]*(?:{_NAMES_A_SECRET})[^=&;\s]*=)[^&;\s]*")  # of an address, behind the name
_VARIABLE = re.compile(f"(?i){_NAMES_A_SECRET}|password")
_STORE = "DPCL_STORE"
_SHORTEST = 8  # of a variable's value: a shorter one is no secret worth the name, and may be a word of any text


def masked(text: str) -> str:
    """The text without passwords in addresses, parameters that are called secret, and this process's own secrets."""
    for secret in _own():
        text = text.replace(secret, MASK)
    return _PARAMETER.sub(rf"\1{MASK}", _PASSWORD.sub(rf"\1{MASK}@", text))


def is_secret(parameter: str) -> bool:
    """Whether a parameter of an address has a secret for its value, by its name."""
    return _PARAMETER.match(f"?{parameter}=") is not None


def _own() -> Iterator[str]:
    """The password of the store and the values of environment variables that are called secret, longest first."""
    found = {value for name, value in os.environ.items() if _VARIABLE.search(name) and len(value) >= _SHORTEST}
    if address := re.search(r"://[^:/@\s]*:(.*)@", os.environ.get(_STORE, "")):
        found |= {address[1], unquote(address[1])}
    yield from sorted(filter(None, found), key=len, reverse=True)
