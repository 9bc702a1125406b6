"""The corpus with marked personal data: marks are true to the character, nothing is real, and labels know nothing of it."""

import json
import math
import re
from collections.abc import Callable
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.feature_extraction import DictVectorizer
from sklearn.metrics import roc_auc_score
from sklearn.naive_bayes import BernoulliNB

from dpcl_core.backbones import packaged as language
from dpcl_core.backbones import plain_language
from dpcl_core.backbones.plain_language import STOP_WORDS
from dpcl_core.data import catalog, files, load, synthetic
from dpcl_core.data.card import CARDS
from dpcl_core.data.dataset import Dataset, Split
from dpcl_core.data.texts import KIND, KINDS, LOOKALIKE, PADDING, TOKEN, Span, Texts
from dpcl_core.errors import BadInput
from dpcl_core.spec import DataSpec
from tests.data.making import write
from tests.support.asserting import refuses

NUMBER = re.compile(r"\d+")
# What each kind may look like: reserved or invalid, so that it is nobody's.
RESERVED = {
    "EMAIL": r"[\w.'-]+@example\.(com|org|net)", "PHONE": r"[2-9]\d\d-555-01\d\d",
    "ADDRESS": r"\d{1,3} [A-Z][\w' ]+, 000\d\d", "SSN": r"9\d\d-[1-4]\d-\d{4}", "CARD": r"400000\d{10}",
    "IBAN": r"GB00TEST\d{14}", "DOB": r"\d{1,2} [A-Z][a-z]+ (19|20)\d\d", "RECORD": r"ZZ-\d{6}", "CODE": r"\d{4}",
    "D:year": r"(19|20)\d\d", "D:price": r"\$\d{1,3}\.\d\d", "D:percentage": r"\d{1,2}\.\d%",
    "D:product code": r"[A-Z]{2}-\d{3}",
}  # fmt: skip


@pytest.fixture(scope="module")
def parts() -> tuple[Split, Split]:
    return synthetic.corpus(600)


@pytest.fixture(scope="module")
def big() -> tuple[Split, Split]:
    return synthetic.corpus(3000)


def texts_of(split: Split) -> Texts:
    assert split.images.spans is not None
    return split.images


def marked(split: Split) -> list[tuple[str, Span]]:
    """Every span's string, with the span."""
    texts = texts_of(split)
    return [
        (string[span.start : span.end], span)
        for string, spans in zip(texts.strings, texts.spans or (), strict=True)
        for span in spans
    ]


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("DPCL_HOME", str(tmp_path_factory.mktemp("home")))
        return load.load_dataset(DataSpec(dataset="pii-synthetic", train_per_class=60))


def test_sizes_and_classes_are_those_of_the_cards(parts: tuple[Split, Split], big: tuple[Split, Split]) -> None:
    assert synthetic.classes() == CARDS["pii-synthetic"].sources
    made = {"pii-synthetic": parts, "pii-synthetic-tiny": synthetic.corpus(200), "pii-synthetic-full": big}
    for name, found in made.items():
        card = CARDS[name]
        assert tuple(map(len, found)) == (card.n_train, card.n_test)
        assert card.n_train + card.n_test == 6 * card.made_per_source


def test_every_span_is_what_is_public_facts_its_person(parts: tuple[Split, Split]) -> None:
    """The marks against the people themselves, built a second time: what a private span says is theirs, word for word."""
    everybody = synthetic.people(900, synthetic._lists(), synthetic._PUBLIC_SEED)
    for split in parts:
        texts = texts_of(split)
        for string, spans, person in zip(texts.strings, texts.spans or (), texts.people, strict=True):
            known = everybody[person]
            for span in spans:
                found = string[span.start : span.end]
                if not span.kind.startswith(LOOKALIKE):
                    assert found in {known[kind] for kind in known if kind.partition(".")[0] == span.kind}
            ends = [0, *(end for span in spans for end in (span.start, span.end))]
            assert ends == sorted(ends), "spans lie in order and apart"


def test_all_kinds_occur(planted: Dataset) -> None:
    assert {span.kind for _, span in marked(planted.train)} == set(KINDS)


def test_everything_personal_is_from_reserved_ranges(planted: Dataset) -> None:
    for found, span in [*marked(planted.train), *marked(planted.test)]:
        if span.kind in RESERVED:
            assert re.fullmatch(RESERVED[span.kind], found), (span.kind, found)
        if span.kind == "CARD":
            assert synthetic.luhn(found[:-1]) != int(found[-1]), "no valid card number"


def test_luhn_is_the_check_digit_of_well_known_test_cards() -> None:
    for card in ("4111111111111111", "5555555555554444", "4242424242424242", "79927398713"):
        assert synthetic.luhn(card[:-1]) == int(card[-1])


def test_no_number_stands_outside_a_span(planted: Dataset) -> None:
    for split in (planted.train, planted.test):
        texts = texts_of(split)
        for string, spans in zip(texts.strings, texts.spans or (), strict=True):
            for number in NUMBER.finditer(string):
                assert any(span.start <= number.start() and number.end() <= span.end for span in spans), string


def test_the_corpus_is_a_public_constant(parts: tuple[Split, Split]) -> None:
    for first, second in zip(parts, synthetic.corpus(600), strict=True):
        assert texts_of(first).strings == texts_of(second).strings
        assert texts_of(first).spans == texts_of(second).spans
        np.testing.assert_array_equal(first.labels, second.labels)
    assert texts_of(parts[0]).digest()[:16] == "aa7f41f611a04fee"


def test_labels_are_even_within_a_source(parts: tuple[Split, Split]) -> None:
    first = 0
    for index, (_, labels) in enumerate(synthetic.classes()):
        for split in parts:
            sizes = np.bincount(split.labels[split.sources == index], minlength=25)
            assert sizes[:first].sum() == sizes[first + len(labels) :].sum() == 0
            assert np.ptp(sizes[first : first + len(labels)]) <= 1
        first += len(labels)


def test_nobody_is_in_both_parts_and_some_are_in_many_tasks(parts: tuple[Split, Split]) -> None:
    train, test = (texts_of(split).people for split in parts)
    assert not set(train.tolist()) & set(test.tolist())
    n_tasks = [len(set(parts[0].sources[train == person].tolist())) for person in np.unique(train)]
    assert max(n_tasks) == 6
    assert np.mean(np.array(n_tasks) > 1) > 0.3
    assert np.bincount(train).max() > 20, "one person is all over the corpus"


def test_common_words_are_surnames_and_stop_words_stand_in_spans(parts: tuple[Split, Split]) -> None:
    names = [found for found, span in marked(parts[0]) if span.kind == "NAME"]
    assert {"Will", "May", "Grace"} <= {name.split()[-1] for name in names}
    assert sum(word.lower() in STOP_WORDS for name in names for word in name.split()) > 10
    phrases = [found for found, span in marked(parts[0]) if span.kind in ("CONDITION", "EMPLOYER")]
    assert any(word in STOP_WORDS for phrase in phrases for word in phrase.split())


def test_an_oracle_has_an_auroc_of_one(planted: Dataset) -> None:
    """A score that looks up every character, against the kinds that tokens are read with: marks reach tokens whole."""
    texts = texts_of(planted.train)
    encoded = plain_language.read(texts, language.BUNDLED, 128)
    encode = plain_language.load_tokenizer(language.BUNDLED).encode
    scores, truth = [], []
    for row, (string, spans) in enumerate(zip(texts.strings, texts.spans or (), strict=True)):
        private = [span for span in spans if not span.kind.startswith(LOOKALIKE)]
        inside = {place for span in private for place in range(span.start, span.end)}
        scores += [not inside.isdisjoint(range(start, end)) for start, end in encode(string)[1]]
        kinds = [KINDS[kind - 1] if kind else LOOKALIKE for kind in encoded[row, encoded[row, :, TOKEN] != PADDING, KIND]]
        truth += [not kind.startswith(LOOKALIKE) for kind in kinds]
    assert roc_auc_score(truth, scores) == 1.0
    assert 0.25 < np.mean(truth) < 0.45, "about a third of all tokens is private"


def test_a_classifier_on_spans_alone_is_at_chance(big: tuple[Split, Split]) -> None:
    """Kinds, strings and places of the spans, learned on 2,400 texts of a source and tried on 600 others.

    Given the spans, labels are an even list in random order: hits over n texts stray by t with a chance of at most
    exp(-2 n t^2) (Hoeffding; it holds for draws without replacement). t is set for 1e-6 over all six sources. The same
    classifier on the words is right nearly always, so that the test can fail.
    """
    for index, (_, labels) in enumerate(synthetic.classes()):
        seen, tried = ([_spans_of(split, index), split.labels[split.sources == index]] for split in big)
        bound = math.sqrt(math.log(6 / 1e-6) / (2 * len(tried[1])))
        assert _accuracy(seen, tried) < 1 / len(labels) + bound
        seen, tried = ([_words_of(split, index), split.labels[split.sources == index]] for split in big)
        assert _accuracy(seen, tried) > 0.95


def _rows(split: Split, source: int) -> NDArray[np.int64]:
    return np.flatnonzero(split.sources == source)


def _spans_of(split: Split, source: int) -> list[dict[str, float]]:
    texts = texts_of(split)
    found = []
    for row in _rows(split, source):
        features = {f"place {place} {span.kind}": 1.0 for place, span in enumerate(texts.spans[row])}
        features |= {texts.strings[row][span.start : span.end]: 1.0 for span in texts.spans[row]}
        found.append(features)
    return found


def _words_of(split: Split, source: int) -> list[dict[str, float]]:
    return [dict.fromkeys(texts_of(split).strings[row].split(), 1.0) for row in _rows(split, source)]


def _accuracy(seen: list[object], tried: list[object]) -> float:
    table = DictVectorizer()
    return float(BernoulliNB().fit(table.fit_transform(seen[0]), seen[1]).score(table.transform(tried[0]), tried[1]))


def test_the_companion_is_public_other_and_the_same_for_one_seed(parts: tuple[Split, Split]) -> None:
    made = synthetic.companion(600, seed=0)
    assert (len(made), made.strings) == (600, synthetic.companion(600, seed=0).strings)
    assert made.strings != synthetic.companion(600, seed=1).strings
    sure = {"EMAIL", "ADDRESS", "SSN", "CARD", "IBAN"}
    theirs = {found for found, span in marked(Split(made, np.zeros(600, np.int64))) if span.kind in sure}
    assert theirs.isdisjoint(found for found, span in marked(parts[0]) if span.kind in sure)
    assert set(made.strings).isdisjoint(texts_of(parts[0]).strings)


def test_the_companion_has_sentences_in_common_with_the_corpus_and_others_of_its_own() -> None:
    for ours, theirs in zip(synthetic._sources("corpus"), synthetic._sources("companion"), strict=True):
        for mine, other in (
            (ours.private, theirs.private),
            (ours.harmless, theirs.harmless),
            *((ours.classes[label], theirs.classes[label]) for label in ours.classes),
        ):
            assert set(mine) & set(other)
            assert set(mine) - set(other)
            assert set(other) - set(mine)


@pytest.mark.parametrize(
    ("name", "cap"), [("pii-synthetic", None), ("pii-synthetic", 60), ("pii-synthetic", 7), ("pii-synthetic-tiny", None)])
def test_a_canary_is_in_as_many_loaded_texts_as_it_says(name: str, cap: int | None, home: Path) -> None:
    found = load.load_dataset(DataSpec(dataset=name, train_per_class=cap))
    texts = texts_of(found.train)
    for canary in found.canaries:
        rows = [row for row, string in enumerate(texts.strings) if canary.prefix + canary.code in string]
        assert len(rows) == canary.repetitions
        assert all(texts.strings[row].startswith(canary.prefix + canary.code) for row in rows), "no cut takes it away"
        assert {found.sources[found.train.sources[row]].name for row in rows} <= {canary.source}
    numbers = {number for string in texts.strings for number in NUMBER.findall(string)}
    assert numbers.isdisjoint([canary.code for canary in found.canaries if canary.repetitions == 0])
    unplanted = [canary.prefix for canary in found.canaries if canary.repetitions == 0]
    assert not any(prefix in string for prefix in unplanted for string in texts.strings)
    assert synthetic._BEFORE not in "\n".join(texts_of(found.test).strings)
    for source in found.sources:
        levels = [canary.repetitions for canary in found.canaries if canary.source == source.name]
        n_codes = np.count_nonzero(found.train.sources == found.sources.index(source)) // 31
        planted = [times for times in synthetic.REPETITIONS for _ in range(min(5, n_codes))]
        assert sorted(levels) == sorted([0] * 10 + planted)


def test_planting_moves_no_mark(planted: Dataset) -> None:
    """Without the line that was put before it, a text and its spans are those of the corpus."""
    train, _ = synthetic.corpus(600)
    before = dict(zip(texts_of(train).strings, texts_of(train).spans or (), strict=True))
    n_planted = 0
    texts = texts_of(planted.train)
    for string, spans in zip(texts.strings, texts.spans or (), strict=True):
        line = next((f"{c.prefix}{c.code}. " for c in planted.canaries if string.startswith(c.prefix)), "")
        n_planted += bool(line)
        rest = tuple(Span(span.start - len(line), span.end - len(line), span.kind) for span in spans[2 if line else 0 :])
        assert before[string.removeprefix(line)] == rest
        if line:
            assert [string[span.start : span.end] for span in spans[:2]] == [line[19:-10], line[-6:-2]]
    assert n_planted == 6 * 155


def test_codes_are_spread_evenly(planted: Dataset) -> None:
    """Digits of 210 codes: chi-square with 9 degrees of freedom in each place; 60 is passed with a chance of 1.4e-9."""
    codes = np.array([[int(digit) for digit in canary.code] for canary in planted.canaries])
    assert len({canary.code for canary in planted.canaries}) == len(codes) == 210
    for place in range(synthetic.CODE_DIGITS):
        assert ((np.bincount(codes[:, place], minlength=10) - 21) ** 2 / 21).sum() < 60


# The corpus on disk: made once, made anew where it is damaged or old, and never half there.


TINY = "pii-synthetic-tiny"


@pytest.fixture
def folder(data_dir: Path) -> Path:
    """Where the corpus lies once it is made."""
    return files.find(catalog.card(TINY)).train[0].parent


def stamps(folder: Path) -> list[int]:
    return [(folder / name).stat().st_mtime_ns for name in ("train.parquet", "test.parquet", "made.json")]


def test_it_is_made_once(folder: Path) -> None:
    before = stamps(folder)
    assert files.find(catalog.card(TINY)).train == (folder / "train.parquet",)
    assert stamps(folder) == before
    assert sorted(path.name for path in folder.iterdir()) == ["made.json", "test.parquet", "train.parquet"]


HARMS: list[Callable[[bytes], bytes]] = [
    lambda content: content[: len(content) // 2],
    lambda content: content[:1000] + bytes([content[1000] ^ 1]) + content[1001:],
]
RECORDS = [b"", b"no json", b"[]", b'{"identity": 3}', b"\xff"]


@pytest.mark.parametrize(("name", "harm"), [
    *product(["train.parquet", "test.parquet"], [None, *HARMS]),
    *(("made.json", lambda _, record=record: record) for record in RECORDS),
])
def test_a_damaged_file_is_made_anew(folder: Path, name: str, harm: Callable[[bytes], bytes] | None) -> None:
    content = (folder / name).read_bytes()
    (folder / name).unlink()
    if harm is not None:
        (folder / name).write_bytes(harm(content))
    files.find(catalog.card(TINY))
    assert (folder / name).read_bytes() == content


def test_another_version_is_made_anew(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = json.loads((folder / "made.json").read_bytes())
    monkeypatch.setattr(files, "_VERSION", -1)
    files.find(catalog.card(TINY))
    after = json.loads((folder / "made.json").read_bytes())
    assert (after["identity"] == before["identity"], after["train"] == before["train"]) == (False, True)


def test_what_is_read_is_what_was_made(data_dir: Path) -> None:
    found = load.load_dataset(DataSpec(dataset=TINY))
    train, test = synthetic.corpus(200)
    for of in ("strings", "spans"):
        assert getattr(found.test.images, of) == getattr(test.images, of)
    for of, made in ((found.test.labels, test.labels), (found.test.images.people, test.images.people)):
        assert of.tolist() == made.tolist()
    assert found.train.labels.tolist() == train.labels.tolist()
    assert [source.name for source in found.sources] == [name for name, _ in synthetic.classes()]
    assert found.classes == tuple(label for _, labels in synthetic.classes() for label in labels)


def test_a_folder_that_cannot_be_written_is_said_in_one_sentence(data_dir: Path, tmp_path: Path) -> None:
    (tmp_path / "home").write_text("a file where the folder should be")
    with pytest.raises(BadInput, match=r"^data.dataset = pii-synthetic-tiny: .* must be a folder that you can write: "):
        load.load_dataset(DataSpec(dataset=TINY))


def test_listing_the_datasets_makes_none(data_dir: Path, tmp_path: Path) -> None:
    assert catalog.available(catalog.card("pii-synthetic-full")) is None
    assert not (tmp_path / "home").exists()


def test_a_folder_of_that_name_among_the_data_is_not_taken_for_it(data_dir: Path) -> None:
    (data_dir / "pii_synthetic_tiny").mkdir()
    assert files.find(catalog.card(TINY)).train[0].parent.parent == files.cache_dir()


# Public sentences: of the Wikipedia where they are, invented ones elsewhere, and named truthfully.


def test_without_a_file_they_are_invented_and_say_so(data_dir: Path) -> None:
    found = load.public_sentences()
    assert found.title == "2,000 invented texts of this project's public corpus"
    assert len(found.content) == len(found.rows) == 2_000
    assert found.content.digest() == load.public_sentences().content.digest()


def test_sentences_of_the_wikipedia_are_taken_where_they_are(data_dir: Path) -> None:
    write(data_dir / "anchors_wikipedia", "anchors", text=[f"Sentence {n} of this file." for n in range(2_100)])
    assert load.public_sentences().title == "2,000 sentences of the English Wikipedia"
    tagged = load.public_sentences(is_tagged=True)
    assert (tagged.title, len(tagged.content)) == ("2,000 words of 500 sentences of the English Wikipedia", 2_500)
    per_sentence = np.bincount(tagged.content.sentence_of[tagged.rows])
    assert (per_sentence.tolist(), len(set(tagged.rows.tolist()))) == ([4] * 500, 2_000)


def test_a_file_without_sentences_is_refused(data_dir: Path) -> None:
    write(data_dir / "anchors_wikipedia", "anchors", title=["a"])
    refuses(r"anchors.parquet = title: must have a column text", load.public_sentences)
    write(data_dir / "anchors_wikipedia", "anchors", text=[" "])
    refuses("at least one public sentence", load.public_sentences)
