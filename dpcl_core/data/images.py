"""Images of one split, encoded or raw, decoded in batches to the size a backbone asks for."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from dpcl_core.errors import BadInput

MAX_PIXELS = 4096 * 4096
_FILTERS = {"bilinear": Image.Resampling.BILINEAR, "bicubic": Image.Resampling.BICUBIC}
Interpolation = Literal["bilinear", "bicubic"]


@dataclass(frozen=True, slots=True, eq=False)
class Images:
    """Either encoded files (one `bytes` per row) or one raw uint8 array [n, H, W, C].

    `shape` is the public (height, width, channels) of the dataset's card, or None where images differ in size.
    """

    content: Sequence[bytes] | NDArray[np.uint8]
    shape: tuple[int, int, int] | None

    def __len__(self) -> int:
        return len(self.content)

    def take(self, rows: NDArray[np.int64]) -> Images:
        """The images of these rows, in this order."""
        if isinstance(self.content, np.ndarray):
            return Images(self.content[rows], self.shape)
        return Images([self.content[row] for row in rows], self.shape)

    def batches(
        self, size: int | None, n_channels: Literal[1, 3], batch_size: int, interpolation: Interpolation = "bilinear"
    ) -> Iterator[NDArray[np.uint8]]:
        """Decoded batches, uint8 [b, H, W, n_channels]; `size`: side of the square to resize to, None keeps `shape`.

        Raises BadInput naming the row for an image that cannot be decoded, is larger than 4096 x 4096, or (with `size` None)
        has another shape than the card's.
        """
        for start in range(0, len(self), batch_size):
            rows = range(start, min(start + batch_size, len(self)))
            yield np.stack([self._decoded(row, size, n_channels, interpolation) for row in rows])

    def digest(self) -> str:
        """SHA-256 over the content of every row, in order: the address of whatever is computed from these images."""
        content = sha256()
        if isinstance(self.content, np.ndarray):
            content.update(repr(self.content.shape).encode())
            content.update(np.ascontiguousarray(self.content).data)
        else:
            for row in self.content:
                content.update(len(row).to_bytes(8, "little"))
                content.update(row)
        return content.hexdigest()

    def _decoded(self, row: int, size: int | None, n_channels: int, interpolation: Interpolation) -> NDArray[np.uint8]:
        if isinstance(self.content, np.ndarray):
            pixels = self.content[row]
            if size is None and pixels.shape[2] == n_channels:
                return pixels
            image = Image.fromarray(pixels[:, :, 0] if pixels.shape[2] == 1 else pixels)
        else:
            image = open_image(self.content[row], f"image {row}")
        mode = "L" if n_channels == 1 else "RGB"
        if image.mode != mode:
            image = image.convert(mode)
        if size is not None and image.size != (size, size):
            image = image.resize((size, size), _FILTERS[interpolation])
        pixels = np.asarray(image, dtype=np.uint8).reshape(image.height, image.width, n_channels)
        if size is None and self.shape is not None and pixels.shape[:2] != self.shape[:2]:
            raise BadInput(f"image {row}", f"{image.width}x{image.height}", f"must be {self.shape[1]}x{self.shape[0]}")
        return pixels


def open_image(encoded: bytes, field: str) -> Image.Image:
    """The decoded image. Raises BadInput naming `field` for damaged files and for more than 4096 x 4096 pixels."""
    try:
        image = Image.open(io.BytesIO(encoded))
        if image.width * image.height > MAX_PIXELS:
            raise BadInput(field, f"{image.width}x{image.height}", "must have at most 4096x4096 pixels")
        image.load()
    except BadInput:
        raise
    except Exception as error:  # Pillow's decoders raise many kinds; to the reader all mean one thing
        raise BadInput(field, f"{len(encoded)} bytes", "must be an image file that can be decoded") from error
    return image
