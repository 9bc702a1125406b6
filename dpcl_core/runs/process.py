"""Processes that carry out runs: their devices, how they start, who they are, how they outlast a store that is away."""

import json
import os
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from queue import SimpleQueue
from typing import IO, Literal, TypeVar

import psutil

from dpcl_core import paths
from dpcl_core.errors import BadInput, StoreGone, StoreRefused, StoreTrouble, StoreUnknown
from dpcl_core.runs import cuda_driver

# The devices of this computer that a run can train on, found without loading torch; what a run's process sees of them.
#
# A device of one machine is MACHINE/cpu or MACHINE/cuda:0. A run may also ask for cpu, cuda:0 or cuda (any card) of
# whichever machine is free first.


_CARDS = "CUDA_VISIBLE_DEVICES"
_BEFORE = "DPCL_VISIBLE_DEVICES"  # what _CARDS said before a run on the processor hid the cards; _ALL if nothing
_ALL = "all"
MACHINE = "DPCL_MACHINE"  # this computer's name among machines that share a store, if not the network's
_ASKED = re.compile(r"(?:(?P<machine>[\w.-]{1,48})/)?(?P<device>cpu|cuda(?::[0-9]{1,2})?)")
_SECONDS = 20.0  # a driver that is just waking up takes a few


@dataclass(frozen=True, slots=True)
class Device:
    """`name`: as runs and torch call it, cpu or cuda:N; `title`: for people."""

    name: str
    title: str


def devices() -> tuple[Device, ...]:
    """The processor, then every graphics card that the installed torch can use."""
    visible = _visible()
    return (Device("cpu", "Processor"), *(() if visible in ("", "-1") else _cards(visible)))


def default() -> str:
    """The name of the first graphics card, of the processor if there is none."""
    return devices()[:2][-1].name


def machine() -> str:
    """The name of this computer among machines that share a store."""
    return as_machine(os.environ.get(MACHINE) or socket.gethostname().partition(".")[0])


def as_machine(name: str) -> str:
    """A name as part of a device's."""
    return re.sub(r"[^\w.-]", "-", name)[:48] or "machine"


def checked(asked: str) -> str:
    """The device that a run asks for. Raises BadInput if it is malformed."""
    if not _ASKED.fullmatch(asked):
        raise BadInput("device", asked, "must be cpu, cuda:N or cuda, if need be of one machine, such as NAME/cpu")
    return asked


def bare(device: str) -> str:
    """A device without its machine, as torch calls it: the first card where any would do."""
    name = device.rpartition("/")[2]
    return "cuda:0" if name == "cuda" else name


def here(asked: str) -> str:
    """The device of this computer that serves a run which asks for this device: MACHINE/cpu, MACHINE/cuda:0."""
    return f"{machine()}/{bare(asked)}"


def fits(asked: str, device: str) -> bool:
    """Whether a run that asks for one device can be carried out on another, named with its machine."""
    of, name = (asked.rpartition("/")[part] for part in (0, 2))
    machine_of, offered = (device.rpartition("/")[part] for part in (0, 2))
    return of in ("", machine_of) and (offered == name or (name == "cuda" and offered.startswith("cuda:")))


def of_this_machine(asked: str) -> tuple[str, ...]:
    """The devices of this computer, named with it; cards are looked for only where a run asks for one."""
    names = ("cpu",) if bare(asked) == "cpu" else tuple(device.name for device in devices())
    return tuple(f"{machine()}/{name}" for name in names)


def environment(device: str) -> Mapping[str, str]:
    """This process's environment variables, for a process that carries out runs on the device.

    A run on the processor sees no card: torch's optimisers and random states would otherwise open one and hold its memory.
    """
    others = {name: value for name, value in os.environ.items() if name not in (_CARDS, _BEFORE)}
    visible = _visible()
    if bare(device) == "cpu":
        return {**others, _CARDS: "", _BEFORE: visible}
    return others if visible == _ALL else {**others, _CARDS: visible}


def hide_cards() -> None:
    """Hides all cards from this process, which must not have used one; processes started for a card see them again."""
    os.environ.update(environment("cpu"))


def _visible() -> str:
    return os.environ.get(_BEFORE, os.environ.get(_CARDS, _ALL))


@cache
def _cards(visible: str) -> tuple[Device, ...]:
    """Cards by their number among the visible ones."""
    if not _torch_uses_cuda():
        return ()
    command = [sys.executable, "-I", "-S", cuda_driver.__file__]
    try:
        answer = subprocess.run(command, env=environment("cuda:0"), capture_output=True, timeout=_SECONDS, check=True)
        listed = json.loads(answer.stdout)
    except (OSError, subprocess.SubprocessError, ValueError):
        return ()  # a broken driver: torch could not use a card either
    return tuple(Device(f"cuda:{k}", f"{name} ({size / 2**30:.0f} GB)") for k, (name, size) in enumerate(listed))


def _torch_uses_cuda() -> bool:
    """Whether the installed torch was built with CUDA, read from its files."""
    spec = find_spec("torch")
    try:
        text = (Path(str(spec.origin)).parent / "version.py").read_text(encoding="utf-8") if spec is not None else ""
    except OSError:
        return False
    return re.search(r"^cuda\b[^=]*=\s*'", text, re.MULTILINE) is not None


# Starts worker processes: detached from the terminal, the store's address in the environment, one log per run.


def worker_environment(url: str, device: str) -> Mapping[str, str]:
    """Environment variables of a worker of the store at this address, for a run on this device."""
    path = os.pathsep.join(filter(None, [str(Path(paths.__file__).resolve().parent.parent), os.environ.get("PYTHONPATH")]))
    # The address is not on the command line, which every user can list.
    return {**environment(device), "DPCL_STORE": url, "PYTHONPATH": path}


def spawn(
    command: Sequence[str], url: str, device: str, *, stdin: int, stdout: int | IO[bytes], stderr: int = subprocess.STDOUT
) -> subprocess.Popen[bytes]:
    """Starts a worker of the store at this address for a run on this device. Raises OSError where the system cannot.

    In a session of its own: a closed terminal or a stopped app ends no run.
    """
    env = worker_environment(url, device)
    started = subprocess.Popen(command, stdin=stdin, stdout=stdout, stderr=stderr, start_new_session=True, env=env)
    # Waits for the process so that it leaves no zombie; the thread holds nothing else and ends with this process.
    threading.Thread(target=started.wait, name=f"wait for {started.pid}", daemon=True).start()
    return started


def log_file(run_id: str) -> Path:
    """Log file of a run's process."""
    return paths.inside(paths.home() / "logs", f"{run_id}.log", "run")


_PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class Process:
    """A process, unique for all time: its machine (name, boot and, on Linux, PID namespace), its process id, its start time.

    `ticks`: start time in hundredths of a second, since boot on Linux, since 1970 elsewhere; compare for equality only.
    None where the system does not give it: then the process cannot be checked or ended from outside.
    """

    machine: str
    pid: int
    ticks: int | None


def me() -> Process:
    """This process."""
    return process_of(os.getpid())


def process_of(pid: int) -> Process:
    """The process that has this id now."""
    return Process(_machine(), pid, _ticks(pid))


def is_alive(process: Process) -> bool | None:
    """Whether the process is still running; None where this is unknown (another machine or container, no start times)."""
    if process.machine != _machine() or process.ticks is None:
        return None
    return _ticks(process.pid) == process.ticks


def end(process: Process) -> None:
    """Kills the process if it is on this machine and still the same one; another process with its id is left alone."""
    with suppress(psutil.NoSuchProcess):
        found = psutil.Process(process.pid)
        if is_alive(process):  # so `found` is this very process: it kills no other one that has its id later
            found.kill()


def _ticks(pid: int) -> int | None:
    """Start time of a process; None if there is none or it has ended but was not reaped."""
    if not _PROC.is_dir():
        with suppress(psutil.Error):
            info = psutil.Process(pid)
            return None if info.status() in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD) else round(100 * info.create_time())
        return None
    # Read here, not by psutil: its times since 1970 move when the clock is set, and a running process would look dead.
    try:
        fields = (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else int(fields[19])


@cache
def _machine() -> str:
    boot = namespace = ""
    with suppress(OSError):
        boot = (_PROC / "sys/kernel/random/boot_id").read_text().strip()
    with suppress(OSError):  # two containers may have one host name, and the same process ids for different processes
        namespace = os.readlink(_PROC / "self/ns/pid")
    return " ".join(filter(None, [socket.gethostname(), boot, namespace]))


# Outlasting a store that is away (locked, restarting, full): tries again after pauses that grow, for some minutes.


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Patience:
    """How to try again, in seconds: pauses double from the first to the longest; `give_up` counts from the first failure."""

    first_pause: float = 0.25
    longest_pause: float = 2.0
    give_up: float = 300.0

    def pause(self, failures: int) -> float:
        """Seconds to wait after so many failures in a row, from 1."""
        return min(self.longest_pause, self.first_pause * 2.0 ** min(failures - 1, 30))

    def outlast(
        self, act: Callable[[], T], *, passing: type[StoreTrouble] = StoreTrouble,
        lasting: tuple[type[StoreTrouble], ...] = (StoreUnknown, StoreGone, StoreRefused),
        tell: Callable[[StoreTrouble], object] = lambda trouble: None,
    ) -> T:  # fmt: skip
        """The result of `act`, which is called again while the store is away; it must be one that may be called twice.

        Raises StoreTrouble when the store stays away, and at once for troubles that are `lasting` or not `passing`: else for
        an address that can be none and for a file that is gone or another user's. `tell` hears the first trouble.
        """
        end, failures = time.monotonic() + self.give_up, 0
        while True:
            try:
                return act()
            except lasting:
                raise
            except passing as trouble:
                if not failures:
                    tell(trouble)
                failures += 1
                pause = self.pause(failures)
                if time.monotonic() + pause > end:
                    raise
                time.sleep(pause)


# At most one process with the modules of a run already loaded, held ready by an app: a run's first point appears sooner.
#
# Both ends of its pipe are here. The process sends `here` when it reads. The app sends, one per line, `load MODULE`, and
# once `run RUN_ID`, which the process answers with `ready`; only then does the app send `go`. Until then the process has
# not touched the store, and the app may end it and start another one: a run is never worse off than without it. If the
# pipe is closed before, the process ends, so it never outlives the app.


WARM = "--warm"  # in place of the id of a run
TIED = "--tied"  # before the id of a run whose worker ends when its standard input is closed
Tie = Literal["stop", "wait"]  # what the run then does
ENGINE = ("dpcl_core.engine", "dpcl_core.explorers.matching_log", "dpcl_core.attacks.catalog")
PROGRAM = Path(paths.__file__).resolve().parent
WANTED_SECONDS = 900.0  # after so long without `expect` the process is ended, to free its memory
ANSWER_SECONDS = 1.0  # it answers at once, even while it loads; a run waits no longer for it
_AFTER_A_DEATH_SECONDS = 60.0  # a process that ended by itself may do so again


@dataclass(slots=True)
class WaitingProcess:
    """A waiting process, its pipe, and the program state that it was started from."""

    process: subprocess.Popen[bytes]
    device: str
    origin: tuple[object, ...]
    loaded: set[str] = field(default_factory=set)
    here: threading.Event = field(default_factory=threading.Event)
    ready: threading.Event = field(default_factory=threading.Event)

    def say(self, order: str) -> None:
        """Sends one line. Raises OSError if the process is gone."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{order}\n".encode())
        self.process.stdin.flush()

    def hear(self) -> None:
        """Sets `here` and `ready`, one per line read."""
        assert self.process.stdout is not None
        with self.process.stdout as answers:
            for _, event in zip(answers, (self.here, self.ready), strict=False):
                event.set()

    def hang_up(self) -> None:
        assert self.process.stdin is not None
        with suppress(OSError):  # the process is gone
            self.process.stdin.close()


class WarmWorker:
    """The waiting process of this app, if there is one; safe to use from any thread."""

    def __init__(self, worker: Sequence[str]) -> None:
        self._worker = worker
        self._lock = threading.Lock()
        self._wanted: tuple[str, str, tuple[str, ...], float] | None = None  # store, device, modules, until (monotonic)
        self.waiting: WaitingProcess | None = None
        self._not_before = 0.0

    def expect(self, url: str, *modules: str, device: str = "cpu") -> None:
        """Expects a run that needs these modules in the store at this address soon. Starts nothing yet."""
        self._wanted = url, device, (*ENGINE, *modules), time.monotonic() + WANTED_SECONDS

    def keep(self, url: str, *, is_idle: bool) -> None:
        """Starts a process if a run is expected and the store at this address is idle, and lets it load; ends one that is no
        longer expected. Called often."""
        wanted, now = self._wanted, time.monotonic()
        if wanted is None or wanted[0] != url:
            return
        _, device, modules, until = wanted
        with self._lock:
            is_dead = self.waiting is not None and self.waiting.process.poll() is not None
            if is_dead or now > until:
                self.give_up()
            if is_dead:
                self._not_before = now + _AFTER_A_DEATH_SECONDS
            if is_idle and self._not_before < now <= until:
                try:
                    self._load(url, device, modules)
                except OSError:
                    self.give_up()
                    self._not_before = now + _AFTER_A_DEATH_SECONDS

    def take(self, run_id: str, url: str, device: str) -> int | None:
        """Hands a claimed run to the waiting process and gives the process id; None: no process can take it now.

        A process that was started from another state of the program or environment, or for another store or device, is
        ended, and so is one that does not read yet or does not answer.
        """
        with self._lock:
            waiting, self.waiting = self.waiting, None
            if waiting is None:
                return None
            with suppress(OSError):  # the process is gone
                if waiting.here.is_set() and waiting.origin == _origin(url, device):
                    waiting.say(f"run {run_id}")
                    if waiting.ready.wait(ANSWER_SECONDS):
                        waiting.say("go")
                        waiting.hang_up()
                        return waiting.process.pid
            waiting.process.kill()
            waiting.hang_up()
            return None

    def _load(self, url: str, device: str, modules: Sequence[str]) -> None:
        if self.waiting is not None and self.waiting.device != device:
            self.give_up()
        if self.waiting is None:
            origin, pipe = _origin(url, device), subprocess.PIPE
            process = spawn([*self._worker, WARM], url, device, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL)
            self.waiting = WaitingProcess(process, device, origin)
            threading.Thread(target=self.waiting.hear, name="warm worker", daemon=True).start()
        for module in modules:
            if module not in self.waiting.loaded:
                self.waiting.say(f"load {module}")
                self.waiting.loaded.add(module)

    def give_up(self) -> None:
        """Ends the process, if there is one."""
        if self.waiting is not None:
            self.waiting.process.kill()
            self.waiting.hang_up()
            self.waiting = None


def wait_for_run() -> str:
    """The process's own end: imports the modules that the app names until the app hands over a run, and gives its id.

    From then on this process writes to that run's log and reads no more orders. Modules not loaded by then are loaded by the
    run when it needs them.
    """
    orders: SimpleQueue[tuple[str, str]] = SimpleQueue()
    has_run = threading.Event()
    threading.Thread(target=_listen, args=(orders, has_run), name="orders", daemon=True).start()
    while True:
        order, name = orders.get()
        if order == "run":
            return name
        with suppress(Exception):  # the run that needs the module reports the error
            if not has_run.is_set():
                import_module(name)


def _listen(orders: SimpleQueue[tuple[str, str]], has_run: threading.Event) -> None:
    """Reads the app's orders, also while a library is being loaded; ends this process when the app is gone."""
    with suppress(OSError):  # no log, no answer: the app starts another process, which can report why
        os.write(1, b"here\n")
        for line in sys.stdin.buffer:
            order, _, name = line.decode().strip().partition(" ")
            if order == "run":
                if not _agreed(name):
                    break
                has_run.set()
                orders.put((order, name))
                return
            orders.put((order, name))
    os._exit(0)


def _agreed(run_id: str) -> bool:
    """Answers the app; if the app sends `go`, redirects all output to the run's log. Gives whether it did."""
    log = os.open(log_file(run_id), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    os.write(1, b"ready\n")
    if sys.stdin.buffer.readline() != b"go\n":
        return False
    for ours, fixed in ((os.open(os.devnull, os.O_RDONLY), 0), (log, 1), (log, 2)):
        os.dup2(ours, fixed)
    return True


def _origin(url: str, device: str) -> tuple[object, ...]:
    """The inputs of a process at its start: environment, working folder, and the state of the program's files."""
    files = [(path, path.stat()) for path in sorted(PROGRAM.rglob("*.py"))]
    written = [(str(path), stat.st_mtime_ns, stat.st_size) for path, stat in files]
    return worker_environment(url, device), os.getcwd(), written
