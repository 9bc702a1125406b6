"""Messages that no page of this app could have sent: whoever speaks to the server by hand forges them.

A value of another type than its widget's is dropped before anything reads it. One that its widget does not offer ends the
page with a sentence, and is no error of the program. What would clear the memory that all visitors share is dropped.
"""

from __future__ import annotations

import traceback
from typing import Final

from streamlit.proto.WidgetStates_pb2 import WidgetState
from streamlit.runtime.app_session import AppSession
from streamlit.runtime.state.common import WidgetMetadata
from streamlit.runtime.state.session_state import Serialized, WStates

SENTENCE: Final = "This page was sent a value that it does not offer. Reload it."
_set_state, _set_metadata = WStates.set_widget_from_proto, WStates.set_widget_metadata


def install() -> None:
    """Lets every session of this server drop values of a wrong type, and the wish to clear its caches."""
    AppSession._handle_clear_cache_request = lambda self: None  # type: ignore[method-assign]
    WStates.set_widget_from_proto = _with_state  # type: ignore[method-assign, assignment]
    WStates.set_widget_metadata = _with_metadata  # type: ignore[method-assign, assignment]


def is_reading(error: BaseException) -> bool:
    """Whether an error comes from reading a widget's value."""
    frames = traceback.extract_tb(error.__traceback__)
    return any(frame.name == "deserialize" and "streamlit" in frame.filename for frame in frames)


def _with_state(states: WStates, sent: WidgetState) -> None:
    _set_state(states, sent)
    _drop(states, sent.id)


def _with_metadata(states: WStates, metadata: WidgetMetadata[object]) -> None:
    _set_metadata(states, metadata)
    _drop(states, metadata.id)


def _drop(states: WStates, widget: str) -> None:
    state, metadata = states.states.get(widget), states.widget_metadata.get(widget)
    if not isinstance(state, Serialized) or metadata is None:
        return
    sent = state.value.WhichOneof("value")
    # A browser sends a whole number as one, though its field may take others, too.
    if sent is not None and sent.replace("int_", "double_") != metadata.value_type.replace("int_", "double_"):
        del states.states[widget]
