"""How many claims come out, in words and layer by layer."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from dpcl_core import presets
from dpcl_core.figures.statistics import interval
from dpcl_core.papers import catalog, comparison, questions, report
from dpcl_core.papers.paper import Judged, Ordering, Paper, Side, State

LABELS = ("cosine", "naive")  # as printed; made to work


def _judged(*states: State, sides: tuple[str, str] = LABELS) -> list[Judged]:
    ordering = Ordering("first is above second", *(Side(label, 1.0) for label in sides))
    return [Judged(ordering, state, interval([1.0, 2.0, 3.0])) for state in states]


@pytest.mark.parametrize(
    ("states", "words"),
    [
        ((), ""),
        (("not run",), "The paper's claim has not been tested here yet."),
        (("not run", "not run"), "None of the paper's 2 claims has been tested here yet."),
        (("found",), "The paper's claim comes out in our runs."),
        (("not found",), "The paper's claim comes out the other way in our runs."),
        (("cannot tell",), "The paper's claim cannot be decided with these seeds."),
        (("found", "found"), "2 of the paper's 2 claims come out in our runs."),
        (
            ("found", "not found", "cannot tell", "not run", "not run"),
            "1 of the paper's 5 claims comes out in our runs. 1 comes out the other way; 1 cannot be decided with these "
            "seeds; 2 have not been tested here yet.",
        ),
        (("both guess",), "The paper's claim compares two runs that only guess."),
        (("found", "both guess", "two editions", "two editions"),
         "1 of the paper's 4 claims comes out in our runs. 1 compares two runs that only guess; 2 compare records of two "
         "editions of the code."),
        (("cannot tell", "not found"), "0 of the paper's 2 claims come out in our runs. 1 comes out the other way; 1 "
         "cannot be decided with these seeds."),
    ],
)  # fmt: skip
def test_the_lead_counts_every_verdict_once(states: tuple[State, ...], words: str) -> None:
    assert comparison.verdicts_headline(_judged(*states)) == words


def test_comparisons_of_our_own_are_no_claims_of_the_paper() -> None:
    ours = [replace(one, ordering=replace(one.ordering, is_ours=True)) for one in _judged("found", "not found")]
    assert comparison.verdicts_headline(ours) == "1 of our own 2 claims comes out in our runs. 1 comes out the other way."
    assert comparison.verdicts_headline(ours[:1]) == "Our own claim comes out in our runs."
    assert comparison.verdicts_headline([*_judged("found"), *ours]) == "The paper's claim comes out in our runs."
    specs = presets.variants("paper-split-cifar-100-small")
    assert [one.n_claims for one in comparison.by_layer(specs, {}, ours)] == [0]


def test_claims_count_for_the_layer_that_both_of_their_runs_are_in() -> None:
    specs = presets.variants("paper-split-cifar-100-small")
    plain = replace(specs["cosine"].data, axes=0)  # as the paper has it: features as the network gives them
    specs |= {"cosine": replace(specs["cosine"], data=plain)}
    judged = [
        *_judged("found", "not found", "cannot tell", sides=("naive", "ensemble-head")),
        *_judged("found", sides=("cosine", "naive")),  # across two layers
        *_judged("not run", sides=("cosine", "cosine")),
    ]
    printed, worked, between = comparison.by_layer(specs, {"cosine": 0, "naive": 0}, judged)
    assert printed == comparison.LayerCount("as printed", 1, 1, 0, 0)
    assert worked == comparison.LayerCount("made to work", 1, 3, 1, 2)
    assert between == comparison.LayerCount("between layers", 0, 0, 1, 1)
    assert report.layer(between) == (
        "Between layers",
        "Claims that compare runs of two layers. 1 of 1 decided claims come out.",
    )


@pytest.mark.parametrize("paper", catalog.PAPERS.values(), ids=lambda paper: paper.name)
def test_the_claims_of_the_layers_add_up_to_those_of_the_headline(paper: Paper) -> None:
    headline, layers = Counter[State](), Counter[str]()
    for experiment in paper.experiments:
        for size in experiment.sizes:
            specs = presets.variants(experiment.preset(size))
            runs = questions.recorded(specs)
            judged = report.judged(experiment, size, specs, runs)
            assert not (experiment.is_ours and comparison.of_the_paper(judged))
            headline.update(one.state for one in comparison.of_the_paper(judged))
            for count in comparison.by_layer(specs, runs, judged):
                layers.update(found=count.n_found, decided=count.n_claims)
    assert layers["decided"] > 0
    assert layers["found"] == headline["found"]
    assert layers["decided"] == headline["found"] + headline["not found"]
