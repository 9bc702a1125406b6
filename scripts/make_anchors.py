"""Makes assets/anchors/lists-*.json: simulated clients' lists, matched on a grid of noise and anchors for the page Anchors.

    python scripts/make_anchors.py

Public digits only; takes a quarter of a minute for each length of vector.
"""

from __future__ import annotations

import json

from dpcl_core.explorers import matching
from dpcl_core.lessons import noise

if __name__ == "__main__":
    for length in noise.LENGTHS:
        written = json.dumps(noise.document(length), separators=(",", ":"))
        matching.path(length).write_text(written + "\n", encoding="utf-8")
