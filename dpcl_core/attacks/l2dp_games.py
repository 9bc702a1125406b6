"""Four membership games against L2DP-ML, each against one step of its theorem's proof.

Theorem 2 of Lai et al. claims an epsilon for the whole learning process; no ledger confirms it. The games use public digits
with noise of the run's scale, and each states what its attacker sees. The choice and number of records hardly matter: the
attacks do not require small noise.

L2DP-ML draws noise once and shares it among all records (Lai et al. 2022, Algorithms 1 and 2). The attacker knows two data
sets that differ in one record, or in its label; he sees a release from one of them and guesses which, by a rule fixed
beforehand. He knows everything else, as differential privacy allows, but neither the noise nor its scale.

The likelihood test fits the noise of Algorithm 1 under each candidate data set. One step maps d + b noise numbers to d * b
parameters, deterministically. The parameters that two neighbouring data sets can reach therefore hardly ever coincide, and a
least-squares fit of the noise shows which set made a release.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.optimize import least_squares

from dpcl_core.attacks import catalog, play
from dpcl_core.attacks.play import Attack, Floats, Guesses
from dpcl_core.data import catalog as datasets
from dpcl_core.data import dataset
from dpcl_core.methods.common.method import of_spec
from dpcl_core.methods.lifelong import claim, l2dp_ml
from dpcl_core.privacy.audit_bounds import Audited
from dpcl_core.privacy.noise import Noise
from dpcl_core.spec import RunSpec

Keep = Callable[[Floats], Floats]
_BLOCK = 100  # games whose singular values are computed at once


def difference(kept: Floats, known_row: int, known: Floats) -> Floats:
    """Estimates of all records [n, d] from one known record: subtracts that record's noise from all.

    Exact up to rounding if all records have the same noise vector; if each has its own, two noises remain.
    """
    return np.asarray(kept - (kept[known_row] - known))


def difference_game(keep: Keep, records: Floats, other: Floats, n: int) -> Guesses:
    """Differencing the memory: decides whether the last record or `other` [d] is in the data. The attacker knows the first.

    He subtracts its noise and guesses the nearer candidate: the best rule if noise remains, and exact if none does. `keep`
    is the mechanism, called once per release; it maps records [m, d] to their stored form [m, d]. Rows can be pictures, or
    sums, gradients or coefficients that occur in several releases.
    """
    first = records[-1]
    changed = np.vstack([records[:-1], other])

    def guesses_first(data: Floats) -> bool:
        estimate = difference(keep(data), 0, records[0])[-1]
        return bool(np.square(estimate - first).sum() < np.square(estimate - other).sum())

    return Guesses(sum(guesses_first(records) for _ in range(n)), sum(guesses_first(changed) for _ in range(n)), n)


def encoder_gradient(records: Floats, theta: Floats, chi1: Floats, chi2: Floats) -> Floats:
    """Gradient of the reconstruction loss for a linear encoder without a clip (Lai et al., Eq. 13, h held constant).

    sum_r h_r (1/2 - x_r - chi1)^T with h_r = theta^T (x_r + chi1) + 2 chi2. Args: records [n, d], theta [d, b], chi1 [d],
    chi2 [b], noise as it is added (after the division by the batch size). Returns [b, d].
    """
    noisy = records + chi1
    return (noisy @ theta + 2 * chi2).T @ (0.5 - noisy)


def cross_covariance(records: Floats, theta: Floats) -> Floats:
    """The records' own part of that gradient [b, d]: the noise adds only a matrix of rank one."""
    hidden, rest = records @ theta, 0.5 - records
    return hidden.T @ rest - np.outer(hidden.sum(axis=0), rest.sum(axis=0)) / len(records)


def second_singular_value(gradient: Floats, cross: Floats) -> Floats:
    """Second singular value of gradient minus cross: 0 up to rounding for the true data, whatever the noise.

    Args: gradient [..., b, d].
    """
    return np.asarray(np.linalg.svd(gradient - cross, compute_uv=False)[..., 1], dtype=np.float64)


def rank_one_game(noise: Noise, scale: float, records: Floats, other: Floats, theta: Floats, n: int) -> Guesses:
    """Rank-one test: decides from one gradient of a linear encoder whether the last record or `other` is in the data.

    The attacker knows the other records and the weights; he guesses the data set with the smaller second singular value.
    Args: scale: Laplace scale of the noise on an input value; hidden units get twice that.
    """
    changed = np.vstack([records[:-1], other])
    crosses = [cross_covariance(data, theta) for data in (records, changed)]

    def guesses(data: Floats) -> int:
        count = 0
        for start in range(0, n, _BLOCK):
            size = min(_BLOCK, n - start)
            chi1, chi2 = (scale * noise.laplace((size, length)) for length in theta.shape)
            gradients = np.stack([encoder_gradient(data, theta, a, b) for a, b in zip(chi1, chi2, strict=True)])
            first, second = (second_singular_value(gradients, cross) for cross in crosses)
            count += int((first < second).sum())
        return count

    return Guesses(guesses(records), guesses(changed), n)


def label_scores(first: Floats, second: Floats, hidden: tuple[Floats, Floats], labels: Floats, row: int) -> Floats:
    """Evidence for each label [K] of one record from the output layer's coefficients at two steps; the noise cancels.

    Args: first, second: sum_r y_r h_r + chi3 at the two steps [K, m]; hidden: last hidden layer at each step [n, m];
    labels: one-hot labels of the other records [n, K], with zeros in the target's row.
    """
    change = hidden[1] - hidden[0]
    return np.asarray(((second - first) - labels.T @ change) @ change[row])


def label_game(noise: Noise, scale: float, hidden: tuple[Floats, Floats], labels: Floats, other: int, n: int) -> Guesses:
    """Labels from two steps: decides whether the last record has its true label or `other`; all else is known.

    The attacker guesses the label with more evidence in the difference of the two steps. Args: scale: Laplace scale of chi3,
    one number for each coefficient; labels: one-hot [n, K].
    """
    true_label, hidden_labels, changed = int(labels[-1].argmax()), labels.copy(), labels.copy()
    hidden_labels[-1] = 0
    changed[-1] = np.eye(labels.shape[1])[other]

    def guesses_true(data_labels: Floats) -> bool:
        chi3 = scale * noise.laplace((labels.shape[1], hidden[0].shape[1]))
        first, second = (data_labels.T @ values + chi3 for values in hidden)
        scores = label_scores(first, second, hidden, hidden_labels, len(labels) - 1)
        return bool(scores[true_label] > scores[other])

    return Guesses(sum(guesses_true(labels) for _ in range(n)), sum(guesses_true(changed) for _ in range(n)), n)


_LENGTHS = np.concatenate([sign * np.geomspace(1, 600, 40) for sign in (1.0, -1.0)])  # candidate lengths of the noise vector
_STARTS, _EVALUATIONS = 3, 40
_SOLVED = 1e-9
_N_MEMORY, _N_BATCH = 3, 50  # records in the games; the attacker knows all others, so more records are no harder
_N_UNITS = 16
_TOY_RECORDS, _TOY_UNITS, _TOY_WEIGHTS = 200, 4, 0.005


def step(records: Floats, theta: Floats, chi1: Floats, chi2: Floats) -> Floats:
    """Mean gradient of the reconstruction loss [b, d] with hidden units clipped to [-1, 1], as one step releases it.

    mean_r h_r (1/2 - x_r - chi1)^T with h_r = clip(theta^T (x_r + chi1)) + chi2. It follows from the weights before and
    after the step and the learning rate. Args: records [n, d], theta [d, b], chi1 [d], chi2 [b] as added.
    """
    noisy = records + chi1
    return (np.clip(noisy @ theta, -1, 1) + chi2).T @ (0.5 - noisy) / len(records)


@dataclass(frozen=True, slots=True, eq=False)
class Hypothesis:
    """A candidate data set [n, d], with the encoder's initial weights [d, b]."""

    records: Floats
    theta: Floats

    def residual(self, released: Floats) -> float:
        """Smallest residual norm of a released step [b, d] that the search over the noise finds.

        0 up to rounding for the true data, if the search finds the noise. Every candidate gets the same search, without
        knowledge of the noise.
        """
        d = self.theta.shape[0]
        best = np.inf
        for start in self._starts(released):
            fit = least_squares(
                lambda p: (step(self.records, self.theta, p[:d], p[d:]) - released).ravel(),
                start, self._jacobian, method="lm", max_nfev=_EVALUATIONS, xtol=1e-12, ftol=1e-12,
            )  # fmt: skip
            best = min(best, float(np.sqrt(2 * fit.cost)))
            if best < _SOLVED:
                break
        return best

    def _starts(self, released: Floats) -> list[Floats]:
        """The best starting points: minus the records' part, the release has rank one, along a noise of unknown length."""
        rest = 0.5 - self.records
        middle, hidden = rest.mean(axis=0), self.records @ self.theta
        centred = rest - middle
        direction = np.linalg.svd(released, full_matrices=False)[2][0]
        candidates: list[tuple[float, Floats]] = []
        for length in _LENGTHS:
            axis = direction
            for _ in range(2):  # the noise determines which units are clipped, and these determine its direction
                clipped = np.clip(hidden + (middle + length * axis) @ self.theta, -1, 1)
                unexplained = released - clipped.T @ centred / len(rest)
                leading = np.linalg.svd(unexplained, full_matrices=False)[2][0]
                axis = leading if leading @ direction >= 0 else -leading
            chi1 = middle + length * axis
            clipped = np.clip(hidden + chi1 @ self.theta, -1, 1)
            unexplained = released - clipped.T @ centred / len(rest)
            means = -(unexplained @ axis) / length
            missed = float(np.square(unexplained + length * np.outer(means, axis)).sum())
            candidates.append((missed, np.concatenate([chi1, means - clipped.mean(axis=0)])))
        candidates.sort(key=lambda one: one[0])
        return [start for _, start in candidates[:_STARTS]]

    def _jacobian(self, noise: Floats) -> Floats:
        """Derivative of the step's b * d parameters with respect to the d + b noise values [b * d, d + b]."""
        d, b = self.theta.shape
        chi1, chi2 = noise[:d], noise[d:]
        before = (self.records + chi1) @ self.theta
        moves = (np.abs(before) < 1).astype(np.float64)
        rest = 0.5 - self.records
        through_units = moves.T @ rest / len(rest) - np.outer(moves.mean(axis=0), chi1)
        jacobian = np.zeros((b, d, d + b))
        jacobian[:, :, :d] = through_units[:, :, None] * self.theta.T[:, None, :]
        jacobian[:, np.arange(d), np.arange(d)] -= (np.clip(before, -1, 1).mean(axis=0) + chi2)[:, None]
        jacobian[np.arange(b), :, d + np.arange(b)] = rest.mean(axis=0) - chi1
        return jacobian.reshape(b * d, d + b)


def likelihood_game(noise: Noise, scale: float, records: Floats, other: Floats, theta: Floats, n: int) -> Guesses:
    """Decides from one step's released parameters whether the last record or `other` is in the data.

    The attacker knows the other records, the weights before and the learning rate; he fits the noise under both data sets
    and guesses the one with the smaller residual. Args: scale: Laplace scale of the noise on an input value; hidden units
    get twice that, after the clip.
    """
    changed = np.vstack([records[:-1], other])
    first, second = Hypothesis(records, theta), Hypothesis(changed, theta)

    def guesses_first(data: Floats) -> bool:
        chi1, chi2 = (scale * noise.laplace((length,)) for length in theta.shape)
        released = step(data, theta, chi1, 2 * chi2)
        return first.residual(released) < second.residual(released)

    return Guesses(sum(guesses_first(records) for _ in range(n)), sum(guesses_first(changed) for _ in range(n)), n)


@dataclass(frozen=True, slots=True)
class Setting:
    """The attacked noise: the claimed budget, the encoder's share of it, and two Laplace scales.

    `input_scale`: of the noise on each input value (chi1 / lambda); `output_scale`: of chi3 on each coefficient.
    """

    epsilon: float
    encoder_share: float
    input_scale: float
    output_scale: float


def audited(setting: Setting, attack: str, trials: int, delta: float) -> Audited:
    """The result of one of the `ATTACKS` on this noise, from `trials` releases a side (at most the attack's `most`)."""
    return ATTACKS[attack].audited(setting, setting.epsilon, trials, delta)


def setting(spec: RunSpec, epsilon: float) -> Setting:
    """The noise of a run at a budget, from public settings alone.

    The budget's split depends on the norm of the initial weights; this uses one draw, and the run's own differs a little.
    Examples whose shape is known only from their files count as 32x32 in colour.
    """
    params, form = spec.params, dataset.Form(datasets.card(spec.data.dataset).shape or (32, 32, 3), 0.0, 1.0)
    assert isinstance(params, l2dp_ml.L2dpMlParams)
    facts = of_spec(spec)
    n_mean = params.batch_size if params.algorithm == "batches" else int(facts.task_size)
    sizes = claim.sizes(form, facts.n_classes)
    norm = first_norm(sizes, form.planes[2], params.theta_norm)
    plan = claim.plan(sizes, params.delta_r, n_mean, epsilon, params.encoder_share, norm)
    return Setting(epsilon, params.encoder_share, plan.input_scale, plan.scale2)


def first_norm(sizes: claim.Sizes, n_channels: int, rule: claim.ThetaNorm) -> float:
    """‖θ1‖ of one draw of an encoder's initial weights: normal, of variance 2 / (inputs of a unit)."""
    width = round((sizes.n_patch / n_channels) ** 0.5)
    shape = (sizes.n_hidden // sizes.n_positions, n_channels, width, width)
    return claim.theta_norm(np.random.default_rng(0).normal(0, (2 / sizes.n_patch) ** 0.5, shape), rule)


def _differencing(setting: Setting, noise: Noise, n: int) -> Guesses:
    records, scale = _pictures()[0], setting.input_scale

    def keep(data: Floats) -> Floats:
        """The memory of Algorithm 2: all records plus one shared draw of noise."""
        return data + scale * noise.laplace(data.shape[1:])

    return difference_game(keep, records[:_N_MEMORY], records[_N_MEMORY], n)


def _rank_one(setting: Setting, noise: Noise, n: int) -> Guesses:
    records, scale = _pictures()[0], setting.input_scale
    theta = _weights(records.shape[1], _N_UNITS, (2 / records.shape[1]) ** 0.5)
    return rank_one_game(noise, scale, records[:_N_BATCH], records[_N_BATCH], theta, n)


def _labels(setting: Setting, noise: Noise, n: int) -> Guesses:
    records, labels = (part[:_N_BATCH] for part in _pictures())
    before = _weights(records.shape[1], records.shape[1], (2 / records.shape[1]) ** 0.5)
    after = before + _weights(records.shape[1], records.shape[1], 0.01, seed=1)  # one small step of the layers below
    hidden = [np.clip(np.maximum(records @ weights, 0), -1, 1) for weights in (before, after)]
    other = labels[-1] @ np.roll(np.arange(labels.shape[1]), -1)  # the next class
    return label_game(noise, setting.output_scale, (hidden[0], hidden[1]), labels, int(other), n)


def _likelihood(setting: Setting, noise: Noise, n: int) -> Guesses:
    """Uses a small network of its own, for which the same formulas split the run's budget and set the noise."""
    records = _pictures()[0]
    theta = _weights(records.shape[1], _TOY_UNITS, _TOY_WEIGHTS)
    sizes = claim.Sizes(records.shape[1], _TOY_UNITS, records.shape[1], _TOY_UNITS, 1, 2)
    norm = float(np.abs(theta).sum(axis=1).max())
    scale = claim.plan(sizes, "literal", _TOY_RECORDS, setting.epsilon, setting.encoder_share, norm).input_scale
    return likelihood_game(noise, scale, records[:_TOY_RECORDS], records[_TOY_RECORDS], theta, n)


@lru_cache(maxsize=1)
def _pictures() -> tuple[Floats, Floats]:
    """The bundled digits, public: pixels [n, 64] in [-1, 1], one-hot labels [n, 10]."""
    pixels, classes = play.digits()
    return 2 * pixels.astype(np.float64) - 1, np.eye(int(classes.max()) + 1)[classes]


def _weights(n_inputs: int, n_units: int, std: float, seed: int = 0) -> Floats:
    """Normally distributed weights [n_inputs, n_units], known to the attacker."""
    return np.random.default_rng(seed).normal(0, std, (n_inputs, n_units))


ATTACKS: Mapping[str, Attack[Setting]] = {
    "differencing": Attack(
        "Subtract two records of the memory",
        "differencing the memory: one known record opens all others",
        "sees the noisy records that the method keeps and counts as protected already, and knows one of them (the attacker "
        "of the paper sees released parameters only)",
        _differencing,
    ),
    "rank-one": Attack(
        "Rank-one test on the encoder",
        "rank-one test: the second singular value of a linear encoder's gradient",
        "sees one gradient of an encoder without a clip, and knows its weights and all records but one",
        _rank_one,
    ),
    "labels": Attack(
        "Labels from two steps",
        "labels from two steps: the noise on the output layer cancels",
        "sees the output layer's gradients of two steps, and knows all features and all labels but one",
        _labels,
    ),
    "likelihood": Attack(
        "Likelihood of released parameters",
        f"likelihood of released parameters: a fit of the noise ({_TOY_RECORDS} records of 64 values, {_TOY_UNITS} hidden "
        "units, clip included)",
        "sees the parameters after one step of Algorithm 1, and knows those before, the step size and all records but one",
        _likelihood,
        most=100,
    ),
}
def _run_audited(spec: RunSpec, epsilon: float, attack: str, trials: int) -> Audited:
    return audited(setting(spec, epsilon), attack, trials, spec.privacy.delta)


AUDITS = {"l2dp-ml": catalog.Audit(play.of_claim(ATTACKS, _run_audited))}
