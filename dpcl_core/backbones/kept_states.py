"""Hidden states below a model's first adapted block, kept for each text in half precision.

A text's states are a deterministic function of the text and of a frozen public network, so computing or reading them is part
of the step that reads the text, and charged with it. Files are addressed by content: the weights below the cut, and the
tokens with prompt and answer. They hold states of possibly private texts; only their owner can read them. Whether a text was
kept changes a run's time and nothing else: a fresh state is rounded to half precision as a kept one is, and computed in a
piece whose shape depends on its text alone (see `methods.language.gradients`).
"""

import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dpcl_core import paths
from dpcl_core.data.files import replacing

MOST_BYTES = 2_000_000_000  # of all files together; the oldest go first
STEP = 8  # lengths are rounded up to multiples of this, in tokens
SIDE_BY_SIDE = {"cpu": 8, "cuda": 64}  # texts in a piece: few on a processor, to waste little padding; many to fill a GPU
_LARGEST = float(torch.finfo(torch.half).max)
_CHECK = 16  # bytes of the digest at the end of a file


class KeptStates:
    """States [S, width] of token sequences, from the folder if they are there.

    `below`: ids int64 [b, S] to states [b, S, width]; `identity`: digest of what computes them; `width`: of the states.
    """

    def __init__(self, below: Callable[[Tensor], Tensor], identity: str, width: int, folder: Path | None = None) -> None:
        self._below, self._identity, self._width = below, identity, width
        self._folder = folder or paths.states_dir()
        self._n_bytes: int | None = None  # of all files, as far as this process knows; None: not counted yet

    def of(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Half-precision states [b, S, width] of ids int64 [b, S]; 0 at the padding, which must be at the end."""
        rows = [row[:length] for row, length in zip(ids.cpu().numpy(), mask.sum(dim=1).tolist(), strict=True)]
        states = torch.zeros((*ids.shape, self._width), dtype=torch.half)
        missing: dict[str, list[int]] = {}
        for place, row in enumerate(rows):
            key = self._key(row)
            kept = None if key in missing else self._read(key, len(row))
            if kept is None:
                missing.setdefault(key, []).append(place)
            else:
                states[place, : len(row)] = kept
        first = [places[0] for places in missing.values()]
        for place, fresh in self._fresh([rows[place] for place in first], ids.device):
            key = self._key(rows[first[place]])
            self._write(key, fresh)
            for same in missing[key]:
                states[same, : len(fresh)] = fresh
        return states.to(ids.device)

    def _fresh(self, rows: list[NDArray[np.int64]], device: torch.device) -> Iterator[tuple[int, Tensor]]:
        """The index and the states [length, width] of each row, computed in pieces of one shape, the last one filled up."""
        size, steps = SIDE_BY_SIDE[device.type], np.array([-(-len(row) // STEP) for row in rows])
        for n_steps in np.unique(steps):
            alike = np.flatnonzero(steps == n_steps)
            for start in range(0, len(alike), size):
                places = alike[start : start + size]
                ids = np.zeros((size, STEP * int(n_steps)), np.int64)
                for line in range(size):
                    row = rows[places[min(line, len(places) - 1)]]
                    ids[line, : len(row)] = row
                found = self._below(torch.from_numpy(ids).to(device)).clamp(-_LARGEST, _LARGEST).half().cpu()
                for line, place in enumerate(places.tolist()):
                    yield place, found[line, : len(rows[place])]

    def _key(self, row: NDArray[np.int64]) -> str:
        return blake2b(f"{self._identity} {row.tolist()}".encode(), digest_size=16).hexdigest()

    def _read(self, key: str, length: int) -> Tensor | None:
        """The kept states; None where there are none, or the file is damaged."""
        try:
            read = (self._folder / key).read_bytes()
        except OSError:
            return None
        content, check = read[:-_CHECK], read[-_CHECK:]
        if len(content) != 2 * length * self._width or blake2b(content, digest_size=_CHECK).digest() != check:
            return None
        return torch.frombuffer(bytearray(content), dtype=torch.half).view(length, self._width)

    def _write(self, key: str, states: Tensor) -> None:
        """Keeps the states; warns and goes on if the folder cannot be written."""
        content = states.numpy().tobytes()
        try:
            self._make_room(len(content) + _CHECK)
            with replacing(self._folder / key) as file:
                file.write(content + blake2b(content, digest_size=_CHECK).digest())
        except OSError as error:
            warnings.warn(f"states could not be kept in {self._folder}: {error.strerror or error}", stacklevel=2)

    def _make_room(self, n_bytes: int) -> None:
        """Removes the oldest files if there would be more than `MOST_BYTES`: a tenth at once, so that it is seldom done."""
        if self._n_bytes is not None and self._n_bytes + n_bytes <= MOST_BYTES:
            self._n_bytes += n_bytes
            return
        paths.make_folder(self._folder)
        files = []
        for path in self._folder.iterdir():
            with suppress(FileNotFoundError):  # another process may be removing them meanwhile
                facts = path.stat()
                files.append((facts.st_mtime_ns, facts.st_size, path))
        self._n_bytes = n_bytes + sum(size for _, size, _ in files)
        if self._n_bytes > MOST_BYTES:
            for _, size, path in sorted(files):
                path.unlink(missing_ok=True)
                self._n_bytes -= size
                if self._n_bytes <= 0.9 * MOST_BYTES:
                    break
