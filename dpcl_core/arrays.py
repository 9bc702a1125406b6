"""Arrays by name as the bytes of a safetensors file, written and read with nothing but NumPy."""

import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpcl_core.errors import instead_of

# In the package's own order of types, of which the last comes first in a file.
_NAMES = {
    "BOOL": "|b1", "U8": "|u1", "I8": "|i1", "I16": "<i2", "U16": "<u2", "F16": "<f2",
    "I32": "<i4", "U32": "<u4", "F32": "<f4", "F64": "<f8", "I64": "<i8", "U64": "<u8",
}  # fmt: skip
_ALIGNED = 8  # bytes: the header is filled with blanks up to a multiple


class Damaged(ValueError):
    """Bytes that are no such file."""


def save(arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """The file of these arrays, byte by byte as the package writes it. Raises KeyError for a type that the format lacks."""
    kinds = {name: next(kind for kind, code in _NAMES.items() if np.dtype(code) == of.dtype) for name, of in arrays.items()}
    names = sorted(arrays, key=lambda name: (-list(_NAMES).index(kinds[name]), name))
    header, end, parts = {}, 0, []
    for name in names:
        parts.append(np.ascontiguousarray(arrays[name]).tobytes())
        start, end = end, end + len(parts[-1])
        header[name] = {"dtype": kinds[name], "shape": list(arrays[name].shape), "data_offsets": [start, end]}
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % _ALIGNED)
    return b"".join([len(text).to_bytes(8, "little"), text, *parts])


def load(content: bytes) -> dict[str, NDArray[Any]]:
    """The arrays of a file by name. Raises Damaged."""
    wrong = ValueError, TypeError, LookupError, AttributeError, RecursionError
    with instead_of(*wrong, say=lambda error: Damaged(str(error))):
        length = int.from_bytes(content[:8], "little")
        header, data = json.loads(content[8 : 8 + length]), memoryview(content)[8 + length :]
        header.pop("__metadata__", None)
        arrays = {}
        for name, about in header.items():
            start, end = about["data_offsets"]
            kind, shape = np.dtype(_NAMES[about["dtype"]]), tuple(map(int, about["shape"]))
            if not 0 <= start <= end <= len(data) or end - start != kind.itemsize * math.prod(shape):
                raise ValueError("an array lies outside the file")
            arrays[name] = np.frombuffer(data[start:end], kind).reshape(shape).copy()
    return arrays
