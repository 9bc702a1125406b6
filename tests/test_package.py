"""The package as a stranger gets it: a wheel, installed where nothing of the checkout is, without torch."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from dpcl_core import __version__, cli, machine
from tests.support.waiting import PATIENCE_SECONDS

ROOT = Path(__file__).resolve().parent.parent
# Makes an installed package look absent, as in an environment with the base alone.
WITHOUT_EXTRAS = f"""
import importlib.abc, importlib.util, sys
ABSENT = {sorted(machine.EXTRAS)!r}
class Absent(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ABSENT:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Absent())
find_spec = importlib.util.find_spec
importlib.util.find_spec = lambda name, *more: None if name in ABSENT else find_spec(name, *more)
"""


def pip(*words: str) -> None:
    done = subprocess.run([sys.executable, "-m", "pip", *words], capture_output=True, text=True, timeout=PATIENCE_SECONDS)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    pip("wheel", "-q", "--no-deps", "--no-build-isolation", "-w", str(folder), str(ROOT))
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the package as an installer leaves it, and nothing else of this project."""
    folder = tmp_path_factory.mktemp("site")
    pip("install", "-q", "--no-deps", "--target", str(folder), str(wheel))
    (folder / "base_alone.py").write_text(WITHOUT_EXTRAS, encoding="utf-8")
    return folder


def called(installed: Path, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The command line of the installed package, in an empty folder, with the base alone."""
    code = "import base_alone, sys; from dpcl_core.cli import main; sys.exit(main())"
    environment = {**os.environ, "PYTHONPATH": str(installed), "DPCL_HOME": str(folder / "home")}
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=PATIENCE_SECONDS)


def test_nothing_is_put_beside_the_package(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0].split("-")[0] for name in names} == {"dpcl_core", "dpcl"}
    assert {"dpcl_core/py.typed", "dpcl_core/app/app.py", "dpcl_core/app/.streamlit/config.toml"} <= set(names)
    assert any(name.startswith("dpcl_core/assets/presets/") for name in names)
    assert {"dpcl_core/assets/cards/datasets.toml", "dpcl_core/assets/cards/backbones.toml"} <= set(names)
    assert not any("tests/" in name or "__pycache__" in name for name in names)


def test_the_base_alone_carries_out_the_first_preset(installed: Path, tmp_path: Path) -> None:
    done = called(installed, tmp_path, "run", "--preset", "digits-cosine", "--set", "seeds=[0]", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["status"] == "finished"


@pytest.mark.parametrize(
    ("arguments", "extra"),
    [
        (["run", "--preset", "pecl-synthetic"], "torch"),
        (["tune", "--preset", "digits-peft-head", "--proxy", "digits"], "tune"),
        (["run", "--preset", "digits-cosine", "--set", 'data.backbone="convnext-cifar100"'], "torch"),
    ],
)
def test_what_is_lacking_is_said_with_its_extra(installed: Path, tmp_path: Path, arguments: list[str], extra: str) -> None:
    done = called(installed, tmp_path, *arguments)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert f"pip install 'dpcl[{extra}]'" in done.stderr


def test_every_extra_is_one_of_the_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert set(machine.EXTRAS.values()) < set(project["optional-dependencies"])


def test_the_app_is_found_in_the_package(installed: Path, tmp_path: Path) -> None:
    code = "from dpcl_core import paths; print(paths.app_file()); print(paths.assets_dir())"
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    said = subprocess.check_output([sys.executable, "-c", code], cwd=tmp_path, env=environment, text=True)
    app, assets = map(Path, said.split())
    assert app.is_file()
    assert app.is_relative_to(installed)
    assert assets.is_relative_to(installed)
    assert (app.parent / "pages" / "start.py").is_file()


@pytest.mark.parametrize(
    ("arguments", "guess"),
    [
        (["lits", "presets"], "did you mean list?"),
        (["run", "--preset", "digit-cosine"], "did you mean digits-cosine?"),
        (["run", "--preset", "digits-cosine", "--set", "privacy.epsilon=1"], "did you mean privacy.epsilons?"),
        (["run", "--preset", "digits-peft-head", "--set", "params.learningrate=1"], "did you mean params.learning_rate?"),
        (["run", "--set", "method=cosin"], "did you mean cosine?"),
    ],
)
def test_a_mistyped_name_is_guessed(arguments: list[str], guess: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(arguments) == 2
    assert guess in capsys.readouterr().err


@pytest.mark.parametrize(("words", "said"), [(["--version"], f"dpcl {__version__}\n"), (["completion", "bash"], "audit")])
def test_version_and_completion(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(words)
    assert ended.value.code == 0
    assert said in capsys.readouterr().out
