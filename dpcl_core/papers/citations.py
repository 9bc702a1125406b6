"""BibTeX of this project and of the papers that a run's method comes from."""

from __future__ import annotations

import re

from dpcl_core import paths
from dpcl_core.methods import catalog as methods
from dpcl_core.spec import RunSpec

_ENTRY = re.compile(r"@\w+\{.*?^\}", re.DOTALL | re.MULTILINE)
_AUTHOR = re.compile(r"author = \{(\w+),")


def of(spec: RunSpec) -> str:
    """The entries of `assets/citations.bib` for a run: the project's own, and those whose first author its method names."""
    card = methods.CARDS.get(spec.method)
    layer = methods.layer(spec)
    named = f"{'' if card is None else card.source} {'' if layer is None else layer.source}"
    entries = _ENTRY.findall((paths.assets_dir() / "citations.bib").read_text(encoding="utf-8"))
    chosen = [one for one in entries if (author := _AUTHOR.search(one)) is None or author[1] in named]
    return "\n\n".join(chosen) + "\n"
