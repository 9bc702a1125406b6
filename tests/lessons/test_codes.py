"""Codes to hand in: what they say comes back, and a changed one, another server's and other text are refused."""

from __future__ import annotations

import stat

import pytest

from dpcl_core import paths
from dpcl_core.errors import BadInput, StoreTrouble
from dpcl_core.lessons import exercises
from dpcl_core.lessons.exercises import Handed
from tests.support.together import together

HANDED = Handed("amber fox", 2, "acd")
pytestmark = pytest.mark.usefixtures("home")


@pytest.mark.parametrize("handed", [HANDED, Handed("übung 7", 1, ""), Handed("a b", 3, "abcdefg")])
def test_a_code_says_what_it_was_made_from(handed: Handed) -> None:
    code = exercises.sealed(handed)
    assert exercises.opened(code) == exercises.opened(code.lower()) == exercises.opened(code.upper()) == handed
    assert code == exercises.sealed(handed), "no secret changes between two codes"


@pytest.mark.parametrize(
    ("old", "new"), [("amber", "ember"), ("-2acd", "-2abcd"), ("-2acd", "-2ac"), ("-2acd", "-1acd"), ("fox", "fox-fox")]
)
def test_a_changed_code_is_refused(old: str, new: str) -> None:
    with pytest.raises(BadInput, match="was changed or mistyped"):
        exercises.opened(exercises.sealed(HANDED).replace(old, new))


def test_each_letter_of_the_seal_counts() -> None:
    code = exercises.sealed(HANDED)
    for place in range(len(code) - 8, len(code)):
        other = "A" if code[place] != "A" else "B"
        with pytest.raises(BadInput, match="was changed or mistyped"):
            exercises.opened(code[:place] + other + code[place + 1 :])


def test_a_code_of_another_server_is_refused_in_a_sentence_that_says_so(tmp_path, monkeypatch) -> None:
    code = exercises.sealed(HANDED)
    monkeypatch.setattr(paths, "codes_key", lambda: tmp_path / "other.key")
    while exercises.sealed(HANDED).split("-")[-2] == code.split("-")[-2]:  # one key in 32,768 has the same mark
        paths.codes_key().unlink()
    with pytest.raises(BadInput, match="was made on another server, or mistyped"):
        exercises.opened(code)


@pytest.mark.parametrize("text", ["", "hello", "amber-fox", "-2acd-XKW-QTPMRB3D", "a-2a-XKW-QTPMRB31", "=1+1", "x" * 9999])
def test_other_text_is_no_code(text: str) -> None:
    with pytest.raises(BadInput, match="is no code") as refused:
        exercises.opened(text)
    assert len(str(refused.value)) < 200


@pytest.mark.parametrize(("typed", "name"), [("  Amber   Fox ", "amber fox"), ("Jean-Luc", "jean luc"), ("ＡＢ１", "ab1")])
def test_a_name_is_the_same_however_it_is_typed(typed: str, name: str) -> None:
    assert exercises.clean_name(typed) == name == exercises.clean_name(name)


@pytest.mark.parametrize("typed", ["", "a", "x" * 25, "=cmd()", "<b>me</b>", "a_b", "a\nb?"])
def test_other_names_are_refused_in_one_sentence(typed: str) -> None:
    with pytest.raises(BadInput, match="must be 2 to 24 letters"):
        exercises.clean_name(typed)


def test_codes_are_found_in_what_is_pasted() -> None:
    assert exercises.listed("a-1\n b-2;c-3, d-4\t\n") == ["a-1", "b-2", "c-3", "d-4"]
    with pytest.raises(BadInput, match="at most 500 at once"):
        exercises.listed("x " * 501)


def test_only_its_owner_reads_the_key_and_a_broken_one_is_said() -> None:
    exercises.sealed(HANDED)
    assert stat.S_IMODE(paths.codes_key().stat().st_mode) == 0o600
    assert [path.name for path in paths.home().iterdir()] == [paths.codes_key().name], "nothing is left beside it"
    paths.codes_key().write_bytes(b"short")
    with pytest.raises(StoreTrouble, match="is damaged"):
        exercises.sealed(HANDED)


def test_those_who_begin_at_once_use_one_key() -> None:
    made: list[str] = []
    together(lambda _: made.append(exercises.sealed(HANDED)), 16)
    assert made == [exercises.sealed(HANDED)] * 16
