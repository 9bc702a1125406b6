"""Small datasets on disk, made for one test each."""

import io
import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

from dpcl_core.data.load import load_dataset
from dpcl_core.errors import BadInput
from dpcl_core.spec import DataSpec
from tests.support.asserting import refusal_of


def picture(value: int = 0, side: tuple[int, int] = (4, 4), mode: str = "L", kind: str = "PNG") -> bytes:
    """An image file of one colour."""
    file = io.BytesIO()
    Image.new(mode, side, value if mode == "L" else (value,) * 3).save(file, kind)
    return file.getvalue()


def npz(**arrays: object) -> bytes:
    """A file of these arrays."""
    file = io.BytesIO()
    np.savez(file, **arrays)  # type: ignore[arg-type]
    return file.getvalue()


def zipped(members: Mapping[str, bytes]) -> bytes:
    """An archive of these files."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return file.getvalue()


def put(path: Path, content: str | bytes) -> Path:
    """The path of a file that now has this content."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def write(folder: Path, split: str, **columns: object) -> Path:
    """A parquet file of these columns; lists become what Arrow makes of them."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{split}.parquet"
    pq.write_table(pa.table(dict(columns)), path)
    return path


def write_both(folder: Path, **columns: object) -> None:
    """A training and a test part of the same columns."""
    for split in ("train", "test"):
        write(folder, split, **columns)


def write_pair(folder: Path, train: list[int], test: list[int], **more: list[object]) -> None:
    """Train and test of these labels; image i of a split has the grey value i. `more`: values by label."""
    for split, labels in (("train", train), ("test", test)):
        extra = {name: [values[label] for label in labels] for name, values in more.items()}
        write(folder, split, image=[picture(i) for i in range(len(labels))], label=labels, **extra)


def write_images(folder: Path, classes: dict[str, list[int]]) -> None:
    """A folder of image files for each class, one file of one grey value each."""
    for name, values in classes.items():
        for value in values:
            put(folder / name / f"{value:03d}.png", picture(value))


def refusal(dataset: str = "own:mine") -> BadInput:
    """The refusal of a dataset."""
    return refusal_of(load_dataset, DataSpec(dataset=dataset))


def location(error: BadInput) -> str:
    """Where a refusal says that something is wrong, and what stands there."""
    return f"{error.field} = {error.value}"
