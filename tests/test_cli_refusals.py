"""What the command line refuses, in one line, and what it says while it waits."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from dpcl_core.cli import common
from dpcl_core.errors import BadInput, StoreLocked, StoreTrouble
from dpcl_core.runs import process, resumption
from dpcl_core.runs.audits import Audits, Studies
from dpcl_core.runs.run import Split
from dpcl_core.runs.shards import Sets
from dpcl_core.runs.store import Store
from tests.support import replay
from tests.support.asserting import includes
from tests.test_cli import SMALL, TUNE, called

pytestmark = pytest.mark.usefixtures("home")


@pytest.mark.parametrize("command", [("run",), ("verify",)])
def test_what_is_no_file_of_settings_or_card_is_refused_unread(capsys, tmp_path, command):
    """A pipe nobody writes to and a device without an end would hold the command for ever."""
    pipe, large = tmp_path / "pipe", tmp_path / "large"
    os.mkfifo(pipe)
    with large.open("wb") as file:
        file.truncate(10_000_001)
    for path in (pipe, large, Path("/dev/zero"), tmp_path):
        status, _, err = called(*command, str(path), capsys=capsys)
        assert status == 2
        assert command == ("run",) or err.startswith("CARD = ")
        assert "must be a regular file of at most 10 MB" in err
    status, _, err = called(*command, str(tmp_path / "none"), capsys=capsys)
    assert (status, "must be a file that can be read: No such file" in err) == (2, True)


def test_a_stream_without_a_ceiling_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    status, _, err = called("run", "--preset", "paper-cslr-ag-news-ovr-small", "--ceiling", capsys=capsys)
    assert status == 2
    assert "has no ceiling on this stream" in err or "data.dataset" in err


SWEEP = ["sweep", "--preset", "digits-cosine", "--over"]


@pytest.mark.parametrize(("arguments", "words"), [
    (["audit", "--preset", "digits-cosine", "--attack", "guess"], ["--attack = guess", "must be left out"]),
    (["run"], ["a preset", "SPEC.toml", "--set"]),
    (["run", "a.toml", "--preset", "digits-cosine"], ["a.toml", "not both"]),
    (["run", "--preset", "nothing"], ["preset = nothing", "digits-cosine"]),
    (["run", "/no/such/file.toml"], ["/no/such/file.toml", "can be read"]),
    (["run", "--preset", "digits-cosine", "--set", "privacy.epsilons=banana"], ["privacy.epsilons", "banana"]),
    (["run", "--preset", "digits-cosine", "--set", "data.dataset=nowhere"], ["data.dataset = nowhere", "digits"]),
    (["run", "--preset", "digits-cosine", "--store", "gopher://x"], ["gopher"]),
    (["show", "../../etc/passwd"], ["run = ../../etc/passwd"]),
    (["show", "0123456789ab"], ["0123456789ab"]),
    (["export", "0123456789ab", "--to", "/tmp/dpcl-nowhere"], ["0123456789ab"]),
    (["list", "shoes"], ["shoes"]),
    (["account", "--epsilon", "0", "--delta", "1e-5"], ["epsilon = 0"]),
    (["account", "--epsilon", "1"], ["exactly two"]),
    (["account", "--epsilon", "1", "--delta", "1e-5", "--sample-rate", "1.5"], ["sample_rate = 1.5", "(0, 1]"]),
    (["run", "--preset", "digits-cosine", "--set", "privacy.label_share=1"], ["privacy.label_share = 1", "0.999"]),
    (["account", "--epsilon", "x", "--delta", "1e-5"], ["x"]),
    (["audit", "--preset", "digits-cosine", "--trials", "3"], ["--trials = 3"]),
    (["tune", "--preset", "digits-cosine", "--on", "private"], ["method = cosine", "to tune"]),
    (TUNE, ["--on DATASET", "--on private"]),
    ([*TUNE, "--on", "private", "--trials", "0"], ["n_trials = 0", "1"]),
    ([*TUNE, "--on", "private", "--set", "seeds=[1, 2]"], ["seeds = 1, 2", "one seed"]),
    ([*TUNE, "--proxy", "digits"], ["proxy = digits", "shares examples"]),
    ([*TUNE, "--on", "nowhere"], ["nowhere"]),
    (["tune", "--resume", "0123456789ab"], ["0123456789ab", "no such run"]),
    (["resume", "0123456789ab", "--trials", "9"], ["unrecognized arguments: --trials 9"]),
    (["fly"], ["fly"]),
    (["audit", "--preset", "digits-cosine", "--trials", str(2**63 - 1)], ["--trials = 922337", "10,000,000"]),
    ([*SWEEP, f"seeds={'9' * 5000}"], ["--over = seeds=999", "must be KEY=[VALUE, ...]"]),
    ([*SWEEP, f"seeds=[{'9' * 5000}]"], ["--over = seeds=[999", "must be KEY=[VALUE, ...]"]),
    ([*SWEEP, f"seeds=[0x{'f' * 5000}]"], ["seeds"]),
    ([*SWEEP, f"seeds={'[' * 5000}"], ["--over = seeds=[[[", "must be KEY=[VALUE, ...]"]),
    (["run", "caf\udce9.toml"], ["command line = caf", "must be text in UTF-8"]),
    (["verify", "card\0.json"], ["command line = card\\0.json", "without NUL"]),
    (["verify", ""], ["CARD = '': must not be empty"]),
    (["run", ""], ["TARGET = '': must not be empty"]),
    (["run", "--preset", "digits-cosine", "--executor", ""], ["--executor = '': must not be empty"]),
    (["run", "--preset", "digits-cosine", "--device="], ["--device = '': must not be empty"]),
    (["runs", "--store", ""], ["--store = '': must not be empty"]),
    (["run", "--preset", "digits-cosine", "--set", ""], ["--set = '': must not be empty"]),
    (["reproduce", "tobaben", "--experiment", ""], ["--experiment = '': must not be empty"]),
    (["cache", "--clean", ""], ["--delete = '': must not be empty"]),
    (["export", "0123456789ab", "--to", ""], ["--to = '': must not be empty"]),
    (["site", "--to", ""], ["--to = '': must not be empty"]),
    (["site", "--to", "/dev/null/site"], ["--to = /dev/null/site: must be a folder that can be written"]),
    (["runs", "--store", "sqlite:////dev/null"], ["store sqlite:////dev/null: must be a regular file"]),
    (["run", "--preset", "digits-cosine", "--set", "seeds=[true]"], ["seeds = True: must be"]),
    (["run", "--all", "--set", "method=cosine"], ["--all = : needs a preset"]),
    (["run", "--preset", "digits-cosine", "--all", "--ceiling"], ["--all = : cannot be combined"]),
    (["lits", "presets"], ["did you mean list?"]),
    (["run", "--preset", "digit-cosine"], ["did you mean digits-cosine?"]),
    (["run", "--preset", "digits-cosine", "--set", "privacy.epsilon=1"], ["did you mean privacy.epsilons?"]),
    (["run", "--preset", "digits-peft-head", "--set", "params.learningrate=1"], ["mean params.learning_rate?"]),
    (["run", "--set", "method=cosin"], ["did you mean cosine?"]),
    (["run", "--set", "method=joint-network", "--set", "privacy.epsilons=[1]"], ["add --set 'privacy.epsilons=[inf]'"]),
    ([*SMALL, "--device", "cuda:99"], ["--device = cuda:99: must be a device of this computer: cpu"]),
])
def test_wrong_input_is_one_line_and_status_2(arguments, words, capsys):
    status, out, err = called(*arguments, capsys=capsys)
    assert (status, out) == (2, "")
    assert err.count("\n") == 1, err
    for word in words:
        assert word in err
    assert "Traceback" not in err
    assert Store().list_runs() == []


def test_trouble_with_the_store_is_no_wrong_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Status 1 where the store cannot do its part, 2 where what was given is no address of one."""
    (tmp_path / "store.sqlite").write_bytes(b"no database at all" * 100)
    damaged = f"sqlite:///{tmp_path / 'store.sqlite'}"
    for url, expected in ((damaged, 1), ("postgresql://me:secret@127.0.0.1:1/runs", 1), ("gopher://me:secret@x", 2)):
        status, out, err = called("runs", "--store", url, capsys=capsys)
        assert (status, out, err.count("\n")) == (expected, "", 1), err
        assert "secret" not in err


def test_the_target_cannot_be_the_person_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "c.csv").write_text("x,y\n1,a\n2,b\n", encoding="utf-8")
    status, _, said = called("data", "check", str(tmp_path / "c.csv"), "--target", "y", "--person", "y", capsys=capsys)
    assert (status, said) == (2, "--person = y: is the column of --target already: name another one\n")


def test_a_machine_that_nobody_knows_is_named_at_once(capsys, monkeypatch):
    monkeypatch.setenv("DPCL_MACHINE", "lab1")
    monkeypatch.setattr(common, "carried_out", lambda store, run_id, **_: store.get(run_id))
    common.carry_out(Store(), replay.a_spec(), None, "nosuchbox/cpu")
    said = capsys.readouterr().err
    assert "device nosuchbox/cpu: no machine known to this store has it (known: lab1/cpu); the run waits until" in said
    common.carry_out(Store(), replay.a_spec(), None, "lab1/cpu")
    assert "known" not in capsys.readouterr().err
    common.carry_out(Store(), replay.a_spec(), None, None, Split(2, "local", "cuda:99"))  # its parts may be done elsewhere
    assert "device cuda:99: no machine known to this store has it (known: lab1/cpu); the run" in capsys.readouterr().err


def test_run_says_once_that_it_waits_for_a_locked_store_and_creates_one_run(capsys, monkeypatch):
    locked, create = [StoreLocked("store x: another program has kept it locked")] * 3, Store.create
    monkeypatch.setattr(process.time, "sleep", lambda _: None)
    monkeypatch.setattr(common, "carried_out", lambda store, run_id, **_: store.get(run_id))

    def tried(self: Store, *arguments: object, **named: object) -> str:
        if locked:
            raise locked.pop()
        return create(self, *arguments, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(Store, "create", tried)
    run = common.carry_out(Store(), replay.a_spec(), None, "cpu")
    said = capsys.readouterr().err.splitlines()
    assert said == ["waiting for the store: store x: another program has kept it locked", f"run {run.id}"]
    assert len(Store().list_runs()) == 1

    def cut_off(self: Store, *arguments: object, **named: object) -> str:
        raise StoreTrouble("store x: cannot be reached")

    monkeypatch.setattr(Store, "create", cut_off)
    with pytest.raises(StoreTrouble, match="cannot be reached"):  # what was written meanwhile is not known
        common.carry_out(Store(), replay.a_spec(), None, "cpu")


@pytest.mark.parametrize(("of", "name", "arguments"), [
    (Sets, "create", ("run", "--preset", "digits-cosine", "--all")),
    (Sets, "create", ("sweep", "--preset", "digits-cosine")),
    (Store, "create", ("reproduce", "lifelong")),
    (Studies, "create", (*TUNE, "--on", "private")),
    (Studies, "resume", ("resume", "aaaaaaaaaaaa")),
    (Audits, "create", ("audit", "--run", "RUN")),
    (resumption, "resume", ("resume", "RUN")),
])
def test_every_command_that_carries_out_runs_waits_for_a_locked_store(of, name, arguments, capsys, monkeypatch):
    store = Store()
    run_id = store.create(replay.a_spec(), name="one", device="cpu")
    store.request_stop(run_id)
    answers = iter([StoreLocked("store x: another program has kept it locked"), BadInput("store", "x", "was asked again")])

    def asked(*arguments: object, **named: object) -> None:
        raise next(answers)

    monkeypatch.setattr(process.time, "sleep", lambda _: None)
    monkeypatch.setattr("dpcl_core.checks.check_run", lambda spec: None)  # a paper's data may not be here; none are read
    monkeypatch.setattr(of, name, asked)
    if (of, name) == (Studies, "resume"):
        monkeypatch.setattr(Studies, "of_run", lambda _, run_id: run_id)
    status, _, said = called(*(run_id if one == "RUN" else one for one in arguments), capsys=capsys)
    assert status == 2
    assert said.splitlines() == [
        "waiting for the store: store x: another program has kept it locked", "store = x: was asked again"
    ]  # fmt: skip


@pytest.mark.parametrize("command", [
    ("runs",), ("work", "--once"), ("show", "0123456789ab"), ("run", "--preset", "digits-cosine"),
    ("sweep", "--preset", "digits-cosine"), ("app", "--no-browser"),
])
@pytest.mark.parametrize("named", ["mistyped/store.sqlite", "store.sqlit"])
@pytest.mark.parametrize("where", ["--store", "DPCL_STORE"])
def test_a_mistyped_store_is_named_and_none_is_made(capsys, tmp_path, monkeypatch, command, named, where):
    (tmp_path / "stores").mkdir()
    path = tmp_path / "stores" / named
    if where == "--store":
        if command[0] == "app":  # has no such option
            return
        command = (*command, "--store", f"sqlite:///{path}")
    else:
        monkeypatch.setenv("DPCL_STORE", f"sqlite:///{path}")
    status, _, err = called(*command, capsys=capsys)
    assert (status, err.count("\n")) == (2, 1)
    includes(err, f"{path}: there is none", f"touch {path}")
    assert list((tmp_path / "stores").iterdir()) == []


def test_an_empty_file_becomes_a_store_that_its_owner_alone_reads(capsys, tmp_path):
    path = tmp_path / "runs.db"
    path.touch(0o644)
    assert called("runs", "--store", str(path), capsys=capsys)[0] == 0
    assert path.read_bytes()[:15] == b"SQLite format 3"
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_folder_that_changes_while_it_is_read_is_no_error_of_the_program(capsys, tmp_path, monkeypatch):
    """Such as /proc, whose folders are processes."""
    (tmp_path / "gone" / "1").mkdir(parents=True)
    listed = Path.iterdir

    def iterdir(path: Path) -> Iterator[Path]:
        if path.name == "1":
            raise FileNotFoundError(2, "No such file or directory", str(path))
        return listed(path)

    monkeypatch.setattr(Path, "iterdir", iterdir)
    status, _, err = called("data", "check", str(tmp_path / "gone"), capsys=capsys)
    assert status == 2
    assert err.startswith("--data = gone: could not be copied")
