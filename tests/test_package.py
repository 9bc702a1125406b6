"""The package as a stranger gets it: a wheel, installed where nothing of the checkout is, without torch."""

import email
import json
import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
import yaml

from dpcl_core import __version__, cli, machine
from scripts import make_space, package_metadata
from tests.support.waiting import PATIENCE_SECONDS, python

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


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel; the source distribution lies beside it."""
    folder = tmp_path_factory.mktemp("wheel")
    python("-m", "hatchling", "build", "-d", str(folder))
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the package as an installer leaves it, and nothing else of this project."""
    folder = tmp_path_factory.mktemp("site")
    python("-m", "pip", "install", "-q", "--no-deps", "--target", str(folder), str(wheel))
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


def test_what_is_published_is_whole_and_its_description_can_be_shown(wheel: Path) -> None:
    (source,) = wheel.parent.glob("*.tar.gz")
    assert python("-m", "twine", "check", "--strict", str(wheel), str(source)).count("PASSED") == 2
    assert wheel.stat().st_size < 50e6
    about = email.message_from_bytes(zipfile.ZipFile(wheel).read(f"dpcl-{__version__}.dist-info/METADATA"))
    description = str(about.get_payload())
    assert description.startswith("# What privacy costs")
    assert not re.findall(r"\]\((?!https?://)", description), "a link that leads nowhere outside of a checkout"
    with tarfile.open(source) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"pyproject.toml", "scripts/package_metadata.py", "app.py", "tests/test_package.py"} <= names


def test_links_of_the_description_lead_to_the_repository_where_one_is_known() -> None:
    text = "![a picture](docs/train.png) [a guide](docs/a.md#part) [elsewhere](https://example.org/x)"
    assert package_metadata.described(text, "https://example.org/o/dpcl", "v1") == (
        "![a picture](https://example.org/o/dpcl/raw/v1/docs/train.png) "
        "[a guide](https://example.org/o/dpcl/blob/v1/docs/a.md#part) [elsewhere](https://example.org/x)"
    )
    assert package_metadata.described(text, "", "v1") == " a guide [elsewhere](https://example.org/x)"


def test_a_space_is_a_folder_with_the_hubs_lines(tmp_path: Path) -> None:
    make_space.main(tmp_path / "space")
    _, head, _ = (tmp_path / "space" / "README.md").read_text(encoding="utf-8").split("---\n", 2)
    said = yaml.safe_load(head)
    assert said["sdk"] == "docker"
    assert f"EXPOSE {said['app_port']}" in (tmp_path / "space" / "Dockerfile").read_text(encoding="utf-8")
    assert not (tmp_path / "space" / "tests").exists()
    sizes = [one.stat().st_size for one in (tmp_path / "space").rglob("*") if one.is_file()]
    assert max(sizes) < 10e6, "the hub takes no larger file without Git LFS"


def test_the_base_alone_carries_out_the_first_preset(installed: Path, tmp_path: Path) -> None:
    done = called(installed, tmp_path, "run", "--preset", "digits-cosine", "--set", "seeds=[0]", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["status"] == "finished"


@pytest.mark.parametrize(("arguments", "extra"), [
    (["run", "--preset", "pecl-synthetic"], "torch"),
    (["tune", "--preset", "digits-peft-head", "--proxy", "digits"], "tune"),
    (["run", "--preset", "digits-cosine", "--set", 'data.backbone="convnext-cifar100"'], "torch"),
])
def test_what_is_lacking_is_said_with_its_extra(installed: Path, tmp_path: Path, arguments: list[str], extra: str) -> None:
    done = called(installed, tmp_path, *arguments)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert f"pip install 'dpcl[{extra}]'" in done.stderr


def test_every_extra_is_one_of_the_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert set(machine.EXTRAS.values()) < set(project["optional-dependencies"])


def test_the_app_is_found_in_the_package(installed: Path, tmp_path: Path) -> None:
    code = "from dpcl_core import paths; print(paths.app_file()); print(paths.assets_dir())"
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    app, assets = map(Path, python("-c", code, cwd=tmp_path, env=environment).split())
    assert app.is_file()
    assert app.is_relative_to(installed)
    assert assets.is_relative_to(installed)
    assert (app.parent / "pages" / "start.py").is_file()


EVERY_PAGE = """
import base_alone, sys
LEFT_OUT = "__init__", "administration"
from streamlit.testing.v1 import AppTest
from dpcl_core import paths
sys.path.insert(0, str(paths.app_file().parent))  # as `streamlit run` does
pages = sorted(one for one in (paths.app_file().parent / "pages").glob("*.py") if one.stem not in LEFT_OUT)
app = AppTest.from_file(str(paths.app_file()), default_timeout=PATIENCE).run()
for page in pages:
    app.switch_page(f"pages/{page.name}").run()
    said = [*(one.value for one in app.exception), *(one.value for one in app.error)]
    assert not said, (page.name, said)
print(len(pages))
"""


def test_every_page_is_drawn_with_the_base_alone(installed: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(installed), "DPCL_HOME": str(tmp_path / "home"), "HF_HUB_OFFLINE": "1"}
    assert int(python("-c", EVERY_PAGE.replace("PATIENCE", str(PATIENCE_SECONDS)), cwd=tmp_path, env=environment)) >= 10


@pytest.mark.parametrize(("words", "said"), [(["--version"], f"dpcl {__version__}\n"), (["completion", "bash"], "audit")])
def test_version_and_completion(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(words)
    assert ended.value.code == 0
    assert said in capsys.readouterr().out
