"""A schema says what is public about a person's own data; every wrong field is one sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpcl_core.data import catalog
from dpcl_core.data.load import load
from dpcl_core.errors import BadInput
from dpcl_core.spec import DataSpec

TEXTS = "text,label\n" + "".join(f"text {row},{'good' if row % 2 else 'bad'}\n" for row in range(40))


def put(folder: Path, schema: str, train: str = TEXTS, test: str = TEXTS) -> None:
    (folder / "mine").mkdir(exist_ok=True)
    for name, content in (("train.csv", train), ("test.csv", test), ("schema.toml", schema)):
        (folder / "mine" / name).write_text(content, encoding="utf-8")


def test_a_schema_comes_before_the_test_part(data_dir: Path) -> None:
    put(data_dir, 'title = "Reviews"\nclasses = ["good", "bad", "mixed"]\nn_train = 500\n', TEXTS + "new,mixed\nnew,odd\n")
    found = load(DataSpec(dataset="own:mine"))
    assert (found.classes, found.n_people, found.title) == (("good", "bad", "mixed"), 500, "Reviews (own data)")
    assert found.train.labels.tolist() == [1, 0] * 20 + [2], "a declared class counts, another one does not"
    facts = catalog.facts("own:mine")
    assert (facts.classes, facts.n_train, facts.title) == (found.classes, 500, found.title)


@pytest.mark.parametrize(
    ("schema", "sentence"),
    [
        ("n_train = 0\n", "own:mine/schema.toml.n_train = 0: "),
        ("classes = 3\n", "own:mine/schema.toml.classes = 3: "),
        ('classes = ["a", "a"]\n', "own:mine/schema.toml.classes = a, a: must not name the same one twice"),
        ('sources = ["a"]\n', "own:mine/schema.toml.classes = nothing: must name every label where sources are named"),
        ("people = 3\n", "own:mine/schema.toml.people"),
        (r'classes = ["good", "\u001b[2J"]', "own:mine/schema.toml.classes = \x1b[2J: must be in one line, without control"),
        (r'title = "a\nb"', "own:mine/schema.toml.title = a\nb: must be in one line, without control characters"),
        (r'[features."a\u0007"]', "own:mine/schema.toml.features"),
        ("classes = [\n", "own:mine/schema.toml = TOMLDecodeError: must be a TOML file"),
        ('classes = ["good"]\n', "own:mine/test.csv row 0, label = bad: must be a label of the schema: good"),
    ],
)
def test_what_is_wrong_with_a_schema_is_said(schema: str, sentence: str, data_dir: Path) -> None:
    put(data_dir, schema)
    with pytest.raises(BadInput) as caught:
        load(DataSpec(dataset="own:mine"))
    assert str(caught.value).startswith(sentence)
