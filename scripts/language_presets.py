"""Writes PeCL's presets on SmolLM2, with the settings that `tune_language` found; the main one from that of the small model.

    python scripts/language_presets.py     # assets/presets/paper-pecl-*-bundled.toml

The main experiment: sixty texts of a class to learn and 25 to test, the last two blocks adapted, every method. Beside the
paper's unequal budgets it has rows at equal ones: ε = 8 for a whole text, and no noise. At the printed budgets no run ends
above the untrained model, so that no difference could show between PeCL's parts, settings or orders of tasks. So these are
compared without noise, on three tasks that the paper's three orders put in three orders (`paper-pecl-no-noise`).
`paper-pecl-thousands` has 2,000 texts of a task, two passes and five methods.
"""

import json
import re
from collections.abc import Mapping
from pathlib import Path

ASSETS = Path(__file__).resolve().parent.parent / "assets"
PARTS: Mapping[str, list[str]] = {  # of the paper's values those at the ends, where a difference would show first
    "no-pms": ["params.stability=false", "params.lambda_unlearn=0"],
    "no-memreg": ["params.stability=false"],
    "no-unlearning": ["params.lambda_unlearn=0"],
    **{f"alpha-{alpha}": [f"params.alpha={alpha}"] for alpha in (0.2, 0.8)},
    **{f"lambda-{weight}": [f"params.lambda_unlearn={weight}"] for weight in (3, 10)},
    **{f"theta-{theta}": [f"params.theta={theta}"] for theta in (0.3, 0.9)},
}
LENGTH, BATCH, LAYERS = 56, 32, 2
MEMORY = 32  # texts of a task that GEM keeps: every step reads all of them
USUAL = {"learning_rate": 0.003, "epochs": 4}  # the rate where none was searched for
THOUSANDS = ("seqft", "er", "ewc", "olora", "mtl")
_ORDER = '["fomc", "yelp", "ag_news", "amazon-stars", "dreaddit", "dbpedia14"]'
_THREE = ("ag_news", "dreaddit", "dbpedia14")  # as in the paper's order 1
ORDERS: Mapping[str, tuple[int, ...]] = {"": (0, 1, 2), "order2": (2, 1, 0), "order3": (1, 0, 2)}
_SMALL_BATCH = 16  # few texts still make enough steps


def tuned() -> dict[str, dict[str, float]]:
    """The settings found for each row of the main experiment."""
    file = ASSETS / "language" / "tuned.json"
    rows = json.loads(file.read_text(encoding="utf-8"))["rows"] if file.exists() else {}
    return {name: row["best"] for name, row in rows.items()}


def settings(row: str) -> dict[str, float]:
    """Learning rate and epochs of a row of any experiment."""
    found = tuned()
    return USUAL | found.get(row, {})


def sets(row: str, batch: int = BATCH) -> list[str]:
    """The same in the form of `--set`, with what all rows share."""
    chosen = settings(row)
    lines = [f"params.length={LENGTH}", f"params.batch_size={batch}", f"params.layers={LAYERS}", "params.adapts=all"]
    lines += [f"params.{name}={value:g}" for name, value in chosen.items()]
    return [*lines, f"params.memory_size={MEMORY}"] if row.startswith("gem") else lines


def main_experiment(text: str) -> str:
    """The main preset of the small model as one on SmolLM2."""
    text = re.sub(r'"params\.(length|batch_size|learning_rate|epochs)=[^"]*",? ?', "", text)
    text = re.sub(
        r"\[spec\.params\]\n(?:(?:length|batch_size|learning_rate|epochs) = .*\n)+", _params(settings("pecl")), text
    )
    text = text.replace('backbone = "lm-tiny"\ntrain_per_class = 6\ntest_per_class = 4', _data("train_per_class = 60"))
    text = text.replace(
        '"data={}", "data.dataset=pecl-six", "data.backbone=lm-tiny", "data.train_per_source=41", "data.test_per_class=4"',
        '"data={}", "data.dataset=pecl-six", "data.backbone=smollm2", "data.train_per_source=410", "data.test_per_class=25"',
    )
    text = re.sub(r"(# As printed every task has as many texts: ).*", r"\g<1>410 for 3,000.", text)
    text = re.sub(r"^# Step size and all else .*$", _WHY, text, flags=re.M)
    text = re.sub(r"^seconds(_in_all)? = .*\n", "", text, flags=re.M)
    text = text.replace("(paper, small)", "(paper, SmolLM2)").replace("A small model and a few texts.", "On SmolLM2.")
    text = re.sub(r"^seeds = .*$", f"{_tuned()}seeds = [0, 1, 2]", text, count=1, flags=re.M)
    return re.sub(r'label = "([^"]*)"\nset = \[(.*)\]\n', _with_settings, text) + _equal_budgets()


def without_noise() -> str:
    """The preset of parts, settings and orders without noise: three tasks of as many texts."""
    text = _preset(
        ("PeCL's parts, settings and orders without noise (SmolLM2)", _WHAT_CHANGES),
        ("pecl", "pecl-published"),
        _params(settings("pecl-no-noise"), batch=_SMALL_BATCH),
        (130, _order(0, 1, 2)),
        "[inf]",
    )
    for label, changes in PARTS.items():
        text += _block(label, changes)
    for method in ("pecl", "er", "ewc"):
        shared = sets(f"{method}-no-noise", batch=_SMALL_BATCH)
        own = [] if method == "pecl" else [f"method=lm-{method}", "params={}", *shared]
        for name, places in ORDERS.items():
            if changes := own + ([] if places == (0, 1, 2) else [f"scenario.order={_order(*places)}"]):
                text += _block("-".join(part for part in (method, name) if part), changes)
    return text


def _preset(about: tuple[str, str], first: tuple[str, str], params: str, data: tuple[int, str], epsilons: str) -> str:
    """A preset without further runs. Args: about: title, question; first: label and method of its run; data: texts a task,
    order of the tasks."""
    return f"""\
[about]
title = "{about[0]}"
question = "{about[1]}"
shows = "forgetting"
live_demo = false
label = "{first[0]}"

[spec]
method = "{first[1]}"
labels = "prior"
{_tuned()}seeds = [0, 1, 2]

{_WHY}
{params}
[spec.data]
dataset = "pecl-six"
{_data(f"train_per_source = {data[0]}")}

[spec.scenario]
kind = "source-incremental"
order = {data[1]}

[spec.privacy]
epsilons = {epsilons}
delta = 1e-6
"""


def _order(*places: int) -> str:
    """Tasks by their places in the paper's order 1."""
    return json.dumps([_THREE[place] for place in places])


_WHAT_CHANGES = "Where something is learned: what do PeCL's parts, its settings and the order of tasks change?"
_WITH_THOUSANDS = "Six tasks of 2,000 texts: what do privacy and forgetting cost with this much to learn from?"
_WHY = "# Step size: the best on TREC where assets/language/tuned.json has the row, else a first guess."


def _tuned() -> str:
    """What the presets say of their settings: tuned on public data once the search has been made."""
    return 'tuned = "public"\n' if tuned() else ""


def _params(chosen: dict[str, float], batch: int = BATCH) -> str:
    lines = {"length": LENGTH, "batch_size": batch, "layers": LAYERS, **chosen}
    return '[spec.params]\nadapts = "all"\n' + "".join(f"{name} = {value:g}\n" for name, value in lines.items())


def _data(size: str) -> str:
    return f'backbone = "smollm2"\n{size}\ntest_per_class = 25'


def _with_settings(found: re.Match[str]) -> str:
    """An `[[also]]` with the settings of its row; rows that keep the parameters of `[spec]` need none."""
    label, body = found.group(1), found.group(2).rstrip(", ")
    if '"params={}"' in body:
        written = ", ".join(f'"{line}"' for line in sets(label.removesuffix("-as-printed")))
        printed = ', "params.epochs=3", "params.learning_rate=5e-4"' if label.endswith("-as-printed") else ""
        body = body.replace('"params={}"', f'"params={{}}", {written}{printed}')
    elif label.endswith("-as-printed"):
        body += ', "params.epochs=3", "params.learning_rate=5e-4"'
    return f'label = "{label}"\nset = [{body}]\n'


def _block(label: str, changes: list[str]) -> str:
    return f'\n[[also]]\nlabel = "{label}"\nset = {json.dumps(changes)}\n'


def _equal_budgets() -> str:
    lines = "\n# Equal budgets: epsilon = 8 for everything that is done with a whole text, and no noise.\n"
    for method in ("seqft", "er", "ewc", "gem", "olora", "mtl"):
        for name, epsilon in (("text-8", "8.0"), ("no-noise", "inf")):
            row = f"{method}-{name}"
            lines += _block(row, [f"method=lm-{method}", "params={}", f"privacy.epsilons=[{epsilon}]", *sets(row)])
    body = ["method=pecl", "params={}", "params.mode=central", "params.mean_score=public", "privacy.epsilons=[8.0]"]
    return lines + _block("repaired-central-text-8", [*body, *sets("repaired-central-text-8")])


def thousands() -> str:
    """The preset with thousands of texts a task."""
    text = _preset(
        ("PeCL's baselines with thousands of texts a task (SmolLM2)", _WITH_THOUSANDS),
        ("seqft", "lm-seqft"),
        _params({**settings("seqft-text-8"), "epochs": 2}),
        (2000, _ORDER),
        "[8.0, inf]",
    )
    for method in THOUSANDS[1:]:
        text += _block(method, _twice_through(method, f"{method}-text-8"))
    text += "\n# The step that is best with noise is too long without: at one of their own.\n"
    for method in ("seqft", "mtl"):
        changes = _twice_through(method, f"{method}-no-noise")
        text += _block(f"{method}-smaller-step", [*changes, "privacy.epsilons=[inf]"])
    return text


def _twice_through(method: str, row: str) -> list[str]:
    """A row of the preset with thousands of texts: two passes at the step size of a row of the main preset."""
    kept = (line for line in sets(row) if not line.startswith("params.epochs="))
    return [f"method=lm-{method}", "params={}", *kept, "params.epochs=2"]


def main() -> None:
    """Writes all of them."""
    folder = ASSETS / "presets"
    small = (folder / "paper-pecl-main-small.toml").read_text(encoding="utf-8")
    made = {"main": main_experiment(small), "no-noise": without_noise(), "thousands": thousands()}
    for name, text in made.items():
        (folder / f"paper-pecl-{name}-bundled.toml").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
