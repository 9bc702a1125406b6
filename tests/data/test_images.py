"""Images: decoding is exact, what is damaged or huge is refused in one sentence, digests tell rows apart."""

from __future__ import annotations

import io
import struct
import warnings
import zlib

import numpy as np
import pytest
from PIL import Image

from dpcl_core.data import dataset
from dpcl_core.data.dataset import Images, open_image
from dpcl_core.errors import BadInput
from tests.data.making import picture
from tests.support.asserting import refuses

RANDOM = np.random.default_rng(5).integers(0, 256, size=(5, 6, 4, 3), dtype=np.uint8)


def saved(image: Image.Image | np.ndarray, kind: str = "PNG", **settings: object) -> bytes:
    file = io.BytesIO()
    (image if isinstance(image, Image.Image) else Image.fromarray(image)).save(file, kind, **settings)
    return file.getvalue()


def encoded(pixels: np.ndarray, kind: str = "PNG") -> bytes:
    return saved(pixels.squeeze(), kind, **({"lossless": True} if kind == "WEBP" else {}))


def header_only(width: int, height: int) -> bytes:
    """A PNG that announces a size and holds one byte of it: what a decompression bomb looks like from outside."""
    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return png((b"IHDR", head), (b"IDAT", zlib.compress(b"\0")), (b"IEND", b""))


def png(*chunks: tuple[bytes, bytes]) -> bytes:
    """A PNG of these chunks, each a kind and its content, with their checksums."""
    packed = (
        struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
        for kind, content in chunks
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(packed)


@pytest.mark.parametrize("kind", ["PNG", "WEBP", "BMP"])
def test_encoded_and_raw_images_decode_to_the_same_pixels(kind: str) -> None:
    raw, files = Images(RANDOM, (6, 4, 3)), Images([encoded(image, kind) for image in RANDOM], (6, 4, 3))
    for batches in (raw.batches(None, 3, 2), files.batches(None, 3, 2)):
        found = list(batches)
        assert [len(batch) for batch in found] == [2, 2, 1]
        np.testing.assert_array_equal(np.concatenate(found), RANDOM)


def test_grey_becomes_three_equal_channels_and_colour_becomes_luma() -> None:
    grey = RANDOM[:, :, :, :1]
    (as_colour,) = Images(grey, (6, 4, 1)).batches(None, 3, 10)
    np.testing.assert_array_equal(as_colour, np.repeat(grey, 3, axis=3))
    (as_grey,) = Images(RANDOM, (6, 4, 3)).batches(None, 1, 10)
    luma = RANDOM @ np.array([0.299, 0.587, 0.114])
    assert as_grey.shape == (5, 6, 4, 1)
    assert np.abs(as_grey[..., 0] - luma).max() <= 1


def test_resizing_gives_squares_and_keeps_a_constant_image_constant() -> None:
    (batch,) = Images([picture(77, (4, 9)), picture(200, (30, 8))], None).batches(16, 1, 10, "bicubic")
    assert (batch.shape, np.unique(batch[0]).tolist()) == ((2, 16, 16, 1), [77])
    assert np.unique(batch[1]).tolist() == [200]


def test_take_keeps_rows_and_their_origins() -> None:
    images = Images([picture(i) for i in range(4)], (4, 4, 1), [f"row {i}" for i in range(4)]).take(np.array([3, 1]))
    (batch,) = images.batches(None, 1, 10)
    assert (batch[:, 0, 0, 0].tolist(), images.origins) == ([3, 1], ["row 3", "row 1"])


def test_digest_changes_with_one_pixel_the_order_and_where_rows_end() -> None:
    changed = RANDOM.copy()
    changed[4, 5, 3, 2] ^= 1
    digests = {
        Images(RANDOM, None).digest(), Images(changed, None).digest(), Images(RANDOM[::-1], None).digest(),
        Images(RANDOM.reshape(5, 4, 6, 3), None).digest(), Images([b"ab", b"c"], None).digest(),
        Images([b"a", b"bc"], None).digest(), Images([b"abc"], None).digest(),
    }  # fmt: skip
    assert len(digests) == 7
    assert Images(RANDOM.copy(), (6, 4, 3), ["x"] * 5).digest() == Images(RANDOM, None).digest()


def test_encoding_raw_pixels_loses_nothing() -> None:
    for raw in (Images(RANDOM, None), Images(RANDOM[..., :1], None)):
        files = Images(raw.encoded(), None)
        n_channels = raw.content.shape[3]  # type: ignore[union-attr]
        np.testing.assert_array_equal(next(files.batches(None, n_channels, 10)), raw.content)


EPS, TGA = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", picture(kind="TGA")  # which Pillow reads


@pytest.mark.parametrize("damaged", [b"", b"no image", picture()[:40], EPS, TGA])
def test_what_cannot_be_decoded_is_refused_naming_the_row(damaged: bytes) -> None:
    images = Images([picture(), damaged], (4, 4, 1), ["train row 0", "train row 1"])
    refuses(r"^train row 1 = \d+ bytes: must be an image file that can be decoded", list, images.batches(None, 1, 10))


@pytest.mark.parametrize("size", [(9_000, 12_000), (30_000, 30_000)])
def test_huge_images_are_refused_before_they_are_unpacked_and_without_a_warning(size: tuple[int, int]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        refuses(r"^image 7 = .*: must have at most 67,108,864 pixels$", lambda: open_image(header_only(*size), "image 7"))


@pytest.mark.parametrize("kind", ["JPEG", "PNG"])
def test_a_photograph_above_4096_pixels_a_side_is_shrunk_and_not_black(kind: str) -> None:
    shrunk = open_image(picture(200, (6000, 3000), "RGB", kind), "image 0")
    assert max(shrunk.size) <= 4096
    assert shrunk.width == pytest.approx(2 * shrunk.height, abs=1)
    assert abs(np.asarray(shrunk).mean() - 200) < 2, "JPEG rounds a grey by less than 2"


@pytest.mark.parametrize(("tag", "turned"), [(1, 0), (3, 2), (6, 1), (8, 3)])
def test_photographs_are_turned_as_their_tag_says(tag: int, turned: int) -> None:
    """A phone writes the pixels as its sensor lies; the tag says by how many quarters they are to be turned."""
    upright = np.tile(np.array([[0, 0, 255, 255]], np.uint8), (6, 1))
    stored, exif = np.rot90(upright, turned).copy(), Image.Exif()
    exif[0x0112] = tag
    np.testing.assert_array_equal(np.asarray(open_image(saved(stored, exif=exif), "image 0")), upright)


@pytest.mark.parametrize("mode", ["CMYK", "P", "I;16", "RGBA", "L", "1"])
def test_pictures_of_every_mode_keep_their_light(mode: str) -> None:
    plain = Image.fromarray(np.full((5, 4, 3), 128, np.uint8))
    if mode == "I;16":
        plain = Image.fromarray(np.full((5, 4), 128 << 8, np.uint16))
    elif mode == "1":
        plain = Image.fromarray(np.full((5, 4), 255, np.uint8)).convert("1")
    else:
        plain = plain.convert(mode)
    found = next(Images([saved(plain, "TIFF" if mode == "CMYK" else "PNG")], None).batches(4, 3, 1))
    assert abs(float(found.mean()) - (255 if mode == "1" else 128)) <= 2, "a palette and CMYK round by up to 2"


def test_the_largest_allowed_image_passes() -> None:
    assert open_image(picture(9, (4096, 4096)), "image 0").size == (4096, 4096)


def test_sixteen_bits_are_scaled_not_clipped() -> None:
    content = saved(np.array([[0, 255, 256, 32768, 65535]], dtype=np.uint16))
    assert np.asarray(open_image(content, "image 0"))[0].tolist() == [0, 0, 1, 128, 255]


def test_floating_point_pictures_are_refused() -> None:
    refuses("must have 8 or 16 bits a channel", open_image, saved(np.zeros((2, 2), dtype=np.float32), "TIFF"), "image 0")


def test_transparent_pixels_are_white_whatever_lies_under_them() -> None:
    content = saved(np.array([[[9, 9, 9, 0], [10, 20, 30, 255]]], dtype=np.uint8))
    assert np.asarray(open_image(content, "image 0"))[0].tolist() == [[255, 255, 255], [10, 20, 30]]


def long_transparency() -> bytes:
    """A PNG of 256 colours with transparency for 300: Pillow loads it, and fails only when it converts it."""
    head, colours = struct.pack(">IIBBBBB", 16, 16, 8, 3, 0, 0, 0), (b"PLTE", b"\1\2\3" * 256)
    rows = zlib.compress((b"\0" + b"\1" * 16) * 16)
    return png((b"IHDR", head), colours, (b"tRNS", b"\xff" * 299 + b"\0"), (b"IDAT", rows), (b"IEND", b""))


def in_lab() -> bytes:
    """A TIFF in the colour space LAB, which Pillow does not convert to grey."""
    return saved(Image.new("LAB", (16, 16)), "TIFF")


@pytest.mark.parametrize(("odd", "channels"), [(long_transparency(), 1), (long_transparency(), 3), (in_lab(), 1)])
@pytest.mark.parametrize("size", [None, 8])
def test_a_picture_that_fails_in_conversion_is_refused_and_a_private_one_black(odd, channels, size):
    shape = (16, 16, channels)
    refuses("image 0", lambda: next(Images([odd], shape).batches(size, channels, 4)))
    (found,) = Images([picture(9, (16, 16)), odd], shape, is_private=True).batches(size, channels, 4)
    assert [np.unique(one).tolist() for one in found] == [[9], [0]]


def test_images_of_several_sizes_need_a_size() -> None:
    with pytest.raises(BadInput, match=r"^image 1 = 5x4 pixels: must be 4x4 like the others"):
        list(Images([picture(), picture(side=(5, 4))], None).batches(None, 1, 10))
    refuses(r"^image 0 = 4x4 pixels: must be 28x28", lambda: list(Images([picture()], (28, 28, 1)).batches(None, 1, 10)))


# What follows a picture in its file is dropped, and the picture stays as it was.


PIXELS = np.random.default_rng(0).integers(0, 256, (37, 53, 3), dtype=np.uint8)
TAIL = b"\xff\xd9IEND\x3b" + bytes(100_000)


def written(kind: str, **settings: object) -> bytes:
    image = Image.fromarray(PIXELS)
    return saved(image.quantize() if kind == "GIF" else image, kind, **settings)


WITH_THUMBNAIL = Image.Exif()
WITH_THUMBNAIL[0x010E] = "\xff\xd9 is where another picture ends"

FILES = {
    "png": written("PNG"), "jpeg": written("JPEG"), "progressive": written("JPEG", progressive=True, quality=100),
    "restarts": written("JPEG", restart_marker_blocks=1),
    "exif": written("JPEG", exif=WITH_THUMBNAIL.tobytes() + b"\xff\xd9\xff\xd9"),
    "comment": written("JPEG", comment=b"\xff\xd9" * 9), "gif": written("GIF"),
    "animated": written("GIF", save_all=True, append_images=[Image.fromarray(255 - PIXELS)], loop=0),
    "webp": written("WEBP", lossless=True),
}  # fmt: skip


@pytest.mark.parametrize("name", FILES)
def test_what_follows_a_picture_is_dropped_and_nothing_of_it(name: str) -> None:
    whole = FILES[name]
    assert (dataset.trimmed(whole), dataset.trimmed(whole + TAIL)) == (whole, whole)
    assert dataset.trimmed(whole + whole) == whole


@pytest.mark.parametrize("name", FILES)
def test_a_damaged_picture_stays_as_it_is(name: str) -> None:
    for length in (3, 12, 20, len(FILES[name]) // 2, len(FILES[name]) - 1):
        assert dataset.trimmed(FILES[name][:length]) == FILES[name][:length]


@pytest.mark.parametrize("kind", ["BMP", "TIFF", "PPM"])
def test_other_files_are_left_alone(kind: str) -> None:
    assert (dataset.trimmed(written(kind) + TAIL), dataset.trimmed(b"")) == (written(kind) + TAIL, b"")
