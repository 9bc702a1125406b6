"""A static host of a folder, which counts what it sends and can be made to fail, as hosts do."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar


class Host(ThreadingHTTPServer):
    """`asked`: paths in order; `sent`: bytes of files; `wrong`, `short`: endings of paths that get other bytes, or half."""

    daemon_threads = True

    def __init__(self, folder: Path) -> None:
        super().__init__(("127.0.0.1", 0), partial(_Handler, directory=str(folder)))
        self.asked: list[str] = []
        self.sent = 0
        self.wrong: set[str] = set()
        self.short: set[str] = set()

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return int(self.server_address[1])


class _Handler(SimpleHTTPRequestHandler):
    server: Host
    extensions_map: ClassVar = {**SimpleHTTPRequestHandler.extensions_map, ".mjs": "application/octet-stream"}  # as some do

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        path = Path(self.translate_path(self.path))
        self.server.asked.append(self.path)
        if not path.is_file():
            self.send_error(404)
            return
        content = path.read_bytes()
        name = path.as_posix()
        if any(name.endswith(ending) for ending in self.server.wrong):
            content = content[:-1] + bytes([content[-1] ^ 1])
        self.send_response(200)
        self.send_header("Content-Type", self.guess_type(name))
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Last-Modified", self.date_time_string(path.stat().st_mtime))
        self.end_headers()
        if any(name.endswith(ending) for ending in self.server.short):
            content = content[: len(content) // 2]
            self.close_connection = True
        self.wfile.write(content)
        self.server.sent += len(content)


@contextmanager
def hosted(folder: Path) -> Iterator[Host]:
    """The folder on a free port of this computer, until the context ends or `cut` is called."""
    host = Host(folder)
    thread = threading.Thread(target=host.serve_forever, daemon=True)
    thread.start()
    try:
        yield host
    finally:
        cut(host)
        thread.join()


def cut(host: Host) -> None:
    """Ends the host: from now on nobody answers at its port."""
    if host.socket.fileno() >= 0:
        host.shutdown()
        host.server_close()
        with socket.socket() as probe:  # a host that still listens would make a test of a cut network empty
            assert probe.connect_ex(("127.0.0.1", host.port))
