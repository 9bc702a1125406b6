"""Links, today's and the first version's, the address bar, fields of settings, refusals in words, the search for runs."""

import json
import math
from dataclasses import dataclass
from typing import Literal
from urllib.parse import parse_qsl, urlencode, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st
from streamlit.testing.v1 import AppTest

from dpcl_core import checks
from dpcl_core.errors import BadInput
from dpcl_core.runs import administration
from dpcl_core.runs.shards import Sets
from dpcl_core.runs.store import Store
from dpcl_core.spec import Settings, parameter
from pages import privacy, runs
from pages.parts import fields, link, playground, state, train_form
from pages.parts.link import Codec, Field
from tests.pages.conftest import Open, words
from tests.support import replay
from tests.support.asserting import refusal_of, refuses


@dataclass(frozen=True, kw_only=True)
class Odd(Settings):
    steps: int = parameter(10, "", "How many.", ge=1, le=50)
    rate: float = parameter(0.5, gt=0, le=1)
    mode: Literal["a", "b"] = parameter("a", "How it is done")
    fast: bool = False
    order: tuple[str, ...] | None = None
    size: int | None = parameter(None, ge=2)
    epochs: tuple[int, ...] | None = None


@dataclass(frozen=True, kw_only=True)
class Nested(Settings):
    inner: dict[str, int]


def test_options_of_one_title_are_told_apart_by_their_names() -> None:
    """Two runs, tunings or folders of own data may have one title; a browser gives back a title, not a place."""
    found = fields.told_apart({"own:a": "Visits", "own:b": "Visits", "digits": "Digits", None: "None"})
    assert found == {"own:a": "Visits (own:a)", "own:b": "Visits (own:b)", "digits": "Digits", None: "None"}


def test_bounds_help_and_sorts_are_read_from_the_model_and_what_has_no_widget_is_refused_by_name() -> None:
    found = {one.name: one for one in fields.settings(Odd)}
    assert {name: (one.sort, one.low, one.high, one.is_optional) for name, one in found.items()} == {
        "steps": ("integer", 1, 50, False), "rate": ("number", 0, 1, False), "mode": ("choice", None, None, False),
        "fast": ("boolean", None, None, False), "order": ("texts", None, None, True), "size": ("integer", 2, None, True),
        "epochs": ("integers", None, None, True),
    }  # fmt: skip
    assert [found[name].title for name in ("rate", "mode")] == ["Rate", "How it is done"]
    assert (found["steps"].help, found["mode"].options) == ("How many.", ("a", "b"))
    assert found["epochs"].kind().read("3,1,2") == (3, 1, 2)
    refuses("inner", fields.settings, Nested, error=TypeError)


def test_permutations_of_ones_own_are_for_files_and_commands_not_for_links() -> None:
    spec = checks.parse({"scenario": {"kind": "permuted", "tasks": 2, "permutations": [[1, 0, 2], [2, 1, 0]]}})
    assert checks.parse(checks.read_toml(checks.to_toml(spec))) == spec
    parameters = train_form.parameters_of(spec)
    assert not any("permutations" in key for key in parameters)
    assert parameters["s.tasks"] == "2"


# Links: what is written is read back, nothing broken passes silently, nothing unknown is lost.


CODEC = Codec(
    Field("epsilon", "e", "ε", link.BUDGET, 1.0),
    Field("budgets", "es", "budgets", link.Many(link.BUDGET), (1.0, 8.0)),
    Field("tasks", "t", "tasks", link.Whole(1, 100), 5),
    Field("size", "n", "size", link.Maybe(link.Whole(1, 10**6)), None),
    Field("labels", "l", "label list", link.Choice(("data", "prior", "prior-const")), "prior-const"),
    Field("hidden", "h", "hidden", link.Flag(), False),
    Field("name", "q", "name", link.Text(), ""),
    Field("classes", "c", "classes", link.Maybe(link.Many(link.Text())), None),
)
BUDGETS = st.floats(min_value=5e-324, allow_nan=False, allow_infinity=True)
WORDS = st.text(min_size=1, max_size=12)
VALUES = st.fixed_dictionaries({
    "epsilon": BUDGETS,
    "budgets": st.lists(BUDGETS, max_size=6).map(tuple),
    "tasks": st.integers(1, 100),
    "size": st.none() | st.integers(1, 10**6),
    "labels": st.sampled_from(["data", "prior", "prior-const"]),
    "hidden": st.booleans(),
    "name": st.text(max_size=20),
    "classes": st.none() | st.lists(WORDS, min_size=1, max_size=4).map(tuple).filter(lambda words: words != ("-",)),
})  # fmt: skip


OWN_KEYS = {"v", *(field.key for field in CODEC.fields)}


@given(VALUES, st.dictionaries(WORDS.filter(lambda key: key not in OWN_KEYS), st.text(max_size=12), max_size=3))
def test_what_is_written_is_read_back_in_order_without_defaults(values: dict[str, object], unknown: dict[str, str]) -> None:
    written = CODEC.write(values, unknown)
    address = link.address("http://127.0.0.1:8501/train?old=1", written)
    read = CODEC.read(dict(parse_qsl(urlsplit(address).query, keep_blank_values=True)))
    assert (read.values, read.unknown) == (values, unknown)
    assert bool(read.notices) == bool(unknown)
    turned = CODEC.write(dict(reversed(values.items())), dict(reversed(unknown.items())))
    own = [field for field in CODEC.fields if field.key in written]
    assert list(written) == list(turned) == ["v", *(field.key for field in own), *sorted(unknown)]
    assert all(values[field.name] != field.default for field in own)
    assert len(urlencode(written)) <= 2000


@given(st.dictionaries(st.sampled_from(sorted(OWN_KEYS)), st.text(max_size=30)))
def test_any_text_gives_a_value_and_a_notice_for_each_that_was_not_taken(raw: dict[str, str]) -> None:
    read = CODEC.read(raw)
    assert set(read.values) == {field.name for field in CODEC.fields}
    for field in CODEC.fields:
        value = read.values[field.name]
        if field.key in raw and not any(notice.startswith(f"The link asks for {field.title} =") for notice in read.notices):
            assert CODEC.read(CODEC.write({field.name: value})).values[field.name] == value
        else:
            assert value == field.default


@pytest.mark.parametrize(("key", "texts", "instead"), [
    ("e", ("banana", "0", "-1", "nan"), "using 1 instead"), ("es", ("1,,8",), "using 1,8 instead"),
    ("t", ("101", "٣"), "using 5 instead"), ("n", ("0",), "that is left out"),
    ("l", ("secret",), "using prior-const instead"), ("h", ("yes",), "using 0 instead"),
    ("q", ("x" * 101,), "that is left out"),
])  # fmt: skip
def test_broken_values_give_a_notice_of_what_is_allowed_and_used(key: str, texts: tuple[str, ...], instead: str) -> None:
    field = next(one for one in CODEC.fields if one.key == key)
    for text in texts:
        said, must = text if len(text) < 41 else f"{text[:37]}...", link.allowed(field.kind)
        assert CODEC.read({key: text}).notices == (f"The link asks for {field.title} = {said}: must be {must}; {instead}.",)


def test_unknown_keys_and_versions_are_reported_and_the_first_kept() -> None:
    read = CODEC.read({"e": "2", "zz": "1", "future": "x"})
    assert read.notices == ("The link also has future, zz, unknown to this page: kept in the link, not used.",)
    assert CODEC.write(read.values, read.unknown) == {"v": "1", "e": "2", "future": "x", "zz": "1"}
    assert CODEC.read({"v": "9"}).notices[0].startswith("The link has version 9; ")
    assert (CODEC.write({"epsilon": math.inf})["e"], CODEC.read({"e": "∞"}).values["epsilon"]) == ("inf", math.inf)


def test_a_link_never_exceeds_its_length() -> None:
    assert CODEC.write({"epsilon": 2.0}, {str(i): "x" * 90 for i in range(30)}) == {"v": "1", "e": "2"}
    refuses("must have at most 2000", CODEC.write, {"classes": tuple("ä" * 90 for _ in range(20))})


def test_a_word_is_read_like_the_short_key_and_never_written_and_no_two_fields_share_a_key() -> None:
    codec = Codec(Field("step", "s", "step", link.Whole(1, 9), 1, word="step"))
    for asked, number in (({"step": "3"}, 3), ({"step": "3", "s": "4"}, 4)):
        read = codec.read(asked)
        assert (read.values, read.notices) == ({"step": number}, ())
        assert codec.write(read.values) == {"v": "1", "s": str(number)}
    assert codec.read({"step": "x"}).notices == codec.read({"s": "x"}).notices != ()
    for first, word in (("step", "step"), ("x", "")):
        with pytest.raises(ValueError, match="share a link key"):
            Codec(Field("a", first, "a", link.Flag(), False), Field("b", "x", "b", link.Flag(), False, word=word))


# The view of a page: what a visitor presses counts, also before the page has been drawn for the first time.


def _page() -> None:
    """A page with one control, which ends before it is whole while `is_cut_off` is set, as one does that is drawn anew."""
    import streamlit as st

    from pages.parts import link
    from pages.parts.state import View

    view = View("made-up", link.Codec(link.Field("size", "s", "size", link.Whole(1, 9), 1)))
    size = st.number_input("Size", 1, 9, int(str(view["size"])), key=view.key("size"))
    if st.session_state["is_cut_off"]:
        st.stop()
    view.values = {"size": size}
    view.commit()


@pytest.mark.parametrize("address", [{}, {"v": "1", "s": "3"}])
@pytest.mark.parametrize("meanwhile", [{}, {"s": "7"}])
def test_a_press_before_the_page_is_whole_is_kept_but_for_a_link(address: dict[str, str], meanwhile: dict[str, str]) -> None:
    page = AppTest.from_function(_page)
    page.session_state["is_cut_off"] = True
    page.query_params.update(address)
    page.run()
    page.number_input[0].set_value(5).run()
    page.session_state["is_cut_off"] = False
    page.query_params.update(meanwhile)
    page.run()
    assert (page.number_input[0].value, page.query_params["s"]) == (7 if meanwhile else 5, "7" if meanwhile else "5")


def _at(page: AppTest, size: int, *, shown: str | None) -> AppTest:
    """The page after a press that sets the size, in a browser whose address still shows the other one."""
    page.query_params.clear()
    page.query_params.update({} if shown is None else {"v": "1", "s": shown})
    return page.number_input[0].set_value(size).run()


def _whole() -> AppTest:
    page = AppTest.from_function(_page)
    page.session_state["is_cut_off"] = False
    return page.run()


def test_a_browser_that_is_behind_opens_no_link() -> None:
    """It sends each press with the address before the last one or two; each address was the page's own."""
    page = _whole()
    for size, shown in ((3, None), (4, None), (5, "3"), (6, "4")):
        _at(page, size, shown=shown)
    assert (page.number_input[0].value, page.query_params["s"]) == (6, "6")


@pytest.mark.parametrize("is_history", [True, False])
def test_back_in_the_browser_leads_back(is_history: bool) -> None:
    page = _whole()
    _at(page, 3, shown=None)
    _at(page, 4, shown="3")
    if is_history:  # said by an earlier message, which this one overtook
        page.session_state[state.LED_TO] = ["v=1&s=3"]
    page.query_params["s"] = "3"
    page.run()
    assert page.number_input[0].value == (3 if is_history else 4)
    _at(page, 5, shown="3")
    _at(page, 6, shown="3")  # the browser is behind, which is no Back any more
    assert page.number_input[0].value == 6


def test_back_from_a_view_that_was_not_drawn_to_its_end_leads_back() -> None:
    page = _at(_whole(), 3, shown=None)
    for is_cut_off, shown in ((True, "7"), (False, "3")):
        page.session_state["is_cut_off"] = is_cut_off
        page.query_params["s"] = shown
        page.run()
        page.session_state[state.LED_TO] = ["v=1&s=3"]
    assert (page.number_input[0].value, page.query_params["s"]) == (3, "3")


# Refusals on Train speak as its form does.


@pytest.mark.parametrize(("raw", "starts", "says"), [
    ({"data": {"dataset": "ag_news"}}, "Network for the features = “Pixels, or other values of the exam", "“MiniLM"),
    ({"scenario": {"kind": "federated"}}, "Stream = “Clients, and one task after another”: ", "“New classes in every"),
    ({"data": {"dataset": "nonsense"}}, "Dataset = nonsense: ", "“Handwritten digits”"),
    ({"labels": "mine"}, "Label list = mine: ", "“One public list”"),
    ({"privacy": {"epsilons": [-1]}}, "Privacy budget ε = -1: ", "above 0"),
])  # fmt: skip
def test_a_refusal_names_fields_and_options_as_the_form_does(raw: dict[str, object], starts: str, says: str) -> None:
    error = refusal_of(lambda: checks.check_run(checks.parse({"method": "cosine", **raw})))
    said = train_form.in_words(error, {"method": "cosine", "scenario": "class-incremental"})
    assert (said.startswith(starts), says in said, "'" in said) == (True, True, False), said


@pytest.mark.parametrize(("refused", "said"), [
    (("params.head", "shared", "must be 'private' or 'clean'"), "Output layer = shared: must be “Private” or “Clean”"),
    (("scenario.clients", 1, "must be at least scenario.tasks = 4"), "Clients = 1: must be at least Tasks = 4"),
    (("params.rate", 3, "must be below 1"), "params.rate = 3: must be below 1"),  # no field of this method
    *((("data.dataset", "svhn", f"put it into {at}; or take mnist"), f"Dataset = “SVHN”: put it into {at}; or take")
      for at in ("/data/svhn", r"C:\data\svhn", "svhn/train.parquet", "svhn.mat", "own:svhn")),
])  # fmt: skip
def test_settings_have_the_titles_of_their_fields_and_paths_stay(refused: tuple[str, object, str], said: str) -> None:
    told = train_form.in_words(BadInput(*refused), {"method": "cslr-central", "scenario": "federated"})
    assert told.removesuffix(" “MNIST”") == said


# Finding runs by words and tags, and groups of runs that belong together.


def _filled(store: Store, name: str, **more: object) -> str:
    return replay.finished(store, replay.a_spec(**more), name=name)  # type: ignore[arg-type]


def _found(text: str, store: Store) -> list[str]:
    return [run.id for run in store.list_runs(only=fields.wanted(text, store))]


def test_every_word_must_be_there_and_a_tag_is_a_whole_word(store: Store) -> None:
    first, second = _filled(store, "lists #Class"), _filled(store, "lists #classroom", labels="prior")
    for text, found in {
        "LISTS cosine": [second, first], "#class": [first], f"lists {second[:6]}": [second], "lists nothing": [],
        "#": [],  # no tag at all
        "": [second, first],
    }.items():  # fmt: skip
        assert _found(text, store) == found


@pytest.mark.parametrize("spec", ["{}", '{"method": 5, "data": []}', "[]", '{"method": "cos'])
def test_settings_that_cannot_be_read_hide_no_other_run(spec: str, store: Store) -> None:
    """As after an edit by hand, or from another version of the program."""
    good, bad = _filled(store, "lists"), _filled(store, "lists, damaged")
    replay.alter(store, bad, spec=spec)
    assert (_found("lists", store), _found("digits cosine", store)) == ([bad, good], [good])
    assert administration.runs_on(store, "digits") == [good]


def test_a_run_of_a_set_is_found_by_the_preset_too(store: Store) -> None:
    other = _filled(store, "alone")
    set_id = Sets(store).create("digits-cosine", {"a": replay.a_spec()}, titles={"a": "What does a budget cost?"})
    assert (_found("digits-cosine", store), set(_found("", store))) == ([set_id], {set_id, other})


def test_groups_share_a_tag_or_their_test(store: Store) -> None:
    first, second = _filled(store, "#a"), _filled(store, "#a #b", tasks=2)
    third, fourth = _filled(store, "c", labels="prior"), _filled(store, "d", tasks=2, labels="prior")
    groups = fields.groups(store.list_runs())
    assert groups.pop("#a") == [second, first]
    assert sorted(map(sorted, groups.values())) == sorted([sorted([first, third]), sorted([second, fourth])])
    one, other = groups  # both streams have the same title: they are numbered
    assert other == f"{one} (2)"


# Links of the first version of the app are still good. They were written by commit 5152048, the first with all these pages.


RUN = "25a7e4813d54"
SPEC = (
    '{"method":"cosine","params":{},"data":{"dataset":"digits","train_per_class":20,"test_per_class":5,"backbone":"pixels"},'
    '"scenario":{"kind":"class-incremental","tasks":2,"classes_per_task":null},"labels":"prior","public_labels":null,"privacy":'
    '{"epsilons":[0.5,"Infinity"],"delta":0.0001,"adjacency":"replace","noise":"seeded"},"seeds":[3,4]}'
)
TRAIN = "v=1&f=0.5&tr=20&te=5&s.tasks=2&l=prior&e=0.5%2Cinf&a=replace&n=seeded&sd=3%2C4"
# Link and what it named, by the names of the fields.
LINKS: dict[str, tuple[link.Codec, str, dict[str, object]]] = {
    "playground": (
        playground.CODEC, f"v=1&run={RUN}&l=prior&t=2&e=2&p=prior-const%7E5%7E1&plain=1",
        {"run": RUN, "labels": "prior", "tasks": "2", "epsilon": 2.0, "pins": ("prior-const~5~1",), "plain": True},
    ),
    "privacy": (
        privacy.CODEC, f"v=1&run={RUN}&e=1&m=sampled&f=delta&a=replace&ce=2&cs=4&cd=1e-6&cq=0.1&cn=10&k=5&ke=0.2",
        {
            "run": RUN, "epsilon": 1.0, "mechanism": "sampled", "find": "delta", "adjacency": "replace", "in_epsilon": "2",
            "in_sigma": "4", "in_delta": "1e-6", "in_rate": "0.1", "in_steps": "10", "tasks": 5, "task_epsilon": 0.2,
        },
    ),
    "runs": (runs.CODEC, "v=1&st=finished&so=seconds&q=Old", {"status": ("finished",), "sort": "seconds", "search": "Old"}),
    "compare": (
        runs.CODEC, f"v=1&r={RUN}%2C{RUN}&f=1&a=A&b=B",
        {"runs": (RUN, RUN), "focus": 1.0, "first": "A", "second": "B"},
    ),
    "train": (train_form.CODEC, TRAIN, {"focus": 0.5, "epsilons": (0.5, math.inf), "seeds": (3, 4)}),
}  # fmt: skip


@pytest.mark.parametrize("name", LINKS)
def test_the_first_versions_links_lead_to_what_they_named(name: str, store: Store, open_page: Open) -> None:
    codec, query, named = LINKS[name]
    read = codec.read(dict(parse_qsl(query)))
    assert ({field: read.values[field] for field in named}, read.notices) == (named, ())
    run_id = replay.finished(store, replay.a_spec(epsilons=(1.0,), seeds=(0,)))
    assert "The link" not in words(open_page(name, **dict(parse_qsl(query.replace(RUN, run_id)))))
    if name == "train":  # whose link names the settings of a spec
        assert checks.parse(train_form.raw_of(read.values)) == checks.parse(json.loads(SPEC))
