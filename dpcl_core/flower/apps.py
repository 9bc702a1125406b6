"""The server and its clients as apps of Flower.

The server's brings the aggregator's records to Flower's nodes, and writes down what comes out. A client's is a process for
each message, which answers from the folder that its node was given.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp

from dpcl_core.errors import BadInput, Diverged
from dpcl_core.events import to_json
from dpcl_core.flower import exchange
from dpcl_core.flower.participant import EVENTS, read_part

_ANSWER_SECONDS = 300.0  # who takes longer counts as zeros; of a node that has gone, Flower says so before


class FlowerTransport:
    """Flower's nodes."""

    def __init__(self, grid: Grid) -> None:
        self._grid = grid

    def nodes(self) -> Sequence[int]:
        return list(self._grid.get_node_ids())

    def ask(self, nodes: Sequence[int], record: exchange.Record) -> Iterable[tuple[int, Mapping[str, Any]]]:
        content, seconds = RecordDict({"asked": ConfigRecord(record)}), _ANSWER_SECONDS
        messages = [Message(content, dst_node_id=node, message_type="query", ttl=seconds) for node in nodes]
        for message in self._grid.send_and_receive(messages, timeout=seconds):
            if message.has_content() and "answer" in message.content.config_records:
                yield message.metadata.src_node_id, dict(message.content.config_records["answer"])


def main(grid: Grid, context: Context) -> None:
    """Carries out the run of the part in the folder that the configuration names, and writes its events there."""
    folder = Path(str(context.run_config["folder"]))
    try:
        for event in exchange.events(read_part(folder), FlowerTransport(grid), print):
            with (folder / EVENTS).open("a", encoding="utf-8") as file:
                file.write(json.dumps(to_json(event), ensure_ascii=False, allow_nan=False) + "\n")
    except (BadInput, Diverged) as error:
        print(error)


def query(message: Message, context: Context) -> Message:
    """A client's answer to one message of the server."""
    answer = exchange.reply(Path(str(context.node_config["folder"])), dict(message.content.config_records["asked"]))
    return Message(RecordDict({"answer": ConfigRecord(answer)}), reply_to=message)


server = ServerApp()
client = ClientApp()
server.main()(main)
client.query()(query)
