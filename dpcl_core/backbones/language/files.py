"""Finds language models: bundled with the project, in the user's folder, or on the Hugging Face hub. No torch."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from dpcl_core import paths
from dpcl_core.backbones import weights as weights_files
from dpcl_core.backbones.hub_folders import HubFolders
from dpcl_core.backbones.weights import FIELD
from dpcl_core.errors import DataMissing

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
        return weights_files.read(self.weights, self.weights_sha256, BUNDLED, "on its card")

    def read_tokenizer(self) -> bytes:
        """Content of the tokenizer's file. Raises BadInput where it does not match the card."""
        return weights_files.read(self.tokenizer, self.tokenizer_sha256, BUNDLED, "on its card")


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


def weights_digest(name: str, packaged: str | None) -> str:
    """SHA-256 of a language model's weights: of the bundled file, of its package's file, or of a hub model's files in order.

    Raises what `bundled` and `folder` raise.
    """
    if packaged is not None or name == BUNDLED:
        return packaged or bundled().weights_sha256
    parts = sorted(folder(name.removeprefix(HUB)).glob("*.safetensors"))
    return "+".join(weights_files.digest(path) for path in parts)


def folder(model: str) -> Path:
    """The folder with a hub model's settings, tokenizer and weights, downloaded if necessary.

    Raises BadInput for a model unknown to the hub, DataMissing with the files to add where it is unavailable.
    """
    if missing := FOLDERS.missing(model):
        raise DataMissing(FIELD, HUB + model, missing)
    return FOLDERS.local(model) or FOLDERS.fetched(model, HUB + model)
