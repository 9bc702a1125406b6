"""Noise over the tasks of a stream: settings of the methods whose releases are sums, what they need, and what is said."""

from dataclasses import dataclass
from typing import Literal

from dpcl_core.data import catalog as datasets
from dpcl_core.errors import BadInput
from dpcl_core.methods.common.method import PublicSizes
from dpcl_core.privacy.continual import FRESH, SQUARE_ROOT, Choice, choose
from dpcl_core.published import Printed
from dpcl_core.spec import Params, RunSpec, parameter

REMEMBERED: Literal["remembered"] = "remembered"
FIELD = "params.noise_over_tasks"


@dataclass(frozen=True, kw_only=True)
class RememberedParams(Params):
    """How the noise of several tasks goes together; its size follows from the budget alone."""

    noise_over_tasks: Literal["fresh", "remembered"] = parameter(
        "fresh", title="Noise over tasks",
        description="fresh: new noise for every task, as printed; it adds up. remembered: one mechanism for the whole "
        "stream, whose noises cancel in part; for classes that return, and people who are in one task each.")


@dataclass(frozen=True, kw_only=True)
class PredictionParams(Params):
    """What the classifier makes of the releases; it costs nothing."""

    prediction: Literal["added", "by-stream"] = parameter(
        "added", title="What is added up",
        description="added: what each task released, as it came. by-stream: where one list stands for all tasks and no "
        "class returns, each task's release is shrunk towards zero first, as far as noise would explain it.")


FRESH_PRINTED = Printed(("fresh",), "Fresh noise adds up; remembered noise cancels in part.")
ADDED_PRINTED = Printed(("added",), "Where no class returns, most of what a class gets is noise, which shrinking removes.")


def remembers(spec: RunSpec) -> bool:
    """Whether noise is remembered over tasks; a method that builds on one of these may lack the setting."""
    return getattr(spec.params, "noise_over_tasks", "fresh") == REMEMBERED


def chosen(facts: PublicSizes) -> Choice:
    """The factorisation for a run of these public sizes, and the noise of each in question."""
    return choose(facts.n_tasks, facts.n_recurring)


def has_shrunk(spec: RunSpec, n_tasks: int) -> bool:
    """Whether releases are also shrunk: where one public list stands for several tasks."""
    return spec.labels == "prior-const" and n_tasks > 1


def predicts_shrunk(spec: RunSpec, n_tasks: int) -> bool:
    """Whether the run's own rule is that of shrunk releases: asked for, and no class returns. By public facts alone."""
    is_asked = getattr(spec.params, "prediction", "added") == "by-stream"
    return is_asked and has_shrunk(spec, n_tasks) and not spec.scenario.classes_return


def check_remembered(spec: RunSpec, facts: PublicSizes) -> None:
    """Raises BadInput where noise cannot be remembered, or where that would leave as much of it as fresh noise."""
    if not remembers(spec):
        return
    mend: dict[str, object] = {FIELD: "fresh"}
    if spec.labels == "data":
        raise BadInput(FIELD, REMEMBERED, "needs a list of labels that is public or learned: nothing bounds one read", mend)
    if (choice := chosen(facts)).factorisation.kind == FRESH:
        allowed = f"saves no noise here: {noise_in_words(choice, facts)}; choose fresh"
        raise BadInput(FIELD, REMEMBERED, allowed, mend)
    if spec.labels == "prior":
        allowed = "needs one list for all tasks: with a list of each task, a class is not summed over tasks; choose "
        raise BadInput(FIELD, REMEMBERED, f"{allowed}labels = prior-const, or fresh noise", mend)
    if spec.labels == "dp-learned":
        if not spec.scenario.classes_return:
            allowed = "saves no noise here: no class returns, so a learned list leaves each in its own task; choose fresh"
            raise BadInput(FIELD, REMEMBERED, allowed, mend)
        card = datasets.card(spec.data.dataset)
        if card.is_own and not card.classes:
            allowed = "needs all possible labels in the schema, so that what is kept has a public size; or choose fresh"
            raise BadInput(FIELD, REMEMBERED, allowed, mend)


def noise_in_words(choice: Choice, facts: PublicSizes) -> str:
    """What the last running sum's noise is by the chooser's numbers."""
    remembered = choice.noise[SQUARE_ROOT if choice.factorisation.kind == FRESH else choice.factorisation.kind]
    people = "one task" if facts.n_recurring == 1 else f"any of the {facts.n_tasks} tasks"
    return (
        f"for people in {people} the last of {facts.n_tasks} sums has {remembered:.3g} times the noise of a single one, "
        f"with fresh noise {choice.noise[FRESH]:.3g} times"
    )


def derived(params: RememberedParams, facts: PublicSizes) -> str:
    """For the form: which factorisation remembered noise has, and what of the noise it leaves; empty for fresh noise."""
    if params.noise_over_tasks != REMEMBERED or (choice := chosen(facts)).factorisation.kind == FRESH:
        return ""
    return f"Noise is remembered by the {choice.factorisation.kind} factorisation: {noise_in_words(choice, facts)}."
