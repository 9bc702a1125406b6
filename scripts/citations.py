"""Writes `assets/citations.bib` from `CITATION.cff`: BibTeX of this project and of the papers whose methods it runs.

The app shows that file and needs no YAML for it. A test compares the two. Run: python -m scripts.citations
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

import yaml

ROOT = Path(__file__).resolve().parent.parent
BIBTEX = ROOT / "assets" / "citations.bib"
_KINDS = {"software": "software", "article": "article", "conference-paper": "inproceedings"}
Entry = Mapping[str, object]


def bibtex() -> str:
    """One BibTeX entry for the project, then one for each of its references."""
    cited = cast(Entry, yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8")))
    project = {**cited, "year": str(cited["date-released"])[:4], "notes": f"Version {cited['version']}"}
    return "\n".join(map(_entry, [project, *cast(Sequence[Entry], cited["references"])]))


def _entry(cited: Entry) -> str:
    authors = cast(Sequence[Mapping[str, str]], cited["authors"])
    first = authors[0].get("family-names", "dpcl")
    fields = {
        "author": " and ".join(_name(author) for author in authors),
        "title": f"{{{cited['title']}}}",  # in braces of its own: capitals stay
        "booktitle": cited.get("collection-title"),
        "year": cited.get("year"),
        "note": cited.get("notes"),
    }
    lines = [f"  {name} = {{{value}}}," for name, value in fields.items() if value is not None]
    return "\n".join([f"@{_KINDS[str(cited['type'])]}{{{first.lower()}{cited.get('year', '')},", *lines, "}", ""])


def _name(author: Mapping[str, str]) -> str:
    """The name as BibTeX sorts it; a group's in braces, so that BibTeX reads it as one name."""
    if "name" in author:
        return f"{{{author['name']}}}"
    return f"{author['family-names']}, {author['given-names']}"


if __name__ == "__main__":
    BIBTEX.write_text(bibtex(), encoding="utf-8")
