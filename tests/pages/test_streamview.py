"""The stream on the Train page before anything runs: redrawn with the form, quiet where it cannot be drawn."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from dpcl_core.runs.store import Store
from tests.data.making import write_pair
from tests.pages.conftest import Open, unfolded, words
from tests.support import replay


def label(page: AppTest) -> str:
    """The one sentence on the stream."""
    found = [box.label for box in page.expander if box.label.startswith("**The stream.**")]
    return found[0] if found else next(c.value for c in page.caption if c.value.startswith("**The stream.**"))


def charts(page: AppTest) -> list[dict[str, object]]:
    return [json.loads(chart.proto.spec) for chart in page.get("plotly_chart")]


def is_drawn(page: AppTest) -> bool:
    return any(chart["data"][0]["type"] == "heatmap" and len(chart["data"]) == 2 for chart in charts(page))  # type: ignore


def test_a_first_visit_sees_the_stream_and_each_setting_redraws_it(open_page: Open) -> None:
    page = open_page("train", v="1", d="digits", bb="pixels", s="i-blurry")
    assert not page.exception
    assert is_drawn(page)
    assert "5 of 10 classes occur in several tasks" in label(page)
    before = charts(page)[0]
    page = next(box for box in page.number_input if box.label == "Disjoint percent").set_value(100).run()
    assert "Every class occurs in one task only." in label(page)
    page = next(box for box in page.number_input if box.label == "Tasks").set_value(11).run()
    assert "when the settings fit the data" in label(page)
    assert not is_drawn(page)
    assert "must be at most 10" in words(page)
    page = next(box for box in page.number_input if box.label == "Tasks").set_value(2).run()
    assert is_drawn(page)
    assert charts(page)[0] != before


def test_another_seed_is_another_stream(open_page: Open) -> None:
    drawn = [charts(open_page("train", v="1", d="digits", bb="pixels", sd=seed))[0] for seed in ("1", "2")]
    assert drawn[0]["data"] != drawn[1]["data"]


def test_beside_a_run_the_sentence_stands_and_the_picture_waits(open_page: Open, store: Store) -> None:
    replay.fill(store, replay.a_spec(), replay.recorded(replay.a_spec()))
    page = open_page("train")
    assert "5 tasks of 263 to 280 training examples" in label(page)
    assert not is_drawn(page)


def test_ones_own_data_are_not_counted(open_page: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_pair(tmp_path / "data" / "mine", [0, 1] * 17, [0, 1])
    monkeypatch.setenv("DPCL_DATA", str(tmp_path / "data"))
    st.cache_data.clear()
    page = open_page("train", v="1", d="own:mine", **{"s.tasks": "2"})
    assert not page.exception
    assert "2 tasks with 1 class at home in each." in label(page)
    assert "no budget covers" in words(page)
    assert "17 training examples" not in words(page)
    assert not is_drawn(page), "the plan is a grid without bars"


def test_a_dataset_that_is_not_here_is_no_trouble(open_page: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DPCL_DATA", raising=False)
    page = open_page("train", v="1", d="cifar100")
    assert not page.exception
    assert "when the dataset is on this computer" in label(page)


def test_a_permuted_stream_says_that_examples_come_again(open_page: Open) -> None:
    page = open_page("train", v="1", d="digits", bb="pixels", s="permuted", **{"s.tasks": "20"})
    assert not page.exception
    assert is_drawn(page)
    assert "20 tasks of 1,347 training examples each. All classes occur in every task." in label(page)
    assert "adds up over the tasks" in words(page)
    assert "every seed draws other orders of the values" in words(page)
    assert "the total ε of the run is larger" in words(page)
    assert "A guess whether someone took part is right" not in "".join(caption.value for caption in page.caption)
    page = next(box for box in page.selectbox if box.label == "Images of a task").set_value("disjoint").run()
    assert "20 tasks of 52 to 82 training examples." in label(page)
    assert "adds up over the tasks" not in words(page)
    assert "A guess whether someone took part is right with probability at most" in "".join(c.value for c in page.caption)


def test_a_split_stream_is_the_same_for_every_seed_and_takes_an_order(open_page: Open) -> None:
    page = open_page("train", v="1", d="digits", bb="pixels", s="split")
    assert "every seed has the same" in words(page)
    assert "every seed has another" in words(open_page("train", v="1", d="digits", bb="pixels", s="class-incremental"))
    order = next(box for box in page.text_input if box.label == "Order")
    page = order.set_value("5 4 3 2 1").run()
    assert is_drawn(page)
    assert page.query_params["s.order"] in ("5,4,3,2,1", ["5,4,3,2,1"])
    again = open_page(
        "train", **{key: str(value) if isinstance(value, str) else value[0] for key, value in page.query_params.items()}
    )
    assert next(box for box in again.text_input if box.label == "Order").value == "5 4 3 2 1"
    page = next(box for box in page.text_input if box.label == "Order").set_value("5 4 3 2 2").run()
    assert "must name each task from 1 to 5 once, but 2 occurs 2 times" in words(page)
    page = next(box for box in page.text_input if box.label == "Order").set_value("5 4 x").run()
    assert "Order = x: must be whole numbers; left out." in words(page)


def test_a_federated_stream_says_what_its_clients_hold(open_page: Open) -> None:
    page = open_page("train", v="1", d="digits", bb="pixels", s="federated", **{"s.clients": "12"})
    assert not page.exception
    assert is_drawn(page)
    assert "10 tasks of" in label(page)
    assert "12 clients hold" in words(page)
    assert "A client may be in every task" in words(page)
    assert "Every task has the same examples" not in words(page)
    assert "every seed assigns the examples to clients differently" in words(page)
    page = unfolded(page, "more")
    assert next(box for box in page.radio if box.label == "Neighbouring datasets differ by").options == [
        "one client present or left out", "one client replaced"
    ]  # fmt: skip
