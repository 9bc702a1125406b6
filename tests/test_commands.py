"""Commands and notebooks that the project prints can be pasted and run."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from dpcl_core import checks, cli, paths, presets
from dpcl_core.cli import common, parser, training
from dpcl_core.errors import DataMissing
from dpcl_core.papers import catalog as papers
from dpcl_core.papers import report
from dpcl_core.papers.paper import Size
from dpcl_core.site import live
from dpcl_core.spec import RunSpec
from tests.data.making import put
from tests.support.tiers import quick
from tests.support.waiting import PATIENCE_SECONDS, python

ROOT = Path(__file__).resolve().parent.parent
PROGRAM = "python -m dpcl_core "
pytestmark = pytest.mark.usefixtures("home")
SMALL = ("seeds=[0]", "privacy.epsilons=[1.0]", "data.train_per_class=20", "data.test_per_class=10")


def in_documents() -> list[str]:
    """The commands in code blocks, which are indented or fenced, one a line or several behind semicolons."""
    found: list[str] = []
    for path in [*ROOT.glob("*.md"), *(ROOT / "docs").glob("**/*.md")]:
        text = path.read_text(encoding="utf-8")
        lines = re.findall(r"^(?:    |\t|\$ |\| `)?((?:python -m dpcl_core|dpcl) [^`\n]*)", text, re.MULTILINE)
        found += [part.strip() for line in lines for part in re.sub(r"\s+#.*$", "", line).split(";")]
    return list(dict.fromkeys(re.sub(r"^dpcl ", PROGRAM, command) for command in found))


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str, Path]:
    """A finished run: its store, its id, and a folder with a SPEC.toml, the run's export in DIR, its card, features in
    INPUT.npz, and own data in FOLDER and FILE."""
    folder = tmp_path_factory.mktemp("commands")
    store = f"sqlite:///{folder / 'store.sqlite'}"
    (folder / "store.sqlite").touch()
    sets = [part for value in SMALL for part in ("--set", value)]
    assert cli.main(["run", "--preset", "digits-cosine", "--store", store, *sets]) == 0
    from dpcl_core.runs.store import Store

    run_id = Store(store).list_runs()[0].id
    assert cli.main(["export", run_id, "--to", str(folder / "DIR"), "--store", store]) == 0
    (folder / "SPEC.toml").write_text(checks.to_toml(presets.load("digits-cosine")), encoding="utf-8")
    shutil.copy(folder / "DIR" / "privacy_card.json", folder)
    np.savez(folder / "INPUT.npz", features=np.ones((2, 64), np.float32))
    for split in ("train", "test"):
        put(folder / "FOLDER" / f"{split}.csv", "text,label\nfine,good\npoor,bad\n")
    rows = "".join(f"{place},{'ab'[place % 2]}\n" for place in range(60))
    (folder / "FILE.csv").write_text(f"size,COLUMN\n{rows}", encoding="utf-8")
    return store, run_id, folder


def spec_of(command: str) -> RunSpec:
    """What a printed `run` would carry out, read as the terminal reads it."""
    assert command.startswith(PROGRAM)
    return common.spec_of(parser.read(shlex.split(command.removeprefix(PROGRAM))))


def check(spec: RunSpec) -> None:
    try:
        checks.check_run(spec)
    except DataMissing as error:
        pytest.skip(str(error))


def test_documents_have_commands() -> None:
    assert len(in_documents()) >= 15


@pytest.mark.parametrize("command", quick(20, in_documents()))
def test_a_documents_command_runs(command, finished, monkeypatch):
    """Quick ones are carried out; of those that train or attack, all that is read and checked before they begin."""
    store, run_id, folder = finished
    monkeypatch.setenv("DPCL_STORE", store)
    if "own:" in command:
        monkeypatch.setenv("DPCL_DATA", str(folder))
    monkeypatch.chdir(folder)
    example = "examples/real_clients.toml"
    stands_for = {"RUN_ID": run_id, "FILE": "FILE.csv", "own:NAME": "own:FOLDER", example: str(ROOT / example)}
    words = [stands_for.get(word, word) for word in shlex.split(command.removeprefix(PROGRAM))]
    options = parser.read(words)
    if options.command == "training.run" and options.spec in papers.PAPERS:
        for experiment, runs in planned(options.spec, options.experiment, options.size or "small").items():
            assert runs, experiment
    elif options.command in ("training.run", "training.audit"):
        common.resolve_target(options)
        if options.command == "training.audit" and options.run is not None:
            check(training.spec_of_stored(options))
        elif options.command == "training.run" and options.data is not None:
            check(training.own_spec(options))
        elif options.command == "training.run" and (options.all or options.over):
            for spec in training.specs_of(options).values():
                check(spec)
        else:
            check(common.spec_of(options))
    elif options.command == "reading.app" and not options.key:
        assert paths.app_file().exists()
    elif "pyodide" in words or "--live" in words:  # 80 MB of the network, which the second command needs
        assert live.about_python()["core"]
    elif options.command == "training.tune":
        training.tuning(options)
    elif options.command == "reading.flower" and options.to is None:  # each waits for the others
        assert Path(options.spec).parent.name == "parts"
    elif options.command == "training.work":
        assert cli.main([*words, "--once"]) == 0  # else it ends only when it is stopped
    else:
        is_over = options.command == "reading.stop" and run_id in words  # it says so by its status
        assert cli.main(words) == int(is_over)


def planned(paper: str, experiment: str | None, size: Size) -> dict[str, dict[str, RunSpec]]:
    found = papers.paper(paper)
    chosen = [papers.experiment(found, experiment)] if experiment else list(found.experiments)
    runs = report.planned(chosen, size, (), named=experiment is not None)
    return {one.name: dict(specs) for one, specs in runs.items()}


@pytest.mark.parametrize("name", quick(24, presets.names()))
def test_the_command_of_every_run_of_a_preset_is_that_run(name: str) -> None:
    """What Train, `show`, an export and a tuning print for a run, whatever the run is: it needs no preset and no file."""
    for label, spec in presets.variants(name).items():
        assert spec_of(checks.command_line(spec)) == spec, label


@pytest.mark.parametrize("paper", list(papers.PAPERS))
def test_the_commands_of_the_page_published_are_understood(paper: str) -> None:
    """One for every experiment and size that has a preset."""
    for experiment in papers.paper(paper).experiments:
        for size in experiment.sizes:
            words = ["reproduce", paper, "--experiment", experiment.name, f"--{size}"]
            assert (parser.read(words).command, parser.read(words).spec) == ("training.run", paper)
            assert planned(paper, experiment.name, size)


def test_what_show_and_an_export_print_runs_again(finished, capsys):
    store, run_id, folder = finished
    assert cli.main(["show", run_id, "--store", store]) == 0
    shown = next(line for line in capsys.readouterr().out.splitlines() if line.startswith(PROGRAM))
    assert (folder / "DIR" / "command.txt").read_text(encoding="utf-8").strip() == shown
    assert cli.main([*shlex.split(shown.removeprefix(PROGRAM)), "--store", store]) == 0


def test_every_command_is_there() -> None:
    """The parser names functions in words, so that it need not load them."""
    source = (ROOT / "dpcl_core/cli/parser.py").read_text(encoding="utf-8")
    for name in re.findall(r'"((?:reading|training)\.\w+)"', source):
        module, _, function = name.partition(".")
        assert callable(getattr(import_module(f"dpcl_core.cli.{module}"), function)), name


def test_there_are_sixteen_commands_and_old_names_mean_the_same() -> None:
    """Scripts may have the older names; each is one line of a table."""
    (commands,) = [action for action in parser.build()._actions if isinstance(action.choices, dict)]
    assert len(commands.choices or ()) == 16
    needs = {"sweep": ["digits-cosine"], "site": ["--to", "DIR"], "reproduce": ["tobaben"], "show": ["ID"], "delete": ["ID"]}
    needs |= {"tune": ["ID"]}  # only its --resume has another name
    for old, new in parser.OLD_NAMES.items():
        rest = needs.get(old[0], ["NAME"] if old[0] in ("data", "flower") else [])
        if old != ("completion",):
            assert parser.read([*old, *rest]) == parser.read([*new, *rest])


@pytest.mark.parametrize(("older", "newer"), [
    ("run --preset digits-cosine", "run digits-cosine"),
    ("sweep --preset digits-cosine --over seeds=[[0],[1]]", "run digits-cosine --all --over seeds=[[0],[1]]"),
    ("run --data FILE.csv --target COLUMN", "run FILE.csv --target COLUMN"),
    ("audit --preset digits-cosine", "audit digits-cosine"),
    ("audit --run 0123456789ab", "audit 0123456789ab"),
    ("reproduce tobaben --full", "run tobaben --size full"),
    ("flower client FOLDER --server 127.0.0.1:9", "flower FOLDER --address 127.0.0.1:9"),
    ("cache --clean features", "fetch --delete features"),
])
def test_an_older_option_means_a_newer_one_or_the_first_argument(older, newer, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "FILE.csv").touch()
    read = [parser.read(words.split()) for words in (older, newer)]
    for options in read:
        if getattr(options, "spec", "FOLDER") not in (*papers.PAPERS, "FOLDER"):
            common.resolve_target(options)
    assert read[0] == read[1]


NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))
# As a kernel does it: cells in order, in one namespace; `%%writefile` is the one magic that they use.
KERNEL = """
import json, pathlib, sys
names = {"__name__": "__main__"}
for number, cell in enumerate(json.loads(pathlib.Path(sys.argv[1]).read_text(encoding="utf-8"))["cells"]):
    source = "".join(cell["source"])
    if cell["cell_type"] != "code":
        continue
    if source.startswith("%%writefile "):
        first, _, text = source.partition("\\n")
        pathlib.Path(first.removeprefix("%%writefile ").strip()).write_text(text, encoding="utf-8")
    else:
        exec(compile(source, f"cell {number}", "exec"), names)
"""


def executed(notebook: Path, folder: Path) -> str:
    """What all code cells of a notebook print, in order, in a fresh process in `folder`, without a network."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("DPCL_")}
    environment |= {"DPCL_HOME": str(folder / "home"), "PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1"}
    return python("-c", KERNEL, str(notebook), cwd=folder, env=environment)


@pytest.mark.parametrize("notebook", quick(1, NOTEBOOKS), ids=lambda path: path.stem)
def test_a_notebook_runs(notebook: Path, tmp_path: Path) -> None:
    executed(notebook, tmp_path)


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_holds_no_output(notebook: Path) -> None:
    code = [cell for cell in json.loads(notebook.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == "code"]
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in code)


def test_a_method_of_another_place_needs_a_name_of_its_own(tmp_path: Path) -> None:
    """One sentence and exit status 2, as for any other input; for a module without a card see `test_unforeseen.py`."""
    (tmp_path / "taken.py").write_text("from dpcl_core.methods.features.cosine import CARD\n", encoding="utf-8")
    environment = {**os.environ, "DPCL_METHODS": "taken", "PYTHONPATH": os.pathsep.join([str(ROOT), str(tmp_path)])}
    command = [sys.executable, "-m", "dpcl_core", "list", "methods"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENCE_SECONDS)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert done.stderr.startswith("DPCL_METHODS = taken: ")
    assert "cosine" in done.stderr
