"""Anchors: public sentences that describe distributions of texts, from Wikipedia if present, else synthetic ones."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpcl_core import paths
from dpcl_core.data import arrow, sheets
from dpcl_core.data.arrow import pq
from dpcl_core.data.dataset import Content
from dpcl_core.data.texts import Sentences, Texts
from dpcl_core.errors import BadInput

MOST = 2_000
FOLDER, FILE = "anchors_wikipedia", "anchors.parquet"
_SEED = 20_250_919  # a public constant: the same sentences and words in every run
_READ = 500  # sentences that words are taken from, for tagged data
_WORDS = 4  # taken from each of them


@dataclass(frozen=True, slots=True, eq=False)
class Anchors:
    """Public sentences. `rows` int64 [p], p <= 2,000: the rows whose features are used; `title` names them truthfully."""

    content: Content
    rows: NDArray[np.int64]
    title: str


def public(*, is_tagged: bool = False) -> Anchors:
    """The public sentences; with `is_tagged`, four words from each of 500 sentences instead of whole sentences.

    Raises BadInput for a file without sentences.
    """
    strings, title = _sentences()
    if not is_tagged:
        return Anchors(Texts(strings), np.arange(len(strings), dtype=np.int64), f"{len(strings):,} {title}")
    words = [tuple(string.split()) for string in strings[:_READ]]
    random = np.random.default_rng(_SEED)
    lengths = np.array([len(one) for one in words])
    chosen = [first + random.permutation(n)[:_WORDS] for first, n in zip(np.cumsum(lengths) - lengths, lengths, strict=True)]
    rows = np.sort(np.concatenate(chosen)).astype(np.int64)
    return Anchors(Sentences(words), rows, f"{len(rows):,} words of {len(words):,} {title}")


def _sentences() -> tuple[list[str], str]:
    folder = paths.data_dir()
    path = None if folder is None else paths.inside(folder / FOLDER, FILE, "anchors")
    if path is None or not path.is_file():
        from dpcl_core.data import synthetic  # the generator of texts is slow to load, and only this needs it

        return list(synthetic.companion(MOST, _SEED).strings), "invented texts of this project's public corpus"
    with sheets.readable(path, FILE):
        table = pq.read_table(path)
    if "text" not in table.column_names or not arrow.is_text(table.schema.field("text").type):
        raise BadInput(FILE, ", ".join(table.column_names), "must have a column text of public sentences")
    strings = [string for string in table["text"].to_pylist() if string and string.strip()]
    if not strings:
        raise BadInput(FILE, "no sentences", "must hold at least one public sentence")
    return strings[:MOST], "sentences of the English Wikipedia"
