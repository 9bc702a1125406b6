"""The server and its clients as apps of Flower.

The server's brings the aggregator's records to Flower's nodes, and writes down what comes out. A client's is a process for
each message, which answers from the folder that its node was given.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp

from dpcl_core.errors import BadInput, Diverged
from dpcl_core.events import to_json
from dpcl_core.flower import participant, processes

_LOOK_SECONDS = 0.3  # between two looks for answers
_LEAVE_SECONDS = 60.0


class FlowerTransport:
    """Flower's nodes. Who has left, or takes longer than `patience_seconds` for an answer, is not waited for."""

    def __init__(self, grid: Grid, patience_seconds: float) -> None:
        self._grid, self._patience_seconds = grid, patience_seconds

    def nodes(self) -> Sequence[int]:
        return list(self._grid.get_node_ids())

    def ask(self, nodes: Sequence[int], record: participant.Record) -> Iterable[tuple[int, Mapping[str, object]]]:
        until, waiting = time.monotonic() + self._patience_seconds, self._sent(nodes, record)
        while waiting and time.monotonic() < until:
            here = set(self.nodes())  # before the look: an answer may have come before its node left
            for message in self._grid.pull_messages(list(waiting)):
                waiting.pop(message.metadata.reply_to_message_id, None)
                if message.has_content() and "answer" in message.content.config_records:
                    yield message.metadata.src_node_id, dict(message.content.config_records["answer"])
            waiting = {name: node for name, node in waiting.items() if node in here}
            time.sleep(_LOOK_SECONDS if waiting else 0)

    def dismiss(self) -> None:
        """Says to all that the run is over, and waits a moment for them to leave; their answers would only be cut off."""
        until = time.monotonic() + _LEAVE_SECONDS
        self._sent(self.nodes(), {"kind": "goodbye"})
        while self.nodes() and time.monotonic() < until:
            self.pause()

    def _sent(self, nodes: Sequence[int], record: participant.Record) -> dict[str, int]:
        """The messages that Flower has taken, with their nodes."""
        content, seconds = RecordDict({"asked": ConfigRecord(record)}), self._patience_seconds
        sent = [Message(content, dst_node_id=node, message_type="query", ttl=seconds) for node in nodes]
        # None for a message that was not taken, and nothing at all where all together were too large.
        return {name: node for name, node in zip(self._grid.push_messages(sent), nodes, strict=False) if name}

    def pause(self) -> None:
        time.sleep(_LOOK_SECONDS)


def main(grid: Grid, context: Context) -> None:
    """Carries out the run of the part in the folder that the configuration names."""
    config = context.run_config
    folder = Path(str(config["folder"]))
    transport = FlowerTransport(grid, float(config["patience"]))
    status, sentence = "finished", ""
    try:
        part = participant.read_part(folder)
        with (folder / participant.EVENTS).open("w", encoding="utf-8") as file:
            for event in processes.events(part, transport, float(config["wait"]), _say):
                file.write(json.dumps(to_json(event), ensure_ascii=False, allow_nan=False) + "\n")
                file.flush()
    except (BadInput, Diverged, processes.NobodyThere) as error:
        status, sentence = "failed", " ".join(str(error).split())
    (folder / participant.OUTCOME).write_text(json.dumps({"status": status, "error": sentence}), encoding="utf-8")
    transport.dismiss()


def _say(line: str) -> None:
    print(f"{participant.SAID}{line}", flush=True)


def query(message: Message, context: Context) -> Message:
    """A client's answer to one message of the server."""
    folder = Path(str(context.node_config["folder"]))
    answer = processes.reply(folder, dict(message.content.config_records["asked"]))
    return Message(RecordDict({"answer": ConfigRecord(answer)}), reply_to=message)


server, client = ServerApp(), ClientApp()
server.main()(main)
client.query()(query)
