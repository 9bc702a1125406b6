"""Files as people and attackers have them: one good file of each form, seeded mutations of it, and odd ones by name."""

import csv
import io
import json
import os
import random
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dpcl_core.data.card import Kind
from tests.data.making import npz, picture, zipped

N = 60
ROWS = [(str(row), f"number {row}", "ab"[row % 2]) for row in range(N)]
HEAD = ("size", "text", "label")


def _delimited(mark: str) -> bytes:
    file = io.StringIO()
    csv.writer(file, delimiter=mark, lineterminator="\n").writerows([HEAD, *ROWS])
    return file.getvalue().encode()


def _parquet(**columns: object) -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.table(columns), file)
    return file.getvalue()


LABELS = [label for _, _, label in ROWS]
_CONLL = "".join(
    f"{label}/x/1 0 0 Ada{row} - - - - - - (PER)\n{label}/x/1 0 1 slept - - - - - - *\n\n" for row, _, label in ROWS
)
_NUMBERS = np.random.default_rng(0).standard_normal((N, 5))
_JSON = "".join(json.dumps(dict(zip(HEAD, row, strict=True))) + "\n" for row in ROWS)
_WORDS = pa.array([["Ada", "slept"]] * N)
# A good file of each form, by its name and the kind of data that it holds.
GOOD: Mapping[tuple[str, Kind], bytes] = {
    ("a.csv", "text"): _delimited(","),
    ("a.tsv", "text"): _delimited("\t"),
    ("a.jsonl", "text"): _JSON.encode(),
    ("a.ndjson", "table"): _JSON.replace("text", "note").encode(),
    ("b.csv", "table"): _delimited(";").replace(b"text", b"note", 1),
    ("a.npz", "embedding"): npz(embeddings=_NUMBERS, labels=np.array(LABELS)),
    ("a.conll", "tagged"): _CONLL.encode(),
    ("a.zip", "image"): zipped({f"{label}/{row}.png": picture(int(row)) for row, _, label in ROWS}),
    ("b.zip", "image"): zipped({f"{label}/{row}.jpg": picture(int(row), (64, 48), kind="JPEG") for row, _, label in ROWS}),
    ("a.parquet", "text"): _parquet(text=[text for _, text, _ in ROWS], label=LABELS),
    ("b.parquet", "table"): _parquet(
        size=pa.array([None, 1.5] * (N // 2)), day=pa.array(range(N), pa.date32()), note=["x", None] * (N // 2), label=LABELS
    ),
    ("c.parquet", "embedding"): _parquet(embedding=_NUMBERS.tolist(), label=pa.array(LABELS).dictionary_encode()),
    ("d.parquet", "tagged"): _parquet(
        tokens=_WORDS, tags=pa.array([["B-PER", "O"]] * N), domain=LABELS, row=[f"{row}" for row, _, _ in ROWS]
    ),
}


def mutated(good: bytes, draw: random.Random) -> bytes:
    """The bytes with one to eight changes: bytes flipped, cut out, repeated, or odd ones put in."""
    content = bytearray(good)
    for _ in range(draw.randint(1, 8)):
        place = draw.randrange(len(content) + 1)
        match draw.randrange(5):
            case 0 if content:
                content[min(place, len(content) - 1)] ^= 1 << draw.randrange(8)
            case 1:
                del content[place : place + draw.randint(1, 200)]
            case 2:
                content[place:place] = content[place : place + draw.randint(1, 200)]
            case 3:
                content[place:place] = draw.choice([b"\0", b"\xff", b'"', b"\n", b",", b"{", b"9" * 400, b"\xed\xa0\x80"])
            case _:
                content = content[: max(1, place)]
    return bytes(content)


def _png_bomb(width: int) -> bytes:
    """A picture of 30,000 x 30,000 pixels or more in a few bytes."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = struct.pack(">IIBBBBB", width, 30_000, 1, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(bytes(10_000))) + chunk(b"IEND", b"")


def _parquet_bomb() -> bytes:
    """A million times the same text of 100,000 letters: 100 GB unpacked."""
    column = pa.DictionaryArray.from_arrays(pa.array(np.zeros(1_000_000, np.int32)), pa.array(["x" * 100_000]))
    return _parquet(text=column, label=pa.array(np.arange(1_000_000) % 2).cast(pa.string()))


def _twice() -> bytes:
    file = io.BytesIO()
    table = pa.Table.from_arrays([pa.array(["a"] * N), pa.array(LABELS), pa.array(LABELS)], ["text", "label", "label"])
    pq.write_table(table, file)
    return file.getvalue()


def _invalid_text() -> bytes:
    """Parquet whose texts are no UTF-8."""
    return _parquet(text=["secret%%%%%%"] * N, label=LABELS).replace(b"%%%%%%", b"\xff\xfe\xff\xfe\xff\xfe")


def _fake_npz() -> bytes:
    """An array whose header announces a terabyte."""
    good = io.BytesIO()
    np.lib.format.write_array_header_1_0(good, {"descr": "<f8", "fortran_order": False, "shape": (2**34, 8)})  # type: ignore[no-untyped-call]
    return zipped({"embeddings.npy": good.getvalue(), "labels.npy": good.getvalue()})


def _zip_bomb() -> bytes:
    """Sixty pictures, each announced as a gigabyte."""
    block = zlib.compress(bytes(2**20))
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for place in range(60):
            archive.writestr(f"a/{place}.png", block)
    announced = bytearray(file.getvalue())
    size, at = struct.pack("<I", len(block)), 0
    while (at := announced.find(b"PK\x01\x02", at)) >= 0:  # the size of each file in the archive's table of contents
        assert announced[at + 24 : at + 28] == size
        announced[at + 24 : at + 28] = struct.pack("<I", 2**30)
        at += 4
    return bytes(announced)


# Files by name whose use is refused, or whose odd rows are mapped; each with a function that gives its content.
ODD: Mapping[str, Callable[[], bytes]] = {
    "two labels.csv": lambda: b"text,label,label\na,b,c\n" * 9,
    "two labels.parquet": _twice,
    "two labels.jsonl": lambda: b'{"text": "a", "label": "b", "label": "c"}\n' * N,
    "long numbers.csv": lambda: ("text,label\n" + "".join(f"t{row},{'9' * 5000}{row % 2}\n" for row in range(N))).encode(),
    "long numbers.jsonl": lambda: "".join(f'{{"x": {"9" * 5000}, "label": {row % 2}}}\n' for row in range(N)).encode(),
    "broken texts.parquet": _invalid_text,
    "wide.csv": lambda: (",".join(f"c{place}" for place in range(300_000)) + "\n" + ",".join("1" * 300_000)).encode(),
    "wide.parquet": lambda: _parquet(**{f"c{place}": [1] for place in range(6000)}),
    "latin.csv": lambda: "text,labél\na,b\n".encode("latin-1"),
    "utf-16.csv": lambda: "text,label\na,b\n".encode("utf-16"),
    "formulas.csv": lambda: ("text,label\n" + "".join(f"=HYPERLINK(\"x{row}\"),@{row % 2}\n" for row in range(N))).encode(),
    "empty.csv": lambda: b"",
    "head.csv": lambda: b"text,label\n",
    "deep.jsonl": lambda: b"[" * 100_000,
    "nul.csv": lambda: b"text,label\n\0\0,\0\n" * N,
    "bomb.parquet": _parquet_bomb,
    "bomb.npz": _fake_npz,
    "bomb.zip": _zip_bomb,
    "up.zip": lambda: zipped({"../../a/1.png": picture(), "/etc/b/1.png": picture(), "c\\d/1.png": picture()}),
    "png bomb.zip": lambda: zipped({f"{'ab'[row % 2]}/{row}.png": _png_bomb(30_000 + row) for row in range(N)}),
    "word.docx": lambda: b"PK\x03\x04 no table",
}


def special_paths(folder: Path) -> Iterator[tuple[str, Path]]:
    """Paths that are no files: a pipe, links in a circle or outside, an empty folder, nothing."""
    pipe = folder / "pipe.csv"
    os.mkfifo(pipe)
    yield "a pipe", pipe
    for name, to in (("one.csv", "two.csv"), ("two.csv", "one.csv")):
        (folder / name).symlink_to(folder / to)
    yield "a circle", folder / "one.csv"
    yield "nothing", folder / "nothing.csv"
    (folder / "empty").mkdir()
    yield "an empty folder", folder / "empty"
    (folder / "linked" / "a").mkdir(parents=True)
    (folder / "linked" / "a" / "1.png").symlink_to("/etc/hostname")
    (folder / "linked" / "b").symlink_to(folder / "linked")
    yield "a folder of links", folder / "linked"
    yield "a device", Path("/dev/zero")
