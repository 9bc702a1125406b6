"""What `make test-elsewhere` runs, and how it reads what came of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts import test_elsewhere as elsewhere


@pytest.mark.parametrize(("body", "is_green"), [("assert True", True), ("assert False", False)])
def test_what_came_of_it_is_read_from_the_tests_own_last_line(tmp_path, monkeypatch, body, is_green):
    (tmp_path / "test_one.py").write_text(f"def test_one():\n    {body}\n", encoding="utf-8")
    monkeypatch.setattr(elsewhere, "ROOT", tmp_path)
    said = elsewhere._result(elsewhere.Setting({}), (str(tmp_path / "test_one.py"), "-p", "no:cacheprovider"), set(), 600)
    assert elsewhere._is_green(said) is is_green, said
    assert not elsewhere._is_green(elsewhere._result(elsewhere.Setting({}), (), set(), 0))


def test_a_setting_that_is_run_alone_replaces_its_row_and_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "docs").mkdir()
    first, second = elsewhere.SETTINGS[0].name, elsewhere.SETTINGS[3].name
    kept = {first: ("72 passed", "2026-11-21", "abc"), second: ("1 failed: `a[b-1]`", "2026-11-20", "def")}
    document = tmp_path / "docs" / "elsewhere.md"
    document.write_text(elsewhere._document(kept), encoding="utf-8")
    monkeypatch.setattr(elsewhere, "ROOT", tmp_path)
    monkeypatch.setattr(elsewhere, "_result", lambda *_: "9 passed in 1.0 minutes")
    monkeypatch.setattr("sys.argv", ["test_elsewhere.py", "--only", "4"])
    assert elsewhere.main() == 0
    rows = elsewhere._rows(document.read_text(encoding="utf-8"))
    assert (rows[first], rows[second][0], set(rows)) == (kept[first], "9 passed in 1.0 minutes", {first, second})
