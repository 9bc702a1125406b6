"""The rooms' own tests under the page's Python: what fails there, fails for a reader of the page."""

from pathlib import Path

import pytest

from tests.page import rooms

pytestmark = pytest.mark.slow
_LEAST = 300  # tests that pass there: a harness that collects nothing proves nothing


def test_the_rooms_tests_pass_in_a_page(live_folder: Path, tmp_path: Path) -> None:
    outcomes = rooms.tested(live_folder, tmp_path)
    failed = rooms.failures(outcomes)
    assert not failed, "\n".join(f"{name}: {said}" for name, said in failed.items())
    assert sum(what == "passed" for what, _ in outcomes.values()) >= _LEAST, rooms.sentence(outcomes)


@pytest.mark.parametrize(("said", "why"), [
    ("E   ModuleNotFoundError: No module named 'pyarrow'", "need pyarrow"),
    ("ModuleNotFoundError: No module named 'dpcl_core.runs.store'", "need dpcl_core.runs"),
    ("OSError: [Errno 138] emscripten does not support processes.", "start a process"),
    ("RuntimeError: can't start new thread", "start a thread"),
    ("assert 1 == 2", ""),
])  # fmt: skip
def test_a_failure_is_told_from_what_a_page_lacks(said: str, why: str) -> None:
    assert rooms.reason(said) == why
