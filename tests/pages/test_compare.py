"""The Compare page: curves of several runs, a verdict that follows from the pairs, and refusals in words."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from urllib.parse import parse_qsl

from dpcl_core.events import CellFinished, References
from dpcl_core.papers import measured
from dpcl_core.runs.audits import Audits
from dpcl_core.runs.run import Status
from dpcl_core.runs.store import Store
from pages.parts import comparison, train_form
from tests.pages.conftest import Open, words
from tests.support import replay

SPEC = replay.a_spec()
STATES: dict[Status, str] = {
    "cancelled": "was cancelled", "failed": "failed", "lost": "was lost", "queued": "is still queued",
    "running": "has not finished yet",
}  # fmt: skip


def _filled(store: Store, **more: object) -> str:
    spec = replay.a_spec(**more)  # type: ignore[arg-type]
    return replay.fill(store, spec, replay.recorded(spec), name=f"run {more}")


def test_nothing_to_compare_shows_the_example_and_the_next_step(open_page: Open) -> None:
    page = open_page("compare")
    assert not page.exception
    assert "Nothing to compare yet" in words(page)
    assert page.get("plotly_chart")


def test_the_two_newest_runs_are_compared_at_first(open_page: Open, store: Store) -> None:
    _filled(store)
    _filled(store, labels="prior")
    page = open_page("compare")
    assert not page.exception
    assert len(page.multiselect[0].value) == 2
    assert "A: " in words(page)
    assert "agree exactly" in words(page)  # the recorded numbers do not depend on the label list


def test_runs_on_another_stream_are_warned_about_and_get_no_difference(open_page: Open, store: Store) -> None:
    first, second = _filled(store), _filled(store, tasks=2)
    page = open_page("compare", v="1", r=f"{first},{second}")
    assert "A and B had different streams" in words(page)
    assert "No difference is drawn." in words(page)


def test_no_shared_budget_is_said(open_page: Open, store: Store) -> None:
    first, second = _filled(store, epsilons=(1.0,)), _filled(store, epsilons=(2.0,))
    page = open_page("compare", v="1", r=f"{first},{second}")
    assert not page.exception
    assert "share no ε" in words(page)


def test_a_run_without_a_bound_marks_the_bar(open_page: Open, store: Store) -> None:
    first, second = _filled(store), _filled(store, labels="data")
    page = open_page("compare", v="1", r=f"{first},{second}")
    assert "privacy-bar not-dp" in words(page)
    assert "taking part makes any outcome" in words(page)


def test_unknown_runs_of_a_link_are_named(open_page: Open, store: Store) -> None:
    first = _filled(store)
    page = open_page("compare", v="1", r=f"{first},0123456789ab")
    assert not page.exception
    assert any("0123456789ab, which this store does not have" in w.value.replace("\\", "") for w in page.warning)
    assert page.multiselect[0].value == [first]


def test_a_link_to_a_deleted_run_or_an_audit_leads_to_no_run(open_page: Open, store: Store) -> None:
    """Nor does one to an id with NUL, which no database of PostgreSQL reads."""
    first, deleted = _filled(store), _filled(store)
    audit = Audits(store).create(first)
    store.delete(deleted)
    page = open_page("compare", v="1", r=",".join([first, deleted, audit, "0\0"]))
    assert not page.exception
    assert page.multiselect[0].value == [first]
    assert store.listed([first, deleted, audit, "0\0"]).keys() == {first}
    assert store.present([first, deleted, "0\0"]).keys() == {first, deleted}


def test_a_run_of_a_link_that_has_not_finished_is_not_called_missing(open_page: Open, store: Store) -> None:
    first = _filled(store)
    ended = {state: replay.fill(store, SPEC, [], status=state, name=state) for state in STATES}
    page = open_page("compare", v="1", r=",".join([first, *ended.values()]))
    said = " ".join(warning.value for warning in page.warning)
    assert "this store does not have" not in said
    for state, words_of_it in STATES.items():
        assert f"Run “{state}” {words_of_it}; only finished runs can be compared." in said
    assert page.multiselect[0].value == [first]


def test_one_run_asks_for_another_and_opens_its_settings(open_page: Open, store: Store) -> None:
    page = open_page("compare", v="1", r=_filled(store))
    assert "A difference needs two runs" in words(page)
    (link,) = (one.proto for one in page.get("page_link") if "Open the settings of" in one.label)
    assert dict(parse_qsl(link.query_string)) == train_form.parameters_of(SPEC)


def test_it_opens_on_the_newest_pair_that_can_be_compared(open_page: Open, store: Store) -> None:
    older, other = _filled(store), _filled(store, labels="prior")
    _filled(store, tasks=2)  # the newest has another stream
    page = open_page("compare")
    assert set(page.multiselect[0].value) == {older, other}
    assert "agree exactly" in words(page)


def test_a_ceiling_is_not_what_it_opens_on_and_a_finite_budget_comes_first(open_page: Open, store: Store) -> None:
    private = {_filled(store), _filled(store, labels="prior")}
    _filled(store, epsilons=(math.inf,))  # shares ∞ alone with the others
    wanted = measured.settings(SPEC)
    replay.fill(store, wanted, replay.recorded(wanted))
    assert set(open_page("compare").multiselect[0].value) == private


def test_a_run_with_its_ceiling_alone_opens_on_the_run(open_page: Open, store: Store) -> None:
    run_id, wanted = _filled(store), measured.settings(SPEC)
    replay.fill(store, wanted, replay.recorded(wanted))
    assert open_page("compare").multiselect[0].value == [run_id]


def test_without_such_a_pair_it_opens_on_the_newest_run_with_the_next_step(open_page: Open, store: Store) -> None:
    _filled(store)
    _filled(store)  # the same settings again: nothing to compare
    newest = _filled(store, tasks=2)
    page = open_page("compare")
    assert page.multiselect[0].value == [newest]
    assert "Open this run's settings, change one, press Start" in words(page)


def test_a_wanted_accuracy_gives_an_epsilon_for_every_run(open_page: Open, store: Store) -> None:
    first, second = _filled(store), _filled(store, labels="prior")
    page = open_page("compare", v="1", r=f"{first},{second}", want="20")
    assert not page.exception
    assert page.number_input[0].value == 20
    said = words(page)
    assert "A: The smallest budget measured" in said
    assert "B: The smallest budget measured" in said
    page.number_input[0].set_value(100).run()
    assert "A: No budget measured reaches 100 % accuracy" in words(page)


def test_no_epsilon_is_enough_for_labels_read_from_the_data(open_page: Open, store: Store) -> None:
    first, second = _filled(store), _filled(store, labels="data")
    both = words(open_page("compare", v="1", r=f"{first},{second}", want="20"))
    assert "B: The list of labels is read from the data: no ε bounds that" in both
    assert both.count("The smallest budget measured") == 1
    assert "The ε of B is only what was asked for" in both
    page = open_page("compare", v="1", r=second, want="20")
    assert not page.exception
    assert "A: The list of labels is read from the data" in words(page)
    assert "The smallest budget measured" not in words(page)


def test_a_needed_epsilon_comes_with_what_the_ledger_accounts_for(open_page: Open, store: Store) -> None:
    spec = replay.a_spec()
    said = [
        replace(event, guarantee=replace(event.guarantee, epsilon=2.5 * event.guarantee.epsilon))
        if isinstance(event, CellFinished) else event
        for event in replay.recorded(spec)
    ]  # fmt: skip
    page = open_page("compare", v="1", r=replay.fill(store, spec, said), want="20")
    assert re.search(r"The smallest budget measured, ε = 1 .accounted ε = 2\.5; ", words(page).replace("\\", ""))


def test_a_run_without_noise_alone_is_not_missing_without_a_word(open_page: Open, store: Store) -> None:
    first, second = _filled(store), _filled(store, epsilons=(math.inf,))
    page = open_page("compare", v="1", r=f"{first},{second}", want="20")
    assert not page.exception
    assert "B: No finite ε, so there is nothing to choose from." in words(page)
    assert "The smallest budget measured" in words(page)
    alone = words(open_page("compare", v="1", r=second, want="20"))
    assert "A: No finite ε" in alone
    assert "The smallest budget measured" not in alone


def test_each_number_of_seeds_is_named_and_a_difference_counts_those_in_both(open_page: Open, store: Store) -> None:
    first, second = _filled(store, seeds=(0, 1, 2, 3, 4)), _filled(store, seeds=(0, 1, 2))
    said = words(open_page("compare", v="1", r=f"{first},{second}"))
    assert " · 5 and 3 seeds · " in said
    assert " · 3 seeds · " in said


def test_runs_that_share_too_few_seeds_say_so_once_and_what_to_start(open_page: Open, store: Store) -> None:
    first, second = _filled(store, seeds=(0, 1, 2)), _filled(store, labels="prior", seeds=(0,))
    page = open_page("compare", v="1", r=f"{first},{second}")
    said = words(page)
    assert "Cannot tell at ε = 1, at ε = 8, without noise from 1 seed: at least 3 seeds" in said
    assert said.count("Cannot tell") == 1
    assert "dot and bar" not in said
    (link,) = (one.proto for one in page.get("page_link") if "Open the settings of" in one.label)
    assert "Open the settings of B with 3 seeds" in link.label
    wanted = replay.a_spec(labels="prior", seeds=(0, 1, 2))
    assert dict(parse_qsl(link.query_string)) == train_form.parameters_of(wanted)


def test_no_noise_has_one_name_in_the_verdicts(open_page: Open, store: Store) -> None:
    first, second = _filled(store), _filled(store, labels="prior")
    said = words(open_page("compare", v="1", r=f"{first},{second}"))
    assert "- At ε = 1: " in said
    assert "- Without noise: " in said
    assert "ε = ∞: " not in said


def test_it_does_not_open_on_a_pair_that_it_warns_about(open_page: Open, store: Store) -> None:
    older, other = _filled(store), _filled(store, labels="prior")
    _filled(store, labels="data")
    page = open_page("compare")
    assert set(page.multiselect[0].value) == {older, other}
    assert "only what was asked for" not in words(page)


def test_settings_are_named_as_on_train(open_page: Open, store: Store) -> None:
    first, second = _filled(store), _filled(store, labels="prior", epsilons=(1.0,))
    said = words(open_page("compare", v="1", r=f"{first},{second}"))
    assert "They differ in: Label list (One public list / A public list per task); Privacy budget ε (1, 8, ∞ / 1)." in said


def test_levels_are_drawn_where_all_runs_share_them() -> None:
    one = References(0.1, None, n_tested=400.0, ceiling=0.9)
    assert comparison.shared_references([one, one]) == one
    assert comparison.shared_references([one, References(0.25, None, n_tested=400.0, ceiling=0.9)]) is None
    other = References(0.1, 0.5, n_tested=400.0, ceiling=0.8)
    assert comparison.shared_references([one, other]) == References(0.1, None, n_tested=400.0)
