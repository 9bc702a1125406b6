"""Makes a dataset of sensor windows of your own from raw accelerometer recordings.

    python -m scripts.prepare_sensors FOLDER RECORDING.csv [RECORDING.csv ...]

Each recording has the columns time (s), x, y, z (m/s^2), activity and subject, one row a sample. FOLDER/train.parquet and
FOLDER/test.parquet are written; where FOLDER is in DPCL_DATA (or in DPCL_HOME/data), the app lists it as own:FOLDER.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from dpcl_core.data import arrays
from dpcl_core.errors import BadInput


def main() -> int:
    """Prepares what the command line names. Returns 1 where it cannot, with one sentence saying why."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("recordings", type=Path, nargs="+")
    chosen = parser.parse_args()
    try:
        counts = arrays.prepare(chosen.recordings, chosen.folder)
    except BadInput as refused:
        print(refused, file=sys.stderr)
        return 1
    print(f"{counts['train']} training and {counts['test']} test windows in {chosen.folder}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
