"""Codes to hand in: which exercises of a part were right under an invented name, sealed with this server's key.

A code is NAME-PART LETTERS-MARK-SEAL, as in `amber-fox-2acd-XKW-QTPMRB3D`. The mark says whose key it was, the seal is a
keyed checksum (HMAC-SHA256, 40 bits) of name, part and letters. It proves that this server has checked these answers, not
who typed them.
"""

from __future__ import annotations

import hmac
import os
import re
import secrets
from base64 import b32encode
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from unicodedata import normalize

from dpcl_core import paths
from dpcl_core.errors import BadInput, StoreTrouble

SHORTEST, LONGEST = 2, 24  # characters of a name
MOST = 500  # codes that are read at once: seals cannot be guessed
_KEY_BYTES = 32
_NAME = re.compile(r"[^\W_]+(?: [^\W_]+)*")
_CODE = re.compile(r"(?P<said>(?P<name>.+)-(?P<part>[1-9])(?P<right>[a-z]*))-(?P<mark>[a-z2-7]{3})-(?P<seal>[a-z2-7]{8})")


@dataclass(frozen=True, slots=True)
class Handed:
    """What a valid code says: the name, the number of the part from 1, and the letters of the exercises that were right."""

    name: str
    part: int
    right: str


def clean_name(typed: str) -> str:
    """A name as codes have it: small letters and digits, words with one blank between. Raises BadInput for anything else."""
    cleaned = " ".join(normalize("NFKC", typed).casefold().replace("-", " ").split())
    if not SHORTEST <= len(cleaned) <= LONGEST or not _NAME.fullmatch(cleaned):
        raise BadInput("name", typed[:LONGEST], f"must be {SHORTEST} to {LONGEST} letters, digits and blanks")
    return cleaned


def sealed(handed: Handed) -> str:
    """The code to hand in. Raises StoreTrouble where the key cannot be kept."""
    key, said = _key(), f"{handed.name.replace(' ', '-')}-{handed.part}{handed.right}"
    return f"{said}-{_mark(key)}-{_seal(key, said)}"


def opened(code: str) -> Handed:
    """What a code says, in capitals or not. Raises BadInput for one of another server, a changed one, and other text."""
    read = _CODE.fullmatch(normalize("NFKC", code).casefold())
    if read is None:
        raise BadInput("code", code[:60], "is no code: it should look like amber-fox-2acd-XKW-QTPMRB3D")
    key = _key()
    if read["mark"].upper() != _mark(key):
        says = f"was made on another server, or mistyped: codes of this one have {_mark(key)} before their end"
        raise BadInput("code", code[:60], says)
    if not hmac.compare_digest(read["seal"].upper(), _seal(key, read["said"])):
        raise BadInput("code", code[:60], "was changed or mistyped: its end does not fit the rest")
    return Handed(read["name"].replace("-", " "), int(read["part"]), read["right"])


def listed(pasted: str) -> list[str]:
    """The codes in a text, which blanks, commas, semicolons or new lines separate. Raises BadInput for more than `MOST`."""
    found = [each for each in re.split(r"[\s,;]+", pasted) if each]
    if len(found) > MOST:
        raise BadInput("codes", len(found), f"at most {MOST} at once")
    return found


def _seal(key: bytes, said: str) -> str:
    return b32encode(hmac.digest(key, said.encode(), "sha256")[:5]).decode()


def _mark(key: bytes) -> str:
    return b32encode(sha256(b"mark" + key).digest()[:5]).decode()[:3]


def _key() -> bytes:
    """This server's key, made once by the operating system; only its owner can read the file."""
    path = paths.codes_key()
    try:
        if not path.exists():
            _make(path)
        key = path.read_bytes()
    except OSError as error:
        raise StoreTrouble(f"the key of exercise codes cannot be kept in {path.name}: {error.strerror}") from error
    if len(key) != _KEY_BYTES:
        raise StoreTrouble(f"{path.name} in the home folder is damaged: delete it, and a new key is made")
    return key


def _make(path: Path) -> None:
    """Writes the whole key beside its place first: of two processes that begin at once, one key stays."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(secrets.token_bytes(_KEY_BYTES))
        with suppress(FileExistsError):
            os.link(beside, path)
    finally:
        beside.unlink()
