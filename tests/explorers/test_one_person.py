"""One person's part in a model: Start's model and its attacker, and what a run cost her, for its owner alone."""

import hashlib
import json
import math
from dataclasses import replace
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import chi2, norm

from dpcl_core import checks, cli, engine, export
from dpcl_core.data import own
from dpcl_core.elements import element
from dpcl_core.events import CellFinished
from dpcl_core.explorers import own_cost
from dpcl_core.methods.federated.label_means import LabelMeans
from dpcl_core.privacy import continual, gaussian
from dpcl_core.runs.store import Store
from dpcl_core.spec import RunSpec
from scripts import one_person
from tests.support import javascript, replay
from tests.support.asserting import refuses

ASSETS = Path(__file__).resolve().parents[2] / "assets"
DOCUMENT = json.loads((ASSETS / "hero" / "digits.json").read_text(encoding="utf-8"))
DATA = one_person.decode(DOCUMENT)
FINITE = [epsilon for epsilon in element.STOPS if math.isfinite(epsilon)]


@pytest.mark.parametrize("epsilon", [0.1, 8.0, math.inf])
def test_the_same_noise_twice_hides_nobody(epsilon: float) -> None:
    hers = one_person.units(DATA.people)[DATA.you]
    np.testing.assert_allclose(one_person.trace(DATA, epsilon, is_leaked=True), hers, atol=1e-9)
    np.testing.assert_allclose(one_person.trace(DATA, math.inf), hers, atol=1e-12)


def test_the_trace_and_the_accuracy_fall_with_the_budget() -> None:
    """What the slider must show, on one grey scale and one axis: less of the person, and less of the digits."""
    most = one_person.units(DATA.people)[DATA.you].max()
    inks = [one_person.trace(DATA, epsilon).max() / most for epsilon in FINITE]
    assert all(first < second for first, second in pairwise(inks))
    assert inks[-1] > 0.5
    assert inks[0] < 0.02
    known = [one_person.knowledge(DATA, epsilon)[-1].mean() for epsilon in FINITE]
    assert all(first < second for first, second in pairwise(known))
    assert known[-1] > 0.85
    assert known[0] < 0.2
    at_one = one_person.knowledge(DATA, 1)
    assert (at_one[-1, :-1] < np.diag(at_one)[:-1] - 0.01).all(), "every older pair is forgotten in part"


def test_the_attackers_chance_is_that_of_the_best_test_of_two_gaussians() -> None:
    """From even odds, half the integral of the larger density."""
    for epsilon in FINITE:
        shift = 1 / gaussian.sigma(epsilon, DATA.delta)
        at = np.linspace(-12, 12 + shift, 200_001)
        best = np.trapezoid(np.maximum(norm.pdf(at), norm.pdf(at - shift)), at) / 2
        assert one_person.chance(DATA, epsilon) == pytest.approx(best, abs=1e-8)


def test_the_noise_of_the_seed_is_standard_normal() -> None:
    """Chi-square tests of its variance and of 100 equally likely bins, each with a false alarm in a million."""
    drawn = np.fromiter(islice(one_person.seeded(DATA.seed), 16_000), dtype=np.float64)
    low, high = chi2.ppf([5e-7, 1 - 5e-7], drawn.size)
    assert low < (drawn**2).sum() < high
    assert ((np.histogram(norm.cdf(drawn), bins=100, range=(0, 1))[0] - 160) ** 2 / 160).sum() < chi2.ppf(1 - 1e-6, 99)


def test_knowledge_is_what_the_noisy_sums_classify() -> None:
    """Written out: the class whose released sum has the largest cosine, of the first draw's five models."""
    labels, tests = DATA.labels, one_person.units(DATA.tests)
    first = one_person.OnePerson(DATA.delta, DATA.seed, 1, DATA.you, DATA.people, DATA.tests, labels, DATA.sums)
    known = one_person.knowledge(first, 0.5)
    for after in range(5):
        sums = np.stack([one_person.released(first, label, after, 0.5) for label in range(10)])
        right = (tests @ (sums / np.linalg.norm(sums, axis=1, keepdims=True)).T).argmax(axis=1) == labels
        found = [right[labels // one_person.PER_TASK == on].mean() for on in range(after + 1)]
        np.testing.assert_allclose(known[after, : after + 1], found, atol=1e-12)


def test_the_sums_hold_unit_rows_of_the_bundled_digits() -> None:
    """The sums, again from the rows of the training part."""
    from dpcl_core.backbones import extractor
    from dpcl_core.data import load
    from dpcl_core.spec import DataSpec

    train = load.load_dataset(DataSpec(dataset="digits", test_per_class=30)).train
    pixels = extractor.features("pixels", train.images).astype(np.float64)
    for label, total in enumerate(DATA.sums):
        rows = pixels[train.labels == label]
        units = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        np.testing.assert_allclose(total, units.sum(axis=0), rtol=1e-6, atol=1e-5)  # sums are kept in single precision


def test_the_twin_in_javascript_agrees() -> None:
    sources = [(ASSETS / name).read_text(encoding="utf-8") for name in ("drag/replay.mjs", "hero/one_person.mjs")]
    case = (
        "const data = opened(fromPython.data);"
        "return fromPython.budgets.map((e) => { const std = sigma(e ?? Infinity, data.delta); return {"
        "released: [0, 2, 4].map((task) => Array.from(released(data, 2, task, std))), chance: chance(std),"
        "traces: [false, true].map((leaked) => Array.from(trace(data, std, leaked))),"
        "known: knowledge(data, e ?? Infinity) }; });"
    )
    budgets = [e if math.isfinite(e) else None for e in element.STOPS]
    answers = javascript.run(*sources, case, sent={"data": DOCUMENT, "budgets": budgets})
    for epsilon, found in zip(element.STOPS, answers, strict=True):
        sums = [one_person.released(DATA, 2, task, epsilon) for task in (0, 2, 4)]
        np.testing.assert_allclose(found["released"], sums, rtol=1e-9, atol=1e-9)
        traces = [one_person.trace(DATA, epsilon, is_leaked=leaked) for leaked in (False, True)]
        np.testing.assert_allclose(found["traces"], traces, rtol=1e-9, atol=1e-9)
        # The engine rounds the noise up, by 6e-11 of it at most; the page does not.
        assert found["chance"] == pytest.approx(one_person.chance(DATA, epsilon), abs=1e-10)
        known = one_person.knowledge(DATA, epsilon)
        for after, row in enumerate(found["known"]):
            np.testing.assert_allclose(row, known[after, : after + 1], atol=1e-12)


# What a run cost one person: against a joint Gaussian of its own; it stands nowhere but on the owner's terminal.


REMEMBERED = {"noise_over_tasks": "remembered"}


def spec_of(**more: Any) -> RunSpec:
    privacy = {"epsilons": [1.0], "delta": 1e-5}
    return checks.parse({"method": "cosine", "seeds": [0], "privacy": privacy, "labels": "prior-const", **more})


def clients(**params: Any) -> RunSpec:
    scenario = {"kind": "federated", "clients": 20, "tasks": 2}
    return spec_of(method="label-means", scenario=scenario, params={"dimensions": 4, **params})


def finished_of(spec: RunSpec) -> CellFinished:
    return next(event for event in engine.run(spec) if isinstance(event, CellFinished))


def test_with_fresh_noise_everybody_pays_the_promise_and_with_remembered_noise_late_tasks_less() -> None:
    """A late task's column of C is cut off by the end of the stream: mu is its length over that of the first."""
    fresh, kept = (spec_of(params=params) for params in ({}, REMEMBERED))
    ledgers = [finished_of(spec).ledger for spec in (fresh, kept)]
    assert None not in ledgers
    alike, falling = (own_cost.of_everyone(*one, 5) for one in zip((fresh, kept), ledgers, strict=True))  # type: ignore[arg-type]
    assert alike.alone == pytest.approx([1.0] * 5, rel=1e-4)
    of, sigma = continual.choose(5).factorisation, gaussian.sigma(1.0, 1e-5)
    lengths = [np.linalg.norm(of.column[: 5 - task]) / of.sensitivity() for task in range(5)]
    assert falling.alone == pytest.approx([gaussian.epsilon(sigma / length, 1e-5) for length in lengths], rel=1e-6)
    assert falling.alone[0] == pytest.approx(1.0, rel=1e-4)


def test_her_vectors_distance_is_that_of_the_joint_gaussian_of_all_releases(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each release is moved by the sum of C_{t,j} v_j: its length, written out, over the noise of one release."""
    spec, random = spec_of(params=REMEMBERED), np.random.default_rng(1)
    ledger = finished_of(spec).ledger
    assert ledger is not None
    vectors = random.uniform(0, 0.4, (5, 3))
    of = continual.choose(5).factorisation
    moved = [sum(of.column[t - j] * vectors[j] for j in range(t + 1)) for t in range(5)]
    expected = gaussian.epsilon(gaussian.sigma(1.0, 1e-5) * of.sensitivity() / float(np.linalg.norm(moved)), 1e-5)
    assert own_cost._epsilon(spec, ledger, vectors @ vectors.T) == pytest.approx(expected, rel=1e-6)
    assert own_cost._epsilon(spec, ledger, np.zeros((5, 5))) == 0.0


@pytest.fixture
def stored(home: Path) -> tuple[RunSpec, CellFinished, str]:
    spec = clients()
    events = list(engine.run(spec))
    return spec, next(one for one in events if isinstance(one, CellFinished)), replay.fill(Store(), spec, events)


def test_a_clients_cost_is_at_most_the_promise_and_that_of_its_vectors(stored: tuple[RunSpec, CellFinished, str]) -> None:
    spec, finished, _ = stored
    costs = [own_cost.of_client(spec, finished, client) for client in (1, 2, 20)]
    assert len({round(one.epsilon, 9) for one in costs}) == 3, "vectors of different lengths"
    sigma = float(finished.ledger.entries[0].mechanism.noise_multiplier or 0)
    for one in costs:
        assert all(0 <= length <= 1 + 1e-9 for length in one.lengths)
        assert one.epsilon == pytest.approx(gaussian.epsilon(sigma / math.hypot(*one.lengths), 1e-5), rel=1e-9)
        assert 0 < one.epsilon < finished.guarantee.epsilon


def everything(folder: Path, run_id: str) -> tuple[object, ...]:
    """All that others may see: every file of the home folder, the run's document and its result as text."""
    kept = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    digests = {path: hashlib.sha256(path.read_bytes()).hexdigest() for path in kept if not path.name.endswith("-shm")}
    return digests, export.document_of(Store(), Store().get(run_id))


def test_neighbours_differ_on_the_terminal_and_at_no_other_door(
    stored: tuple[RunSpec, CellFinished, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """The neighbour has the same rows but client 2's, which are gone."""
    _, _, run_id = stored
    honest, said, seen = LabelMeans.answers, [], []
    for gone in (False, True):
        factor = 0.0 if gone else 1.0
        monkeypatch.setattr(LabelMeans, "answers", lambda *args, factor=factor: factor * honest(*args))
        assert cli.main(["runs", run_id, "--person", "2"]) == 0
        shown = capsys.readouterr()
        said.append(shown.out)
        assert shown.err == ""
        seen.append(everything(tmp_path, run_id))
    assert said[0] != said[1]
    assert "its own ε is 0;" in said[1]
    assert seen[0] == seen[1]
    assert cli.main(["runs", run_id, "--person", "2", "--json"]) == 2
    assert "shown only" in capsys.readouterr().err


def test_a_visitors_own_data_are_refused(stored: tuple[RunSpec, CellFinished, str], monkeypatch: pytest.MonkeyPatch) -> None:
    spec, finished, _ = stored
    theirs = replace(spec, data=replace(spec.data, dataset="own:mine"))
    monkeypatch.setattr(own, "owner", lambda name: "somebody")
    refuses("must be yours: a visitor's own cost is the visitor's alone", own_cost.of_client, theirs, finished, 1)
    assert own_cost.UNPROTECTED.startswith("Not protected: never publish.")


@pytest.mark.parametrize("client", [0, 21])
def test_a_client_that_is_none_is_refused(stored: tuple[RunSpec, CellFinished, str], client: int) -> None:
    refuses(f"--person = {client}: must be a client, from 1 to 20", own_cost.of_client, *stored[:2], client)


def test_methods_that_train_have_none() -> None:
    spec = checks.parse({"method": "naive", "seeds": [0], "privacy": {"epsilons": [1.0], "delta": 1e-5}})
    assert "nobody's own ε is a closed form" in str(own_cost.refusal(spec, None))
