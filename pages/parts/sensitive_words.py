"""Sensitive words on Explore: which words PeCL treats as sensitive, what its noise hides, and what a trained model leaks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import streamlit as st

from dpcl_core.backbones import catalog as backbones
from dpcl_core.data import catalog as datasets
from dpcl_core.data import files
from dpcl_core.data.texts import Texts
from dpcl_core.elements.element import BUDGETS, FIRST
from dpcl_core.events import ScoredText, TokensScored, of_kind
from dpcl_core.explorers import tokens
from dpcl_core.explorers.token_reader import ReaderEnded
from dpcl_core.explorers.tokens import Dials, dials_of
from dpcl_core.figures.picture import Provenance, epsilon_label
from dpcl_core.lessons import modes
from dpcl_core.results import Result
from pages.parts import fields, layout, link, pecl_claim, state, token_heat
from pages.parts.text import WORDS, capital, plain
from pages.parts.token_heat import BIG, BUNDLED

EXAMPLE, OWN, RUN = "example", "own", "run"
SHOWS = {EXAMPLE: "An example", OWN: "My own text", RUN: "A run"}
MODELS = {"base": "before training (frozen public model)", "current": "after training on the task"}
MAX_CHARACTERS = 100_000
N_BIG = 40  # synthetic texts that the big model reads
PART_CHARACTERS = 5_000  # of a long text at once: some 2,000 tokens
READERS = {BUNDLED: "bundled model", BIG: "SmolLM2"}
USUAL = Dials()
_NAMES = ("alpha", "threshold", "lower", "upper", "strength", "loss")  # of the fields that are dials, too
CODEC = link.Codec(
    link.Field("reader", "rd", "language model", link.Choice(tuple(READERS)), BUNDLED),
    link.Field("show", "sh", "text", link.Choice(tuple(SHOWS)), EXAMPLE),
    link.Field("source", "k", "family of texts", link.Whole(1, 6), 2),
    link.Field("number", "n", "number of the text", link.Whole(1, 1000), 1),
    link.Field("run", "run", "run", link.Maybe(link.Text(40)), None),
    link.Field("task", "t", "task", link.Maybe(link.Whole(1, 100)), None),
    link.Field("model", "m", "model", link.Choice(tuple(MODELS)), "base"),
    link.Field("epsilon", "e", "ε", link.Maybe(link.BUDGET), None),
    link.Field("layer", "l", "layer", link.Choice(tokens.SHOWN), FIRST),
    link.Field("alpha", "a", "α", link.Maybe(link.Number(0.0, 1.0)), None),
    link.Field("threshold", "th", "θ", link.Maybe(link.Number(0.0, 1.0)), None),
    link.Field("lower", "lo", "lower nominal ε", link.Maybe(link.Number(BUDGETS[0], BUDGETS[-1])), None),
    link.Field("upper", "up", "upper nominal ε", link.Maybe(link.Number(BUDGETS[0], BUDGETS[-1])), None),
    link.Field("strength", "la", "λ", link.Maybe(link.Number(0.0, 100.0)), None),
    link.Field("loss", "lf", "loss", link.Maybe(link.Choice(("answer", "full"))), None),
    link.Field("releases", "r", "releases", link.Whole(1, 100), 1),
)


def page() -> None:
    """The view."""
    view = state.View("tokens", CODEC)
    place = layout.heading(
        "Explore", "Which words does the method think are private?",
        notices=[*view.read.notices, *fields.linked_run(view)[1]],
    )  # fmt: skip
    controls, answer = layout.controls_and_answer()
    with controls:
        show = fields.segmented(view, "show", "Text", SHOWS, start=None if view["run"] is None else RUN)
        view.values["run"] = None
        selected = {EXAMPLE: _example, OWN: _own, RUN: _of_run}[show](view)
        usual = dials_of(selected.result.spec, selected.epsilon) if selected.result is not None else USUAL
        dials = _dials(view, usual)
    with answer:
        if selected.is_typed or (selected.text is not None and selected.text.tokens):
            dials = _text(view, selected, dials)
        else:
            with layout.card("heat", "**No text to show yet**"):
                (st.warning if selected.is_warning else st.info)(selected.why or "This text has no tokens.")
        _many(view, selected, dials)
    view.values |= {name: None if getattr(dials, name) == getattr(usual, name) else getattr(dials, name) for name in _NAMES}
    view.commit()
    layout.actions(place, is_shared=True, help_text=WORDS["sensitive_words"]["help"], view=view)


def _dials(view: state.View, usual: Dials) -> Dials:
    """Draws the settings that the explorer has no slider for, and the releases; returns the settings to start from."""
    start = {name: getattr(usual, name) if view[name] is None else view[name] for name in _NAMES}
    number = {name: float(str(start[name])) for name in _NAMES if name != "loss"}
    keys = {name: view.key(f"{name}-{value}") for name, value in (start | number).items()}
    with st.expander("More of the method"):
        about = "1: Score1 alone. 0: Score2 alone. Published: 0.5."
        alpha = st.slider("α: surprise against commonness", 0.0, 1.0, number["alpha"], 0.05, key=keys["alpha"], help=about)
        lower = st.select_slider(
            "Nominal ε of the most sensitive token (no guarantee)", sorted({*BUDGETS, number["lower"]}), number["lower"],
            key=keys["lower"], format_func=lambda each: f"{each:g}", help="Published: 1.",
        )  # fmt: skip
        strength = st.number_input(
            "λ: strength of unlearning", 0.0, 100.0, number["strength"], key=keys["strength"], help="Published: 1."
        )
        losses = {"answer": "the label only", "full": "text and label"}
        learned = fields.segmented(view, "loss", "What is learned", losses, start=str(start["loss"]), key=keys["loss"])
        view.values["releases"] = st.select_slider(
            "Releases of each token (epochs with fresh noise)", sorted({*token_heat.RELEASES, view["releases"]}),
            view["releases"], key=view.key("releases"),
        )  # fmt: skip
    upper = max(number["upper"], lower)
    start_dials = replace(usual, alpha=alpha, threshold=number["threshold"], lower=lower, upper=upper, strength=strength)
    return replace(start_dials, loss="full" if learned == "full" else "answer")


def _text(view: state.View, selected: Selected, start: Dials) -> Dials:
    """Draws the explorer and, for a text that the server has, what its noise is worth; returns the settings."""
    text, banner, layer = selected.text, st.container(), view["layer"]
    budgets = sorted({*BUDGETS, start.upper})
    with layout.card("heat"):
        key = view.key("explorer")
        dials, layer = token_heat.draw(text, start, layer, selected.name, budgets, reader=selected.reader, key=key)
        view.values["layer"] = layer
        if text is not None:
            token_heat.footer(text, dials, selected.name)
    if text is None:
        return dials
    with banner:
        true = tokens.text_epsilon(text, dials)
        said = f"The paper's ε is only a name here: nothing is protected. True ε for this text: {true:,.0f}."
        if selected.result is not None and selected.result.standing != "claimed":
            said = f"{said} This run adds other noise: see its statement on the Privacy page."
        pecl_claim.not_dp(said)
    if selected.reader is not None and (box := layout.folded("What can an attacker read of it?", view.key("read"))):
        with box:
            n_releases = int(str(view.values["releases"]))
            token_heat.draw_read(text, dials, selected.reader, n_releases=n_releases, key=view.key("draw"))
    return dials


def _many(view: state.View, selected: Selected, dials: Dials) -> None:
    """Draws detection over many texts and, for a run, memorisation and leaks."""
    if selected.result is None:
        reader = selected.reader or BUNDLED
        try:
            with st.spinner("Scoring texts ..."):
                scored = everything(reader)
        except ReaderEnded as error:
            st.warning(f"Detection over many texts is not shown: {error}.")
            return
        words = f"synthetic texts with marked personal data, {token_heat.MODEL_NAMES[reader]}"
        token_heat.detection_card(scored, ("examples", reader), dials, Provenance(words, len(scored), "PeCL's score"))
        return
    if selected.epsilon is None:
        return
    token_heat.leak_figures(selected.result, selected.epsilon, live=False)
    wanted, events = (selected.epsilon, view.values["model"]), of_kind(selected.result.events, TokensScored)
    texts = [text for event in events if (event.cell.epsilon, event.model) == wanted for text in event.texts]
    if texts:
        key = (*state.where(), selected.result.run_id, len(texts), *wanted)
        token_heat.detection_card(texts, key, dials, replace(selected.result.provenance, n_train=len(texts)))


# The text: an example, the visitor's own text, or a text that a run recorded.


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


def _example(view: state.View) -> Selected:
    texts = modes.texts()
    families = {place: f"{place}. {name}" for place, name in enumerate(texts.sources, start=1)}
    source = fields.select(view, "source", "Family", families)
    number = _number(view, modes.N_TEXTS, view.key("number"))
    reader = _reader(view)
    name = f"synthetic text {number} of “{texts.sources[source - 1]}”"
    return _read_by(reader, name, partial(_scored, reader, source - 1, number - 1))


def _number(view: state.View, n_texts: int, key: str) -> int:
    """Draws the choice of one of so many texts; returns its number, from 1."""
    start = min(view["number"], n_texts)
    return view.keep("number", int(st.number_input(f"Text, 1 to {n_texts}", 1, n_texts, start, key=key)))


def _read_by(reader: str, name: str, score: Callable[[], ScoredText]) -> Selected:
    """The text that is scored by this model, or why it is not; a text with a label is called by that, too."""
    try:
        text = score()
    except ReaderEnded as error:
        return Selected(name, why=f"{capital(str(error))}.", is_warning=True)
    return Selected(f"{name}, class “{text.label}”" if text.label else name, text, reader=reader)


def _reader(view: state.View) -> str:
    """Draws the choice of the model that reads, where there are two; returns its name."""
    if backbones.available(backbones.card(BIG)) is not None:
        return view.keep("reader", BUNDLED)
    help_text = "SmolLM2 has 135 million weights. It reads in a process of its own, which takes some seconds to start."
    return fields.segmented(view, "reader", "Read by", READERS, help=help_text)


def _own(view: state.View) -> Selected:
    reader = _reader(view)
    if reader == BUNDLED:
        st.caption("Type a sentence into the field. It is scored in your browser and sent nowhere.")
        return Selected("your sentence", is_typed=True)
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
        return Selected("your text", why=WORDS["sensitive_words"]["why_not"], is_warning=True)
    parts, part = in_parts(written), 1
    if len(parts) > 1:
        st.caption(f"{len(written):,} characters are shown in {len(parts)} parts; the model reads each by itself.")
        part = int(st.number_input(f"Part, 1 to {len(parts)}", 1, len(parts), 1, key=f"tokens-part-{len(parts)}"))
    return _read_by(reader, "your text, which you marked as public or made up", partial(_scored_own, parts[part - 1]))


def in_parts(text: str) -> list[str]:
    """The text cut at blanks, where possible, into parts of at most `PART_CHARACTERS` characters."""
    if len(text) <= PART_CHARACTERS:
        return [text]
    blank = max(text.rfind(" ", 1, PART_CHARACTERS), text.rfind("\n", 1, PART_CHARACTERS))
    cut = blank if blank > 0 else PART_CHARACTERS
    return [text[:cut], *in_parts(text[cut:])]


def _of_run(view: state.View) -> Selected:
    """Draws the choice of a run, and of its task, model and text; returns the selected text."""
    if not (runs := fields.runs(state.where(), st.session_state.get(view.key("run"), view["run"]), "texts")):
        none = "No run has scored texts yet: train a method for texts on the Train page. The examples need no run."
        return Selected("a run", why=none)
    result = state.run_result(state.store().get(fields.select(view, "run", "Run", runs)))
    events, name = list(of_kind(result.events, TokensScored)), result.name
    if not events:
        return Selected(name, why=_empty_reason(result), result=result)
    budgets = sorted({event.cell.epsilon for event in events})
    labels = {each: epsilon_label(each, result.standing) for each in budgets}
    epsilon = fields.one_of("Requested ε", budgets, view, "epsilon", labels.__getitem__)
    seed = min(event.cell.seed for event in events if event.cell.epsilon == epsilon)
    events = [event for event in events if event.cell.epsilon == epsilon and event.cell.seed == seed]
    tasks = sorted({event.task + 1 for event in events})
    names = result.started.task_names if result.started is not None else ()
    titles = {each: f"{each}. {names[each - 1]}" if each <= len(names) else str(each) for each in tasks}
    task = fields.one_of("Task", tasks, view, "task", titles.__getitem__)
    by_model = {event.model: event for event in events if event.task + 1 == task}  # the last one of each
    models = [model for model in MODELS if model in by_model]
    model = fields.one_of("Scored by the model", models, view, "model", MODELS.__getitem__)
    event, number = by_model[model], 1
    n_texts = len(event.texts)
    view.values |= {"task": task, "model": model, "number": number}
    if n_texts > 1:
        number = _number(view, n_texts, view.key(f"number-{n_texts}"))
    text = tokens.whole_words(event.texts[number - 1]) if n_texts else None
    why, reader = "" if text is not None else _empty_reason(result), result.spec.data.backbone if model == "base" else None
    return Selected(
        f"text {number} of task {task} of the run “{name}”", text, why, reader=reader if reader in READERS else None,
        result=result, epsilon=epsilon,
    )  # fmt: skip


def _empty_reason(result: Result) -> str:
    """Why a run has no text to show."""
    if refusal := files.refusal(datasets.card(result.spec.data.dataset)):
        return f"This run recorded no texts: {plain(refusal)}."
    if result.run_id is not None and not state.store().get(result.run_id).is_over:
        return "This run has not scored a text yet; it does so at the start of each task."
    return "This run recorded no texts: its method reads none, or the run ended too early."


@st.cache_resource(max_entries=2, show_spinner=False)
def everything(reader: str) -> Sequence[ScoredText]:
    """Synthetic texts with their scores by this model (a part by the big one), cached for all. Raises ReaderEnded."""
    if reader == BUNDLED:
        return modes.everything()
    corpus = modes.texts()
    texts, labels = corpus.some(N_BIG)
    bar = st.progress(0.0, f"SmolLM2 reads {len(texts)} texts")
    done = lambda n_read: bar.progress(n_read / len(texts), f"SmolLM2 has read {n_read} of {len(texts)} texts")  # noqa: E731
    found = token_heat.big().scored(texts, labels, corpus.strings, done)
    bar.empty()
    return found


@st.cache_data(max_entries=200, show_spinner=False)
def _scored(reader: str, source: int, number: int) -> ScoredText:
    texts = modes.texts()
    if reader == BUNDLED:
        return texts.text(source, number)
    return token_heat.big().scored(*texts.one(source, number), texts.strings)[0]


@st.cache_data(max_entries=1, show_spinner=False, scope="session")
def _scored_own(text: str) -> ScoredText:
    """The visitor's text, scored. Kept in this session only, so that no other visitor can see it."""
    return token_heat.big().scored(Texts([text]), [""], modes.texts().strings)[0]
