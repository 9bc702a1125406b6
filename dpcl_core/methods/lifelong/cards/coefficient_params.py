"""Settings of the methods that train linear classifiers on sums over a task's examples: of their cards and their noise."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from dpcl_core.methods.lifelong.cards.network_params import Head, Projection
from dpcl_core.spec import Params


class CoefficientParams(Params):
    """Training of the classifiers on a task's noisy sums: post-processing, which costs no privacy."""

    head: Head = "shared"
    steps: int = Field(
        200, ge=1, le=100_000, title="Training steps",
        description="Steps of gradient descent in each task; they cost no privacy."
    )
    learning_rate: float = Field(
        3.0, gt=0, le=100, allow_inf_nan=False, description="Step size, cut down where the noisy loss is too steep for it."
    )
    projection: Projection = "if-violated"

    @property
    def is_task_given(self) -> bool:
        return self.head == "per-task"


class CoeffMemoryParams(CoefficientParams):
    """Settings of the coefficient memory."""

    features: Annotated[int, Field(ge=1, le=2048)] = Field(
        256,
        description="Random ReLU features of an example's values, with data.backbone = pixels; not used with a network's.",
    )
    solution: Literal["steps", "exact"] = Field(
        "steps",
        description="steps: gradient descent on the task, projected against the memory. exact: minimises the loss of all "
        "tasks so far at once; steps, learning rate and projection are then not used.",
    )


class IndependentLaplaceParams(CoefficientParams):
    """Settings of noise for every record."""

    steps: int = Field(
        20, ge=1, le=100_000,
        title="Training steps",
        description="Steps of gradient descent in each task; few of them fit less of the noise."
    )
    project_to: Annotated[int, Field(ge=0, le=4096)] = Field(
        16,
        title="Random projection to",
        description="Dimensions that an example's values are brought to by a public random projection; 0: the values "
        "themselves, which data.backbone = pixels alone allows.",
    )
    clip: Annotated[float, Field(gt=0, le=1000, allow_inf_nan=False)] = Field(
        1.0,
        title="Clipping bound",
        description="L1 norm that projected values are cut down to, 1 on average before; not used without projection."
    )
    label_share: float = Field(
        0.5, ge=0.01, le=0.99, allow_inf_nan=False,
        title="Share of ε for labels",
        description="Share of epsilon that pays for the label of each example."
    )
