"""What the first version of the app left is still good: what it kept of a run is read, and its links lead there.

Store and links were written by commit 5152048, the first with all of the pages whose links are here.
"""

from __future__ import annotations

import json
import math
import sqlite3
from pathlib import Path
from urllib.parse import parse_qsl

import pytest

from dpcl_core import checks, export
from dpcl_core.events import CellFinished, TaskLearned
from dpcl_core.runs.store import Store
from pages import privacy, runs
from pages.parts import link, playground, train_form
from tests.pages.conftest import Open, words

STORE = Path(__file__).resolve().parents[1] / "runs" / "layouts" / "first_version.sql"
RUN = "25a7e4813d54"
SPEC = (
    '{"method":"cosine","params":{},"data":{"dataset":"digits","train_per_class":20,"test_per_class":5,"backbone":"pixels"},'
    '"scenario":{"kind":"class-incremental","tasks":2,"classes_per_task":null},"labels":"prior","public_labels":null,"privacy":'
    '{"epsilons":[0.5,"Infinity"],"delta":0.0001,"adjacency":"replace","noise":"seeded"},"seeds":[3,4]}'
)
TRAIN = "v=1&f=0.5&tr=20&te=5&s.tasks=2&l=prior&e=0.5%2Cinf&a=replace&n=seeded&sd=3%2C4"
# Link and what it named, by the names of the fields.
LINKS: dict[str, tuple[link.Codec, str, dict[str, object]]] = {
    "playground": (
        playground.CODEC, f"v=1&run={RUN}&l=prior&t=2&e=2&p=prior-const%7E5%7E1&plain=1",
        {"run": RUN, "labels": "prior", "tasks": "2", "epsilon": 2.0, "pins": ("prior-const~5~1",), "plain": True},
    ),
    "privacy": (
        privacy.CODEC, f"v=1&run={RUN}&e=1&m=sampled&f=delta&a=replace&ce=2&cs=4&cd=1e-6&cq=0.1&cn=10&k=5&ke=0.2",
        {
            "run": RUN, "epsilon": 1.0, "mechanism": "sampled", "find": "delta", "adjacency": "replace", "in_epsilon": "2",
            "in_sigma": "4", "in_delta": "1e-6", "in_rate": "0.1", "in_steps": "10", "tasks": 5, "task_epsilon": 0.2,
        },
    ),
    "runs": (runs.CODEC, "v=1&st=finished&so=seconds&q=Old", {"status": ("finished",), "sort": "seconds", "search": "Old"}),
    "compare": (
        runs.CODEC, f"v=1&r={RUN}%2C{RUN}&f=1&a=A&b=B",
        {"runs": (RUN, RUN), "focus": 1.0, "first": "A", "second": "B"},
    ),
    "train": (train_form.codec_for({}), TRAIN, {"focus": 0.5, "epsilons": (0.5, math.inf), "seeds": (3, 4)}),
}  # fmt: skip


@pytest.fixture
def old(home: Path) -> Path:
    """A home with what the first version kept of a run of digits that has finished, in today's tables."""
    Store()
    with sqlite3.connect(":memory:") as before, sqlite3.connect(home / "store.sqlite") as now:
        before.executescript(STORE.read_text(encoding="utf-8"))
        for table in ("runs", "events", "cells"):
            rows = before.execute(f"SELECT * FROM {table}")
            names = ", ".join(column[0] for column in rows.description)
            marks = ", ".join("?" * len(rows.description))
            now.executemany(f"INSERT INTO {table} ({names}) VALUES ({marks})", rows.fetchall())
    return home


def test_what_the_first_version_kept_of_a_run_is_read(old: Path) -> None:
    store = Store()
    (run,) = store.list_runs()
    assert (run.id, run.status, run.spec.seeds, run.spec.privacy.epsilons) == (RUN, "finished", (0,), (1.0,))
    events = store.events(RUN)
    assert [event.task for event in events if isinstance(event, TaskLearned)] == [0, 1, 2, 3, 4]
    (cell,) = (event for event in events if isinstance(event, CellFinished))
    assert cell.guarantee.epsilon == pytest.approx(1.0, rel=2e-6)
    assert cell.metrics["AA"] == pytest.approx(0.08)
    assert export.document_of(store, run)["status"] == "finished"
    assert store.create(run.spec) != RUN


@pytest.mark.parametrize("name", LINKS)
def test_the_first_versions_links_lead_to_what_they_named(name: str, old: Path, open_page: Open) -> None:
    codec, query, named = LINKS[name]
    read = codec.read(dict(parse_qsl(query)))
    assert {field: read.values[field] for field in named} == named
    assert read.notices == ()
    assert "The link" not in words(open_page(name, **dict(parse_qsl(query))))
    if name == "train":  # whose link names the settings of a spec
        assert checks.parse(train_form.raw_of(read.values)) == checks.parse(json.loads(SPEC))
