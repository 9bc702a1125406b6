"""Card of one network trained on all tasks at once, without noise: the ceiling of Lifelong DP's methods."""

from __future__ import annotations

import math
from typing import Literal

from pydantic import Field

from dpcl_core.data import catalog as datasets
from dpcl_core.errors import BadInput
from dpcl_core.methods.common.dpsgd import PublicSizes
from dpcl_core.methods.lifelong.cards import network_params, printed
from dpcl_core.spec import Params, RunSpec

NetworkName = Literal["lifelong", "cnn-32", "cnn-64", "cnn-128", "bilstm", "cnn-ig", "cnn-ig-featureless"]
TITLES: dict[NetworkName, str] = {
    "lifelong": "Lifelong network",
    "cnn-32": "CNN-32",
    "cnn-64": "CNN-64",
    "cnn-128": "CNN-128",
    "bilstm": "BiLSTM",
    "cnn-ig": "CNN-Ig",
    "cnn-ig-featureless": "CNN-Ig-featureless",
}


class JointNetworkParams(network_params.NetworkParams):
    """Settings of one training on all tasks."""

    network: NetworkName = Field(
        "lifelong",
        description="lifelong: the network of the other methods. The rest read windows of a sensor, as in table 4 of Lai et "
        "al.: convolutions with 32, 64 or 128 channels, a recurrent network, and Ignatov's with and without statistics of a "
        "window.",
    )
    learning_rate: float = Field(1e-3, gt=0, le=1, allow_inf_nan=False, description="Step size of Adam.")
    batch_size: int = Field(100, ge=1, le=100_000, description="Examples in each batch.")
    epochs: int = Field(10, ge=1, le=1000, description="How often each example is used.")


def check(spec: RunSpec, facts: PublicSizes) -> None:
    """Raises BadInput for a finite budget, for a network that cannot read the data, and as `network_params.check` does."""
    network_params.refuse_budgets(spec, "this training adds no noise; it is the ceiling of the methods that do")
    network_params.check(spec, facts)
    params = spec.params
    assert isinstance(params, JointNetworkParams)
    if params.network != "lifelong" and datasets.card(spec.data.dataset).kind != "sensor":
        allowed = "must be lifelong on pictures: the others read windows of a sensor, such as those of har-wisdm"
        raise BadInput("params.network", params.network, allowed, {"params.network": "lifelong"})


def n_steps(params: JointNetworkParams, facts: PublicSizes) -> int:
    """Steps in all, from public sizes alone."""
    return params.epochs * math.ceil(facts.n_tasks * facts.task_size / params.batch_size)


def derived(params: Params, facts: PublicSizes) -> str:
    """The settings in numbers."""
    assert isinstance(params, JointNetworkParams)
    return f"{n_steps(params, facts):,} steps on all tasks together, after the last has arrived."


def names(spec: RunSpec) -> tuple[str, str]:
    """The network and the variant as table 4 names them."""
    assert isinstance(spec.params, JointNetworkParams)
    return TITLES[spec.params.network], "noiseless"


CARD = network_params.network_card(
    name="joint-network",
    title="All tasks at once (network)",
    summary="Collects the examples of all tasks and trains one network on them together, without noise. This is not "
    "continual learning: it shows what could be reached if nothing were forgotten and no one protected.",
    source="Centralised training of Lai et al. 2022, appendix D",
    params=JointNetworkParams,
    matters=("network", "epochs", "learning_rate"),
    module="dpcl_core.methods.lifelong.joint_network",
    shares="cell",
    trains_on="all",
    refuses=check,
    derived=derived,
    guarantee="none",
    printed=printed.JOINT,
    table_names=names,
    differences=network_params.differences,
)
