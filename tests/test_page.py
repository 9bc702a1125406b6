"""What a page of a browser asks of the engine, asked here: settings, runs, cards, classifiers, links, own files."""

import io
import json
import random
import zipfile
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
import pytest

from dpcl_core import checks, page, paths
from dpcl_core.classifiers import folder
from dpcl_core.page import Page
from dpcl_core.privacy import card
from tests.support.asserting import excludes, includes

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
    assert folder.read_classifier(tmp_path).is_protected
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
    file = io.BytesIO()
    np.savez(
        file, embeddings=np.random.default_rng(0).normal(size=(400, 6)).astype(np.float32), labels=np.array(list("ab" * 200))
    )
    assert answer(Page().own("e.npz", file.getvalue(), "{}"))["classes"] == ["a", "b"]


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
