"""Settings shared by the methods that train linear classifiers on sums over a task's examples."""

from __future__ import annotations

from pydantic import Field

from dpcl_core.methods.lifelong.cards.network_params import Head, Projection
from dpcl_core.spec import Params


class CoefficientParams(Params):
    """How the classifiers are trained once a task's noisy sums are there: all of it costs no privacy."""

    head: Head = Field(
        "shared",
        description="shared: all classes compete. per-task: the task of a test example is told, and its classes compete.",
    )
    steps: int = Field(200, ge=1, le=100_000, description="Steps of gradient descent in each task; they cost no privacy.")
    learning_rate: float = Field(
        3.0, gt=0, le=100, allow_inf_nan=False, description="Step size, cut down where the noisy loss is too steep for it."
    )
    projection: Projection = Field(
        "if-violated",
        description="When a step is kept from pointing against the memory's gradient. if-violated: where it would (A-GEM's "
        "code). always: at every step (as Lai et al. print it). never: plain fine-tuning.",
    )
