"""What follows a picture in its file is dropped, and the picture stays as it was."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image

from dpcl_core.data import images

PIXELS = np.random.default_rng(0).integers(0, 256, (37, 53, 3), dtype=np.uint8)
TAIL = b"\xff\xd9IEND\x3b" + bytes(100_000)


def encoded(kind: str, **settings: object) -> bytes:
    image, file = Image.fromarray(PIXELS), io.BytesIO()
    if kind == "GIF":
        image = image.quantize()
    image.save(file, kind, **settings)
    return file.getvalue()


WITH_THUMBNAIL = Image.Exif()
WITH_THUMBNAIL[0x010E] = "\xff\xd9 is where another picture ends"

FILES = {
    "png": encoded("PNG"),
    "jpeg": encoded("JPEG"),
    "progressive": encoded("JPEG", progressive=True, quality=100),
    "restarts": encoded("JPEG", restart_marker_blocks=1),
    "exif": encoded("JPEG", exif=WITH_THUMBNAIL.tobytes() + b"\xff\xd9\xff\xd9"),
    "comment": encoded("JPEG", comment=b"\xff\xd9" * 9),
    "gif": encoded("GIF"),
    "animated": encoded("GIF", save_all=True, append_images=[Image.fromarray(255 - PIXELS)], loop=0),
    "webp": encoded("WEBP", lossless=True),
}


@pytest.mark.parametrize("name", FILES)
def test_what_follows_a_picture_is_dropped_and_nothing_of_it(name: str) -> None:
    whole = FILES[name]
    assert images.trimmed(whole) == whole
    assert images.trimmed(whole + TAIL) == whole
    assert images.trimmed(whole + whole) == whole


@pytest.mark.parametrize("name", FILES)
def test_a_damaged_picture_stays_as_it_is(name: str) -> None:
    for length in (3, 12, 20, len(FILES[name]) // 2, len(FILES[name]) - 1):
        assert images.trimmed(FILES[name][:length]) == FILES[name][:length]


@pytest.mark.parametrize("kind", ["BMP", "TIFF", "PPM"])
def test_other_files_are_left_alone(kind: str) -> None:
    assert images.trimmed(encoded(kind) + TAIL) == encoded(kind) + TAIL
    assert images.trimmed(b"") == b""
