"""The box with Start: what a run of the form would take, why it may not be started, and the button."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import cast

import streamlit as st

from dpcl_core import checks, presets
from dpcl_core.backbones import catalog as backbones
from dpcl_core.data import catalog as datasets
from dpcl_core.errors import BadInput
from dpcl_core.figures.picture import Picture, epsilon_text
from dpcl_core.methods import catalog as methods
from dpcl_core.methods.common.public_sizes import of_spec
from dpcl_core.methods.references import forecast
from dpcl_core.papers import questions
from dpcl_core.privacy import noise_forecast
from dpcl_core.runs import administration, charges, process
from dpcl_core.runs.run import Split
from dpcl_core.scenarios import catalog as scenarios
from dpcl_core.spec import RunSpec
from pages.parts import fields, layout, pecl_claim, rooms, state, status_line, text, train_form
from pages.parts.figure_card import drawing
from pages.parts.questions import FORMS, in_short
from pages.parts.text import plain

# The question that the form of Train starts from: its list, its link and the way back to it.


def link(name: str) -> dict[str, str]:
    """The link to the first run of a question, which the form then names."""
    return train_form.parameters_of(presets.load(name, here=True), question=name)


def pick(view: state.View) -> None:
    """Draws the list of presets; a picked one fills in the form."""
    titles = _titles()
    key = view.key("preset")

    def load() -> None:
        picked = st.session_state[key]
        if picked is not None:
            view.go(link(picked))

    st.selectbox(
        "Preset", list(titles), index=None, placeholder="Start from a question …",
        format_func=titles.__getitem__, key=key, on_change=load,
    )  # fmt: skip


def origin(view: state.View, values: train_form.Values) -> None:
    """Draws which question the form started from, with a link to its answer; once changed, with the way back."""
    name = cast("str | None", view["question"])
    if name is None:
        return
    is_changed = not _is_as_asked(name, values)
    about = presets.about(name)
    st.caption(plain(f"From the question “{about.title}”{'; changed.' if is_changed else '.'}"))
    if is_changed:
        st.button("Back to it", key="back-to-question", type="tertiary", on_click=lambda: view.go(link(name)))
    st.page_link("pages/questions.py", label="Its answer", query_params={"v": "1", "question": name})


def smaller(view: state.View, values: train_form.Values) -> None:
    """Draws "The same, small" where a question cannot be started as it is, but in a smaller form."""
    name = cast("str | None", view["question"])
    if name is None or not _is_as_asked(name, values):
        return
    for size, form in questions.of_preset(name).forms.items():  # smallest first
        if form.name == name:
            return
        if _is_startable(form.name):
            label = f"The same, {FORMS[size]}"
            st.button(label, key="smaller-form", width="stretch", on_click=view.go, args=(link(form.name),))
            return


def _is_as_asked(name: str, values: train_form.Values) -> bool:
    """Whether the form has the settings of the question's first run, whether or not it can be carried out here."""
    try:
        return checks.parse(train_form.raw_of(values)).digest() == questions.digests(name)[0]
    except BadInput:
        return False


def _is_startable(name: str) -> bool:
    try:
        checks.check_run(next(iter(questions.specs(name).values())))
    except BadInput:
        return False
    return True


def _titles() -> dict[str, str]:
    """What the list of presets shows, by name: title, form and duration of all runs, as the gallery has them."""
    titles = {}
    durations = questions.durations(presets.names(), state.store())
    forms = {form.name: (one, size) for one in questions.questions() for size, form in one.forms.items()}
    for name in presets.names():
        question, size = forms[name]
        form = f", {FORMS[size]}" if len(question.forms) > 1 else ""
        n_runs = len(questions.specs(name))
        runs = f"all {n_runs} runs: " if n_runs > 1 else ""
        titles[name] = f"{question.title}{form} ({runs}{in_short(durations[name])})"
    return titles


def draw(
    view: state.View, values: train_form.Values, spec: RunSpec | None, refusal: str | None, device: str, split: Split | None
) -> None:
    """Draws the box for the form's spec, or for the sentence that refuses its values."""
    with st.container(key="start-box", gap="small"):
        if refusal:
            st.error(plain(refusal))
            _mend_button(view, values)
            smaller(view, values)
        elif spec is not None:
            _noise_warning(spec)
            pecl_claim.looks(spec.data.dataset)
            layer = methods.layer(spec)
            named = "" if layer is None else f" Layer: {plain(layer.title)}."
            st.caption(_estimate(spec, device) + named, help=None if layer is None else plain(layer.words))
        costly = _costly(spec, device)
        if costly:
            st.error(plain(train_form.in_words(costly, values)))
            if costly.fix:
                _mend_button(view, values, costly.fix)
        is_off = spec is None or costly is not None
        if st.button("Start", type="primary", width="stretch", disabled=is_off, key="start") and spec is not None:
            _start(spec, device, split)


def _estimate(spec: RunSpec, device: str) -> str:
    waiting = sum(state.store().queues().get(device, ()))
    queue = "Queue: empty." if not waiting else f"Queue: {waiting} before it."
    models = f"{spec.n_cells} model{'s' * (spec.n_cells > 1)}."
    seconds, is_here = _seconds(spec, device)
    parts = [_derived(key=spec.to_json(), _spec=spec), models, status_line.estimate(seconds, is_here=is_here), queue]
    return " ".join(filter(None, parts))


@st.cache_data(max_entries=200, show_spinner=False)
def _derived(key: str, _spec: RunSpec) -> str:
    """Quantities derived from the method's settings on this dataset, in words; `key` identifies the spec for the cache."""
    card, facts = methods.card(_spec.method), of_spec(_spec)
    return " ".join(filter(None, [card.derived(_spec.params, facts), card.totals(_spec, facts)]))


def _seconds(spec: RunSpec, device: str) -> tuple[float | None, bool]:
    """The expected duration from past runs of this spec, else from the preset with this spec; whether it is from here."""
    here, preset = state.store().estimate_seconds(spec, device=device), _preset_of(spec)
    return (here if here is not None or preset is None else preset.seconds), here is not None


def _costly(spec: RunSpec | None, device: str) -> BadInput | None:
    """Why such a run may not be started: above a limit of a shared server, or a budget of own data; None: it may be."""
    store = state.store()
    if spec is None:
        return None
    try:
        if store.visitor is not None:
            administration.check_cost(store, spec, _seconds(spec, device)[0])
        charges.check_at_start(store, spec)
    except BadInput as refused:
        return refused
    return None


def _preset_of(spec: RunSpec) -> presets.Preset | None:
    """The preset with this very spec."""
    digest = spec.digest()
    return next((presets.about(name) for name in presets.names() if questions.digests(name)[0] == digest), None)


def _start(spec: RunSpec, device: str, split: Split | None) -> None:
    preset = _preset_of(spec)
    here = device if split is None else process.here(device)  # its own process gathers what the parts give
    run_id = state.store().create(spec, name=None if preset is None else preset.title, device=here, split=split)
    rooms.share([run_id])
    state.executor().submit(run_id)
    st.session_state["show-run"] = run_id
    st.rerun()


def _noise_warning(spec: RunSpec) -> None:
    """Draws the note, if there is one and the feature dimension is known beforehand: a headline, with details on demand."""
    if note := _note(key=spec.to_json(), _spec=spec):
        short, text = note
        box = layout.popover(plain(short), "noise-warning", type="tertiary", width="stretch")
        if box is not None:
            box.markdown(plain(text))


@st.cache_data(max_entries=200, show_spinner=False)
def _note(key: str, _spec: RunSpec) -> tuple[str, str] | None:
    n_features = _n_features(_spec)
    if n_features is None:
        return None
    try:
        facts = of_spec(_spec)
        n_home = scenarios.classes_per_task(_spec.data, _spec.scenario, _spec.seeds[0])
    except BadInput:
        return None  # reported where the form is checked
    n_home = n_home or facts.n_classes / facts.n_tasks
    try:
        forecasts = forecast(_spec, n_features=n_features, classes_per_task=n_home, facts=facts)
    except BadInput as refused:
        return "ε: one budget is out of reach", f"{refused}."
    text = noise_forecast.note(forecasts)
    return (noise_forecast.headline(forecasts), text) if text is not None else None


def _n_features(spec: RunSpec) -> int | None:
    """Feature dimension of the backbone, else of the example; None if unknown before loading."""
    dimension = backbones.card(spec.data.backbone).feature_dim
    if dimension is not None or spec.data.backbone != "pixels":
        return dimension
    return datasets.card(spec.data.dataset).n_values


def _mend_button(view: state.View, values: train_form.Values, fix: Mapping[str, object] | None = None) -> None:
    """Draws "Use … instead" for refused settings: by this `fix`, else if the refusals on the way say what to use."""
    raw = train_form.raw_of(values)
    changes = fix or checks.repair(raw)
    if not changes:
        return

    def mend() -> None:
        mended = train_form.values_of(checks.parse(checks.changed(raw, changes)))
        if values["delta"] is None and "privacy.delta" not in changes:
            mended["delta"] = None  # by the rule for the new data
        method, scenario = str(mended["method"]), str(mended["scenario"])
        shown = {name: view[name] for name in ("run", "study", "question")}
        view.go(train_form.codec(method, scenario).write({**mended, **shown}))

    mended = {**values, **{name: changes[name] for name in ("method",) if name in changes}}
    if "scenario" in changes:
        mended["scenario"] = cast("Mapping[str, object]", changes["scenario"])["kind"]
    named = [word for key, value in changes.items() if (word := _word(key, value, mended))]
    label = f"Use {named[0]} instead" if len(named) == 1 else "Use settings that go together"
    st.button(label, key="mend", width="stretch", on_click=mend)
    if len(named) > 1:
        st.caption(plain(f"They are: {'; '.join(named)}."))


def _word(key: str, value: object, mended: train_form.Values) -> str:
    """A change as the form with the mended values says it; empty for a value left out, which goes with another change."""
    if setting := fields.setting_of(key, str(mended["method"]), str(mended["scenario"])):
        return f"an empty “{setting.title}”" if value is None else f"“{setting.title}” = {setting.shown(value)}"
    if value is None:
        return ""
    named = fields.options(key, str(mended["scenario"])).get(str(value), "")
    match key:
        case "params":
            return "the method's defaults"
        case "method" | "data.dataset" | "data.backbone":
            return named
        case "scenario":
            return scenarios.card(str(cast("Mapping[str, object]", value)["kind"])).title
        case "labels":
            return f"“{named}” as label list"
        case "privacy.epsilons":
            return f"ε = {'; '.join(epsilon_text(epsilon) for epsilon in cast('tuple[float, ...]', value))}"
        case "privacy.delta":
            return f"δ = {value:g}"
        case "privacy.adjacency":
            return f"“{named}”"
    return f"“{fields.TITLES.get(key, key)}” = {value}"


# A preview of the form's stream before any run: a sentence, and a figure when opened.


_NOT_HERE = "It appears when the dataset is on this computer; a preview downloads nothing."
_NO_FIT = "It appears when the settings fit the data."
_OWN_DATA = (
    "Shown is only the public plan: the home task of each class. The number of your examples in each task is private; "
    "counting them here would be a release that no budget covers."
)
_SAME_EXAMPLES = "Every task has the same examples, so the privacy spent on an example adds up over the tasks."
_SAME_CLIENTS = "A client may be in every task, so the privacy spent on a client adds up over the tasks."


def stream(view: state.View, values: Mapping[str, object], *, is_open: bool) -> None:
    """Draws an expander with the stream of the form's first seed; `is_open`: whether it is open at first."""
    raw = train_form.raw_of(values)
    try:  # the data, the scenario and the seeds of the form, whatever its other settings are
        spec = checks.parse({name: raw[name] for name in ("data", "scenario", "seeds")})
        shown = scenarios.preview(spec.data, spec.scenario, spec.seeds[0])
    except BadInput:
        st.caption(f"**The stream.** {_NO_FIT}")
        return
    if shown is None:
        st.caption(f"**The stream.** {_NOT_HERE}")
        return
    drawn = _picture(shown, text.is_dark())
    box = st.expander(f"**The stream.** {plain(drawn.finding)}", expanded=is_open, key=view.key("stream"), on_change="rerun")
    if not box.open:
        return
    with box:
        is_own = datasets.card(spec.data.dataset).is_own
        what = "blue: home task" if is_own else "darker blue: more training examples; frame: home task; bars: totals by task"
        seed = f"seed {spec.seeds[0]}" + (f"; {_of_others(spec, shown)}" if len(spec.seeds) > 1 else "")
        drawing(drawn, "stream")  # before Plotly has loaded
        sentences = [f"Class by task; {what}; {seed}."]
        if shown.held is not None:
            sentences.append(f"{len(shown.held)} clients hold {shown.held.min():,} to {shown.held.max():,} examples each.")
        if spec.scenario.recurrence == "every":
            sentences.append(_SAME_EXAMPLES if spec.scenario.n_users is None else _SAME_CLIENTS)
        st.caption(" ".join([*sentences, *([_OWN_DATA] if is_own else [])]))


def _of_others(spec: RunSpec, first: scenarios.Preview) -> str:
    """How the streams of other seeds differ, judged by the second seed."""
    if scenarios.card(spec.scenario.kind).needs_values:
        return "every seed draws other orders of the values"
    if spec.scenario.n_users is not None:
        return "every seed assigns the examples to clients differently"
    other = scenarios.preview(spec.data, spec.scenario, spec.seeds[1])
    shown = [
        (one.tasks, one.homes, None if one.counts is None else one.counts.tolist())
        for one in (first, other)
        if one is not None
    ]
    return "every seed has the same stream" if shown[0] == shown[-1] else "every seed has another stream"


@lru_cache(maxsize=60)
def _picture(shown: scenarios.Preview, dark: bool) -> Picture:
    from dpcl_core.figures import stream as figure

    return figure.stream(shown.counts, homes=shown.homes, classes=shown.classes, tasks=shown.tasks, dark=dark)
