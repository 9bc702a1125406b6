"""The commands and their options."""

import argparse
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NoReturn

from dpcl_core.errors import BadInput
from dpcl_core.version import __version__

Parser = argparse.ArgumentParser
Add = Callable[[str, str, str], Parser]

# Names that commands once had, which scripts may still use, and what they mean now.
OLD_NAMES: Mapping[tuple[str, ...], tuple[str, ...]] = {
    ("sweep",): ("run", "--all"),
    ("reproduce",): ("run",),
    ("show",): ("runs",),
    ("delete",): ("runs", "--delete"),
    ("site",): ("export", "site"),
    ("cache",): ("fetch",),
    ("administrator",): ("app", "--key"),
    ("completion",): ("--completion",),
    ("data", "check"): ("data",),
    ("data", "budget"): ("data", "--budget"),
    ("data", "carry-over"): ("data", "--carry-over"),
    ("flower", "split"): ("flower",),
    ("flower", "server"): ("flower",),
    ("flower", "client"): ("flower",),
    ("tune", "--resume"): ("resume",),
}
# Options that had another name, which scripts may still use.
OLD_OPTIONS: Mapping[str, str] = {
    "--small": "--size=small", "--bundled": "--size=bundled", "--full": "--size=full", "--server": "--address",
    "--clean": "--delete", "--site": "site",
}  # fmt: skip


def read(arguments: Sequence[str]) -> argparse.Namespace:
    """The options of a command line, whose `command` is `module.function` of this package. Raises BadInput."""
    words = tuple(arguments)
    old = next((name for name in OLD_NAMES if words[: len(name)] == name), ())
    now = [OLD_OPTIONS.get(word, word) for word in (*OLD_NAMES.get(old, ()), *words[len(old) :])]
    if len(sizes := {word.removeprefix("--size=") for word in now if word.startswith("--size=")}) > 1:
        raise BadInput("--size", " and ".join(sorted(sizes)), "must be given once")
    return build().parse_args(now)


class _Parser(Parser):
    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:  # of commands, too
        """Refuses empty values, such as of a variable of the shell that was never set: they are not the default."""
        options, rest = super().parse_known_args(args, namespace)
        for action in self._actions:
            value = getattr(options, action.dest, None)
            if "" in (value if isinstance(value, list) else [value]):
                name = action.option_strings[0] if action.option_strings else str(action.metavar or action.dest)
                raise BadInput(name, "''", "must not be empty")
        return options, rest

    def error(self, message: str) -> NoReturn:
        """Raises BadInput, with the nearest choice in the place of a mistyped one."""
        match = re.search(r"invalid choice: '(.*?)' \(choose from (.*)\)", message)
        near = get_close_matches(match[1], re.findall(r"[\w-]+", match[2]), n=1) if match else []
        guess = f"; did you mean {near[0]}?" if near else ""
        raise BadInput("command line", " ".join(sys.argv[1:]), f"{message}{guess} (see --help)")


class _Completion(argparse.Action):
    def __call__(self, parser: Parser, namespace: Any, values: Any, option_string: str | None = None) -> NoReturn:
        """Prints the completion script of a shell."""
        import shtab

        from dpcl_core.cli.output import put

        put(shtab.complete(parser, values))
        parser.exit()


def build() -> Parser:
    """The commands with their options. Hidden options are older names of a command's first argument."""
    parser = _Parser(
        prog="dpcl" if Path(sys.argv[0]).stem == "dpcl" else "python -m dpcl_core",
        description="Differentially private continual learning, from a terminal.",
    )
    parser.add_argument("--version", action="version", version=f"dpcl {__version__}")
    shells, text = ("bash", "zsh", "tcsh"), "print the completion of these commands for a shell"
    parser.add_argument("--completion", action=_Completion, choices=shells, help=text)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def add(name: str, command: str, text: str) -> Parser:
        sub = commands.add_parser(name, help=text, description=text)
        sub.set_defaults(command=command)
        sub.add_argument("--json", action="store_true", help="print one JSON document")
        return sub

    _add_training(add)
    _add_stored(add)
    _add_data(add)
    _add_others(add)
    return parser


_SHARED: Mapping[str, Mapping[str, Any]] = {
    "--set": {"action": "append", "default": [], "metavar": "KEY=VALUE", "help": "change a setting, TOML value"},
    "--device": {"help": "cpu, cuda:N, or NAME/cpu of a machine (default: the first GPU, else the CPU)"},
    "--no-wait": {"action": "store_true", "help": "refuse, with status 2, where the device is taken"},
    "--store": {"metavar": "URL", "help": "where runs are kept (default: DPCL_STORE, else the home)"},
}


def _add_shared(sub: Parser, *names: str) -> None:
    for name in names:
        sub.add_argument(name, **_SHARED[name])


def _add_target(sub: Parser, text: str, *shared: str) -> None:
    sub.add_argument("spec", nargs="?", metavar="TARGET", help=text)
    sub.add_argument("--preset", help=argparse.SUPPRESS)
    _add_shared(sub, "--set", *shared)


def _add_columns(sub: Parser) -> None:
    for role, what in (
        ("target", "the column of the labels"),
        ("text", "the column of the texts to learn from"),
        ("source", "the column of where a row comes from, such as a site; sources are tasks"),
        ("person", "the column of whose a row is: the person is then protected"),
        ("time", "the date of a row; months are tasks"),
    ):
        sub.add_argument(f"--{role}", metavar="COLUMN", help=what)
    first = "whether the first line of a CSV or TSV file names its columns, and is public (else column1, column2, ...)"
    sub.add_argument("--header", action=argparse.BooleanOptionalAction, help=first)
    private = "a part beside train, such as val, that is private as well: its rows join the training part"
    sub.add_argument("--private", action="append", default=[], metavar="PART", help=private)
    sub.add_argument("--per-person", type=int, metavar="N", help="how many rows of a person count (default 1)")


def _add_training(add: Add) -> None:
    run = add("run", "training.run", "carry out runs and store them")
    said = "a preset, settings as TOML, a file or folder of your own data, or a paper such as tobaben"
    _add_target(run, said, "--device", "--no-wait", "--store")
    run.add_argument("--data", help=argparse.SUPPRESS)
    _add_columns(run)
    every = "every run of a preset as one entry of the queue, cheapest first, stopped together"
    run.add_argument("--all", action="store_true", help=every)
    grid = "a setting that varies, with its values as a TOML list; several make a grid"
    run.add_argument("--over", action="append", default=[], metavar="KEY=[VALUE, ...]", help=grid)
    ceiling = "first train on all tasks at once without noise, for comparison; not private: public benchmarks only"
    run.add_argument("--ceiling", action="store_true", help=ceiling)
    where = "what carries it out: this computer or a Ray cluster (default: local)"
    run.add_argument("--executor", metavar="local|ray", help=where)
    parts = "split a run into at most N parts for several machines, where its models share no work"
    run.add_argument("--shards", type=int, metavar="N", help=parts)
    run.add_argument("--experiment", metavar="NAME", help="one experiment of a paper (default: all)")
    text = "form of a paper's experiments: small takes minutes (default), bundled hours, full is the paper's protocol"
    run.add_argument("--size", choices=("small", "bundled", "full"), help=text)
    text_on = "a paper's experiment on other data, such as own:NAME: which of its claims hold there"
    run.add_argument("--on", metavar="DATASET", help=text_on)
    run.add_argument("--record", metavar="FILE", help="write a paper's numbers to a file that the app can show")
    text = "go on with a run whose process has ended, after its last learned task; or with a tuning, after its last trial"
    resume = add("resume", "training.resume", text)
    resume.add_argument("run_id", metavar="RUN_ID")
    _add_shared(resume, "--device", "--no-wait", "--store")
    tune = add("tune", "training.tune", "search for learning rate, batch size and clipping norm")
    _add_target(tune, "a preset or settings as TOML, with one epsilon and one seed", "--device", "--no-wait", "--store")
    tune.add_argument("--trials", type=int, help="number of trainings, each with its own settings (default 20)")
    tune.add_argument("--on", metavar="DATASET", help="a public dataset; or private: the run's own, covered by no epsilon")
    tune.add_argument("--proxy", help=argparse.SUPPRESS)
    text = "attack a method: a lower bound on its epsilon; status 1 if that exceeds the ledger's"
    audit = add("audit", "training.audit", text)
    _add_target(audit, "a preset, settings as TOML, or a stored run, whose training is repeated with planted examples")
    audit.add_argument("--run", help=argparse.SUPPRESS)
    audit.add_argument("--trials", type=int, help="releases per side (default: as many as the attack needs)")
    several = (
        "the attack, if a method has several (default: the one used to audit its runs); all: every one; "
        "planted-codes: train the language model and measure how far it memorises planted codes; "
        "inversion: decode tokens from noisy embeddings"
    )
    audit.add_argument("--attack", metavar="NAME", help=several)
    _add_shared(audit, "--no-wait", "--store")


def _add_stored(add: Add) -> None:
    runs = add("runs", "reading.runs", "all stored runs and what each waits for; one run with its result; deletes runs")
    runs.add_argument("run_id", metavar="RUN_ID", nargs="*")
    text = "put them into the trash of the page Runs, which restores them until it is emptied"
    runs.add_argument("--delete", action="store_true", help=text)
    text = "also what one run cost this client, from 1, on this terminal alone; unprotected where the data are private"
    runs.add_argument("--person", type=int, metavar="CLIENT", help=text)
    stop = add("stop", "reading.stop", "stop runs, whoever carries them out, as Stop of a page does")
    stop.add_argument("run_id", metavar="RUN_ID", nargs="*")
    stop.add_argument("--all", action="store_true", help="every run that waits or is under way; not those of visitors")
    work = add("work", "training.work", "carry out the queued runs, until stopped; the app does so while it is up")
    work.add_argument("--once", action="store_true", help="end when no run waits or is under way; status 1 if one failed")
    export = add("export", "reading.export", "a run's tables, figures and settings as files; or pages that need no server")
    export.add_argument("run_id", metavar="RUN_ID", help="or site: interactive pages, recorded runs and published numbers")
    text = "with site: also a page that trains, with the engine and the browser's Python (dpcl fetch pyodide)"
    export.add_argument("--live", action="store_true", help=text)
    export.add_argument("--to", required=True, metavar="DIR", help="folder to write into")
    without = "also write classifiers without a privacy bound: they may show who is in the data"
    export.add_argument("--unprotected", action="store_true", help=without)
    for sub in (runs, stop, work, export):
        _add_shared(sub, "--store")
    text = "classify a picture, a folder of pictures, texts or features by a released classifier of an export"
    predict = add("predict", "reading.predict", text)
    predict.add_argument("folder", metavar="FOLDER", help="the folder that dpcl export wrote")
    predict.add_argument("input", metavar="INPUT", help="a picture or a folder of pictures; CSV, TSV, TXT, NPY or NPZ")
    predict.add_argument("--epsilon", type=float, help="the model's budget (default: the largest that has a bound)")
    predict.add_argument("--seed", type=int, help="the model's seed (default: the first)")
    predict.add_argument("--after", type=int, metavar="TASK", help="as it was after this task, from 1 (default: the last)")
    predict.add_argument("--task", type=int, help="the task that the examples belong to, from 1, where that is known")
    predict.add_argument("--device", help="cpu or cuda:N (default: cpu)")


def _add_data(add: Add) -> None:
    text = "what becomes public about your data and, for you only, which examples are left out; or their budget"
    data = add("data", "reading.data", text)
    data.add_argument("data", metavar="NAME_OR_PATH", help="its name, file or folder")
    _add_columns(data)
    data.add_argument("--write-schema", action="store_true", help="write the public part as schema.toml beside the data")
    text = "show the budget for all runs on the same rows, whatever their names and schemas"
    data.add_argument("--budget", action="store_true", help=text)
    said = data.add_mutually_exclusive_group()
    said.add_argument("--epsilon", type=float, help="declare this budget, in place of one declared before")
    said.add_argument("--none", action="store_true", help="remove the budget; what was spent stays counted")
    text = "take the path for a store of an earlier layout, and count its looks, spend and budgets in this one, once"
    data.add_argument("--carry-over", action="store_true", help=text)
    data.add_argument("--delta", type=float, help="the budget's delta (default: the largest power of ten below 1/n)")
    _add_shared(data, "--store")


def _add_others(add: Add) -> None:
    text = "clients as processes of their own: write the folder of each, or carry out a folder's part of the run"
    flower = add("flower", "reading.flower", text)
    _add_target(flower, "a preset or settings to be split, with one epsilon and one seed; or a server's or client's folder")
    flower.add_argument("--to", metavar="DIR", help="split a run: folder to write the parts into")
    address = "where the server listens on this computer, and clients find it (default 127.0.0.1:9093)"
    flower.add_argument("--address", default="127.0.0.1:9093", metavar="HOST:PORT", help=address)
    choices = ("methods", "datasets", "backbones", "scenarios", "presets", "combinations")
    add("list", "reading.list_choices", f"list the {', '.join(choices)}").add_argument("what", choices=choices)
    account = add("account", "reading.account", "noise from a budget, or a budget from noise: give two of three")
    for option in ("epsilon", "sigma", "delta"):
        account.add_argument(f"--{option}", type=float)
    account.add_argument("--sample-rate", type=float, default=1.0, help="Poisson sampling rate of a step (default 1)")
    account.add_argument("--steps", type=int, default=1, help="noisy steps, or releases on the same people (default 1)")
    account.add_argument("--accountants", action="store_true", help="also show epsilon by PLD, PRV and RDP (loads torch)")
    account.add_argument("--adjacency", choices=("add-remove", "replace"), default="add-remove")
    add("verify", "reading.verify", "recompute a privacy card by a second accountant").add_argument("card", metavar="CARD")
    text = "get networks: lite0 (pictures), smollm2 (texts); pyodide for pages that train; without a name, list what is kept"
    fetch = add("fetch", "reading.fetch", text)
    fetch.add_argument("names", nargs="*", metavar="NAME", help="lite0, smollm2 or pyodide")
    fetch.add_argument("--environment", action="store_true", help="store it in this Python's environment, not your cache")
    fetch.add_argument("--delete", metavar="NAME", help="delete one kind of what is kept; it can be had again")
    app = add("app", "reading.app", "open the app in a browser")
    app.add_argument("--port", type=int, default=8501, help="port of the app (default 8501)")
    app.add_argument("--address", default="localhost", help="address of the app (default localhost: this computer only)")
    text = "for many visitors: limits for each (such as cells=60,seconds=900,places=3,megabytes=200), a fair queue, own runs"
    app.add_argument("--shared", metavar="LIMITS", nargs="?", const="usual", help=text)
    app.add_argument("--no-browser", action="store_true", help="do not open a browser")
    app.add_argument("--key", action="store_true", help="only print the key of a shared server's page Administration")
