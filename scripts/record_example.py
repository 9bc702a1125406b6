"""Records the run that the app shows before a visitor has made one: `python scripts/record_example.py`."""

import json

from dpcl_core import checks, engine, events, paths, presets
from dpcl_core.events import Classifier, Progress

NAME = "digits-cosine"


def main() -> None:
    """Runs the preset and writes its settings and all its events but progress and classifiers, which no page shows."""
    folder = paths.assets_dir() / "examples"
    folder.mkdir(exist_ok=True)
    spec = presets.load(NAME)
    recorded = [event for event in engine.run(spec) if not isinstance(event, Progress | Classifier)]
    lines = (json.dumps(events.to_json(event), ensure_ascii=False, allow_nan=False) for event in recorded)
    (folder / f"{NAME}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (folder / f"{NAME}.toml").write_text(checks.to_toml(spec), encoding="utf-8")


if __name__ == "__main__":
    main()
