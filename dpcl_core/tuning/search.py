"""Carries out a tuning: draws settings with Optuna's Gaussian-process sampler, trains with them, yields the trials."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dpcl_core import checks, engine
from dpcl_core.backbones import bundled as public_axes
from dpcl_core.backbones import catalog as backbones
from dpcl_core.data import catalog as datasets
from dpcl_core.data import load
from dpcl_core.data.dataset import Dataset
from dpcl_core.errors import BadInput, Diverged, failure_kind
from dpcl_core.events import Event, JsonValue, Progress, Started
from dpcl_core.methods import catalog as methods
from dpcl_core.methods.common.method import PublicContext, of_spec
from dpcl_core.methods.features.trainer import steps_as
from dpcl_core.privacy import budgets
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.scenarios import catalog as scenarios
from dpcl_core.scenarios.stream import Examples, Table, Task, generator
from dpcl_core.spec import Cell, Params, RunSpec, validated
from dpcl_core.tuning import settings
from dpcl_core.tuning.settings import CLIP_NORMS, LEARNING_RATES, Sizes, Trial, TuneSpec

if TYPE_CHECKING:
    import optuna
    from optuna.distributions import BaseDistribution

Train = Callable[[Params], Generator[Progress, None, float]]  # one training; returns its accuracy on the held-out examples


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """The loaded tuning data: a truthful title, public sizes, and a function that trains on them."""

    title: str
    sizes: Sizes
    train: Train


Prepare = Callable[[TuneSpec, str], Generator[Event, None, Prepared]]


def prepared(tune: TuneSpec, device: str) -> Generator[Event, None, Prepared]:
    """Reads the tuning data and computes the method's inputs. Raises BadInput, DataMissing."""
    settings.check_search(tune)
    # Trials train as the run does: with the budget of one row, along as many public axes as the run takes.
    rows = checks.rows_per_unit(methods.card(tune.base.method), datasets.card(tune.base.data.dataset))
    privacy = budgets.for_a_row(tune.base.privacy, rows)
    final = replace(tune.base, privacy=privacy)
    spec = replace(settings.searched(tune), privacy=privacy)
    n_axes = methods.axes_by_epsilon(final, of_spec(final))
    if not n_axes:
        spec = replace(spec, data=replace(spec.data, axes=0))
    elif public_axes.public_part(backbones.card(spec.data.backbone), spec.data.dataset) is None:
        n_axes = {}  # all of the network's axes were made from the proxy
    yield Progress("data", 0, 1, None, f"loading {spec.data.dataset}")
    dataset = load.load_dataset(spec.data)
    trained_on, held_out, prior = tuning_split(tune, dataset)
    sizes = Sizes(len(trained_on), len(held_out), settings.final_size(tune.base))
    settings.batch_bounds(sizes.n_tune)
    places = np.concatenate([trained_on, held_out])
    inputs = yield from engine.inputs(spec, backbones.card(spec.data.backbone), dataset.train.images.take(places), device)
    if n_axes and spec.params.inputs == "features":
        inputs = inputs[:, : n_axes[privacy.epsilons[0]]]
    everything = Examples(inputs, dataset.train.labels[places])
    train_part, test_part = (everything.take(one) for one in np.split(np.arange(len(places)), [sizes.n_tune]))
    task = Task(0, "tuning", train_part, test_part, prior)
    n_inputs, n_classes = inputs.shape[1] if inputs.ndim == 2 else 0, len(dataset.classes)
    public = checks.public_classes(spec, dataset.classes)
    context = PublicContext(
        n_inputs=n_inputs, n_classes=n_classes, public=public, n_people=sizes.n_tune, n_tasks=1, device=device, n_axes=n_axes
    )

    def train(params: Params) -> Generator[Progress, None, float]:
        return _accuracy(replace(spec, params=params), context, task)

    return Prepared(dataset.title, sizes, train)


def search(
    tune: TuneSpec,
    device: str = "cpu",
    *,
    earlier: Sequence[Trial] = (),
    earlier_sizes: Sizes | None = None,
    prepare: Prepare = prepared,
) -> Generator[Event | Sizes | Trial]:
    """Continues after the `earlier` trials: yields the sizes, then every further trial as it ends.

    A training that diverges, or that is impossible with the drawn settings, is a failed trial with its reason. Raises
    BadInput if the data differ from those of the earlier trials, Diverged if every trial failed, and what `prepare` raises.
    """
    ready = yield from prepare(tune, device)
    sizes = ready.sizes
    if earlier_sizes is not None and earlier_sizes != sizes:
        raise BadInput("data.dataset", tune.base.data.dataset, "has changed since the stored trials: tune again")
    yield sizes
    yield Started(1, ("tuning",), ready.title, sizes.n_tune, sizes.n_validation)
    space = _space(sizes.n_tune)
    study = _study(tune, earlier, space)
    trials = list(earlier)
    for number in range(len(trials), tune.n_trials):
        yield Progress("training", number, tune.n_trials, None, f"trial {number + 1} of {tune.n_trials}: choosing settings")
        proposal = study.ask(space)
        trial = yield from _tried(tune, ready, number, proposal.params)
        study.tell(proposal, trial.accuracy or 0.0)
        trials.append(trial)
        yield trial
        how = f"failed: {trial.trouble}"
        if trial.accuracy is not None:
            how = f"{100 * trial.accuracy:.1f} % of the held-out examples"
        yield Progress("training", number + 1, tune.n_trials, None, f"trial {number + 1} of {tune.n_trials}: {how}")
    if all(trial.accuracy is None for trial in trials):
        raise Diverged(f"none of the {len(trials)} trials ended well; the last one: {trials[-1].trouble}")


def _tried(tune: TuneSpec, ready: Prepared, number: int, proposed: Mapping[str, float]) -> Generator[Progress, None, Trial]:
    """One trial with these settings."""
    rate, batch, clip = proposed["learning_rate"], int(proposed["batch_size"]), proposed["clip_norm"]
    words = f"trial {number + 1} of {tune.n_trials}: learning rate {rate:.2g}, batch {batch}, clipping norm {clip:.2g}"
    shown = Progress("training", number, tune.n_trials, None, words)
    yield shown
    started, accuracy, trouble = time.perf_counter(), None, None
    drawn = {"learning_rate": rate, "sample_rate": batch / ready.sizes.n_tune, "clip_norm": clip}
    try:
        params = validated(type(tune.base.params), {**asdict(tune.base.params), **drawn})
        accuracy = yield from steps_as(ready.train(params), lambda _: shown)
    except Exception as error:
        if failure_kind(error) not in ("diverged", "wrong-input", "out-of-memory"):
            raise
        trouble = " ".join(str(error).split()) or "out of memory"
    return Trial(number, rate, batch, clip, accuracy, trouble, time.perf_counter() - started)


def _space(n_tune: int) -> dict[str, BaseDistribution]:
    """The search space: the ranges of Table A2."""
    from optuna.distributions import FloatDistribution, IntDistribution  # of an extra: the page Train loads this module

    return {
        "learning_rate": FloatDistribution(*LEARNING_RATES, log=True),
        "batch_size": IntDistribution(*settings.batch_bounds(n_tune)),
        "clip_norm": FloatDistribution(*CLIP_NORMS, log=True),
    }


def _study(tune: TuneSpec, earlier: Sequence[Trial], space: dict[str, BaseDistribution]) -> optuna.Study:
    """An Optuna study in memory with the earlier trials; the store is their only lasting place.

    A failed trial counts as accuracy 0, so that the sampler avoids its settings.
    """
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    # After a resumption a sampler with the same seed would draw its first settings again, so the seed differs.
    seed = int(np.random.SeedSequence([tune.seed, len(earlier)]).generate_state(1)[0])
    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.GPSampler(seed=seed))
    for trial in earlier:
        drawn = {name: getattr(trial, name) for name in space}
        study.add_trial(optuna.trial.create_trial(params=drawn, distributions=space, value=trial.accuracy or 0.0))
    return study


def _accuracy(spec: RunSpec, context: PublicContext, task: Task) -> Generator[Progress, None, float]:
    """Accuracy on the held-out examples of a model trained for the one cell.

    The learner's ledger is discarded: trials are not accounted, and the statement says so.
    """
    cell = next(spec.cells())
    learner = methods.maker(spec.method)(spec, [Cell(cell.epsilon, cell.seed)], context)
    for event in learner.learn({cell.seed: task}, {cell: Ledger(spec.privacy.delta, spec.privacy.adjacency, "once")}):
        if isinstance(event, Progress):
            yield event
    return float((next(iter(learner.scores(cell.seed, task).values()))[0].argmax(axis=1) == task.test.labels).mean())


def tuning_split(tune: TuneSpec, dataset: Dataset) -> tuple[NDArray[np.int64], NDArray[np.int64], tuple[int, ...]]:
    """The examples of the first task of the tuning's seed, shuffled by that seed, 70 % for training.

    Indices [n] into the training split of the searched dataset, to train on and held out, and the task's public label list.
    "A set representative of one task" (Tobaben et al., appendix on tuning). For a combined dataset the training part is a
    tenth of a task; for a public dataset, at most as many examples as a task of the private one has.
    """
    spec = settings.searched(tune)
    train, none = dataset.train, np.empty(0, dtype=np.int64)
    indices = Examples(np.arange(len(train))[:, None], train.labels, keys=train.keys)
    test_sources = None if train.sources is None else none
    table = Table(indices, Examples(none[:, None], none), dataset.classes, train.sources, test_sources, dataset.sources)
    task = scenarios.open_stream(spec.scenario, table, tune.seed).tasks[0]
    order = generator(tune.seed, "tuning examples").permutation(len(task.train))
    wanted, task_size = len(order), of_spec(tune.base).task_size  # nominal and public: tasks count as equal
    if datasets.card(tune.base.data.dataset).members:
        wanted = round(settings.COMBINED_SHARE * task_size)
    elif tune.on == "public":
        wanted = round(task_size)
    places = task.train.take(order[:wanted]).inputs[:, 0].astype(np.int64)
    n_train = settings.n_train_of(len(places))
    return places[:n_train], places[n_train:], task.prior


# Result of a tuning: the best trial, its settings transferred to the full data, and the privacy cost.


@dataclass(frozen=True, slots=True)
class Transferred:
    """Settings scaled to the full data (Tobaben et al., appendix on tuning), with r = N_final / N_tune.

    The batch grows by r, so the sampling rate stays; Adam's learning rate grows by the square root of r; clipping norm and
    epochs stay. `batch_size` is the expected one.
    """

    learning_rate: float
    sample_rate: float
    clip_norm: float
    batch_size: float
    ratio: float
    learning_rate_factor: float


def best(trials: Sequence[Trial]) -> Trial | None:
    """The trial of highest accuracy, the first of equals; None where none has succeeded."""
    done = [trial for trial in trials if trial.accuracy is not None]
    return max(done, key=lambda trial: (trial.accuracy or 0.0, -trial.number), default=None)


def transferred(trial: Trial, sizes: Sizes) -> Transferred:
    """The settings of a trial, scaled from the examples it was tuned on to the full data."""
    factor, rate = math.sqrt(sizes.ratio), trial.batch_size / sizes.n_tune
    learning_rate, batch_size = trial.learning_rate * factor, trial.batch_size * sizes.ratio
    return Transferred(learning_rate, rate, trial.clip_norm, batch_size, sizes.ratio, factor)


def tuned_spec(tune: TuneSpec, tuned: Transferred, *, base: RunSpec | None = None) -> RunSpec:
    """The run with the tuned settings, marked as tuned; `base`: another run of the same method (None: the tuning's own)."""
    raw = asdict(base or tune.base)
    raw["params"] |= {name: getattr(tuned, name) for name in ("learning_rate", "sample_rate", "clip_norm")}
    raw["params"]["epochs"] = asdict(tune.base.params)["epochs"]
    return checks.parse({**raw, "tuned": tune.on})


def privacy_sentence(tune: TuneSpec) -> str:
    """The privacy cost of this tuning, in one sentence."""
    if tune.on == "public":
        return (
            f"Tuned on {tune.proxy}, by declaration public: the private data were not touched, so tuning costs no privacy "
            "as long as no one of them is in it, which nothing checks."
        )
    uses = tune.n_trials + 1
    return (
        f"Tuned on the private data, which is not accounted: {uses} uses of the same data, {tune.n_trials} for the trials "
        "and one for the final run, of which the statement counts the last alone."
    )


def document(
    study_id: str, status: str, tune: TuneSpec, sizes: Sizes | None, trials: Sequence[Trial]
) -> dict[str, JsonValue]:
    """A tuning as one JSON document; `best` and what depends on it are null until a trial has succeeded."""
    best_trial = best(trials)
    settings = transferred(best_trial, sizes) if best_trial is not None and sizes is not None else None
    final = tuned_spec(tune, settings) if settings is not None else None
    return {
        "study_id": study_id,
        "status": status,
        **tune.jsonable(),
        "sizes": asdict(sizes) if sizes is not None else None,
        "trials": [asdict(trial) for trial in trials],
        "best": asdict(best_trial) if best_trial is not None else None,
        "transferred": asdict(settings) if settings is not None else None,
        "command": checks.command_line(final) if final is not None else None,
        "privacy": privacy_sentence(tune),
    }


def text(tune: TuneSpec, sizes: Sizes | None, trials: Sequence[Trial]) -> str:
    """A tuning for a terminal: its trials, the best one, its settings for the full data, and the sentence on privacy."""
    lines = ["trial  accuracy  learning rate  batch  clipping norm"]
    for trial in trials:
        accuracy = "  failed" if trial.accuracy is None else f"{100 * trial.accuracy:6.1f} %"
        drawn = f"{trial.learning_rate:13.3g}  {trial.batch_size:5d}  {trial.clip_norm:13.3g}"
        lines.append(f"{trial.number + 1:5d}  {accuracy}  {drawn}" + (f"  {trial.trouble}" if trial.trouble else ""))
    best_trial = best(trials)
    if best_trial is not None and sizes is not None:
        settings = transferred(best_trial, sizes)
        lines += [
            f"best: trial {best_trial.number + 1}, measured on {sizes.n_validation} held-out examples",
            f"for the full data (r = {settings.ratio:.4g}): learning_rate = {settings.learning_rate:.4g}, "
            f"sample_rate = {settings.sample_rate:.4g}, clip_norm = {settings.clip_norm:.4g}",
            checks.command_line(tuned_spec(tune, settings)),
        ]
    return "\n".join([*lines, privacy_sentence(tune)]) + "\n"
