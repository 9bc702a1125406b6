"""`verify` as a person calls it: a real export's card, one that was changed, and files that are no card."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dpcl_core import checks, cli, engine, export
from dpcl_core.privacy import card, card_document
from dpcl_core.runs.store import Store
from tests.support import replay
from tests.support.asserting import printed


@pytest.fixture
def exported(home: Path, tmp_path: Path) -> Path:
    """The card of a real run of the cosine classifier, two budgets and no noise, as an export writes it."""
    data = {"dataset": "digits", "train_per_class": 20}
    spec = checks.parse({"method": "cosine", "privacy": {"epsilons": [1.0, 8.0, "inf"]}, "seeds": [0], "data": data})
    store = Store()
    files = export.bundle(store, replay.fill(store, spec, list(engine.run(spec))))
    path = tmp_path / card_document.FILE
    path.write_bytes(files[card_document.FILE])
    return path


def test_an_exported_card_matches(exported: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed(capsys, "verify", str(exported)).splitlines()
    assert [line.split("(")[0] for line in lines[:-1]] == [
        f"epsilon asked {epsilon}, seed 0: matches " for epsilon in ("1", "8", "inf")
    ]
    assert lines[-1] == card.CHECK_FINDS


def test_a_changed_card_differs_and_says_where(exported: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = json.loads(exported.read_text())
    document["cells"][1]["epsilon"] = 4.0
    exported.write_text(json.dumps(document))
    assert cli.main(["verify", str(exported), "--json"]) == 1
    said = json.loads(capsys.readouterr().out)
    assert said["exit_status"] == 1
    assert [cell["verdict"] for cell in said["cells"]] == ["matches", "differs", "matches"]
    wrong = [number for number in said["cells"][1]["numbers"] if number["verdict"] == "differs"]
    assert [number["name"] for number in wrong] == ["epsilon"]
    assert (wrong[0]["stated"], wrong[0]["low"]) == (4.0, pytest.approx(8.0, rel=1e-4))


def test_an_unknown_event_ends_with_two(exported: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = json.loads(exported.read_text())
    document["cells"][0]["events"][0]["mechanism"] = "quantum"
    exported.write_text(json.dumps(document))
    assert cli.main(["verify", str(exported)]) == 2
    assert "cannot be checked: event 1 is not known: mechanism = quantum" in capsys.readouterr().out


def test_a_forged_card_neither_commands_the_terminal_nor_adds_a_line(exported, capsys):
    forged = "\x1b]0;title\x07\u009b2J\u202e\nall numbers match"
    document = json.loads(exported.read_text())
    document["cells"][0]["parts"][forged] = 3.0
    exported.write_text(json.dumps(document))
    assert cli.main(["verify", str(exported)]) == 1
    first, *others = capsys.readouterr().out.splitlines()
    assert r"\u001b]0;title\u0007\u009b2J\u202e all numbers match: the events have no such part" in first
    assert [line.split(", ")[0] for line in others] == ["epsilon asked 8", "epsilon asked inf", "This finds inconsistency"]
    exported.write_text(json.dumps({**document, "version": forged}))
    for arguments in (["verify", str(exported)], ["verify", str(exported), forged]):
        assert cli.main(arguments) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert r"\u001b]0;title\u0007\u009b2J\u202e all numbers match" in line


@pytest.mark.parametrize("content", [b"", b"no card", b"{}", b"\x89PNG"])
def test_a_file_that_is_no_card_is_one_sentence(content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    assert cli.main(["verify", str(path)]) == 2
    out, err = capsys.readouterr()
    assert (out, len(err.splitlines())) == ("", 1)
    assert "must be the privacy_card.json of an export" in err
