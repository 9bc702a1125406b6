"""Records the results of questions that belong to no paper, from finished runs of a store.

    dpcl run --preset NAME --all --store sqlite:///PATH     # for each question, or Start on its page
    python -m scripts.record_questions sqlite:///PATH

Writes assets/reproduction/own.json, from which cards of the gallery are drawn; runs that the store lacks stay as recorded.
"""

import sys

from dpcl_core import paths, presets
from dpcl_core.papers import measured, questions
from dpcl_core.runs.shards import Sets
from dpcl_core.runs.store import Store


def main(address: str) -> None:
    """Writes the record, and says which runs it still lacks."""
    store = Store(address)
    for question in questions.questions():
        specs = presets.variants(question.smallest.name) if question.paper is None else {}
        finished = Sets(store).finished([spec.digest() for spec in specs.values()])
        for label, spec in specs.items():
            if (run_id := finished.get(spec.digest())) is not None:
                run = measured.stamped(measured.measured_run(store.get(run_id), store.events(run_id)))
                measured.write(paths.assets_dir() / "reproduction" / f"{measured.OWN}.json", measured.OWN, [run])
            elif not questions.recorded({label: spec}):
                print(f"not recorded: {question.smallest.name}, {label}")


if __name__ == "__main__":
    main(sys.argv[1])
