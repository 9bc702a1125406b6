"""A dataset in memory: images, sensor windows, texts or rows of numbers, labels, and a truthful title."""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Literal, Self

import numpy as np
from numpy.typing import NDArray

from dpcl_core.data.card import AXES, PICTURES
from dpcl_core.data.columns import Image, ImageOps
from dpcl_core.data.texts import Canary, Sentences, Texts, content_digest
from dpcl_core.errors import BadInput, instead_of

RATES = (5, 10, 20, 50)  # samples a second
STANDARD_GRAVITY = 9.80665  # m/s^2
# The smallest range of phones' accelerometers: a constant independent of the examples. In the two sets of the catalog fewer
# than 0.3 % of all values are beyond it.
RANGE = 2 * STANDARD_GRAVITY
_MOST_DEVIATIONS = 2.0


@dataclass(frozen=True, slots=True, eq=False)
class _Values:
    """Numbers float32 [n, ...] in [-1, 1], a row for each example."""

    values: NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.values)

    @property
    def shape(self) -> tuple[int, ...]:
        """The public form of every row: the samples and axes of a window, or the number of values."""
        return self.values.shape[1:]

    def take(self, rows: NDArray[np.int64]) -> Self:
        """The values of these rows, in this order."""
        return replace(self, values=self.values[rows])

    def digest(self) -> str:
        """SHA-256 over the content of every row, in order: the cache key of results computed from these rows."""
        found = sha256(type(self).__name__.lower().encode())
        found.update(np.ascontiguousarray(self.values).data)
        return found.hexdigest()


@dataclass(frozen=True, slots=True, eq=False)
class Windows(_Values):
    """Sensor windows: values float32 [n, 100 samples, 3 axes] in [-1, 1]."""


@dataclass(frozen=True, slots=True, eq=False)
class Vectors(_Values):
    """Features of a table's rows, or precomputed embeddings: values float32 [n, K] in [-1, 1]; K is public.

    `encoding`: how they were made of columns, where they were: a document that `table_features.read_encoding` takes.
    """

    encoding: str | None = None


def in_range(accelerations: NDArray[np.float32]) -> Windows:
    """Accelerations [n, 100, 3] in m/s^2 divided by twice the standard gravity and clipped to [-1, 1].

    Uses no statistic of the data, so it costs no privacy.
    """
    return Windows(np.clip(accelerations / np.float32(RANGE), -1, 1).astype(np.float32))


def z_scored(train: NDArray[np.float32], test: NDArray[np.float32]) -> tuple[Windows, Windows]:
    """Both parts in units of two standard deviations from the mean of each axis, clipped to [-1, 1].

    As published by Lai et al. for HARW: mean and variance of the training part only, clipped to [-2, 2], then
    2 [(x - min) / (max - min) - 1/2] = x / 2. A constant axis becomes zeros. These are statistics of private data that no
    ledger accounts for.
    """
    flat = train.reshape(-1, AXES).astype(np.float64)
    mean, deviation = flat.mean(axis=0), flat.std(axis=0)
    units = np.where(deviation > 0, deviation, np.inf)
    pair = [np.clip((part - mean) / units, -_MOST_DEVIATIONS, _MOST_DEVIATIONS) / _MOST_DEVIATIONS for part in (train, test)]
    return Windows(pair[0].astype(np.float32)), Windows(pair[1].astype(np.float32))


# Images, encoded or raw, decoded in batches to the size that a backbone requires.


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
        side = (size, size) if size is not None else self.shape and self.shape[:2]
        try:
            decoded = self._decoded(row, size, n_channels, interpolation)
        except Exception as error:  # whatever Pillow raises: whether a run ends must not depend on one private picture
            if not self.is_private or side is None or isinstance(error, MemoryError):
                raise
        else:
            if not self.is_private or side in (None, decoded.shape[:2]):
                return decoded
        return np.zeros((*side, n_channels), np.uint8)

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
            wrong = BadInput(self._origin(row), f"mode {image.mode}", "must be grey or RGB")  # LAB has no way to grey
            with instead_of(ValueError, say=wrong):
                image = image.convert(mode)
        if size is not None and image.size != (size, size):
            image = image.resize((size, size), Image.Resampling[interpolation.upper()])
        return np.asarray(image, dtype=np.uint8).reshape(image.height, image.width, n_channels)

    def _origin(self, row: int) -> str:
        return f"image {row}" if self.origins is None else self.origins[row]


def open_image(encoded: bytes, field: str) -> Image.Image:
    """The decoded image, 8 bits a channel, turned as its EXIF tag says; one with a side above 4096 is shrunk to that.

    Raises BadInput naming `field` for a damaged file, and one of more pixels than memory should hold.
    """
    allowed = "must be an image file that can be decoded (PNG, JPEG, WebP, BMP, GIF, TIFF or PPM)"
    damaged = BadInput(field, f"{len(encoded)} bytes", allowed)
    huge = BadInput(field, "millions of pixels", f"must have at most {MAX_PIXELS:,} pixels")
    # Pillow's decoders raise many kinds of error, all with the same meaning for the user.
    with instead_of(Exception, say=damaged), instead_of(Image.DecompressionBombError, say=huge), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Pillow warns of what is refused below (huge sizes) or harmless (metadata)
        image = Image.open(io.BytesIO(encoded), formats=FORMATS)
        if max(image.size) > MAX_SIDE:
            if image.width * image.height > MAX_PIXELS:
                raise BadInput(field, f"{image.width}x{image.height} pixels", huge.allowed)
            image.draft(None, (MAX_SIDE, MAX_SIDE))  # JPEG: decoded at a half, a quarter or an eighth of its size
        image.load()
        if max(image.size) > MAX_SIDE:
            image.thumbnail((MAX_SIDE, MAX_SIDE))
        return _plain(ImageOps.exif_transpose(image), field)


def _plain(image: Image.Image, field: str) -> Image.Image:
    """The image with 8 bits a channel and no transparency. Raises BadInput, or what Pillow raises for an odd file."""
    if image.mode.startswith("I;16"):  # Pillow would clip 16 bits to white instead of scaling them
        return Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
    if image.mode in ("I", "F"):
        raise BadInput(field, f"mode {image.mode}", "must have 8 or 16 bits a channel")
    if image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info:
        # The colour of a transparent pixel is arbitrary.
        return Image.alpha_composite(Image.new("RGBA", image.size, "white"), image.convert("RGBA")).convert("RGB")
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
    with suppress(IndexError, ValueError):
        return content[: _end(content)]
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


# The whole: examples of every kind, labels, sources and a title.


Content = Images | Windows | Texts | Sentences | Vectors  # the examples before a backbone reads them


@dataclass(frozen=True, slots=True)
class Form:
    """Layout of an example's values in a row of a table: all of it public.

    `shape`: (height, width, channels) of a picture, (samples, axes) of a sensor's window, (values,) of a row of numbers; its
    product is a row's length.
    `low` and `high`: the range of all values. `encoding`: how columns become a row of numbers, as in `Vectors`.
    """

    shape: tuple[int, ...]
    low: float
    high: float
    encoding: str | None = None

    @property
    def planes(self) -> tuple[int, int, int]:
        """(height, width, channels) as networks of pictures read it: a window is a grey picture, a row of numbers one pixel
        with a channel for each."""
        if len(self.shape) == 1:
            return 1, 1, self.shape[0]
        height, width, n_channels = (*self.shape, 1)[:3]
        return height, width, n_channels


@dataclass(frozen=True, slots=True)
class Source:
    """A part of the dataset: a member set of a combined one, or a style. `classes`: the public list of its classes."""

    name: str
    classes: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Split:
    """Examples of one split, row by row: pictures, windows, texts or rows of numbers, labels int64 [n], and their sources.

    `sources` (int64 [n], or None) indexes `Dataset.sources`. `keys` (uint64 [n], or None for public examples): the keys of
    public coins.
    """

    images: Content
    labels: NDArray[np.int64]
    sources: NDArray[np.int64] | None = None
    keys: NDArray[np.uint64] | None = None

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, rows: NDArray[np.int64]) -> Split:
        """The examples of these rows, in this order."""
        sources = None if self.sources is None else self.sources[rows]
        return Split(self.images.take(rows), self.labels[rows], sources, None if self.keys is None else self.keys[rows])


@dataclass(frozen=True, slots=True, eq=False)
class Dataset:
    """A loaded dataset. `title` names it truthfully: a subset or a stand-in says so.

    Labels index `classes`, all of which are in the test part, and then `undeclared`: other labels of training examples,
    private candidates for a list learned under DP. `sources` is empty where examples have no source.
    `canaries`: the secrets planted among the training texts, with controls that were not planted. `n_people`: public nominal
    number of training examples, which delta is compared with.
    """

    name: str
    title: str
    classes: tuple[str, ...]
    train: Split
    test: Split
    sources: tuple[Source, ...] = ()
    canaries: tuple[Canary, ...] = ()
    n_people: int = 0
    undeclared: tuple[str, ...] = ()
