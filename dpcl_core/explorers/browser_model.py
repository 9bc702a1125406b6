"""The bundled language model as a document for the browser, which scores typed sentences by itself (`assets/tokens/`)."""

from __future__ import annotations

import base64
import json
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load as read_safetensors

from dpcl_core.backbones.language import files, tokenizer
from dpcl_core.backbones.language.stop_words import STOP_WORDS


def document(commonness: NDArray[np.floating]) -> dict[str, object]:
    """Weights (half precision, as bundled; base64), vocabulary, merges, stop words; `commonness` [size]: Score2 of tokens.

    Raises DataMissing where the model's files are missing.
    """
    return {**_model(), "commonness": _encoded(np.asarray(commonness, np.float64))}


@lru_cache(maxsize=1)
def _model() -> dict[str, object]:
    bundle = files.bundled()
    inner = json.loads(bundle.read_tokenizer())["model"]
    weights = read_safetensors(bundle.read_weights())
    assert all(values.dtype == np.float16 for values in weights.values())
    shape = bundle.shape
    return {
        "shape": {
            "n_blocks": shape.n_blocks, "n_heads": shape.n_heads, "width": shape.width, "context": shape.context,
            "size": shape.size,
        },
        "bos": tokenizer.load(files.BUNDLED).bos,
        "weights": {name: _encoded(values) for name, values in sorted(weights.items())},
        "vocabulary": sorted(inner["vocab"], key=inner["vocab"].__getitem__),
        "merges": [" ".join(pair) if isinstance(pair, list) else pair for pair in inner["merges"]],
        "stop_words": sorted(STOP_WORDS),
    }  # fmt: skip


def _encoded(values: NDArray[np.generic]) -> str:
    return base64.b64encode(values.tobytes()).decode("ascii")
