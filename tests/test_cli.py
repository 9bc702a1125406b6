"""The command line as a person uses it: one JSON document, exit status, one line for what is wrong."""

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from dpcl_core import checks, presets
from dpcl_core.cli import common
from dpcl_core.errors import BadInput, StoreLocked, StoreTrouble
from dpcl_core.papers import questions
from dpcl_core.runs import process, resumption
from dpcl_core.runs.audits import Audits, Studies
from dpcl_core.runs.run import Split
from dpcl_core.runs.shards import Sets
from dpcl_core.runs.store import Store
from tests.data.making import put
from tests.support import replay
from tests.support.asserting import called, complaint, document_of, in_turn, includes, printed, raising
from tests.support.waiting import PATIENCE_SECONDS, python

ROOT = Path(__file__).resolve().parent.parent
pytestmark = pytest.mark.usefixtures("home")


SMALL = ["run", "--preset", "digits-cosine", "--set", "seeds=[0, 1]", "--set", "privacy.epsilons=[1.0, inf]"]


def test_run_prints_exactly_one_document_and_show_gives_it_again(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = called(*SMALL, "--json", capsys=capsys)
    document = json.loads(out)
    assert (status, document["status"]) == (0, "finished")
    assert [(cell["epsilon"], cell["seed"]) for cell in document["cells"]] == [(1.0, 0), (1.0, 1), ("inf", 0), ("inf", 1)]
    for cell in document["cells"]:
        empty = [[value is None for value in row] for row in cell["accuracy"]]
        assert empty == [[i > k for i in range(5)] for k in range(5)]
        assert set(cell["metrics"]) == {"AA", "AF", "BWT", "FWT", "Last", "Avg"}
        for key in ("epsilon", "delta", "unit", "adjacency", "composition", "scope", "claimed_epsilon", "caveats", "parts"):
            assert key in cell["guarantee"]
        assert cell["seconds"] > 0
    assert document["cells"][0]["guarantee"]["epsilon"] == pytest.approx(1.0, rel=2e-5)
    assert document["cells"][2]["guarantee"]["epsilon"] == "inf"
    assert document["cells"][2]["metrics"]["AA"] > 0.85
    assert "task 5" in err
    assert document_of(capsys, "show", document["run_id"])["cells"] == document["cells"]
    assert checks.parse(document["spec"]) == checks.parse(
        checks.apply_sets(presets.raw("digits-cosine"), ["seeds=[0, 1]", "privacy.epsilons=[1.0, inf]"])
    )


def test_all_runs_of_a_preset_are_one_set_and_one_list_of_documents(capsys: pytest.CaptureFixture[str]) -> None:
    few = ("--set", "seeds=[0]", "--set", "data.train_per_class=20", "--set", "data.test_per_class=10")
    few += ("--set", "privacy.epsilons=[1.0]")
    arguments = ("run", "--preset", "blurry-digits", "--all", *few, "--device", "cpu", "--json")
    status, out, said = called(*arguments, capsys=capsys)
    documents = json.loads(out)
    assert {one["label"] for one in documents} == set(presets.variants("blurry-digits"))
    assert all(one["status"] == "finished" and one["cells"] for one in documents)
    assert (status, "4 of 4 runs finished" in said) == (0, True)
    names = {run.name for run in Store().list_runs()}
    assert set(questions.titles("blurry-digits").values()) <= names, "pages know these runs by the same names"


def test_the_ceiling_is_trained_when_asked_for_and_known_from_then_on(capsys: pytest.CaptureFixture[str]) -> None:
    document = document_of(capsys, *SMALL)
    references = document["references"]
    assert (references["untrained"], references["ceiling"]) == (None, None)
    assert 0.1 <= references["chance"] < 0.12, "ten digits, about equally frequent"
    status, out, err = called(*SMALL, "--ceiling", "--json", capsys=capsys)
    assert (status, err.count("run ") >= 2) == (0, True)
    ceiling = json.loads(out)["references"]["ceiling"]
    assert 0.85 < ceiling <= 1
    shown = document_of(capsys, "show", document["run_id"])
    assert shown["references"] == {**references, "ceiling": ceiling}, "of the earlier run too"
    n_runs = len(document_of(capsys, "runs"))
    assert f"all at once without noise {100 * ceiling:.1f} %" in printed(capsys, *SMALL, "--ceiling")
    assert len(document_of(capsys, "runs")) == n_runs + 1, "it is not trained again"


def test_the_list_of_runs_marks_those_whose_process_is_gone(capsys: pytest.CaptureFixture[str]) -> None:
    gone = Store().create(replay.a_spec())
    assert Store().claim(gone, replace(process.me(), ticks=1))  # a process that has this one's id at another time
    listed = {row["run_id"]: row for row in document_of(capsys, "runs")}
    assert listed[gone]["status"] == "lost"
    assert listed[gone]["error"].startswith("The computer stopped this run at ")


def test_a_document_of_an_ensemble_holds_every_rule(capsys: pytest.CaptureFixture[str]) -> None:
    changes = ["--set", "seeds=[0]", "--set", "privacy.epsilons=[8.0]", "--set", "params.epochs=2"]
    (cell,) = document_of(capsys, "run", "--preset", "digits-peft-head", *changes, "--set", "params.rule=median")["cells"]
    assert set(cell["by_rule"]) == {"argmax", "median", "entropy", "member"}
    assert cell["by_rule"]["median"] == cell["accuracy"]
    assert [row.count(None) for row in cell["by_rule"]["entropy"]] == [4, 3, 2, 1, 0]
    assert cell["guarantee"]["epsilon"] == pytest.approx(8.0, abs=0.01)


def test_runs_in_release_mode_differ_and_seeded_ones_repeat(capsys: pytest.CaptureFixture[str]) -> None:
    found: dict[str, list[object]] = {"release": [], "seeded": []}
    for noise, results in found.items():
        for _ in range(2):
            sets = ["--set", f"privacy.noise={noise}", "--set", "privacy.epsilons=[0.5]"]
            results.append([cell["accuracy"] for cell in document_of(capsys, *SMALL, *sets)["cells"]])
    assert found["release"][0] != found["release"][1]
    assert found["seeded"][0] == found["seeded"][1]


TUNE = ["tune", "--preset", "digits-peft-head", "--set", "privacy.epsilons=[1.0]", "--set", "seeds=[0]"]


def test_tune_prints_one_document_with_trials_best_and_a_command_that_can_be_run(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = called(*TUNE, "--on", "private", "--trials", "2", "--json", capsys=capsys)
    document = json.loads(out)
    assert (status, document["status"], [trial["number"] for trial in document["trials"]]) == (0, "finished", [0, 1])
    assert document["best"]["accuracy"] == max(trial["accuracy"] for trial in document["trials"])
    sizes, carried = document["sizes"], document["transferred"]
    assert carried["ratio"] == pytest.approx(sizes["n_final"] / sizes["n_tune"])
    assert "3 uses of the same data" in document["privacy"]
    sets = [word for word in shlex.split(document["command"])[4:] if word != "--set"]
    final = checks.parse(checks.apply_sets({}, sets))
    assert (final.tuned, asdict(final.params)["learning_rate"]) == ("private", carried["learning_rate"])
    assert "trial 2 of 2" in err
    study_id = document["study_id"]
    assert document_of(capsys, "show", study_id) == document
    assert "best: trial" in printed(capsys, "show", study_id)
    assert document_of(capsys, "runs") == []  # trials are no runs of their own
    assert "has all its 2 trials" in complaint(capsys, "tune", "--resume", study_id)


def test_an_interrupted_tuning_keeps_its_trials_and_says_how_to_go_on(capsys, monkeypatch):
    from dpcl_core.tuning import search
    from tests.support import tuned

    real, pressed = tuned.preparing(), iter([None, None, KeyboardInterrupt()])

    def prepare(tune, device):
        ready = yield from real(tune, device)
        return search.Prepared(ready.title, ready.sizes, in_turn(pressed, ready.train))

    monkeypatch.setattr(search, "prepared", prepare)
    status, out, err = called(*TUNE, "--on", "private", "--trials", "4", "--json", capsys=capsys)
    document = json.loads(out)
    assert (status, document["status"], len(document["trials"])) == (1, "cancelled", 2)
    assert f"2 of 4 trials are kept; continue with: python -m dpcl_core resume {document['study_id']}" in err
    trials = document_of(capsys, "resume", document["study_id"])["trials"]
    assert (trials[:2], len(trials)) == (document["trials"], 4)


def test_a_spec_file_and_its_export_say_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spec = checks.parse(checks.apply_sets(presets.raw("digits-cosine"), ["seeds=[7]", "privacy.epsilons=[2.0]"]))
    file = put(tmp_path / "spec.toml", checks.to_toml(spec))
    run_id = document_of(capsys, "run", str(file))["run_id"]
    files = set(document_of(capsys, "export", run_id, "--to", str(tmp_path / "out"))["files"])
    out_files = (path for path in (tmp_path / "out").rglob("*") if path.is_file())
    assert files == {path.relative_to(tmp_path / "out").as_posix() for path in out_files}
    expected = {"accuracy.csv", "metrics.csv", "spec.toml", "accuracy.html", "privacy.txt", "privacy.json", "command.txt"}
    assert expected <= files
    assert checks.parse(checks.read_toml((tmp_path / "out" / "spec.toml").read_text(encoding="utf-8"))) == spec
    assert "Plotly.newPlot" in (tmp_path / "out" / "accuracy.html").read_text(encoding="utf-8")
    assert len((tmp_path / "out" / "accuracy.csv").read_text(encoding="utf-8").splitlines()) == 1 + 15
    assert [run["run_id"] for run in document_of(capsys, "runs")] == [run_id]


@pytest.mark.parametrize("what", ["methods", "datasets", "backbones", "scenarios", "presets"])
def test_everything_that_can_be_chosen_is_listed(what: str, capsys: pytest.CaptureFixture[str]) -> None:
    rows = document_of(capsys, "list", what)
    assert rows
    assert all(row["name"] and row["title"] and row["summary"] for row in rows)
    if what == "backbones":
        trained = {row["name"]: (row["trained_on"], row["saw"]) for row in rows}
        assert (trained["pixels"], trained["vit-cifar100"][1], trained["smollm2"][1]) == ((None, []), ["cifar100"], [])
    assert printed(capsys, "list", what).count("\n") == len(rows)


def test_account_asks_three_accountants_when_told_to(capsys: pytest.CaptureFixture[str]) -> None:
    options = ("--epsilon", "1", "--delta", "1e-5", "--sample-rate", "0.1", "--steps", "400", "--accountants")
    found = document_of(capsys, "account", *options)
    assert found["sigma"] == pytest.approx(7.576, rel=1e-3)
    assert found["accountants"]["agree"]
    assert found["accountants"]["prv"] == pytest.approx(1.0, abs=4e-3)
    assert found["accountants"]["rdp"] == pytest.approx(1.094, abs=2e-3)
    assert "PLD 1.0000" in printed(capsys, "account", *options[:4], "--accountants")


def test_audit_reports_claimed_accounted_and_audited(capsys: pytest.CaptureFixture[str]) -> None:
    sets = ["--set", "privacy.epsilons=[1.0]", "--set", "labels=data"]
    found = document_of(capsys, "audit", "--preset", "digits-cosine", *sets, "--trials", "400")["audits"][0]
    assert (found["claimed_epsilon"], found["accounted_epsilon"]) == (1.0, "inf")
    assert found["audited_lower_bound"] > 3
    assert (found["through"], found["bound"], found["detects"]) == ("learner", "counting", None)
    assert found["exceeds_accounted"] is False


def test_audit_of_a_claimed_epsilon_by_a_named_attack_and_by_all(tmp_path, capsys, monkeypatch):
    from dpcl_core.attacks import l2dp_games
    from dpcl_core.attacks.play import Guesses

    monkeypatch.setattr(l2dp_games, "likelihood_game", lambda *game: Guesses(game[-1], 0, game[-1]))  # takes seconds
    file = tmp_path / "claims.toml"
    settings = 'method = "l2dp-ml"\nprivacy.epsilons = [0.5]\nparams.batch_size = 50\ndata.dataset = "digits"\n'
    file.write_text(f'{settings}scenario = {{ kind = "class-incremental", tasks = 5 }}\n', encoding="utf-8")
    (found,) = document_of(capsys, "audit", str(file), "--attack", "labels", "--trials", "500")["audits"]
    assert (found["claimed_epsilon"], found["accounted_epsilon"], found["trials"]) == (0.5, "inf", 500)
    assert found["audited_lower_bound"] > 4.8
    assert "sees the output layer's gradients of two steps" in found["adversary"]
    out = printed(capsys, "audit", str(file), "--attack", "all", "--trials", "100")
    assert [line.split("): ")[1].split(":")[0] for line in out.splitlines()] == [
        "differencing the memory", "rank-one test", "labels from two steps", "likelihood of released parameters",
    ]  # fmt: skip
    said = complaint(capsys, "audit", str(file), "--attack", "guess")
    assert "--attack = guess: must be one of differencing, rank-one, labels, likelihood" in said


def test_audit_of_a_language_model_reads_noisy_embeddings_and_names_every_attack(capsys: pytest.CaptureFixture[str]) -> None:
    texts = ["audit", "--preset", "pecl-synthetic", "--set", "method=pecl-published", "--set", "params={}"]
    (found,) = document_of(capsys, *texts, "--attack", "inversion", "--trials", "200")["audits"]
    assert found["accounted_epsilon"] == "inf"
    assert "embedding inversion: the nearest of 1,536 rows names" in found["attack"]
    said = complaint(capsys, *texts, "--attack", "guess")
    assert "--attack = guess: must be one of level, exact, context, distance, epochs, planted-codes, inversion, all" in said


def test_a_reader_who_leaves_ends_no_run(tmp_path: Path) -> None:
    """As `... 2>&1 | head -1` does: progress is not read any more, and the run is kept to its end."""
    command = [sys.executable, "-m", "dpcl_core", *SMALL, "--json"]
    environment = {**os.environ, "DPCL_HOME": str(tmp_path)}
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        running.stderr.close()
        document = json.loads(running.stdout.read())
        assert running.wait(PATIENCE_SECONDS) == 0
    assert document["status"] == "finished"


def program(*arguments: str, home: Path, **environment: str) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "dpcl_core", *arguments]
    variables = {**os.environ, "DPCL_HOME": str(home), **environment}
    return subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, timeout=PATIENCE_SECONDS, check=False)


def test_what_is_printed_can_be_printed_in_any_encoding(tmp_path: Path) -> None:
    document = program("list", "methods", "--json", home=tmp_path, PYTHONIOENCODING="ascii")
    assert document.returncode == 0
    assert "ε" in str(json.loads(document.stdout.decode("ascii")))
    text = program("account", "--epsilon", "ε", "--delta", "1e-5", home=tmp_path, PYTHONIOENCODING="ascii")
    assert text.returncode == 2
    assert b"\\u03b5" in text.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full device here")
def test_output_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "dpcl_core", "fetch"]
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            command, cwd=ROOT, env={**os.environ, "DPCL_HOME": str(tmp_path)}, stdout=full, stderr=subprocess.PIPE,
            timeout=PATIENCE_SECONDS, check=False,
        )  # fmt: skip
    assert (done.returncode, done.stderr) == (1, b"standard output: could not be written: No space left on device\n")
    assert not list(tmp_path.iterdir()), "nothing of it is an unforeseen error"


def test_the_administrators_key_is_a_document_where_one_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    _, key, _ = called("administrator", capsys=capsys)
    _, document, _ = called("administrator", "--json", capsys=capsys)
    assert json.loads(document) == {"key": key.strip()}


@pytest.mark.parametrize("budgets", ["[1.0, inf]", "[1.0, 8.0]"])
def test_a_run_of_the_cosine_classifier_and_lists_need_no_scipy(budgets: str, home: Path) -> None:
    """They are half of what such a command would load, dp_accounting's SciPy above all: they need not be there at all."""
    code = (
        "import sys\n"
        "class Refuses:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name.partition('.')[0] in ('scipy', 'pandas'): raise ImportError(name)\n"
        "sys.meta_path.insert(0, Refuses())\nfrom dpcl_core.cli import main\nsys.exit(main(sys.argv[1:]))"
    )
    run = ["run", "--preset", "digits-cosine", "--set", f"privacy.epsilons={budgets}", "--set", "seeds=[0, 1, 2]"]
    for words in (run, ["list", "presets"], ["list", "methods"]):
        python("-c", code, *words)


# What the command line refuses, in one line, and what it says while it waits.


@pytest.mark.parametrize("command", [("run",), ("verify",)])
def test_what_is_no_file_of_settings_or_card_is_refused_unread(capsys, tmp_path, command):
    """A pipe nobody writes to and a device without an end would hold the command for ever."""
    pipe, large = tmp_path / "pipe", tmp_path / "large"
    os.mkfifo(pipe)
    with large.open("wb") as file:
        file.truncate(10_000_001)
    for path in (pipe, large, Path("/dev/zero"), tmp_path):
        err = complaint(capsys, *command, str(path))
        assert command == ("run",) or err.startswith("CARD = ")
        assert "must be a regular file of at most 10 MB" in err
    assert "must be a file that can be read: No such file" in complaint(capsys, *command, str(tmp_path / "none"))


def test_a_stream_without_a_ceiling_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    err = complaint(capsys, "run", "--preset", "paper-cslr-ag-news-ovr-small", "--ceiling")
    assert "has no ceiling on this stream" in err or "data.dataset" in err


SWEEP = ["sweep", "--preset", "digits-cosine", "--over"]


@pytest.mark.parametrize(("arguments", "words"), [
    (["audit", "--preset", "digits-cosine", "--attack", "guess"], ["--attack = guess", "must be left out"]),
    (["run"], ["a preset", "SPEC.toml", "--set"]),
    (["run", "a.toml", "--preset", "digits-cosine"], ["a.toml", "not both"]),
    (["run", "/no/such/file.toml"], ["/no/such/file.toml", "can be read"]),
    (["run", "--preset", "digits-cosine", "--set", "privacy.epsilons=banana"], ["privacy.epsilons", "banana"]),
    (["run", "--preset", "digits-cosine", "--set", "data.dataset=nowhere"], ["data.dataset = nowhere", "digits"]),
    (["run", "--preset", "digits-cosine", "--store", "gopher://x"], ["gopher"]),
    (["show", "0123456789ab"], ["0123456789ab"]),
    (["list", "shoes"], ["shoes"]),
    (["account", "--epsilon", "0", "--delta", "1e-5"], ["epsilon = 0"]),
    (["account", "--epsilon", "1"], ["exactly two"]),
    (["account", "--epsilon", "1", "--delta", "1e-5", "--sample-rate", "1.5"], ["sample_rate = 1.5", "(0, 1]"]),
    (["tune", "--preset", "digits-cosine", "--on", "private"], ["method = cosine", "to tune"]),
    (TUNE, ["--on DATASET", "--on private"]),
    ([*TUNE, "--on", "private", "--trials", "0"], ["n_trials = 0", "1"]),
    ([*TUNE, "--on", "private", "--set", "seeds=[1, 2]"], ["seeds = 1, 2", "one seed"]),
    ([*TUNE, "--proxy", "digits"], ["proxy = digits", "shares examples"]),
    (["tune", "--resume", "0123456789ab"], ["0123456789ab", "no such run"]),
    (["resume", "0123456789ab", "--trials", "9"], ["unrecognized arguments: --trials 9"]),
    (["audit", "--preset", "digits-cosine", "--trials", str(2**63 - 1)], ["--trials = 922337", "10,000,000"]),
    ([*SWEEP, f"seeds={'9' * 5000}"], ["--over = seeds=999", "must be KEY=[VALUE, ...]"]),
    ([*SWEEP, f"seeds={'[' * 5000}"], ["--over = seeds=[[[", "must be KEY=[VALUE, ...]"]),
    (["run", "caf\udce9.toml"], ["command line = caf", "must be text in UTF-8"]),
    (["verify", "card\0.json"], ["command line = card\\0.json", "without NUL"]),
    (["verify", ""], ["CARD = '': must not be empty"]),
    (["runs", "--store", ""], ["--store = '': must not be empty"]),
    (["run", "--preset", "digits-cosine", "--set", ""], ["--set = '': must not be empty"]),
    (["site", "--to", ""], ["--to = '': must not be empty"]),
    (["site", "--to", "/dev/null/site"], ["--to = /dev/null/site: must be a folder that can be written"]),
    (["runs", "--store", "sqlite:////dev/null"], ["store sqlite:////dev/null: must be a regular file"]),
    (["run", "--all", "--set", "method=cosine"], ["--all = : needs a preset"]),
    (["run", "--preset", "digits-cosine", "--all", "--ceiling"], ["--all = : cannot be combined"]),
    (["lits", "presets"], ["did you mean list?"]),
    (["run", "--preset", "digit-cosine"], ["did you mean digits-cosine?"]),
    (["run", "--preset", "digits-peft-head", "--set", "params.learningrate=1"], ["mean params.learning_rate?"]),
    (["run", "--set", "method=joint-network", "--set", "privacy.epsilons=[1]"], ["add --set 'privacy.epsilons=[inf]'"]),
    ([*SMALL, "--device", "cuda:99"], ["--device = cuda:99: must be a device of this computer: cpu"]),
])
def test_wrong_input_is_one_line_and_status_2(arguments, words, capsys):
    includes(complaint(capsys, *arguments), *words)
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
    said = complaint(capsys, "data", "check", str(tmp_path / "c.csv"), "--target", "y", "--person", "y")
    assert said == "--person = y: is the column of --target already: name another one\n"


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
    locked = [StoreLocked("store x: another program has kept it locked")] * 3
    monkeypatch.setattr(process.time, "sleep", lambda _: None)
    monkeypatch.setattr(common, "carried_out", lambda store, run_id, **_: store.get(run_id))
    monkeypatch.setattr(Store, "create", in_turn(locked, Store.create))
    run = common.carry_out(Store(), replay.a_spec(), None, "cpu")
    said = capsys.readouterr().err.splitlines()
    assert said == ["waiting for the store: store x: another program has kept it locked", f"run {run.id}"]
    assert len(Store().list_runs()) == 1
    monkeypatch.setattr(Store, "create", raising(StoreTrouble("store x: cannot be reached")))
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
    answers = [StoreLocked("store x: another program has kept it locked"), BadInput("store", "x", "was asked again")]
    monkeypatch.setattr(process.time, "sleep", lambda _: None)
    monkeypatch.setattr("dpcl_core.checks.check_run", lambda spec: None)  # a paper's data may not be here; none are read
    monkeypatch.setattr(of, name, in_turn(answers, pytest.fail))
    if (of, name) == (Studies, "resume"):
        monkeypatch.setattr(Studies, "of_run", lambda _, run_id: run_id)
    said = complaint(capsys, *(run_id if one == "RUN" else one for one in arguments))
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
    includes(complaint(capsys, *command), f"{path}: there is none", f"touch {path}")
    assert list((tmp_path / "stores").iterdir()) == []


def test_an_empty_file_becomes_a_store_that_its_owner_alone_reads(capsys, tmp_path):
    path = tmp_path / "runs.db"
    path.touch(0o644)
    assert called("runs", "--store", str(path), capsys=capsys)[0] == 0
    assert (path.read_bytes()[:15], path.stat().st_mode & 0o777) == (b"SQLite format 3", 0o600)


def test_a_folder_that_changes_while_it_is_read_is_no_error_of_the_program(capsys, tmp_path, monkeypatch):
    """Such as /proc, whose folders are processes."""
    (tmp_path / "gone" / "1").mkdir(parents=True)
    listed = Path.iterdir

    def iterdir(path: Path) -> Iterator[Path]:
        if path.name == "1":
            raise FileNotFoundError(2, "No such file or directory", str(path))
        return listed(path)

    monkeypatch.setattr(Path, "iterdir", iterdir)
    assert complaint(capsys, "data", "check", str(tmp_path / "gone")).startswith("--data = gone: could not be copied")
