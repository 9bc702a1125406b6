"""The browser's Python is fetched from one of three sources, and each file is the official one or is not kept."""

import io
import json
import os
import tarfile
import zipfile
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from dpcl_core import cli
from dpcl_core.backbones import packaged
from dpcl_core.errors import DataMissing
from dpcl_core.site import live
from tests.support.asserting import refuses

WHEEL = "numpy-1-py3-none-any.whl"
NUMPY = b"a package"
LOCK = json.dumps({"packages": {"numpy": {"file_name": WHEEL, "sha256": sha256(NUMPY).hexdigest()}}}).encode()
CORE = {"core.js": b"let core;", live.LOCK: LOCK}


@pytest.fixture
def official(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of an official server with two core files and one package; the user's cache is empty."""
    folder = tmp_path / "official"
    folder.mkdir()
    for name, content in {**CORE, WHEEL: NUMPY}.items():
        (folder / name).write_bytes(content)
    said = {
        "version": "0", "official": f"{folder.as_uri()}/{{file}}", "npm": "pyodide@0", "packages": {"engine": ["numpy"]},
        "pypi": {"requirement": "some==1", "folder": "some/files", "sha256": ""},
        "core": {name: sha256(content).hexdigest() for name, content in CORE.items()},
    }  # fmt: skip
    monkeypatch.setattr(live, "about_python", lambda: said)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return folder


def fetched() -> Path:
    list(live.fetch_python())
    place = live.python_folder()
    assert place is not None
    return place


def test_the_official_server_is_asked_first_and_once(official: Path) -> None:
    assert live.python_folder() is None
    place = fetched()
    assert {path.name: path.read_bytes() for path in place.iterdir()} == {**CORE, WHEEL: NUMPY}
    assert live.package_files(place) == {"engine": [WHEEL]}
    for path in official.iterdir():
        path.unlink()
    fetched()


@pytest.mark.parametrize("name", [*CORE, WHEEL])
def test_another_file_than_the_official_one_is_not_kept(official: Path, name: str) -> None:
    (official / name).write_bytes(b"another")
    refuses("its SHA-256 differs", list, live.fetch_python())
    assert live.python_folder() is None
    assert not (Path(os.environ["XDG_CACHE_HOME"]) / "dpcl" / live.PYODIDE / name).exists()


def of_registries(official: Path, monkeypatch: pytest.MonkeyPatch, core: dict[str, bytes], wheel: dict[str, bytes]) -> None:
    """The official server is away, npm is a program that writes this archive, and PyPI gives this wheel."""
    for path in official.iterdir():
        path.unlink()
    with tarfile.open(official / "pyodide-0.tgz", "w:gz") as archive:
        for name, content in core.items():
            about = tarfile.TarInfo(f"package/{name}")
            about.size = len(content)
            archive.addfile(about, io.BytesIO(content))
    program = official / "npm"
    program.write_text(f'#!/bin/sh\nfor last; do :; done\ncp "{official}/pyodide-0.tgz" "$last"\n', encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{official}:{os.environ['PATH']}")

    def downloaded(name: str, package: Any, file: Path) -> Iterator[packaged.Step]:
        with zipfile.ZipFile(file, "w") as packed:
            for member, content in wheel.items():
                packed.writestr(member, content)
        yield packaged.Step("downloading", 1, 1)

    monkeypatch.setattr(packaged, "downloaded", downloaded)


def test_registries_serve_where_the_official_server_is_away(official: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    of_registries(official, monkeypatch, CORE, {f"some/files/{WHEEL}": NUMPY, "some/code.py": b"raise SystemExit"})
    assert {path.name for path in fetched().iterdir()} == {*CORE, WHEEL}


def test_a_registry_is_held_to_the_official_hashes(official: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    of_registries(official, monkeypatch, CORE, {f"some/files/{WHEEL}": b"another"})
    refuses("its SHA-256 differs", list, live.fetch_python())


def test_a_file_that_no_source_has_is_said(official: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    of_registries(official, monkeypatch, CORE, {})
    refuses(f"{WHEEL} is in none of its sources: connect this computer", list, live.fetch_python(), error=DataMissing)


def test_without_it_no_site_that_trains_is_built(official: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["site", "--live", "--to", str(tmp_path / "site")]) == 2
    assert "run `dpcl fetch pyodide`, once, and build the site again" in capsys.readouterr().err
    assert not list((tmp_path / "site").glob("*"))


def test_the_manifest_has_every_file_with_its_hash(official: Path) -> None:
    fetched()
    files = live.files()
    manifest = json.loads(files.pop(live.MANIFEST))
    assert {name: (len(one), sha256(one).hexdigest()) for name, one in files.items()} == {
        name: (about["bytes"], about["sha256"]) for name, about in manifest["files"].items()
    }
    assert sorted(path for of_group in manifest["groups"].values() for path in of_group) == sorted(files)
    assert all(set(rule["groups"]) <= {*manifest["groups"], "scipy", "cluster"} for rule in manifest["needs"])
    names = zipfile.ZipFile(io.BytesIO(files["dpcl.zip"])).namelist()
    rooms = ("runs/", "cli/", "site/", "methods/language/")
    assert not [name for name in names if name.startswith((*(f"dpcl_core/{room}" for room in rooms), "tests/", "pages/"))]
    again = {**files, live.MANIFEST: json.dumps(manifest, separators=(",", ":")).encode()}
    assert live.files() == again, "the same bytes again"


def test_every_public_feature_is_small_and_says_where_it_is_from(official: Path) -> None:
    fetched()
    for name, content in live.files().items():
        assert not name.startswith("data/") or len(content) <= 3_000_000, name
    for dataset in live.choices()["datasets"][:-1]:  # type: ignore[index]
        assert all(dataset[key] for key in ("source", "licence", "scenarios")), dataset  # type: ignore[index,call-overload]
