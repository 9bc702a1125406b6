"""Texts shaded by score: detection over many, one to explore, one as read from its noisy embeddings, and those of a run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import cast

import numpy as np
import pandas as pd
import streamlit as st
from numpy.typing import NDArray

from dpcl_core.backbones import plain_language
from dpcl_core.data.texts import LOOKALIKE
from dpcl_core.elements.element import FIRST, TOKENS, model, view_document
from dpcl_core.events import ScoredText, TokensScored, of_kind
from dpcl_core.explorers import token_reader, tokens
from dpcl_core.explorers.token_reader import TokenReader
from dpcl_core.explorers.tokens import Dials, Layer, dials_of, token_scores, values
from dpcl_core.figures import tokens as figures
from dpcl_core.figures.picture import Picture, Provenance
from dpcl_core.privacy import text_mechanisms
from dpcl_core.results import Result
from dpcl_core.runs import frames
from pages.parts import figure_card, layout, link, text
from pages.parts.text import WORDS, plain

# How well the score detects marked personal data over many texts, compared with a simple pattern, by kind of span.


_SPELLED = {"SSN": "SSN", "IBAN": "IBAN", "DOB": "date of birth", "EMAIL": "e-mail", "RECORD": "record number"}


def detection_card(texts: Sequence[ScoredText], key: tuple[object, ...], dials: Dials, source: Provenance) -> None:
    """Draws AUROC, average precision, and recall at the threshold by kind of span. `key` identifies the texts."""
    picture, table, kinds = _drawn(key, dials, text.is_dark(), texts)
    if kinds.empty:
        with layout.card("found", "**Does the score find personal data?**"):
            st.caption("No personal data is marked in these texts, so detection cannot be measured.")
        return
    figure_card.show(picture, source, key="detection", title="Does the score find personal data?", table=table, linked=True)
    if (box := layout.folded("Precision, and detection by kind of data", "kinds")) is not None:
        with box:
            rows = []
            for group, by in table.groupby("group", sort=False):
                measures = (f"{value:.2f}" for what in ("auroc", "average_precision") for value in by[what])
                rows.append((str(group), *measures, f"{100 * by['share'].iloc[0]:.0f} %"))
            heads = ("kind", "AUROC, score", "AUROC, pattern", "precision, score", "precision, pattern", "personal")
            layout.draw_table(heads, rows)
            st.caption(WORDS["token_heat"]["tables"])
            by_kind(kinds, dials.threshold)
            st.caption("The AUROC of a kind compares its tokens with tokens outside any span.")


@st.cache_resource(max_entries=40, show_spinner=False)
def _drawn(
    key: tuple[object, ...], dials: Dials, dark: bool, _texts: Sequence[ScoredText]
) -> tuple[Picture, pd.DataFrame, pd.DataFrame]:
    """The figure and the tables of `measured`, cached for all visitors by texts and settings."""
    table, kinds = measured(_texts, dials)
    return figures.detection(table, dark=dark), table, kinds


def measured(texts: Sequence[ScoredText], dials: Dials) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Two tables, the second empty where no private span is marked.

    1 group, detector ("score", then "pattern"), auroc, average_precision, share (of private tokens in the group).
    2 kind, is_private, n, mean_score, nominal_epsilon, true_epsilon (means; NaN: stop words alone), recall (share above the
    threshold), auroc.
    """
    marked = tokens.gathered(texts)
    score = np.concatenate([token_scores(text, dials) for text in texts])
    by_detector = {
        "score": tokens.scores(score, marked), "pattern": tokens.scores(marked.has_pattern.astype(np.float64), marked),
    }  # fmt: skip
    rows = [
        (group, detector, one.auroc[group], one.precision[group], one.share[group])
        for detector, one in by_detector.items()
        for group in one.auroc
    ]
    table = pd.DataFrame(rows, columns=["group", "detector", "auroc", "average_precision", "share"])
    if not marked.is_private.any():
        return table, pd.DataFrame()
    nominal, true = (np.concatenate([values(text, layer, dials) for text in texts]) for layer in ("nominal", "true"))
    kinds = []
    for kind, auroc in tokens.by_kind(score, marked).items():
        inside = marked.kinds == kind
        noised = inside & ~marked.is_stop
        means = (float(each[noised].mean()) if noised.any() else float("nan") for each in (nominal, true))
        recall = tokens.recall(score, inside, dials.threshold)
        is_private = not kind.startswith(LOOKALIKE)
        kinds.append((kind, is_private, int(inside.sum()), float(score[inside].mean()), *means, recall, auroc))
    columns = ["kind", "is_private", "n", "mean_score", "nominal_epsilon", "true_epsilon", "recall", "auroc"]
    return table, pd.DataFrame(kinds, columns=columns)


def by_kind(table: pd.DataFrame, threshold: float) -> None:
    """Draws the second table of `measured`: private kinds first, then by ascending mean score."""

    def named(kind: str) -> str:
        if kind.startswith(LOOKALIKE):
            return f"{kind.removeprefix(LOOKALIKE)} (harmless)"
        return _SPELLED.get(kind, kind.lower())

    rows = (
        (
            named(row.kind), f"{row.n:,}", f"{row.mean_score:.2f}", f"{row.nominal_epsilon:.2g}", f"{row.true_epsilon:.2g}",
            f"{100 * row.recall:.0f} %", f"{row.auroc:.2f}",
        )
        for row in table.sort_values(["is_private", "mean_score"], ascending=[False, True]).itertuples()
    )  # fmt: skip
    above = f"above θ = {threshold:g}"
    heads = ("kind", "tokens", "mean score", "mean nominal ε (no guarantee)", "mean true ε of the noise", above, "AUROC")
    layout.draw_table(heads, rows)


# The text to explore: words shaded by score, the arithmetic of each, own sentences; drawn and scored in the browser.
#
# The element in `assets/tokens/` gets all it needs once; it reports θ, ε and the layer only when a slider is let go.


def draw(
    text: ScoredText | None, dials: Dials, layer: Layer, label: str, budgets: Sequence[float], *, reader: str | None,
    key: str,
) -> tuple[Dials, Layer]:  # fmt: skip
    """Draws the element; returns the settings and the layer with which it was left. `text` None: the visitor types one.

    `reader`: the public model that scored the text, None for another; `budgets`: stops of the largest nominal ε.
    """
    shown = view_document(text, dials, layer, label, budgets, reader)
    data = figure_card.json_bytes(shown, model=figure_card.written_once(model))
    reported = figure_card.mounted(TOKENS)(key=key, data=data, on_dials_change=lambda: None).get("dials")
    dials, layer = _left(reported, dials, layer, budgets)
    if text is not None and layer in ("nominal", "true") and (warning := tokens.warning([text], dials)):
        st.caption(f"{plain(warning)} Nominal, no guarantee.")
    return dials, layer


def draw_shaded(text: ScoredText, dials: Dials, layers: Sequence[Layer], label: str, *, key: str) -> None:
    """Draws a text shaded by one of these layers, by the first of them at first; nothing else of it can be moved."""
    figure_card.mounted(TOKENS)(key=key, data=view_document(text, dials, layers[0], label, [dials.upper], None, layers))


def _left(reported: object, dials: Dials, layer: Layer, budgets: Sequence[float]) -> tuple[Dials, Layer]:
    """The settings that the browser reports; the given ones for what it cannot have reported."""
    if not isinstance(reported, Mapping):
        return dials, layer
    threshold, upper, seen = (reported.get(name) for name in ("threshold", "upper", "layer"))
    if isinstance(threshold, int | float) and 0 <= threshold <= 1:
        dials = replace(dials, threshold=float(threshold))
    if upper in budgets:
        dials = replace(dials, upper=float(cast(float, upper)), lower=min(dials.lower, float(cast(float, upper))))
    return dials, cast(Layer, seen) if seen in tokens.SHOWN else layer


# What stands below a text: its source, and its numbers to take along.


_COLUMNS: dict[Layer, str] = {  # of the CSV, where they differ from the layer's name
    "nominal": "nominal_epsilon_no_guarantee", "true": "epsilon_of_the_noise", "sigma": "sigma_over_clip_norm",
    "printed": "loss_weight_printed", "flipped": "loss_weight_flipped", "hinge": "loss_weight_hinge",
}  # fmt: skip


def budgets(text: ScoredText, dials: Dials) -> str:
    """The range of printed budgets: a score below 0 puts a token's above the upper end."""
    printed = tokens.values(text, "nominal", dials)
    most = max([dials.upper, *printed[~np.isnan(printed)].tolist()])
    return f"nominal ε {dials.lower:g} to {most:.3g}, no guarantee"


def footer(text: ScoredText, dials: Dials, name: str) -> None:
    """Draws the provenance line, the CSV download and the link."""
    with st.container(key="strip-heat", horizontal=True, vertical_alignment="center", gap="small"):
        settings = f"α = {dials.alpha:g} · θ = {dials.threshold:g} · {budgets(text, dials)}"
        about = "Every token with the numbers of every layer"
        layout.download("CSV", lambda: csv(text, dials), "tokens.csv", about, type="tertiary")
        link.offer(plain(f"{name} · {len(text.tokens)} tokens · {settings}"))


def csv(text: ScoredText, dials: Dials) -> str:
    """All layers as CSV, one row per token."""
    columns = {"token": text.tokens, "kind": text.kinds, "is_stop": text.is_stop}
    layers = {_COLUMNS.get(layer, layer): tokens.values(text, layer, dials) for layer in tokens.LAYERS}
    return str(pd.DataFrame({**columns, **layers}).to_csv(index=False))


BUNDLED, BIG = "lm-tiny", "smollm2"
MODEL_NAMES = {BUNDLED: "the bundled model", BIG: "SmolLM2"}
RELEASES = (1, 3, 10, 30, 100)
HONEST = 8.0  # epsilon of a whole text, for the noise that has a bound


@dataclass(frozen=True)
class Read:
    """The text that an attacker decodes: each token's nearest neighbour, whether it is right, and whether it had noise."""

    printed: tuple[str, ...]
    is_right: tuple[bool, ...]
    is_noised: tuple[bool, ...]

    @property
    def share(self) -> float | None:
        """Share of noised tokens read correctly; None if none has noise."""
        noised = [right for right, had in zip(self.is_right, self.is_noised, strict=True) if had]
        return sum(noised) / len(noised) if noised else None


@st.fragment
def draw_read(text: ScoredText, dials: Dials, reader: str, *, n_releases: int, key: str) -> None:
    """Draws the text as read from its noisy embeddings; fresh noise for every text, every setting and every press.

    `reader`: the model whose tokens and embeddings they are.
    """
    try:
        reads = _latest(text.tokens, reader, tokens.values(text, "sigma", dials), n_releases, dials.delta)
    except token_reader.ReaderEnded as error:
        st.caption(f"Not shown: {error}.")
        return
    if reads is None:
        st.caption("This text has other tokens in the model, so its embeddings cannot be shown.")
        return
    published, bounded = reads
    st.html(_markup(published))
    n_noised = sum(published.is_noised)
    n_right = round((published.share or 0.0) * n_noised)
    clean = len(text.tokens) - n_noised
    stops = f" {clean} ha{'ve' if clean != 1 else 's'} none." if clean else ""
    st.markdown(f"**An attacker reads {n_right} of {n_noised} word pieces that have noise.{stops}**")
    rows = (
        (f"as published, {budgets(text, dials)}", n_releases, published),
        (f"one noise for all tokens, once: ε = {HONEST:g} for the whole text, proved", 1, bounded),
    )
    layout.draw_table(("noise", "releases", "noised tokens read"), (
        (name, str(n), "–" if read.share is None else f"{100 * read.share:.1f} %") for name, n, read in rows
    ))  # fmt: skip
    st.button("Draw again", key=key, on_click=_latest.clear, help="Fresh noise; none is recorded")
    st.caption(WORDS["token_heat"]["read"].format(delta=dials.delta, model=MODEL_NAMES[reader]))


@st.cache_resource(show_spinner=False)
def big() -> TokenReader:
    """The process that reads with SmolLM2, shared by all visitors; it starts at the first question."""
    return TokenReader(BIG)


@st.cache_data(max_entries=1, show_spinner=False, scope="session")
def _latest(
    words: tuple[str, ...], reader: str, sigmas: NDArray[np.float64], n_releases: int, delta: float
) -> tuple[Read, Read] | None:
    """The words decoded under the published noise and under noise with a bound; the last ones are kept for the visitor.

    None if they are other tokens in the model. Raises ReaderEnded.
    """
    published = _read(words, reader, np.nan_to_num(sigmas, nan=0.0), n_releases)
    bounded = _read(words, reader, np.full(len(words), text_mechanisms.ratio_for(HONEST, delta, len(words))), 1)
    return None if published is None or bounded is None else (published, bounded)


def _read(words: tuple[str, ...], reader: str, ratios: NDArray[np.float64], n_releases: int) -> Read | None:
    """The nearest token of each noisy embedding; `ratios` [m]: σ / C, 0 for no noise. None if the text has other tokens.

    The big model reads in a process of its own.
    """
    asked = "".join(words), ratios.tolist(), n_releases
    if reader == BUNDLED:
        found = token_reader.decoded(reader, lambda: token_reader.clipped(plain_language.load().embeddings), *asked)
    else:
        found = big().read(*asked)
    return None if found is None else Read(*found, tuple((ratios > 0).tolist()))


def _markup(read: Read) -> str:
    """The decoded text as HTML: right tokens bold and underlined, wrong ones faint, tokens without noise plain."""
    parts = []
    for printed, right, had in zip(read.printed, read.is_right, read.is_noised, strict=True):
        name = "exact" if not had else "right" if right else "wrong"
        word = printed.lstrip(" ")
        parts.append(f"{printed[: len(printed) - len(word)]}<i class='{name}'>{escape(word)}</i>")
    legend = (
        '<ul class="heat-legend" aria-label="Legend"><li><i class="right">read right</i></li>'
        '<li><i class="wrong">read wrong</i></li><li><i class="exact">had no noise</i></li></ul>'
    )
    return f'<div class="heat read" dir="auto" role="group" aria-label="What is read">{"".join(parts)}</div>{legend}'


# Figures of a run's texts: the heatmap of the latest one, what the model memorised, exposure of planted secrets.


def scored_texts(result: Result, epsilon: float, *, live: bool) -> None:
    """Draws the heatmap of a task's first scored text, at one budget: of the latest task, once the run is over of any."""
    events = [event for event in of_kind(result.events, TokensScored) if event.cell.epsilon == epsilon]
    if not events or not events[-1].texts:
        return
    if live:
        _heatmap(result, events[-1], key="live")
    else:
        _of_tasks(result, {event.task: event for event in events if event.texts and event.cell.seed == events[-1].cell.seed})


@st.fragment
def _of_tasks(result: Result, by_task: Mapping[int, TokensScored]) -> None:
    """Draws a slider over the tasks and the heatmap of the chosen one, alone when it moves."""
    *others, at = sorted(by_task)
    if others:
        key = f"heat-task-{result.run_id}-{by_task[at].cell.epsilon:g}"
        at = st.select_slider("A text of", [*others, at], at, format_func=result.task_name, key=key)
    _heatmap(result, by_task[at], key="over")


def _heatmap(result: Result, event: TokensScored, *, key: str) -> None:
    """Draws the first text of one scoring, in the chosen layer."""
    task = result.task_name(event.task)
    model = "the frozen public model" if event.model == "base" else "the model after the task"
    with layout.card(f"heat-{key}", f"**Which words are treated as sensitive?** :small[{plain(task)}; scored by {model}]"):
        dials, layers = dials_of(result.spec, event.cell.epsilon), (FIRST, *(each for each in tokens.SHOWN if each != FIRST))
        draw_shaded(tokens.whole_words(event.texts[0]), dials, layers, f"A text of {task}", key=f"heatmap-{key}")
        if result.run_id is not None:
            query = {"view": "words", "v": "1", "sh": "run", "run": result.run_id, "t": str(event.task + 1)}
            layout.arrow("explore", "More of this text on Explore", query)


def leak_figures(result: Result, epsilon: float, *, live: bool) -> None:
    """Draws memorisation by task, and exposure before and after training, of the models of one budget (mean over seeds)."""
    # Memorisation and leaks at one budget; columns as in `runs.frames`.
    of_all = frames.retained(result.events), frames.leaks(result.events)
    kept, leaks = (table[table["epsilon"] == epsilon] for table in of_all)
    dark, source = text.is_dark(), result.provenance
    left, right = st.columns(2, gap="small")
    if not kept.empty:
        with left:
            figure_card.show(
                figures.retained(kept, dark=dark), source, key="retained", title="What the model remembers",
                note="nats per token above the public model; 0: nothing memorised", table=kept, linked=True, live=live,
            )  # fmt: skip
    if not leaks.empty:
        with right:
            last = leaks[leaks["after_task"] == leaks["after_task"].max()]
            printed = last[last["planted"] == last["planted"].max()]["extracted"].mean()
            figure_card.show(
                figures.exposure(leaks, dark=dark), source, key="exposure", title="Planted secrets",
                note="dotted: a code never seen in training, 1.44 bits", table=leaks, linked=True, live=live,
                caption=WORDS["token_heat"]["exposure"].format(
                    history=figures.exposure_history(leaks), least=last["epsilon_at_least"].max(),
                    confidence=100 * last["confidence"].max(), printed=100 * printed,
                ),
            )  # fmt: skip
    if kept.empty and leaks.empty:
        later = "Memorisation and planted secrets appear after the first task."
        st.caption(later if live else "This run measured no memorisation.")
