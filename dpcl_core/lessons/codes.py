"""Codes to hand in: which exercises of a part were right under an invented name, sealed with this server's key.

A code is NAME-PART LETTERS-MARK-SEAL, as in `amber-fox-2acd-XKW-QTPMRB3D`. The mark says whose key it was, the seal is a
keyed checksum (HMAC-SHA256, 40 bits) of name, part and letters. It proves that this server has checked these answers, not
who typed them.
"""

from __future__ import annotations

import hmac
import re
from base64 import b32encode
from dataclasses import dataclass
from hashlib import sha256
from unicodedata import normalize

from dpcl_core import keys, paths
from dpcl_core.errors import BadInput

SHORTEST, LONGEST = 2, 24  # characters of a name
MOST = 500  # codes that are read at once: seals cannot be guessed
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
    """This server's key."""
    return keys.kept(paths.codes_key(), "exercise codes")
