"""A run as a notebook: its settings, the run again, figures, statement and metrics."""

from __future__ import annotations

import json

from dpcl_core import checks
from dpcl_core.results import method_title, question
from dpcl_core.spec import RunSpec

_REPEAT = "The same settings, carried out again: noise is drawn anew, so numbers differ as much as seeds do."
_CODE = (
    'import tomllib\n\nimport dpcl_core as dpcl\n\nsettings = tomllib.loads("""\n{toml}""")\nresult = dpcl.run(settings)',
    'for name in ("accuracy", "forgetting", "tradeoff"):\n    print(result.figure(name).finding)\n'
    'result.figure("accuracy").figure',
    "result.metrics.groupby([\"epsilon\", \"metric\"])[\"value\"].mean().unstack().round(3)",
    "for epsilon, guarantee in result.guarantees.items():\n    print(epsilon, guarantee.epsilon, guarantee.unit)",
)
_WORDS = (
    _REPEAT,
    "What came out, in sentences and as a figure.",
    "Metrics, mean over seeds.",
    "What is protected: the ledger answers, not the setting.",
)


def of(spec: RunSpec) -> str:
    """The notebook as JSON (nbformat 4). Its code needs this project, and the run's data."""
    cells: list[dict[str, object]] = [_words(0, f"# {method_title(spec)}\n\n{question(spec)}")]
    for words, code in zip(_WORDS, _CODE, strict=True):
        cells += [_words(len(cells), words), _code(len(cells) + 1, code.replace("{toml}", checks.to_toml(spec)))]
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    notebook = {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


def _words(number: int, text: str) -> dict[str, object]:
    return {"cell_type": "markdown", "id": f"cell-{number}", "metadata": {}, "source": text.splitlines(keepends=True)}


def _code(number: int, text: str) -> dict[str, object]:
    code = {**_words(number, text), "cell_type": "code", "execution_count": None}
    return {**code, "outputs": list[object]()}
