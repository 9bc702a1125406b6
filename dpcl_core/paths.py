"""Folders on this computer: the home for all that the project writes, and an optional folder of datasets."""

import os
import re
import secrets
import stat
import sys
import tomllib
from contextlib import AbstractContextManager, suppress
from functools import cache
from pathlib import Path
from typing import Any

from dpcl_core.errors import BadInput, StoreTrouble, instead_of

_PACKAGE = Path(__file__).resolve().parent
_LARGEST = 10_000_000  # bytes of a file of settings or a privacy card
_SAFE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")


def home() -> Path:
    """The folder for everything the project writes: `DPCL_HOME`, else `~/.local/share/dpcl`."""
    return Path(os.environ.get("DPCL_HOME") or Path.home() / ".local" / "share" / "dpcl")


def make_folder(folder: Path) -> Path:
    """The folder, which is made where there is none: in the home, and the home itself, readable by their owner only.

    One that is there keeps its mode: whoever made it may share it, as a volume or with other machines. Raises OSError.
    """
    whole, top = folder.absolute(), home().absolute()
    if whole.is_relative_to(top):
        top.mkdir(mode=0o700, parents=True, exist_ok=True)
        for one in (*reversed(whole.parents), whole):
            if one != top and one.is_relative_to(top):
                with suppress(FileExistsError):  # a file of this name is refused below
                    one.mkdir(mode=0o700)
                    _hand_over(one)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def open_file(path: Path, flags: int, mode: int = 0o600) -> int:
    """Opens a file with `os.open`'s flags; where there is none it is made with this mode and belongs to the folder's owner.

    Raises OSError.
    """
    try:
        handle = os.open(path, flags | os.O_CREAT | os.O_EXCL, mode)  # follows no link
    except FileExistsError:
        if flags & os.O_EXCL:
            raise
        return os.open(path, flags)
    if os.name == "posix":
        os.fchmod(handle, mode)  # whatever the umask leaves out
    _hand_over(path, handle)
    return handle


def _hand_over(made_here: Path, handle: int | None = None) -> None:
    """Gives what root has just made to its folder's owner, who could not use it after one `sudo dpcl` otherwise."""
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        of = made_here.parent.stat()
        with suppress(OSError):  # a container's root, or a file system, may refuse that: it stays root's
            if handle is None:
                os.lchown(made_here, of.st_uid, of.st_gid)
            else:
                os.fchown(handle, of.st_uid, of.st_gid)


def uploads(owner: str) -> Path:
    """Where a visitor's file lies while it is on its way in; `owner`: digest of the visitor's token."""
    return home() / "uploads" / owner[:16]


def features_dir() -> Path:
    """Cached backbone features, addressed by content."""
    return home() / "features"


def codes_key() -> Path:
    """The key that seals the codes of exercises."""
    return home() / "exercise-codes.key"


def shared_dirs(what: str) -> tuple[Path, Path]:
    """Where files that serve every home are looked for: in this Python's environment, then in the user's cache.

    The cache is `~/.cache/dpcl`, or below `XDG_CACHE_HOME`.
    """
    cache_home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(sys.prefix) / "share" / "dpcl" / what, cache_home / "dpcl" / what


def network_dirs() -> tuple[Path, Path]:
    """Where fetched networks are, whatever the home is: in this Python's environment, then in the user's cache."""
    return shared_dirs("networks")


def states_dir() -> Path:
    """Kept hidden states of texts under language models, addressed by content."""
    return home() / "states"


def data_dir() -> Path | None:
    """The local folder of datasets named by `DPCL_DATA`, if there is one."""
    named = os.environ.get("DPCL_DATA")
    return Path(named) if named else None


@cache
def assets_dir() -> Path:
    """The folder of bundled files: backbones, presets, texts, published numbers."""
    installed = _PACKAGE / "assets"
    return installed if installed.exists() else _PACKAGE.parent / "assets"


def asset_table(name: str) -> dict[str, Any]:
    """What a bundled TOML file says. `name`: its path within `assets_dir`."""
    return tomllib.loads((assets_dir() / name).read_text(encoding="utf-8"))


def app_file() -> Path:
    """The app's entry file, which Streamlit runs; its pages are beside it."""
    installed = _PACKAGE / "app" / "app.py"
    return installed if installed.exists() else _PACKAGE.parent / "app.py"


def is_safe(name: str) -> bool:
    """Whether a name can be that of a folder of the user's own data."""
    return bool(_SAFE_NAME.fullmatch(name)) and ".." not in name


def slug(name: str) -> str:
    """A safe name for a folder or a file, from any name without its suffix."""
    return re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-")[:60] or "data"


def inside(folder: Path, name: str, field: str) -> Path:
    """The path `folder / name`, for names that cannot point outside the folder.

    Raises BadInput naming `field` for anything but letters, digits, `_`, `.` and `-`, and for symbolic links that lead out
    or in a circle.
    """
    if not is_safe(name):
        raise BadInput(field, name, "allowed are letters, digits, '_', '-' and '.', starting with a letter or digit")
    path, outside = folder / name, BadInput(field, name, "must stay inside its folder")
    with instead_of(OSError, RuntimeError, say=outside):  # links in a circle
        if not path.resolve().is_relative_to(folder.resolve()):
            raise outside
    return path


def keep_names(folder: Path) -> None:
    """Waits until the disk has the names in a folder, so that a power cut takes back no file that was just made in it."""
    if os.name == "posix":  # Windows opens no folder, and keeps names by itself
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def read_file(path: Path, field: str, *, at_most: int = _LARGEST) -> bytes:
    """The content of a file that somebody names, of at most so many bytes.

    Raises BadInput naming `field` for one that is missing, too large, or no regular file: a pipe may never end.
    """
    allowed, no_path = "must be a file that can be read", BadInput(field, repr(str(path)), "must be the path of a file")
    with (
        instead_of(OSError, say=lambda error: BadInput(field, str(path), f"{allowed}: {error.strerror}")),
        instead_of(ValueError, say=no_path),  # NUL, or no text
    ):
        about = path.stat()
        if not stat.S_ISREG(about.st_mode) or about.st_size > at_most:
            raise BadInput(field, str(path), f"must be a regular file of at most {at_most // 1_000_000} MB")
        return path.read_bytes()


def writing_to(folder: Path) -> AbstractContextManager[None]:
    """Errors of the file system in this context are a sentence about the folder that a command writes to."""
    said = "must be a folder that can be written"
    return instead_of(OSError, say=lambda error: BadInput("--to", str(folder), f"{said}: {error.strerror}"))


# This server's own keys: made once by the operating system, in files that only their owner can read.


N_BYTES = 32


def kept_key(path: Path, what: str) -> bytes:
    """The key in this file, which is made where there is none.

    Raises StoreTrouble, with `what` the key is of, where it cannot be kept or is damaged.
    """
    said = f"the key of {what} cannot be kept in {path.name}"
    with instead_of(OSError, say=lambda error: StoreTrouble(f"{said}: {error.strerror}")):
        if not path.exists():
            _make(path)
        key = path.read_bytes()
    if len(key) != N_BYTES:
        raise StoreTrouble(f"{path.name} in the home folder is damaged: delete it, and a new key is made")
    return key


def _make(path: Path) -> None:
    """Writes the whole key beside its place first: of two processes that begin at once, one key stays."""
    make_folder(path.parent)
    beside = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    handle = open_file(beside, os.O_WRONLY | os.O_EXCL)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(secrets.token_bytes(N_BYTES))
        with suppress(FileExistsError):
            getattr(os, "link", os.rename)(beside, path)  # a page of a browser has no links, and nobody beside it
    finally:
        beside.unlink(missing_ok=True)
