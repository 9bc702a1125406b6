"""The repairs of L2DP-ML from a terminal, and the attacks that break it: right as often as the budget allows, not always.

Differencing is tried beside each repair's own tests, and so is the test by likelihood, which for their noise is a formula
(the repairs' audits). Here are the two others, by rules that are certain of the data where there is no noise.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from dpcl_core import cli
from dpcl_core.attacks import l2dp_games
from dpcl_core.attacks.play import Guesses
from dpcl_core.methods.common.per_example_gradients import noisy_means
from dpcl_core.privacy.gaussian import sigma
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.privacy.mechanisms import coefficients_std, noisy_coefficients
from dpcl_core.privacy.noise import ReleaseNoise
from dpcl_core.privacy.statement import odds_bound
from dpcl_core.privacy.text_mechanisms import Randomiser, noisy_records

Floats = NDArray[np.float64]
DELTA, N, NOISE = 1e-5, 400, ReleaseNoise()
RANDOM = np.random.default_rng(4)
RECORDS = RANDOM.uniform(-1, 1, (6, 9))  # the last one is in the data, or OTHER in its place
OTHER = RANDOM.uniform(-1, 1, 9)
THETA = RANDOM.normal(0, 0.3, (9, 4))
LABELS = np.array([0, 1, 0, 1, 1, 0])
HIDDEN = tuple(RANDOM.uniform(0, 1 / 3, (6, 9)) for _ in range(2))  # of length 1 at most, as clipped gradients are


def held(game: Guesses, epsilon: float) -> None:
    """Exceeded with a chance below 3e-7 by a mechanism that keeps its budget; without noise nothing is missed."""
    if math.isinf(epsilon):
        assert game.share_right == 1.0
    else:
        assert game.share_right < odds_bound(epsilon, DELTA) + 5 * math.sqrt(0.25 / (2 * N))


def clipped_gradients(records: Floats) -> Floats:
    """Sum of the records' gradients of the encoder, each of length 1 at most [4, 9]."""
    parts = [np.outer(record @ THETA, 0.5 - record) for record in records]
    return np.asarray(sum(part / max(1.0, float(np.linalg.norm(part))) for part in parts))


def fresh(total: Floats, epsilon: float, n_steps: int = 1) -> Floats:
    """One of so many steps of DP-A-GEM under replace: two clipped gradients are 2 apart at most."""
    std = sigma(epsilon, DELTA, 2 * math.sqrt(n_steps))
    return noisy_means([torch.from_numpy(total.copy())], 1.0, std, NOISE)[0].numpy()


def products(records: Floats, epsilon: float) -> Floats:
    """The second moments that the coefficient memory releases [9, 9]."""
    std = coefficients_std(epsilon, DELTA, "replace", is_non_negative=False)
    book = Ledger(DELTA, "replace", "once")
    found = noisy_coefficients(
        records, np.zeros(len(records), np.int64), (0,), 1, [std], [NOISE], [book], task=0, is_non_negative=False
    )
    return found.products[0]


def copies(records: Floats, labels: NDArray[np.int64], values: float, named: float) -> tuple[Floats, NDArray[np.int64]]:
    """What noise for every record leaves of the records and of their labels."""
    book = Ledger(DELTA, "replace", "once")
    found, told = noisy_records(records, labels, (0, 1), Randomiser(9, values, named), NOISE, book, task=0)
    return found.astype(np.float64), told


def moments(records: Floats) -> Floats:
    unit = records / np.linalg.norm(records, axis=1, keepdims=True)
    return np.asarray(unit.T @ unit)


NONE = np.zeros(9), np.zeros(4)
REPAIRS: dict[str, tuple[Callable[[Floats, float], Floats], Callable[[Floats], Floats]]] = {
    "dp-agem": (lambda data, epsilon: fresh(clipped_gradients(data), epsilon), clipped_gradients),
    "dp-coeff-memory": (products, moments),
    "independent-laplace": (
        lambda data, epsilon: l2dp_games.encoder_gradient(copies(data, LABELS, epsilon, math.inf)[0], THETA, *NONE),
        lambda data: l2dp_games.cross_covariance(data, THETA),
    ),
}


@pytest.mark.parametrize("epsilon", [0.5, 2.0, math.inf])
@pytest.mark.parametrize("repair", REPAIRS)
def test_the_rank_one_test(repair: str, epsilon: float) -> None:
    """The candidate whose own part leaves the smaller second singular value of what is released."""
    release, own = REPAIRS[repair]
    changed = np.vstack([RECORDS[:-1], OTHER])
    candidates = own(RECORDS), own(changed)

    def cries(data: Floats) -> int:
        found = [release(data, epsilon) for _ in range(N)]
        return sum(bool(np.less(*(l2dp_games.second_singular_value(one, c) for c in candidates))) for one in found)

    held(Guesses(cries(RECORDS), cries(changed), N), epsilon)


@pytest.mark.parametrize("epsilon", [0.5, 2.0, math.inf])
@pytest.mark.parametrize("repair", ["dp-agem", "independent-laplace"])
def test_labels_from_two_steps(repair: str, epsilon: float) -> None:
    """The attacker knows all features and the other labels. Steps with noise of their own share the budget."""

    def steps(labels: NDArray[np.int64]) -> list[Floats]:
        if repair == "dp-agem":
            return [fresh(np.eye(2)[labels].T @ hidden, epsilon, 2) for hidden in HIDDEN]
        told = copies(RECORDS, labels, math.inf, epsilon)[1]
        return [np.eye(2)[told].T @ hidden for hidden in HIDDEN]

    held(_label_game(steps), epsilon)


def test_a_release_made_once_has_no_second_step_to_be_taken_from_the_first() -> None:
    """Every step of the coefficient memory reads the same noisy sums: their difference is the same for either label."""
    std = coefficients_std(0.5, DELTA, "replace", is_non_negative=False)

    def steps(labels: NDArray[np.int64]) -> list[Floats]:
        book = Ledger(DELTA, "replace", "once")
        found = noisy_coefficients(RECORDS, labels, (0, 1), 2, [std], [NOISE], [book], task=0, is_non_negative=False)
        return [found.by_class[0]] * 2

    game = _label_game(steps)
    assert game.hits == game.false_alarms


def _label_game(steps: Callable[[NDArray[np.int64]], list[Floats]]) -> Guesses:
    known, changed = np.eye(2)[LABELS], LABELS.copy()
    known[-1], changed[-1] = 0, 1 - LABELS[-1]

    def says_own(labels: NDArray[np.int64]) -> bool:
        scores = l2dp_games.label_scores(*steps(labels), HIDDEN, known, len(LABELS) - 1)
        return bool(scores[LABELS[-1]] > scores[1 - LABELS[-1]])

    return Guesses(sum(says_own(LABELS) for _ in range(N)), sum(says_own(changed) for _ in range(N)), N)


# From the command line.


REPLACE = 'adjacency = "replace"\n'


def from_terminal(folder: Path, text: str, capsys: pytest.CaptureFixture[str]) -> dict[str, dict[str, float]]:
    """The only cell of a finished run of one seed."""
    (folder / "run.toml").write_text(f"seeds = [0]\n{text}", encoding="utf-8")
    status = cli.main(["run", str(folder / "run.toml"), "--json"])
    out, err = capsys.readouterr()
    assert status == 0, err
    document = json.loads(out)
    assert document["status"] == "finished"
    (cell,) = document["cells"]
    return dict(cell)


@pytest.mark.parametrize(
    ("text", "least", "most", "trials", "said"),
    [
        ('method = "dp-coeff-memory"\n[scenario]\nkind = "split"\n[privacy]\nepsilons = [1.0]\n', 0.99998, 1.00002, 200,
         "audited at least"),
        (f'method = "independent-laplace"\nlabels = "prior"\n[privacy]\n{REPLACE}epsilons = [4.0]\n', 3.99, 4.0, 400,
         "likelihood ratio of one record's copy"),
    ],
    ids=["sums", "copies"],
)  # fmt: skip
@pytest.mark.usefixtures("home")
def test_a_run_and_an_audit_from_the_terminal(
    text: str, least: float, most: float, trials: int, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert least < from_terminal(tmp_path, text, capsys)["guarantee"]["epsilon"] <= most
    assert cli.main(["audit", str(tmp_path / "run.toml"), "--trials", str(trials)]) == 0
    assert said in capsys.readouterr().out


@pytest.mark.skipif("DPCL_DATA" not in os.environ, reason="needs MNIST in DPCL_DATA")
@pytest.mark.usefixtures("home")
@pytest.mark.parametrize(
    ("method", "kind", "least"),
    [("dp-coeff-memory", "permuted", 0.6), ("dp-coeff-memory", "split", 0.94),
     ("independent-laplace", "permuted", 0.25), ("independent-laplace", "split", 0.75)],
)  # fmt: skip
def test_a_run_on_mnist(
    method: str, kind: str, least: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Permuted: one list of labels, 300 images of each digit, far above chance without noise. Split: heads by task."""
    monkeypatch.setenv("DPCL_DATA", str(Path(os.environ["DPCL_DATA"]).resolve()))
    head, adjacency = "per-task" if kind == "split" else "shared", REPLACE if method == "independent-laplace" else ""
    text = (
        f'method = "{method}"\nlabels = "prior"\n[data]\ndataset = "mnist"\ntrain_per_class = 300\ntest_per_class = 50\n'
        f'[scenario]\nkind = "{kind}"\ntasks = 5\n[privacy]\nepsilons = [inf]\n'
        f'{adjacency}[params]\nhead = "{head}"\n'
    )
    assert from_terminal(tmp_path, text, capsys)["metrics"]["AA"] > least
