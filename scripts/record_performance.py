"""Writes the table of waiting times in `docs/performance.md`, with machine, date and commit.

Run on a quiet machine: python -m scripts.record_performance

With --rivals: the table of training beside Opacus and a batched loop in torch.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import app
from dpcl_core import machine
from tests.support import pace

ROOT = Path(__file__).resolve().parent.parent
DOCUMENT = ROOT / "docs" / "performance.md"
START, END = "<!-- written by scripts/record_performance.py -->", "<!-- end of what is written -->"
RIVALS = "<!-- written by scripts/record_performance.py --rivals -->"
MOST_LOAD = 2.0  # of a minute; a busier machine measures its other work


@dataclass(frozen=True)
class Row:
    """A benchmark as the table names it, and its budgets in seconds on two cores, median and worst (None: no budget)."""

    what: str
    budget: float | None = None
    worst: float | None = None


PAGES = dict(app.PAGES + app.UNLISTED) | {  # views have headings and sliders of their own
    "lessons?view=edges": "Lessons, Sharp edges", "explore?view=playground": "Explore, Playground",
    "explore?view=words": "Explore, Sensitive words", "explore?view=clients": "Explore, Matching clients",
    "runs?view=compare": "Runs, Compare", "teach?view=plan": "Teach, For teachers",
    "teach?view=classroom": "Teach, Classroom",
}  # fmt: skip
IN_BROWSER = ("start", "explore?view=playground", "explore?view=words", "explore?view=clients", "privacy")
SERVED = (
    "text of a run", "map of a run", "round of a run", "anchors of a run", "noise on a run's lists",
    "budget without the drag", "lesson on shared noise", "lesson on surprise", "lesson on the sign",
    "lesson on modes",
)  # fmt: skip
ROWS: Mapping[str, Row] = {
    "test_a_loop_of_python": Row(pace.TITLE),
    "test_an_empty_page": Row("for comparison: heading of an empty page of Streamlit in a browser"),
    **{f"test_the_heading_is_there[{name}]": Row(f"heading of {title} in a browser", 1.0) for name, title in PAGES.items()},
    "test_the_hero_is_there": Row("first picture of Start in a browser", 1.5),
    **{
        f"test_what_the_browser_draws[{name}]": Row(f"slowest slider of {PAGES[name]}, drawn in the browser", 0.1)
        for name in IN_BROWSER
    },
    **{f"test_what_the_server_draws[{name}]": Row(f"slider: {name}", 0.2, 0.4) for name in SERVED},
    "test_letting_go_brings_all_curves_and_sentences": Row(
        "ε slider released: curves, privacy bar and sentences redrawn", 0.2
    ),
    **{
        f"test_the_first_point_or_heatmap_comes_in_time[{name}]": Row(f"Start pressed, to the first {what}", budget)
        for name, what, budget in (
            ("digits", "point of `digits-cosine`", 3.0),
            ("permuted", "point of `permuted-mnist-lifelong`", 5.0),
            ("texts", "heatmap of `pecl-synthetic`", 5.0),
        )
    },
    "test_a_list_of_500_runs": Row("500 runs listed", 0.3),
    "test_a_table_of_500_runs": Row("500 runs as a table, with their results", 0.3),
    "test_the_newest_of_ten_thousand_points": Row("one more point written and read, of 10,000", 0.02),
    "test_digits_cosine_as_a_whole_process": Row("`digits-cosine`, whole process, 30 models", 5.0),
    "test_the_engine_alone_on_the_same_grid": Row("the engine alone on the same grid"),
    "test_the_first_point_of_a_live_demo": Row("first point of the live demo, from the engine's start", 3.0),
    "test_a_live_demo_from_the_start_of_its_process": Row("`permuted-mnist-lifelong`, one seed, whole process", 30.0),
    "test_a_run_from_the_start_of_its_process": Row("`pecl-synthetic`, one seed, whole process", 60.0),
    "test_first_signatures_come_within_three_seconds_and_all_of_it_within_thirty": Row(
        "CSLR, four tasks of 20 clients, texts encoded before", 30.0
    ),
    "test_two_hundred_rounds_of_twenty_clients_take_less_than_a_minute": Row(
        "CSLR with a head trained in 4 × 50 rounds of 20 clients", 60.0
    ),
    "test_channels_last_against_the_plain_layout": Row(
        "64 pictures of 128 pixels by EfficientNet-Lite0; budget: the plain layout's time in this run, over 1.3"
    ),
    "test_photographs_from_a_cold_cache": Row("`photos-cosine` with nothing computed before, to its first point", 30.0),
    "test_a_text_read_by_smollm2": Row("a text of about 72 tokens scored by SmolLM2", 0.5),
    "test_forty_texts_read_by_smollm2": Row("40 such texts", 6.0),
    "test_a_run_that_reads[cold]": Row("`pecl-reading`, one seed, with nothing read before", 180.0),
    "test_a_run_that_reads[warm]": Row("`pecl-reading`, one seed, once its texts have been read", 60.0),
    "test_scoring_at_a_budget": Row("exact scoring at a new budget, 2,000 × 768 × 100", 0.025),
    "test_new_noise_and_its_products": Row("new noise and its products, same size"),
    "test_one_accounting_of_dp_sgd": Row("one accounting of DP-SGD, 400 steps"),
    "test_ten_strengths_of_shared_noise": Row("lesson on shared noise: ten strengths", 1.0),
    "test_three_repairs": Row("lesson on repairs: three runs", 2.0),
    "test_an_audit_at_the_end_of_a_published_run_of_pecl": Row("audit at the end of a run of PeCL as printed", 0.7),
    "test_an_audit_at_the_end_of_a_run_of_l2dp_ml": Row("audit at the end of a run of L2DP-ML", 0.7),
    "test_a_hundred_thousand_characters": Row("100,000 characters as tokens", 2.0),
}


BESIDE: Mapping[str, str] = {  # benchmarks of training beside others, as the table names them
    "test_steps_beside_three_rivals[10]": "last layers, 10 classes", "test_steps_beside_three_rivals[100]": "100 classes",
    "test_clipped_sums_of_32_texts[answer]": "texts' answers", "test_clipped_sums_of_32_texts[full]": "whole texts",
}  # fmt: skip
OTHERS: Mapping[str, tuple[str, ...]] = {  # as the table names them, and as the benchmarks do
    "a batched loop in torch": ("batched torch",),
    "Opacus' hooks": ("Opacus' hooks", "hooks"),
    "Opacus' ghost clipping": ("Opacus' ghost clipping", "ghost"),
}
KERNELS: Mapping[str, Mapping[str, str]] = {  # of NumPy's products; torch has its own
    "": {}, ", and NumPy's products without AVX-512": {"OPENBLAS_CORETYPE": "Haswell"}
}  # fmt: skip
TURNS = 3  # of all of them


def rivals(turns: Sequence[tuple[str, Sequence[Mapping[str, Any]]]]) -> list[str]:
    """The lines of the table of rivals. `turns`: the kernels of each, of `KERNELS`, and its benchmarks."""
    lines = [f"| time over ours | {' | '.join(BESIDE.values())} |", f"| --- |{' --- |' * len(BESIDE)}"]
    for kernels in KERNELS:
        found = [{str(one["name"]): one["extra_info"] for one in measured} for named, measured in turns if named == kernels]
        for shown, names in OTHERS.items():
            cells = [
                [float(turn[benchmark][name]) for turn in found for name in names if name in turn.get(benchmark, {})]
                for benchmark in BESIDE
            ]
            lines.append(f"| {shown}{kernels} | {' | '.join(map(_range, cells))} |")
    return lines


def _range(ratios: Sequence[float]) -> str:
    """The least and the largest, with three digits."""
    shown = dict.fromkeys(f"{ratio:.3g}" for ratio in (min(ratios), max(ratios))) if ratios else {}
    return " to ".join(shown)


def section(benchmarks: Sequence[Mapping[str, Any]], about: str) -> str:
    """The table as Markdown. `benchmarks`: entries of pytest-benchmark's JSON, of which those in `ROWS` are shown."""
    found = {str(one["name"]): one for one in benchmarks}
    lines = [f"{about}. Medians; over budget in bold.", "", "| what | budget | measured |", "| --- | --- | --- |"]
    lines += [_line(row, found[name]) for name, row in ROWS.items() if name in found]
    return "\n".join(lines)


def _line(row: Row, benchmark: Mapping[str, Any]) -> str:
    """A row of the table. What a benchmark says it took in the browser, and its own budget, go before clock and `ROWS`."""
    timed = benchmark.get("extra_info", {})
    median, worst = float(timed.get("median", benchmark["stats"]["median"])), timed.get("worst")
    allowed = timed.get("budget", row.budget)  # some are known only from the same run
    is_over = allowed is not None and median >= allowed
    is_over |= row.worst is not None and worst is not None and worst >= row.worst
    budget = "" if allowed is None else f"< {_time(allowed)}"
    budget += "" if row.worst is None else f", at most {_time(row.worst)}"
    measured = _time(median) if worst is None else f"{_time(median)}, at most {_time(worst)}"
    return f"| {row.what} | {budget} | {f'**{measured}**' if is_over else measured} |"


def written(document: str, table: str, start: str = START) -> str:
    """The document with its table in place of the one before."""
    before, _, rest = document.partition(start)
    _, _, after = rest.partition(END)
    return f"{before}{start}\n{table}\n{END}{after}"


def _time(seconds: float) -> str:
    """About two significant digits; milliseconds below a second."""
    value, unit = (seconds, "s") if seconds >= 1 else (1000 * seconds, "ms")
    return f"{value:.0f} {unit}" if value >= 10 else f"{value:.2g} {unit}"


def _measured(names: Iterable[str], environment: Mapping[str, str]) -> list[Mapping[str, Any]]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "benchmarks.json"
        chosen = " or ".join(sorted({name.partition("[")[0] for name in names}))
        options = ["--benchmark-only", f"--benchmark-json={path}", "-k", chosen]
        call = [sys.executable, "-m", "pytest", "tests/benchmarks", *options]
        ended = subprocess.run(call, cwd=ROOT, env={**os.environ, **environment})
        if ended.returncode not in (0, 1):  # 1: something is over budget, which the table says
            raise SystemExit(f"the benchmarks ended with status {ended.returncode}")
        benchmarks: list[Mapping[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["benchmarks"]
        return benchmarks


def main() -> int:
    """Measures and writes; exit status 1 on a busy machine, where nothing is measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rivals", action="store_true", help="the table of training beside others")
    is_beside = parser.parse_args().rivals
    if hasattr(os, "getloadavg") and os.getloadavg()[0] >= MOST_LOAD:
        print(f"load {os.getloadavg()[0]:.1f}: must be below {MOST_LOAD:g}; end other work and try again", file=sys.stderr)
        return 1
    computer = f"{machine.machine()}, {platform.system()}, Python {platform.python_version()}"
    about = f"{datetime.now(UTC):%Y-%m-%d}, commit `{machine.commit()}`, {computer}"
    if is_beside:
        turns = [(named, _measured(BESIDE, kernels)) for _ in range(TURNS) for named, kernels in KERNELS.items()]
        table = "\n".join((f"{about}. Processor time of one thread in {TURNS} turns: least to most.", "", *rivals(turns)))
    else:
        benchmarks = _measured(ROWS, {})
        for name in sorted(ROWS.keys() - {str(one["name"]) for one in benchmarks}):
            print(f"not measured: {name}", file=sys.stderr)
        table = section(benchmarks, about)
    document = written(DOCUMENT.read_text(encoding="utf-8"), table, RIVALS if is_beside else START)
    DOCUMENT.write_text(document, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
