"""Released classifiers as ONNX: one file that other runtimes execute, without this program."""

from collections.abc import Sequence
from functools import reduce
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from dpcl_core import machine
from dpcl_core.backbones import bundled
from dpcl_core.classifiers import folder as folders
from dpcl_core.data import table_features
from dpcl_core.errors import BadInput, DataMissing
from dpcl_core.methods.common.classifier import Step
from dpcl_core.methods.features.linear_heads import LARGEST_INPUT
from dpcl_core.methods.features.rules import directions

_OPSET, _IR = 18, 9  # of 2023: what runtimes of any age still read
_TINY = np.finfo(np.float64).tiny


def of_folder(folder: Path, epsilon: float | None = None, seed: int | None = None, after: int | None = None) -> bytes:
    """The ONNX model of a classifier in a folder that an export wrote; arguments as `folder.read_classifier` takes them.

    `features` are those that the folder's network makes, or the encoded rows of a table. Raises as `graph` does.
    """
    found = folders.read_classifier(folder, epsilon, seed, after)
    facts, labels = found.steps[-1].facts, np.array(found.steps[-1].competing)
    axes = bundled.load(facts["network"], facts["axes"]) if "axes" in facts else None
    along = None if axes is None else axes.first(facts["n_inputs"])
    is_embedding = "rows" in facts and table_features.read_encoding(str(facts["rows"])).is_embedding
    return graph(found.step.rule, found.steps, labels, along, about=found.model.statement, is_scaled=is_embedding)


def graph(
    rule: str, steps: Sequence[Step], labels: NDArray[Any], axes: bundled.Axes | None = None, *, about: str = "",
    is_scaled: bool = False,
) -> bytes:  # fmt: skip
    """The ONNX model of a classifier: `features` float32 [n, K] in; `label` [n] and `scores` float64 [n, classes] out.

    `labels` [classes]: the names of the competing classes, texts or whole numbers. `axes`: features are first taken along
    them. `about`: the privacy statement, which the file carries. `is_scaled`: rows are first scaled to length 1. Raises
    BadInput for a rule of another form and for a classifier of which nothing was released, DataMissing without onnx.
    """
    if rule not in _FORMS:
        raise BadInput("classifier", rule, f"must be a linear or a cosine classifier ({', '.join(_FORMS)}) to become ONNX")
    if not steps[-1].competing or not any(np.any(step.arrays.get("labels", True)) for step in steps):
        raise BadInput("classifier", "no class", "was released: there is nothing to write")
    if missing := machine.lacking(("onnx",)):
        raise DataMissing("to_onnx", rule, missing)
    net = _Net()
    rows = net.add("Cast", "features", to=net.onnx.TensorProto.DOUBLE)
    arrays = steps[-1].arrays
    n_inputs = arrays["weights"].shape[1] - 1 if "weights" in arrays else directions(steps[-1]).shape[1]
    if axes is not None:
        n_inputs = len(axes.centre)
        rows = net.add("MatMul", net.add("Sub", rows, net.constant(axes.centre)), net.constant(axes.directions))
    is_odd = net.add("IsNaN", net.add("ReduceSum", net.add("Mul", rows, net.constant(0.0)), net.axis, keepdims=1))
    rows = net.add("Where", is_odd, net.constant(0.0), rows)  # a row with a number that is none counts as zeros
    rows = _scaled(net, rows) if is_scaled else rows
    scores = _FORMS[rule](net, steps, rows, is_odd)
    best = net.add("ArgMax", scores, axis=1, keepdims=0)
    names = labels.astype(np.int64) if labels.dtype.kind in "iu" else labels.astype(str).astype(object)
    net.add("Gather", net.constant(names), best, to_name="label")
    net.add("Identity", scores, to_name="scores")
    return net.document(n_inputs, names, about)


class _Net:
    """Nodes of a graph as they are added, each with one output, and its constants."""

    def __init__(self) -> None:
        import onnx
        from onnx import helper, numpy_helper

        self.onnx: Any = onnx
        self._helper: Any = helper
        self._of_array: Any = numpy_helper.from_array
        self._nodes: list[Any] = []
        self._constants: list[Any] = []
        self.axis = self.constant(np.array([1]))

    def constant(self, value: NDArray[Any] | float) -> str:
        """The name of an array that the file holds; real numbers in double precision."""
        array = np.asarray(value)
        array = array.astype(np.float64) if array.dtype.kind == "f" else array
        self._constants.append(self._of_array(array, f"constant{len(self._constants)}"))
        return str(self._constants[-1].name)

    def add(self, kind: str, *inputs: str, to_name: str = "", **settings: object) -> str:
        """The name of what this operator gives."""
        name = to_name or f"value{len(self._nodes)}"
        outputs = [name, f"{name}places"] if kind == "TopK" else [name]
        self._nodes.append(self._helper.make_node(kind, inputs, outputs, **settings))
        return name

    def document(self, n_inputs: int, names: NDArray[Any], about: str) -> bytes:
        """The whole model, checked."""
        kinds, make = self.onnx.TensorProto, self._helper.make_tensor_value_info
        label = kinds.INT64 if names.dtype.kind == "i" else kinds.STRING
        outputs = [make("label", label, ["n"]), make("scores", kinds.DOUBLE, ["n", len(names)])]
        given = [make("features", kinds.FLOAT, ["n", n_inputs])]
        made = self._helper.make_graph(self._nodes, "classifier", given, outputs, self._constants, doc_string=about)
        opset = [self._helper.make_opsetid("", _OPSET)]
        model = self._helper.make_model(made, opset_imports=opset, ir_version=_IR, producer_name="dpcl", doc_string=about)
        self.onnx.checker.check_model(model, full_check=True)
        return cast(bytes, model.SerializeToString())


def _scaled(net: _Net, rows: str) -> str:
    """Rows of length 1; zeros stay zeros. Squares of numbers of single precision are finite, and none but zero is lost."""
    return net.add("Div", rows, net.add("Max", net.add("ReduceL2", rows, net.axis, keepdims=1), net.constant(_TINY)))


def _cosines(net: _Net, steps: Sequence[Step], rows: str, _: str) -> str:
    """Cosines with class sums; -inf for a sum of zeros."""
    sums = directions(steps[-1])
    cosines = net.add("MatMul", _scaled(net, rows), net.constant(sums.T))
    return net.add("Add", cosines, net.constant(np.where(sums.any(axis=1), 0.0, -np.inf)))


def _votes(net: _Net, steps: Sequence[Step], rows: str, is_odd: str) -> str:
    """The members' votes, by the rule of the last one: `rules.VoteAccumulator` says how."""
    last = steps[-1]
    vote, limit = last.facts.get("vote", "argmax"), net.constant(LARGEST_INPUT)
    one, zero = net.constant(1.0), net.constant(0.0)
    rows = net.add("Concat", rows, net.add("Where", is_odd, zero, one), axis=1)  # the bias
    is_far = net.add("Greater", net.add("ReduceMax", net.add("Abs", rows), net.axis, keepdims=1), limit)
    shorter = net.add("Div", limit, net.add("ReduceL2", rows, net.axis, keepdims=1))
    rows = net.add("Mul", rows, net.add("Where", is_far, shorter, one))
    placed, shares, offered = [], [], np.zeros(len(last.competing), np.bool_)
    nothing = net.add("Where", is_odd, *[net.constant(0.0 if vote == "entropy" else -np.inf)] * 2)  # a column
    for step in steps:
        listed = np.flatnonzero(step.arrays["labels"])
        if not len(listed):
            continue
        logits = net.add("MatMul", rows, net.constant(step.real("weights")[listed].T))
        names = [step.classes[place] for place in listed]
        if vote == "median":
            logits = net.add("Sub", logits, _median(net, logits, len(names)))
        elif vote == "entropy":
            # The logits (the probabilities where label spaces differ) times the member's weight, a column.
            chances = net.add("Softmax", logits, axis=1)
            told = net.add("Mul", chances, net.add("Log", net.add("Max", chances, net.constant(_TINY))))
            shares.append(net.add("Exp", net.add("ReduceSum", told, net.axis, keepdims=1)))
            logits = net.add("Mul", logits if last.facts.get("one_space", True) else chances, shares[-1])
        where = [names.index(name) if name in names else len(names) for name in last.competing]
        offered |= np.array(where) < len(names)
        placed.append(net.add("Gather", net.add("Concat", logits, nothing, axis=1), net.constant(np.array(where)), axis=1))
    if vote != "entropy":
        return net.add("Max", *placed)
    total, weights = (reduce(lambda one, other: net.add("Add", one, other), each) for each in (placed, shares))
    return net.add("Add", net.add("Div", total, weights), net.constant(np.where(offered, 0.0, -np.inf)))


def _median(net: _Net, logits: str, n_labels: int) -> str:
    """The median of each row's logits, as a column."""
    middle = n_labels // 2 + 1
    node = net.add("TopK", logits, net.constant(np.array([middle])), axis=1)
    last = np.array([middle - 1] if n_labels % 2 else [middle - 2, middle - 1])
    return net.add("ReduceMean", net.add("Gather", node, net.constant(last), axis=1), net.axis, keepdims=1)


_FORMS = {"cosine": _cosines, "heads": _votes}  # by rule
