"""One training before three accountants. They run in a process of their own, because one of them loads torch."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import streamlit as st

from dpcl_core import paths
from dpcl_core.methods import catalog as methods
from dpcl_core.privacy.budget import training_budget
from dpcl_core.spec import Adjacency, RunSpec
from pages.parts.claims.calculator import table
from pages.parts.shell import layout
from pages.parts.shell.text import plain

_SECONDS = 180
_HEADS = ("accountant", "ε at most")
_NAMES = {
    "pld": "PLD, privacy loss distributions: **the one that counts here**",
    "exact": "closed form, where nothing is sampled",
    "prv": "PRV, privacy random variables (Opacus), its own error bound included",
    "rdp": "RDP, Rényi divergences: valid, never tight",
}


@dataclass(frozen=True)
class Question:
    """A training: its steps, what they may cost, or the noise they have (one of the two is given)."""

    sample_rate: float
    n_steps: int
    delta: float
    adjacency: Adjacency
    epsilon: float | None = None
    sigma: float | None = None

    def options(self) -> list[str]:
        """As the command line asks it."""
        given = ["--epsilon", repr(self.epsilon)] if self.sigma is None else ["--sigma", repr(self.sigma)]
        steps = ["--sample-rate", repr(self.sample_rate), "--steps", str(self.n_steps), "--adjacency", self.adjacency]
        return [*given, "--delta", repr(self.delta), *steps]


def of_run(spec: RunSpec, epsilon: float) -> Question | None:
    """The training of each task of a run at a budget; None where nothing is trained, or without noise."""
    steps = methods.card(spec.method).training_steps(spec.params)
    if steps is None or math.isinf(epsilon):
        return None
    left, delta = training_budget(spec.privacy, spec.labels, epsilon)
    return Question(*steps, delta, spec.privacy.adjacency, epsilon=left)


def card(question: Question) -> None:
    """What each accountant says of a run's training, as soon as they have answered."""
    with layout.card("accountants"):
        st.markdown("**The same training before three accountants**")
        shown(question)


def shown(question: Question) -> None:
    """The accountants' answer, or words and its place while they compute."""
    if _asked(question).done():
        _answer(question)
    else:
        _wait(question)


@st.fragment(run_every=1.0)
def _wait(question: Question) -> None:
    """Looks once a second; the last look starts the page anew, without a timer."""
    if _asked(question).done():
        st.rerun()
    table(_HEADS, ((name, "…") for key, name in _NAMES.items() if key != "exact"))
    st.caption("Asking them, in a process of their own: about ten seconds on an idle computer.")


def _answer(question: Question) -> None:
    try:
        found = _asked(question).result()
    except (RuntimeError, OSError, ValueError, subprocess.TimeoutExpired) as trouble:
        st.error(f"The accountants gave no answer: {plain(str(trouble)[:300])}")
        return
    said = found["accountants"]
    table(_HEADS, ((name, f"{float(said[key]):.4f}") for key, name in _NAMES.items() if said[key] is not None))
    if not said["agree"]:
        st.error("They contradict each other: one accountant is wrong. This is a fault of the app: report it.")
    how = f"each on a random share of {question.sample_rate:g}" if question.sample_rate < 1 else "each on all examples"
    silent = "" if said["prv"] is not None or said["exact"] is not None else " PRV does not know these steps."
    st.caption(
        f"The training of one task: {question.n_steps:,} steps, {how}, σ = {found['sigma']:.4f}, at δ = {question.delta:g}, "
        f"{question.adjacency}.{silent}"
    )


@st.cache_resource(max_entries=100, show_spinner=False)
def _asked(question: Question) -> Future[dict[str, Any]]:
    return _pool().submit(_ask, question)


@st.cache_resource(show_spinner=False)
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(1)  # each question is a process that loads torch: one at a time


def _ask(question: Question) -> dict[str, Any]:
    command = [sys.executable, "-m", "dpcl_core", "account", *question.options(), "--accountants", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, cwd=paths.assets_dir().parent)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip().splitlines()[-1] if done.stderr.strip() else f"status {done.returncode}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found
