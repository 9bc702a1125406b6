"""Images of one split, encoded or raw, decoded in batches to the size that a backbone requires."""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from dpcl_core.data.card import PICTURES
from dpcl_core.data.columns import Late
from dpcl_core.data.texts import content_digest
from dpcl_core.errors import BadInput

if TYPE_CHECKING:
    from PIL import Image, ImageOps
else:
    Image, ImageOps = Late("PIL.Image"), Late("PIL.ImageOps")

MAX_SIDE = 4096
MAX_PIXELS = 2**26  # 67 megapixels, more than photographs have
AS_READ = (  # said wherever pictures come in
    f"Photographs are turned upright, and pictures above {MAX_SIDE:,} pixels a side are shrunk. Other files than "
    f"{', '.join(one.removeprefix('.') for one in PICTURES)} are left out, HEIC among them: save those as JPEG."
)
# No format whose decoder runs another program or a script (EPS does); without a list Pillow would try all its formats.
FORMATS = ("PNG", "JPEG", "WEBP", "BMP", "GIF", "TIFF", "PPM")
Interpolation = Literal["bilinear", "bicubic"]


@dataclass(frozen=True, slots=True, eq=False)
class Images:
    """Either encoded files (one `bytes` per row) or one raw uint8 array [n, H, W, C] with C in {1, 3}.

    `shape` is the public (height, width, channels) of the dataset's card, or None where images differ in size. `origins`:
    the file and row of each image, for error messages. `is_private`: an unusable picture becomes a black one, without an
    error message, which would be a release.
    """

    content: Sequence[bytes] | NDArray[np.uint8]
    shape: tuple[int, int, int] | None
    origins: Sequence[str] | None = None
    is_private: bool = False

    def __len__(self) -> int:
        return len(self.content)

    def take(self, rows: NDArray[np.int64]) -> Images:
        """The images of these rows, in this order."""
        origins = None if self.origins is None else [self.origins[row] for row in rows]
        content = self.content[rows] if isinstance(self.content, np.ndarray) else [self.content[row] for row in rows]
        return Images(content, self.shape, origins, self.is_private)

    def batches(
        self, size: int | None, n_channels: Literal[1, 3], batch_size: int, interpolation: Interpolation = "bilinear"
    ) -> Iterator[NDArray[np.uint8]]:
        """Decoded batches, uint8 [b, H, W, n_channels]; `size`: side of the square to resize to, None keeps `shape`.

        Raises BadInput naming the image for one that cannot be decoded, or (with `size` None)
        has another size than the card's or, without a card, than the first image. Private ones are black then.
        """
        side = self.shape[:2] if self.shape is not None else None
        for start in range(0, len(self), batch_size):
            rows = range(start, min(start + batch_size, len(self)))
            pixels = [self._decoded_or_black(row, size, n_channels, interpolation) for row in rows]
            side = side or (pixels[0].shape[0], pixels[0].shape[1])
            for row, (height, width, _) in enumerate([one.shape for one in pixels] if size is None else (), start):
                if (height, width) != side:
                    repair = "pictures of several sizes need a backbone that resizes them"
                    allowed = f"must be {side[1]}x{side[0]} like the others; {repair}"
                    raise BadInput(self._origin(row), f"{width}x{height} pixels", allowed)
            yield np.stack(pixels)

    def digest(self) -> str:
        """SHA-256 over the content of every row, in order: the cache key of results computed from these images."""
        if not isinstance(self.content, np.ndarray):
            return content_digest(b"", self.content)
        content = sha256(repr(self.content.shape).encode())
        content.update(np.ascontiguousarray(self.content).data)
        return content.hexdigest()

    def contents(self) -> list[bytes]:
        """The content of each row, with its shape where it is raw: two rows of one content are the same picture."""
        if not isinstance(self.content, np.ndarray):
            return list(self.content)
        shape = repr(self.content.shape[1:]).encode()
        return [shape + row.tobytes() for row in self.content]

    def encoded(self) -> Sequence[bytes]:
        """One image file per row; raw pixels become PNG, which is lossless."""
        if not isinstance(self.content, np.ndarray):
            return self.content
        files = [io.BytesIO() for _ in self.content]
        for file, pixels in zip(files, self.content, strict=True):
            _picture(pixels).save(file, format="PNG")
        return [file.getvalue() for file in files]

    def _decoded_or_black(
        self, row: int, size: int | None, n_channels: Literal[1, 3], interpolation: Interpolation
    ) -> NDArray[np.uint8]:
        """A decoded image; a black one for an unusable private image."""
        if not self.is_private:
            return self._decoded(row, size, n_channels, interpolation)
        wanted = None if self.shape is None else self.shape[:2]
        try:
            decoded = self._decoded(row, size, n_channels, interpolation)
            if size is not None or wanted in (None, decoded.shape[:2]):
                return decoded
        except MemoryError:
            raise
        except Exception:  # whatever Pillow raises: whether a run ends must not depend on one private picture
            if size is None and wanted is None:
                raise
        height, width = (size, size) if size is not None else wanted or (1, 1)
        return np.zeros((height, width, n_channels), np.uint8)

    def _decoded(self, row: int, size: int | None, n_channels: int, interpolation: Interpolation) -> NDArray[np.uint8]:
        if isinstance(self.content, np.ndarray):
            pixels: NDArray[np.uint8] = self.content[row]
            if pixels.shape[2] == n_channels and (size is None or pixels.shape[:2] == (size, size)):
                return pixels
            image = _picture(pixels)
        else:
            image = open_image(self.content[row], self._origin(row))
        mode = "L" if n_channels == 1 else "RGB"
        if image.mode != mode:
            try:
                image = image.convert(mode)
            except ValueError as error:  # LAB has no way to grey
                raise BadInput(self._origin(row), f"mode {image.mode}", "must be grey or RGB") from error
        if size is not None and image.size != (size, size):
            image = image.resize((size, size), Image.Resampling[interpolation.upper()])
        return np.asarray(image, dtype=np.uint8).reshape(image.height, image.width, n_channels)

    def _origin(self, row: int) -> str:
        return f"image {row}" if self.origins is None else self.origins[row]


def open_image(encoded: bytes, field: str) -> Image.Image:
    """The decoded image, 8 bits a channel, turned as its EXIF tag says; one with a side above 4096 is shrunk to that.

    Raises BadInput naming `field` for a damaged file, and one of more pixels than memory should hold.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Pillow warns of what is refused below (huge sizes) or harmless (metadata)
            image = Image.open(io.BytesIO(encoded), formats=FORMATS)
            if max(image.size) > MAX_SIDE:
                if image.width * image.height > MAX_PIXELS:
                    raise BadInput(field, f"{image.width}x{image.height} pixels", f"must have at most {MAX_PIXELS:,} pixels")
                image.draft(None, (MAX_SIDE, MAX_SIDE))  # JPEG: decoded at a half, a quarter or an eighth of its size
            image.load()
            if max(image.size) > MAX_SIDE:
                image.thumbnail((MAX_SIDE, MAX_SIDE))
            return _plain(ImageOps.exif_transpose(image), field)
    except (BadInput, MemoryError):
        raise
    except Image.DecompressionBombError as error:
        raise BadInput(field, "millions of pixels", f"must have at most {MAX_PIXELS:,} pixels") from error
    except Exception as error:  # Pillow's decoders raise many kinds of error, all with the same meaning for the user
        allowed = "must be an image file that can be decoded (PNG, JPEG, WebP, BMP, GIF, TIFF or PPM)"
        raise BadInput(field, f"{len(encoded)} bytes", allowed) from error


def _plain(image: Image.Image, field: str) -> Image.Image:
    """The image with 8 bits a channel and no transparency. Raises BadInput, or what Pillow raises for an odd file."""
    if image.mode.startswith("I;16"):  # Pillow would clip 16 bits to white instead of scaling them
        return Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
    if image.mode in ("I", "F"):
        raise BadInput(field, f"mode {image.mode}", "must have 8 or 16 bits a channel")
    if image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info:
        white = Image.new("RGBA", image.size, "white")  # the colour of a transparent pixel is arbitrary
        return Image.alpha_composite(white, image.convert("RGBA")).convert("RGB")
    return image


def _picture(pixels: NDArray[np.uint8]) -> Image.Image:
    return Image.fromarray(pixels[:, :, 0] if pixels.shape[2] == 1 else pixels)


# Where a picture's file ends: what follows, such as a phone's film or megabytes of zeros, is no part of the picture.
#
# Found from that file alone, whatever the others are. For TIFF, BMP and PPM, and for what is damaged, that is the whole
# file.


_PNG = b"\x89PNG\r\n\x1a\n"
_NO_LENGTH = (0x01, *range(0xD0, 0xD9))  # markers of JPEG that stand alone


def trimmed(content: bytes) -> bytes:
    """The file up to the end of its picture."""
    try:
        return content[: _end(content)]
    except (IndexError, ValueError):
        return content


def _end(content: bytes) -> int:
    """The first byte that is no part of the picture. Raises IndexError or ValueError for a damaged one."""
    if content.startswith(_PNG):
        at, kind = len(_PNG), b""
        while kind != b"IEND":
            kind = content[at + 4 : at + 8]
            if len(kind) < 4:
                raise IndexError
            at += 12 + int.from_bytes(content[at : at + 4])  # length, kind and sum beside the data
        return at
    if content.startswith(b"\xff\xd8"):
        return _jpeg_end(content)
    if content.startswith((b"GIF87a", b"GIF89a")):
        return _gif_end(content)
    is_webp = content.startswith(b"RIFF") and content[8:12] == b"WEBP"
    return 8 + int.from_bytes(content[4:8], "little") if is_webp else len(content)


def _jpeg_end(content: bytes) -> int:
    """In a scan 0xFF stands before 0x00 or a marker that stands alone; elsewhere segments say how long they are."""
    at = 2
    while True:
        at = content.index(b"\xff", at)
        while (marker := content[at]) == 0xFF:  # any number of them may fill up
            at += 1
        at += 1
        if marker == 0xD9:  # the end
            return at
        if marker != 0 and marker not in _NO_LENGTH:
            at += int.from_bytes(content[at : at + 2])


def _gif_end(content: bytes) -> int:
    at = 13 + _colours(content[10])
    while (kind := content[at]) != 0x3B:
        if kind == 0x2C:  # a picture: its place, size and colours, and the size of its codes
            at += 11 + _colours(content[at + 9])
        elif kind == 0x21:  # an extension
            at += 2
        else:
            raise ValueError
        while size := content[at]:
            at += 1 + size
        at += 1
    return at + 1


def _colours(flags: int) -> int:
    """Bytes of a table of colours."""
    return 3 * 2 ** (1 + (flags & 7)) if flags & 0x80 else 0
