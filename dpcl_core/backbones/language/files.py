"""Finds language models: bundled with the project, in the user's folder, or on the Hugging Face hub. No torch."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from dpcl_core import paths
from dpcl_core.backbones.weights import FIELD
from dpcl_core.data import hub
from dpcl_core.errors import BadInput, DataMissing

HUB = "hf:"
BUNDLED = "lm-tiny"
EXAMPLE = f"{HUB}openai-community/gpt2"
_NEEDED = "config.json"
# Weights as safetensors only: files of the older kind can run code when they are opened.
_PATTERNS = ["*.json", "*.safetensors", "*.txt", "tokenizer.model"]


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
        return _read(self.weights, self.weights_sha256)

    def read_tokenizer(self) -> bytes:
        """Content of the tokenizer's file. Raises BadInput where it does not match the card."""
        return _read(self.tokenizer, self.tokenizer_sha256)


def bundled() -> Bundle:
    """The bundled model. Raises DataMissing where one of its three files is missing or the card is damaged."""
    folder = paths.assets_dir() / "language"
    names = [f"{BUNDLED}.safetensors", "tokenizer.json", f"{BUNDLED}.json"]
    weights, tokenizer, written = (folder / name for name in names)
    if weights.is_file() and tokenizer.is_file():
        try:
            facts = json.loads(written.read_text(encoding="utf-8"))
            shape = Shape(**{key: int(value) for key, value in facts["shape"].items()})
            return Bundle(weights, tokenizer, shape, str(facts["sha256"]), str(facts["tokenizer_sha256"]))
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            pass
    wanted = f"put {', '.join(names)} into {folder}, or train them with scripts/pretrain_language_model.py"
    raise DataMissing(FIELD, BUNDLED, wanted)


def local(model: str) -> Path | None:
    """The folder OWNER--NAME of a hub model inside the folder `DPCL_WEIGHTS`, if it exists."""
    weights = os.environ.get("DPCL_WEIGHTS")
    if not weights:
        return None
    folder = paths.inside(Path(weights), model.replace("/", "--"), FIELD)
    return folder if (folder / _NEEDED).is_file() else None


def in_hub_cache(model: str) -> bool:
    """Whether the model is in the download cache."""
    from huggingface_hub import try_to_load_from_cache  # takes a moment to import, and only models of the hub need it

    return isinstance(try_to_load_from_cache(model, _NEEDED), str)


def folder(model: str) -> Path:
    """The folder with a hub model's settings, tokenizer and weights, downloaded if necessary.

    Raises BadInput for a model unknown to the hub, DataMissing with the files to add where it is unavailable.
    """
    if local_folder := local(model):
        return local_folder
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import RepositoryNotFoundError

    if not in_hub_cache(model) and not hub.is_reachable():
        raise DataMissing(FIELD, HUB + model, wish(model, "the Hugging Face hub cannot be reached"))
    try:
        return Path(snapshot_download(model, allow_patterns=_PATTERNS, local_files_only=not hub.is_reachable()))
    except RepositoryNotFoundError as error:
        allowed = f"must be the name of a model on the Hugging Face hub that anybody may read, such as {EXAMPLE}"
        raise BadInput(FIELD, HUB + model, allowed) from error
    except Exception as error:  # the hub's client raises many kinds of error, all with the same meaning for the user
        reason = f"the Hugging Face hub did not give it ({type(error).__name__})"
        raise DataMissing(FIELD, HUB + model, wish(model, reason)) from error


def wish(model: str, reason: str) -> str:
    """The instruction which files to put where, so that `local` finds them."""
    place = os.environ.get("DPCL_WEIGHTS") or "a folder, and name that folder in DPCL_WEIGHTS"
    return (
        f"put a folder {model.replace('/', '--')} with its config.json, tokenizer.json and *.safetensors into {place}; "
        f"the model is not on this computer, and {reason}"
    )


def _read(path: Path, expected: str) -> bytes:
    content = path.read_bytes()
    if sha256(content).hexdigest() != expected:
        raise BadInput(FIELD, BUNDLED, f"its file {path} must be the one on its card (its SHA-256 is another)")
    return content
