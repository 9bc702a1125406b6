"""What pages read of a run: its events, its tables and its provenance, from the store or from the bundled example."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import streamlit as st

from dpcl_core import checks, events, paths
from dpcl_core.data import catalog as datasets
from dpcl_core.events import CellFinished, Event, Guarantee, Started
from dpcl_core.figures.picture import Provenance
from dpcl_core.methods import catalog as methods
from dpcl_core.spec import RunSpec
from pages.parts import state

if TYPE_CHECKING:
    import pandas as pd

    from dpcl_core.privacy.statement import Standing
    from dpcl_core.runs.store import Run

EXAMPLE = "digits-cosine"


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
    def accuracy(self) -> pd.DataFrame:
        from dpcl_core.runs import frames

        return frames.accuracy(self.said, self.rule)

    @cached_property
    def finished_accuracy(self) -> pd.DataFrame:
        """As `accuracy`, of the models alone that have learned all their tasks."""
        done = {(event.cell.epsilon, event.cell.seed) for event in self.said if isinstance(event, CellFinished)}
        cells = zip(self.accuracy["epsilon"], self.accuracy["seed"], strict=True)
        return self.accuracy[[cell in done for cell in cells]]

    @cached_property
    def guarantees(self) -> dict[float, Guarantee]:
        from dpcl_core.runs import frames

        return frames.guarantees(self.said)

    @cached_property
    def provenance(self) -> Provenance:
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


def of(run: Run) -> Result:
    """The result of a run so far; new events are read, old ones kept. Raises BadInput where its spec cannot be read."""
    known: dict[str, tuple[int, tuple[Event, ...]]] = st.session_state.setdefault("events", {})
    if run.is_over:
        known.pop(run.id, None)
        return _over(state.where(), run.id, run.name)
    # What a run under way has said so far is kept for this visit, so that each look reads only what is new.
    seq, said = known.get(run.id, (0, ()))
    fresh = state.store().events_after(run.id, seq)
    if fresh:
        known[run.id] = (fresh[-1][0], said + tuple(event for _, event in fresh))
    return Result(run.id, run.name, run.spec, known.get(run.id, (0, ()))[1])


@st.cache_resource(max_entries=50, show_spinner=False)
def _over(where: tuple[str, str], run_id: str, name: str) -> Result:
    run = state.store().get(run_id)
    return Result(run.id, name, run.spec, tuple(event for _, event in state.store().events_after(run_id)))


@st.cache_resource(show_spinner=False)
def example() -> Result:
    """The bundled example: one true run of the first preset, recorded."""
    folder = paths.assets_dir() / "examples"
    spec = checks.parse(checks.read_toml((folder / f"{EXAMPLE}.toml").read_text(encoding="utf-8")))
    lines = (folder / f"{EXAMPLE}.jsonl").read_text(encoding="utf-8").splitlines()
    return Result(None, "Example", spec, tuple(events.from_json(json.loads(line)) for line in lines))
