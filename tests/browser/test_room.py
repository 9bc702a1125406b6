"""A classroom in two browsers: the teacher asks, a visitor answers on a phone, and both see it without a reload."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from dpcl_core.lessons import text
from dpcl_core.runs.rooms import Rooms, digest
from tests.browser.conftest import PATIENCE_MS, App, ready
from tests.support import replay
from tests.support.classroom import N_VISITORS, TEACHER, TOKENS, Visitor
from tests.support.tiers import quick
from tests.support.together import together

pytestmark = pytest.mark.browser
_CUT = """() => [...document.querySelectorAll('.ro svg text')].filter(text => {
    const at = text.getBoundingClientRect(), around = text.ownerSVGElement.getBoundingClientRect();
    return text.textContent && (at.left < around.left || at.right > around.right || at.bottom > around.bottom);
}).map(text => text.textContent)"""


def _page(browser: Browser, width: int) -> Page:
    page = browser.new_context(viewport={"width": width, "height": 860}).new_page()
    page.set_default_timeout(PATIENCE_MS)
    return page


def _token(page: Page) -> str:
    return str(next(one["value"] for one in page.context.cookies() if one["name"] == "dpcl-visitor"))


def test_a_question_is_asked_answered_and_ended_and_a_run_is_shown(browser: Browser, app: App) -> None:
    teacher, visitor = _page(browser, 1280), _page(browser, 390)
    teacher.goto(f"{app.url}/room")
    ready(teacher)
    teacher.get_by_label("Title").fill("Monday")
    teacher.get_by_role("button", name="Open", exact=True).click()
    teacher.wait_for_url("**room=*")
    code = teacher.url.partition("room=")[2][:6]
    visitor.goto(f"{app.url}/room?room={code}")
    expect(visitor.get_by_text("You are")).to_be_visible()
    teacher.get_by_label("Ask", exact=True).fill("Does noise on the sums hide a label?")
    teacher.get_by_role("button", name="Ask", exact=True).press("Enter")
    visitor.get_by_role("button", name="No", exact=True).press("Enter")  # appears by itself
    expect(teacher.get_by_role("button", name="No 1 answer")).to_be_visible()
    expect(visitor.get_by_role("button", name="No 1 answer")).to_have_attribute("aria-pressed", "true")

    spec = replay.a_spec()
    run_id = replay.fill(app.store(), spec, replay.recorded(spec))
    Rooms(app.store()).add_run(code, _token(visitor), run_id)
    expect(visitor.get_by_text("One run. The best with privacy so far")).to_be_visible()
    teacher.get_by_role("button", name="Look for new runs").click()
    teacher.get_by_label("Show a run to everybody").click()
    teacher.get_by_role("option", name=run_id[:4]).click()
    expect(visitor.get_by_role("img", name="after the first task")).to_be_visible()
    assert visitor.evaluate(_CUT) == [], "texts reach out of their drawing on a phone"

    teacher.get_by_role("button", name="End the question").click()
    expect(visitor.get_by_role("button", name="Yes")).to_be_disabled()
    visitor.get_by_role("button", name="Leave the room").click()
    expect(visitor.get_by_role("heading", name="Join a room")).to_be_visible()
    visitor.get_by_label("Code").fill(code)  # where the page has been before, it goes and leaves again
    visitor.get_by_role("button", name="Join", exact=True).click()
    visitor.get_by_role("button", name="Leave the room").click()
    expect(visitor.get_by_role("heading", name="Join a room")).to_be_visible()
    teacher.get_by_role("button", name="Close the room").click()
    teacher.get_by_role("button", name="Close it").click()
    expect(teacher.get_by_role("heading", name="Join a room")).to_be_visible()
    for page in (teacher, visitor):
        page.context.close()


@pytest.mark.parametrize("lesson", quick(1, ["label", "coin"]))
def test_predictions_of_a_lesson_are_votes_in_the_room(browser: Browser, app: App, lesson: str) -> None:
    """Of a lesson that the browser draws and one that the server draws; chosen before the question is asked, and after."""
    teacher, visitor = _page(browser, 1280), _page(browser, 390)
    for page in (teacher, visitor):  # the first page brings the cookie
        page.goto(f"{app.url}/lessons?lesson={lesson}")
        ready(page)
    tokens = [_token(page) for page in (teacher, visitor)]
    rooms = Rooms(app.store())
    code = rooms.open("Monday", tokens[0])
    rooms.join(code, tokens[1])
    step, following = text.load(lesson).steps[:2]
    teacher.reload()  # now with a room
    visitor.reload()
    visitor.get_by_role("radio", name=step.choices[1]).press("Space")
    expect(visitor.get_by_text("in the classroom “Monday”")).to_be_visible()
    teacher.get_by_role("button", name="Ask my class this question").click()
    expect(teacher.get_by_role("button", name=f"{step.choices[1]} 1 answer")).to_be_visible()
    visitor.get_by_role("radio", name=step.choices[0]).press("Space")
    expect(teacher.get_by_role("button", name=f"{step.choices[0]} 1 answer")).to_be_visible()
    expect(visitor.get_by_text("1 of 1 have answered")).to_be_visible()
    assert rooms.state(code).choices == {digest(tokens[1]): 0}
    visitor.goto(f"{app.url}/lessons?lesson={lesson}&s=2")
    visitor.get_by_role("radio", name=following.choices[2]).press("Space")
    expect(visitor.get_by_text("There is a question in the classroom")).to_be_visible()
    assert rooms.state(code).choices == {digest(tokens[1]): 0}, "another step's prediction is no answer"
    for page in (teacher, visitor):
        page.context.close()


def test_forty_votes_at_once_are_each_shown_once_to_everybody(app: App) -> None:
    """Who votes sees the own vote in the answer, and nobody sees a vote go again."""
    rooms = Rooms(app.store())
    code = rooms.open("Monday", TEACHER)
    together(lambda number: rooms.join(code, TOKENS[number]), N_VISITORS)
    rooms.ask(code, TEACHER, "Does noise hide a label?", ("Yes", "No"))
    poll = rooms.state(code).poll.id
    seen: list[list[dict]] = [[] for _ in TOKENS]

    def visit(number: int) -> None:
        visitor = Visitor(app.url, code, TOKENS[number])
        seen[number] = [visitor.look(), visitor.vote(poll, number % 2), visitor.look()]
        while seen[number][-1]["votes"] < N_VISITORS:
            seen[number].append(visitor.look())

    together(visit, N_VISITORS)
    for number, looks in enumerate(seen):
        assert [one["mine"] for one in looks] == [None] + [number % 2] * (len(looks) - 1)
        assert looks[-1]["counts"] == [N_VISITORS // 2] * 2
        counts = [one["votes"] for one in looks]
        assert counts == sorted(counts)


def test_a_look_that_set_out_before_a_vote_does_not_take_it_back(browser: Browser, app: App) -> None:
    rooms, visitor = Rooms(app.store()), _page(browser, 390)
    code = rooms.open("Monday", TEACHER)
    rooms.ask(code, TEACHER, "Does noise hide a label?", ("Yes", "No"))
    visitor.goto(f"{app.url}/room?room={code}")
    yes = visitor.get_by_role("button", name="Yes")
    expect(yes).to_be_enabled()
    held: list[Route] = []
    visitor.route(f"**/rooms/{code}", lambda route: held.append(route))
    while not held:
        visitor.evaluate("1")
    before = held[0].fetch()
    yes.press("Enter")
    expect(yes).to_have_attribute("aria-pressed", "true")
    with visitor.expect_request(f"**/rooms/{code}"):  # the next one: what the first brought has been drawn
        held[0].fulfill(response=before)
    assert yes.get_attribute("aria-pressed") == "true"
    visitor.unroute_all(behavior="ignoreErrors")
    visitor.context.close()
