"""A name is never markup."""

from __future__ import annotations

import pytest

from pages.parts.text import plain


@pytest.mark.parametrize("text", ["![x](http://e.org/x.png)", "[a](b)", "$x^2$", "<img src=x>", ":red[a]", "# a", "`a`"])
def test_markup_is_escaped(text: str) -> None:
    escaped = plain(text)
    assert escaped.replace("\\", "") == text
    for sign in "[](<$`:#!":
        assert f"\\{sign}" in escaped or sign not in text


def test_one_line() -> None:
    assert plain("a\n# b") == "a \\# b"
