"""Privacy page: the statement of a run, its ledger, calculators, and composition over tasks."""

import math
from itertools import groupby
from typing import cast

import pandas as pd
import streamlit as st

from dpcl_core.elements import calculator as calculators
from dpcl_core.elements.element import CALCULATOR
from dpcl_core.errors import BadInput
from dpcl_core.events import CellFinished, Guarantee, of_kind
from dpcl_core.figures import tokens
from dpcl_core.figures.picture import Provenance, epsilon_label
from dpcl_core.methods import catalog as methods
from dpcl_core.privacy import accounting, continual, gaussian, guarantee, statement
from dpcl_core.results import Result
from dpcl_core.spec import Adjacency
from pages.parts import claim_calculator, cslr_claim, fields, figure_card, layout, lifelong_claims, link, pecl_claim, state
from pages.parts.layout import actions, heading
from pages.parts.text import WORDS, labelled, plain
from pages.parts.tuning_panel import audit_panel

CLAIMS = (lifelong_claims.CLAIM, pecl_claim.CLAIM, cslr_claim.CLAIM)
PEOPLE, PLANNED = ("1", "2", "5"), ("5", "10", "20", "50")
_TYPED = link.Text(calculators.MOST_CHARACTERS)
_GIVEN, _CHOSEN = ("epsilon", "sigma", "delta", "rate", "steps"), ("mechanism", "find", "adjacency")  # of a question
CODEC = link.Codec(
    link.Field("run", "run", "run", link.Maybe(link.Text(40)), None),
    link.Field("epsilon", "e", "ε", link.Maybe(link.BUDGET), None),
    link.Field("mechanism", "m", "mechanism", link.Choice(tuple(calculators.MECHANISMS)), "gaussian"),
    link.Field("find", "f", "what to find", link.Choice(tuple(calculators.UNKNOWNS)), "sigma"),
    link.Field("adjacency", "a", "neighbours", link.Choice(tuple(calculators.ADJACENCIES)), "add-remove"),
    link.Field("in_epsilon", "ce", "ε given", _TYPED, "1"),
    link.Field("in_sigma", "cs", "σ given", _TYPED, "3.7306"),
    link.Field("in_delta", "cd", "δ given", _TYPED, "1e-5"),
    link.Field("in_rate", "cq", "share drawn a step", _TYPED, "0.01"),
    link.Field("in_steps", "cn", "steps", _TYPED, "1"),
    link.Field("tasks", "k", "tasks with the same person", link.Whole(1, calculators.MOST_TASKS), 10),
    link.Field("task_epsilon", "ke", "ε of a task", link.Number(calculators.BUDGETS[0], calculators.BUDGETS[-1]), 1.0),
    link.Field("people", "kp", "tasks a person may be in", link.Choice(PEOPLE), PEOPLE[0]),
    link.Field("planned", "kn", "tasks planned for", link.Choice(PLANNED), PLANNED[0]),
    *(field for claim in CLAIMS for field in claim.fields),
)


def page() -> None:
    """The page."""
    view = state.View("privacy", CODEC)
    # The chosen run, at first the linked one, else the bundled example; and a notice for each that cannot be shown.
    wanted = dict.fromkeys((view["run"], st.session_state.get(view.key("run"), view["run"])))
    found = [_result_of(run_id) for run_id in wanted]
    result, run_notices = found[-1][0], [notice for _, notice in found if notice]
    place = heading("Privacy", "What is protected, and what does ε promise?", notices=[*view.read.notices, *run_notices])
    guarantee = _statement(view, result)
    own_claim = _claim(guarantee) if statement.is_nominal(guarantee) else None
    for claim in CLAIMS:
        given, flag = guarantee if claim is own_claim else None, claim.fields[0].name
        box = st.expander(claim.title, expanded=bool(view[flag]) or given is not None, key=view.key(flag), on_change="rerun")
        view.values[flag] = bool(box.open)
        if box.open:  # its inside is drawn only then
            with box:
                st.markdown(claim.about)
                claim.body(view, given)
    left, right = st.columns(2)
    with right:
        _composition(view)
        claim_calculator.leak()
    with left:
        above = st.container()
        claim_calculator.check_card()
        with above, layout.card("calculator"):  # drawn last, because for random batches the accountant has to load
            asked = _asked(view, "noise")
            if asked.mechanism == "sampled":
                try:
                    _by_losses(asked)
                except BadInput as refused:
                    st.error(plain(labelled(refused, calculators.LABELS)))
                except ValueError as unaccountable:  # one sentence, too
                    st.error(plain(str(unaccountable)))
    view.values |= {f"in_{name}": getattr(asked, name) for name in _GIVEN} | {name: getattr(asked, name) for name in _CHOSEN}
    view.commit()
    actions(place, is_shared=True, help_text=WORDS["privacy"]["help"], view=view)


def _claim(given: Guarantee) -> claim_calculator.ClaimSection:
    """The published claim that a run's ε repeats."""
    return next((claim for claim in CLAIMS if claim.is_of(given)), CLAIMS[0])


def _result_of(run_id: object) -> tuple[Result, str]:
    """A run, else the bundled example with a notice that says why."""
    if run_id is None:
        return state.example(), ""
    try:
        result = state.run_result(state.store().get(str(run_id)))
    except BadInput as refused:
        return state.example(), f"{refused}. Showing the example instead."
    if not result.guarantees:
        return state.example(), f"{result.name} has no finished model yet. Showing the example instead."
    return result, ""


def _statement(view: state.View, result: Result) -> Guarantee:
    """Draws the choice of a run and an ε, and its statement and ledger; returns the guarantee."""
    guarantees = result.guarantees
    runs: dict[str | None, str] = {None: "Example: digits, five tasks"}
    runs |= {run.id: run.name for run in state.store().list_runs(200, states=("finished",))}
    runs.setdefault(result.run_id, result.name)
    budgets = sorted(guarantees)
    with st.container(key="privacy-choice", horizontal=True, vertical_alignment="bottom", gap="small"):
        fields.select(view, "run", "Statement of", runs, width=340)
        start = None if view["epsilon"] in guarantees else _middle(budgets)
        labels, key = {each: epsilon_label(each, result.standing) for each in budgets}, view.key(f"epsilon-{result.run_id}")
        chosen = fields.segmented(view, "epsilon", "Requested ε", labels, start=start, key=key)
        view.values["epsilon"] = None if chosen == _middle(budgets) else chosen
    pecl_claim.privacy_bar(guarantees, chosen=chosen, more=False)
    pecl_claim.looks(result.spec.data.dataset)
    words = statement.guarantee_words(guarantees[chosen])
    with st.expander("Covered, not covered, assumed"):
        st.markdown(statement.exact_odds(guarantees[chosen].advantage, guarantees[chosen].hits))
        covered = (("Covered", words.covered), ("Not covered", words.not_covered))
        for title, items in (*covered, ("Assumed", words.assumptions), ("To know", words.caveats)):
            if items:
                st.markdown(f"**{title}**\n" + "\n".join(f"- {plain(item)}" for item in items))
    left, right = st.columns(2)
    with left:
        spent = _spent(result, chosen)
        if not spent.empty:
            figure_card.show(
                figure_card.built(tokens.ledger, spent), result.provenance, key="ledger",
                title="Ledger: by task and by person", note="dotted: plain sum", table=spent, linked=True,
            )  # fmt: skip
    with right:
        if statement.is_nominal(guarantees[chosen]):
            claim_calculator.draw_run_claim(_claim(guarantees[chosen]), guarantees[chosen])
        given = result.guarantees[chosen]
        names = sorted(given.parts, key=lambda name: not name.startswith("task "))
        rows = [(name, claim_calculator.bound(given.parts[name])) for name in names]
        if len(names) > 1 and all(map(math.isinf, given.parts.values())):
            rows = [(f"each of {len(names)} parts, {names[0]} to {names[-1]}", "no bound")]
        how = plain(given.composition.partition(":")[0])
        whose = f"**total for any one {guarantee.who(given.unit)}** ({how})"
        total = (whose, f"**{claim_calculator.bound(given.epsilon)}**")
        with layout.card("ledger-table"):
            st.markdown(f"**What the ledger holds** at δ = {given.delta:g}, {plain(given.adjacency.partition(':')[0])}")
            layout.draw_table(("entry", "ε at most"), [*rows, total])
        _own_cost(result, chosen)
        if (question := claim_calculator.accountants_of_run(result.spec, chosen)) is not None:
            with layout.card("accountants", "**One training, three accountants**"):
                claim_calculator.draw_results(question)
        if result.run_id is not None:
            audit_panel(state.store().get(result.run_id), always=True)
    return guarantees[chosen]


def _middle(budgets: list[float]) -> float:
    finite = [budget for budget in budgets if math.isfinite(budget)]
    return 1.0 if 1.0 in finite else finite[len(finite) // 2] if finite else budgets[0]


def _own_cost(result: Result, chosen: float) -> None:
    """Draws what a run of sums cost a person by her task: from public facts where all rows are equally long.

    Elsewhere it depends on her data, and no page shows it: the terminal of who holds the data does.
    """
    from dpcl_core.explorers import own_cost  # loads the engine

    ledger = next((one.ledger for one in of_kind(result.events, CellFinished) if one.cell.epsilon == chosen), None)
    if ledger is None or result.started is None or math.isinf(chosen) or own_cost.refusal(result.spec, ledger) is not None:
        return
    if (box := layout.folded(f"What did it cost me? At ε = {chosen:g}", "own-cost")) is None:
        return
    with box:
        if result.spec.method == own_cost.BY_CLIENT:
            st.markdown(WORDS["own_cost"]["by_client"])
            st.code(f"dpcl runs {result.run_id} --person 1", language=None)
            return
        st.markdown(WORDS["own_cost"]["equal"])
        cost = own_cost.of_everyone(result.spec, ledger, result.started.n_tasks)
        shown, rows = [statement.shown_number(value) for value in cost.alone], list[tuple[str, str]]()
        for value, tasks in groupby(range(len(shown)), shown.__getitem__):
            first, *others = tasks
            rows.append((f"one of tasks {first + 1} to {others[-1] + 1}" if others else f"task {first + 1}", value))
        if ledger.recurrence == "every":
            rows.append(("every task", statement.shown_number(cost.in_all)))
        layout.draw_table(("my row is in", "my own ε"), rows)


def _spent(result: Result, chosen: float) -> pd.DataFrame:
    """The ledger over tasks for a person in one task and for a person in all; empty if a step has no bound.

    Columns people, after_task, epsilon (so far), step (of this task only).
    """
    given = result.guarantees[chosen]
    steps = [given.parts[name] for name in given.parts if name.startswith("task ")]
    rows: list[tuple[str, int, float, float]] = []
    # The sum over tasks is a closed form where every task is one Gaussian release and nothing else.
    is_one_release = methods.card(result.spec.method).is_one_release and statement.LISTS not in given.parts
    if steps and all(map(math.isfinite, steps)) and is_one_release:
        totals = accounting.in_every_task(steps, given.delta)
        rows = [("in one task (the first)", t, steps[0], steps[0] if t == 0 else 0.0) for t in range(len(steps))]
        rows += [("in every task so far", t, totals[t], steps[t]) for t in range(len(steps))]
    return pd.DataFrame(rows, columns=["people", "after_task", "epsilon", "step"])


def _asked(view: state.View, panel: calculators.Panel) -> calculators.Question:
    """Draws a part of the browser's calculators; returns the link's question with what the browser reports."""
    said = {name: str(view[f"in_{name}"]) for name in _GIVEN} | {name: str(view[name]) for name in _CHOSEN}
    start = calculators.Question(**said, tasks=view["tasks"], task_epsilon=view["task_epsilon"])
    data, draw = calculators.document(start, (panel,)), figure_card.mounted(CALCULATOR)
    return start.changed(draw(key=view.key(panel), data=data, on_question_change=lambda: None).get("question"))


def _by_losses(asked: calculators.Question) -> None:
    """Draws the answer of the app's own accountant: for random batches the browser has a looser one."""
    given, adjacency = asked.numbers(), cast(Adjacency, asked.adjacency)
    rate, steps = given["rate"], int(given["steps"])
    with st.spinner("Computing ..."):
        numbers = {name: given.get(name) for name in ("epsilon", "sigma", "delta")}
        answer = claim_calculator.solved(**numbers, sample_rate=rate, n_steps=steps, adjacency=adjacency)
    results = {
        "epsilon": f"ε = {claim_calculator.rounded_up(answer.epsilon)}",
        "sigma": f"σ = {claim_calculator.rounded_up(answer.sigma)}",
        "delta": f"δ = {answer.delta:.4g}",
    }
    st.markdown(f"**By privacy loss distributions: {results[asked.find]}**")
    exact = statement.exact_odds(*claim_calculator.best_attack(answer, rate, steps, adjacency))
    st.markdown(statement.odds(answer.epsilon, answer.delta) + exact)
    st.caption("Upper bound as Google's dp_accounting has it, as of runs; batches drawn by Poisson sampling.")
    if st.toggle("Compare with two more accountants", key="more-accountants"):
        claim_calculator.draw_results(claim_calculator.Question(rate, steps, answer.delta, adjacency, sigma=answer.sigma))


def _composition(view: state.View) -> None:
    with layout.card("composition"):
        asked = _asked(view, "tasks")
    tasks, epsilon = asked.tasks, asked.task_epsilon
    view.values |= {"tasks": tasks, "task_epsilon": epsilon}
    provenance = Provenance("computed", None, "DP cosine classifier", epsilons=(epsilon,), delta=calculators.DELTA)
    # The noise against the number of tasks.
    people = str(fields.segmented(view, "people", "Tasks that one person may be in", {name: name for name in PEOPLE}))
    table = pd.DataFrame(_by_tasks(tasks, int(people)), columns=["factorisation", "n_tasks", "noise"])
    figure_card.show(
        figure_card.built(tokens.noise_against_tasks, table), provenance, key="noise",
        title="Must noise pile up over tasks?", table=table, linked=True,
        note="fresh noise adds up to √tasks × σ; remembered noise (square root, fitted) cancels in part",
    )  # fmt: skip
    lines = _race(tasks, gaussian.sigma(epsilon, calculators.DELTA), calculators.DELTA)
    raced = pd.DataFrame(lines, columns=["attack", "after_task", "epsilon"]).assign(is_measured=False)
    figure_card.show(
        figure_card.built(tokens.race, raced), provenance, key="race",
        title="Who watches the stream, and who sees the last model",
        note="one person, in the first task; all releases together stay within the ε asked for", table=raced, linked=True,
    )  # fmt: skip
    # Who starves where nobody knows how many tasks will come: the equal rule plans for some number.
    planned = str(fields.segmented(view, "planned", "Tasks planned for", {name: name for name in PLANNED}))
    rows = _by_rule(epsilon, calculators.DELTA, tasks, int(planned))
    table = pd.DataFrame(rows, columns=["rule", "after_task", "epsilon"])
    figure_card.show(
        figure_card.built(tokens.spending, table), provenance, key="spending",
        title="Spending one ε when nobody knows how many tasks come", table=table, linked=True,
        note="the same people in every task, except where said; a filter stops before all releases exceed the ε",
    )  # fmt: skip


_kept = st.cache_data(max_entries=64, show_spinner=False)
_by_rule, _by_tasks, _race = _kept(continual.spending), _kept(continual.noise_by_tasks), _kept(continual.race)


if __name__ == "__main__":
    page()
