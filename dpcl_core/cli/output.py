"""Output of the commands."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dpcl_core.runs.store import Store
    from dpcl_core.runs.studies import Study
    from dpcl_core.spec import RunSpec


def print_json(document: object) -> None:
    json.dump(document, sys.stdout, ensure_ascii=False, allow_nan=False)
    sys.stdout.write("\n")


@contextmanager
def results_alone() -> Iterator[None]:
    """Sends to standard error what libraries print meanwhile, so that standard output has results alone."""
    with redirect_stdout(sys.stderr):
        yield


def one_line(error: Exception) -> str:
    return " ".join(str(error).split())


def print_study(study: Study, as_json: bool) -> None:
    from dpcl_core.tuning import outcome

    if as_json:
        print_json(outcome.document(study.id, study.turn.status, study.tune, study.sizes, study.trials))
    else:
        print(outcome.text(study.tune, study.sizes, study.trials), end="")


def print_looks(store: Store, spec: RunSpec) -> None:
    """Prints how often a person's own data were used so far; nothing for public data."""
    from dpcl_core.runs import looks

    if line := looks.sentence(store, spec.data.dataset):
        print(line)


def say(line: str) -> None:
    """Prints a line on standard error; if its reader has closed the pipe (`... 2>&1 | head`), the command continues."""
    try:
        print(line, file=sys.stderr, flush=True)
    except BrokenPipeError:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 (later lines need an open file)
