"""The text shown in Sensitive words: an example, the visitor's own text, or a text that a run recorded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import cast

import numpy as np
import streamlit as st

from dpcl_core.backbones import catalog as backbones
from dpcl_core.data import catalog as datasets
from dpcl_core.data import files
from dpcl_core.data.texts import Texts
from dpcl_core.events import ScoredText, TokensScored
from dpcl_core.explorers import tokens
from dpcl_core.explorers.token_reader import ReaderEnded, TokenReader
from dpcl_core.figures.picture import epsilon_label
from dpcl_core.lessons import modes
from dpcl_core.results import Result
from pages.parts import fields, link, state
from pages.parts.text import WORDS, plain

EXAMPLE, OWN, RUN = "example", "own", "run"
SHOWS = {EXAMPLE: "An example", OWN: "My own text", RUN: "A run"}
MODELS = {"base": "before training (frozen public model)", "current": "after training on the task"}
MAX_CHARACTERS = 100_000
N_BIG = 40  # synthetic texts that the big model reads
PART_CHARACTERS = 5_000  # of a long text at once: some 2,000 tokens
BUNDLED, BIG = "lm-tiny", "smollm2"
READERS = {BUNDLED: "bundled model", BIG: "SmolLM2"}
MODEL_NAMES = {BUNDLED: "the bundled model", BIG: "SmolLM2"}
FIELDS = [
    link.Field("reader", "rd", "language model", link.Choice(tuple(READERS)), BUNDLED),
    link.Field("show", "sh", "text", link.Choice(tuple(SHOWS)), EXAMPLE),
    link.Field("source", "k", "family of texts", link.Whole(1, 6), 2),
    link.Field("number", "n", "number of the text", link.Whole(1, 1000), 1),
    link.Field("run", "run", "run", link.Maybe(link.Text(40)), None),
    link.Field("task", "t", "task", link.Maybe(link.Whole(1, 100)), None),
    link.Field("model", "m", "model", link.Choice(tuple(MODELS)), "base"),
    link.Field("epsilon", "e", "ε", link.Maybe(link.BUDGET), None),
]


@dataclass(frozen=True)
class Selected:
    """The selected text. `text`: None if there is nothing to show, and `why` then says why; `name`: its description.

    `is_typed`: the visitor types a text that the browser scores, so that the server never has it.
    `reader`: the public model that scored it, whose noisy embeddings can be shown; None for a trained or another one.
    `result`: the run it comes from, if any.
    """

    name: str
    text: ScoredText | None = None
    why: str = ""
    is_warning: bool = False
    is_typed: bool = False
    reader: str | None = BUNDLED
    result: Result | None = None
    epsilon: float | None = None
    values: Mapping[str, object] = field(default_factory=dict)


def choose(view: state.View) -> Selected:
    """Draws the controls and returns the selected text; its `values` go into the link."""
    show = fields.segmented(view, "show", "Text", SHOWS, start=None if view["run"] is None else RUN)
    selected = {EXAMPLE: _example, OWN: _own, RUN: _of_run}[show](view)
    unused = {name: view[name] for name in ("reader", "source", "number", "task", "model", "epsilon")}
    return replace(selected, values={**unused, "run": None, "show": show, **selected.values})


def _example(view: state.View) -> Selected:
    texts = corpus()
    families = {place: f"{place}. {name}" for place, name in enumerate(texts.sources, start=1)}
    source = fields.select(view, "source", "Family of texts", families)
    n_texts = len(texts.texts[source - 1])
    start = min(int(str(view["number"])), n_texts)
    number = int(st.number_input(f"Text, 1 to {n_texts}", 1, n_texts, start, key=view.key("number")))
    reader = _reader(view)
    values = {"source": source, "number": number, "reader": reader}
    name = f"synthetic text {number} of “{texts.sources[source - 1]}”"
    try:
        text = _scored(reader, source - 1, number - 1)
    except ReaderEnded as error:
        return Selected(name, why=_sentence(error), is_warning=True, values=values)
    return Selected(f"{name}, class “{text.label}”", text, reader=reader, values=values)


def _reader(view: state.View) -> str:
    """Draws the choice of the model that reads, where there are two; returns its name."""
    if backbones.available(backbones.card(BIG)) is not None:
        return BUNDLED
    help_text = "SmolLM2 has 135 million weights. It reads in a process of its own, which takes some seconds to start."
    return fields.segmented(view, "reader", "Read by", READERS, help=help_text)


def _sentence(error: Exception) -> str:
    said = str(error)
    return f"{said[:1].upper()}{said[1:]}."


def _own(view: state.View) -> Selected:
    reader = _reader(view)
    if reader == BUNDLED:
        st.caption("Type a sentence into the field. It is scored in your browser and sent nowhere.")
        return Selected("your sentence", is_typed=True, values={"reader": reader})
    written = st.text_area(
        "Your text", key="tokens-own", max_chars=MAX_CHARACTERS, height=160,
        help="Public or made-up text only. It is read by a model on this computer.",
    )  # fmt: skip
    is_public = st.checkbox("This text is public or made up", key="tokens-own-public")
    if not written.strip():
        return Selected("your text", why="Type or paste a text above; the examples show the result.")
    if len(written) > MAX_CHARACTERS:
        why = f"Your text has {len(written):,} characters; it must have at most {MAX_CHARACTERS:,}."
        return Selected("your text", why=why, is_warning=True)
    if not is_public:
        return Selected("your text", why=WORDS["token_text"]["why_not"], is_warning=True)
    parts = in_parts(written)
    part = 1
    if len(parts) > 1:
        st.caption(f"{len(written):,} characters are shown in {len(parts)} parts; the model reads each by itself.")
        part = int(st.number_input(f"Part, 1 to {len(parts)}", 1, len(parts), 1, key=f"tokens-part-{len(parts)}"))
    name = "your text, which you marked as public or made up"
    try:
        return Selected(name, _scored_own(reader, parts[part - 1]), reader=reader, values={"reader": reader})
    except ReaderEnded as error:
        return Selected(name, why=_sentence(error), is_warning=True, values={"reader": reader})


def in_parts(text: str) -> list[str]:
    """The text cut at blanks, where possible, into parts of at most `PART_CHARACTERS` characters."""
    parts = []
    while len(text) > PART_CHARACTERS:
        cut = max(text.rfind(" ", 1, PART_CHARACTERS), text.rfind("\n", 1, PART_CHARACTERS))
        cut = cut if cut > 0 else PART_CHARACTERS
        parts.append(text[:cut])
        text = text[cut:]
    return [*parts, text]


def _of_run(view: state.View) -> Selected:
    run_of_link = st.session_state.get(view.key("run"), view["run"])
    if not (runs := fields.runs(state.where(), cast("str | None", run_of_link), "texts")):
        why = "No run has scored texts yet: train a method for texts on the Train page. The examples need no run."
        return Selected("a run", why=why)
    run_id = fields.select(view, "run", "Run", runs)
    return of_result(state.run_result(state.store().get(run_id)), view, {"run": run_id})


def of_result(result: Result, view: state.View, values: Mapping[str, object]) -> Selected:
    """Draws the controls for task, model and text of a run; returns the selected text."""
    events = [event for event in result.events if isinstance(event, TokensScored)]
    name = result.name
    if not events:
        return Selected(name, why=_empty_reason(result), result=result, values=values)
    budgets = sorted({event.cell.epsilon for event in events})
    labels = {each: epsilon_label(each, result.standing) for each in budgets}
    epsilon = fields.one_of("Requested ε", budgets, view, "epsilon", labels.__getitem__)
    seed = min(event.cell.seed for event in events if event.cell.epsilon == epsilon)
    events = [event for event in events if event.cell.epsilon == epsilon and event.cell.seed == seed]
    tasks = sorted({event.task + 1 for event in events})
    names = result.started.task_names if result.started is not None else ()
    titles = {each: f"{each}. {names[each - 1]}" if each <= len(names) else str(each) for each in tasks}
    task = fields.one_of("Task", tasks, view, "task", titles.__getitem__)
    models = [model for model in MODELS if any(event.task + 1 == task and event.model == model for event in events)]
    model = fields.one_of("Scored by the model", models, view, "model", MODELS.__getitem__)
    event = [event for event in events if event.task + 1 == task and event.model == model][-1]
    n_texts = len(event.texts)
    number = 1
    if n_texts > 1:
        start = min(int(str(view["number"])), n_texts)
        number = int(st.number_input(f"Text, 1 to {n_texts}", 1, n_texts, start, key=view.key(f"number-{n_texts}")))
    chosen = {"task": task, "model": model, "epsilon": epsilon if len(budgets) > 1 else None, "number": number}
    text = tokens.whole_words(event.texts[number - 1]) if n_texts else None
    backbone = result.spec.data.backbone
    return Selected(
        f"text {number} of task {task} of the run “{name}”",
        text,
        "" if text is not None else _empty_reason(result),
        reader=backbone if backbone in READERS and model == "base" else None,
        result=result,
        epsilon=epsilon,
        values={**values, **chosen},
    )


def _empty_reason(result: Result) -> str:
    """Why a run has no text to show."""
    if refusal := files.refusal(datasets.card(result.spec.data.dataset)):
        return f"This run recorded no texts: {plain(refusal)}."
    if result.run_id is not None and not state.store().get(result.run_id).is_over:
        return "This run has not scored a text yet; it does so at the start of each task."
    return "This run recorded no texts: its method reads none, or the run ended too early."


def corpus() -> modes.Corpus:
    """The synthetic texts; cached for all visitors."""
    return modes.texts()


def everything(reader: str) -> Sequence[ScoredText]:
    """Synthetic texts with their scores by this model (a part by the big one), cached for all. Raises ReaderEnded."""
    return modes.everything() if reader == BUNDLED else _everything_big()


@st.cache_resource(max_entries=1, show_spinner=False)
def _everything_big() -> Sequence[ScoredText]:
    texts, labels = corpus().some(N_BIG)
    bar = st.progress(0.0, f"SmolLM2 reads {len(texts)} texts")
    done = lambda n_read: bar.progress(n_read / len(texts), f"SmolLM2 has read {n_read} of {len(texts)} texts")  # noqa: E731
    found = big().scored(texts, labels, corpus().strings, done)
    bar.empty()
    return found


@st.cache_data(max_entries=200, show_spinner=False)
def _scored(reader: str, source: int, number: int) -> ScoredText:
    if reader == BUNDLED:
        return corpus().text(source, number)
    texts = corpus()
    rows = texts.texts[source].take(np.array([number]))
    return big().scored(rows, [texts.labels[source][number]], texts.strings)[0]


def _scored_own(reader: str, text: str) -> ScoredText:
    """The visitor's text, scored. Kept in this session only, so that no other visitor can see it."""
    last = cast("tuple[tuple[str, str], ScoredText] | None", st.session_state.get("tokens-scored"))
    if last is None or last[0] != (reader, text):
        last = (reader, text), big().scored(Texts([text]), [""], corpus().strings)[0]
        st.session_state["tokens-scored"] = last
    return last[1]


@st.cache_resource(show_spinner=False)
def big() -> TokenReader:
    """The process that reads with SmolLM2, shared by all visitors; it starts at the first question."""
    return TokenReader(BIG)
