"""Cards in TOML files: what they say of themselves where something in them is wrong, and that what they name is there."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from dpcl_core import paths
from dpcl_core.backbones import catalog as backbones
from dpcl_core.data import card
from tests.support.asserting import refuses

SET = """
[letters]
title = "Letters"
summary = "Letters."
source = "made up"
licence = "none"
n_train = 10
n_test = 4
classes = ["a", "b"]
"""


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Where the cards are read from instead."""
    monkeypatch.setattr(paths, "assets_dir", lambda: tmp_path)
    (tmp_path / "cards").mkdir()
    return tmp_path / "cards"


def test_what_follows_from_a_table(folder: Path) -> None:
    more = """
[more-letters]
like = "letters"
title = "More letters"
n_train = 20
domains = ["upper", "lower"]

[all]
title = "All"
summary = "All."
source = "both"
licence = "none"
members = ["letters", "more-letters"]
titled_classes = true

[names]
like = "letters"
kind = "tagged"
classes = []
tags = ["person"]
limits = ["who is named"]
"""
    (folder / "datasets.toml").write_text(SET + more, encoding="utf-8")
    found = card._catalogue()
    assert list(found) == ["letters", "more-letters", "all", "names"]
    assert (found["letters"].n_classes, found["letters"].limits) == (2, ())
    assert found["more-letters"].summary == "Letters."
    assert found["more-letters"].sources == (("upper", ("a", "b")), ("lower", ("a", "b")))
    assert (found["all"].n_train, found["all"].n_test, found["all"].n_classes) == (30, 8, 4)
    assert found["all"].classes == ("Letters: a", "Letters: b", "More letters: a", "More letters: b")
    assert found["all"].source == "both; Letters; More letters"
    assert found["names"].classes == ("O", "B-person", "I-person")
    assert found["names"].limits == (*card.LIMITS["tagged"], "who is named")


@pytest.mark.parametrize(("written", "said"), [
    (SET + "colour = 1", r"^datasets\.toml: letters\.colour = 1: no such setting"),
    (SET.replace("n_test = 4", ""), r"^datasets\.toml: letters\.n_test = None: must be given"),
    (SET.replace("n_test = 4", 'n_test = "four"'), r"^datasets\.toml: letters\.n_test = four: must be a valid integer"),
    (SET + "hub = { repository = 'a/b' }", r"^datasets\.toml: letters\.hub\.train = None: must be given"),
    (SET + "[more]\nlike = 'numbers'", r"^datasets\.toml: more\.like = numbers: must be the name of a table above"),
    (SET + "members = ['numbers']", r"^datasets\.toml: letters\.members = numbers: must be names of tables above"),
    ("letters = 3", r"^datasets\.toml: letters = 3: must be a table, such as \[letters\]"),
    ("[letters", r"^datasets\.toml = TOMLDecodeError: must be a TOML file: "),
])
def test_an_error_names_file_and_key(folder: Path, written: str, said: str) -> None:
    (folder / "datasets.toml").write_text(written, encoding="utf-8")
    refuses(said, card._catalogue)


def test_an_error_in_a_backbone_names_file_and_key(folder: Path) -> None:
    (folder / "backbones.toml").write_text('["timm:some.model"]\ntitle = "Some"', encoding="utf-8")
    refuses(r"^backbones\.toml: timm:some\.model\.summary = None: must be given", backbones.read)


@pytest.mark.parametrize("card", backbones.CARDS.values(), ids=lambda card: card.name)
def test_the_module_that_makes_a_backbone_is_there(card: backbones.BackboneCard) -> None:
    assert find_spec(card.module)
