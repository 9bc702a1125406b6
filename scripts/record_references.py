"""Records chance and the untrained network's score of every preset that has recorded results.

    DPCL_DATA=... python -m scripts.record_references

Both follow from the public labels of the test data. The plain site (`dpcl site`) is written without data, so it needs them
in assets/reproduction/references.json. Raises DataMissing where a dataset is not there: chance is never guessed.
"""

from __future__ import annotations

import json

from dpcl_core import checks, paths, presets
from dpcl_core.methods.references import of_labels
from dpcl_core.papers import questions
from dpcl_core.papers.answers import RECORD


def references() -> dict[str, dict[str, float | None]]:
    """Chance and the untrained network by preset, in [0, 1] with five decimals."""
    found: dict[str, dict[str, float | None]] = {}
    for question in questions.questions():
        for form in question.forms.values():
            runs = presets.variants(form.name)
            if questions.recorded(runs):
                first = next(iter(runs.values()))
                checks.check(first)
                known = of_labels(first)
                untrained = None if known.untrained is None else round(known.untrained, 5)
                found[form.name] = {"chance": round(known.chance, 5), "untrained": untrained}
    return found


def main() -> None:
    """Writes the record."""
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(values)}" for name, values in sorted(references().items()))
    (paths.assets_dir() / "reproduction" / RECORD).write_text(f"{{\n{lines}\n}}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
