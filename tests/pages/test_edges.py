"""The page of sharp edges: every card can be pressed, shows its table, and keeps it while others are pressed."""

from __future__ import annotations

from dpcl_core.lessons import text
from tests.pages.conftest import Open, words


def test_every_pitfall_stands_there_and_can_be_shown(open_page: Open) -> None:
    page = open_page("edges")
    assert not page.exception
    assert page.title[0].value == "Sharp edges"
    assert [heading.value for heading in page.header] == [f"{n}. {edge.title}" for n, edge in enumerate(text.edges(), 1)]
    buttons = [button for button in page.button if button.label == "Show it"]
    assert len(buttons) == len(text.edges())
    for edge in text.edges():
        page.button(f"show-{edge.key}").click().run()
        assert not page.exception
    said = words(page)
    for part in ("A person in all ten tasks has spent ε = 3.62, not 1.", "reveals that she was there", "moves everybody's",
                 "subtract the noise and read it", "moves 300 others"):  # fmt: skip
        assert part in said
