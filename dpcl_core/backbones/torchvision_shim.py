"""Makes torchvision importable beside a torch without CUDA, which timm needs. Call before the first import of timm.

The published torchvision wheels link against the CUDA half of torch. Beside a CPU-only torch their compiled extension does
not load, the operators it would have declared are unknown, and `import torchvision` stops at the first mention of one.
Only the declarations are missing for the Python part to load; nothing here ever calls the operators themselves.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import torch

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
    import torch

    for loaded in [name for name in sys.modules if name == "torchvision" or name.startswith("torchvision.")]:
        del sys.modules[loaded]  # half imported by the failed attempt
    library = torch.library.Library("torchvision", "DEF")  # type: ignore[no-untyped-call]
    for operator in _OPERATORS:
        library.define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")  # type: ignore[no-untyped-call]
    _declared.append(library)
    import_module("torchvision")
    return "declared"
