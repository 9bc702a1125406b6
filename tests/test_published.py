"""Printed numbers live in `assets/published` alone: no module types again what a table prints."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from dpcl_core import published

ROOT = Path(__file__).resolve().parent.parent
PAPERS = sorted(path.stem for path in (ROOT / "assets" / "published").glob("*.csv"))
MODULES = [ROOT / "app.py", *(ROOT / "pages").rglob("*.py"), *(ROOT / "dpcl_core").rglob("*.py")]
N_ALIKE = 3  # so many numbers of one column in one literal are a copy of it: fewer can meet by chance
_DECIMAL = re.compile(r"\d+\.\d+")


@cache
def columns() -> dict[tuple[str, str, str], set[float]]:
    """What each table prints of each metric, by size, without whole numbers and those of one digit: they are too common."""
    found: dict[tuple[str, str, str], set[float]] = defaultdict(set)
    for paper in PAPERS:
        for row in published.read_numbers(paper):
            if row.value is not None and row.value % 1 and len(row.printed.strip("-0.").replace(".", "")) > 1:
                found[paper, row.table, row.metric].add(abs(row.value))
    return found


def literals(source: str) -> Iterator[set[float]]:
    """The numbers of every collection of constants and of every text but docstrings, one set for each."""
    tree = ast.parse(source)
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef)
    docstrings = {id(node.body[0].value) for node in ast.walk(tree)
                  if isinstance(node, documented) and node.body and isinstance(node.body[0], ast.Expr)}  # fmt: skip
    for node in ast.walk(tree):
        if isinstance(node, (ast.Dict, ast.List, ast.Set, ast.Tuple)):
            inside = list(ast.walk(node))
            yield {abs(one.value) for one in inside if isinstance(one, ast.Constant) and isinstance(one.value, float)}
        elif isinstance(node, (ast.Constant, ast.JoinedStr)) and id(node) not in docstrings:
            texts = (one.value for one in ast.walk(node) if isinstance(one, ast.Constant) and isinstance(one.value, str))
            yield {float(number) for text in texts for number in _DECIMAL.findall(text)}


def copies(source: str) -> list[tuple[tuple[str, str, str], list[float]]]:
    """Every column of which a literal of the source holds several numbers, with these."""
    return [
        (column, sorted(numbers & printed)) for numbers in literals(source) for column, printed in columns().items()
        if len(numbers & printed) >= N_ALIKE
    ]  # fmt: skip


def test_no_printed_number_is_typed_in_code_again() -> None:
    found = {str(path.relative_to(ROOT)): copies(path.read_text(encoding="utf-8")) for path in MODULES}
    assert {path: own for path, own in found.items() if own} == {}


def test_a_copy_is_found() -> None:
    assert copies("NOISE = {1.0: 3.20, 4.0: 1.45, 8.0: 0.95}")
    assert copies("ABOUT = 'claims ε for noise multipliers 3.20, 1.45 and 0.95'")


def test_what_is_read_of_a_table_is_what_it_prints() -> None:
    assert published.by_budget("cslr", "5", "noise_multiplier") == {1.0: 3.2, 4.0: 1.45, 8.0: 0.95}
    assert published.by_budget("lifelong", "text", "noise_scale_z") == {4.0: 2.2, 7.0: 1.7, 10.0: 1.4}
    assert [value for _, value in published.rows_with("cslr", "8", "p_hat_gamma")] == [0.18, 0.31, 0.43, 0.46, 0.47]
