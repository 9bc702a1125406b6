"""A value that no widget of a page sends is dropped, or ends the page with a sentence: no error of the program."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import streamlit as st
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.WidgetStates_pb2 import WidgetState
from streamlit.runtime.app_session import AppSession
from streamlit.runtime.state.common import WidgetMetadata
from streamlit.runtime.state.session_state import WStates

from dpcl_core import unforeseen
from pages.parts import document


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    ours = [(WStates, "set_widget_from_proto"), (WStates, "set_widget_metadata")]
    for of, name in [*ours, (AppSession, "_handle_clear_cache_request")]:
        monkeypatch.setattr(of, name, getattr(of, name))  # put back at the end
    document.install()
    return iter(())


class Session(AppSession):
    """One that hears messages and does nothing else."""

    def __init__(self) -> None: ...
    def __del__(self) -> None: ...


def words(value: object) -> str:
    assert isinstance(value, str), "a value of another type was read"
    return value


WORDS = WidgetMetadata("w", words, str, "string_value")


@pytest.mark.parametrize("is_known", [True, False])
@pytest.mark.parametrize(
    "sent",
    [WidgetState(id="w", int_value=-(2**62)), WidgetState(id="w", json_value="{"), WidgetState(id="w", bytes_value=b"x")],
)
def test_a_value_of_another_type_is_dropped_before_it_is_read(sent: WidgetState, *, is_known: bool) -> None:
    states = WStates()
    if is_known:  # from the run before
        states.set_widget_metadata(WORDS)
    states.set_widget_from_proto(sent)
    states.set_widget_metadata(WORDS)
    assert states.get("w") is None
    states.set_widget_from_proto(WidgetState(id="w", string_value="said"))
    states.set_widget_metadata(WORDS)
    assert states["w"] == "said"


def test_a_whole_number_that_a_browser_sends_for_a_field_of_numbers_is_kept() -> None:
    states = WStates()
    states.set_widget_from_proto(WidgetState(id="n", int_value=2))
    states.set_widget_metadata(WidgetMetadata("n", lambda value: value, lambda value: value, "double_value"))
    assert states["n"] == 2


def test_no_message_of_a_browser_clears_what_is_kept_for_all() -> None:
    made: list[int] = []
    kept = st.cache_resource(lambda: made.append(1))
    kept()
    Session().handle_backmsg(BackMsg(clear_cache=True))
    kept()
    assert made == [1]


def test_a_value_that_is_not_offered_is_no_error_of_the_program(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(st, "error", said.append)
    slider = """
def deserialize(value):
    return ["a", "b"][value]
"""
    space: dict[str, object] = {}
    exec(compile(slider, "streamlit/elements/widgets/select_slider.py", "exec"), space)
    read = space["deserialize"]
    assert callable(read)
    with pytest.raises(IndexError) as broken:
        read(7)
    document.shown(broken.value)
    assert said == [document.SENTENCE]
    assert not unforeseen.log_file().exists()
    with pytest.raises(IndexError) as broken:
        ["a"][7]
    document.shown(broken.value)
    assert "The program itself went wrong" in said[1]
