"""Card of noise for every record."""

from __future__ import annotations

from dpcl_core.errors import BadInput
from dpcl_core.methods.common.card import MethodCard
from dpcl_core.methods.common.dpsgd import PublicSizes
from dpcl_core.methods.lifelong import odometer
from dpcl_core.methods.lifelong.cards import printed
from dpcl_core.methods.lifelong.cards.coefficient_params import IndependentLaplaceParams
from dpcl_core.spec import Params, RunSpec

SIZES_ARE_PUBLIC = (
    "how many examples a task has is public, and so is which task an example is in: one of the same task takes its place"
)


def check(spec: RunSpec, facts: PublicSizes) -> None:
    """Raises BadInput for settings under which no bound holds."""
    params = spec.params
    assert isinstance(params, IndependentLaplaceParams)
    if spec.privacy.adjacency != "replace":
        allowed = "must be replace: each example leaves a noisy copy, so that how many there are is plain to see"
        raise BadInput("privacy.adjacency", spec.privacy.adjacency, allowed, {"privacy.adjacency": "replace"})
    if params.project_to == 0 and spec.data.backbone != "pixels":
        allowed = "must be at least 1 with features of a network: they have no range, only their projection is clipped"
        raise BadInput("params.project_to", 0, allowed)


def derived(params: Params, facts: PublicSizes) -> str:
    """The effect of the settings on the noise."""
    assert isinstance(params, IndependentLaplaceParams)
    if params.project_to == 0:
        return "Noise on a value of range 2: for each value of an example 2 / ε of the values' part of the budget."
    return f"Noise of scale {2 * params.clip:g} / ε of the values' part on each of {params.project_to} projected values."


CARD = MethodCard(
    name="independent-laplace",
    title="Noise for every record (repair of L2DP-ML)",
    summary="Stores every example with its own noise: Laplace noise on each value, and a label that is true only with some "
    "probability. The copies may be used without limit. This is local privacy: no one has to be trusted, but the price is "
    "high.",
    source="A repair of Lai et al. 2022, section 4: fresh noise for each record in place of one noise for all",
    params=IndependentLaplaceParams,
    matters=("project_to", "clip", "label_share"),
    module="dpcl_core.methods.lifelong.independent_laplace",
    planned="dpcl_core.methods.lifelong.independent_laplace:planned",
    shares="all",
    labels=("prior", "prior-const"),
    scenarios=("class-incremental", "split", "permuted", "source-incremental"),
    refuses=check,
    assumes=lambda params: (SIZES_ARE_PUBLIC,),
    derived=derived,
    forecast=odometer.of_copies,
    ceiling="dp-coeff-memory",
    printed=printed.LAPLACE,
)
