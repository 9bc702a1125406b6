"""A process that reads texts with a big language model for a page, and the page's end of it, which loads no weights.

The process is this module, run with the model's name. One request a line on standard input, a JSON object; answers on
standard output, one a line. The process ends with its input, so it never outlives the app. It keeps no text.

    {"ask": "score", "texts": [...], "spans": [[[start, end, kind], ...], ...], "labels": [...], "tasks": [[...], ...]}
    {"ask": "read", "text": "...", "ratios": [...], "n_releases": 3}
"""

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter

from dpcl_core import paths
from dpcl_core.data.texts import Span, Texts
from dpcl_core.errors import BadInput, DataMissing
from dpcl_core.events import ScoredText

Document = Mapping[str, Any]
Decoded = tuple[tuple[str, ...], tuple[bool, ...]]
Table = tuple[NDArray[np.float32], float]  # clipped embeddings, and their clipping norm
_TEXTS = TypeAdapter(list[ScoredText])
_ENDED = "the process that reads with this model ended by itself; try again, with less open on this computer"


class ReaderEnded(Exception):
    """The process ended before it answered, or could not answer; the text says why."""


class TokenReader:
    """Reads texts with one model in a process of its own, started at the first question. One question at a time."""

    def __init__(self, backbone: str) -> None:
        self._backbone, self._lock = backbone, threading.Lock()
        self._process: subprocess.Popen[str] | None = None

    def scored(
        self,
        texts: Texts,
        labels: Sequence[str],
        tasks: Sequence[Sequence[str]] = (),
        done: Callable[[int], object] = lambda n_texts: None,
    ) -> list[ScoredText]:
        """Every text with its token scores; `tasks`: texts by whose counts Score2 is computed, empty: Score2 is 0.

        `done` hears how many texts have been read so far. Raises ReaderEnded.
        """
        spans = texts.spans if texts.spans is not None else [()] * len(texts)
        marked = [[(one.start, one.end, one.kind) for one in of_text] for of_text in spans]
        request = {"ask": "score", "texts": texts.strings, "spans": marked, "labels": labels, "tasks": tasks}
        return _TEXTS.validate_python(self._asked(request, done)["texts"])

    def read(self, text: str, ratios: Sequence[float], n_releases: int) -> Decoded | None:
        """Each token as its noisy embedding is read, and whether that is right; None if the text has other tokens here.

        `ratios`: σ / C of every token, 0 for no noise. Raises ReaderEnded.
        """
        found = self._asked({"ask": "read", "text": text, "ratios": ratios, "n_releases": n_releases})
        return None if found["tokens"] is None else (tuple(found["tokens"]), tuple(found["right"]))

    def close(self) -> None:
        """Ends the process, if there is one."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.communicate()

    def _asked(self, request: Document, done: Callable[[int], object] = lambda n_texts: None) -> Document:
        with self._lock:
            process = self._started()
            assert process.stdin is not None
            assert process.stdout is not None
            try:
                process.stdin.write(json.dumps(request) + "\n")
                process.stdin.flush()
                while line := process.stdout.readline():
                    answer: Document = json.loads(line)
                    if "done" not in answer:
                        break
                    done(answer["done"])
            except BaseException as error:  # a page drawn again stops here: its answer must not meet the next question
                self.close()
                if isinstance(error, OSError | json.JSONDecodeError):
                    raise ReaderEnded(_ENDED) from error
                raise
            if not line:
                self.close()
                raise ReaderEnded(_ENDED)
            if "error" in answer:
                raise ReaderEnded(answer["error"])
            return answer

    def _started(self) -> subprocess.Popen[str]:
        """The process; a new one if there is none or it has ended."""
        if self._process is None or self._process.poll() is not None:
            self.close()
            self._process = subprocess.Popen(
                [sys.executable, "-m", "dpcl_core.explorers.token_reader", self._backbone],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                cwd=Path(paths.__file__).resolve().parent.parent,
            )
        return self._process


# The process's end.


class Reader:
    """Answers requests with one model, which is loaded at the first one."""

    def __init__(self, backbone: str) -> None:
        self._backbone = backbone
        self._table: Table | None = None
        self._counted: tuple[object, NDArray[np.float64]] | None = None

    def answer(self, request: Document, out: TextIO) -> None:
        """Writes the answer, for scores after lines of progress. Raises BadInput and DataMissing where there is no model."""
        _say(out, self._scored(request, out) if request["ask"] == "score" else self._read(request))

    def _scored(self, request: Document, out: TextIO) -> Document:
        from dpcl_core.explorers import tokens
        from dpcl_core.methods.language import sensitivity

        commonness, tasks = None, request["tasks"]
        if tasks:
            if self._counted is None or self._counted[0] != tasks:  # the last one is kept
                counts = tokens.counted([Texts(list(task)) for task in tasks], self._backbone)
                self._counted = tasks, sensitivity.commonness(counts)
            commonness = self._counted[1]
        texts = Texts(request["texts"], [tuple(Span(*one) for one in marked) for marked in request["spans"]])
        told = lambda n_texts: _say(out, {"done": n_texts})  # noqa: E731
        found = tokens.scored(texts, commonness, request["labels"], backbone=self._backbone, done=told)
        return {"texts": [asdict(text) for text in found]}

    def _read(self, request: Document) -> Document:
        def table() -> Table:
            from dpcl_core.backbones import causal

            self._table = self._table or clipped(causal.embedding_table(causal.load(self._backbone, single=True)))
            return self._table

        found = decoded(self._backbone, table, request["text"], request["ratios"], request["n_releases"])
        return {"tokens": None} if found is None else {"tokens": found[0], "right": found[1]}


def clipped(embeddings: NDArray[np.floating]) -> Table:
    """A model's embeddings [size, d], clipped to their median norm, and this norm."""
    from dpcl_core.privacy import text_mechanisms

    clip_norm = float(np.median(np.linalg.norm(embeddings, axis=1)))
    return text_mechanisms.clipped(embeddings, clip_norm), clip_norm


def decoded(
    backbone: str, table: Callable[[], Table], text: str, ratios: Sequence[float], n_releases: int
) -> Decoded | None:
    """The nearest token of each noisy embedding of a text, and whether that is right; None as for `TokenReader.read`."""
    from dpcl_core.attacks.token_noise_games import nearest_rows, noisy_mean_rows
    from dpcl_core.backbones import plain_language
    from dpcl_core.privacy.noise import ReleaseNoise

    ready = plain_language.load_tokenizer(backbone)
    ids, _ = ready.encode(text)
    if len(ids) != len(ratios):
        return None
    rows, clip_norm = table()
    nearest, _ = nearest_rows(rows, noisy_mean_rows(rows[ids], np.array(ratios) * clip_norm, n_releases, ReleaseNoise()))
    return tuple(map(ready.shown, nearest.tolist())), tuple((nearest == np.array(ids)).tolist())


def _say(out: TextIO, found: Document) -> None:
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
