"""The engine from Python, as a notebook uses it, and inside a page."""

import doctest
import io
import json
import math
import random
import re
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
import pytest

import dpcl_core as dpcl
from dpcl_core import api, checks, page, paths
from dpcl_core.classifiers import folder
from dpcl_core.events import Classifier, Event, Progress, TaskLearned
from dpcl_core.page import Page
from dpcl_core.privacy import card
from dpcl_core.results import FIGURES
from dpcl_core.runs.store import Store
from tests.data.making import npz
from tests.support.asserting import excludes, includes, refuses

pytestmark = pytest.mark.usefixtures("home")


def test_a_run_is_kept_and_found_again() -> None:
    heard: list[Event] = []
    result = dpcl.run("digits-cosine", epsilons=[1.0, math.inf], seeds=[0], on_event=heard.append)
    assert result.run_id is not None
    # Of progress the store keeps only what is worth it, and classifiers beside the events.
    assert [event for event in heard if not isinstance(event, Progress | Classifier)] == [
        event for event in result.events if not isinstance(event, Progress)
    ]
    assert (result.spec.privacy.epsilons, list(result.cells["epsilon"])) == ((1.0, math.inf), [1.0, math.inf])
    assert result.guarantee(1.0).epsilon <= 1.0
    assert set(result.metrics["metric"]) == {"AA", "AF", "BWT", "FWT", "Last", "Avg"}
    learned = [event for event in heard if isinstance(event, TaskLearned)]
    assert len(result.accuracy) == sum(value is not None for event in learned for value in event.accuracy)
    again = dpcl.load(result.run_id)
    assert (again.events, again.spec) == (result.events, result.spec)


def test_settings_are_changed_by_their_names() -> None:
    result = dpcl.run("digits-cosine", epsilons=[1.0], seeds=[3], settings={"labels": "prior", "scenario.tasks": 2})
    assert (result.n_tasks, result.spec.labels, result.spec.seeds) == (2, "prior", (3,))
    assert dpcl.run(result.spec).spec == result.spec


def test_a_sweep_is_one_table() -> None:
    table = dpcl.sweep("digits-cosine", {"labels": ["prior", "prior-const"]}, epsilons=[math.inf], seeds=[0, 1])
    assert list(table.columns) == ["labels", "run_id", "epsilon", "seed", "metric", "value"]
    assert table.groupby("labels")["run_id"].nunique().to_dict() == {"prior": 1, "prior-const": 1}
    assert len(table) == 2 * 2 * 6


def test_an_interrupted_sweep_starts_no_further_run() -> None:
    heard: list[Event] = []

    def interrupt(event: Event) -> None:
        heard.append(event)
        if isinstance(event, TaskLearned):
            raise KeyboardInterrupt

    table = dpcl.sweep("digits-cosine", {"labels": ["prior", "prior-const"]}, epsilons=[1.0], seeds=[0], on_event=interrupt)
    assert sum(isinstance(event, TaskLearned) for event in heard) == 1
    assert list(table.columns) == ["labels", "run_id", "epsilon", "seed", "metric", "value"]
    assert [run.status for run in Store().list_runs()] == ["cancelled"]


def test_a_sweep_is_checked_before_its_first_run() -> None:
    refuses(r"labels = unknown", dpcl.sweep, "digits-cosine", {"labels": ["prior", "unknown"]}, epsilons=[1.0], seeds=[0])
    with pytest.raises(dpcl.BadInput, match=r"data\.backbone"):  # one that can be read, but not carried out
        dpcl.sweep("digits-cosine", {"data.backbone": ["pixels", "minilm"]}, epsilons=[1.0], seeds=[0])
    assert not Store().list_runs()


@pytest.mark.parametrize(("call", "sentence"), [
    (lambda: dpcl.run(None), "preset_or_spec = None: must be a preset's name, a RunSpec, or settings as a mapping"),  # type: ignore[arg-type]
    (lambda: dpcl.run("digits-cosine", epsilons=1.0), "epsilons = 1.0: must be a list"),  # type: ignore[arg-type]
    (lambda: dpcl.run("digits-cosine", epsilons="10"), "epsilons = 10: must be a list"),  # type: ignore[arg-type]
    (lambda: dpcl.run("digits-cosine", seeds=0), "seeds = 0: must be a list"),  # type: ignore[arg-type]
    (lambda: dpcl.sweep("digits-cosine", {"labels": "prior"}), "labels = prior: must be a list"),
    (lambda: dpcl.account(epsilon="1", delta=1e-5), "epsilon = 1: must be a number"),  # type: ignore[arg-type]
    (lambda: dpcl.account(epsilon=1, delta=1e-5, steps=2.5), "steps = 2.5: must be a whole number"),  # type: ignore[arg-type]
    (lambda: dpcl.account(epsilon=1, delta=1e-5, adjacency="swap"), "adjacency = swap: must be one of"),  # type: ignore[arg-type]
])
def test_a_value_of_another_kind_is_one_sentence(call: Callable[[], object], sentence: str) -> None:
    refuses(re.escape(sentence), call)


def test_accounts_and_audits() -> None:
    assert dpcl.account(epsilon=1.0, delta=1e-5).sigma == pytest.approx(3.7306, abs=1e-3)  # Balle and Wang's analytic noise
    found = dpcl.audit({"method": "cosine", "privacy": {"epsilons": [1.0], "delta": 1e-5}, "seeds": [0]}, trials=200)
    assert all(audited.lower_bound <= audited.accounted for audited in found)


def test_the_examples_in_the_documentation_hold() -> None:
    assert doctest.testmod(api, extraglobs={"run": api.run, "account": api.account}).failed == 0


def test_numpy_numbers_are_numbers() -> None:
    settings = {"scenario.tasks": np.int64(2), "privacy.delta": np.float64(1e-5)}
    result = dpcl.run("digits-cosine", epsilons=np.array([1.0]), seeds=np.arange(1), settings=settings, here=True)
    assert (result.spec.privacy.epsilons, result.spec.seeds, result.n_tasks) == ((1.0,), (0,), 2)
    assert result.run_id is None
    assert not Store().list_runs(), "a run here needs no store"
    assert dpcl.account(epsilon=np.float32(1.0), delta=np.float64(1e-5), steps=np.int32(1)).sigma > 3


def test_all_that_a_cell_can_end_with_shows_itself() -> None:
    result = dpcl.run("digits-cosine", epsilons=[1.0, 8.0, math.inf], seeds=[0, 1, 2], here=True)
    pictures = [result.figure(name) for name in FIGURES]
    for shown in (result, result.statement, result.card, *pictures):
        in_notebook, line = shown._repr_html_(), repr(shown)
        assert len(in_notebook.encode()) <= 60_000
        assert in_notebook.count("<svg") == (1 if shown in (result, *pictures) else 0)
        assert "\n" not in line
        assert len(line) < 1000
        assert isinstance(hash(shown), int)
    assert repr(result).startswith("<Result of ")
    assert "ε = 1: " in repr(result)
    assert "likelier because of any one training example" in result._repr_html_()
    assert "epsilon 1, delta 1e-05" in repr(result.guarantee(1.0))
    assert hash(result.guarantee(1.0)) != hash(result.guarantee(8.0))
    assert "accounted epsilon 1" in str(result.statement)
    assert "<b>" in pictures[0]._repr_html_()
    again = dpcl.run(result.spec, here=True)
    assert (hash(result), hash(result.card)) == (hash(again), hash(again.card))


ONE: dict[str, Any] = {"method": "cosine", "seeds": [0], "privacy": {"epsilons": [8], "noise": "release"}}
WORDS = ["team", "goal", "ball", "bank", "stock", "price"]
SECRET = "xylophone-4711"  # in a private row of a file, and in nothing that leaves the page


def answer(text: str) -> Any:
    return json.loads(text)


def finished(one: Page, settings: object) -> list[Any]:
    """The events of a run to its end."""
    begun = answer(one.start(json.dumps(settings)))
    assert "failure" not in begun, begun
    seen = []
    while (event := answer(one.step())) is not None:
        assert "failure" not in event, event
        seen.append(event)
    return seen


def table(n: int = 600) -> bytes:
    draw = random.Random(3)
    rows = [f"{draw.gauss(k % 3, 0.3):.3f},{draw.random():.3f},{'abc'[k % 3]}" for k in range(n)]
    return "\n".join(["x,y,kind", *rows, f"1.0,0.5,{SECRET}"]).encode() + b"\n"


def test_a_run_gives_events_an_outcome_a_card_and_a_classifier(tmp_path: Path) -> None:
    one = Page()
    kinds = [event["event"] for event in finished(one, ONE)]
    assert "Classifier" not in kinds, "its arrays stay with the engine"
    assert (kinds.count("TaskLearned"), kinds[-1]) == (5, "CellFinished")
    found = answer(one.outcome())
    assert found["models"][0]["metrics"]["AA"] > 0.5
    assert found["guarantees"][0]["kind"] == "proved"
    assert found["guarantees"][0]["epsilon"] <= 8
    assert len(found["ledger"][0]["rows"]) == 5
    assert found["finding"].startswith("At ε = 8")
    assert {one.verdict for one in card.verify(one.card().encode())} == {"matches"}
    with zipfile.ZipFile(io.BytesIO(one.classifier())) as archive:
        archive.extractall(tmp_path)
    assert folder.read_classifier(tmp_path).model.protected
    assert (tmp_path / "README.md").is_file()


def test_a_link_repeats_the_run() -> None:
    found = answer(Page().check(json.dumps(ONE)))
    assert found["ok"]
    assert found["models"] == 1
    assert checks.parse(json.loads(unquote(found["link"].removeprefix("#run=")))) == checks.parse(ONE)


@pytest.mark.parametrize(("settings", "kind", "said"), [
    ({"method": "cosin"}, "wrong-input", "did you mean cosine"),
    ({"privacy": {"delta": 2}}, "wrong-input", "privacy.delta = 2"),
    ({"data": {"dataset": "own"}}, "wrong-input", "must be a file of yours"),
    ({"scenario": 5}, "wrong-input", "must be a table of settings"),
    ({"data": {"dataset": "own:nothing"}}, "data-missing", "runs in the installed app"),
    (
        {"method": "peft-ensemble", "params": {"adapter": "film"}, "data": {"backbone": "vit-cifar100"}},
        "data-missing",
        "app",
    ),
])
def test_what_cannot_run_is_one_sentence(home: Path, settings: object, kind: str, said: str) -> None:
    found = answer(Page().check(json.dumps(settings)))
    assert not found["ok"]
    assert found["failure"]["kind"] == kind
    assert said in found["failure"]["sentence"]
    assert "\n" not in found["failure"]["sentence"]


def test_nothing_is_said_before_a_run_has_finished() -> None:
    assert answer(Page().outcome())["failure"]["sentence"] == "run = none: must have finished first"


def test_own_rows_train_and_leave_no_trace(home: Path) -> None:
    one = Page()
    found = answer(one.own("plants.csv", table(), json.dumps({"target": "kind"}), True))
    assert (found["dataset"], found["classes"], found["roles"]) == ("own:data", ["a", "b", "c"], {"target": "kind"})
    said = json.dumps([found, finished(one, found["settings"]), answer(one.outcome())]) + one.card()
    excludes(said, SECRET, "plants")
    includes(unquote(answer(one.outcome())["link"]), '"dataset":"own"', 'kind":"i-blurry')
    assert not (paths.home() / "own").exists(), "the file itself is gone once it is taken in"
    again = answer(one.own("other.csv", table(300), json.dumps({"target": "kind"}), True))
    assert again["dataset"] == "own:data", "a second file takes the place of the first"


def test_a_column_of_the_files_words_is_in_no_link(home: Path) -> None:
    rows = "".join(f"{k % 7},{'pq'[k % 2]},{['north', 'south'][k % 2]}\n" for k in range(600))
    found = answer(
        Page().own("t.csv", f"x,kind,site\n{rows}".encode(), json.dumps({"target": "kind", "source": "site"}), True)
    )
    assert found["settings"]["scenario"]["order"] == ["north", "south"]
    assert "north" not in page.link(checks.parse(found["settings"]))


def test_texts_and_embeddings_are_taken_in(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    draw = random.Random(5)
    kinds = ["sport", "money"]
    lines = [f"{' '.join(draw.choices(WORDS[3 * (k % 2) :][:3], k=5))} {k},{kinds[k % 2]}" for k in range(400)]
    found = answer(Page().own("t.csv", ("text,label\n" + "\n".join(lines)).encode(), "{}", None))
    assert (found["roles"]["text"], found["classes"]) == ("text", ["money", "sport"])
    vectors = np.random.default_rng(0).normal(size=(400, 6)).astype(np.float32)
    content = npz(embeddings=vectors, labels=np.array(list("ab" * 200)))
    assert answer(Page().own("e.npz", content, "{}"))["classes"] == ["a", "b"]


@pytest.mark.parametrize(
    ("name", "content"), [("x.parquet", b"1"), ("x.csv", b""), ("x.csv", b"\x00\x01"), ("x.npz", b"PK"), ("x", b"1")])
def test_a_file_that_cannot_be_read_is_one_sentence(home: Path, name: str, content: bytes) -> None:
    failure = answer(Page().own(name, content, "{}"))["failure"]
    assert failure["kind"] in ("wrong-input", "data-missing"), failure
    assert "\n" not in failure["sentence"], failure


# The exercise of ten lines: what is wrong with the learner as it is given, what mends it, and what else goes wrong.


HEAD = "def learn(rows, labels, n_classes, sigma, noise):\n"
GIVEN = paths.asset_table("live/exercises.toml")["learner"]["code"]
CLIPPED = GIVEN.replace("+= row", "+= row / max(1, np.linalg.norm(row))")
MENDED = CLIPPED.replace("set(labels)", "range(n_classes)")


def test_the_given_learner_fails_two_tests_and_the_mended_one_none() -> None:
    assert page.tested(GIVEN)["passed"] == [False, False, True]
    assert page.tested(CLIPPED)["passed"] == [True, False, True]
    assert page.tested(MENDED)["passed"] == [True, True, True]


@pytest.mark.parametrize(("wrong", "passed"), [
    (MENDED.replace("sigma * noise(rows.shape[1])", "sigma * noise(1)[0]"), [True, False, True]),  # shared: subtracted
    (MENDED.replace("sigma * noise", "sigma / 2 * noise"), [True, False, True]),  # too little
    (MENDED.replace("max(1,", "min(1,"), [False, True, True]),  # lengthens short rows, and leaves long ones
    (MENDED.replace("return sums", "return 0 * sums + sigma * noise(sums.shape)"), [True, True, False]),  # knows nothing
], ids=["shared", "too-little", "long-rows", "noise-alone"])
def test_each_fault_fails_its_own_test(wrong: str, passed: list[bool]) -> None:
    assert wrong != MENDED
    assert page.tested(wrong)["passed"] == passed


@pytest.mark.parametrize(("code", "said"), [
    ("def learn(:", "Line 1: invalid syntax."),
    ("x = 1", "There is no function learn(rows, labels, n_classes, sigma, noise)."),
    (f"{HEAD}    return rows", "learn gave numbers of shape [12, 6]"),
    (f"{HEAD}    x = 1\n    return summs", "Line 3: name 'summs' is not defined."),
    (f"{HEAD}    return np.full((n_classes, rows.shape[1]), np.nan)", "not finite"),
])
def test_code_that_cannot_be_tested_gets_one_sentence(code: str, said: str) -> None:
    found = page.tested(code)
    assert found["passed"] == [False]
    assert said in found["said"][0]
