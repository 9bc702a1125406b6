"""A client as a ClientApp of Flower: a process for each message, which answers from the folder that its node was given."""

from __future__ import annotations

from pathlib import Path

from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp

from dpcl_core.flower.processes import reply


def query(message: Message, context: Context) -> Message:
    """The answer to one message of the server."""
    answer = reply(Path(str(context.node_config["folder"])), dict(message.content.config_records["asked"]))
    return Message(RecordDict({"answer": ConfigRecord(answer)}), reply_to=message)


app = ClientApp()
app.query()(query)
