"""Optional Python packages, and the extra of this project that installs each."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.util import find_spec

EXTRAS = {
    "torch": "torch",
    "opacus": "torch",
    "timm": "vision",
    "torchvision": "vision",
    "transformers": "text",
    "peft": "text",
    "gguf": "text",
    "sentence_transformers": "text",
    "optuna": "tune",
    "psycopg": "postgres",
    "flwr": "flower",
    "ray": "ray",
    "authlib": "login",
    "openpyxl": "excel",
}


def lacking(packages: Iterable[str]) -> str | None:
    """The end of a sentence that says what to install; None if all packages are installed. Imports none of them."""
    absent = [package for package in packages if find_spec(package) is None]
    if not absent:
        return None
    extras = ",".join(dict.fromkeys(EXTRAS[package] for package in absent))
    return f"needs {' and '.join(absent)}: pip install 'dpcl[{extras}]'"
