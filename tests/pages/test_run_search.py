"""Finding runs by words and tags, and groups of runs that belong together."""

from __future__ import annotations

import pytest
from sqlalchemy import update

from dpcl_core.runs import administration, tables
from dpcl_core.runs.shards import Sets
from dpcl_core.runs.store import Store
from pages.parts import fields
from pages.parts.comparison import MOST
from tests.pages.conftest import Open
from tests.support import replay


def _filled(store: Store, name: str, **more: object) -> str:
    spec = replay.a_spec(**more)  # type: ignore[arg-type]
    return replay.fill(store, spec, replay.recorded(spec), name=name)


def _found(text: str, store: Store) -> list[str]:
    return [run.id for run in store.list_runs(only=fields.wanted(text, store))]


def test_every_word_must_be_there_and_a_tag_is_a_whole_word(store: Store) -> None:
    first, second = _filled(store, "lists #Class"), _filled(store, "lists #classroom", labels="prior")
    assert _found("LISTS cosine", store) == [second, first]
    assert _found("#class", store) == [first]
    assert _found(f"lists {second[:6]}", store) == [second]
    assert _found("lists nothing", store) == []
    assert _found("#", store) == []  # no tag at all
    assert len(_found("", store)) == 2


@pytest.mark.parametrize("spec", ["{}", '{"method": 5, "data": []}', "[]", '{"method": "cos'])
def test_settings_that_cannot_be_read_hide_no_other_run(spec: str, store: Store) -> None:
    """As after an edit by hand, or from another version of the program."""
    good, bad = _filled(store, "lists"), _filled(store, "lists, damaged")
    with store.writing() as connection:
        connection.execute(update(tables.runs).where(tables.runs.c.id == bad).values(spec=spec))
    assert _found("lists", store) == [bad, good]
    assert _found("digits cosine", store) == [good]
    assert administration.runs_on(store, "digits") == [good]


def test_a_run_of_a_set_is_found_by_the_preset_too(store: Store) -> None:
    other = _filled(store, "alone")
    set_id = Sets(store).create("digits-cosine", {"a": replay.a_spec()}, titles={"a": "What does a budget cost?"})
    assert _found("digits-cosine", store) == [set_id]
    assert set(_found("", store)) == {set_id, other}


def test_groups_share_a_tag_or_their_test(store: Store) -> None:
    first, second = _filled(store, "#a"), _filled(store, "#a #b", tasks=2)
    third, fourth = _filled(store, "c", labels="prior"), _filled(store, "d", tasks=2, labels="prior")
    groups = fields.groups(store.list_runs())
    assert groups.pop("#a") == [second, first]
    assert sorted(map(sorted, groups.values())) == sorted([sorted([first, third]), sorted([second, fourth])])
    one, other = groups  # both streams have the same title: they are numbered
    assert other == f"{one} (2)"


def test_a_group_is_picked_with_one_press_and_the_search_narrows_the_list(open_page: Open, store: Store) -> None:
    tagged = [_filled(store, f"run {k} #lesson", labels="prior" if k % 2 else "prior-const") for k in range(3)]
    for k in range(MOST):
        _filled(store, f"other {k}", tasks=2)
    page = open_page("compare")
    assert not page.exception
    (button,) = (one for one in page.button if one.label.startswith("\\#lesson"))
    button.click().run()
    assert not page.exception
    assert set(page.multiselect[0].value) == set(tagged)
    (search,) = (one for one in page.text_input if one.label == "Search")
    search.set_value("#lesson").run()
    assert len(page.multiselect[0].options) == len(tagged)
    assert set(page.multiselect[0].value) == set(tagged)
