"""Around the form of Train: what a run would take, why it may not be started, Start, and what stands there before a run."""

from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from typing import cast

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from dpcl_core import checks, presets
from dpcl_core.backbones import catalog as backbones
from dpcl_core.data import catalog as datasets
from dpcl_core.errors import BadInput
from dpcl_core.figures import stream as drawing
from dpcl_core.figures.picture import Picture, Provenance, counted, epsilon_text
from dpcl_core.methods import catalog as methods
from dpcl_core.methods.common.method import of_spec
from dpcl_core.methods.references import forecast
from dpcl_core.papers import forecasts, questions
from dpcl_core.privacy import noise_forecast
from dpcl_core.runs import administration, process
from dpcl_core.runs.run import Split, work_of
from dpcl_core.runs.shards import Sets
from dpcl_core.scenarios import catalog as scenarios
from dpcl_core.spec import RunSpec
from pages.parts import fields, figure_card, layout, link, pecl_claim, rooms, state, status_line, text, train_form
from pages.parts.questions import FORMS
from pages.parts.text import plain

_NAMED = 2  # differences of a recorded run that a note names

# The question that the form of Train starts from: its list, its link and the way back to it.


def question_link(name: str) -> dict[str, str]:
    """The link to the first run of a question, which the form then names."""
    return train_form.parameters_of(presets.load(name, here=True), question=name)


def origin(view: state.View, values: train_form.Values, spec: RunSpec | None) -> None:
    """Draws which question the form started from, once changed with the way back, and the answer that has these settings."""
    name, (dataset, named) = view["question"], st.session_state.get("brought", ("", []))
    is_brought = bool(named) and dataset == values["dataset"]  # what the data brought along, as long as they are chosen
    brought = f"{datasets.called(dataset)} brings along: {'; '.join(named)}." if is_brought else ""
    is_changed = name is not None and not _is_as_asked(name, values)
    is_other = spec is not None and (is_changed or name is None)
    answered = _answered(digest=spec.digest(), _spec=spec) or name if is_other and spec is not None else name
    if brought or name is not None:
        about = brought or f"“{presets.about(str(name)).title}”{', changed' if is_changed else ''}"
        st.caption(plain(about), width="content")
    if is_changed:
        st.button("Back to it", key="back-to-question", type="tertiary", on_click=view.go, args=(question_link(str(name)),))
    if answered is not None:
        label = "Its answer" if answered == name else "Measured before: see the answer"
        st.page_link("pages/questions.py", label=label, query_params={"v": "1", "question": answered})


@st.cache_data(max_entries=200, show_spinner=False)
def _answered(digest: str, _spec: RunSpec) -> str | None:
    return forecasts.question_of(_spec)


def smaller(view: state.View, values: train_form.Values) -> None:
    """Draws "The same, small" where a question cannot be started as it is, but in a smaller form."""
    name = view["question"]
    if name is None or not _is_as_asked(name, values):
        return
    for size, form in questions.of_preset(name).forms.items():  # smallest first
        if form.name == name:
            return
        if state.unless_refused(checks.check_run, next(iter(questions.specs(form.name).values()))) is not None:
            label = f"The same, {FORMS[size]}"
            st.button(label, key="smaller-form", width="stretch", on_click=view.go, args=(question_link(form.name),))
            return


def _is_as_asked(name: str, values: train_form.Values) -> bool:
    """Whether the form has the settings of the question's first run, whether or not it can be carried out here."""
    spec = train_form.parsed(values)
    return spec is not None and spec.digest() == questions.digests(name)[0]


def draw(
    view: state.View, values: train_form.Values, spec: RunSpec | None, refusal: str | None, run_on: tuple[str, Split | None],
    place: DeltaGenerator, notes: DeltaGenerator,
) -> None:  # fmt: skip
    """Draws Start for the form's spec, or the sentence that refuses its values. `run_on`: device, and whether in parts."""
    too_much = costly(spec, run_on[0])
    with notes:
        if refusal:
            st.error(plain(refusal))
            _mend_button(view, values)
            smaller(view, values)
        elif spec is not None:
            pecl_claim.looks(spec.data.dataset)
        if too_much:
            st.error(plain(train_form.in_words(too_much, values)))
            if too_much.fix:
                _mend_button(view, values, too_much.fix)
    with place:
        how = None if spec is None else _estimate(spec, run_on[0])
        is_off = spec is None or too_much is not None
        if st.button("Start", type="primary", width="stretch", disabled=is_off, key="start", help=how) and spec is not None:
            device, split = run_on
            preset = _preset_of(spec)
            here = device if split is None else process.here(device)  # its own process gathers what the parts give
            run_id = state.store().create(spec, name=None if preset is None else preset.title, device=here, split=split)
            rooms.share([run_id])
            state.executor().submit(run_id)
            st.session_state["show-run"] = run_id
            st.rerun()


def details(spec: RunSpec, values: train_form.Values) -> None:
    """Draws how the settings relate to what the method's publication prints, what follows from them as help, remarks, and
    what such a run lets one expect."""
    layer = methods.layer(spec)
    derived = state.unless_refused(lambda: _derived(key=spec.to_json(), _spec=spec))  # None: an older run, refused today
    more = filter(None, ("" if layer is None else layer.words, derived, train_form.delta_words(values)))
    st.caption(f"{'Settings' if layer is None else plain(layer.title)}.", help=plain("\n\n".join(more)))
    if said := train_form.remarks(values):
        st.caption(plain(said))
    helper(forecasts.sizes_of(spec), "train-helper")


def _estimate(spec: RunSpec, device: str) -> str:
    """Draws how many models a run has and about how long it takes; returns where that is known from."""
    waiting = sum(state.store().queues().get(device, ()))
    queue = f"{waiting} before it in the queue." if waiting else ""
    seconds, is_here = _seconds(spec, device)
    if seconds is None:
        is_first = spec.data not in Sets(state.store()).data_used()  # features are computed once
        seconds = forecasts.rough_seconds(spec) + (forecasts.feature_seconds(spec.data) if is_first else 0.0)
        source = "Estimated: nine in ten such estimates are right within ten times."
    else:
        source = f"Measured on {'this' if is_here else 'another'} computer."
    st.caption(f"{counted(spec.n_cells, 'model')}, {status_line.about(seconds)}")
    return f"{source} {queue}".rstrip()


@st.cache_data(max_entries=200, show_spinner=False)
def _derived(key: str, _spec: RunSpec) -> str:
    """Quantities derived from the method's settings on this dataset, in words; `key` identifies the spec for the cache."""
    card, facts = methods.card(_spec.method), of_spec(_spec)
    return " ".join(filter(None, [card.derived(_spec.params, facts), card.totals(_spec, facts)]))


def _seconds(spec: RunSpec, device: str) -> tuple[float | None, bool]:
    """The expected duration from past runs of this spec, else from the preset with this spec; whether it is from here."""
    here, preset = state.store().estimates([work_of(spec)], device=device)[0], _preset_of(spec)
    return (here if here is not None or preset is None else preset.seconds), here is not None


def costly(spec: RunSpec | None, device: str) -> BadInput | None:
    """Why such a run may not be started: above a limit of a shared server, or a budget of own data; None: it may be."""
    store = state.store()
    try:
        if spec is not None and store.visitor is not None:
            administration.check_cost(store, spec, _seconds(spec, device)[0])
        if spec is not None:
            administration.check_at_start(store, spec)
    except BadInput as refused:
        return refused
    return None


def _preset_of(spec: RunSpec) -> presets.Preset | None:
    """The preset with this very spec."""
    digest = spec.digest()
    return next((presets.about(name) for name in presets.names() if questions.digests(name)[0] == digest), None)


def noise_warning(spec: RunSpec) -> None:
    """Draws the note, if there is one and the feature dimension is known beforehand: a headline, with details on demand."""
    short, text = _note(key=spec.to_json(), _spec=spec) or ("", "")
    if short and (box := layout.popover(plain(short), "noise-warning", type="tertiary")) is not None:
        box.markdown(plain(text))


@st.cache_data(max_entries=200, show_spinner=False)
def _note(key: str, _spec: RunSpec) -> tuple[str, str] | None:
    n_features = backbones.card(_spec.data.backbone).feature_dim
    if n_features is None and _spec.data.backbone == "pixels":
        n_features = datasets.card(_spec.data.dataset).n_values
    if n_features is None:  # unknown before loading
        return None
    try:
        facts = of_spec(_spec)
        n_home = scenarios.classes_per_task(_spec.data, _spec.scenario, _spec.seeds[0])
    except BadInput:
        return None  # reported where the form is checked
    n_home = n_home or facts.n_classes / facts.n_tasks
    try:
        predicted = forecast(_spec, n_features=n_features, classes_per_task=n_home, facts=facts)
    except BadInput as refused:
        return "ε: one budget is out of reach", f"{refused}."
    text = noise_forecast.note(predicted)
    return (noise_forecast.headline(predicted), text) if text is not None else None


def _mend_button(view: state.View, values: train_form.Values, fix: Mapping[str, object] | None = None) -> None:
    """Draws "Use … instead" for refused settings: by this `fix`, else if the refusals on the way say what to use."""
    raw = train_form.raw_of(values)
    if not (changes := fix or checks.repair(raw)):
        return

    by_rule = values["delta"] is None and "privacy.delta" not in changes
    named = _words(values, changes)
    label = f"Use {named[0]} instead" if len(named) == 1 else "Use settings that go together"
    st.button(label, key="mend", on_click=_change, args=(view, raw, changes), kwargs={"by_rule": by_rule})
    if len(named) > 1:
        st.caption(plain(f"They are: {'; '.join(named)}."))


def _change(view: state.View, raw: checks.Raw, changes: Mapping[str, object], *, by_rule: bool) -> None:
    """Changes the form; a callback. `by_rule`: δ follows from the data."""
    changed = train_form.values_of(checks.parse(checks.changed(raw, changes)))
    if by_rule:
        changed["delta"] = None
    view.go(train_form.CODEC.write({**changed, **{name: view[name] for name in ("run", "study", "question")}}))


def bring(view: state.View) -> None:
    """Brings along what fits the data that were just chosen; a callback. Settings that are refused change nothing else."""
    dataset = str(st.session_state[view.key("dataset")])
    values = train_form.CODEC.read(link.parameters()).values
    raw = train_form.raw_of(values)
    with suppress(BadInput):
        changes = forecasts.fitting(raw, dataset)
        before = checks.parse(raw).data.backbone
        named = _words(values, {key: value for key, value in changes.items() if key != "privacy.delta"})
        network = str(cast("Mapping[str, object]", changes["data"])["backbone"])
        brought = [backbones.card(str(changes.get("data.backbone", network))).title, *named]
        st.session_state["brought"] = dataset, brought if network != before else named
        _change(view, raw, changes, by_rule=True)


def _words(values: Mapping[str, object], changes: Mapping[str, object]) -> list[str]:
    """The changes as the form with them says it."""
    changed = {**values, **{name: changes[name] for name in ("method",) if name in changes}}
    if "scenario" in changes:
        changed["scenario"] = cast("Mapping[str, object]", changes["scenario"])["kind"]
    return [word for key, value in changes.items() if (word := _word(key, value, changed))]


def _word(key: str, value: object, mended: train_form.Values) -> str:
    """A change as the form with the mended values says it; empty for a value left out, which goes with another change."""
    if setting := fields.setting_of(key, str(mended["method"]), str(mended["scenario"])):
        return f"an empty “{setting.title}”" if value is None else f"“{setting.title}” = {setting.shown(value)}"
    if value is None or key == "data":
        return ""
    named = fields.options(key, str(mended["scenario"])).get(str(value), "")
    match key, value:
        case "params", _:
            return "the method's defaults"
        case "seeds", [*seeds]:
            return counted(len(seeds), "seed")
        case "method" | "data.dataset" | "data.backbone", _:
            return named
        case "scenario", {"kind": kind}:
            return scenarios.card(str(kind)).title
        case "labels", _:
            return f"“{named}” as label list"
        case "privacy.adjacency", _:
            return f"“{named}”"
        case "privacy.epsilons", [*budgets]:
            return f"ε = {'; '.join(epsilon_text(cast(float, epsilon)) for epsilon in budgets)}"
        case "privacy.delta", _:
            return f"δ = {value:g}"
    return f"“{fields.TITLES.get(key, key)}” = {value}"


# What stands beside the form before there is a run of it: its stream, and the recorded curve nearest to it.


_NOT_HERE = "It appears when the dataset is on this computer; a preview downloads nothing."
_SAME_EXAMPLES = "Every task has the same examples, so the privacy spent on an example adds up over the tasks."
_SAME_CLIENTS = "A client may be in every task, so the privacy spent on a client adds up over the tasks."


def stream(values: Mapping[str, object] | None, spec: RunSpec | None = None, filled: float = 1.0) -> None:
    """Draws the stream of the first seed, of the form's `values` or of a run. `filled`: the share that is read already."""
    shown, lacks = None, "It appears when the settings fit the data."
    with suppress(BadInput):
        if values is not None:  # the data, the scenario and the seeds of the form, whatever its other settings are
            raw = train_form.raw_of(values)
            spec = checks.parse({name: raw[name] for name in ("data", "scenario", "seeds")})
        assert spec is not None
        shown, lacks = scenarios.preview(spec.data, spec.scenario, spec.seeds[0]), _NOT_HERE
    if shown is None or spec is None:
        st.caption(f"**The stream.** {lacks}")
        return
    said = []
    if shown.held is not None:
        said.append(f"{len(shown.held)} clients hold {shown.held.min():,} to {shown.held.max():,} examples each.")
    if spec.scenario.recurrence == "every":
        said.append(_SAME_EXAMPLES if spec.scenario.n_users is None else _SAME_CLIENTS)
    if datasets.card(spec.data.dataset).is_own:
        said.append("We show no counts: they would reveal something.")
    figure_card.show(
        _picture(shown, round(filled, 2), text.is_dark()), None, key="stream", title="Which classes come when",
        note="darker: more examples", live=True, caption=" ".join(said),
    )  # fmt: skip


@lru_cache(maxsize=60)
def _picture(shown: scenarios.Preview, filled: float, dark: bool) -> Picture:
    return drawing.stream(
        shown.counts, homes=shown.homes, classes=shown.classes, tasks=shown.tasks, filled=filled, dark=dark
    )


def ghost(spec: RunSpec) -> bool:
    """Draws the recorded curve nearest to such a run, in grey, with what differs; returns whether there is one."""
    if (drawn := _ghost(digest=spec.digest(), dark=text.is_dark(), _spec=spec)) is None:
        return False
    picture, source, of = drawn
    keys = forecasts.differences(spec, of)
    named = [fields.title(key, of.method, of.scenario.kind).lower() for key in keys[:_NAMED]]
    named += [f"{len(keys) - _NAMED} more"] if len(keys) > _NAMED else []
    note = f"with other settings: {', '.join(named)}" if named else "with these settings"
    figure_card.show(picture, source, key="ghost", title="Measured before", note=plain(note), live=True)
    return True


@st.cache_resource(max_entries=60, show_spinner=False)
def _ghost(digest: str, dark: bool, _spec: RunSpec) -> tuple[Picture, Provenance, RunSpec] | None:
    example = state.example()
    return forecasts.ghost(_spec, (example.spec, example.accuracy), dark=dark)


# Which ε, which method, are my data too few: what recorded runs let one expect, from public numbers alone.


HELPER = "Which ε, which method, are the data too few?"


def helper(sizes: forecasts.Sizes | None, key: str) -> None:
    """Draws the advice and the table, once opened; nothing where the records say nothing of such a run (None)."""
    if sizes is not None and (box := layout.folded(HELPER, key)) is not None:
        with box:
            _advice(sizes)


def asking_helper() -> None:
    """Draws the same for data that nobody has brought, once opened: numbers that a visitor types."""
    if (box := layout.folded(HELPER, "explore-helper")) is None:
        return
    with box:
        asked = (("Training examples", 10, 10**7, 1000), ("Classes", 2, 1000, 10), ("Tasks", 1, 100, 5))
        cards = {card.name: card for card in backbones.CARDS.values() if card.feature_dim and not card.is_language_model}
        with st.container(horizontal=True, gap="small"):
            n, classes, tasks = (
                int(st.number_input(title, least, most, start, key=f"helper-{title}", width=150))
                for title, least, most, start in asked
            )
            network = st.selectbox("Network", cards, format_func=lambda name: cards[name].title, key="helper-network")
        n_features, delta = cards[network].feature_dim or 0, checks.default_delta(n)
        _advice(forecasts.Sizes(n, classes, tasks, network, n_features, "prior-const", delta))


def _advice(sizes: forecasts.Sizes) -> None:
    with st.spinner("Looking at recorded runs ..."):
        counts = f"{sizes.n_people:,} examples, {sizes.n_classes} classes and {sizes.n_tasks} tasks"
        st.markdown(f"With about {counts}: **{forecasts.advice(sizes)}**")
        found = forecasts.expected(sizes)
        cells = {at: f"{100 * one.accuracy:.0f} ({100 * one.low:.0f}–{100 * one.high:.0f})" for at, one in found.items()}
        rows = [
            (methods.card(name).title, *(cells.get((name, epsilon), "–") for epsilon in forecasts.BUDGETS))
            for name in forecasts.METHODS
        ]
        layout.draw_table(("accuracy to expect, %", *(f"ε = {epsilon:g}" for epsilon in forecasts.BUDGETS)), rows)
        said = f"From runs on other data: at least {10 * forecasts.SHARE:.0f} in 10 lay within such an interval."
        if all(one.network != sizes.network for one in forecasts.known()):
            said += " None of them used this network, so trust it less."
        st.caption(f"{said} Guessing gives {100 / sizes.n_classes:.0f} % where classes are equally large.")
