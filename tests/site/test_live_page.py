"""The page "Train in this page" as files: what it may ask for, what its scripts find, and what they decide by themselves."""

from __future__ import annotations

import json
import re
from html import unescape
from urllib.parse import unquote

import pytest

from dpcl_core import checks, paths
from dpcl_core.elements.element import DRAG
from dpcl_core.site import build, live, runs
from tests.support import javascript

TEXT = paths.asset_table("live/exercises.toml")["smallest"]
EXERCISES = (paths.assets_dir() / "live" / "exercises.mjs").read_text(encoding="utf-8")


def test_scripts_find_each_other_and_ask_for_files_of_the_site_alone() -> None:
    files = build.scripts()
    for name, text in files.items():
        assert name.endswith(".js")
        wanted = set(re.findall(r'from "\./([\w-]+\.js)"', text))
        assert all(f"live/{one}" in files for one in wanted), (name, wanted)
        assert not re.search(r"""(?:fetch|import|Worker|open)\(["'`]https?:""", text), name
    fetching = {name for name, text in files.items() if re.search(r"(?<!\.)\bfetch\(", text)}
    assert fetching <= {"live/files.js", "live-cache.js", "live/engine.js"}


def test_the_page_asks_its_own_origin_alone() -> None:
    page = build.live_page()
    assert f'content="{build.POLICY}"' in runs.run_page(page, [page])
    assert "connect-src 'self' blob:" in build.POLICY
    assert "{{" not in page.body
    assert 'data-state="loading"' in page.body


def outcome(means: dict[float, list[float]], **settings: object) -> dict[str, object]:
    models = [{"epsilon": epsilon, "metrics": {"AA": one}} for epsilon, seeds in means.items() for one in seeds]
    return {"models": models, "settings": {**TEXT["settings"], **settings}}


@javascript.NEEDED
@pytest.mark.parametrize(("found", "said"), [
    (None, "no_run"), (outcome({1: [0.9] * 3}, labels="prior"), "other"), (outcome({1: [0.7] * 3}), "none"),
    (outcome({1: [0.9] * 2, 0.5: [0.7] * 3}), "few"), (outcome({1: [0.9] * 3, 2: [0.9] * 3}), "all"),
    (outcome({1: [0.9] * 3, 2: [0.7] * 3}), "mixed"), (outcome({2: [0.9] * 3, 1: [0.7] * 3}), "wide"),
    (outcome({1.5: [0.9, 0.7, 0.8], 1: [0.79] * 3}), "right"),
])  # fmt: skip
def test_an_answer_is_judged_by_the_run(found: object, said: str) -> None:
    # 0.9, 0.7 and 0.8 have a mean of 0.8 up to rounding: the share is a hair less here, so that rounding decides nothing.
    text = {**TEXT, "share": 0.7999, "wanted": TEXT["settings"]}
    script = EXERCISES.replace('import { made } from "./dom.js";', "")
    of = "console.log(JSON.stringify(verdict(fromPython.text, fromPython.found)));"
    low, high = {"mixed": (2, 1), "wide": (1, 2)}.get(said, (1, 1.5))
    assert javascript.run(script, of, sent={"text": text, "found": found}) == TEXT[said].format(low=low, high=high)


@javascript.NEEDED
def test_a_run_that_is_going_on_is_summed_up_as_far_as_it_is() -> None:
    """Rows still to come are null: they count neither as zero nor as forgotten."""
    whole = [[0.9], [0.7, 0.8], [0.5, 0.6, 0.7]]
    begun = [*whole[:2], [None] * 3]
    sources = [(paths.assets_dir() / name).read_text(encoding="utf-8") for name in DRAG.scripts]
    script = re.sub(r"^export (default )?", "", "\n".join(sources), flags=re.MULTILINE)
    shown = "console.log(JSON.stringify({ last, curve, lost }));"
    of = f"const {{ last, curve, lost }} = summarised({{ matrices: fromPython, classes: [] }}); {shown}"
    found = javascript.run(script, of, sent=[begun])
    assert found["last"] == 1
    assert found["curve"] == [pytest.approx(0.9), pytest.approx(0.75), None]  # of a few doubles
    assert found["lost"] == pytest.approx(0.2)
    assert javascript.run(script, of, sent=[whole])["last"] == 2


def test_start_and_every_answer_that_can_be_repeated_lead_to_the_page() -> None:
    """The link says the settings of a run of the answer, and nothing else."""
    answers = runs.recorded()
    start = runs.Page(runs.HOME, "", "", '<ul class="doors"></ul>')
    before = [runs.Page(runs.file_of(question), "", "", '<p class="row"></p>') for question, _ in answers]
    first, *after = build.with_doors([start, *before])
    assert f'href="{build.FILE}"' in first.body
    opened = 0
    for (_, forms), page in zip(answers, after, strict=True):
        possible = [spec for form in forms for spec in form.specs.values() if live.runs_here(spec)]
        linked = re.search(r'href="train-here\.html#run=([^"]+)"', page.body)
        assert bool(linked) == bool(possible), page.file
        if linked:
            opened += 1
            assert checks.parse(json.loads(unquote(unescape(linked[1])))) in possible
    assert 0 < opened < len(answers)
