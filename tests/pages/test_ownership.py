"""On a server that others reach, nobody uses what another visitor has brought; on one's own computer nothing is noticed."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpcl_core import paths
from dpcl_core.data import own
from dpcl_core.errors import BadInput
from pages.parts import visitor


@pytest.fixture(autouse=True)
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Data of two visitors and of the computer; the first visitor is here."""
    monkeypatch.setenv("DPCL_HOME", str(tmp_path))
    monkeypatch.delenv("DPCL_DATA", raising=False)
    monkeypatch.setattr(visitor, "token", lambda: "a" * 32)
    for name, owner in (("mine", visitor.digest()), ("hers", "b" * 64), ("everybodys", None)):
        folder = paths.home() / "data" / name
        folder.mkdir(parents=True)
        (folder / f"{name}.csv").write_text("x,label\n1,a\n", encoding="utf-8")
        if owner is not None:
            (folder / own.OWNER).write_text(owner, encoding="ascii")


def _serve(monkeypatch: pytest.MonkeyPatch, address: str | None) -> None:
    monkeypatch.setattr(visitor.st, "get_option", lambda name: address if name == "server.address" else None)


@pytest.mark.parametrize("address", ["0.0.0.0", "192.0.2.7", None])
def test_on_a_shared_server_data_of_others_are_out_of_reach(monkeypatch: pytest.MonkeyPatch, address: str | None) -> None:
    _serve(monkeypatch, address)
    names = ["own:mine", "own:hers", "own:everybodys"]
    assert visitor.mine(names) == ["own:mine", "own:everybodys"]
    for name in ("own:mine", "own:everybodys", "digits"):
        visitor.check(name)
    for name in ("own:hers", "own:nobodys"):
        with pytest.raises(BadInput, match=f"{name}: is none of your data on this server"):
            visitor.check(name)


@pytest.mark.parametrize("address", ["localhost", "127.0.0.1", "::1"])
def test_on_ones_own_computer_nothing_is_noticed(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    _serve(monkeypatch, address)
    assert visitor.mine(["own:mine", "own:hers"]) == ["own:mine", "own:hers"]
    visitor.check("own:hers")
