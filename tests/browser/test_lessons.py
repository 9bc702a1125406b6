"""Lessons, exercises and a classroom in a real browser."""

import csv
import re

import pytest
from playwright.sync_api import Browser, Locator, Page, Route, expect

from dpcl_core.lessons import text
from dpcl_core.runs.rooms import Rooms, digest
from tests.benchmarks.test_sliders import stored_lists
from tests.browser.conftest import PATIENCE_MS, App, Visit, go, new_page, no_wider_than, ready, walk_and_press
from tests.support import replay
from tests.support.classroom import TEACHER
from tests.support.tiers import quick


def predict(page: Page, step: text.Step) -> None:
    page.get_by_role("radio", name=step.choices[0]).press("Space")
    expect(page.get_by_role("heading", name="Do", exact=True)).to_be_visible()


def test_a_lesson_opens_on_its_task_where_the_choice_of_lessons_has_no_room_beside_it(app: App, visit: Visit) -> None:
    page = visit(f"{app.url}/lessons?lesson=5&step=2", width=1024)
    task = page.get_by_role("heading", name="Predict", exact=True).bounding_box()
    assert page.get_by_role("link", name="To all lessons and steps").bounding_box()["y"] < task["y"] < 500


def test_lesson_1_by_keyboard_on_a_phone(app: App, visit: Visit) -> None:
    page = visit(f"{app.url}/lessons?l=label", width=390, dark=True)
    first, second, third, *_ = text.load("label").steps

    predict(page, first)
    walk_and_press(page, "Release both")
    expect(page.get_by_role("list", name="Labels of the classifier with her")).to_contain_text("9")
    expect(page.get_by_role("list", name="Labels of the classifier without her")).not_to_contain_text("9")
    expect(page.get_by_role("status")).to_contain_text("The result: “Yes, at one look”.")
    expect(page.get_by_role("img", name="With her a 9 is on it.")).to_be_visible()
    assert [heading.inner_text() for heading in page.locator("h1, h2, h3").all()] == [
        "Lessons", first.title, "Predict", "Do", "See", "Explain"
    ]  # fmt: skip
    no_wider_than(page, 390)

    walk_and_press(page, "Next")
    expect(page.get_by_role("heading", name=second.title)).to_be_focused()
    predict(page, second)
    for number in range(1, 6):
        expect(page.get_by_text(f"Round {number} of 5.")).to_be_visible()
        chips = page.get_by_role("list", name="Labels of the classifier", exact=True)
        page.get_by_role("button", name="She is in" if "9" in chips.inner_text() else "She is out").press("Enter")
        expect(page.get_by_text(re.compile(f"^Round {number}: you guessed"))).to_be_visible()
    expect(page.get_by_text("You were right in 5 of 5 rounds.")).to_be_visible()

    walk_and_press(page, "Next")
    expect(page.get_by_role("heading", name=third.title)).to_be_focused()
    predict(page, third)
    walk_and_press(page, "Play")
    expect(page.get_by_text("ε is at least 6.29, more than was promised")).to_be_visible()
    with page.expect_download() as waiting:
        page.get_by_role("button", name="CSV").press("Enter")
    *_, last, _, promised = csv.reader(waiting.value.path().read_text(encoding="utf-8").splitlines())
    assert [round(float(last[2]), 2), promised[1:3]] == [6.29, ["2000", "1"]]
    no_wider_than(page, 390)

    page.wait_for_url(re.compile("d1=1%2C2%2C3"))
    fresh = visit(page.url)
    expect(fresh.get_by_text("Steps, 3 of 8 done")).to_be_visible()
    expect(fresh.get_by_role("heading", name=third.title)).to_be_visible()
    ahead = fresh.get_by_role("button", name="○ 5. The best attacker, held")
    expect(ahead).to_have_count(0)
    fresh.get_by_role("button", name="○ 4. A list from before").click()
    expect(fresh.get_by_text("Choose an answer; it may be wrong.")).to_be_visible()
    expect(fresh.get_by_role("button", name="Next")).to_have_count(0)
    fresh.get_by_role("radio", name=text.load("label").steps[3].choices[0], exact=True).check()
    ahead.click()
    expect(fresh.get_by_role("radio", name="Like a coin", exact=True)).to_be_visible()
    no_wider_than(fresh, 1280)


# The first figure of a result (a table, where that comes first) and all that explains it, from the top of the two columns.
TOGETHER = """() => {
    const left = document.querySelector('.st-key-lesson-result, .ls .act');
    const right = document.querySelector('.st-key-lesson-beside, .ls .aside > :last-child');
    const figure = left.querySelector('[class*=st-key-card-], figure, .table, .scroll') ?? left;
    const [top, one, two] = [left, figure, right].map(part => part.getBoundingClientRect());
    const keeps = getComputedStyle(right.closest(':has(> .st-key-lesson-beside)') ?? right).position;
    return { height: Math.max(one.bottom, two.bottom) - top.top, gap: two.left - one.right, keeps };
}"""
STEPS = [("coin", 3), ("label", 5), ("gradient", 1), ("unit", 5), ("shared", 2), ("sign", 6), ("choice", 3), ("noise", 1)]
PROJECTOR, ABOVE = 720, 72  # pixels; the menu stays in view


@pytest.mark.parametrize(("lesson", "step"), quick(3, STEPS))
def test_a_figure_and_its_explanation_share_a_projectors_screen(app: App, visit: Visit, lesson: str, step: int) -> None:
    page = visit(f"{app.url}/lessons?l={lesson}&s={step}&hide=prediction&large=1", width=1024, height=PROJECTOR)
    page.locator(".ls button.main" if lesson in text.IN_BROWSER else 'button[kind="primary"]').first.click()
    expect(page.get_by_role("heading", name="Explain", exact=True)).to_be_visible()
    expect(page.get_by_role("heading", name="Do", exact=True)).to_have_count(0)
    ready(page)
    # A figure is drawn again for the width of its place.
    page.wait_for_function(f"({TOGETHER})().height <= {PROJECTOR - ABOVE}")
    found = page.evaluate(TOGETHER)
    assert found["gap"] >= 0, "the explanation is beside the figure"
    assert found["keeps"] == "sticky", "and stays in view beside a second one"
    no_wider_than(page, 1024)


# A classroom in two browsers: the teacher asks, a visitor answers on a phone, and both see it without a reload.


_CUT = """() => [...document.querySelectorAll('.ro svg text')].filter(text => {
    const at = text.getBoundingClientRect(), around = text.ownerSVGElement.getBoundingClientRect();
    return text.textContent && (at.left < around.left || at.right > around.right || at.bottom > around.bottom);
}).map(text => text.textContent)"""


def _token(page: Page) -> str:
    return str(next(one["value"] for one in page.context.cookies() if one["name"] == "dpcl-visitor"))


def test_a_question_is_asked_answered_and_ended_and_a_run_is_shown(browser: Browser, app: App) -> None:
    teacher, visitor = new_page(browser), new_page(browser, 390)
    go(teacher, f"{app.url}/teach?view=classroom")
    teacher.get_by_label("Title").fill("Monday")
    teacher.get_by_role("button", name="Open", exact=True).click()
    teacher.wait_for_url("**room=*")
    code = teacher.url.partition("room=")[2][:6]
    visitor.goto(f"{app.url}/teach?view=classroom&room={code}")
    expect(visitor.get_by_text("You are")).to_be_visible()
    teacher.get_by_label("Question", exact=True).fill("Does noise on the sums hide a label?")
    teacher.get_by_role("button", name="Ask the class", exact=True).press("Enter")
    visitor.get_by_role("button", name="No", exact=True).press("Enter")  # appears by itself
    expect(teacher.get_by_role("button", name="No 1 answer")).to_be_visible()
    expect(visitor.get_by_role("button", name="No 1 answer")).to_have_attribute("aria-pressed", "true")

    run_id = replay.finished(app.store(), replay.a_spec())
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
    teacher, visitor = new_page(browser), new_page(browser, 390)
    tokens = []
    for page in (teacher, visitor):  # the first page brings the cookie
        go(page, f"{app.url}/lessons?lesson={lesson}")
        tokens.append(_token(page))
    rooms = Rooms(app.store())
    rooms.join(code := rooms.open("Monday", tokens[0]), tokens[1])
    step, following = text.load(lesson).steps[:2]
    for page in (teacher, visitor):
        page.reload()  # now with a room
    visitor.get_by_role("radio", name=step.choices[1]).press("Space")
    expect(visitor.get_by_text("in the classroom “Monday”")).to_be_visible()
    asks = "Ask my class this question"
    teacher.get_by_role("button", name=asks).click()
    expect(teacher.get_by_role("button", name=f"{step.choices[1]} 1 answer")).to_be_visible()
    for page in (teacher, visitor):  # a second press would forget the answers
        expect(page.get_by_role("button", name=asks)).to_have_count(0)
    visitor.get_by_role("radio", name=step.choices[0]).press("Space")
    expect(teacher.get_by_role("button", name=f"{step.choices[0]} 1 answer")).to_be_visible()
    expect(visitor.get_by_text("1 of 1 have answered")).to_be_visible()
    assert rooms.state(code).choices == {digest(tokens[1]): 0}
    visitor.goto(f"{app.url}/lessons?lesson={lesson}&s=2&p{text.link_number(lesson)}=1")  # the first step's opens the second
    visitor.get_by_role("radio", name=following.choices[2]).press("Space")
    expect(visitor.get_by_text("There is a question in the classroom")).to_be_visible()
    assert rooms.state(code).choices == {digest(tokens[1]): 0}, "another step's prediction is no answer"
    for page in (teacher, visitor):
        page.context.close()


def test_a_look_that_set_out_before_a_vote_does_not_take_it_back(browser: Browser, app: App) -> None:
    rooms, visitor = Rooms(app.store()), new_page(browser, 390)
    code = rooms.open("Monday", TEACHER)
    rooms.ask(code, TEACHER, "Does noise hide a label?", ("Yes", "No"))
    visitor.goto(f"{app.url}/teach?view=classroom&room={code}")
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


# Pictures that a slider moves: as wide as their place, drawn without the page, whose links follow.


STEP = 20  # pixels in which a picture's width follows its place


def drawn_width(picture: Locator) -> float:
    """What the figure was drawn for, by its own measure."""
    return float((picture.get_attribute("viewBox") or "").split()[2])


def moved(page: Page, slider: str, key: str, picture: Locator) -> None:
    """Presses a key on a slider and waits for another picture."""
    before = picture.inner_html()
    page.get_by_role("slider", name=slider).first.press(key)
    page.wait_for_function(
        "([selector, before]) => document.querySelector(selector).innerHTML !== before",
        arg=[".picture svg", before],
    )  # fmt: skip
    ready(page)


def shared_link(page: Page) -> str:
    """The link that the page offers under Share."""
    page.get_by_role("button", name="Share", exact=True).click()
    ready(page)
    link = page.get_by_test_id("stPopoverBody").get_by_test_id("stCode").inner_text()
    page.keyboard.press("Escape")
    ready(page)
    return link


@pytest.mark.parametrize("width", [390, 1280])
def test_a_lesson_draws_its_picture_for_its_place_and_follows_the_slider(app: App, visit: Visit, width: int) -> None:
    page = visit(f"{app.url}/lessons?l=surprise&s=4&hide=prediction", width=width)
    page.locator("[class*=go] button[kind=primary]").first.click()
    picture = page.locator(".picture svg").first
    picture.wait_for()
    place = page.locator(".picture").first.evaluate("place => place.clientWidth")
    page.wait_for_function(
        "([place, step]) => Math.abs(document.querySelector('.picture svg').viewBox.baseVal.width - place) <= step",
        arg=[place, STEP],
    )  # fmt: skip
    ready(page)
    no_wider_than(page, width)
    wide = drawn_width(picture)
    moved(page, "α: surprise", "ArrowLeft", picture)
    assert drawn_width(picture) == wide, "the next picture is drawn for the same place"
    page.wait_for_url(re.compile("a4="))
    assert shared_link(page) == page.url


def test_the_nearest_point_says_its_numbers(app: App, visit: Visit) -> None:
    page = visit(f"{app.url}/lessons?l=surprise&s=4&hide=prediction")
    page.locator("[class*=go] button[kind=primary]").first.click()
    words, mark = page.locator(".picture .said").first, page.locator(".picture svg circle").first
    mark.wait_for()
    ready(page)
    expect(words).to_be_hidden()
    mark.hover(force=True)
    expect(words).to_be_visible()
    expect(words).to_have_text(re.compile(r"\d"))
    page.get_by_role("heading", name="Lessons").hover()
    expect(words).to_be_hidden()


def test_a_run_is_matched_again_and_the_page_around_it_follows(app: App, visit: Visit) -> None:
    page = visit(f"{app.url}/explore?view=clients&v=1&sh=run&run={stored_lists(app)}")
    picture, undo = page.locator(".picture svg").first, page.get_by_role("button", name="Undo")
    picture.wait_for(timeout=PATIENCE_MS)
    ready(page)
    expect(undo).to_be_disabled()
    moved(page, "Anchors m", "ArrowLeft", picture)
    expect(page.get_by_text("What-if, not released by this run")).to_be_visible()
    page.wait_for_url(re.compile("am="))
    expect(undo).to_be_enabled()  # the page was drawn again: it had nothing to undo before
    moved(page, "Noise on the lists", "ArrowRight", picture)
    page.wait_for_url(re.compile("an="))
    assert shared_link(page) == page.url
    undo.click()
    page.wait_for_url(re.compile("^(?!.*an=)"))
    expect(page.get_by_role("slider", name="Noise on the lists")).to_have_value("0")
