"""The result of a run so far: its settings and events, and the tables, figures and statement computed from them."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from dpcl_core import checks, presets
from dpcl_core.data import catalog as datasets
from dpcl_core.errors import DataMissing, entry, instead_of, unknown
from dpcl_core.events import CellFinished, Event, Guarantee, Planned, References, Started, of_kind
from dpcl_core.figures.picture import Picture, Provenance, epsilon_label
from dpcl_core.later import pd
from dpcl_core.methods import catalog as methods
from dpcl_core.metrics import grouped
from dpcl_core.privacy import card_document, statement
from dpcl_core.privacy.statement import Standing
from dpcl_core.runs import frames
from dpcl_core.spec import RunSpec

if TYPE_CHECKING:
    from dpcl_core.runs.run import Run
    from dpcl_core.runs.store import Store

_LONGEST_CARD = 500_000  # characters
_TABLES = """The CSV files of an export count tasks from 0: after_task = 0 is after the first task. This page, the app and
released classifiers count from 1."""
_SAME = 1e-9  # the same mean, formed twice
FIGURES = ("accuracy", "forgetting", "tradeoff")


@dataclass(frozen=True, repr=False, eq=False)
class Statement:
    """What is protected, by requested epsilon. Printed, it is the statement in full; a notebook shows it in short."""

    guarantees: Mapping[float, Guarantee]

    def __str__(self) -> str:
        return statement.text(self.guarantees)

    def __repr__(self) -> str:
        return f"<Statement: {'; '.join(self.headlines)}>"

    def _repr_html_(self) -> str:
        from dpcl_core.figures import html

        return html.cell("What is protected", None, self.headlines, "")

    @property
    def headlines(self) -> tuple[str, ...]:
        """A sentence for each budget, smallest first."""
        words = [statement.guarantee_words(given) for _, given in sorted(self.guarantees.items())]
        return tuple(dict.fromkeys(one.banner or one.headline for one in words))


@dataclass(frozen=True, repr=False)
class Result:
    """The result of a run so far: its settings `spec` and the `events` recorded. `run_id` is None for the bundled example.

    `rule`: the prediction rule under which accuracies are shown, None for the run's own. `ceiling`: what a finished run of
    the same store reaches that learned all tasks at once without noise, if there is one (`papers.measured`).
    """

    run_id: str | None
    name: str
    spec: RunSpec
    events: tuple[Event, ...]
    rule: str | None = None
    ceiling: float | None = None

    def __repr__(self) -> str:
        """One line: what ran, and the mean accuracy at each budget."""
        said = [f"{epsilon_label(e, self.standing)}: {100 * fmean(v):.1f} %" for e, v in sorted(self.finals.items())]
        name = self.name or f"{method_title(self.spec)} on {datasets.called(self.spec.data.dataset)}"
        kept = f", run {self.run_id}" if self.run_id is not None else ""
        return f"<Result of {name}: {self.score} {', '.join(said) or 'not known yet'}{kept}>"

    def __hash__(self) -> int:
        return hash((self.run_id, self.spec.digest(), len(self.events), self.rule))

    def _repr_html_(self) -> str:
        """What a notebook shows at the end of a cell: the figure of accuracy, its finding, and the statement in short."""
        from dpcl_core.figures import html

        title = self.name or f"{method_title(self.spec)} on {datasets.called(self.spec.data.dataset)}"
        picture = None if self.started is None or self.accuracy.empty else self.figure("accuracy")
        return html.cell(title, picture, self.statement.headlines, self.provenance.line())

    @cached_property
    def rules(self) -> tuple[str, ...]:
        """The prediction rules with recorded accuracies, the run's own first; empty if there is only one."""
        return frames.rules(self.events)

    @cached_property
    def started(self) -> Started | None:
        """The event that opened the stream; None before that."""
        return next(of_kind(self.events, Started), None)

    def task_name(self, task: int) -> str:
        """A task by its number from 1, with its name where it has one."""
        names = self.started.task_names if self.started is not None else ()
        return f"task {task + 1}" + (f", {names[task]}" if task < len(names) else "")

    @property
    def n_tasks(self) -> int:
        """Number of tasks; 1 before the stream is open."""
        return self.started.n_tasks if self.started is not None else 1

    @property
    def standing(self) -> Standing:
        """What the run's ε are: bounds on the whole release, a publication's claim, or bounds on the replay alone."""
        return methods.standing(self.spec)

    @cached_property
    def score(self) -> str:
        """The display name of the accuracy measure."""
        return datasets.score(self.spec.data.dataset)

    @cached_property
    def scores(self) -> pd.DataFrame:
        """`accuracy` for download: its value column is named after the measure, such as entity_f1."""
        return self.accuracy.rename(columns={"accuracy": self.score.lower().replace(" ", "_")})

    @cached_property
    def cells(self) -> pd.DataFrame:
        """One row per finished model: epsilon (requested), seed, accounted_epsilon (inf: no bound), delta, seconds."""
        return frames.cells(self.events)

    @cached_property
    def accuracy(self) -> pd.DataFrame:
        """Columns epsilon, seed, after_task, on_task, accuracy (in [0, 1]), pooled (of all tasks seen)."""
        return frames.accuracy(self.events, self.rule)

    @cached_property
    def finished_accuracy(self) -> pd.DataFrame:
        """As `accuracy`, but only of models that have learned all their tasks."""
        done = {(event.cell.epsilon, event.cell.seed) for event in of_kind(self.events, CellFinished)}
        return self.accuracy[[cell in done for cell in zip(self.accuracy["epsilon"], self.accuracy["seed"], strict=True)]]

    @cached_property
    def metrics(self) -> pd.DataFrame:
        """Columns epsilon, seed, metric (AA, AF, BWT, FWT, Last, Avg), value (NaN: undefined); finished models only."""
        return frames.metrics(self.events, self.rule)

    @cached_property
    def spent(self) -> pd.DataFrame:
        """Columns epsilon (requested), seed, after_task, accounted_epsilon (of the ledger so far; inf: no bound)."""
        return frames.spent(self.events)

    @cached_property
    def guarantees(self) -> dict[float, Guarantee]:
        """The guarantee of the finished models by requested epsilon; the worst one where seeds spend differently."""
        return frames.guarantees(self.events)

    @property
    def statement(self) -> Statement:
        """What is protected, in words: all budgets of the finished models."""
        return Statement(self.guarantees)

    def guarantee(self, epsilon: float) -> Guarantee:
        """The guarantee at a requested epsilon. Raises BadInput if no model of that epsilon is finished."""
        if epsilon not in self.guarantees:
            raise unknown("epsilon", f"{epsilon:g}", (f"{requested:g}" for requested in self.guarantees))
        return self.guarantees[epsilon]

    @cached_property
    def references(self) -> References:
        """Chance, the untrained public network and the ceiling, in [0, 1]; chance is computed now for an older run."""
        return references(self.spec, self.events, self.ceiling)

    def figure(self, name: str, *, dark: bool = False) -> Picture:
        """The figure of this name, one of `FIGURES`, with its finding in words. Raises BadInput for another name."""
        from dpcl_core.figures import curves, theme, tradeoff

        labels, standing = self.spec.labels, self.standing
        match name:
            case "accuracy":
                return curves.accuracy_over_tasks(
                    self.accuracy, n_tasks=self.n_tasks, labels=labels, score=self.score, standing=standing,
                    references=self.references, dark=dark,
                )  # fmt: skip
            case "forgetting":
                return curves.forgetting_over_tasks(
                    self.accuracy, n_tasks=self.n_tasks, labels=labels, standing=standing, dark=dark
                )
            case "tradeoff":
                colour = theme.colour_of_method(self.spec.method, dark)
                run = curves.Series(self.name, self.finished_accuracy, colour, labels, standing)
                return tradeoff.trade_off([run], score=self.score, references=self.references, dark=dark)
        raise unknown("figure", name, FIGURES)

    @cached_property
    def finals(self) -> dict[float, list[float]]:
        """Final scores by budget, one per seed, in [0, 1]: means over the tasks; finished models alone."""
        averages = frames.averages(self.events, self.rule).items()
        return grouped((cell.epsilon, average) for cell, average in averages if average is not None)

    def placed(self, epsilon: float) -> str:
        """One sentence: where the run ended at this budget between chance and the ceiling; empty before it has ended."""
        from dpcl_core.figures import answer
        from dpcl_core.papers import measured

        if epsilon not in self.finals:
            return ""
        known, values, standing = self.references, self.finals[epsilon], self.standing
        is_own = known.ceiling is not None and fmean(values) >= known.ceiling - _SAME
        if is_own and math.isinf(epsilon) and measured.is_at_once(self.spec):
            known = replace(known, ceiling=None)  # that a ceiling reaches itself says nothing
        return answer.sentence(epsilon, values, known, score=self.score, standing=standing)

    @cached_property
    def lost(self) -> str:
        """A warning that names the budgets which cannot be told from chance, and the rule; empty if there are none."""
        from dpcl_core.figures import answer

        return answer.warning(self.finals, self.references, score=self.score, standing=self.standing)

    @property
    def card(self) -> card_document.Card:
        """The privacy card of the finished models, which `dpcl verify` checks once it is saved."""
        finished, plan = [*of_kind(self.events, CellFinished)], next(of_kind(self.events, Planned), None)
        return card_document.document(self.run_id or "", self.spec.method, self.provenance.dataset, finished, plan)

    def log_to(self, tracker: str, *, folder: str = "runs") -> None:
        """Writes every finished model to "mlflow" or "tensorboard": settings, accuracies and spent ε by task, the statement.

        The step is the number of tasks learned. `folder`: where TensorBoard looks; MLflow has settings of its own. Raises
        BadInput, which names the command to install a tracker that is missing.
        """
        write = entry("tracker", tracker, {"mlflow": _to_mlflow, "tensorboard": _to_tensorboard})
        spec, models = self.spec, list[_Tracked]()
        for (epsilon, seed), table in self.finished_accuracy.groupby(["epsilon", "seed"]):
            steps: dict[int, dict[str, float]] = {}
            for after, rows in table.groupby("after_task"):
                on_tasks = {f"accuracy/task {row.on_task + 1}": row.accuracy for row in rows.itertuples()}
                steps[int(after) + 1] = {"accuracy/mean": rows["accuracy"].mean(), **on_tasks}
            for row in self.spent[(self.spent["epsilon"] == epsilon) & (self.spent["seed"] == seed)].itertuples():
                if math.isfinite(row.accounted_epsilon):
                    steps[row.after_task + 1]["epsilon"] = row.accounted_epsilon
            settings = {
                "method": spec.method, "dataset": spec.data.dataset, "epsilon": epsilon, "seed": seed,
                "delta": spec.privacy.delta, "adjacency": spec.privacy.adjacency, "labels": spec.labels,
            }  # fmt: skip
            said = statement.text({epsilon: self.guarantee(epsilon)})
            name = f"{self.name or self.run_id or spec.method}, epsilon {epsilon:g}, seed {seed}"
            models.append(_Tracked(name, settings, steps, said))
        write(models, self.card, Path(folder))

    def to_html(self, looks: str = "") -> str:
        """A self-contained HTML page: question, finding, figures, statement, card, settings, how to repeat and cite it.

        `looks`: how often the data were used, in a sentence.
        """
        from dpcl_core.figures import html
        from dpcl_core.papers import catalog

        whole = json.dumps(self.card, indent=1, ensure_ascii=False)
        parts = {
            "What is protected": "\n".join(line for line in (statement.text(self.guarantees), looks) if line),
            "Privacy card": whole if len(whole) <= _LONGEST_CARD else f"It is beside this page, in {card_document.FILE}.",
            "Settings": checks.to_toml(self.spec),
            "Tables of an export": _TABLES,
            "How to repeat it": checks.command_line(self.spec),
            "How to cite it": catalog.citations(self.spec),
        }
        title, said = self.name or method_title(self.spec), [self.placed(self.spec.privacy.usual_epsilon), self.lost]
        pictures = [] if self.started is None else [self.figure(name) for name in FIGURES]
        return html.report(title, question(self.spec), said, pictures, self.provenance.line(), parts)

    @cached_property
    def provenance(self) -> Provenance:
        """The origin of the numbers, for the line under every figure."""
        spec, opened = self.spec, self.started
        return Provenance(
            dataset=opened.dataset_title if opened is not None else datasets.called(spec.data.dataset),
            n_train=opened.n_train if opened is not None else None,
            method=method_title(spec) + (f", {rule_title(self.rule or self.rules[0])} rule" if self.rules else ""),
            labels=spec.labels,
            epsilons=spec.privacy.epsilons,
            delta=spec.privacy.delta,
            n_seeds=(len(spec.seeds),),
            runs=(self.run_id,) if self.run_id is not None else (),
            is_example=self.run_id is None,
            is_seeded=spec.privacy.noise == "seeded",
            standings=(self.standing,),
            spent=statement.spent(self.guarantees),
        )


def of_run(store: Store, run: Run) -> Result:
    """The result so far of a stored run, with its ceiling if this store or a record has one."""
    from dpcl_core.papers import measured  # loads the store, which tables and figures do not need

    return Result(run.id, run.name, run.spec, store.events(run.id), ceiling=measured.known(run.spec, store=store))


def references(spec: RunSpec, events: Sequence[Event], ceiling: float | None = None) -> References:
    """The scores between which a run is read; `ceiling`: one found in a store, beside what records and the run say."""
    from dpcl_core.methods.references import of_labels
    from dpcl_core.papers import measured

    found = [*of_kind(events, References)] or [of_labels(spec)]
    known = (ceiling, measured.known(spec, of_kind(events, CellFinished)))
    untrained = found[-1].untrained or 0.0  # who learns all tasks at once and ends below it has learned nothing
    return replace(found[-1], ceiling=max((one for one in known if one is not None and one >= untrained), default=None))


def question(spec: RunSpec) -> str:
    """The question of the preset that these settings are a run of, else what any run asks."""
    asked = (presets.about(name).question for name in presets.names() if spec in presets.variants(name).values())
    return next(asked, f"What does privacy cost {method_title(spec)} on {datasets.called(spec.data.dataset)}?")


def rule_title(rule: str) -> str:
    """The display name of a prediction rule."""
    return {"argmax": "ArgMax", "member": "Own member, task given"}.get(rule, rule.capitalize())


def method_title(spec: RunSpec) -> str:
    """The method's title, or its name if this version no longer has the method."""
    return methods.CARDS[spec.method].title if spec.method in methods.CARDS else spec.method


# Results in the tracker that a team has already: MLflow or TensorBoard, with the task as the step.


@dataclass(frozen=True, slots=True)
class _Tracked:
    """One model as a tracker shows it: settings by name, numbers by step (tasks learned, from 1) and name, the statement."""

    name: str
    settings: Mapping[str, str | float]
    steps: Mapping[int, Mapping[str, float]]
    statement: str


def _to_mlflow(models: Sequence[_Tracked], card: card_document.Card, _: Path) -> None:
    mlflow: Any
    with instead_of(ImportError, say=DataMissing("tracker", "mlflow", "is not installed: pip install mlflow")):
        import mlflow  # no requirement
    for model in models:
        with mlflow.start_run(run_name=model.name, nested=mlflow.active_run() is not None):
            mlflow.log_params(dict(model.settings))
            for step, numbers in model.steps.items():
                mlflow.log_metrics(dict(numbers), step=step)
            mlflow.log_text(model.statement, "privacy.txt")
            mlflow.log_dict(dict(card), "privacy_card.json")


def _to_tensorboard(models: Sequence[_Tracked], _: card_document.Card, folder: Path) -> None:
    missing = DataMissing("tracker", "tensorboard", "is not installed: pip install torch tensorboard")
    with instead_of(ImportError, say=missing):
        from torch.utils.tensorboard import SummaryWriter
    for model in models:
        with SummaryWriter(log_dir=str(folder / re.sub(r"[^\w.]+", "-", model.name).lstrip("."))) as writer:
            writer.add_text("settings", "\n".join(f"    {name} = {value}" for name, value in model.settings.items()))
            writer.add_text("privacy", model.statement)
            for step, numbers in model.steps.items():
                for name, number in numbers.items():
                    writer.add_scalar(name, number, global_step=step)
