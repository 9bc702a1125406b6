"""How the releases of this family classify without their learners; the arithmetic is the learners' own."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpcl_core.data.dataset import Form
from dpcl_core.methods.common.classifier import Step
from dpcl_core.methods.lifelong import params as settings
from dpcl_core.methods.lifelong.independent_laplace import centred
from dpcl_core.methods.lifelong.later import nets, torch
from dpcl_core.methods.lifelong.quadratic import RandomMap
from dpcl_core.privacy.sums import unit_rows


def readout(steps: Sequence[Step], inputs: NDArray[np.generic]) -> NDArray[np.floating]:
    """Scores [n, competing] of linear readouts W phi, with phi made of inputs [n, K] as `facts` say."""
    last, facts, values = steps[-1], steps[-1].facts, np.asarray(inputs)
    if "random" in facts:
        values = RandomMap(facts["random"], values.shape[1], int(facts["n_features"]), int(facts["seed"])).of(values)
    if facts.get("centred"):
        values = centred(values, input_form(facts))
    if facts.get("unit_length"):
        values = unit_rows(values).astype(np.float32)
    if "unit" in facts:
        values = np.hstack([float(facts["unit"]) * values, np.ones((len(values), 1))])
    return last.chosen(values.astype(np.float32) @ last.real("weights").T)


def network(steps: Sequence[Step], inputs: NDArray[np.generic]) -> NDArray[np.floating]:
    """Logits [n, competing] of a whole network on examples' own values [n, K]."""
    last, facts, layout = steps[-1], steps[-1].facts, input_form(steps[-1].facts)
    made = nets.build_named(facts.get("architecture", "lifelong"), layout, len(last.classes), 0)
    offset = last.arrays.get("offset")
    made.load_state_dict({name: torch.from_numpy(one) for name, one in last.arrays.items() if name != "offset"})
    made.eval()
    if offset is None:
        return last.chosen(made.logits(inputs, layout))
    assert isinstance(made, nets.Net)
    with torch.inference_mode():
        units = made.first(nets.tensor(inputs, layout))
        hidden = made.rest[1:](nets.classifier_input(units, torch.from_numpy(offset), facts["first_layer"]))
        return last.chosen(made.head(hidden.clamp(max=1) if facts["clips_hidden"] else hidden).numpy())


def input_form(facts: Mapping[str, Any]) -> Form:
    """The layout of an example's own values, or of features of a network."""
    if "shape" not in facts:
        return settings.input_form(None, int(facts["n_inputs"]))
    return Form(facts["shape"], facts["low"], facts["high"])
