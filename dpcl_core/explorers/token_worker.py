"""A process that reads texts with a big language model for a page: scores of their tokens, and what noise leaves readable.

Run as a module with the model's name. One request a line on standard input, a JSON object; answers on standard output, one
a line. The process ends with its input, so it never outlives the app. It keeps no text. `token_reader` has the other end.

    {"ask": "score", "texts": [...], "spans": [[[start, end, kind], ...], ...], "labels": [...], "tasks": [[...], ...]}
    {"ask": "read", "text": "...", "ratios": [...], "n_releases": 3}
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TextIO, cast

import numpy as np
from numpy.typing import NDArray

from dpcl_core.attacks import token_noise_games
from dpcl_core.backbones import plain_language
from dpcl_core.data.texts import Span, Texts
from dpcl_core.errors import BadInput, DataMissing
from dpcl_core.explorers import tokens
from dpcl_core.methods.language import sensitivity
from dpcl_core.privacy.noise import ReleaseNoise
from dpcl_core.privacy.text_mechanisms import clipped

Request = Mapping[str, object]


class Reader:
    """Answers requests with one model, which is loaded at the first one."""

    def __init__(self, backbone: str) -> None:
        self._backbone = backbone
        self._rows: NDArray[np.float32] | None = None
        self._counted: tuple[object, NDArray[np.float64]] | None = None

    def answer(self, request: Request, out: TextIO) -> None:
        """Writes the answer, for scores after lines of progress. Raises BadInput and DataMissing where there is no model."""
        found = self._scored(request, out) if request["ask"] == "score" else self._read(request)
        _say(out, found)

    def _scored(self, request: Request, out: TextIO) -> Request:
        strings, spans = cast("list[str]", request["texts"]), cast("list[list[tuple[int, int, str]]]", request["spans"])
        texts = Texts(strings, [tuple(Span(*one) for one in marked) for marked in spans])
        commonness = self._commonness(cast("list[list[str]]", request["tasks"]))
        found = tokens.scored(
            texts,
            commonness,
            cast("list[str]", request["labels"]),
            backbone=self._backbone,
            done=lambda n_texts: _say(out, {"done": n_texts}),
        )
        return {"texts": [asdict(text) for text in found]}

    def _commonness(self, tasks: Sequence[Sequence[str]]) -> NDArray[np.float64] | None:
        """Score2 of every token by the counts in these tasks' texts; the last one is kept."""
        if not tasks:
            return None
        if self._counted is None or self._counted[0] != tasks:
            counts = tokens.counted([Texts(list(task)) for task in tasks], self._backbone)
            self._counted = tasks, sensitivity.commonness(counts)
        return self._counted[1]

    def _read(self, request: Request) -> Request:
        """The nearest token of each noisy embedding of a text; none if the text has other tokens in this model."""
        ids, _ = plain_language.load_tokenizer(self._backbone).encode(str(request["text"]))
        ratios, n_releases = np.array(request["ratios"], np.float64), int(str(request["n_releases"]))
        if len(ids) != len(ratios):
            return {"tokens": None}
        rows, clip_norm = self._table()
        seen = token_noise_games.noisy_mean_rows(rows[ids], ratios * clip_norm, n_releases, ReleaseNoise())
        nearest, _ = token_noise_games.nearest_rows(rows, seen)
        ready = plain_language.load_tokenizer(self._backbone)
        return {"tokens": [ready.shown(token) for token in nearest.tolist()], "right": (nearest == np.array(ids)).tolist()}

    def _table(self) -> tuple[NDArray[np.float32], float]:
        """The public table of embeddings, clipped to the median of its rows' norms, and that norm."""
        if self._rows is None:
            from dpcl_core.backbones import causal

            table = causal.embedding_table(causal.load(self._backbone, single=True))
            self._clip = float(np.median(np.linalg.norm(table, axis=1)))
            self._rows = clipped(table, self._clip)
        return self._rows, self._clip


def _say(out: TextIO, found: Request) -> None:
    out.write(json.dumps(found) + "\n")
    out.flush()


def main() -> None:
    """Answers until the input ends."""
    reader, out = Reader(sys.argv[1]), sys.stdout
    sys.stdout = sys.stderr  # what libraries print is no answer
    for line in sys.stdin:
        try:
            reader.answer(json.loads(line), out)
        except (BadInput, DataMissing) as error:
            _say(out, {"error": str(error)})


if __name__ == "__main__":
    main()
