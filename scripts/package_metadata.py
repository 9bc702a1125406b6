"""What the index of packages shows: README.md with links that lead somewhere there, and the project's addresses.

Hatchling runs this file when it builds (`[tool.hatch.metadata.hooks.custom]`). `DPCL_REPOSITORY`: the address of the public
repository, which the workflow of a release sets. Without it a link to a file becomes its words, and a picture is left out:
no address is made up.
"""

import os
import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_LINK = re.compile(r"(!?)\[([^\]]*)\]\((?!\w+://)([^)#]+)(#[^)]*)?\)")


class Metadata(MetadataHookInterface):  # type: ignore[misc]  # the library has no types
    """Fills in `readme` and `urls`."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Changes the metadata in place."""
        root, address = Path(self.root), os.environ.get("DPCL_REPOSITORY", "").rstrip("/")
        (version,) = re.findall(r'__version__ = "(.+)"', (root / "dpcl_core" / "version.py").read_text(encoding="utf-8"))
        text = described((root / "README.md").read_text(encoding="utf-8"), address, f"v{version}")
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
        if address:
            places = {"Source": "", "Issues": "/issues", "Changelog": f"/blob/v{version}/CHANGELOG.md"}
            metadata["urls"] = {name: f"{address}{place}" for name, place in places.items()}


def described(readme: str, address: str, tag: str) -> str:
    """README.md for readers who have no checkout."""

    def linked(found: re.Match[str]) -> str:
        mark, words, path, part = found.groups()
        if not address:
            return "" if mark else words
        return f"{mark}[{words}]({address}/{'raw' if mark else 'blob'}/{tag}/{path}{part or ''})"

    return _LINK.sub(linked, readme)
