"""Classifiers as ONNX: the same answers as ours on 1,000 rows, whichever runtime executes the file."""

import math
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from sklearn.pipeline import make_pipeline

import dpcl_core as dpcl
from dpcl_core import errors, export
from dpcl_core.classifiers import folder, onnx_graph, predict
from dpcl_core.methods.common.classifier import Step
from dpcl_core.runs.store import Store
from tests.support.asserting import refuses

pytestmark = pytest.mark.usefixtures("home")
N, K = 1000, 12
NAMES = ("ant", "bee", "cat", "dog", "emu")


def executed(model: bytes | Path, rows: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.float64]]:
    """Labels and scores by the runtime of ONNX."""
    session = onnxruntime.InferenceSession(model if isinstance(model, bytes) else str(model))
    labels, scores = session.run(["label", "scores"], {"features": rows.astype(np.float32)})
    return np.asarray(labels), np.asarray(scores)


def rows() -> NDArray[np.float32]:
    """1,000 rows, among them one of zeros, one with a number that is none, an infinite one, a huge one and a long one."""
    found = np.random.default_rng(0).normal(size=(N, K)).astype(np.float32)
    found[0], found[1, 3], found[2, 4], found[3], found[4] = 0, np.nan, -np.inf, 1e38, 1e7
    return found


def member(place: int, *listed: int) -> Step:
    weights = np.random.default_rng(place).normal(size=(len(NAMES), K + 1)).astype(np.float32)
    labels = np.isin(np.arange(len(NAMES)), listed)
    return Step({"weights": weights * labels[:, None], "labels": labels}, NAMES, NAMES[:4], {})


SUMS = np.random.default_rng(7).normal(size=(len(NAMES), K)) * [[1], [0], [1], [1e200], [1]]
APART, ALIKE = [member(0, 0, 1), member(1), member(2, 1, 2)], [member(0, 0, 1, 3), member(1, 0, 1, 3)]
STEPS: dict[str, tuple[str, list[Step]]] = {
    "sums": ("cosine", [Step({"sums": SUMS}, NAMES, NAMES[:4], {})]),
    "shrunk": ("cosine", [Step({"shrunk": SUMS}, NAMES, NAMES[1:], {})]),
    "one layer": ("heads", [member(0, 0, 2, 3)]),
    **{
        f"{vote}, {words}": ("heads", [*members[:-1], replace(members[-1], facts={"vote": vote, "one_space": is_one})])
        for vote in ("argmax", "median", "entropy")
        for words, is_one, members in (("spaces of their own", False, APART), ("one space", True, ALIKE))
    },
}


@pytest.mark.parametrize("name", STEPS)
def test_a_thousand_rows_are_classified_alike(name: str) -> None:
    rule, steps = STEPS[name]
    expected = predict.rule(rule)(steps, rows())
    labels, scores = executed(onnx_graph.graph(rule, steps, np.array(steps[-1].competing)), rows())
    np.testing.assert_array_equal(np.isfinite(scores), np.isfinite(expected))
    # Ours are products in single precision where weights are: a hundred thousandth of the largest term, and rows reach 2^20.
    far = np.linalg.norm(np.nan_to_num(rows(), posinf=0, neginf=0), axis=1) > 1e3
    finite = np.isfinite(expected)
    np.testing.assert_allclose(scores[~far][finite[~far]], expected[~far][finite[~far]], rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(scores[far][finite[far]], expected[far][finite[far]], rtol=1e-4, atol=20)
    best = np.sort(np.where(finite, expected, -1e30), axis=1)
    is_clear = best[:, -1] - best[:, -2] > 2e-4  # nearer ones may change places
    assert is_clear.sum() >= 0.98 * N
    assert (labels == np.array(steps[-1].competing)[expected.argmax(axis=1)])[is_clear].all()


def test_estimators_are_written_with_their_own_labels(tmp_path: Path) -> None:
    X, y = load_digits(return_X_y=True)
    words = np.array([f"digit {one}" for one in range(10)])
    of_numbers = dpcl.DPCosineClassifier(classes=range(10)).fit(X, y)
    of_words = dpcl.DPHeadEnsemble(epsilon=math.inf, classes=words, epochs=3, rule="entropy").fit(X / 16, words[y])
    for model, given in ((of_numbers, X), (of_words, X / 16)):
        labels, _ = executed(dpcl.to_onnx(model, tmp_path / "model.onnx"), given[:N])
        assert (labels == model.predict(given[:N])).mean() >= 0.999
        assert labels.dtype.kind == model.classes_.dtype.kind or labels.dtype.kind == "O"
    refuses("from_model = Pipeline: must be", dpcl.to_onnx, make_pipeline(of_numbers), tmp_path / "model.onnx")


@pytest.mark.parametrize("here", [True, False])
def test_a_run_is_written_with_its_statement_and_only_what_has_a_bound(here: bool, tmp_path: Path) -> None:
    import onnx

    result = dpcl.run("digits-cosine", epsilons=[1.0, 8.0, math.inf], seeds=[0], here=here)
    path = dpcl.to_onnx(result, tmp_path / "model.onnx")
    features = (load_digits().data[:N] / 16).astype(np.float32)
    labels, scores = executed(path, features)
    assert scores.shape == (N, 10)
    assert "at most 2,981 times likelier" in onnx.load(path).doc_string  # exp(8): the largest budget that has a bound
    first, last = (
        executed(dpcl.to_onnx(result, tmp_path / "one.onnx", epsilon=1.0, after=after), features)[1] for after in (1, None)
    )
    assert (first != last).any()
    refuses("has no such classifier", dpcl.to_onnx, result, tmp_path / "model.onnx", epsilon=math.inf)
    if here:
        return
    export.write(tmp_path / "DIR", folder.files(
        str(result.run_id), result.spec, result.events, Store().classifiers(str(result.run_id))
    ) | {"privacy_card.json": b"{}"})  # fmt: skip
    assert (executed(dpcl.to_onnx(tmp_path / "DIR", tmp_path / "again.onnx"), features)[0] == labels).all()
    np.savez(tmp_path / "rows.npz", features=features)
    assert [one.label for one in predict.predicted(tmp_path / "DIR", tmp_path / "rows.npz").predictions] == labels.tolist()


def test_features_are_taken_along_the_public_axes_of_a_run() -> None:
    from dpcl_core.backbones.bundled import Axes

    draws = np.random.default_rng(3)
    axes = Axes("", draws.normal(size=30).astype(np.float32), draws.normal(size=(30, K)).astype(np.float32))
    given = draws.normal(size=(N, 30)).astype(np.float32)
    rule, steps = STEPS["sums"]
    expected = predict.rule(rule)(steps, axes.along(given))
    _, scores = executed(onnx_graph.graph(rule, steps, np.array(NAMES[:4]), axes), given)
    np.testing.assert_allclose(scores, expected, atol=1e-5)  # ours are coordinates in single precision


def test_what_cannot_be_written_is_said_in_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, steps = STEPS["sums"]
    with pytest.raises(errors.BadInput, match="classifier = network: must be a linear or a cosine classifier"):
        onnx_graph.graph("network", steps, np.array(NAMES))
    refuses("no class: was released", onnx_graph.graph, "heads", [member(0)], np.array(NAMES[:4]))
    monkeypatch.setitem(sys.modules, "onnx", None)
    monkeypatch.setattr(onnx_graph.machine, "find_spec", lambda name: None)
    with pytest.raises(errors.DataMissing, match=r"needs onnx: pip install 'dpcl\[onnx\]'"):
        onnx_graph.graph("cosine", steps, np.array(NAMES[:4]))
    refuses("from_model = 3", dpcl.to_onnx, 3, tmp_path / "model.onnx")
