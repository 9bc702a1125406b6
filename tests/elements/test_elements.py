"""Elements in the browser: calculators as in Python, rooms that call only bounds privacy, scripts without modules."""

import json
import math
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import dp_accounting as dp
import numpy as np
import pytest
from dp_accounting.rdp import RdpAccountant
from scipy.stats import norm

from dpcl_core import paths
from dpcl_core.elements import calculator, element
from dpcl_core.elements.element import BALLOT, CALCULATOR, ELEMENTS, GALLERY, PICTURE, ROOM, ROOM_WORDS, Element
from dpcl_core.figures import theme
from dpcl_core.methods import catalog as methods
from dpcl_core.privacy import accounting, statement
from dpcl_core.privacy.calculator import solve
from dpcl_core.site import build
from pages.parts.figure_card import json_bytes
from tests.support import javascript
from tests.support.asserting import refuses

SCRIPTS = ("drag/replay.mjs", "calculator/accountant.mjs")
CLOSED = [
    {"find": find, "epsilon": epsilon, "sigma": sigma, "delta": delta, "rate": 1, "steps": steps, "adjacency": adjacency}
    for find in ("epsilon", "sigma", "delta")
    for epsilon, sigma, delta in ((1.0, 3.7306354, 1e-5), (8.0, 0.6, 1e-5), (0.1, 30.0, 1e-9), (40.0, 0.15, 1e-3))
    for steps in (1, 10, 400)
    for adjacency in ("add-remove", "replace")
]
SAMPLED = [(1.0, 1e-5, 0.01, 1000), (0.7, 1e-6, 0.1, 400), (4.0, 1e-5, 0.5, 40), (20.0, 1e-8, 0.001, 100_000)]


def run(case: str) -> Any:
    """What the arithmetic's JavaScript answers; infinities are null."""
    return javascript.run(*[(paths.assets_dir() / name).read_text(encoding="utf-8") for name in SCRIPTS], case)


def test_the_closed_form_agrees_in_every_direction() -> None:
    """Both search a root to thirteen digits; near δ itself a root's error is that of the normal tail, a few units in 1e-12.

    A δ far below its own two terms is their difference: what is left of double precision there is absolute."""
    found = run(f"return {json.dumps(CLOSED)}.map(solved);")
    for case, answer in zip(CLOSED, found, strict=True):
        find = str(case["find"])
        given = {name: None if name == find else case[name] for name in ("epsilon", "sigma", "delta")}
        ours = getattr(solve(**given, n_steps=case["steps"], adjacency=case["adjacency"]), find)  # type: ignore[arg-type]
        assert answer[find] == pytest.approx(ours, rel=1e-8, abs=1e-13), case


def rdp(sigma: float, rate: float, n_steps: int, orders: list[int]) -> RdpAccountant:
    """The library's accountant at whole orders, after such a training."""
    accountant = RdpAccountant(orders)
    accountant.compose(dp.SelfComposedDpEvent(dp.PoissonSampledDpEvent(rate, dp.GaussianDpEvent(sigma)), n_steps))
    return accountant


def test_random_batches_are_accounted_as_by_the_library_and_never_below_the_tight_accountant() -> None:
    """The same finite sums and the same conversion: equal to the digits that sums of a thousand terms keep.

    The app's accountant is tight, so the bound may be above it, here by a quarter at most."""
    case = (
        f"const cases = {json.dumps(SAMPLED)}; return {{ orders: ORDERS,"
        "epsilons: cases.map(([s, d, q, n]) => sampledEpsilon(s, d, q, n)),"
        "deltas: cases.map(([s, d, q, n]) => sampledDelta(s, 3, q, n)),"
        "sigmas: cases.map(([s, d, q, n]) => solved({ find: 'sigma', epsilon: sampledEpsilon(s, d, q, n), delta: d, "
        "rate: q, steps: n, adjacency: 'add-remove' }).sigma) };"
    )
    found = run(case)
    for (sigma, delta, rate, n_steps), epsilon, at_three, again in zip(
        SAMPLED, found["epsilons"], found["deltas"], found["sigmas"], strict=True
    ):
        accountant = rdp(sigma, rate, n_steps, found["orders"])
        assert epsilon == pytest.approx(accountant.get_epsilon(delta), rel=1e-9)
        # The library also knows a bound by total variation; ours is the other one, and may only be larger.
        assert at_three >= accountant.get_delta(3.0) * (1 - 1e-9)
        assert again == pytest.approx(sigma, rel=1e-9)
        if n_steps <= 1000:  # with many tiny steps the tight accountant's own grid rounds up further than this bound
            tight = solve(epsilon=None, sigma=sigma, delta=delta, sample_rate=rate, n_steps=n_steps).epsilon
            assert tight - 2e-3 <= epsilon <= 1.25 * tight


def test_one_person_in_several_tasks_costs_the_same_in_both_languages_and_replacement_has_no_bound_here() -> None:
    case = {"find": "epsilon", "sigma": 1, "delta": 1e-5, "rate": 0.1, "steps": 10, "adjacency": "replace"}
    assert run(f"return solved({json.dumps(case)});")["epsilon"] is None  # NaN
    cases = [(0.1, 1e-5, 50), (1.0, 1e-5, 10), (8.0, 1e-5, 1)]
    found = run(f"return {json.dumps(cases)}.map((one) => inEveryTask(...one));")
    ours = [accounting.in_every_task([epsilon] * tasks, delta)[-1] for epsilon, delta, tasks in cases]
    np.testing.assert_allclose(found, ours, rtol=1e-8)


def test_odds_are_printed_as_the_statement_prints_them() -> None:
    budgets = [0.01, 0.1, 1.0, 2.5, 8.0, 30.0, 800.0]
    found = run(f"return {json.dumps(budgets)}.map((e) => oddsPercent(e, 1e-5));")
    assert [statement.ODDS.format(percent=one) for one in found] == [statement.odds(epsilon, 1e-5) for epsilon in budgets]


def test_the_quantile_of_rare_false_alarms_and_the_size_of_the_data() -> None:
    document = calculator.document()
    assert document["rare_quantile"] == pytest.approx(norm.ppf(calculator.RARE), abs=1e-12)
    assert len(CALCULATOR.inline(document, name="calculator")) < 60_000


LIMITS = [("epsilon", "largest_epsilon", 1.001), ("sigma", "smallest_sigma", 0.999)]


@pytest.mark.parametrize(("name", "limit", "beyond"), LIMITS)
def test_the_browser_has_the_limits_of_the_terminal(name: str, limit: str, beyond: float) -> None:
    at = float(str(calculator.document()[limit]))
    rest = {"epsilon": None, "sigma": None, "delta": 1e-5, "sample_rate": 1.0, "n_steps": 1}
    assert solve(**rest | {name: at}).delta == 1e-5
    refuses("must be at", solve, **rest | {name: beyond * at})


def test_a_report_is_taken_over_and_what_the_element_cannot_have_reported_changes_nothing() -> None:
    typed = {"find": "everything"}, {"epsilon": 3}, {"epsilon": "1" * 21}, {"tasks": 51}, {"task_epsilon": math.inf}
    for reported in (None, 3, {"x": 1}, *typed):
        assert calculator.Question().changed(reported) == calculator.Question()
    now = calculator.Question().changed({"find": "epsilon", "sigma": "2", "steps": "40", "mechanism": "sampled"})
    assert now.numbers() == {"sigma": 2.0, "delta": 1e-5, "rate": 0.01, "steps": 40}
    accounting.subsampled_gaussian(now.numbers()["sigma"], now.numbers()["rate"], int(now.numbers()["steps"]))


@pytest.mark.parametrize(("name", "text"), [("epsilon", "banana"), ("steps", "2.5"), ("steps", "0"), ("delta", "")])
def test_what_is_no_number_is_refused_by_name(name: str, text: str) -> None:
    refuses(f"{name} = {text}: must be a", calculator.Question(**{name: text}).numbers)


@pytest.mark.parametrize("one", ELEMENTS, ids=lambda one: one.folder)
def test_each_is_one_function_without_modules(one: Element) -> None:
    check = f"const made = {one.classic}; process.stdout.write(`${{typeof made}} ${{made.name}} ${{made.length}}`);"
    assert javascript.printed(check, kind="commonjs") == "function element 1"


@pytest.mark.parametrize("one", [*ELEMENTS, GALLERY, ROOM, BALLOT], ids=lambda one: one.folder)
def test_each_is_a_module_that_reads_bytes(one: Element, tmp_path: Path) -> None:
    (tmp_path / "module.mjs").write_text(one.module_of_bytes, encoding="utf-8")
    check = "import made from './module.mjs'; process.stdout.write(typeof made)"
    assert javascript.printed(check, tmp_path) == "function"


def test_bytes_of_json_are_the_data(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    one = _of(monkeypatch, "export default function element({ data, add }) {\n  return data.text + add;\n}")
    (tmp_path / "module.mjs").write_text(one.module_of_bytes, encoding="utf-8")
    sent = list(json_bytes({"text": "ε ≤ 1 \U0001f600"}))
    drawn = f"made({{data: Uint8Array.from({sent}), add: '!', parentElement: {{}}}})"
    check = f"import made from './module.mjs'; process.stdout.write({drawn})"
    assert javascript.printed(check, tmp_path) == "ε ≤ 1 \U0001f600!"


def _of(monkeypatch: pytest.MonkeyPatch, script: str) -> Element:
    monkeypatch.setattr(element, "_read", lambda name: script if name.endswith(".mjs") else "<p></p>")
    return Element("made", ("made.mjs",))


@pytest.mark.parametrize("script", [
    'import { a } from "./b.mjs";', 'const a = await import("b");', 'fetch("x");', "const a = 1;\nexport { a };"
])
def test_scripts_that_need_others_are_refused(monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    with pytest.raises(ValueError, match="made: a script must not contain"):
        _ = _of(monkeypatch, script).classic


def test_no_text_of_the_data_ends_the_script(monkeypatch: pytest.MonkeyPatch) -> None:
    one = _of(monkeypatch, "export default function element({ data, parentElement }) {}")
    html = one.inline({"text": "</script><!--<script>"}, name="here")
    seen: list[str] = []
    parser = HTMLParser()
    parser.handle_starttag = lambda tag, attributes: seen.append(tag)  # type: ignore[method-assign, assignment]
    parser.handle_endtag = lambda tag: seen.append(f"/{tag}")  # type: ignore[method-assign, assignment]
    parser.feed(html)
    assert seen == ["div", "/div", "script", "/script"]


def test_every_script_in_the_elements_folders_belongs_to_an_element_or_a_figure() -> None:
    used = {name for one in (*ELEMENTS, PICTURE, GALLERY, ROOM, BALLOT) for name in one.scripts}
    used.add("shared/mounted.mjs")
    used |= {f"live/{Path(name).stem}.mjs" for name in build.scripts() if name not in ("live/dom.js", build.CACHE)}
    folder = paths.assets_dir()
    assert {str(path.relative_to(folder)) for path in folder.glob("*/*.mjs")} == used


def _found(*points: tuple[str, object, str, float]) -> str:
    """The finding on points of these runs, budgets, standings and accuracies."""
    sent = {
        "words": ROOM_WORDS,
        "points": [
            {"run_id": run, "epsilon": epsilon, "standing": standing, "accuracy": accuracy, "name": "ibex", "method": "m"}
            for run, epsilon, standing, accuracy in points
        ],
    }
    script = "return found(fromPython.points, fromPython.words, (method) => method);"
    return str(javascript.run(ROOM.module, script, sent=sent))


def test_no_two_methods_of_a_class_have_one_mark() -> None:
    marks = javascript.run(ROOM.module, "return [...Array(30).keys()].map(mark);")
    assert len({(mark["d"], mark["fill"]) for mark in marks}) == len(marks) > len(methods.CARDS)


def test_colours_are_those_of_figures() -> None:
    sheet = (paths.assets_dir() / "room/room.css").read_text(encoding="utf-8")
    colours = re.findall(r"--c(\d): light-dark\((#\w+), (#\w+)\);", sheet)
    assert colours == [(str(n), *(theme.colour_of_series(n, dark) for dark in (False, True))) for n in range(8)]


def test_the_best_with_privacy_has_a_bound() -> None:
    said = _found(("a", 1, "bound", 0.7), ("a", "inf", "bound", 0.95), ("b", 0.5, "claimed", 0.9), ("c", 1, "none", 0.8))
    assert said == "3 runs. The best with privacy so far: 70 % at ε = 1, m, by ibex."
    assert _found() == ROOM_WORDS["none"]


@pytest.mark.parametrize(("epsilon", "standing"), [("inf", "bound"), (0.5, "claimed"), (1, "none"), (1, "replay")])
def test_a_run_without_a_bound_is_never_the_best_with_privacy(epsilon: object, standing: str) -> None:
    assert _found(("a", epsilon, standing, 0.9)) == "One run. No result with a bound on ε so far."
