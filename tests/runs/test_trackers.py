"""A result in a tracker: stand-ins with the signatures of the real packages, which are no requirement here."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import pytest

import dpcl_core as dpcl
from dpcl_core.errors import DataMissing
from dpcl_core.results import Result

pytestmark = pytest.mark.usefixtures("home")


@pytest.fixture
def result() -> Result:
    return dpcl.run("digits-cosine", epsilons=[1.0, float("inf")], seeds=[0], here=True)


class MLflow(ModuleType):
    """As of MLflow 3: `start_run`, `active_run`, `log_params`, `log_metrics`, `log_text`, `log_dict`."""

    def __init__(self) -> None:
        super().__init__("mlflow")
        self.runs: list[dict[str, Any]] = []
        self.open: list[dict[str, Any]] = []

    @contextmanager
    def start_run(
        self, run_id: str | None = None, experiment_id: str | None = None, run_name: str | None = None, nested: bool = False,
        parent_run_id: str | None = None, tags: dict[str, Any] | None = None, description: str | None = None,
        log_system_metrics: bool | None = None,
    ) -> Iterator[None]:  # fmt: skip
        assert nested or not self.open
        self.runs.append({"name": run_name, "metrics": {}, "files": {}})
        self.open.append(self.runs[-1])
        yield
        self.open.pop()

    def active_run(self) -> object:
        return self.open[-1] if self.open else None

    def log_params(self, params: dict[str, Any], synchronous: bool | None = None, run_id: str | None = None) -> None:
        self.open[-1]["params"] = params

    def log_metrics(
        self, metrics: dict[str, float], step: int | None = None, synchronous: bool | None = None, run_id: str | None = None,
        timestamp: int | None = None,
    ) -> None:  # fmt: skip
        assert all(isinstance(value, float) for value in metrics.values())
        self.open[-1]["metrics"][step] = metrics

    def log_text(self, text: str, artifact_file: str, run_id: str | None = None) -> None:
        self.open[-1]["files"][artifact_file] = text

    def log_dict(self, dictionary: dict[str, Any], artifact_file: str, run_id: str | None = None) -> None:
        self.open[-1]["files"][artifact_file] = dictionary


@pytest.mark.parametrize("is_nested", [False, True])
def test_mlflow_gets_a_run_for_each_model(result: Result, is_nested: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    mlflow = MLflow()
    mlflow.open = [{}] if is_nested else []
    monkeypatch.setitem(sys.modules, "mlflow", mlflow)
    result.log_to("mlflow")
    assert [run["params"]["epsilon"] for run in mlflow.runs] == [1.0, float("inf")]
    private, exact = mlflow.runs
    assert [*private["metrics"]] == list(range(1, result.n_tasks + 1))
    last = private["metrics"][result.n_tasks]
    assert last["accuracy/mean"] == pytest.approx(result.finals[1.0][0])
    assert len(last) == result.n_tasks + 2
    assert last["epsilon"] == pytest.approx(result.guarantee(1.0).epsilon)
    assert "epsilon" not in exact["metrics"][1]  # there is no bound
    assert private["files"]["privacy_card.json"] == result.card
    assert "accounted epsilon 1" in private["files"]["privacy.txt"]


class SummaryWriter:
    """As of torch 2: `add_scalar`, `add_text`, and a context that closes it."""

    made: dict[str, dict[str, Any]]

    def __init__(
        self, log_dir: str | None = None, comment: str = "", purge_step: int | None = None, max_queue: int = 10,
        flush_secs: int = 120, filename_suffix: str = "",
    ) -> None:  # fmt: skip
        assert log_dir is not None
        self.of = self.made.setdefault(log_dir, {})

    def add_scalar(
        self, tag: str, scalar_value: float, global_step: int | None = None, walltime: float | None = None,
        new_style: bool = False, double_precision: bool = False,
    ) -> None:  # fmt: skip
        self.of[tag, global_step] = scalar_value

    def add_text(self, tag: str, text_string: str, global_step: int | None = None, walltime: float | None = None) -> None:
        self.of[tag, global_step] = text_string

    def __enter__(self) -> SummaryWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.of["is_closed", None] = True


def test_tensorboard_gets_a_folder_for_each_model(result: Result, monkeypatch: pytest.MonkeyPatch) -> None:
    SummaryWriter.made = {}
    module = ModuleType("torch.utils.tensorboard")
    module.SummaryWriter = SummaryWriter  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", module)
    result.log_to("tensorboard", folder="logs")
    (private, exact), names = SummaryWriter.made.values(), [*SummaryWriter.made]
    assert [name.partition("-epsilon")[2] for name in names] == ["-1-seed-0", "-inf-seed-0"]
    assert private["accuracy/mean", result.n_tasks] == pytest.approx(result.finals[1.0][0])
    assert private["epsilon", result.n_tasks] == pytest.approx(result.guarantee(1.0).epsilon)
    assert "    method = cosine" in private["settings", None]
    assert "No noise was added" in exact["privacy", None]
    assert private["is_closed", None]


@pytest.mark.parametrize("tracker", ["mlflow", "tensorboard"])
def test_a_missing_package_names_the_command(result: Result, tracker: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mlflow", None)
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(DataMissing, match=f"tracker = {tracker}: is not installed: pip install .*{tracker}"):
        result.log_to(tracker)
    with pytest.raises(dpcl.BadInput, match="did you mean mlflow"):
        result.log_to("mlflo")


def test_the_card_of_a_result_is_that_of_its_export_and_goes_to_other_accountants(result: Result) -> None:
    from dp_accounting.pld import PLDAccountant

    event = result.card.to_dp_events(1.0)
    assert PLDAccountant().compose(event).get_epsilon(1e-5) == pytest.approx(result.guarantee(1.0).epsilon, rel=1e-3)
    assert PLDAccountant().compose(result.card.to_dp_events(float("inf"))).get_epsilon(1e-5) == float("inf")
    with pytest.raises(dpcl.BadInput, match=r"epsilon = 3.*1, inf"):
        result.card.to_dp_events(3.0)
