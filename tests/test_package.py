"""The package and the image as a stranger gets them: without the checkout, torch or more rights than they need."""

import email
import json
import os
import re
import socket
import subprocess
import sys
import tarfile
import threading
import tomllib
import zipfile
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path

import pytest
import yaml

from dpcl_core import __version__, cli, machine
from dpcl_core.cli import reading
from scripts import make_space, package_metadata
from tests.support import serving
from tests.support.asserting import complaint
from tests.support.waiting import PATIENCE_SECONDS, python, until

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
    project = tomllib.loads(text("pyproject.toml"))["project"]
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


PIN = re.compile(r"^([\w.-]+)(?:\[[\w,]+\])?==([^\s;]+)", re.MULTILINE)


def text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


@pytest.mark.parametrize("torch", ["cpu", "cuda"])
def test_the_locks_have_every_requirement_with_hashes_and_name_no_host(torch: str) -> None:
    locked = text("locks/common.txt") + text(f"locks/{torch}.txt")
    pins = {name: version.partition("+")[0] for name, version in PIN.findall(locked)}
    required = dict(PIN.findall(text("requirements.txt")))
    assert len(required) > 25
    assert {name: pins.get(name) for name in required} == required, "run make locks"
    packages = re.split(r"\n(?=\w)", locked.replace("-r common.txt\n", ""))
    assert [one.split()[0] for one in packages if PIN.match(one) and "--hash=sha256:" not in one] == []
    assert "://" not in locked


def test_the_image_runs_as_an_ordinary_user_from_locked_packages() -> None:
    lines = text("Dockerfile").splitlines()
    user = lines.index("USER dpcl")
    assert any("useradd --uid 1000" in line for line in lines[:user])
    assert not [line for line in lines[user:] if line.startswith(("RUN", "COPY", "ADD"))]
    assert "--require-hashes" in text("Dockerfile")


def test_every_service_of_ours_is_read_only_and_has_no_password_in_the_file() -> None:
    services = yaml.safe_load(text("compose.yaml"))["services"]
    for name in ("app", "worker"):
        assert services[name]["read_only"]
        assert services[name]["cap_drop"] == ["ALL"]
        assert services[name]["environment"]["DPCL_STORE"].startswith("postgresql+psycopg://dpcl:${DPCL_PASSWORD:?")
    assert services["app"]["ports"] == ["127.0.0.1:8501:8501"]


def test_the_proxy_lets_through_what_the_app_takes_and_without_an_address_only_this_computer_is_served() -> None:
    server = tomllib.loads(text(".streamlit/config.toml"))["server"]
    assert f"client_max_body_size {server['maxUploadSize']}m;" in text("docs/guides/nginx.conf")
    assert server["address"] == "localhost"


@pytest.mark.parametrize(("given", "address"), [([], "localhost"), (["--address", "0.0.0.0"], "0.0.0.0")])
def test_the_app_listens_where_it_is_told_and_else_on_this_computer(given, address, monkeypatch):
    started: list[list[str]] = []
    monkeypatch.setattr(reading.os, "execve", lambda _program, command, _environment: (started.append(command), sys.exit(0)))
    with pytest.raises(SystemExit):
        cli.main(["app", "--no-browser", f"--port={serving.free_port()}", *given])
    assert f"--server.address={address}" in started[0]


@pytest.mark.parametrize(("given", "says"), [
    (["--port", "99999999"], "--port = 99999999: must be from 1 to 65535"),
    (["--port", "-5"], "--port = -5: must be from 1 to 65535"),
    (["--port", "0"], "--port = 0: must be from 1 to 65535"),
    (["--address", "nope.invalid"], "--address = nope.invalid: must be an address of this computer, such as localhost"),
    (["--address", "x" * 70], "must be an address of this computer"),
    (["--address", "192.0.2.1"], "must be an address of this computer"),
])
def test_an_address_at_which_no_server_can_listen_is_refused(given, says, monkeypatch, capsys):
    monkeypatch.setattr(reading.os, "execve", lambda *_: pytest.fail("it started"))
    assert says in complaint(capsys, "app", "--no-browser", f"--port={serving.free_port()}", *given)


def test_a_port_in_use_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(reading.os, "execve", lambda *_: pytest.fail("it started"))
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        said = complaint(capsys, "app", "--address=127.0.0.1", f"--port={port}")
    assert f"--port = {port}: is used by another program" in said


def test_a_server_under_a_foreign_name_answers_nothing_and_ends_with_its_command(tmp_path: Path) -> None:
    """By DNS rebinding a page of a foreign site is of the same origin as the server that it reads. No forwarded address is
    believed."""
    paths = ("/", "/train", "/_stcore/health", "/_stcore/host-config", "/_stcore/stream", "/rooms/BCDFGH", "/static/x.js")
    with serving.serving(tmp_path, serving.COMMAND) as (port, app):
        here = [status(port, path, f"127.0.0.1:{port}") for path in ("/", "/_stcore/health")]
        there = {path: status(port, path, f"rebound.example:{port}") for path in paths}
        trusted = Path(f"/proc/{app.pid}/environ").read_text().split("\0") if sys.platform == "linux" else []
    assert app.returncode is not None
    assert not serving.is_healthy(port), "the end of the command is the end of the server"
    assert here == [200, 200]
    assert there == dict.fromkeys(paths, 421) | {"/_stcore/stream": 403}
    assert [one for one in trusted if one.startswith("FORWARDED_ALLOW_IPS")] == ["FORWARDED_ALLOW_IPS="][: len(trusted)]


def status(port: int, path: str, host: str, origin: str | None = None) -> int:
    """The status of the answer to a request under this name; of a websocket's address, to a page from there or elsewhere."""
    connection = HTTPConnection("127.0.0.1", port)
    upgrade = {
        "Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==", "Origin": origin or f"http://{host}",
    }  # fmt: skip
    connection.request("GET", path, headers={"Host": host, **(upgrade if path.endswith("/stream") else {})})
    found = connection.getresponse().status
    connection.close()
    return found


# The server asks no other host for anything: at its start, for a page, or where a page of another origin connects.


@pytest.fixture
def asked() -> Iterator[tuple[str, list[bytes]]]:
    """A proxy that answers nobody, its address, and what it was asked."""
    lines: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as proxy:

        def listen() -> None:
            while True:
                try:
                    caller, _ = proxy.accept()
                except OSError:
                    return
                with caller:
                    lines.append(caller.recv(200).split(b"\r\n")[0])

        threading.Thread(target=listen, daemon=True).start()
        yield f"http://127.0.0.1:{proxy.getsockname()[1]}", lines
        proxy.shutdown(socket.SHUT_RDWR)


def test_a_server_for_everybody_asks_no_other_host(tmp_path: Path, asked: tuple[str, list[bytes]]) -> None:
    proxy, lines = asked
    environment = {name: value for name, value in os.environ.items() if name.lower() not in ("no_proxy", "dpcl_store")}
    environment |= {"http_proxy": proxy, "https_proxy": proxy}
    command = ("streamlit", "run", "app.py", "--server.headless=true", "--server.address=0.0.0.0", "--server.port={port}")
    with serving.serving(tmp_path, command, environment) as (port, _):
        assert serving.is_healthy(port)
        assert status(port, "/_stcore/stream", f"127.0.0.1:{port}", "http://example.org") == 403
        log_text = (tmp_path / "server.log").read_text
        until(lambda: f"http://localhost:{port}" in log_text())  # what is printed when the start is over
        assert "External" not in log_text()
        assert lines == []


def test_without_an_address_only_this_computer_is_served() -> None:
    config = tomllib.loads((ROOT / ".streamlit" / "config.toml").read_text(encoding="utf-8"))
    assert config["server"]["address"] == "localhost"
