"""A file of one's own is taken in whole or refused in one sentence: no trace of a path, nothing half stored.

A stranger's file is read in a process with a memory limit.
"""

import gzip
import os
import random
import resource
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from dpcl_core import apart, paths
from dpcl_core.data import catalog, copying, files, intake, own, schema, understood
from dpcl_core.data.card import DatasetCard, Kind
from dpcl_core.data.dataset import Images
from dpcl_core.data.intake import Asked, Given
from dpcl_core.data.load import load_dataset
from dpcl_core.data.schema import Columns
from dpcl_core.errors import BadInput
from dpcl_core.runs.store import Store
from dpcl_core.spec import DataSpec
from tests.data.making import picture, put, zipped
from tests.support import bad_files
from tests.support.asserting import excludes, includes, refusal_of, refuses

pytestmark = pytest.mark.usefixtures("data_dir")


def used(path: Path, asked: Asked | None = None) -> BadInput | None:
    """None if the file can be used; else its error, whose sentence is checked."""
    try:
        with intake.taken_in(Given(path, asked or Asked())) as name:
            found = load_dataset(DataSpec(dataset=name))
            for images in (part.images for part in (found.train, found.test) if isinstance(part.images, Images)):
                list(images.batches(8, 3, 50))  # decoded, as by a network
    except BadInput as error:
        sentence = str(error)
        excludes(sentence, "\n", str(path.parent), str(paths.home()), ".taken-")
        assert len(sentence) < 600
        return error
    return None


def stored() -> list[str]:
    """What is kept of own data, hidden files included."""
    root = paths.home() / "data"
    return sorted(path.name for path in root.iterdir()) if root.exists() else []


@pytest.mark.parametrize(("name", "kind"), [form for form in bad_files.GOOD if form[0] != "d.parquet"])
def test_every_form_is_taken_in(name: str, kind: Kind, tmp_path: Path) -> None:
    path = put(tmp_path / f"My file{Path(name).suffix}", bad_files.GOOD[name, kind])
    assert (used(path), stored()) == (None, ["My-file"])
    assert own.names_of_own_data() == ["own:My-file"]
    assert catalog.card("own:My-file").kind == kind
    assert len(load_dataset(DataSpec(dataset="own:My-file")).test) > 0
    assert used(path) is None
    assert stored() == ["My-file"], "the same file again is the same data"
    assert used(put(tmp_path / "other" / path.name, path.read_bytes())) is None
    assert stored() == ["My-file", "My-file-2"], "another file of that name takes nobody's place"


def test_a_file_that_was_written_again_is_other_data(tmp_path: Path) -> None:
    """Even with the same bytes: its name must not say whether a row has changed."""
    path, kept = tmp_path / "mine.csv", paths.home() / "data"
    before = bad_files.GOOD["a.csv", "text"]
    after = before.replace(b"number", b"NUMBER")
    for content in (before, before, after):
        path.write_bytes(content)
        assert (used(path), used(path)) == (None, None)
    found = {name: next((kept / name).glob("*.csv")).read_bytes() for name in stored()}
    assert found == {"mine": before, "mine-2": before, "mine-3": after}


@pytest.mark.skipif(os.name != "posix", reason="modes are POSIX's")
@pytest.mark.parametrize("is_there", [False, True])
def test_nobody_else_reads_the_copy_of_a_file(is_there: bool, tmp_path: Path) -> None:
    """A folder that was there keeps its mode: it may be a volume, or shared with other machines."""
    path, root = tmp_path / "mine.csv", paths.home() / "data"
    path.write_bytes(bad_files.GOOD["a.csv", "text"])
    before = os.umask(0o022)
    try:
        if is_there:
            root.mkdir(parents=True)
        assert used(path) is None
        Store()._reads.dispose()
    finally:
        os.umask(before)
    modes = [one.stat().st_mode & 0o777 for one in (root.parent, root, root / "mine", root.parent / "store.sqlite")]
    assert modes == [*([0o755, 0o755] if is_there else [0o700, 0o700]), 0o700, 0o600]


def test_a_picture_that_is_taken_out_makes_other_data(tmp_path: Path) -> None:
    folder = tmp_path / "photos"
    for place in ("train/a", "train/b", "test/a", "test/b"):
        for row in range(2):
            put(folder / place / f"{row}.png", picture())
    for _ in range(2):
        assert used(folder) is None
    assert stored() == ["photos"]
    (folder / "train" / "a" / "0.png").unlink()
    assert (used(folder), stored()) == (None, ["photos", "photos-2"])


def test_two_files_of_one_name_at_once_have_two_names(tmp_path: Path) -> None:
    """The second is taken in from beginning to end while the first is on its way."""
    contents = [bad_files.GOOD["a.csv", "text"].replace(b"number", number) for number in (b"one", b"two")]
    first, second = (tmp_path / number / "visits.csv" for number in ("one", "two"))
    for path, content in zip((first, second), contents, strict=True):
        put(path, content)
    with intake.taken_in(Given(first, Asked())) as name, intake.taken_in(Given(second, Asked())) as other:
        assert (name, other) == ("own:visits", "own:visits-2")
    kept = [(paths.home() / "data" / each.removeprefix("own:") / "visits.csv").read_bytes() for each in (name, other)]
    assert kept == contents


def test_what_a_dead_process_has_left_halfway_is_counted_and_removed(tmp_path: Path) -> None:
    path, owner = tmp_path / "mine.csv", "a" * 64
    path.write_bytes(bad_files.GOOD["a.csv", "text"])

    def die_halfway() -> None:
        code = (
            "import os, sys, pathlib; from dpcl_core.data import intake\n"
            "with intake.taken_in(intake.Given(pathlib.Path(sys.argv[1]), intake.Asked(), sys.argv[2])): os._exit(9)"
        )
        assert subprocess.run([sys.executable, "-c", code, str(path), owner], check=False).returncode == 9

    die_halfway()
    (left,) = stored()
    assert own.stored_bytes({owner}) > path.stat().st_size
    with intake.taken_in(Given(path, Asked())) as name:
        assert left not in stored(), "removed before the next"
        intake.sweep()
        assert stored()[0].startswith("."), "not what is under way"
        assert name == "own:mine"
    die_halfway()
    assert len(stored()) == 2
    intake.sweep()
    assert stored() == ["mine"]


def test_columns_of_other_names_have_a_role_by_option(tmp_path: Path) -> None:
    path = tmp_path / "reviews.csv"
    rows = [f"review {row},{'good' if row % 2 else 'bad'},p{row % 40},{row},x{row % 3}" for row in range(80)]
    path.write_text("\n".join(["body,verdict,author,label,site", *rows]), encoding="utf-8")
    assert used(path, Asked(Columns(target="verdict", text="body", person="author", source="site"), 2)) is None
    card = catalog.card("own:reviews")
    assert (card.kind, card.has_people, card.per_person) == ("text", True, 2)
    found = load_dataset(DataSpec(dataset="own:reviews"))
    assert (found.classes, [source.name for source in found.sources]) == (("bad", "good"), ["x0", "x1", "x2"])
    assert used(path, Asked(Columns(target="verdict", person="author"), 2)) is None
    by_author = Columns(target="verdict", person="author")
    asked = [Asked(Columns(target="stars")), Asked(by_author, 0), Asked(Columns(target="verdict"), 2)]
    errors = [error for one in asked if (error := used(path, one)) is not None]
    assert [(error.field.rpartition(".")[2], error.value) for error in errors] == [
        ("target", "stars"), ("per_person", 0), ("--per-person", 2),
    ]  # fmt: skip


def test_a_column_of_times_without_months_is_named(tmp_path: Path) -> None:
    """Every row is left out then, and their labels, which are fine, were named."""
    path = tmp_path / "visits.csv"
    rows = "".join(f"04/05/2024,{'ab'[row % 2]},{'xy'[row % 2]},{row}\n" for row in range(80))
    path.write_text(f"day,label,site,age\n{rows}", encoding="utf-8")
    error = used(path, Asked(Columns(target="label", time="day")))
    assert "a date that begins with year and month, such as 2024-05, in day" in error.allowed
    assert used(path, Asked(Columns(target="label", time="day", source="site"))) is None


def test_a_file_without_a_line_of_names_is_not_quoted(tmp_path: Path) -> None:
    path = put(tmp_path / "iris.data.csv", "5.1,3.5,Iris-setosa\n4.9,3.0,Iris-setosa\n")
    error = used(path, Asked(Columns(target="species")))
    assert "Iris" not in str(error)
    includes(str(error), "--header", "--no-header")


@pytest.mark.parametrize("ending", [".csv", ".tsv"])
def test_a_first_line_that_is_data_is_a_row_if_its_owner_says_so(ending: str, tmp_path: Path) -> None:
    """Every row is then read, and the columns are called by their places; equal cells of the first row are no matter."""
    path = tmp_path / f"iris{ending}"
    rows = [f"{row % 9},{row % 9},{'Iris-setosa' if row % 2 else 'Iris-virginica'}" for row in range(200)]
    path.write_text("\n".join(rows).replace(",", "," if ending == ".csv" else "\t"), encoding="utf-8")
    assert intake.first_line(path) == "unclear"
    assert used(path, Asked(Columns(target="column3"))).allowed.endswith(schema.DOUBT)
    assert used(path, Asked(Columns(target="column3"), first_line="data")) is None
    found = load_dataset(DataSpec(dataset="own:iris"))
    assert (len(found.train) + len(found.test), found.classes) == (200, ("Iris-setosa", "Iris-virginica"))
    assert "columns are called column1, column2" in understood.understand("own:iris").assumed[0]
    assert intake.columns(path, schema.Schema(first_line="data")) == ["column1", "column2", "column3"]


def test_what_the_first_line_was_taken_for_is_said(tmp_path: Path) -> None:
    """A line is doubted whatever it holds, but for a usual name; naming one of its columns says that it names them."""
    path = tmp_path / "pixels.csv"
    for names, target, seems in (
        ("age,label", "label", "names"), ("0,label", "label", "names"), ("age,class", "class", "unclear"),
        ("Alice Smith,positive", "positive", "unclear"),
    ):  # fmt: skip
        path.write_text(names + "\n" + "".join(f"{row},{'ab'[row % 2]}\n" for row in range(60)), encoding="utf-8")
        assert intake.first_line(path) == seems
        with intake.looked_at(Given(path, Asked(Columns(target=target)))) as name:
            assert understood.understand(name).assumed[0].startswith("The line that names the columns is public.")


def test_a_private_first_row_is_not_quoted(tmp_path: Path) -> None:
    """Where nothing is said of it, of bytes that are no text, and of names that are equal."""
    path = tmp_path / "rows.csv"
    for first in (b"7,secret", b"7,7", b"secret,\xff"):
        path.write_bytes(first + b"\n" + b"".join(b"%d,%s\n" % (row, b"ab"[row % 2 :][:1]) for row in range(60)))
        assert used(path, Asked(Columns(target="column2"), first_line="data")) is None
        assert "secret" not in str(used(path))


def shots(layout: str, kind: str = "PNG") -> dict[str, bytes]:
    """Sixty pictures of two classes by place, of which a third is for testing where the layout has parts."""
    return {
        layout.format(label="ab"[row % 2], row=row, part=("train", "test")[row % 3 == 0]): picture(row, (9, 7), kind=kind)
        for row in range(60)
    }


@pytest.mark.parametrize("layout", ["{label}/{row}.jpg", "train/{label}/{row}.jpg", "{part}/{label}/{row}.jpg"])
@pytest.mark.parametrize("is_zipped", [False, True])
def test_photos_are_taken_in_as_people_have_them(layout: str, is_zipped: bool, tmp_path: Path) -> None:
    members = shots(layout, "JPEG")
    path = tmp_path / ("photos.zip" if is_zipped else "photos")
    if is_zipped:
        outer = {f"My photos/{name}": content for name, content in members.items()}
        path.write_bytes(zipped({**outer, "__MACOSX/My photos/._x.jpg": b"x", "My photos/.DS_Store": b"x"}))
    for name, content in ({} if is_zipped else {**members, "notes.txt": b"x"}).items():
        put(path / name, content)
    assert used(path) is None
    found = load_dataset(DataSpec(dataset="own:photos"))
    assert (found.classes, len(found.train) + len(found.test)) == (("a", "b"), 60)
    assert len(found.test) == 20 if "{part}" in layout else 2 < len(found.test) < 25


_OF_TRAINING = 200  # the grey of a picture that the coins of its bytes put into the training part


@pytest.mark.parametrize("layout", ["{label}/{row}.png", "{part}/{label}/{row}.png"])
@pytest.mark.parametrize(
    "odd", ["photos/loose.png", "loose.png", "photos/train/loose.png", "photos/train/a/deep/1.png", "else/where/new/1.png"])
def test_one_picture_in_an_odd_place_moves_no_other(layout, odd, tmp_path, monkeypatch):
    """Without a test part the odd one has bytes that are a training row, whatever its place."""
    members = shots(f"photos/{layout}")
    path, found = tmp_path / "photos.zip", []
    for name, more in (("without", {}), ("with", {odd: picture(_OF_TRAINING, (9, 7))})):
        monkeypatch.setenv("DPCL_HOME", str(tmp_path / name))
        path.write_bytes(zipped({**members, **more}))
        assert used(path) is None
        data = load_dataset(DataSpec(dataset="own:photos"))
        found.append((data.classes, data.n_people, data.test.labels.tolist(), len(data.train)))
    assert found[0] == found[1]


def test_one_more_private_picture_renames_no_public_one(tmp_path, monkeypatch):
    """Of two outer folders with pictures of one name: their order would choose another test part."""
    members = {
        f"{outer}/{part}/{label}/{row}.png": picture(row, (9, 7))
        for part in ("train", "test") for outer in "xy" for label in "ab" for row in range(12)
    }  # fmt: skip
    path, found = tmp_path / "photos.zip", []
    for name, first in (("without", {}), ("with", {"x/train/a/more.png": picture(99, (9, 7))})):
        monkeypatch.setenv("DPCL_HOME", str(tmp_path / name))
        path.write_bytes(zipped({**first, **members}))
        assert used(path) is None
        test = tmp_path / name / "data" / "photos" / "test"
        found.append(sorted(one.relative_to(test) for one in test.rglob("*.png")))
    assert (len(found[0]), found[0]) == (48, found[1])


def test_no_more_of_a_picture_is_unpacked_than_shows_that_it_is_too_large(tmp_path, monkeypatch):
    monkeypatch.setattr(copying, "MAX_PICTURE", 5000)
    path = put(tmp_path / "photos.zip", zipped({**shots("{label}/{row}.png"), "a/bomb.png": bytes(10_000)}))
    assert used(path) is None
    assert (paths.home() / "data" / "photos" / "a" / "bomb.png").stat().st_size == 5001


@pytest.mark.parametrize("name", bad_files.ODD)
def test_odd_files_are_used_by_public_rules_or_refused(name: str, tmp_path: Path) -> None:
    path = put(tmp_path / name, bad_files.ODD[name]())
    error = used(path)
    is_kept = {"formulas.csv", "long numbers.jsonl", "two labels.jsonl", "png bomb.zip", "nul.csv"}
    assert (error is None) == (name in is_kept), error
    assert len(stored()) == (error is None)


@pytest.mark.parametrize("name", [name for name in bad_files.ODD if name.endswith((".csv", ".tsv"))])
def test_odd_tables_without_a_line_of_names_are_used_or_refused(name: str, tmp_path: Path) -> None:
    path = put(tmp_path / name, bad_files.ODD[name]())
    if name in ("empty.csv", "utf-16.csv"):
        refuses(r"empty file|must be saved as UTF-8", intake.first_line, path)
    else:
        assert intake.first_line(path) in ("names", "unclear")
    error = used(path, Asked(Columns(target="column1"), first_line="data"))
    assert len(stored()) == (error is None)


def test_paths_that_are_no_files_are_refused(tmp_path: Path) -> None:
    for what, path in bad_files.special_paths(tmp_path):
        assert used(path) is not None, what
    assert stored() == []


def test_odd_paths_in_a_folder_of_own_data_are_refused(data_dir: Path) -> None:
    """Not taken in, but put there by hand: the same sentences, and no waiting for a pipe."""
    for place, (_, path) in enumerate(bad_files.special_paths(data_dir)):
        folder = data_dir / f"d{place}"
        folder.mkdir()
        (folder / "train.csv").symlink_to(path)
        refusal_of(load_dataset, DataSpec(dataset=f"own:d{place}"))
    assert not [name for name in own.names_of_own_data() if name.startswith("own:d")]


@pytest.mark.parametrize("name", [name for name in bad_files.ODD if not name.endswith((".zip", ".docx"))])
def test_odd_files_in_a_folder_of_own_data_are_used_or_refused(name: str, data_dir: Path) -> None:
    """As a training part beside a good test part, and alone."""
    content, ending = bad_files.ODD[name](), Path(name).suffix
    put(data_dir / "alone" / name.replace(" ", "-"), content)
    put(data_dir / "beside" / f"train{ending}", content)
    good = bad_files.GOOD.get((f"a{ending}", "embedding" if ending == ".npz" else "text"))
    if good is not None:
        put(data_dir / "beside" / f"test{ending}", good)
    for folder in ("alone", "beside"):
        try:
            load_dataset(DataSpec(dataset=f"own:{folder}"))
        except BadInput as refused:
            excludes(str(refused), "\n", str(data_dir))


def test_after_any_error_nothing_is_kept_and_the_one_before_stays(data_dir: Path, tmp_path: Path) -> None:
    path = put(tmp_path / "mine.csv", bad_files.GOOD["a.csv", "text"])
    assert used(path) is None
    before = (paths.home() / "data" / "mine" / "mine.csv").read_bytes()
    path.write_bytes(before.replace(b"number", b"NUMBER"))

    def stopped() -> None:
        with intake.taken_in(Given(path, Asked())) as name:
            assert load_dataset(DataSpec(dataset=name)).train.images.strings[0].startswith("NUMBER")  # type: ignore[union-attr]
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stopped()
    assert stored() == ["mine"]
    assert (paths.home() / "data" / "mine" / "mine.csv").read_bytes() == before
    assert files.roots(DatasetCard("own:x", "", "", "", "", 0, 0, 0))[0] == data_dir, "other own data are found again"


@pytest.mark.parametrize("seeds", [range(8), pytest.param(range(8, 300), marks=pytest.mark.slow)])
def test_changed_bytes_are_used_or_refused(seeds: range, tmp_path: Path) -> None:
    """Every form with seeded changes: used or refused, never anything else."""
    for (name, _), good in bad_files.GOOD.items():
        for seed in seeds:
            used(put(tmp_path / name, bad_files.mutated(good, random.Random(f"{name} {seed}"))))
        assert all(name[0] != "." for name in stored()), "nothing hidden is left"


# Files of strangers: read in a process with a memory limit, unpacked within what the visitor may keep.


OWNER = "f" * 64
TARGET = Asked(Columns(target="kind"))


def table(folder: Path) -> Path:
    return put(folder / "visits.csv", "age,kind\n" + "".join(f"{row},{'ab'[row % 2]}\n" for row in range(200)))


def pictures(folder: Path, tail: int = 0, *, large: bool = False) -> Path:
    """Sixty pictures of two classes, each with so many bytes after its end."""
    ending, form = ("bmp", ((600, 600), "RGB", "BMP")) if large else ("png", ((8, 8), "L", "PNG"))
    members = {f"{'ab'[number % 2]}/{number}.{ending}": picture(number, *form) + bytes(tail) for number in range(60)}
    return put(folder / "pictures.zip", zipped(members))


@pytest.mark.parametrize("make", [table, pictures])
def test_a_file_is_understood_and_kept_as_in_this_process(tmp_path: Path, make) -> None:
    given = Given(make(tmp_path), TARGET if make is table else Asked(), OWNER, apart=OWNER)
    assert apart.answer("look", given) == apart.look(given)
    name = apart.answer("keep", given, is_apart=True)
    assert own.owner(name) == OWNER
    assert apart.keep(given) == name, "the same place, and nothing was written there"


@pytest.mark.parametrize("task", ["columns", "first line"])
def test_what_a_form_needs_of_a_file_is_read_as_in_this_process(tmp_path: Path, task) -> None:
    given = Given(table(tmp_path), Asked(), OWNER)
    assert apart.answer(task, given, is_apart=True) == {"columns": ["age", "kind"], "first line": "unclear"}[task]
    assert apart.answer(task, given, is_apart=False) == apart.answer(task, given, is_apart=True)


def test_a_refusal_is_the_same_sentence(tmp_path: Path) -> None:
    given = Given(table(tmp_path), Asked(Columns(target="weight")), OWNER)
    assert str(refusal_of(apart.answer, "look", given)) == str(refusal_of(apart.look, given))


@pytest.mark.skipif(sys.platform != "linux", reason="the limit is Linux's")
def test_a_file_that_takes_more_memory_than_allowed_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apart, "MEMORY_BYTES", 500_000_000)
    path = tmp_path / "vectors.npz"
    by_column = np.zeros((9_000, 9_000), order="F")  # read whole, and others in pieces
    np.savez_compressed(path, embeddings=by_column, labels=np.arange(9_000) % 3)
    assert path.stat().st_size < 1_000_000
    with pytest.raises(BadInput, match=r"vectors\.npz: needs more memory or time than this server gives to one file"):
        apart.answer("look", Given(path, Asked(), OWNER))


@pytest.fixture(scope="module")
def bomb(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A packed table of 600 MB in less than four; one packed part, again and again, is a packed file, too."""
    path, part = tmp_path_factory.mktemp("packed") / "bomb.csv.gz", gzip.compress(b"1,a\n" * 1_000_000, 1)
    path.write_bytes(gzip.compress(b"age,kind\n") + 150 * part)
    assert path.stat().st_size < 4_000_000
    return path


@pytest.mark.parametrize("most", [10_000_000, 4 * 2**30])
def test_a_packed_table_is_bounded_while_it_is_unpacked(bomb: Path, monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    monkeypatch.setattr(apart, "MEMORY_BYTES", 500_000_000)
    given = Given(bomb, TARGET, OWNER, most=most)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    says = "must have at most 10,000,000 bytes when unpacked" if most == 10**7 else "needs more memory or time than"
    assert refusal_of(apart.answer, "look", given).allowed.startswith(says)
    for task in ("columns", "first line"):
        with suppress(BadInput):
            apart.answer(task, given, is_apart=True)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000, "kilobytes of the server"
    assert own.stored_bytes(None) == 0


@pytest.mark.parametrize(("tail", "large"), [(500_000, False), (0, True)])
def test_a_bomb_is_refused_before_it_is_unpacked_and_leaves_nothing(tmp_path: Path, tail: int, *, large: bool) -> None:
    path = pictures(tmp_path, tail, large=large)
    assert path.stat().st_size < 200_000
    for read in (apart.look, apart.keep):
        refused = refusal_of(read, Given(path, Asked(), OWNER, most=25_000_000))
        assert refused.allowed == "must have at most 200,000 pictures and 25,000,000 bytes in all, unpacked"
    assert own.stored_bytes(None) == 0
    assert not list((paths.home() / "data").iterdir())


def test_many_small_members_count_as_what_they_take_on_a_disk(tmp_path: Path) -> None:
    path = pictures(tmp_path)
    apart.look(Given(path, Asked(), OWNER, most=60 * 4096))
    refusal_of(apart.look, Given(path, Asked(), OWNER, most=60 * 4096 - 1))


def test_a_zip_within_a_zip_is_no_picture(tmp_path: Path) -> None:
    path = put(tmp_path / "nested.zip", zipped({"a/inner.zip": pictures(tmp_path).read_bytes()}))
    refusal_of(apart.look, Given(path, Asked(), OWNER))


def test_what_follows_a_picture_is_not_kept(tmp_path: Path) -> None:
    folder, _ = intake.kept_folder(apart.keep(Given(pictures(tmp_path, tail=100_000), Asked(), OWNER)))
    assert max(one.stat().st_size for one in folder.rglob("*.png")) < 1000
    assert own.stored_bytes({OWNER}) < 1_000_000


@pytest.mark.skipif(sys.platform == "win32", reason="files have no modes there")
@pytest.mark.parametrize("make", [table, pictures])
def test_kept_files_are_for_their_owner_alone(tmp_path: Path, make) -> None:
    name = apart.keep(Given(make(tmp_path), TARGET if make is table else Asked(), OWNER))
    assert {one.stat().st_mode & 0o777 for one in intake.kept_folder(name)[0].rglob("*")} <= {0o600, 0o700}
