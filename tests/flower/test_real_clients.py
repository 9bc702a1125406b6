"""Clients as processes of their own: the run is the simulation's, whatever some of them do. Here over a fake network."""

import os
import re
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dpcl_core import arrays, checks, engine, errors, learning
from dpcl_core.events import CellFinished, Classifier, Event, JsonValue, Note, Progress, TaskLearned, to_json
from dpcl_core.flower import exchange, participant
from dpcl_core.flower.exchange import Record
from dpcl_core.methods import catalog as methods
from dpcl_core.methods.federated.client_release import Question
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.scenarios.stream import Table, TaskStream
from dpcl_core.spec import RunSpec
from tests.support import clients
from tests.support.asserting import complaint, refusal_of, refuses

N = 5
OF, PUBLIC = clients.stream(per_class=20, n_clients=N, classes_per_task=2)
METHODS = [name for name, card in methods.CARDS.items() if card.asks_clients]


def asked(method: str, noise: str = "seeded", **changes: object) -> RunSpec:
    changes = {"privacy": {"epsilons": [4.0], "noise": noise}, "scenario": {"kind": "federated", "clients": N}, **changes}
    return clients.small(method, **changes)


def opened(spec: RunSpec, of: TaskStream = OF) -> engine.Opened:
    """What the engine would give of the small stream."""
    table = Table(OF.tasks[0].train, OF.tasks[0].test, OF.classes)
    known = clients.known(of, PUBLIC, N)
    return engine.Opened(checks.ResolvedRun.of(spec, known), table, {0: of}, known, None)  # type: ignore[arg-type]


def parts(spec: RunSpec, folder: Path, of: TaskStream = OF) -> list[Path]:
    """The folders of the server and of each client."""
    made = participant.parts(spec, opened(spec, of), [Note("info", "public")])
    for name, part in made.items():
        participant.write(part, folder / name)
    return [folder / name for name in made]


Lie = Callable[[Record, Record], Iterable[Record]]  # from what it was asked, and the honest answer


@dataclass
class Wire:
    """Nodes without a network: node 100 + k answers from the folder of client k, unless it is dead, lies or fails."""

    folders: Mapping[int, Path]
    lies: Mapping[int, Lie] = field(default_factory=dict)
    dead: set[int] = field(default_factory=set)
    dies_after: dict[int, int] = field(default_factory=dict)
    asked: list[tuple[int, Record]] = field(default_factory=list)

    def nodes(self) -> Sequence[int]:
        return [node for node in self.folders if node not in self.dead]

    def ask(self, nodes: Sequence[int], record: Record) -> Iterator[tuple[int, Mapping[str, object]]]:
        for node in nodes:
            self.asked.append((node, record))
            if node in self.dies_after:
                self.dies_after[node] -= 1
                if self.dies_after[node] < 0:
                    self.dead.add(node)
            if node in self.dead:
                continue
            with suppress(errors.BadInput):  # of which Flower only says that there is no answer
                honest = exchange.reply(self.folders[node], record)
                for answer in self.lies[node](record, honest) if node in self.lies else (honest,):
                    yield node, answer


def network(folders: Sequence[Path]) -> Wire:
    return Wire({100 + number: folder for number, folder in enumerate(folders[1:])})


def carried_out(folders: Sequence[Path], over: Wire | None = None) -> tuple[list[Event], list[str]]:
    log: list[str] = []
    return list(exchange.events(participant.read_part(folders[0]), over or network(folders), log.append)), log


def compared(events: Iterable[Event]) -> list[Mapping[str, JsonValue]]:
    """The events but for times, assumptions, and the lists that only a simulator sees."""
    found = []
    for event in events:
        if isinstance(event, CellFinished):
            event = replace(event, seconds=0.0, guarantee=replace(event.guarantee, assumptions=()))
        if isinstance(event, Progress | TaskLearned | CellFinished | Classifier):
            found.append(to_json(event))
    return found


def simulated(spec: RunSpec, of: TaskStream = OF) -> list[Event]:
    given = opened(spec, of)
    return list(learning.Group(spec, given.run, list(spec.cells()), given.streams, given.context).events())


@pytest.mark.parametrize("method", METHODS)
def test_real_clients_give_the_simulations_run_to_the_last_bit(method: str, tmp_path: Path) -> None:
    """Ledger, accuracies and released arrays: a client's vector does not depend on who is computed beside it."""
    spec = asked(method)
    events, log = carried_out(parts(spec, tmp_path))
    assert events[0] == Note("info", "public")
    ours, theirs = compared(events), compared(simulated(spec))
    assert any(isinstance(event, Classifier) for event in events)
    assert ours == theirs
    assert sorted(log) == [f"client {number} is here" for number in range(N)]


def test_several_groups_are_matched_to_what_was_released(tmp_path: Path) -> None:
    """The question holds the groups' means, and a later task of the same labels is matched to its earlier release."""
    again = replace(OF, tasks=(OF.tasks[0], replace(OF.tasks[0], index=1, name="again")))
    spec = asked("cslr-server-head", params={"modes_per_task": 3, "list_size": 3})
    over = network(folders := parts(spec, tmp_path, again))
    events, _ = carried_out(folders, over)
    assert compared(events) == compared(simulated(spec, again))
    first, second = [record for n, record in over.asked if record["kind"] == "question" and n == 100]
    assert first["shape"] == [2, 3, clients.WIDTH]
    assert first["state"] != second["state"]


def without(of: TaskStream, client_number: int, tasks: Iterable[int]) -> TaskStream:
    """The stream in which a client has no rows in these tasks."""
    return clients.kept(of, lambda task: (task.train.users != client_number) | (task.index not in tasks))


@pytest.mark.parametrize("method", METHODS)
def test_a_client_that_dies_is_one_without_rows_from_then_on(method: str, tmp_path: Path) -> None:
    spec = asked(method, **({"params": {"participation": 1.0}} if method == "dp-fedavg" else {}))
    rounds = getattr(spec.params, "rounds", 1)
    over = network(folders := parts(spec, tmp_path))
    over.dies_after[103] = 1 + rounds  # answers who it is and the questions of the first task
    events, log = carried_out(folders, over)
    assert compared(events) == compared(simulated(spec, without(OF, 3, [1])))
    assert "task 2, round 1: client 3 counts as zeros" in log


def lie(*answers: Callable[[dict[str, Any]], dict[str, Any]]) -> Lie:
    """These in place of the honest answer to a question; who it is, the client says as it is."""
    return lambda record, honest: [change({**honest}) for change in answers] if "vector" in honest else [honest]


def vector(change: Callable[[bytes], object]) -> Lie:
    return lie(lambda honest: {**honest, "vector": change(honest["vector"])})


def without_field(name: str) -> Lie:
    return lie(lambda honest: {key: value for key, value in honest.items() if key != name})


def one_number(number: float) -> Lie:
    return vector(lambda sent: np.array([number]).tobytes() + sent[8:])


UNUSABLE: dict[str, Lie] = {
    "nan": one_number(np.nan),
    "infinite": one_number(-np.inf),
    "a number too many": vector(lambda sent: sent + bytes(8)),
    "a byte too few": vector(lambda sent: sent[:-1]),
    "huge": vector(lambda sent: bytes(1 << 22)),
    "empty": vector(lambda sent: b""),
    "text": vector(lambda sent: "0.5"),
    "a list": vector(lambda sent: [1, 2, 3]),
    "single precision": vector(lambda sent: np.frombuffer(sent).astype(np.float32).tobytes()),
    "no vector": without_field("vector"),
    "no key": without_field("key"),
    "another's key": lie(lambda honest: {**honest, "key": "00"}),
    "a key that is no text": lie(lambda honest: {**honest, "key": b"\xff\xfe"}),
    "nothing": lie(lambda honest: {}),
    "silence": lie(),
}


@pytest.mark.parametrize("lie", [*UNUSABLE, None])
def test_an_answer_is_exactly_what_was_asked_for(lie: str | None) -> None:
    honest: Record = {"key": "a key", "vector": np.array([1.0, -2.0, 1e30]).tobytes()}
    sent = [honest] if lie is None else list(UNUSABLE[lie]({}, honest))
    transport: Any = SimpleNamespace(nodes=lambda: [7], ask=lambda nodes, record: [(7, one) for one in sent])
    part: Any = SimpleNamespace(keys=[sha256(b"a key").hexdigest()])
    log: list[str] = []
    (vector,) = exchange.Roll(part, transport, log.append, {0: 7}).collect(Question(1, 2, 3, np.zeros(0)), np.array([0]))
    assert vector.tolist() == ([1.0, -2.0, 1e30] if lie is None else [0, 0, 0])
    assert log == ([] if lie is None else ["task 2, round 3: client 0 counts as zeros"])


def test_an_unusable_answer_counts_as_zeros(tmp_path: Path) -> None:
    """Nothing of it reaches the sum: the run is that of clients without rows."""
    spec, of = asked("label-means"), OF
    over = network(folders := parts(spec, tmp_path))
    for number, lie in enumerate(("nan", "a number too many", "another's key", "silence")):
        over.lies = {**over.lies, 100 + number: UNUSABLE[lie]}
        of = without(of, number, [0, 1])
    events, log = carried_out(folders, over)
    assert compared(events) == compared(simulated(spec, of))
    assert log.count("task 1, round 1: client 2 counts as zeros") == 1


def test_a_second_answer_and_strangers_change_nothing(tmp_path: Path) -> None:
    spec = asked("dp-fedavg", params={"participation": 1.0})
    over = network(folders := parts(spec, tmp_path))
    over.lies = {
        101: lambda record, honest: [honest, *UNUSABLE["nan"](record, honest), honest] if "vector" in honest else [honest],
        201: lambda record, honest: [{**honest, "key": "0"}],
        202: lambda record, honest: [honest],  # client 0 a second time, with its key
        203: lambda record, honest: [{}],
        204: lambda record, honest: [],
    }
    over.folders = {**over.folders, **{201 + place: folders[1] for place in range(4)}}
    events, log = carried_out(folders, over)
    assert compared(events) == compared(simulated(spec))
    assert all(node < 200 for node, record in over.asked if record["kind"] == "question")
    assert sorted(log) == [f"client {number} is here" for number in range(N)]
    assert sum(node == 204 for node, _ in over.asked) == 1, "a silent node is not waited for again"


@pytest.mark.parametrize("size", [1e3, 1.7e308])
@pytest.mark.parametrize("method", ["label-means", "dp-fedavg"])
def test_an_oversized_vector_moves_the_sum_by_no_more_than_its_bound(method: str, size: float, tmp_path: Path) -> None:
    """The same noise with it and without it: what differs in the released sum is what the client did to it."""
    few = {"rounds": 1, "participation": 1.0} if method == "dp-fedavg" else {}
    spec = asked(method, params=few)
    (cell,) = spec.cells()
    seen: dict[str, np.ndarray] = {}
    for name, lie in (("liar", one_number(size)), ("dead", UNUSABLE["silence"])):
        over = network(folders := parts(spec, tmp_path / name))
        over.lies = {100: lie}
        part = participant.read_part(folders[0])
        roll = exchange.Roll(part, over, lambda line: None)
        roll.gather()
        learner = methods.maker(method)(spec, [cell], part.context, collect=roll.collect)  # type: ignore[call-arg]
        list(learner.learn({0: part.stream.tasks[0]}, {cell: Ledger(spec.privacy.delta, spec.privacy.adjacency, "every")}))
        seen[name] = learner.released(cell)["sums" if method == "label-means" else "head"].astype(np.float64)
    moved = np.linalg.norm(seen["liar"] - seen["dead"])
    bound = np.hypot(1, 0.5) if method == "label-means" else 1 / N  # the layout's; the clipping norm over five clients
    if size == 1e3:  # all of the bound is used; sums are rounded to the noise's grid, the head to single precision
        assert 0.9 * bound < moved < bound + 1e-6
    else:  # a vector whose length is no number counts as zeros
        assert moved == 0


def test_a_run_that_nobody_is_left_for_ends_in_one_sentence(tmp_path: Path) -> None:
    over = network(folders := parts(asked("label-means"), tmp_path))
    over.dies_after = dict.fromkeys(over.folders, 1)
    refuses(r"^clients = 0: must be more: none is connected in task 2, which ends the run$", carried_out, folders, over)


def test_nothing_is_asked_before_all_are_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = asked("label-means")
    over = network(folders := parts(spec, tmp_path))
    over.dead = {101, 104}
    waited: list[list[str]] = []

    def join_while_it_waits(seconds: float) -> None:
        waited.append([str(record["kind"]) for _, record in over.asked])
        over.dead.clear()

    monkeypatch.setattr(exchange.time, "sleep", join_while_it_waits)
    events, _ = carried_out(folders, over)
    assert (waited, compared(events)) == ([["hello"] * 3], compared(simulated(spec)))


@pytest.mark.parametrize("method", METHODS)
def test_in_a_release_each_question_is_answered_once_and_noise_is_fresh(method: str, tmp_path: Path) -> None:
    spec = asked(method, noise="release")
    over = network(folders := parts(spec, tmp_path / "one"))
    first, _ = carried_out(folders, over)
    (folders[0] / participant.EVENTS).write_text("the run's", encoding="utf-8")
    with pytest.raises(errors.BadInput, match="must be new: its clients have answered a run, which spent their budget"):
        participant.serve(participant.read_part(folders[0]), folders[0], "127.0.0.1:9093")
    for node, record in over.asked:  # and a server that goes on all the same gets nothing from them
        if record["kind"] == "question":
            refuses("must be new: it was answered before", exchange.reply, over.folders[node], record)
    second, _ = carried_out(parts(spec, tmp_path / "two"))
    runs = (first, second, simulated(asked(method)))
    ends = [event for events in runs for event in events if isinstance(event, CellFinished)]
    assert ends[0].ledger == ends[1].ledger == ends[2].ledger
    releases = [[to_json(event) for event in events if isinstance(event, Classifier)] for events in (first, second)]
    assert len(releases[0]) == len(OF.tasks)
    assert all(one != other for one, other in zip(*releases, strict=True))


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="this system does not tell which file a handle is of")
def test_the_disk_has_that_a_question_was_answered_before_the_answer_leaves(tmp_path, monkeypatch):
    """A power cut then lets nobody ask it again."""
    synced: list[Path] = []
    monkeypatch.setattr(os, "fsync", lambda handle: synced.append(Path(os.readlink(f"/proc/self/fd/{handle}"))))
    exchange._spend(tmp_path, Question(0, 0, 1, np.zeros(0)))
    assert synced == [tmp_path / exchange.SPENT, tmp_path]


def test_a_client_refuses_what_its_settings_do_not_ask(tmp_path: Path) -> None:
    """A server that asks for more than the budget covers gets nothing from it."""
    spec = asked("dp-fedavg", noise="release")
    over = network(folders := parts(spec, tmp_path))
    carried_out(folders, over)
    good = next(record for node, record in over.asked if record["kind"] == "question")
    fresh = parts(spec, tmp_path / "fresh")[1]
    for changed, what in [
        ({**good, "task": 2}, "question.task = 2: must be one of 2, from 0"),
        ({**good, "task": -1}, "question.task = -1"),
        ({**good, "round": 3}, "question.round = 3: must be one of 3, from 0"),
        ({**good, "shape": [2], "state": bytes(16)}, "question.state"),
        ({**good, "state": bytes(8)}, "cannot reshape"), ({"kind": "question"}, "state"), ({}, "kind"),
    ]:  # fmt: skip
        refuses(re.escape(what), exchange.reply, fresh, changed, error=(errors.BadInput, ValueError, KeyError))
    assert not (fresh / exchange.SPENT).exists()
    assert "vector" in exchange.reply(fresh, good)
    for same in (good, {**good, "round": str(good["round"])}, {**good, "task": float(str(good["task"]))}):
        refuses("it was answered before", exchange.reply, fresh, same)


def test_nobody_holds_rows_of_others(tmp_path: Path) -> None:
    folders = parts(asked("label-means"), tmp_path)
    server, *others = map(participant.read_part, folders)
    for folder, part in zip(folders, [server, *others], strict=True):  # nor beside the rows that are its own
        kept = arrays.load((folder / participant.ROWS).read_bytes()).values()
        own = sum(len(of.labels) for task in part.stream.tasks for of in (task.train, task.test))
        assert sum(len(array) for array in kept if array.ndim == 2) == own + len(PUBLIC)
    held = [np.concatenate([task.train.inputs for task in part.stream.tasks]) for part in others]
    assert all(len(task.train) == 0 and len(task.test) > 0 for task in server.stream.tasks)
    assert all(len(task.test) == 0 for part in others for task in part.stream.tasks)
    everyone = np.concatenate([task.train.inputs for task in OF.tasks])
    assert sorted(map(bytes, np.concatenate(held))) == sorted(map(bytes, everyone))
    for number, part in enumerate(others):
        users = np.concatenate([task.train.users for task in OF.tasks])  # type: ignore[arg-type]
        assert np.array_equal(held[number], everyone[users == number])
        assert part.key not in (folders[0] / "facts.json").read_text(encoding="utf-8")
        assert all((folders[1 + number] / name).stat().st_mode & 0o77 == 0 for name in ("facts.json", "rows.safetensors"))


@pytest.mark.parametrize("method", METHODS)
def test_clients_of_one_task_each(method: str, tmp_path: Path) -> None:
    """Each client knows which task is its own; a folder with rows of two would break its guarantee, and is refused."""
    of = clients.at_home(OF, 4)
    spec = asked(method)
    folders = parts(spec, tmp_path, of)
    events, _ = carried_out(folders)
    assert compared(events) == compared(simulated(spec, of))
    both = participant.read_part(folders[1]).model_copy(update={"stream": replace(OF, recurrence="once")})
    participant.write(both, tmp_path / "both")
    refuses("must hold rows of one task only", participant.read_part, tmp_path / "both")


def test_what_cannot_have_real_clients_is_refused() -> None:
    for spec, what in [
        (clients.small("local-list"), "method = local-list: must be one whose clients can be processes of their own: "),
        (asked("label-means", seeds=[0, 1]), "privacy.epsilons x seeds = 2: must be one budget with one seed"),
        (asked("label-means", privacy={"epsilons": ["inf"]}), "privacy.epsilons = inf: must be finite"),
    ]:
        refuses(f"^{re.escape(what)}", participant.refuse, spec)


@pytest.mark.parametrize("broken", ["facts.json", "rows.safetensors", "spec.toml"])
def test_a_broken_folder_is_refused_in_one_sentence(broken: str, tmp_path: Path) -> None:
    folder = parts(asked("label-means"), tmp_path)[1]
    for content in (b"{}", b"\xff" * 9, None):
        (folder / broken).unlink() if content is None else (folder / broken).write_bytes(content)
        assert "\n" not in str(refusal_of(participant.read_part, folder))
    refuses("must be a new folder", lambda: participant.write(participant.read_part(tmp_path / "client-1"), folder))


def test_the_guarantee_says_whom_it_trusts(tmp_path: Path) -> None:
    events, _ = carried_out(parts(asked("label-means"), tmp_path))
    (end,) = (event for event in events if isinstance(event, CellFinished))
    (usual,) = (event for event in simulated(asked("label-means")) if isinstance(event, CellFinished))
    card = methods.card("label-means")
    simulates = set(card.assumes(card.params()))
    assert set(end.guarantee.assumptions) == (set(usual.guarantee.assumptions) - simulates) | set(exchange.ASSUMED)
    assert simulates <= set(usual.guarantee.assumptions)


@pytest.mark.parametrize("address", ["nowhere", "127.0.0.1:0", "127.0.0.1:x", "0.0.0.0:9093", "[::]:9093", "example.org:1"])
def test_an_address_is_on_this_computer(address: str, tmp_path: Path) -> None:
    """Nothing is encrypted, so nothing may go further; the sentence says what does go further."""
    server, client, *_ = parts(asked("label-means"), tmp_path)
    for refused in (
        refusal_of(participant.serve, participant.read_part(server), server, address),
        refusal_of(participant.join, client, address),
    ):
        assert str(refused).startswith(f"--address = {address}: must be 127.0.0.1:PORT, on this computer: for others ")
        assert "Flower's own deployment, with TLS" in str(refused)
    for taken in ("127.0.0.1:9093", "localhost:9093"):
        assert participant.endpoint(taken)[1] == 9093


def test_a_second_server_is_refused_its_address(tmp_path: Path) -> None:
    """Its run would go to the first one."""
    folder = parts(asked("label-means"), tmp_path)[0]
    with socket.create_server(("127.0.0.1", 0)) as first:
        address = f"127.0.0.1:{first.getsockname()[1]}"
        refuses("must be free: another server is there", participant.serve, participant.read_part(folder), folder, address)


def test_commands_refuse_in_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folders = parts(asked("label-means"), tmp_path)
    for arguments, what in [
        ([str(folders[0].parent)], "flower"),  # where Flower is missing, that comes first
        ([], "flower"),
        ([str(folders[0]), "--authority", "ca.pem"], "unrecognized arguments: --authority ca.pem"),
        (["split", "--preset", "digits-cosine", "--to", str(tmp_path / "x")], "method = cosine: must be one whose clients"),
    ]:
        said = complaint(capsys, "flower", *arguments)
        assert said.count("\n") == 1
        assert what in said or "folder" in said
