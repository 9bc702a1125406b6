"""Privacy page: the statement of a run, its ledger, calculators, and composition over tasks."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal, cast

import streamlit as st

from dpcl_core.errors import BadInput
from dpcl_core.events import Guarantee
from dpcl_core.figures.picture import Provenance, epsilon_label, epsilon_text
from dpcl_core.methods import catalog as methods
from dpcl_core.privacy import statement
from dpcl_core.privacy.budget import list_budget
from dpcl_core.privacy.statement import shown
from dpcl_core.results import Result
from dpcl_core.spec import Adjacency
from pages.parts.claims import accountants, calculator, cslr, l2dp_ml, pecl, privacy_bar
from pages.parts.shell import cards, figure_card, layout, link, pickers, state, stored_results, style
from pages.parts.shell.header import actions, heading
from pages.parts.shell.text import plain
from pages.parts.shell.view import View
from pages.parts.training import audit_panel

if TYPE_CHECKING:
    import pandas as pd

    from dpcl_core.privacy.calculator import Answer

Unknown = Literal["epsilon", "sigma", "delta"]
BUDGETS = (0.1, 0.2, 0.5, 1.0, 2.0, 4.0, 8.0)
DELTA = 1e-5
_LISTED = (0.5, 1.0, 8.0)
_PEOPLE = (1, 5, 20, 100, 200, 500)
UNKNOWNS: dict[str, str] = {"epsilon": "ε, from σ and δ", "sigma": "σ, from ε and δ", "delta": "δ, from ε and σ"}
ADJACENCIES: dict[str, str] = {"add-remove": "one example more or less", "replace": "one example replaced by another"}
MECHANISMS: dict[str, str] = {"gaussian": "Gaussian noise, once or more", "sampled": "DP-SGD: noise on random batches"}
CLAIMS = (l2dp_ml.CLAIM, pecl.CLAIM, cslr.CLAIM)
CODEC = link.Codec(
    [
        link.Field("run", "run", "run", link.Maybe(link.Text(40)), None),
        link.Field("epsilon", "e", "ε", link.Maybe(link.BUDGET), None),
        link.Field("mechanism", "m", "mechanism", link.Choice(tuple(MECHANISMS)), "gaussian"),
        link.Field("find", "f", "what to find", link.Choice(tuple(UNKNOWNS)), "sigma"),
        link.Field("adjacency", "a", "neighbours", link.Choice(tuple(ADJACENCIES)), "add-remove"),
        link.Field("in_epsilon", "ce", "ε given", link.Text(20), "1"),
        link.Field("in_sigma", "cs", "σ given", link.Text(20), "3.7306"),
        link.Field("in_delta", "cd", "δ given", link.Text(20), "1e-5"),
        link.Field("in_rate", "cq", "share drawn a step", link.Text(20), "0.01"),
        link.Field("in_steps", "cn", "steps", link.Text(20), "1"),
        link.Field("tasks", "k", "tasks with the same person", link.Whole(1, 50), 10),
        link.Field("task_epsilon", "ke", "ε of a task", link.Number(BUDGETS[0], BUDGETS[-1]), 1.0),
        *(field for claim in CLAIMS for field in claim.fields),
    ]
)
HELP = """**ε** bounds how much more likely any outcome becomes when one person takes part; **δ** is a small additional
slack, not the chance that ε fails; **σ** is the noise needed for them. The **ledger** records every use of private data; the
ε of a run is the total of its ledger, not the value in the form. A **privacy card** holds the ledger in a file, which anyone
can check here."""
LEAK = """**Where the list of labels comes from matters as much as the noise.** Suppose you are the only person with a
certain label. If the classifier takes its list of labels from the data, your label is on the list exactly when you took
part: one look is proof, however much noise the sums carry. That is **not DP: there is no bound**. It is not a weak ε, and no
δ below 1 repairs it. On a list that was public beforehand, the label is there either way and reveals nothing; only the noisy
sum depends on you, and the noise bounds what it reveals. A list **learned under DP** includes a label at random, and likely
only if many people have it: a single person's label appears with probability at most δ."""
LISTS = (
    ("one public list", "nothing", "nothing", "noise of every task on every class"),
    ("a public list per task", "nothing, if it was public", "nothing", "an assumption"),
    ("learned under DP", "labels that many people have, within ε", "a share of ε, half of δ", "rare labels are left out"),
    ("from the data", "with certainty, who alone has a label", "**no bound**", "every promise"),
)


def page() -> None:
    """The page."""
    view = View("privacy", lambda _: CODEC)
    result, run_notices = _linked_result(view)
    place = heading("Privacy", "What is protected, and what does ε promise?", notices=[*view.read.notices, *run_notices])
    values, guarantee = _statement(view, result)
    nominal = guarantee if statement.is_nominal(guarantee) else None
    for claim in CLAIMS:
        values |= calculator.part(claim, view, nominal if nominal is not None and claim is _claim(nominal) else None)
    left, right = st.columns(2)
    with right:
        values |= _composition(view)
        _leak()
    with left:
        above = st.container()
        _odds()
        cards.check()
        with above:  # drawn last, because on a first visit the accountant has to load
            values |= _calculator(view)
    share = view.commit(values, CODEC)
    actions(place, share=share, help_text=HELP, view=view)


def _claim(given: Guarantee) -> calculator.Claim:
    """The published claim that a run's ε repeats."""
    return next((claim for claim in CLAIMS if claim.is_of(given)), CLAIMS[0])


def _linked_result(view: View) -> tuple[Result, list[str]]:
    """The linked run, else the bundled example; and a notice if the linked run cannot be shown."""
    run_id = st.session_state.get(view.key("run"), view["run"])
    if run_id is None:
        return stored_results.example(), []
    try:
        result = stored_results.of(state.store().get(str(run_id)))
    except BadInput as refused:
        return stored_results.example(), [f"{refused}. Showing the example instead."]
    if not result.guarantees:
        return stored_results.example(), [f"{result.name} has no finished model yet. Showing the example instead."]
    return result, []


def _statement(view: View, result: Result) -> tuple[dict[str, object], Guarantee]:
    """Draws the choice of a run and an ε, and its statement and ledger; returns the link values and the guarantee."""
    guarantees = result.guarantees
    runs: dict[str | None, str] = {None: "Example: digits, five tasks"}
    runs |= {run.id: run.name for run in state.store().list_runs(200) if run.status == "finished"}
    runs.setdefault(result.run_id, result.name)
    budgets = sorted(guarantees)
    with st.container(key="privacy-choice", horizontal=True, vertical_alignment="bottom", gap="small"):
        run = pickers.select(view, "run", "Statement of", runs, width=340)
        start = view["epsilon"] if view["epsilon"] in guarantees else _middle(budgets)
        chosen = st.segmented_control(
            "Requested ε", budgets, default=start, required=True,
            format_func=lambda budget: epsilon_label(budget, result.standing), key=view.key(f"epsilon-{result.run_id}"),
        )  # fmt: skip
    chosen = chosen if chosen in guarantees else start
    privacy_bar.privacy_bar(guarantees, chosen=chosen, more=False)
    left, right = st.columns(2)
    with left:
        _full_statement(guarantees[chosen])
    with right:
        if statement.is_nominal(guarantees[chosen]):
            calculator.of_run(_claim(guarantees[chosen]), guarantees[chosen])
        _ledger(result, chosen)
        if (question := accountants.of_run(result.spec, chosen)) is not None:
            accountants.card(question)
        if result.run_id is not None:
            audit_panel.panel(state.store().get(result.run_id), always=True)
    return {"run": run, "epsilon": None if chosen == _middle(budgets) else chosen}, guarantees[chosen]


def _middle(budgets: list[float]) -> float:
    finite = [budget for budget in budgets if math.isfinite(budget)]
    return 1.0 if 1.0 in finite else finite[len(finite) // 2] if finite else budgets[0]


def _full_statement(given: Guarantee) -> None:
    words = statement.words(given)
    with layout.card("statement"):
        st.markdown("**The statement, word for word**")
        st.markdown(f"{words.headline} {words.odds}")
        covered = (("Covered", words.covered), ("Not covered", words.not_covered))
        for title, items in (*covered, ("Assumed", words.assumptions), ("To know", words.caveats)):
            if items:
                st.markdown(f"**{title}**\n" + "\n".join(f"- {plain(item)}" for item in items))


def _ledger(result: Result, chosen: float) -> None:
    from dpcl_core.figures import budget
    from dpcl_core.privacy.protected import who

    given = result.guarantees[chosen]
    spent = _spent(result, chosen)
    names = sorted(given.parts, key=lambda name: not name.startswith("task "))
    rows = [(name, calculator.bound(given.parts[name])) for name in names]
    if len(names) > 1 and all(map(math.isinf, given.parts.values())):
        rows = [(f"each of {len(names)} parts, {names[0]} to {names[-1]}", "no bound")]
    how = plain(given.composition.partition(":")[0])
    total = (f"**total for any one {who(given.unit)}** ({how})", f"**{calculator.bound(given.epsilon)}**")
    if not spent.empty:
        figure_card.show(
            budget.ledger(spent, dark=style.is_dark()), result.provenance, key="ledger",
            title="Ledger: by task and by person", note="dotted: plain sum", table=spent, share=st.query_params.to_dict(),
        )  # fmt: skip
    with layout.card("ledger-table"):
        st.markdown(f"**What the ledger holds** at δ = {given.delta:g}, {plain(given.adjacency.partition(':')[0])}")
        layout.table(("entry", "ε at most"), [*rows, total])
        st.caption(f"{statement.words(given).odds} Requested in the form: {epsilon_label(chosen)}.")


def _spent(result: Result, chosen: float) -> pd.DataFrame:
    """The ledger over tasks for a person in one task and for a person in all; empty if a step has no bound.

    Columns people, after_task, epsilon (so far), step (of this task only).
    """
    import pandas as pd

    from dpcl_core.privacy import composition

    given = result.guarantees[chosen]
    steps = [given.parts[name] for name in given.parts if name.startswith("task ")]
    columns = ["people", "after_task", "epsilon", "step"]
    # The sum over tasks is a closed form where every task is one Gaussian release and nothing else.
    is_one_release = methods.card(result.spec.method).is_one_release and statement.LISTS not in given.parts
    if not steps or not all(map(math.isfinite, steps)) or not is_one_release:
        return pd.DataFrame(columns=columns)
    totals = composition.in_every_task(steps, given.delta)
    rows = [("in one task (the first)", t, steps[0], steps[0] if t == 0 else 0.0) for t in range(len(steps))]
    rows += [("in every task so far", t, totals[t], steps[t]) for t in range(len(steps))]
    return pd.DataFrame(rows, columns=columns)


def _calculator(view: View) -> dict[str, object]:
    values: dict[str, object] = {name: view[name] for name in ("in_epsilon", "in_sigma", "in_delta", "in_rate", "in_steps")}
    with layout.card("calculator"):
        st.markdown("**How much noise does an ε need?**")
        values["mechanism"] = _radio(view, "mechanism", "Mechanism", MECHANISMS)
        values["find"] = _radio(view, "find", "Find", UNKNOWNS)
        values["adjacency"] = _radio(view, "adjacency", "Neighbouring datasets differ by", ADJACENCIES)
        wanted = str(values["find"])
        is_sampled = values["mechanism"] == "sampled"
        texts = {}
        with st.container(horizontal=True, gap="small"):
            for name, title in (("epsilon", "ε"), ("sigma", "σ (noise multiplier)"), ("delta", "δ")):
                if name != wanted:
                    texts[name] = _text(view, f"in_{name}", title)
            if is_sampled:
                texts["rate"] = _text(view, "in_rate", "share drawn a step")
            texts["steps"] = _text(view, "in_steps", "steps")
        values |= {f"in_{name}": text for name, text in texts.items()}
        try:
            _answer(cast(Unknown, wanted), texts, cast(Adjacency, values["adjacency"]), is_sampled=is_sampled)
        except ValueError as refused:  # BadInput and Unaccountable: one sentence each
            st.error(plain(str(refused)))
    return values


def _radio(view: View, name: str, title: str, options: dict[str, str]) -> str:
    start, key = list(options).index(str(view[name])), view.key(name)
    return st.radio(title, list(options), start, format_func=options.__getitem__, key=key, horizontal=True)


def _text(view: View, name: str, title: str) -> str:
    return st.text_input(title, str(view[name]), key=view.key(name), max_chars=20, width=150)


def _answer(wanted: Unknown, texts: dict[str, str], adjacency: Adjacency, *, is_sampled: bool) -> None:
    given = {name: _number(name, texts[name]) for name in ("epsilon", "sigma", "delta") if name != wanted}
    rate = _number("sample_rate", texts["rate"]) if is_sampled else 1.0
    steps = _whole("steps", texts["steps"])
    with st.spinner("Computing ..."):
        answer = _solved(given.get("epsilon"), given.get("sigma"), given.get("delta"), rate, steps, adjacency)
    results = {
        "epsilon": f"ε = {_up(answer.epsilon)}",
        "sigma": f"σ = {_up(answer.sigma)}",
        "delta": f"δ = {answer.delta:.4g}",
    }
    how = f"{steps:,} step{'s' if steps != 1 else ''}" + (f", each on a random share of {rate:g}" if is_sampled else "")
    st.markdown(f"## {results[wanted]}")
    st.markdown(
        f"Gaussian noise of {results['sigma']} times the largest change that one example can make, {how}, is "
        f"({results['epsilon']}, {results['delta']})-DP when neighbouring datasets differ by **{ADJACENCIES[adjacency]}**."
    )
    exact = statement.exact_odds(*_best_attack(answer, rate, steps, adjacency))
    st.markdown(statement.odds(answer.epsilon, answer.delta) + exact)
    if not is_sampled:
        st.caption("Exact, in closed form (Balle and Wang 2018). σ and ε are rounded up.")
    else:
        st.caption("Upper bound by privacy loss distributions (Google's dp_accounting), batches drawn by Poisson sampling.")
        if st.toggle("Compare with two more accountants", key="more-accountants"):
            accountants.shown(accountants.Question(rate, steps, answer.delta, adjacency, sigma=answer.sigma))


@st.cache_data(max_entries=500, show_spinner=False)
def _solved(
    epsilon: float | None, sigma: float | None, delta: float | None, rate: float, steps: int, adjacency: Adjacency
) -> Answer:
    from dpcl_core.privacy import calculator  # loads the accountant, which takes a second

    return calculator.solve(epsilon=epsilon, sigma=sigma, delta=delta, sample_rate=rate, n_steps=steps, adjacency=adjacency)


@st.cache_data(max_entries=500, show_spinner=False)
def _best_attack(answer: Answer, rate: float, steps: int, adjacency: Adjacency) -> tuple[float, float]:
    from dpcl_core.privacy import accounting, tradeoff

    best = tradeoff.of_events([accounting.subsampled_gaussian(answer.sigma, rate, steps)], answer.delta, adjacency)
    return best.advantage, best.hits


def _number(field: str, text: str) -> float:
    try:
        return float(text.strip().replace("∞", "inf"))
    except ValueError:
        raise BadInput(field, text, "must be a number") from None


def _whole(field: str, text: str) -> int:
    if not text.strip().isdecimal() or not 1 <= int(text) <= 10**7:
        raise BadInput(field, text, "must be a whole number from 1 to 10,000,000")
    return int(text)


def _up(value: float, digits: int = 4) -> str:
    """A privacy parameter as text, rounded up."""
    step = 10.0**-digits
    return f"{math.ceil(value / step - 1e-6) * step:.{digits}f}".rstrip("0").rstrip(".")


def _composition(view: View) -> dict[str, object]:
    from dpcl_core.figures import budget
    from dpcl_core.privacy import composition, gaussian

    with layout.card("composition"):
        st.markdown("**One person in several tasks**")
        tasks = st.slider("Tasks with the same person", 1, 50, cast(int, view["tasks"]), key=view.key("tasks"))
        start, key = cast(float, view["task_epsilon"]), view.key("task_epsilon")
        epsilon = st.select_slider("ε of each task", sorted({*BUDGETS, start}), start, format_func=epsilon_text, key=key)
        total = composition.in_every_task([epsilon] * tasks, DELTA)[-1]
        in_sum = f"ε = {shown(tasks * epsilon)}, δ = {tasks * DELTA:g}"
        layout.table(("person", f"total at δ = {DELTA:g}", "right guesses at most"), (
            ("in one task only (parallel)", f"ε = {shown(epsilon)}", _percent(epsilon)),
            (f"in {tasks} tasks (sequential, exact)", f"ε = {_up(total, 3)}", _percent(total)),
            (f"in {tasks} tasks, plain sum", in_sum, _percent(tasks * epsilon, tasks * DELTA)),
        ))  # fmt: skip
        st.caption(
            "Each task is one Gaussian release, add/remove of one example. Parallel composition holds only if no person is "
            "in two tasks and each record's task depends on that record only."
        )
    noise = composition.noise_over_tasks(gaussian.sigma(epsilon, DELTA), tasks)
    picture = budget.noise_growth(noise, dark=style.is_dark())
    provenance = Provenance("computed", None, "DP cosine classifier", epsilons=(epsilon,), delta=DELTA)
    figure_card.show(
        picture, provenance, key="noise", title="How noise grows over tasks",
        note=f"variance after {tasks} task{'s' if tasks != 1 else ''}: {tasks} × σ² with one public list, 1 × σ² otherwise",
        share=st.query_params.to_dict(),
    )  # fmt: skip
    return {"tasks": tasks, "task_epsilon": epsilon}


def _percent(epsilon: float, delta: float = DELTA) -> str:
    return f"{math.ceil(statement.odds_bound(epsilon, delta) * 1e4 - 1e-6) / 100:g} %"


def _odds() -> None:
    from dpcl_core.privacy import gaussian

    sigmas = {epsilon: gaussian.sigma(epsilon, DELTA) for epsilon in BUDGETS}
    with layout.card("odds"):
        st.markdown("**ε as odds**: how often can a guess whether someone took part be right?")
        layout.table(("ε", "worst case, at most", "one Gaussian release", "its σ"), (
            (epsilon_text(epsilon), _percent(epsilon), f"{100 * statement.gaussian_odds_bound(sigma):.1f} %", _up(sigma))
            for epsilon, sigma in sigmas.items()
        ), names=0)  # fmt: skip
        st.caption(
            f"δ = {DELTA:g}. Taking part and not taking part are equally likely beforehand. The attacker sees the release "
            "and knows everything else. The worst case holds for any mechanism with this ε; the third column is exact for "
            "the Gaussian release used here."
        )


def _leak() -> None:
    from dpcl_core.privacy import partition
    from dpcl_core.spec import PrivacySpec

    privacy = PrivacySpec(delta=DELTA)
    columns = {budget: partition.chances(*list_budget(privacy, budget, 1), _PEOPLE[-1]) for budget in _LISTED}
    with layout.card("leak"):
        st.markdown(LEAK)
        layout.table(("list of labels", "what the list reveals", "privacy spent", "drawback"), LISTS, names=4)
        st.markdown("**How likely a learned list includes a label**, by the number of people of a task who have it")
        heads = ("people", *(f"at ε = {epsilon_text(budget)}" for budget in columns))
        chances = {n: [_chance(column[n] / partition.ONE) for column in columns.values()] for n in _PEOPLE}
        layout.table(heads, ((str(n), *cells) for n, cells in chances.items()), names=0)
        st.caption(
            f"δ = {DELTA:g}, one task; {privacy.label_share:.0%} of ε and half of δ pay for the list. Exact; no other list "
            "at this ε and δ includes more labels (Desfontaines et al. 2022)."
        )


def _chance(value: float) -> str:
    """A probability in percent, rounded up."""
    if value < 0.001:
        return f"{math.ceil(1e9 * value - 1e-6) / 1e7:.1g} %"
    return "> 99.9 %" if 0.999 < value < 1 else f"{math.ceil(value * 1e3 - 1e-9) / 10:g} %"


if __name__ == "__main__":
    page()
