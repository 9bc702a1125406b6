"""A run as far as it has come: its settings, what it said, and the tables, figures and words that follow from both."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from dpcl_core.data import catalog as datasets
from dpcl_core.errors import unknown
from dpcl_core.events import CellFinished, Event, Guarantee, Started
from dpcl_core.figures.picture import Provenance
from dpcl_core.methods import catalog as methods
from dpcl_core.spec import RunSpec

if TYPE_CHECKING:
    import pandas as pd

    from dpcl_core.figures.picture import Picture
    from dpcl_core.privacy.statement import Standing

FIGURES = ("accuracy", "forgetting", "tradeoff")


@dataclass(frozen=True)
class Result:
    """A run as far as it has come. `run_id` is None for the bundled example.

    `rule`: the prediction rule under which accuracies are shown, None for the run's own.
    """

    run_id: str | None
    name: str
    spec: RunSpec
    said: tuple[Event, ...]
    rule: str | None = None

    @cached_property
    def rules(self) -> tuple[str, ...]:
        """The prediction rules there are accuracies under, the run's own first; empty where there is one only."""
        from dpcl_core.runs import frames

        return frames.rules(self.said)

    @cached_property
    def started(self) -> Started | None:
        """What was known when the stream was open; None before."""
        return next((event for event in self.said if isinstance(event, Started)), None)

    @property
    def n_tasks(self) -> int:
        return self.started.n_tasks if self.started is not None else 1

    @property
    def standing(self) -> Standing:
        """What its budgets are: bounds on all that gets out, a publication's word, or bounds on the replay alone."""
        return methods.standing(self.spec)

    @cached_property
    def score(self) -> str:
        """What accuracy is here, as it is written."""
        return datasets.score(self.spec.data.dataset)

    @property
    def scores(self) -> pd.DataFrame:
        """`accuracy` to take along: its column is called what it holds."""
        return self.accuracy.rename(columns={"accuracy": self.score.lower().replace(" ", "_")})

    @cached_property
    def cells(self) -> pd.DataFrame:
        """One row a finished model: epsilon (asked for), seed, accounted_epsilon (inf: no bound), delta, seconds."""
        from dpcl_core.runs import frames

        return frames.cells(self.said)

    @cached_property
    def accuracy(self) -> pd.DataFrame:
        """Columns epsilon, seed, after_task, on_task, accuracy (in [0, 1]), pooled (of all tasks seen)."""
        from dpcl_core.runs import frames

        return frames.accuracy(self.said, self.rule)

    @cached_property
    def finished_accuracy(self) -> pd.DataFrame:
        """As `accuracy`, of the models alone that have learned all their tasks."""
        done = {(event.cell.epsilon, event.cell.seed) for event in self.said if isinstance(event, CellFinished)}
        cells = zip(self.accuracy["epsilon"], self.accuracy["seed"], strict=True)
        return self.accuracy[[cell in done for cell in cells]]

    @cached_property
    def metrics(self) -> pd.DataFrame:
        """Columns epsilon, seed, metric (AA, AF, BWT, FWT, Last, Avg), value (NaN: not defined); finished models only."""
        from dpcl_core.runs import frames

        return frames.metrics(self.said, self.rule)

    @cached_property
    def spent(self) -> pd.DataFrame:
        """Columns epsilon (asked for), seed, after_task, accounted_epsilon (of the ledger by then; inf: no bound)."""
        from dpcl_core.runs import frames

        return frames.spent(self.said)

    @cached_property
    def guarantees(self) -> dict[float, Guarantee]:
        """By epsilon asked for: the guarantee of its finished models, the worst where seeds spend differently."""
        from dpcl_core.runs import frames

        return frames.guarantees(self.said)

    def guarantee(self, epsilon: float) -> Guarantee:
        """The guarantee at a budget. Raises BadInput where no model of that budget is finished."""
        if epsilon not in self.guarantees:
            raise unknown("epsilon", f"{epsilon:g}", (f"{asked:g}" for asked in self.guarantees))
        return self.guarantees[epsilon]

    def figure(self, name: str, *, dark: bool = False) -> Picture:
        """A figure by its name, one of `FIGURES`, with its finding in words. Raises BadInput for another name."""
        from dpcl_core.figures import curves, theme, tradeoff

        labels, standing = self.spec.labels, self.standing
        match name:
            case "accuracy":
                return curves.accuracy_over_tasks(
                    self.accuracy, n_tasks=self.n_tasks, labels=labels, score=self.score, standing=standing, dark=dark
                )
            case "forgetting":
                return curves.forgetting_over_tasks(
                    self.accuracy, n_tasks=self.n_tasks, labels=labels, standing=standing, dark=dark
                )
            case "tradeoff":
                return tradeoff.trade_off(
                    {self.name: self.finished_accuracy},
                    colours=[theme.colour_of_method(self.spec.method, dark)],
                    labels=[labels],
                    score=self.score,
                    standings={self.name: standing},
                    dark=dark,
                )
        raise unknown("figure", name, FIGURES)

    def to_html(self) -> str:
        """A page that opens without a server or a network: the figures with their findings, and the privacy statement."""
        from dpcl_core.figures import html
        from dpcl_core.privacy import statement_text

        title, statement = self.name or method_title(self.spec), statement_text.text(self.guarantees)
        return html.report(title, [self.figure(name) for name in FIGURES], self.provenance, statement)

    @cached_property
    def provenance(self) -> Provenance:
        """Where the numbers come from: the line under every figure."""
        from dpcl_core.privacy.statement import spent

        spec, opened = self.spec, self.started
        return Provenance(
            dataset=opened.dataset_title if opened is not None else spec.data.dataset,
            n_train=opened.n_train if opened is not None else None,
            method=method_title(spec) + (f", {rule_title(self.rule or self.rules[0])} rule" if self.rules else ""),
            labels=spec.labels,
            epsilons=spec.privacy.epsilons,
            delta=spec.privacy.delta,
            n_seeds=len(spec.seeds),
            runs=(self.run_id,) if self.run_id is not None else (),
            is_example=self.run_id is None,
            is_seeded=spec.privacy.noise == "seeded",
            standings=(self.standing,),
            spent=spent(self.guarantees),
        )


def rule_title(rule: str) -> str:
    """The name of a prediction rule as it is written."""
    return {"argmax": "ArgMax", "member": "Own member, task told"}.get(rule, rule.capitalize())


def method_title(spec: RunSpec) -> str:
    """The method's title, or its bare name where this program no longer has it."""
    return methods.CARDS[spec.method].title if spec.method in methods.CARDS else spec.method
