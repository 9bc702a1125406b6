"""The page's end of `token_worker`: a process that reads with a big language model, started at the first question."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import cast

from pydantic import TypeAdapter

from dpcl_core import paths
from dpcl_core.data.texts import Texts
from dpcl_core.events import ScoredText

_TEXTS = TypeAdapter(list[ScoredText])
_ENDED = "the process that reads with this model ended by itself; try again, with less open on this computer"


class ReaderEnded(Exception):
    """The process ended before it answered, or could not answer; the text says why."""


class TokenReader:
    """Reads texts with one model in a process of its own, so that this process loads no weights. One question at a time."""

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
        request = {
            "ask": "score",
            "texts": list(texts.strings),
            "spans": marked,
            "labels": list(labels),
            "tasks": list(tasks),
        }
        found = self._asked(request, done)["texts"]
        return _TEXTS.validate_python(found)

    def read(self, text: str, ratios: Sequence[float], n_releases: int) -> tuple[tuple[str, ...], tuple[bool, ...]] | None:
        """Each token as its noisy embedding is read, and whether that is right; None if the text has other tokens here.

        `ratios`: σ / C of every token, 0 for no noise. Raises ReaderEnded.
        """
        found = self._asked({"ask": "read", "text": text, "ratios": list(ratios), "n_releases": n_releases})
        if found["tokens"] is None:
            return None
        return tuple(cast("list[str]", found["tokens"])), tuple(cast("list[bool]", found["right"]))

    def close(self) -> None:
        """Ends the process, if there is one."""
        process, self._process = self._process, None
        if process is not None:
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    with suppress(OSError):
                        stream.close()
            process.kill()
            process.wait()

    def _asked(
        self, request: Mapping[str, object], done: Callable[[int], object] = lambda n_texts: None
    ) -> Mapping[str, object]:
        with self._lock:
            process = self._started()
            assert process.stdin is not None
            assert process.stdout is not None
            try:
                process.stdin.write(json.dumps(request) + "\n")
                process.stdin.flush()
                while line := process.stdout.readline():
                    answer = cast("dict[str, object]", json.loads(line))
                    if "done" not in answer:
                        break
                    done(int(str(answer["done"])))
            except BaseException as error:  # a page drawn again stops here: its answer must not meet the next question
                self.close()
                if isinstance(error, OSError | json.JSONDecodeError):
                    raise ReaderEnded(_ENDED) from error
                raise
            if not line:
                self.close()
                raise ReaderEnded(_ENDED)
            if "error" in answer:
                raise ReaderEnded(str(answer["error"]))
            return answer

    def _started(self) -> subprocess.Popen[str]:
        """The process; a new one if there is none or it has ended."""
        if self._process is None or self._process.poll() is not None:
            self.close()
            self._process = subprocess.Popen(
                [sys.executable, "-m", "dpcl_core.explorers.token_worker", self._backbone],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                cwd=Path(paths.__file__).resolve().parent.parent,
            )
        return self._process
