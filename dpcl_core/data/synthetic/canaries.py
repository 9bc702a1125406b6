"""Canaries: a line with a fresh name and a uniformly random code of digits, put before a known number of texts.

Carlini et al. 2019, The Secret Sharer: a model's likelihood of random codes that it was trained on, against codes that it
was not, measures memorisation. Canaries are planted into the loaded texts, so that the counts are right for any subset.
"""

from __future__ import annotations

import re
from dataclasses import replace
from random import Random

import numpy as np

from dpcl_core.data.dataset import Split
from dpcl_core.data.synthetic.people import names
from dpcl_core.data.texts import Canary, Span, Texts

REPETITIONS = (1, 2, 4, 8, 16)
CODES, CONTROLS = 5, 10  # codes planted for each number of repetitions, and codes never planted, in every source
DIGITS = 4
_BEFORE, _AFTER = "The access code of ", " is "
_PUBLIC_SEED = 20_250_919
_RUN = re.compile(r"\d+")


def plant(train: Split, sources: tuple[str, ...]) -> tuple[Split, tuple[Canary, ...]]:
    """The training texts with canaries at the beginning of some of them, and a list of all canaries.

    A text gets at most one canary, drawn independently of labels and spans. A source with fewer than 155 texts gets fewer
    codes per number of repetitions, with fewer than 31 none. Codes are drawn uniformly without replacement from all
    four-digit codes that no text has as a number: planted and control codes are exchangeable, and no control occurs in
    training.
    """
    texts = train.images
    assert isinstance(texts, Texts)
    assert texts.spans is not None
    assert train.sources is not None
    random = Random(_PUBLIC_SEED)
    fresh, free = iter(_fresh_names(texts, len(sources))), iter(_free_codes(texts, random))
    strings, spans = list(texts.strings), list(texts.spans)
    canaries: list[Canary] = []
    for index, source in enumerate(sources):
        rows = np.flatnonzero(train.sources == index).tolist()
        random.shuffle(rows)
        n_codes = min(CODES, len(rows) // sum(REPETITIONS))
        for repetitions in [0] * CONTROLS + [times for times in REPETITIONS for _ in range(n_codes)]:
            name = next(fresh)
            canary = Canary(f"{_BEFORE}{name}{_AFTER}", next(free), repetitions, source)
            canaries.append(canary)
            for row in rows[:repetitions]:
                strings[row], spans[row] = _before(canary, name, strings[row], spans[row])
            rows = rows[repetitions:]
    return replace(train, images=Texts(strings, spans, texts.people)), tuple(canaries)


def _before(canary: Canary, name: str, string: str, spans: tuple[Span, ...]) -> tuple[str, tuple[Span, ...]]:
    """The text with the canary's line before it, and its spans."""
    line = f"{canary.prefix}{canary.code}. "
    canary_spans = (
        Span(len(_BEFORE), len(_BEFORE) + len(name), "NAME"),
        Span(len(canary.prefix), len(canary.prefix) + DIGITS, "CODE"),
    )
    moved = (Span(span.start + len(line), span.end + len(line), span.kind) for span in spans)
    return line + string, (*canary_spans, *moved)


def _fresh_names(texts: Texts, n_sources: int) -> list[str]:
    """Names that occur in no text, enough for all canaries."""
    assert texts.spans is not None
    used = {
        string[span.start : span.end]
        for string, marked in zip(texts.strings, texts.spans, strict=True)
        for span in marked
        if span.kind == "NAME"
    }
    wanted = n_sources * (CONTROLS + CODES * len(REPETITIONS))
    return [name for name in names(wanted + len(used), _PUBLIC_SEED) if name not in used][:wanted]


def _free_codes(texts: Texts, random: Random) -> list[str]:
    """All codes that no text has as a number, in random order."""
    used = {run for string in texts.strings for run in _RUN.findall(string)}
    free = [code for code in (f"{number:0{DIGITS}d}" for number in range(10**DIGITS)) if code not in used]
    random.shuffle(free)
    return free
