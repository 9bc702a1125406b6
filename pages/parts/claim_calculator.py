"""The calculator shared by all claims: an expander with controls, tables of terms, a run's own claim, and attacks to run.

A published claim is a `ClaimSection`: its texts, its link fields, the runs it applies to, and its arithmetic.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Callable, Hashable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

import streamlit as st

from dpcl_core import paths
from dpcl_core.elements.calculator import DELTA
from dpcl_core.events import Claim, Guarantee
from dpcl_core.figures.picture import epsilon_label, epsilon_text
from dpcl_core.methods import catalog as methods
from dpcl_core.privacy import calculator, card, labels, statement
from dpcl_core.privacy.accounting import list_budget, training_budget
from dpcl_core.privacy.audit_bounds import Audited
from dpcl_core.spec import Adjacency, PrivacySpec, RunSpec
from pages.parts import figure_card, layout, link, state
from pages.parts.text import WORDS, plain

if TYPE_CHECKING:
    from dpcl_core.attacks.play import Attack

TRIALS = 1000
UNBOUNDED = {"**accounted** by the ledger": "no bound"}


@dataclass(frozen=True)
class ClaimSection:
    """A published claim on the Privacy page.

    `fields`: its link fields, the first one for whether it is open. `source`: how the source of such a run's claim begins.
    `lines`: such a run's table rows (claimed, computed, accounted), and the inputs from which they were computed. `body`:
    draws the inside, given the run on the page if its ε is this claim.
    """

    title: str
    about: str
    fields: Sequence[link.Field[Any]]
    source: str
    lines: Callable[[Guarantee, Claim], tuple[Mapping[str, str], str]]
    body: Callable[[state.View, Guarantee | None], None]

    def is_of(self, given: Guarantee) -> bool:
        """Whether a run's ε is this claim."""
        return given.claim is not None and given.claim.source.startswith(self.source)


def draw_run_claim(claim: ClaimSection, given: Guarantee) -> None:
    """Draws a run's claimed, computed and accounted ε, and the lower bound proved by the audit at its end."""
    least = "no audit" if given.audit is None else f"at least {rounded_down(given.audit.lower_bound, 1):g}"
    assert given.claim is not None
    rows, source = claim.lines(given, given.claim)
    with layout.card("claim", "**Claimed, accounted, audited**"):
        layout.draw_table(("of this run", "ε"), [*rows.items(), ("**audited**", f"**{least}**")])
        st.caption(plain(statement.guarantee_words(given).audited or "This run was not audited."))
        st.caption(plain(source))


def bound(epsilon: float) -> str:
    """An accounted ε as text; "no bound" if infinite."""
    return "no bound" if math.isinf(epsilon) else statement.shown_number(epsilon)


def attacks(
    games: Mapping[str, Attack[Any]], play: Callable[[str], Audited], setting: Hashable, *, key: str,
    than: Callable[[Audited], str], more: Callable[[str, Audited], str] = lambda name, result: "",
) -> None:  # fmt: skip
    """Draws a button for each attack and, once run, the lower bound it proved for this `setting`.

    `games`: by name, to be played with `TRIALS` trials. `than` names what the bound is compared with: "is claimed".
    `more`: a sentence after the bound, by the attack's name.
    """
    results = st.session_state.setdefault(f"{key}s-done", {})
    for name, game in games.items():
        st.markdown(f"**{game.title}.** The attacker {game.adversary}.")
        if st.button(f"Play {2 * game.n_releases(TRIALS):,} rounds", key=f"{key}-{name}"):
            with st.spinner("Playing ..."):
                results[name, setting] = play(name)
        if (result := cast("Audited | None", results.get((name, setting)))) is not None:
            least = rounded_down(result.lower_bound)
            verdict = "more" if least > result.claimed else "no more"
            st.markdown(
                f"Audited: **ε is at least {least:.2f}**, {verdict} than {than(result)} "
                f"({100 * result.confidence:g} % confidence, {result.trials:,} releases a side, δ = {result.delta:g})."
                + more(name, result)
            )


# The answers of the calculator of steps, kept for all visitors.
#
# Not in the page's file, which runs at every visit: a function that Streamlit caches is read anew each time it is defined.


solved = st.cache_data(max_entries=500, show_spinner=False)(calculator.solve)


@st.cache_data(max_entries=500, show_spinner=False)
def best_attack(answer: calculator.Answer, rate: float, steps: int, adjacency: Adjacency) -> tuple[float, float]:
    """What the best attack on such a training gains: see `tradeoff`."""
    from dpcl_core.privacy import accounting, ledger

    best = ledger.best_attack_on([accounting.subsampled_gaussian(answer.sigma, rate, steps)], answer.delta, adjacency)
    return best.advantage, best.hits


# What lists of labels mean, in words and tables that depend on nothing.


_PEOPLE: Final = (1, 5, 20, 100, 200, 500)
LISTS: Final = (
    ("one public list", "nothing", "nothing", "noise of every task on every class"),
    ("a public list per task", "nothing, if it was public", "nothing", "an assumption"),
    ("learned under DP", "labels that many people have, within ε", "a share of ε, half of δ", "rare labels are left out"),
    ("from the data", "with certainty, who alone has a label", "**no bound**", "every promise"),
)


@figure_card.still
def leak() -> None:
    """Draws what lists of labels reveal, and which labels a learned one includes."""
    privacy = PrivacySpec(delta=DELTA)
    columns = {budget: labels.chances(*list_budget(privacy, budget, 1), _PEOPLE[-1]) for budget in (0.5, 1.0, 8.0)}
    with layout.card("leak"):
        st.markdown(WORDS["claim_calculator"]["leak"])
        layout.draw_table(("list of labels", "what the list reveals", "privacy spent", "drawback"), LISTS, names=4)
        st.markdown("**How likely a learned list includes a label**, by the number of people of a task who have it")
        heads = ("people", *(f"at ε = {epsilon_text(budget)}" for budget in columns))
        chances = {n: [_chance(column[n] / labels.ONE) for column in columns.values()] for n in _PEOPLE}
        layout.draw_table(heads, ((str(n), *cells) for n, cells in chances.items()), names=0)
        st.caption(WORDS["claim_calculator"]["learned"].format(delta=DELTA, share=privacy.label_share))


def rounded_up(value: float) -> str:
    """A privacy parameter as text, rounded up to four decimals."""
    return f"{math.ceil(value / 1e-4 - 1e-6) * 1e-4:.4f}".rstrip("0").rstrip(".")


def rounded_down(value: float, digits: int = 2) -> float:
    """What an attack proves, rounded down to so many decimals."""
    factor = 10.0**digits
    return math.floor(factor * value) / factor


def _chance(value: float) -> str:
    """A probability in percent, rounded up."""
    if value < 0.001:
        return f"{math.ceil(1e9 * value - 1e-6) / 1e7:.1g} %"
    return "> 99.9 %" if 0.999 < value < 1 else f"{math.ceil(value * 1e3 - 1e-9) / 10:g} %"


# One training accounted by three accountants, in a separate process, because one of them loads torch.


_POOL = ThreadPoolExecutor(1)  # each question is a process that loads torch: one at a time
_HEADS = ("accountant", "ε at most")
_NAMES = WORDS["accountants"]


@dataclass(frozen=True)
class Question:
    """A training to account for: its steps, and either their budget `epsilon` or their noise `sigma`."""

    sample_rate: float
    n_steps: int
    delta: float
    adjacency: Adjacency
    epsilon: float | None = None
    sigma: float | None = None


def accountants_of_run(spec: RunSpec, epsilon: float) -> Question | None:
    """The training of one task of a run at a budget; None for methods without training, or without noise."""
    steps = methods.card(spec.method).training_steps(spec.params)
    if steps is None or math.isinf(epsilon):
        return None
    left, delta = training_budget(spec.privacy, spec.labels, epsilon)
    return Question(*steps, delta, spec.privacy.adjacency, epsilon=left)


def draw_results(question: Question) -> None:
    """Draws the accountants' results, or a placeholder while they compute."""
    (_answer if _future(question).done() else _wait)(question)


@st.fragment(run_every=1.0)
def _wait(question: Question) -> None:
    """Checks every second; when done, reruns the page without a timer."""
    if _future(question).done():
        st.rerun()
    layout.draw_table(_HEADS, ((name, "…") for key, name in _NAMES.items() if key != "exact"))
    st.caption("Computing in a separate process: about ten seconds on an idle computer.")


def _answer(question: Question) -> None:
    try:
        document = _future(question).result()
    except (RuntimeError, OSError, ValueError, subprocess.TimeoutExpired) as trouble:
        st.error(f"The accountants gave no answer: {plain(str(trouble)[:300])}")
        return
    epsilons = document["accountants"]
    known = {name: epsilons[key] for key, name in _NAMES.items() if epsilons[key] is not None}
    layout.draw_table(_HEADS, ((name, f"{float(epsilon):.4f}") for name, epsilon in known.items()))
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
    return _POOL.submit(_ask, question)


def _ask(question: Question) -> dict[str, Any]:
    known, value = ("epsilon", question.epsilon) if question.sigma is None else ("sigma", question.sigma)
    command = [
        sys.executable, "-m", "dpcl_core", "account", f"--{known}", repr(value), "--delta", repr(question.delta),
        "--sample-rate", repr(question.sample_rate), "--steps", str(question.n_steps), "--adjacency", question.adjacency,
        "--accountants", "--json",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=180, cwd=paths.assets_dir().parent)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip().splitlines()[-1] if done.stderr.strip() else f"status {done.returncode}")
    return cast("dict[str, Any]", json.loads(done.stdout))


# A privacy card check: every number of an uploaded card is recomputed by the second accountant.


_verified = st.cache_data(max_entries=20, show_spinner=False)(card.verify)
_VERDICTS: dict[card.Verdict, str] = {"matches": "✓ matches", "differs": "✗ **differs**", "unchecked": "? cannot be checked"}


def check_card() -> None:
    """Draws the upload field and the verdict."""
    with layout.card("verify", "**Check a privacy card**"):
        st.markdown(WORDS["claim_calculator"]["check_card"])
        dropped = st.file_uploader("privacy_card.json", type="json", key="verify-card", max_upload_size=16)
        if dropped is not None:
            _checked(dropped.getvalue())


@state.guarded
def _checked(content: bytes) -> None:
    with st.spinner("Checking ..."):
        models = _verified(content)
    show, said = {
        0: (st.success, "Every number matches its events."),
        1: (st.error, "A number on this card does not follow from its events."),
    }.get(card.exit_status(models), (st.warning, "Parts of this card cannot be checked."))
    show(said)
    layout.draw_table(("model", "stated ε", "ε from its events", "numbers", "verdict"), map(_row, models))
    for model in models:
        if model.verdict != "matches":
            st.markdown(plain(card.sentence(model)))
    st.caption(card.CHECK_FINDS)


def _row(model: card.Checked) -> tuple[str, ...]:
    """A model's row: name, stated ε, recomputed ε, how many numbers were checked, verdict."""
    stated = span = ""
    if model.numbers:
        total = model.numbers[0]
        stated = "no bound" if math.isinf(total.stated) else f"{total.stated:.6g}"
        span = "no bound" if math.isinf(total.low) else f"{total.low:.6g} to {total.high:.6g}"
    name = f"{epsilon_label(model.cell.epsilon)}, seed {model.cell.seed}"
    return name, stated, span, str(len(model.numbers)), _VERDICTS[model.verdict]
