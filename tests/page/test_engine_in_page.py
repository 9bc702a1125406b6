"""A run in a page against the same run here, under seeded noise: streams, lists, sums and events alike, ε nearly so."""

import json
import math
from collections.abc import Mapping
from typing import Any

import pytest

from dpcl_core import checks, engine, events
from dpcl_core.attacks.catalog import closing_notes
from dpcl_core.explorers.matching_log import Observer
from dpcl_core.methods import catalog as methods
from dpcl_core.privacy import card
from dpcl_core.site import live
from tests.page.conftest import Run

pytestmark = pytest.mark.slow
SEEDED = {"epsilons": [1, "inf"], "noise": "seeded"}
ONE = {"privacy": SEEDED, "seeds": [0]}
RUNS: Mapping[str, dict[str, Any]] = {
    "nine models": {"method": "cosine", "privacy": {"epsilons": [1, 8, "inf"], "noise": "seeded"}, "seeds": [0, 1, 2]},
    "remembered noise": {
        "method": "cosine", "params": {"noise_over_tasks": "remembered"}, "scenario": {"kind": "i-blurry", "tasks": 4},
        **ONE,
    },
    "a learned list": {"method": "cosine", "labels": "dp-learned", **ONE},
    "a blurry stream": {"method": "cosine", "scenario": {"kind": "si-blurry"}, **ONE},
    "permuted pixels": {"method": "cosine", "scenario": {"kind": "permuted", "tasks": 3}, **ONE},
    "split classes": {"method": "cosine", "scenario": {"kind": "split"}, **ONE},
    "heads": {"method": "peft-ensemble", "params": {"epochs": 3}, **ONE},
    "a small delta": {
        "method": "peft-ensemble", "params": {"epochs": 3},
        "privacy": {"epsilons": [1, 8], "delta": 1e-12, "noise": "seeded"}, "seeds": [0],
    },
    "a naive head": {"method": "naive", "params": {"epochs": 2}, **ONE},
    "a head on all": {"method": "non-cl", "params": {"epochs": 2}, **ONE},
    "clients": {"method": "dp-fedavg", "params": {"rounds": 2}, "scenario": {"kind": "federated"}, **ONE},
}  # fmt: skip
# Noise from the system's own generator: no two runs are alike, and one draw in 100,000 takes a longer way.
RELEASE = "release noise"
RELEASED = {"method": "cosine", "privacy": {"epsilons": [0.5, 1, 2, 4, 8]}, "seeds": list(range(20))}
# Of an epsilon: both accountants compose the same numbers, but their exponentials and transforms differ in last digits.
_CLOSE = 1e-9
# Methods that only add up release sums on a grid, which are exact; trained weights go through floating point.
EXACT = ("cosine",)
_IN_PAGE = """
import json
from dpcl_core import page
found = {}
for name, settings in json.loads(RUNS).items():
    begun = json.loads(page.start(json.dumps(settings)))
    assert "failure" not in begun, begun
    seen = []
    while (step := page.step()) != "null":
        seen.append(json.loads(step))
        assert "failure" not in seen[-1], seen[-1]
    kept = [json.loads(json.dumps(page.events.to_json(one))) for one in page.PAGE._kept]
    found[name] = {"events": seen, "kept": kept, "card": page.card(), "outcome": json.loads(page.outcome())}
result = json.dumps(found)
"""


_ACCOUNTED = """
import random
from dpcl_core.privacy import accounting
draw, found = random.Random(1), []
for _ in range(60):
    delta, adjacency = 10 ** draw.uniform(-12, -4), draw.choice(["add-remove", "replace"])
    rate, steps = 10 ** draw.uniform(-3, -0.5), int(10 ** draw.uniform(0.5, 3.5))
    sigma = accounting.noise_multiplier(draw.choice([0.5, 1.0, 2.0, 4.0, 8.0]), delta, rate, steps, adjacency)
    task = accounting.subsampled_gaussian(sigma, rate, steps)
    others = [accounting.LabelListDpEvent(0.1, delta / 10), accounting.gaussian_step(5.0, 1.0)]
    people = [accounting.SampledGroupDpEvent(sigma, (rate, rate, rate / 2))]
    every = [[task], [task, *others], [task] * 5 + people]
    found.append([sigma, *(accounting.Pld().epsilon(one, delta, adjacency) for one in every)])
result = json.dumps(found)
"""


def test_every_epsilon_and_sigma_is_the_one_here(in_page: Run) -> None:
    """Sampled steps at deltas down to the smallest; sigma is rounded up to four digits, so it is the same number."""
    here: dict[str, Any] = {"json": json}
    exec(_ACCOUNTED, here)
    found = json.loads(here["result"])
    there = in_page(f"import json\n{_ACCOUNTED}")
    assert [one[0] for one in there] == [one[0] for one in found]
    assert not differences(found, there)


@pytest.fixture(scope="module")
def there() -> dict[str, Any]:
    """What each run gave in the page; filled by the first test that asks."""
    return {}


def of_page(in_page: Run, there: dict[str, Any], name: str) -> dict[str, Any]:
    if not there:
        there.update(in_page(f"RUNS = {json.dumps({**RUNS, RELEASE: RELEASED})!r}\n{_IN_PAGE}"))
    return dict(there[name])


def without_times(every: list[Any]) -> list[Any]:
    """Progress is told by the clock, and a model's seconds are those of its processor."""
    told = [one for one in every if one["event"] not in ("Progress", "Classifier")]
    return [{**one, "seconds": 0} if "seconds" in one else one for one in told]


def differences(one: Any, other: Any, where: str = "") -> list[str]:
    """Where two documents differ by more than the last digits of an epsilon."""
    if isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys():
        return [found for key in one for found in differences(one[key], other[key], f"{where}.{key}")]
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        pairs = enumerate(zip(one, other, strict=True))
        return [found for place, pair in pairs for found in differences(*pair, f"{where}[{place}]")]
    if isinstance(one, float) and isinstance(other, float) and math.isclose(one, other, rel_tol=_CLOSE, abs_tol=1e-12):
        return []
    return [] if one == other else [f"{where}: {one} here, {other} in the page"]


@pytest.mark.parametrize("name", RUNS)
def test_a_run_in_a_page_is_the_run_here(in_page: Run, there: dict[str, Any], name: str) -> None:
    found = of_page(in_page, there, name)
    spec = checks.parse(RUNS[name])
    here = [events.to_json(one) for one in engine.run(spec, observe=Observer, audit=closing_notes)]
    assert not differences(without_times(here), without_times(found["events"]))
    if spec.method in EXACT:
        last = {json.dumps(one["cell"]): one["content"] for one in here if one["event"] == "Classifier"}
        kept = {json.dumps(one["cell"]): one["content"] for one in found["kept"]}
        assert kept == last, "sums on a grid are the same bytes"


@pytest.mark.parametrize("name", [*RUNS, RELEASE])
def test_the_card_of_a_page_is_verified(in_page: Run, there: dict[str, Any], name: str) -> None:
    checked = card.verify(of_page(in_page, there, name)["card"].encode())
    assert {one.verdict for one in checked} == {"matches"}, [card.sentence(one) for one in checked]


def test_every_method_of_clients_ends_in_a_page_and_its_card_is_verified(in_page: Run) -> None:
    """At the settings that the form has at first, and with all that a choice of them loads."""
    offered = {one.name: one for one in methods.CARDS.values() if not one.packages and live.lighter(one)}
    runs = {
        name: {
            "method": name, "params": live.lighter(one), "scenario": {"kind": "federated"}, "seeds": [0],
            "privacy": {"epsilons": ["inf" if one.guarantee == "none" else 8]},
        }
        for name, one in offered.items()
    }  # fmt: skip
    found = in_page(f"RUNS = {json.dumps(runs)!r}\n{_IN_PAGE}", "scipy", "cluster")
    assert len(found) >= 8
    for name, one in found.items():
        assert [event["event"] for event in one["events"]].count("CellFinished") == 1, name
        wrong = [card.sentence(number) for number in card.verify(one["card"].encode()) if number.verdict == "differs"]
        assert not wrong, (name, wrong)
