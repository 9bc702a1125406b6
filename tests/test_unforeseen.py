"""An error that nobody foresaw is one sentence with a number, and secrets are in no message, log, page or record."""

import json
import logging
import re
import socket
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from starlette.testclient import TestClient

import app as served
from dpcl_core import checks, cli, unforeseen
from dpcl_core.runs import executor, process, worker
from dpcl_core.runs.executor import Supervisor
from dpcl_core.runs.process import log_file
from dpcl_core.runs.store import Store
from dpcl_core.unforeseen import masked
from pages.parts import document, rooms
from tests.data.making import put
from tests.support import replay
from tests.support.asserting import includes, raising, refusal_of, refuses

SENTENCE = re.compile(
    r"The program itself went wrong; what happened is in logs/errors\.log of its home folder as error ([0-9a-f]{8})\."
)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DPCL_HOME", str(tmp_path))
    monkeypatch.setenv("DPCL_STORE", "postgresql+psycopg://someone:s3cr%40t@db/runs?sslpassword=other-secret")
    monkeypatch.setenv("HF_TOKEN", "hf_abcdefgh")
    return tmp_path


SECRET = "failed at postgresql://someone:s3cr%40t@db/runs?sslpassword=other-secret: s3cr@t, hf_abcdefgh"


def logged(number: str) -> str:
    """The entry of the log with this number."""
    entries = unforeseen.log_file().read_text(encoding="utf-8").split("error ")
    (entry,) = (entry for entry in entries if entry.startswith(number))
    return entry


@pytest.mark.parametrize(("text", "shown"), [
    ("postgresql://a:b@c/d", "postgresql://a:***@c/d"),
    ("postgresql://a:b@x@c/d?password=e&user=f", "postgresql://a:***@c/d?password=***&user=f"),
    ("https://x/y?access_token=e&z=1 and s3cr@t", "https://x/y?access_token=***&z=1 and ***"),
    ("the header hf_abcdefgh", "the header ***"),
    ("host=db password=b dbname=d, Password = 'b c' x", "host=db password=*** dbname=d, Password = *** x"),
    ("u:b@c/d //u:b@c/d postgresql:/u:b@c/d", "u:***@c/d //u:***@c/d postgresql:/u:***@c/d"),
    ("at 12:30@home, 00:30:15 @c, mailto:a@b.c, a@b.c: d@e.f", "at 12:30@home, 00:30:15 @c, mailto:a@b.c, a@b.c: d@e.f"),
    ("nothing: to hide@all, f(key=1; x)", "nothing: to hide@all, f(key=1; x)"),
])
def test_secrets_are_masked_and_nothing_else(text: str, shown: str) -> None:
    assert masked(text) == shown


@pytest.mark.parametrize(
    "address", ["postgresql:/someone:s3cr:et@x/y@db/runs", "someone:s3cr:et@x/y@db/runs", "host=db password='s3cr:et@x/y'"])
def test_the_stores_password_is_known_from_an_address_that_was_mistyped(address, monkeypatch):
    monkeypatch.setenv("DPCL_STORE", address)
    assert masked("refused: s3cr:et@x/y") == "refused: ***"
    assert "s3cr" not in masked(f"store {address}: no")


def test_an_address_without_a_password_hides_nothing_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DPCL_STORE", "postgresql+psycopg://someone@127.0.0.1:5432/runs")
    shown = "postgresql+psycopg://someone:***@127.0.0.1:5432/other"
    assert masked(shown.replace("***", "s3cr3t")) == shown


def test_the_terminal_prints_one_sentence_and_the_log_has_the_rest(monkeypatch, capsys):
    monkeypatch.setattr("dpcl_core.export.catalog_rows", raising(KeyError(SECRET)))
    assert cli.main(["list", "presets"]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    entry = logged(SENTENCE.fullmatch(err.strip())[1])
    includes(entry, "Traceback", "KeyError: 'failed at postgresql://someone:***@db")
    assert not any(secret in entry for secret in ("s3cr", "other-secret", "hf_abcdefgh"))
    assert unforeseen.log_file().stat().st_mode & 0o077 == 0


def test_a_page_shows_one_sentence_and_the_framework_no_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []
    monkeypatch.setattr(document.st, "error", shown.append)
    assert document.show_break(KeyError(SECRET))
    (sentence,) = shown
    assert SENTENCE.fullmatch(sentence.replace("\\", "")) is not None
    assert served.app._on_script_error is document.show_break, "the server asks it of every page, fragment and press"


def test_what_the_framework_logs_is_masked() -> None:
    try:
        raise KeyError(SECRET)
    except KeyError:
        record = logging.LogRecord("x", logging.ERROR, "", 0, "Uncaught %s", ("execution",), sys.exc_info())
    assert document.Masking().filter(record)
    text = logging.Formatter().format(record)
    assert text.startswith("Uncaught execution\nTraceback")
    assert "s3cr" not in text
    assert any(isinstance(one, document.Masking) for one in logging.getLogger("streamlit.error_util").filters)


def test_a_request_of_a_room_gets_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rooms.json, "loads", raising(KeyError(SECRET)))
    from starlette.applications import Starlette

    with TestClient(Starlette(routes=rooms.routes())) as client:
        answer = client.post("/rooms/abcd/vote", json={"poll": 1, "choice": 1})
    assert answer.status_code == 500
    assert SENTENCE.fullmatch(json.JSONDecoder().decode(answer.text)["error"]) is not None


def test_a_log_that_cannot_be_written_is_standard_error(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (home / "logs").write_text("in its place")
    sentence = unforeseen.recorded(KeyError(SECRET))
    error = capsys.readouterr().err
    includes(error, re.search(r"standard error as error ([0-9a-f]{8})", sentence)[1], "KeyError")
    assert "s3cr" not in error


def raised_in_line(number: int, said: str = "") -> Exception:
    """An error of a line of its own."""
    try:
        exec("\n" * number + "raise KeyError(said)", {"said": said})
    except KeyError as error:
        return error
    raise AssertionError


def test_an_error_that_somebody_repeats_pushes_no_other_one_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unforeseen, "_LARGEST", 6000)
    (operators,) = SENTENCE.findall(unforeseen.recorded(raised_in_line(1, "the operator's")))
    strangers = [raised_in_line(2, f"stranger's {n}") for n in range(200)]
    numbers = [SENTENCE.findall(unforeseen.recorded(error))[0] for error in strangers]
    assert "the operator's" in logged(operators)
    assert len(set(numbers)) == 10
    assert all("stranger's" in logged(one) for one in numbers)
    assert SENTENCE.findall(unforeseen.recorded(raised_in_line(3, "another")))[0] not in numbers


def test_nobody_forges_that_an_error_was_written() -> None:
    at = re.search(r"at (\w+)$", logged(SENTENCE.findall(unforeseen.recorded(raised_in_line(4)))[0]), re.MULTILINE)
    lines = "\n".join(["x", *[f"error 12345678, now, at {at[1]}"] * 20])
    try:
        raise ValueError(lines)
    except ValueError as error:
        unforeseen.recorded(error)
    (number,) = SENTENCE.findall(unforeseen.recorded(raised_in_line(4)))
    assert number != "12345678"


def test_the_log_does_not_grow_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unforeseen, "_LARGEST", 2000)
    for number in range(40):
        unforeseen.recorded(raised_in_line(number))
    assert sum(path.stat().st_size for path in unforeseen.log_file().parent.iterdir()) < 6000
    unforeseen.forget()
    assert not any(unforeseen.log_file().parent.iterdir())


def test_what_is_stored_of_a_failed_run_is_masked(home: Path) -> None:
    store = Store(f"sqlite:///{home / 'runs.db'}")
    run = store.get(store.create(replay.a_spec()))
    failure = worker._failure(KeyError(SECRET), run)
    assert "s3cr" not in failure.sentence + (failure.log or "")
    put(log_file(run.id), f"the last line: {SECRET}")
    assert executor._end_of_log(run).startswith("the last line: failed at postgresql://someone:***@")


def test_a_failed_run_on_own_data_quotes_nothing(home: Path) -> None:
    """Two neighbours get the same sentence, up to its number; what was raised is in the owner's log."""
    store = Store(f"sqlite:///{home / 'runs.db'}")
    run = store.get(store.create(replay.a_spec(dataset="own:people")))
    failures = [worker._failure(ValueError(f"could not read {row!r}"), run) for row in ("Ada, 36", "Eve, 41")]
    assert [(one.kind, one.log) for one in failures] == [("internal", "")] * 2
    assert all(SENTENCE.fullmatch(one.sentence) for one in failures)
    assert "Ada, 36" in unforeseen.log_file().read_text()


def test_the_log_of_a_killed_run_on_own_data_stays_in_its_file(home: Path) -> None:
    """A library may have quoted rows before the process was killed."""
    store = Store(f"sqlite:///{home / 'runs.db'}")
    run_id = store.create(replay.a_spec(dataset="own:people"))
    assert store.claim(run_id, replace(process.me(), ticks=1))  # a process that has this one's id at another time
    put(log_file(run_id), "could not read 'Ada, 36'")
    Supervisor(store).check()
    run = store.get(run_id)
    assert (run.status, run.error_kind, run.error_log) == ("lost", "worker-died", "")
    assert "Ada, 36" in log_file(run_id).read_text()


@pytest.mark.parametrize("text", ["a=" + "[" * 100_000, "a=" + "9" * 5000, "a." * 3000 + "b=1", "a=0x" + "f" * 9000])
def test_toml_of_any_depth_and_length_is_one_sentence(text: str) -> None:
    refusal_of(lambda: checks.parse(checks.read_toml(text)))
    refusal_of(lambda: checks.parse(checks.apply_sets({}, [text])))


def test_a_module_of_somebody_elses_method_that_fails_is_one_sentence(tmp_path, monkeypatch):
    from dpcl_core.methods import catalog

    monkeypatch.syspath_prepend(tmp_path)
    for name, code, said in (
        ("broken", "x = (", "SyntaxError"),
        ("failing", "1 / 0", "ZeroDivisionError"),
        ("other", "CARD = 3", "its CARD is a int"),
        ("empty", "", "must be a module on PYTHONPATH with a MethodCard called CARD"),
    ):
        (tmp_path / f"own_{name}.py").write_text(code)
        monkeypatch.setenv("DPCL_METHODS", f"own_{name}")
        refuses(said, catalog._added, {})
    monkeypatch.setenv("DPCL_METHODS", "own_absent")
    refuses("No module named 'own_absent'", catalog._added, {})


def test_a_run_asks_no_other_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the environment allows: a connection to anywhere but this computer fails the run."""
    from dpcl_core import engine, presets

    def refused(self: socket.socket, address: object) -> None:
        raise AssertionError(f"asks {address}")

    monkeypatch.setattr(socket.socket, "connect", refused)
    monkeypatch.setattr(socket, "getaddrinfo", lambda *arguments, **named: refused(None, arguments))  # type: ignore[arg-type]
    spec = checks.parse(checks.changed(presets.raw("digits-cosine"), {"seeds": [0], "privacy.epsilons": [1.0]}))
    assert list(engine.run(spec))
