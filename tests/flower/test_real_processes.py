"""A server and five clients as processes of Flower on this computer: the run is the simulation's, bit for bit.

Needs Flower, and so an environment of its own: `make flower` makes it, carries this out and writes what it measured into the
guide. Clients that lie run the project's code with one function replaced; one that dies is killed with all its processes.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from dpcl_core import checks, engine, learning
from dpcl_core.backbones import extractor
from dpcl_core.events import CellFinished, Classifier, Event, Progress, from_json, to_json
from dpcl_core.flower import exchange, participant
from dpcl_core.spec import RunSpec
from tests.flower.test_real_clients import Lie, Wire, compared, one_number, vector, without
from tests.support.waiting import PATIENCE_SECONDS

ROOT = Path(__file__).resolve().parents[2]
GUIDE = ROOT / "docs" / "guides" / "real_clients.md"
RECORD = ROOT / "docs" / "real_clients.json"
START, END = "<!-- figures: written by make flower -->", "<!-- end of figures -->"
N = 5
SMALL: Mapping[str, Sequence[str]] = {
    "label-means": (),
    "cslr-server-head": ("params.modes_per_task=2", "params.steps=100", "params.anchors=50"),
    "dp-fedavg": ("params={}", "params.rounds=2", "params.participation=0.6", "params.hidden=16"),
}
LIES: Mapping[str, tuple[str, Lie]] = {  # by name: as Python source of the process that lies, and for the fake network
    "nan": ("struct.pack('<d', float('nan')) + sent[8:]", one_number(float("nan"))),
    "a million": ("struct.pack('<d', 1e6) + sent[8:]", one_number(1e6)),
    "too long": ("sent + bytes(8)", vector(lambda sent: sent + bytes(8))),
    "64 MiB": ("bytes(1 << 26)", vector(lambda sent: b"")),  # as unusable as nothing
}
_LIAR = """
import os, struct
from dpcl_core.flower import exchange
honest = exchange.reply
def reply(folder, record):
    answer = honest(folder, record)
    sent = answer.get("vector")
    if os.environ["LIE"] == "die" and sent and record["task"] == 1:
        import psutil
        above = psutil.Process().parents()
        names = ["dpcl_core" in process.cmdline() for process in above]
        for process in above[: names.index(True) + 1]:  # up to the command of this client, and no further
            process.kill()
        os.kill(os.getpid(), 9)
    return {**answer, "vector": eval(os.environ["LIE"])} if sent and os.environ["LIE"] != "die" else answer
exchange.reply = reply
"""


@dataclass(frozen=True)
class Ended:
    """What a run of processes gave: status of the server's command, its lines, the events, and how long it took."""

    status: int
    said: str
    events: tuple[Event, ...]
    seconds: float


def asked(method: str, *sets: str) -> RunSpec:
    raw = checks.read_toml((ROOT / "examples" / "real_clients.toml").read_text(encoding="utf-8"))
    return checks.parse(checks.apply_sets(raw, [f'method="{method}"', *SMALL[method], *sets]))


def opened(spec: RunSpec) -> tuple[engine.Opened, list[Event]]:
    events: list[Event] = []
    return extractor.result_of(engine.open_run(checks.check_run(spec)), events.append), events


def parts(spec: RunSpec, folder: Path) -> list[Path]:
    made = participant.parts(spec, *opened(spec))
    for name, part in made.items():
        participant.write(part, folder / name)
    return [folder / name for name in made]


def processes(folders: Sequence[Path], lies: Mapping[int, str] | None = None) -> Ended:
    """Server and clients as commands, each as a user would type it, on a free port; ends them all."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{found.getsockname()[1]}"
    began = time.monotonic()
    program = [sys.executable, "-m", "dpcl_core", "flower"]
    server = subprocess.Popen(
        [*program, "server", str(folders[0]), "--address", address],
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, cwd=ROOT,
    )  # fmt: skip
    joined = []
    try:
        for number, folder in enumerate(folders[1:]):
            environment = dict(os.environ)
            if lies and number in lies:
                (liar := folder / "liar").mkdir()
                (liar / "sitecustomize.py").write_text(_LIAR, encoding="utf-8")
                environment |= {"PYTHONPATH": str(liar), "LIE": lies[number]}
            command = [*program, "client", str(folder), "--server", address]
            joined.append(subprocess.Popen(command, env=environment, cwd=ROOT, stdout=subprocess.DEVNULL))
        _, said = server.communicate(timeout=PATIENCE_SECONDS)
        for process in joined:
            process.wait(PATIENCE_SECONDS)
    finally:
        for process in (server, *joined):
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
                process.wait(PATIENCE_SECONDS)
    lines = (folders[0] / participant.EVENTS).read_text(encoding="utf-8").splitlines()
    return Ended(server.returncode, said, tuple(from_json(json.loads(line)) for line in lines), time.monotonic() - began)


def told(events: Sequence[Event]) -> list[object]:
    """What must agree: progress apart, which a simulation also makes while it reads data."""
    return list(compared([event for event in events if not isinstance(event, Progress)]))


def simulated(spec: RunSpec, *, dead: int | None = None) -> list[Event]:
    """The simulation's events; `dead`: a client without rows in the second task."""
    of, _ = opened(spec)
    streams = {seed: stream if dead is None else without(stream, dead, [1]) for seed, stream in of.streams.items()}
    return list(learning.Group(spec, of.run, list(spec.cells()), streams, of.context).events())


def honest(method: str, folder: Path) -> tuple[str, float, int]:
    """Five honest clients; the scenario in words, its seconds, and how many events differ."""
    spec = asked(method)
    ended = processes(parts(spec, folder))
    assert ended.status == 0, ended.said
    assert "zeros" not in ended.said, ended.said
    return f"`{method}`, five honest clients", ended.seconds, differing(ended.events, simulated(spec))


def killed(folder: Path) -> tuple[str, float, int]:
    spec = asked("label-means")
    ended = processes(parts(spec, folder), {4: "die"})
    assert ended.status == 0, ended.said
    assert "task 2, round 1: client 4 counts as zeros" in ended.said
    what = "`label-means`, a client's processes killed in the second task"
    return what, ended.seconds, differing(ended.events, simulated(spec, dead=4))


def lied(folder: Path) -> tuple[str, float, int]:
    """Four liars; the same lies over the fake network of the quick tests are the expected run."""
    spec = asked("label-means")
    ended = processes(parts(spec, folder / "real"), {number: source for number, (source, _) in enumerate(LIES.values())})
    assert ended.status == 0, ended.said
    folders = parts(spec, folder / "fake")
    over = Wire({100 + number: part for number, part in enumerate(folders[1:])})
    over.lies = {100 + number: lie for number, (_, lie) in enumerate(LIES.values())}
    expected = list(exchange.events(participant.read_part(folders[0]), over, lambda line: None))
    assert [f"task 1, round 1: client {number} counts as zeros" in ended.said for number in range(N)] == [
        True, False, True, True, False
    ], ended.said  # fmt: skip
    what = "`label-means`, four liars: NaN, a million, a number too many, 64 MiB"
    return what, ended.seconds, differing(ended.events, expected)


def released(folder: Path) -> tuple[str, float, int]:
    """Noise of the operating system: the ledger is the simulation's, the arrays are not, and no folder answers twice."""
    ended = processes(folders := parts(asked("label-means", 'privacy.noise="release"'), folder))
    assert ended.status == 0, ended.said
    usual = simulated(asked("label-means"))
    ours, theirs = ([to_json(event) for event in of if isinstance(event, Classifier)] for of in (ended.events, usual))
    assert all(one != other for one, other in zip(ours, theirs, strict=True))
    again = processes(folders[:1])
    assert again.status == 2
    assert "must be new: its clients have answered a run, which spent their budget" in again.said
    ledgers = [[event.ledger for event in of if isinstance(event, CellFinished)] for of in (ended.events, usual)]
    return "`label-means`, a release: the ledger alone is compared", ended.seconds, int(ledgers[0] != ledgers[1])


def differing(ours: Sequence[Event], theirs: Sequence[Event]) -> int:
    one, other = told(ours), told(theirs)
    assert len(one) == len(other) > 0
    return sum(first != second for first, second in zip(one, other, strict=True))


SCENARIOS: Mapping[str, Callable[[Path], tuple[str, float, int]]] = {
    **{method: partial(honest, method) for method in SMALL}, "killed": killed, "lied": lied, "released": released,
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", SCENARIOS)
def test_processes_give_the_simulations_run(name: str, tmp_path: Path) -> None:
    pytest.importorskip("flwr")
    assert SCENARIOS[name](tmp_path / name)[2] == 0


def main(named: Sequence[str]) -> None:
    """Carries out the named scenarios, or all, and writes each one's row into the guide when it has ended."""
    for name in named or SCENARIOS:
        with TemporaryDirectory() as folder:
            what, seconds, count = SCENARIOS[name](Path(folder) / name)
        print(f"{what}: {seconds:.0f} s, {count} differences", flush=True)
        record = json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else {}
        record[name] = [what, round(seconds), count]
        RECORD.write_text(json.dumps(record, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
        GUIDE.write_text(with_figures(GUIDE.read_text(encoding="utf-8"), record), encoding="utf-8")


def with_figures(guide: str, record: Mapping[str, tuple[str, int, int]]) -> str:
    """The guide with the table of these rows."""
    chosen = [record[name] for name in SCENARIOS if name in record]
    rows = [f"| {what} | {seconds} | {count} |" for what, seconds, count in chosen]
    table = ["| run | seconds | events that differ from the simulation |", "| --- | --- | --- |", *rows]
    before, _, rest = guide.partition(START)
    return f"{before}{START}\n\n" + "\n".join(table) + f"\n\n{END}{rest.partition(END)[2]}"


def test_the_guide_has_the_last_figures() -> None:
    guide, record = GUIDE.read_text(encoding="utf-8"), json.loads(RECORD.read_text(encoding="utf-8"))
    assert with_figures(guide, record) == guide
    assert record
    assert all(count == 0 for _, _, count in record.values())


if __name__ == "__main__":
    main(sys.argv[1:])
