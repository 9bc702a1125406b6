"""Converts a language model in a GGUF file into a folder as transformers saves it: settings, tokenizer, safetensors."""

from __future__ import annotations

from contextlib import redirect_stderr
from io import StringIO
from pathlib import Path

import torch

from dpcl_core.backbones import weights
from dpcl_core.backbones.torchvision_shim import ensure_torchvision
from dpcl_core.errors import BadInput
from dpcl_core.packages import lacking


def convert(file: Path, folder: Path) -> None:
    """Writes the model in half precision: files of quantised weights hold them far more coarsely.

    Raises BadInput where transformers cannot read the file.
    """
    if absent := lacking(("gguf",)):
        raise BadInput(weights.FIELD, file.name, absent)
    ensure_torchvision()  # before the library, which imports it for some families of models
    from safetensors.torch import save_model
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from transformers.utils import logging

    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    verbosity = logging.get_verbosity()
    logging.set_verbosity_error()  # type: ignore[no-untyped-call]  # it advises how to compute; nothing is computed here
    try:
        with redirect_stderr(StringIO()):  # the progress of the tensors cannot be turned off
            model = AutoModelForCausalLM.from_pretrained(file.parent, gguf_file=file.name, dtype=torch.float16)
        tokenizer = AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)
    except Exception as error:  # the library raises many kinds of error, all with the same meaning for the user
        reason = str(error).strip().partition("\n")[0]
        raise BadInput(weights.FIELD, file.name, f"must be a GGUF file that transformers can read ({reason})") from error
    finally:
        logging.set_verbosity(verbosity)
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config  # transformers refuses to save a model that says it is quantised
    model.config.save_pretrained(folder)
    save_model(model, str(folder / "model.safetensors"), metadata={"format": "pt"})
    tokenizer.save_pretrained(folder)
