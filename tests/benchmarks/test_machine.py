"""What the computer and Streamlit take by themselves: yardsticks of the other rows, without budgets."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import BrowserContext
from pytest_benchmark.fixture import BenchmarkFixture

from tests.benchmarks.test_pages import time_opening
from tests.browser.conftest import serve
from tests.support import pace


def test_a_loop_of_python(benchmark: BenchmarkFixture) -> None:
    assert benchmark.pedantic(pace.counted, rounds=3) == pace.TIMES


def test_an_empty_page(context: BrowserContext, tmp_path: Path, benchmark: BenchmarkFixture) -> None:
    script = tmp_path / "empty.py"
    script.write_text("import streamlit\n\nstreamlit.title('Empty')\n", encoding="utf-8")
    with contextmanager(serve)(tmp_path, script) as app:
        time_opening(benchmark, context, app.url)
