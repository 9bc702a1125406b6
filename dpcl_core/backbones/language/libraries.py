"""What language models bring along, loaded by importing this: for a process that gets ready before it has a run.

Some 5 s and 130 MB beside torch (2026-11-21). Everything else loads these where it first needs them, so that what a run says
of its texts before it trains does not wait for them.
"""

from __future__ import annotations

import torch  # noqa: F401

from dpcl_core.backbones.torchvision_shim import ensure_torchvision

ensure_torchvision()  # before the two below

import peft  # noqa: E402, F401
from transformers import GPT2LMHeadModel  # noqa: E402, F401
