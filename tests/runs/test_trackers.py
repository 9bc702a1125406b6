"""A result in a tracker: read back from the real packages, which are no requirement of ours."""

import json
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

import dpcl_core as dpcl
from dpcl_core.errors import DataMissing
from dpcl_core.results import Result
from tests.support.asserting import refuses

pytestmark = pytest.mark.usefixtures("home")
_FILES = ("privacy.txt", "privacy_card.json")


@pytest.fixture
def result() -> Result:
    return dpcl.run("digits-cosine", epsilons=[1.0, float("inf")], seeds=[0], here=True)


@pytest.fixture
def mlflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The package, with a folder of the test's own as its server."""
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", (tmp_path / "mlruns").as_uri())
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    import mlflow

    return mlflow


@pytest.mark.parametrize("is_nested", [False, True])
def test_mlflow_gets_a_run_for_each_model(result: Result, is_nested: bool, mlflow: Any) -> None:
    with mlflow.start_run(run_name="around") if is_nested else nullcontext():
        result.log_to("mlflow")
    client, last = mlflow.MlflowClient(), result.n_tasks
    found = {one.data.params["epsilon"]: one for one in client.search_runs(["0"]) if one.info.run_name != "around"}
    assert sorted(found) == ["1.0", "inf"]
    private, exact = found["1.0"], found["inf"]
    assert ("mlflow.parentRunId" in private.data.tags) is is_nested
    history = client.get_metric_history(private.info.run_id, "accuracy/mean")
    assert [one.step for one in history] == list(range(1, last + 1))
    assert history[-1].value == pytest.approx(result.finals[1.0][0])
    assert private.data.metrics["epsilon"] == pytest.approx(result.guarantee(1.0).epsilon)
    assert len(private.data.metrics) == last + 2
    assert "epsilon" not in exact.data.metrics  # there is no bound
    written = {name: mlflow.artifacts.load_text(f"{private.info.artifact_uri}/{name}") for name in _FILES}
    assert json.loads(written["privacy_card.json"]) == result.card
    assert "accounted epsilon 1" in written["privacy.txt"]


def test_tensorboard_gets_a_folder_for_each_model(result: Result, tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    result.log_to("tensorboard", folder=str(tmp_path / "logs"))
    private, exact = (EventAccumulator(str(one)) for one in sorted((tmp_path / "logs").iterdir()))
    assert [Path(one.path).name.partition("-epsilon")[2] for one in (private, exact)] == ["-1-seed-0", "-inf-seed-0"]
    for one in (private, exact):
        one.Reload()
    means = private.Scalars("accuracy/mean")
    assert [one.step for one in means] == list(range(1, result.n_tasks + 1))
    assert means[-1].value == pytest.approx(result.finals[1.0][0])  # kept in single precision
    assert private.Scalars("epsilon")[-1].value == pytest.approx(result.guarantee(1.0).epsilon)
    assert "epsilon" not in exact.Tags()["scalars"]

    def text(of: EventAccumulator, name: str) -> str:
        (said,) = of.Tensors(f"{name}/text_summary")
        return str(said.tensor_proto.string_val[0].decode())

    assert "    method = cosine" in text(private, "settings")
    assert "No noise was added" in text(exact, "privacy")


@pytest.mark.parametrize("tracker", ["mlflow", "tensorboard"])
def test_a_missing_package_names_the_command(result: Result, tracker: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mlflow", None)
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    refuses(f"tracker = {tracker}: is not installed: pip install .*{tracker}", result.log_to, tracker, error=DataMissing)
    refuses("did you mean mlflow", result.log_to, "mlflo")


def test_the_card_of_a_result_is_that_of_its_export_and_goes_to_other_accountants(result: Result) -> None:
    from dp_accounting.pld import PLDAccountant

    event = result.card.to_dp_events(1.0)
    assert PLDAccountant().compose(event).get_epsilon(1e-5) == pytest.approx(result.guarantee(1.0).epsilon, rel=1e-3)
    assert PLDAccountant().compose(result.card.to_dp_events(float("inf"))).get_epsilon(1e-5) == float("inf")
    refuses(r"epsilon = 3.*1, inf", result.card.to_dp_events, 3.0)
