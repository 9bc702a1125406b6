"""Finds weights: bundled with the project, in the user's folder, or on the hub. Imports no torch."""

from __future__ import annotations

import json
import os
import sys
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from hashlib import file_digest, sha256
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from dpcl_core import paths
from dpcl_core.data import files
from dpcl_core.errors import BadInput, DataMissing, read_as
from dpcl_core.later import torch

FIELD = "data.backbone"
DOWNLOADS = "DPCL_DOWNLOADS"  # says yes where visitors of a shared server may make it download networks
UNREACHABLE = "the Hugging Face hub cannot be reached"
WITHHELD = f"this server downloads no networks for its visitors unless its administrator sets {DOWNLOADS}=yes"
_HUB_FILE = "model.safetensors"


@dataclass(frozen=True, slots=True)
class Bundle:
    """A bundled network: its weights file, and the fields of its JSON card needed before torch is loaded."""

    path: Path
    architecture: str
    sha256: str
    preprocessing: str
    feature_dim: int


def bundled(name: str) -> Bundle:
    """The bundled weights by name. Raises DataMissing where one of the two files is missing or the card is damaged."""
    folder = paths.assets_dir() / "backbones"
    path, written = (paths.inside(folder, f"{name}.{ending}", FIELD) for ending in ("safetensors", "json"))
    if path.is_file():
        with suppress(OSError, ValueError, KeyError, TypeError):
            facts = json.loads(written.read_text(encoding="utf-8"))
            architecture, preprocessing = str(facts["architecture"]), str(facts["preprocessing"])
            return Bundle(path, architecture, str(facts["sha256"]), preprocessing, int(facts["feature_dim"]))
    wanted = f"put {path.name} and {written.name} into {folder}, or train them with scripts/pretrain_backbone.py"
    raise DataMissing(FIELD, name, wanted)


def local(name: str) -> Path | None:
    """The user's own file or folder of weights of this name, in the folder `DPCL_WEIGHTS`, if it is there."""
    named = os.environ.get("DPCL_WEIGHTS")
    path = paths.inside(Path(named), name, FIELD) if named else None
    return path if path and path.exists() else None


def in_hub_cache(repository: str, file: str = _HUB_FILE) -> Path | None:
    """The weights, or another file, of a hub repository in the download cache, if they are there."""
    from huggingface_hub import try_to_load_from_cache  # takes a moment to import, and only models of the hub need it

    cached = try_to_load_from_cache(repository, file)
    return Path(cached) if isinstance(cached, str) else None


def is_withheld() -> bool:
    """Whether this is a shared server that must not download networks."""
    return "DPCL_SHARED" in os.environ and os.environ.get(DOWNLOADS) != "yes"


def why_offline() -> str | None:
    """Why the hub is not asked, as a part of a sentence; None where it is."""
    if is_withheld():
        return WITHHELD
    return None if files.is_reachable() else UNREACHABLE


def from_hub(repository: str, model: str) -> Path:
    """The weights of a hub repository, downloaded if necessary. Raises DataMissing naming the file to add."""
    if cached := in_hub_cache(repository):
        return cached
    if why := why_offline():
        raise DataMissing(FIELD, f"timm:{model}", wish(f"{model}.safetensors", why))
    from huggingface_hub import hf_hub_download

    try:
        return Path(hf_hub_download(repository, _HUB_FILE))
    except Exception as error:  # the hub's client raises many kinds of error, all with the same meaning for the user
        reason = f"the Hugging Face hub did not give them ({type(error).__name__})"
        raise DataMissing(FIELD, f"timm:{model}", wish(f"{model}.safetensors", reason)) from error


def wish(what: str, reason: str) -> str:
    """The instruction which file or folder to put where, so that `local` finds it."""
    folder = os.environ.get("DPCL_WEIGHTS") or "a folder, and name that folder in DPCL_WEIGHTS"
    return f"put {what} into {folder}; the model is not on this computer, and {reason}"


def digest(path: Path) -> str:
    """SHA-256 of a file, read in pieces: weights may be too large to hold twice in memory."""
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()


def read_weights(path: Path, expected: str, name: str, original: str) -> bytes:
    """Content of a file of the backbone `name`. Raises BadInput where it cannot be read or has another SHA-256.

    `original`: what the file must be, in words.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise BadInput(FIELD, name, f"its file {path} must be readable: {error.strerror or error}") from error
    if sha256(content).hexdigest() != expected:
        raise BadInput(FIELD, name, f"its file {path} must be the one {original} (its SHA-256 is another)")
    return content


def whole(name: str, path: Path, *kinds: type[Exception]) -> AbstractContextManager[None]:
    """Within this context errors of these kinds say that weights cannot be read or do not fit the model, as BadInput."""
    return read_as(FIELD, name, f"its weights {path} must be a whole safetensors file made for this model", *kinds)


# Makes torchvision importable beside a torch without CUDA, which timm needs. Call before the first import of timm.
#
# The published torchvision wheels link against the CUDA half of torch. Beside a CPU-only torch their compiled extension does
# not load, the operators it would have declared are unknown, and `import torchvision` stops at the first mention of one.
# Only the declarations are missing for the Python part to load; nothing here ever calls the operators themselves.


_OPERATORS = ("nms", "qnms")
_declared: list[torch.library.Library] = []  # keeps the declarations alive: torch drops them with this object


def ensure_torchvision() -> Literal["absent", "native", "declared"]:
    """Imports torchvision, declaring its operators where its own extension could not. Safe to call again.

    Gives which case applies; "absent" imports nothing. Raises any other error of the import.
    """
    if find_spec("torchvision") is None:
        return "absent"
    try:
        import_module("torchvision")
    except RuntimeError as error:
        if "operator torchvision::" not in str(error):
            raise
    else:
        return "declared" if _declared else "native"
    for loaded in [name for name in sys.modules if name == "torchvision" or name.startswith("torchvision.")]:
        del sys.modules[loaded]  # half imported by the failed attempt
    library = torch.library.Library("torchvision", "DEF")  # type: ignore[no-untyped-call]
    for operator in _OPERATORS:
        library.define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")  # type: ignore[no-untyped-call]
    _declared.append(library)
    import_module("torchvision")
    return "declared"
