"""The settings that a command line describes."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from dpcl_core import checks, paths
from dpcl_core.errors import BadInput
from dpcl_core.spec import RunSpec

if TYPE_CHECKING:
    from dpcl_core.data.intake import Asked

_OF_A_FILE = ("target", "text", "source", "person", "time", "per_person", "first_line", "private")  # options beside --data


def spec_of(options: argparse.Namespace) -> RunSpec:
    from dpcl_core import presets

    if named := [role for role in _OF_A_FILE if getattr(options, role, None) not in (None, [])]:
        option = "header" if named[0] == "first_line" else named[0].replace("_", "-")
        raise BadInput("command line", f"--{option}", "is said of a file: give --data PATH, too")
    if options.spec is not None and options.preset is not None:
        raise BadInput("command line", options.spec, "give either a SPEC.toml or --preset NAME, not both")
    raw: Mapping[str, object] = {}
    if options.preset is not None:
        raw = presets.raw_startable(options.preset)
    elif options.spec is None:  # settings alone are enough: the command printed with every result has only these
        if not options.set:
            raise BadInput("command line", "", "give a SPEC.toml, --preset NAME, or settings as --set KEY=VALUE")
    else:
        try:
            raw = checks.read_toml(paths.read_file(Path(options.spec), "SPEC.toml").decode("utf-8"))
        except UnicodeDecodeError as error:
            raise BadInput("SPEC.toml", options.spec, "must be a text file that can be read") from error
    return checks.parse(checks.apply_sets(raw, options.set))


def asked_of(options: argparse.Namespace) -> Asked:
    """What the command line says of the columns of a file."""
    from dpcl_core.data.intake import Asked
    from dpcl_core.data.schema import Columns

    columns = Columns(**{role: getattr(options, role) for role in Columns.model_fields})
    return Asked(columns, options.per_person, options.first_line, private=tuple(options.private))


def spec_of_stored(options: argparse.Namespace) -> RunSpec:
    """The spec of a stored run. Raises BadInput for an unknown run, or if other settings are given too."""
    from dpcl_core.cli import waiting

    if options.set or any((options.spec, options.preset, options.attack, options.trials)):
        raise BadInput("--run", options.run, "cannot be combined with other settings: the audit uses the run's own")
    return waiting.opened(options.store).get_with_results(options.run).spec
