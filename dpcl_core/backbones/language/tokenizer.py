"""Tokenizers of the language models. Imports no torch; only hub models load transformers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from dpcl_core.backbones.language import files, folders
from dpcl_core.backbones.torchvision_shim import ensure_torchvision
from dpcl_core.backbones.weights import FIELD
from dpcl_core.errors import BadInput

if TYPE_CHECKING:
    import tokenizers

START, END = "<|start|>", "<|end|>"  # the bundled tokenizer's special tokens, which no text can contain
Encoded = tuple[list[int], list[tuple[int, int]]]
_LONE = re.compile("[\ud800-\udfff]")  # lone surrogates, which Python strings may contain and UTF-8 may not


class Tokenizer:
    """Text to tokens and back. `size`: tokens in the vocabulary; `bos` and `eos`: tokens before and after a text.

    The bundled tokenizer makes every digit one token, and falls back to bytes, so it can encode any text.
    """

    def __init__(self, inner: tokenizers.Tokenizer, bos: int, eos: int) -> None:
        self.size: int = inner.get_vocab_size()
        self.bos, self.eos = bos, eos
        inner.encode_special_tokens = True  # an end-of-text token spelled in a text is plain text
        inner.no_truncation()
        inner.no_padding()
        self._inner = inner
        self._anchor: int = inner.encode("a", add_special_tokens=False).ids[0]
        self._before: str = inner.decode([self._anchor])

    def encode(self, string: str) -> Encoded:
        """Ids, and the characters [start, end) of each, leading blank included; no special tokens are added."""
        return self.encode_all([string])[0]

    def encode_all(self, strings: Sequence[str]) -> list[Encoded]:
        """`encode` of each string, on all cores."""
        encodings = self._inner.encode_batch([_LONE.sub("�", string) for string in strings], add_special_tokens=False)
        return [(encoding.ids, encoding.offsets) for encoding in encodings]

    def shown(self, token: int) -> str:
        """The token as printed, leading blank included; "�" for one that is only part of a character."""
        # After another token, since many decoders drop the blank at the start of a text.
        printed: str = self._inner.decode([self._anchor, token], skip_special_tokens=False)
        return printed[len(self._before) :]


@lru_cache(maxsize=2)
def load(backbone: str) -> Tokenizer:
    """The tokenizer of a language model. Raises as `files` does, and BadInput where the model has none."""
    if backbone == files.BUNDLED:
        import tokenizers

        inner = tokenizers.Tokenizer.from_buffer(files.bundled().read_tokenizer())
        bos, eos = inner.token_to_id(START), inner.token_to_id(END)
        assert bos is not None
        assert eos is not None
        return Tokenizer(inner, bos, eos)
    folder = folders.folder(backbone)
    ensure_torchvision()  # before the library, which imports it for some families of models
    from transformers import AutoTokenizer

    try:
        fast_tokenizer = AutoTokenizer.from_pretrained(folder)
        eos = fast_tokenizer.eos_token_id
        bos = fast_tokenizer.bos_token_id if fast_tokenizer.bos_token_id is not None else eos
        if eos is None or not fast_tokenizer.is_fast:
            raise ValueError("it has no mark for the end of a text, or no table of tokens")
        return Tokenizer(fast_tokenizer.backend_tokenizer, bos=bos, eos=eos)
    except Exception as error:  # the library raises many kinds of error, all with the same meaning for the user
        reason = str(error).strip().partition("\n")[0]
        raise BadInput(FIELD, backbone, f"must have a tokenizer that transformers can read ({reason})") from error
