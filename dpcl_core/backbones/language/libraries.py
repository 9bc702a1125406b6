"""Importing this module loads the libraries of language models, for a process that waits for a run.

About 5 s and 130 MB in addition to torch (2026-11-21). All other code loads them at first use, so that a run's events about
its texts before training do not wait for them.
"""

from __future__ import annotations

import torch  # noqa: F401

from dpcl_core.backbones.torchvision_shim import ensure_torchvision

ensure_torchvision()  # before the two below

import peft  # noqa: E402, F401
from transformers import GPT2LMHeadModel  # noqa: E402, F401
