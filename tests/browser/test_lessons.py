"""Lessons, exercises and a classroom in a real browser."""

from __future__ import annotations

import csv
import re

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from dpcl_core.lessons import exercises, text
from dpcl_core.runs.rooms import Rooms, digest
from tests.browser.conftest import PATIENCE_MS, App, Visit, ready, tab_to
from tests.support import replay
from tests.support.classroom import N_VISITORS, TEACHER, TOKENS, Visitor
from tests.support.tiers import quick
from tests.support.together import together

pytestmark = pytest.mark.browser
LESSON = text.load("label")


def predict(page: Page, step: text.Step) -> None:
    page.get_by_role("radio", name=step.choices[0]).press("Space")
    expect(page.get_by_role("heading", name="Do", exact=True)).to_be_visible()


def no_wider_than(page: Page, width: int) -> None:
    wide = page.evaluate(
        "Math.max(document.documentElement.scrollWidth, document.querySelector('[data-testid=stMain]').scrollWidth)"
    )
    assert wide <= width


def test_a_lesson_opens_on_its_task_where_the_choice_of_lessons_has_no_room_beside_it(app: App, visit: Visit) -> None:
    page = visit(f"{app.url}/lessons?lesson=5&step=2", width=1024)
    task = page.get_by_role("heading", name="Predict", exact=True).bounding_box()
    choice = page.get_by_role("link", name="To all lessons and steps").bounding_box()
    assert choice["y"] < task["y"] < 500


def test_lesson_1_by_keyboard_on_a_phone(app: App, visit: Visit) -> None:
    page = visit(f"{app.url}/lessons?l=label", width=390, dark=True)
    first, second, third, *_ = LESSON.steps

    predict(page, first)
    tab_to(page, "BUTTON", "Release both")
    page.keyboard.press("Enter")
    expect(page.get_by_role("list", name="Labels of the classifier with her")).to_contain_text("9")
    expect(page.get_by_role("list", name="Labels of the classifier without her")).not_to_contain_text("9")
    expect(page.get_by_role("status")).to_contain_text("The result: “Yes, at one look”.")
    expect(page.get_by_role("img", name="With her a 9 is on it.")).to_be_visible()
    assert [heading.inner_text() for heading in page.locator("h1, h2, h3").all()] == [
        "Lessons", first.title, "Predict", "Do", "See", "Explain"
    ]  # fmt: skip
    no_wider_than(page, 390)

    tab_to(page, "BUTTON", "Next")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name=second.title)).to_be_focused()
    predict(page, second)
    for number in range(1, 6):
        expect(page.get_by_text(f"Round {number} of 5.")).to_be_visible()
        chips = page.get_by_role("list", name="Labels of the classifier", exact=True)
        page.get_by_role("button", name="She is in" if "9" in chips.inner_text() else "She is out").press("Enter")
        expect(page.get_by_text(re.compile(f"^Round {number}: you guessed"))).to_be_visible()
    expect(page.get_by_text("You were right in 5 of 5 rounds.")).to_be_visible()

    tab_to(page, "BUTTON", "Next")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name=third.title)).to_be_focused()
    predict(page, third)
    tab_to(page, "BUTTON", "Play")
    page.keyboard.press("Enter")
    expect(page.get_by_text("ε is at least 6.29, more than was promised")).to_be_visible()
    page.keyboard.press("Enter")  # the button keeps the focus
    expect(page.get_by_text("ε is at least 6.99, more than was promised")).to_be_visible()
    with page.expect_download() as waiting:
        page.get_by_role("button", name="CSV").press("Enter")
    *_, last, _, promised = csv.reader(waiting.value.path().read_text(encoding="utf-8").splitlines())
    assert [round(float(last[2]), 2), promised[1:3]] == [6.99, ["4000", "1"]]
    no_wider_than(page, 390)

    page.wait_for_url(re.compile("d1=1%2C2%2C3"))
    fresh = visit(page.url)
    expect(fresh.get_by_text("Steps, 3 of 8 done")).to_be_visible()
    expect(fresh.get_by_role("heading", name=third.title)).to_be_visible()
    ahead = fresh.get_by_role("button", name="○ 5. The best attacker, held")
    expect(ahead).to_be_disabled()
    fresh.get_by_role("button", name="○ 4. A list from before").click()
    expect(fresh.get_by_text("Choose an answer to continue")).to_be_visible()
    expect(fresh.get_by_role("button", name="Next")).to_have_count(0)
    fresh.get_by_role("radio", name=text.load("label").steps[3].choices[0], exact=True).check()
    ahead.click()
    fresh.get_by_role("radio", name="Like a coin", exact=True).check()
    fresh.get_by_role("button", name="Play 2 × 5,000 rounds").click()
    expect(fresh.get_by_role("img", name="No cut of it beats the best possible")).to_be_visible()
    expect(fresh.get_by_text("Steps, 4 of 8 done")).to_be_visible()
    no_wider_than(fresh, 1280)


def test_a_link_over_a_step_without_a_prediction_opens_that_step(app: App, visit: Visit) -> None:
    page = visit(f"{app.url}/lessons?l=label&s=5&p1=1")
    expect(page.get_by_role("heading", name=LESSON.steps[1].title)).to_be_visible()
    expect(page.get_by_text("Step 5 opens when each step before it has a prediction.")).to_be_visible()
    expect(page.get_by_role("button", name="Next")).to_have_count(0)
    predict(page, LESSON.steps[1])
    expect(page.get_by_role("button", name="Next: A machine attacks")).to_be_visible()


# The first figure of a result (a table, where that comes first) and all that explains it, from the top of the two columns.
TOGETHER = """() => {
    const left = document.querySelector('.st-key-lesson-result, .ls .act');
    const right = document.querySelector('.st-key-lesson-beside, .ls .aside > :last-child');
    const figure = left.querySelector('[class*=st-key-card-], figure, .table, .scroll') ?? left;
    const [top, one, two] = [left, figure, right].map(part => part.getBoundingClientRect());
    const keeps = getComputedStyle(right.closest(':has(> .st-key-lesson-beside)') ?? right).position;
    return { height: Math.max(one.bottom, two.bottom) - top.top, gap: two.left - one.right, keeps };
}"""
STEPS = [
    ("coin", 3), ("label", 5), ("gradient", 1), ("unit", 5), ("shared", 2), ("sign", 6), ("choice", 3), ("noise", 1)
]  # fmt: skip
PROJECTOR, ABOVE = 720, 72  # pixels; the menu stays in view


@pytest.mark.parametrize(("lesson", "step"), quick(3, STEPS))
def test_a_figure_and_its_explanation_share_a_projectors_screen(app: App, visit: Visit, lesson: str, step: int) -> None:
    page = visit(f"{app.url}/lessons?l={lesson}&s={step}&hide=prediction&large=1", width=1024)
    page.set_viewport_size({"width": 1024, "height": PROJECTOR})
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


EXACT = "With one noise for all, 1,346 of 1,346 other pictures come back exactly; with fresh noise 0 of 1,346."


@pytest.mark.slow
@pytest.mark.parametrize(
    ("link", "button", "before", "value", "after"),
    [
        ("l=shared&s=2&b3=13", "Subtract", EXACT, "b3=45", EXACT),
        # λ is 10, where a random digit is still learned under the turned sign; at 12 it is unlearned.
        ("l=sign&s=2", "Turn the sign", "sign turned 0.16; hinge −0.84.", "w5=12", "sign turned −0.01; hinge −1.01."),
    ],
)
def test_the_slider_of_a_lesson_by_keyboard_on_a_phone(
    app: App, visit: Visit, link: str, button: str, before: str, value: str, after: str
) -> None:
    page = visit(f"{app.url}/lessons?{link}&hide=prediction", width=390, dark=True)
    tab_to(page, "BUTTON", button)
    page.keyboard.press("Enter")
    expect(page.get_by_text(before)).to_be_visible(timeout=PATIENCE_MS)
    page.get_by_role("slider").focus()
    page.keyboard.press("ArrowRight")
    page.wait_for_url(re.compile(value))
    ready(page)
    expect(page.get_by_text(after)).to_be_visible(timeout=PATIENCE_MS)
    no_wider_than(page, 390)


# Exercises in a real browser: answers on a phone, the code that they give, and what the teacher's page reads in it.


def test_answers_become_a_code_that_the_teacher_reads(app: App, visit: Visit) -> None:
    asked = exercises.sheet("Many releases", "amber fox")
    page = visit(f"{app.url}/teach?view=exercises&part=2", width=390, dark=True)
    page.get_by_label("Your invented name", exact=True).fill("Amber Fox")
    page.keyboard.press("Enter")
    for one in asked:
        page.get_by_label(f"Answer 2{one.letter}, {one.wanted}").fill("999" if one.letter == "c" else str(one.answer))
    page.get_by_role("button", name="Check").press("Enter")
    expect(page.get_by_role("status")).to_contain_text(f"{len(asked) - 1} of {len(asked)} right.")
    code = page.get_by_text("amber-fox-2").inner_text()
    page.goto(f"{app.url}/teach?view=plan&part=2")
    page.get_by_role("radio", name="Codes").click()
    page.get_by_label("Codes, with blanks or new lines between them").fill(f"{code}\n{code.replace('abd', 'abcd')}")
    page.get_by_role("button", name="Check the codes").press("Enter")
    expect(page.get_by_role("status")).to_contain_text("1 of 2 valid.")
    with page.expect_download() as waiting:
        page.get_by_role("button", name="CSV").press("Enter")
    _, first, second = csv.reader(waiting.value.path().read_text(encoding="utf-8").splitlines())
    assert first == ["amber fox", "Many releases", f"{len(asked) - 1} of {len(asked)}", "abd", "yes", ""]
    assert second[4] == "no"


# A classroom in two browsers: the teacher asks, a visitor answers on a phone, and both see it without a reload.


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
    teacher.goto(f"{app.url}/teach?view=classroom")
    ready(teacher)
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
    visitor.goto(f"{app.url}/lessons?lesson={lesson}&s=2&p{text.link_number(lesson)}=1")  # the first step's opens the second
    visitor.get_by_role("radio", name=following.choices[2]).press("Space")
    expect(visitor.get_by_text("There is a question in the classroom")).to_be_visible()
    assert rooms.state(code).choices == {digest(tokens[1]): 0}, "another step's prediction is no answer"
    for page in (teacher, visitor):
        page.context.close()


def test_a_projector_shows_how_many_have_answered_in_large_letters(app: App, visit: Visit) -> None:
    rooms = Rooms(app.store())
    code = rooms.open("Monday", TEACHER)
    for token in TOKENS[:2]:
        rooms.join(code, token)
    rooms.ask(code, TEACHER, "Does noise hide a label?", ("Yes", "No"))
    rooms.vote(code, TOKENS[0], rooms.state(code).poll.id, 0)
    page = visit(f"{app.url}/room?room={code}&large=1", width=1024)
    said = page.get_by_text(re.compile("^1 of [23] answered"))
    expect(said).to_be_visible()
    assert said.evaluate("said => parseFloat(getComputedStyle(said).fontSize)") > 38


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
