"""One training accounted by three accountants, in a separate process, because one of them loads torch."""

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
from pages.parts.shell import layout
from pages.parts.shell.text import plain

_SECONDS = 180
_HEADS = ("accountant", "ε at most")
_NAMES = {
    "pld": "PLD, privacy loss distributions: **used here**",
    "exact": "closed form, for steps without sampling",
    "prv": "PRV, privacy random variables (Opacus), error bound included",
    "rdp": "RDP, Rényi divergences: valid but not tight",
}


@dataclass(frozen=True)
class Question:
    """A training to account for: its steps, and either their budget `epsilon` or their noise `sigma`."""

    sample_rate: float
    n_steps: int
    delta: float
    adjacency: Adjacency
    epsilon: float | None = None
    sigma: float | None = None

    def options(self) -> list[str]:
        """The question as command-line options."""
        given = ["--epsilon", repr(self.epsilon)] if self.sigma is None else ["--sigma", repr(self.sigma)]
        steps = ["--sample-rate", repr(self.sample_rate), "--steps", str(self.n_steps), "--adjacency", self.adjacency]
        return [*given, "--delta", repr(self.delta), *steps]


def of_run(spec: RunSpec, epsilon: float) -> Question | None:
    """The training of one task of a run at a budget; None for methods without training, or without noise."""
    steps = methods.card(spec.method).training_steps(spec.params)
    if steps is None or math.isinf(epsilon):
        return None
    left, delta = training_budget(spec.privacy, spec.labels, epsilon)
    return Question(*steps, delta, spec.privacy.adjacency, epsilon=left)


def card(question: Question) -> None:
    """Draws the ε of a run's training by each accountant, once computed."""
    with layout.card("accountants"):
        st.markdown("**One training, three accountants**")
        shown(question)


def shown(question: Question) -> None:
    """Draws the accountants' results, or a placeholder while they compute."""
    if _future(question).done():
        _answer(question)
    else:
        _wait(question)


@st.fragment(run_every=1.0)
def _wait(question: Question) -> None:
    """Checks every second; when done, reruns the page without a timer."""
    if _future(question).done():
        st.rerun()
    layout.table(_HEADS, ((name, "…") for key, name in _NAMES.items() if key != "exact"))
    st.caption("Computing in a separate process: about ten seconds on an idle computer.")


def _answer(question: Question) -> None:
    try:
        document = _future(question).result()
    except (RuntimeError, OSError, ValueError, subprocess.TimeoutExpired) as trouble:
        st.error(f"The accountants gave no answer: {plain(str(trouble)[:300])}")
        return
    epsilons = document["accountants"]
    known = {name: epsilons[key] for key, name in _NAMES.items() if epsilons[key] is not None}
    layout.table(_HEADS, ((name, f"{float(epsilon):.4f}") for name, epsilon in known.items()))
    if not epsilons["agree"]:
        st.error("The accountants contradict each other, so one of them is wrong. This is a fault of the app: report it.")
    how = f"each on a random share of {question.sample_rate:g}" if question.sample_rate < 1 else "each on all examples"
    prv_note = "" if epsilons["prv"] is not None or epsilons["exact"] is not None else " PRV cannot account for these steps."
    st.caption(
        f"The training of one task: {question.n_steps:,} steps, {how}, σ = {document['sigma']:.4f}, "
        f"at δ = {question.delta:g}, {question.adjacency}.{prv_note}"
    )


@st.cache_resource(max_entries=100, show_spinner=False)
def _future(question: Question) -> Future[dict[str, Any]]:
    return _pool().submit(_ask, question)


@st.cache_resource(show_spinner=False)
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(1)  # each question is a process that loads torch: one at a time


def _ask(question: Question) -> dict[str, Any]:
    command = [sys.executable, "-m", "dpcl_core", "account", *question.options(), "--accountants", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, cwd=paths.assets_dir().parent)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip().splitlines()[-1] if done.stderr.strip() else f"status {done.returncode}")
    document: dict[str, Any] = json.loads(done.stdout)
    return document
