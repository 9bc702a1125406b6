"""The text that the Tokens page looks at: an example, a text of the visitor's own, or one that a run has told of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, cast

import streamlit as st

from dpcl_core.data import catalog as datasets
from dpcl_core.data import showing
from dpcl_core.events import ScoredText, TokensScored
from dpcl_core.figures.picture import epsilon_label
from dpcl_core.results import Result
from pages.parts.shell import link, pickers, state, stored_results
from pages.parts.shell.text import plain
from pages.parts.shell.view import View

if TYPE_CHECKING:
    from dpcl_core.lessons.surprise import Corpus

EXAMPLE, OWN, RUN = "example", "own", "run"
SHOWS = {EXAMPLE: "An example", OWN: "My own text", RUN: "A run"}
MODELS = {"base": "before training (frozen public model)", "current": "after training on the task"}
MAX_CHARACTERS = 100_000
PART_CHARACTERS = 5_000  # of a long text at once: some 2,000 tokens
WHY_NOT = """Nothing is shown yet. **A picture of exact scores is a full leak of its text**: each token's number tells how
likely the model found it, and so does the noise that follows from it. So this page takes public or made-up text only. Tick
the box if yours is; otherwise take an example. What you type stays on the computer that runs this app, and is not put into
the link."""
FIELDS = [
    link.Field("show", "sh", "text", link.Choice(tuple(SHOWS)), EXAMPLE),
    link.Field("source", "k", "family of texts", link.Whole(1, 6), 2),
    link.Field("number", "n", "number of the text", link.Whole(1, 1000), 1),
    link.Field("run", "run", "run", link.Maybe(link.Text(40)), None),
    link.Field("task", "t", "task", link.Maybe(link.Whole(1, 100)), None),
    link.Field("model", "m", "model", link.Choice(tuple(MODELS)), "base"),
    link.Field("epsilon", "e", "ε", link.Maybe(link.BUDGET), None),
]


@dataclass(frozen=True)
class Looked:
    """What is looked at. `text`: None where there is nothing to show, and `why` then says why; `name`: what it is a text of.

    `is_bundled`: scored by the bundled model, so that its noisy embeddings can be shown. `result`: the run, where it is one.
    """

    name: str
    text: ScoredText | None = None
    why: str = ""
    is_warning: bool = False
    is_bundled: bool = True
    result: Result | None = None
    epsilon: float | None = None
    values: Mapping[str, object] = field(default_factory=dict)


def choose(view: View) -> Looked:
    """The controls that say which text, and the text; `values` of it go into the link."""
    options = list(SHOWS)
    asked = str(view["show"]) if view["run"] is None else RUN
    picked = st.segmented_control(
        "Text", options, default=asked, format_func=SHOWS.__getitem__, required=True, key=view.key("show")
    )
    show = picked or asked
    looked = {EXAMPLE: _example, OWN: _own, RUN: _of_run}[show](view)
    kept = {name: view[name] for name in ("source", "number", "task", "model", "epsilon")}
    values = {**kept, "run": None, "show": show, **looked.values}
    return replace(looked, values=values)


def _example(view: View) -> Looked:
    told = corpus()
    source = st.selectbox(
        "Family of texts",
        range(1, len(told.sources) + 1),
        index=int(str(view["source"])) - 1,
        format_func=lambda place: f"{place}. {told.sources[place - 1]}",
        key=view.key("source"),
    )
    n_texts = len(told.texts[source - 1])
    start = min(int(str(view["number"])), n_texts)
    number = int(st.number_input(f"Text, 1 to {n_texts}", 1, n_texts, start, key=view.key("number")))
    text = _scored(source - 1, number - 1)
    name = f"synthetic text {number} of “{told.sources[source - 1]}”, class “{text.label}”"
    return Looked(name, text, values={"source": source, "number": number})


def _own(view: View) -> Looked:
    written = st.text_area(
        "Your text", key="tokens-own", max_chars=MAX_CHARACTERS, height=160,
        help="Public or made-up text only. It is read by the bundled model on this computer.",
    )  # fmt: skip
    is_public = st.checkbox("This text is public or made up", key="tokens-own-public")
    if not written.strip():
        return Looked("your text", why="Type or paste a text above; the examples show what comes of it.")
    if len(written) > MAX_CHARACTERS:
        long = f"Your text has {len(written):,} characters; it must have at most {MAX_CHARACTERS:,}."
        return Looked("your text", why=long, is_warning=True)
    if not is_public:
        return Looked("your text", why=WHY_NOT, is_warning=True)
    parts = in_parts(written)
    part = 1
    if len(parts) > 1:
        st.caption(f"{len(written):,} characters are shown in {len(parts)} parts; the model reads each by itself.")
        part = int(st.number_input(f"Part, 1 to {len(parts)}", 1, len(parts), 1, key=f"tokens-part-{len(parts)}"))
    return Looked("your text, which you marked as public or made up", _scored_own(parts[part - 1]))


def in_parts(text: str) -> list[str]:
    """The text in parts of at most `PART_CHARACTERS` characters, cut at a blank where there is one."""
    parts = []
    while len(text) > PART_CHARACTERS:
        cut = max(text.rfind(" ", 1, PART_CHARACTERS), text.rfind("\n", 1, PART_CHARACTERS))
        cut = cut if cut > 0 else PART_CHARACTERS
        parts.append(text[:cut])
        text = text[cut:]
    return [*parts, text]


def _of_run(view: View) -> Looked:
    asked = st.session_state.get(view.key("run"), view["run"])
    runs = pickers.runs(state.where(), cast("str | None", asked), "texts")
    if not runs:
        why = "No run has told of tokens yet: train a method for texts on the Train page. The examples need no run."
        return Looked("a run", why=why)
    run_id = st.selectbox(
        "Run",
        list(runs),
        index=list(runs).index(str(view["run"])) if view["run"] in runs else 0,
        format_func=lambda name: runs[name],
        key=view.key("run"),
    )
    return of_result(stored_results.of(state.store().get(run_id)), view, {"run": run_id})


def of_result(result: Result, view: View, values: Mapping[str, object]) -> Looked:
    """The controls and the text of a run's own view: which task, which model, which of the texts it told of."""
    said = [event for event in result.said if isinstance(event, TokensScored)]
    name = result.name
    if not said:
        return Looked(name, why=_nothing(result), result=result, values=values)
    budgets = sorted({event.cell.epsilon for event in said})
    labels = {each: epsilon_label(each, result.standing) for each in budgets}
    epsilon = pickers.one_of("Budget asked for", budgets, view, "epsilon", labels.__getitem__)
    seed = min(event.cell.seed for event in said if event.cell.epsilon == epsilon)
    said = [event for event in said if event.cell.epsilon == epsilon and event.cell.seed == seed]
    tasks = sorted({event.task + 1 for event in said})
    names = result.started.task_names if result.started is not None else ()
    titles = {each: f"{each}. {names[each - 1]}" if each <= len(names) else str(each) for each in tasks}
    task = pickers.one_of("Task", tasks, view, "task", titles.__getitem__)
    models = [model for model in MODELS if any(event.task + 1 == task and event.model == model for event in said)]
    model = pickers.one_of("Scored by the model", models, view, "model", MODELS.__getitem__)
    event = [event for event in said if event.task + 1 == task and event.model == model][-1]
    n_texts = len(event.texts)
    number = 1
    if n_texts > 1:
        start = min(int(str(view["number"])), n_texts)
        number = int(st.number_input(f"Text, 1 to {n_texts}", 1, n_texts, start, key=view.key(f"number-{n_texts}")))
    chosen = {"task": task, "model": model, "epsilon": epsilon if len(budgets) > 1 else None, "number": number}
    text = event.texts[number - 1] if n_texts else None
    is_bundled = result.spec.data.backbone == "lm-tiny" and model == "base"
    title = f"text {number} of task {task} of the run “{name}”"
    return Looked(
        title,
        text,
        "" if text is not None else _nothing(result),
        is_bundled=is_bundled,
        result=result,
        epsilon=epsilon,
        values={**values, **chosen},
    )


def _nothing(result: Result) -> str:
    if refusal := showing.refusal(datasets.card(result.spec.data.dataset)):
        return f"This run has told of no tokens: {plain(refusal)}."
    if result.run_id is not None and not state.store().get(result.run_id).is_over:
        return "This run has not scored a text yet; it does so when a task begins."
    return "This run has told of no tokens: its method reads no texts, or it ended before."


def corpus() -> Corpus:
    """The synthetic texts, made once for all visitors."""
    from dpcl_core.lessons import surprise

    return surprise.texts()


def everything() -> Sequence[ScoredText]:
    """All examples, scored once for all visitors."""
    from dpcl_core.lessons import surprise

    return surprise.everything()


@st.cache_data(max_entries=200, show_spinner=False)
def _scored(source: int, number: int) -> ScoredText:
    return corpus().text(source, number)


def _scored_own(text: str) -> ScoredText:
    """Not cached where another visitor could meet it: kept for this visit alone, the last one only."""
    from dpcl_core.data.texts import Texts
    from dpcl_core.explorers import scored_texts

    kept = cast("tuple[str, ScoredText] | None", st.session_state.get("tokens-scored"))
    if kept is None or kept[0] != text:
        kept = text, scored_texts.scored(Texts([text]), corpus().score2)[0]
        st.session_state["tokens-scored"] = kept
    return kept[1]
