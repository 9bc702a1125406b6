"""Lists the graphics cards that the NVIDIA driver's library shows, as JSON: [[name, bytes of memory], …].

`devices` runs this file in a process of its own. The library keeps for a process's life what CUDA_VISIBLE_DEVICES said when
it was first used, and the app and the command line must not be bound by that. It asks only; it takes no memory on a card.
"""

import ctypes
import json
import sys
from typing import Any

_NAMES = {"win32": "nvcuda.dll"}  # the same on Linux, in containers and under WSL, where there is no /dev/nvidia0


def cards(library: Any) -> list[tuple[str, int]]:
    """Name and memory in bytes of every card that the driver's library shows; none where it fails."""
    count = ctypes.c_int()
    if library.cuInit(0) or library.cuDeviceGetCount(ctypes.byref(count)):
        return []
    return [_card(library, number) for number in range(count.value)]


def _card(library: Any, number: int) -> tuple[str, int]:
    handle, name, size = ctypes.c_int(), ctypes.create_string_buffer(256), ctypes.c_size_t()
    library.cuDeviceGet(ctypes.byref(handle), number)
    library.cuDeviceGetName(name, len(name), handle)
    library.cuDeviceTotalMem_v2(ctypes.byref(size), handle)
    return name.value.decode(errors="replace"), size.value


def main() -> None:
    """Prints the list; an empty one without a driver."""
    try:
        found = cards(ctypes.CDLL(_NAMES.get(sys.platform, "libcuda.so.1")))
    except OSError:
        found = []
    print(json.dumps(found))


if __name__ == "__main__":
    main()
