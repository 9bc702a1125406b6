"""Records chance and the untrained network's score of every preset that has recorded results.

    DPCL_DATA=... python -m scripts.record_references            # of all presets
    DPCL_DATA=... python -m scripts.record_references PRESET ... # of these; the others stay as recorded

A paper's experiment on other data has its chance under "PRESET on DATASET".

Both follow from the public test data: chance from their labels, an encoder's score from the texts, which are encoded
(minutes where there are thousands). The plain site (`dpcl site`) is written without data, so it needs them in
assets/reproduction/references.json. Raises DataMissing where a dataset is not there: chance is never guessed.
"""

import json
import sys
from collections.abc import Collection

from dpcl_core import checks, paths, presets
from dpcl_core.backbones import catalog as backbones
from dpcl_core.backbones import extractor
from dpcl_core.data import catalog as datasets
from dpcl_core.data import load
from dpcl_core.events import References
from dpcl_core.methods.references import before_training, of_labels
from dpcl_core.papers import catalog, other_data, questions
from dpcl_core.papers.questions import RECORD
from dpcl_core.scenarios import catalog as scenarios
from dpcl_core.spec import RunSpec


def known(spec: RunSpec) -> References:
    """Chance and the untrained network, as a run of these settings begins with them. Encodes no training example.

    An encoder finds the labels of texts by their meaning, so what it scores does not follow from the labels alone.
    """
    if datasets.card(spec.data.dataset).kind != "text" or backbones.card(spec.data.backbone).is_language_model:
        return of_labels(spec)
    encoded = extractor.features(spec.data.backbone, load.load_dataset(spec.data).test.images)
    streams = [scenarios.tested(spec.data, spec.scenario, seed, encoded) for seed in spec.seeds]
    opened = [stream for stream in streams if stream is not None]  # all of them: the data have just been loaded
    return before_training(spec, opened, checks.public_classes(spec, opened[0].classes), "cpu")


def references(names: Collection[str] = ()) -> dict[str, dict[str, float | None]]:
    """Chance and the untrained network by preset, in [0, 1] with five decimals; of these presets, or of all."""
    found: dict[str, dict[str, float | None]] = {}
    for question in questions.questions():
        for form in question.forms.values():
            runs = presets.variants(form.name)
            if questions.recorded(runs) and (not names or form.name in names):
                first = next(iter(runs.values()))
                checks.check_run(first)
                levels = known(first)
                untrained = None if levels.untrained is None else round(levels.untrained, 5)
                found[form.name] = {"chance": round(levels.chance, 5), "untrained": untrained}
    for paper in catalog.PAPERS.values():
        for one, form in other_data.recorded(paper):
            name = one.name(form.experiment)
            if form.runs and (not names or name in names):
                first = next(iter(form.specs.values()))
                found[name] = {"chance": round(of_labels(first).chance, 5), "untrained": None}
    return found


def main(names: Collection[str] = ()) -> None:
    """Writes the record."""
    path = paths.assets_dir() / "reproduction" / RECORD
    kept = json.loads(path.read_text(encoding="utf-8")) if names else {}
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(v)}" for name, v in sorted({**kept, **references(names)}.items()))
    path.write_text(f"{{\n{lines}\n}}\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
