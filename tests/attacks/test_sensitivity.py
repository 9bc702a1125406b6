"""What one person changes of what noise is added to, through the learner of every method; and what turns it red."""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dpcl_core.methods import catalog
from dpcl_core.methods.common import per_example_gradients as of_networks
from dpcl_core.methods.features import linear_heads, trainer
from dpcl_core.methods.federated import client_training, fedcil_dp
from dpcl_core.methods.language import baseline, training
from dpcl_core.methods.language import gradients as of_texts
from dpcl_core.methods.lifelong import dp_agem
from dpcl_core.privacy import mechanisms, noise, text_mechanisms
from tests.attacks import mutants, releases, small_plays
from tests.attacks.units import PROVED, UNITS
from tests.support.tiers import of_methods

Fault = Callable[[pytest.MonkeyPatch], None]


def trouble(method: str, fault: Fault | None) -> str:
    """What two neighbours' plays with the same noise and coins tell; empty where it is no more than the ledger says."""
    asked, plays = small_plays.spec(method), []
    if method == "pecl":  # the mean score that would be released first is another mechanism's
        asked = replace(asked, params=replace(asked.params, mean_score="public"))
    catalog.maker(method)  # loads what a fault is put into
    for neighbour in (None, 0):
        with pytest.MonkeyPatch.context() as patch, releases.watching() as seen:
            random = np.random.default_rng(3)
            patch.setattr("ssl.RAND_bytes", random.bytes)
            patch.setattr("os.urandom", random.bytes)
            patch.setattr(noise.Batches, "draw", lambda self, n_records: np.arange(n_records))
            if fault is not None:
                fault(patch)
            _, ledger = small_plays.played(asked, neighbour=neighbour, is_huge=True)
        plays.append(seen)
    one, other = plays
    if one.stds != other.stds or one.expected != other.expected:
        return "noise or divisor depends on who is there"
    gaussians, _ = releases.multipliers(ledger)
    units, draws = UNITS[method]
    if method == "independent-laplace":
        allowed = ledger.entries[0].event.epsilon
        moved = releases.apart(one, other, draws, order=1)
        return "" if 0 < moved <= allowed * (1 + 1e-6) else "a record moves its copy too far"
    first = one.stds[0]
    z = max(z for z in gaussians for unit in units if math.isclose(first, z * unit, rel_tol=1e-6))
    moved = releases.apart(one, other, draws)
    return "" if 0 < moved <= (1 + 1e-6) / z else f"one person moves a release by {moved * z:g} times what is accounted"


def unclipped_rows(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(mechanisms, "unit_rows", lambda rows: np.asarray(rows, np.float64))


def rows_clipped_together(patch: pytest.MonkeyPatch) -> None:
    """All rows shortened by what their sum is longer than one."""

    def together(rows: Any) -> Any:
        total = float(np.linalg.norm(np.asarray(rows, np.float64).sum(axis=0)))
        return np.asarray(rows, np.float64) / max(1.0, total)

    patch.setattr(mechanisms, "unit_rows", together)


def heads_clipped_together(patch: pytest.MonkeyPatch) -> None:
    honest = linear_heads.clipped_sums

    def sums(data: Any, batch: Any, weights: Any, clips: Any, *rest: Any) -> Any:
        _, plain = honest(data, batch, weights, clips[:0])
        own, others = plain[: len(clips)], plain[len(clips) :]
        with np.errstate(invalid="ignore"):  # sums of so long gradients can be infinite
            longest = np.maximum(clips, np.linalg.norm(own, axis=(1, 2)) / max(1, len(batch)))
            return np.nan_to_num(own / longest[:, None, None]), others

    mutants.keep_rows(patch)
    patch.setattr(linear_heads, "clipped_sums", sums)


def _clipped_together(patch: pytest.MonkeyPatch, module: Any) -> None:
    """A batch's mean is shortened, not each of its gradients."""
    mutants.unclipped_networks(patch, module)
    honest = module.Gradients.of

    def of(self: Any, batch: Any, *args: Any, **named: Any) -> Any:
        sums = honest(self, batch, *args, **named)
        length = math.sqrt(sum(float(part.square().sum()) for part in sums)) / max(1, len(batch))
        return [part * min(1.0, self._clip_norm / max(length, 1e-30)) for part in sums]

    patch.setattr(module.Gradients, "of", of)


def unclipped_coefficients(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(mechanisms, "coarse_unit_rows", lambda rows, step: np.rint(rows))


def coefficients_clipped_together(patch: pytest.MonkeyPatch) -> None:
    """Rows of no more than length one on average."""

    def together(rows: Any, step: float) -> Any:
        found = np.asarray(rows, np.float64)
        return found * math.sqrt(len(found)) / max(1.0, float(np.linalg.norm(found)))

    patch.setattr(mechanisms, "coarse_unit_rows", together)


def unclipped_records(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(text_mechanisms, "_bounded", lambda values, l1_clip: 100.0 * np.asarray(values, np.float64))


def unclipped_clients(patch: pytest.MonkeyPatch) -> None:
    """What clients send, many times as long, goes into sums as it is."""
    patch.setattr(mechanisms, "clipped_rows", lambda vectors, bound: 1e5 * np.asarray(vectors, np.float64))


def clients_clipped_together(patch: pytest.MonkeyPatch) -> None:
    """A round's sum, many times as long, is shortened to the bound times its clients.

    A client less then moves it by the bound at least (triangle inequality), by more unless both sums point one way.
    """

    def together(vectors: Any, bound: float) -> Any:
        rows = 1e5 * np.asarray(vectors, np.float64)
        clients = np.count_nonzero(np.linalg.norm(rows, axis=-1))
        return rows * (clients * bound / max(1e-30, float(np.linalg.norm(rows.sum(axis=0)))))

    patch.setattr(mechanisms, "clipped_rows", together)


def realised_plan(patch: pytest.MonkeyPatch) -> None:
    """Steps and divisors from how many examples there are."""
    patch.setattr(trainer.Trainer, "_plan", lambda self, work: self._params.schedule(len(work.examples)))


def realised_of_networks(patch: pytest.MonkeyPatch) -> None:
    honest = dp_agem.Model._source

    def source(self: Any, examples: Any, *args: Any) -> Any:
        found = honest(self, examples, *args)
        return replace(found, plan=replace(found.plan, expected_batch=found.plan.sample_rate * len(examples)))

    patch.setattr(dp_agem.Model, "_source", source)


def realised_of_baselines(patch: pytest.MonkeyPatch) -> None:
    honest = baseline.Baseline.gradient_fn

    def gradient_fn(self: Any, inputs: Any, expected: float, *args: Any) -> Any:
        return honest(self, inputs, 0.5 * len(inputs), *args)

    patch.setattr(baseline.Baseline, "gradient_fn", gradient_fn)


def realised_of_pecl(patch: pytest.MonkeyPatch) -> None:
    honest = training.private_steps

    def steps(net: Any, texts: Any, plan: Any, *args: Any, **named: Any) -> Any:
        return honest(net, texts, replace(plan, expected_batch=plan.sample_rate * len(texts)), *args, **named)

    patch.setattr(training, "private_steps", steps)


def realised_of_rounds(patch: pytest.MonkeyPatch) -> None:
    """Means over the clients that have rows."""
    honest, of_fedcil = client_training.RoundHead.trained, fedcil_dp.FedCilDp.learn

    def trained(self: Any, rows: Any, *args: Any, **named: Any) -> Any:
        self._n_clients = len(np.unique(rows.users))
        return honest(self, rows, *args, **named)

    def learn(self: Any, tasks: Any, ledgers: Any) -> Any:
        self._n_clients = len(np.unique(tasks[0].train.users))
        return of_fedcil(self, tasks, ledgers)

    patch.setattr(client_training.RoundHead, "trained", trained)
    patch.setattr(fedcil_dp.FedCilDp, "learn", learn)


def _both(module: Any) -> tuple[Fault, Fault]:
    return lambda patch: mutants.unclipped_networks(patch, module), lambda patch: _clipped_together(patch, module)


HEADS, CLIENTS = (mutants.unclipped_heads, heads_clipped_together), (unclipped_clients, clients_clipped_together)
TEXTS = _both(of_texts)
CLIPPING: Mapping[str, tuple[Fault, Fault]] = {  # missing, and of a batch as a whole
    "cosine": (unclipped_rows, rows_clipped_together),
    **dict.fromkeys(("peft-ensemble", "naive", "non-cl"), HEADS),
    "dp-agem": _both(of_networks),
    "dp-coeff-memory": (unclipped_coefficients, coefficients_clipped_together),
    **{name: TEXTS for name in PROVED if name.startswith("lm-") or name == "pecl"},
    **{name: CLIENTS for name in PROVED if catalog.card(name).has_clients},
}
DIVISOR: Mapping[str, Fault] = {  # of what is divided by a size before the next look at data; other methods release sums
    **dict.fromkeys(("cslr-central", "dp-stat-share", "dp-fedavg", "fedcil-dp"), realised_of_rounds),
    **dict.fromkeys(("peft-ensemble", "naive", "non-cl"), realised_plan),
    "dp-agem": realised_of_networks,
    **{name: realised_of_baselines for name in PROVED if name.startswith("lm-")},
    "pecl": realised_of_pecl,
}
FAULTS: Mapping[str, Mapping[str, Fault]] = {
    "clipping missing": {**{name: pair[0] for name, pair in CLIPPING.items()}, "independent-laplace": unclipped_records},
    "clipping per batch": {name: pair[1] for name, pair in CLIPPING.items()},
    "realised divisor": DIVISOR,
}


@pytest.mark.parametrize("method", of_methods(PROVED))
def test_one_person_moves_a_release_by_what_is_accounted_at_most(method: str) -> None:
    assert trouble(method, None) == ""


@pytest.mark.parametrize(
    ("fault", "method"), of_methods((fault, method) for fault, methods in FAULTS.items() for method in methods)
)
def test_sabotage_of_clipping_and_divisors_is_found(fault: str, method: str) -> None:
    assert trouble(method, FAULTS[fault][method]) != ""
