"""Takes a file or folder of the user's in as own data: whole or not at all, and only if it can be used.

What people have: a table with columns of their own names, pictures in a folder for each class (or a zip of that), sentences
in CoNLL form, embeddings in NPZ. A copy of it is kept in the home as `own:NAME`, beside a schema of what was said of it.
The name depends on where the file lies, on its schema and on when it was last written, never on what it holds. A copy is
never replaced: runs, their audits and those that are resumed read the rows that they began with.
"""

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from hashlib import sha256
from itertools import chain, count
from pathlib import Path
from typing import Literal

from dpcl_core import paths
from dpcl_core.data import catalog, copying, files, load, outline, own, schema, sheets, tagged
from dpcl_core.data.card import HELD_OUT
from dpcl_core.data.copying import FIELD, FORMS
from dpcl_core.data.files import DataFiles, ending, hold_file
from dpcl_core.data.parquet import IMAGE_COLUMNS, WINDOW_COLUMN
from dpcl_core.data.rows import LABEL_COLUMN
from dpcl_core.errors import BadInput, DataMissing, instead_of
from dpcl_core.spec import DataSpec, updated, validated

_LOCK = ".lock"  # in a copy on its way in: held while its process lives
_STAGED = ".taken-"
_ARRIVED = ".kept"  # within it: no data can be called so
_READ = (*sheets.LINES, *sheets.TYPED)


@dataclass(frozen=True, slots=True)
class Asked:
    """What is said of a file: the columns with a role, how many rows of a person count, and what the first line is (None: as
    its schema says).

    `instead`: a schema in the place of the one beside the file. `private`: parts beside train, such as val, that join it.
    """

    columns: schema.Columns = field(default_factory=schema.Columns)
    per_person: int | None = None
    first_line: Literal["names", "data"] | None = None
    instead: schema.Schema | None = None
    private: tuple[str, ...] = ()

    def on(self, fields: schema.Schema) -> schema.Schema:
        """The schema with this in the place of its own. Raises BadInput for a number that is not allowed."""
        said = self.columns.roles
        if twice := [role for role, column in said.items() if role != "target" and column == said.get("target")]:
            raise BadInput(f"--{twice[0]}", said["target"], "is the column of --target already: name another one")
        changed = {**asdict(fields), "columns": {**asdict(fields.columns), **said}}
        if self.per_person is not None and changed["columns"]["person"] is None:
            raise BadInput("--per-person", self.per_person, "needs --person COLUMN, which says whose a row is")
        for name in ("per_person", "first_line"):
            if (value := getattr(self, name)) is not None:
                changed[name] = value
        return validated(schema.Schema, changed)


@dataclass(frozen=True, slots=True)
class Given:
    """A file or folder, what is said of it, and who brings it.

    `owner`: a digest of the token of the visitor who keeps it, empty from a terminal. `apart`: the same where neither the
    name nor the count of looks may depend on what others have brought. `seen`: marks of data that were deleted since
    somebody looked at them. `most`: bytes that it may take. `of`: the own:NAME of which this is a copy with another schema.
    """

    path: Path
    asked: Asked = Asked()
    owner: str = ""
    apart: str = ""
    seen: frozenset[str] = frozenset()
    most: int = sheets.MAX_BYTES
    of: str | None = None


def schema_beside(path: Path) -> Path:
    """Where a file's or folder's schema lies: `NAME.schema.toml` beside a file NAME.csv, `schema.toml` in a folder."""
    return path / schema.NAME if path.is_dir() else path.with_name(f"{path.stem}.{schema.NAME}")


@contextmanager
def own_name(given: str, asked: Asked, seen: frozenset[str] = frozenset()) -> Iterator[str]:
    """Within this context the data are own:NAME: those of this name, or a file or folder that is `taken_in`."""
    if not given.startswith("own:"):
        with taken_in(Given(Path(given), asked, seen=seen)) as name:
            yield name
        return
    if asked != Asked():
        raise BadInput(FIELD, given, "has its columns named in its schema: options are for a file")
    yield given


@contextmanager
def taken_in(given: Given) -> Iterator[str]:
    """Within this context the file or folder is own:NAME, a copy that is kept under this name at the end.

    A copy taken in before from the same place with the same schema stays, and is these data where nothing was written there
    since; else the copy has the next number. Raises BadInput for what cannot be used, with what to change; then, and after
    any error within the context, nothing is kept.
    """
    path, owner, of, root = given.path, given.owner, given.of, paths.home() / "data"
    with _trouble(path):
        paths.make_folder(root)
    with _on_its_way(path, root, owner) as staging, _staged(given, staging) as (staged, written):
        origin = _origin(path, staged, written, given.asked.private)
        stem = staged.name if of is None else of.removeprefix("own:")
        stem = f"{stem}-{owner[:6]}" if given.apart and of is None else stem
        with files.only_in(staged.parent), _trouble(path):
            known = own.marks_of(outline.outline(catalog.card(f"own:{staged.name}")), given.apart)
        with _trouble(path), _alone():  # of two at once, the second sees the name of the first
            numbered = chain([stem], (f"{stem}-{number}" for number in count(2)))
            name = next(one for one in numbered if _is_free(one, root) or _is_same(root / one, origin, owner))
            is_new = _is_free(name, root)
            folder = staged.rename(staged.parent / _ARRIVED / name) if is_new else root / name
        if not is_new:
            yield f"own:{name}"
            return
        with _trouble(path):
            (folder / own.ORIGIN).write_text(origin, encoding="ascii")
            own.write_marks(folder, known if of is None else known | own.kept_marks(of))
            own.write_owner(folder, owner)
        with files.only_in(folder.parent):
            yield f"own:{name}"
        with _trouble(path):
            for one in (folder, *folder.rglob("*")):
                one.chmod(0o700 if one.is_dir() else 0o600)
            folder.rename(root / name)


def columns(path: Path, fields: schema.Schema) -> list[str]:
    """The columns of a table, or of the first one in a folder, as its file calls them; none for other data, and sentences.

    Of embeddings in NPZ: their arrays, where there are more than embeddings and labels. Raises BadInput for a damaged file.
    """
    with _tables(path) as tables:
        if tables and ending(tables[0]) == ".npz":
            found = sheets.npz_names(tables[0], tables[0].name)
            return found if len(found) > 2 else []
        names = _header(tables, path, fields) if tables else []
    return [] if tagged.tags_column(names) else names


def _header(tables: Sequence[Path], path: Path, fields: schema.Schema) -> list[str]:
    """The columns of tables, of which one may be the test part."""
    first = tables[0]
    test = next((one for one in tables if one.stem == "test" and ending(one) == ending(first)), None)
    without_roles = replace(fields, columns=schema.Columns(person=fields.columns.person))
    card = catalog.DatasetCard(f"own:{_slug(path)}", _slug(path), "", "", "", 0, 0, 0, held_out=fields.held_out or HELD_OUT)
    card = replace(schema.with_columns(card, without_roles), is_named=True)  # nothing of it leaves but by a declaration
    card = sheets.by_public_lines(card, DataFiles((first,), (test,) if test is not None and test != first else ()))
    return sheets.header(first, replace(card, roles=()))


def first_line(path: Path) -> Literal["names", "unclear", "none"]:
    """What the first line of a table seems to be; "unclear": it may be a row of data, "none": no line of it names columns.

    Raises BadInput for a damaged file.
    """
    with _tables(path) as tables:
        if not tables or ending(tables[0]) not in sheets.DELIMITED:
            return "none"
        return "unclear" if sheets.is_unclear(tables[0]) else "names"


@contextmanager
def _tables(path: Path) -> Iterator[list[Path]]:
    """A file that is a table, or those in a folder; the test part, whose rows are public, is not the first of several.

    Within this context a file in another form, such as .csv.gz, is a copy in a usual one.
    """
    with tempfile.TemporaryDirectory(prefix="dpcl-") as folder:
        is_other = path.is_file() and ending(path) not in _READ
        place = Path(folder) if is_other and copying.convert(path, Path(folder), _slug(path), sheets.MAX_BYTES) else path
        inside = sorted(place.iterdir(), key=lambda one: (one.stem == "test", one)) if place.is_dir() else [place]
        yield [one for one in inside if ending(one) in _READ]


def kept_folder(name: str) -> tuple[Path, schema.Schema]:
    """The folder of own:NAME, which was taken in, and its schema. Raises BadInput for data that were not."""
    folder = _home_of(name)
    if not was_taken_in(name):
        raise BadInput(FIELD, name, "was put on this computer by hand: edit the schema in its folder")
    return folder, schema.parsed(folder / schema.NAME, f"{name}/{schema.NAME}")


def was_taken_in(name: str) -> bool:
    """Whether own:NAME is a copy that was taken in, whole or half deleted, and not a folder that somebody put there."""
    return any((_home_of(name) / one).is_file() for one in (own.ORIGIN, own.OWNER))


def forget(name: str) -> None:
    """Deletes own:NAME, which was taken in. Raises BadInput where it cannot be deleted."""
    if not was_taken_in(name):
        raise BadInput("data", name, "was put on this computer by hand: delete its folder")
    said = "could not be deleted"
    with instead_of(OSError, say=lambda error: BadInput("data", name, f"{said}: {error.strerror or 'unknown error'}")):
        if own.delete(_home_of(name)):
            return
    left = "is out of reach, but some of its files could not be deleted: that is tried again when the app next starts"
    raise BadInput("data", name, left)


def _home_of(name: str) -> Path:
    return paths.home() / "data" / name.removeprefix("own:")


@contextmanager
def looked_at(given: Given) -> Iterator[str]:
    """Within this context the file or folder is own:NAME; nothing is kept. Raises BadInput as `taken_in` does."""
    with (
        tempfile.TemporaryDirectory(prefix="dpcl-") as root,
        _staged(given, Path(root)) as (folder, _),
        files.only_in(folder.parent),
    ):
        yield f"own:{folder.name}"


@contextmanager
def _staged(given: Given, staging: Path) -> Iterator[tuple[Path, int]]:
    """A checked copy in a folder of its own below `staging`; when its source was last written."""
    path, asked, folder = given.path, given.asked, staging / _slug(given.path)
    with _trouble(path):
        (staging / _ARRIVED).mkdir()
        folder.mkdir(mode=0o700)  # where copies are kept may be a folder that everybody reads
        written = copying.copied(path, folder, given.most)
        for name in asked.private:
            copying.join(folder, name)
        fields = _declared(path, folder, asked)
        _write_schema(folder, fields, fields.coins or 2)
    with files.only_in(staging):
        if fields.coins != 1 and own.knows_by_first_rule(f"own:{folder.name}", given.apart, given.seen):
            if fields.coins is not None:
                allowed = "must be 1, or left out: by that rule rows of these data were shown before"
                raise BadInput("coins", fields.coins, allowed)
            _write_schema(folder, fields, 1)
        _check(path, f"own:{folder.name}")
    yield folder, written


def _write_schema(folder: Path, fields: schema.Schema, coins: int) -> None:
    (folder / schema.NAME).write_text(schema.schema_toml(updated(fields, coins=coins)), encoding="utf-8")


@contextmanager
def _on_its_way(path: Path, root: Path, owner: str) -> Iterator[Path]:
    """A folder for a copy on its way in, which counts for its owner and is removed at the end, or by `sweep`."""
    with ExitStack() as lives:
        with _trouble(path), _alone():
            _sweep(root)
            staging = Path(tempfile.mkdtemp(prefix=_STAGED, dir=root))
            lives.enter_context(hold_file(staging / _LOCK))
        try:
            with _trouble(path):
                (staging / own.OWNER).write_text(owner, encoding="ascii")
            yield staging
        finally:
            lives.close()
            shutil.rmtree(staging, ignore_errors=True)


def sweep() -> None:
    """Removes what processes that died have left halfway: data they were deleting, and copies on their way in.

    Leaves what it cannot remove.
    """
    own.sweep()
    root = paths.home() / "data"
    with suppress(OSError):
        if any(root.glob(f"{_STAGED}*")):
            with _alone():
                _sweep(root)


def _sweep(root: Path) -> None:
    """`sweep`, while nobody else begins a copy: one of a living process holds its lock."""
    for staging in root.glob(f"{_STAGED}*"):
        with suppress(OSError):
            with hold_file(staging / _LOCK, wait=False) as is_dead:
                pass
            if is_dead:
                shutil.rmtree(staging)


def _alone() -> AbstractContextManager[bool]:
    """Within this context no other process chooses a name for own data, or begins or sweeps a copy."""
    return hold_file(paths.home() / "data.lock")


def _check(path: Path, name: str) -> None:
    """Raises BadInput where a run could not load the data."""
    try:
        card = catalog.card(name)
        table = files.find(card).train[0]
        if table.suffix in _READ and card.kind in ("text", "table", "embedding"):
            columns = sheets.header(table, card)
            if LABEL_COLUMN not in columns:
                allowed = f"must name the column of labels, one of {sheets.first_names(columns)}"
                raise BadInput("--target", "nothing", allowed)
        load.load_dataset(DataSpec(dataset=name), undeclared=True)
    except DataMissing as missing:
        raise BadInput(FIELD, path.name, FORMS) from missing


def _declared(path: Path, folder: Path, asked: Asked) -> schema.Schema:
    """The schema: the one beside the file, with what was asked in its place, and the usual columns in their roles, where a
    table of texts or of rows has them and nothing was said."""
    beside = schema_beside(path)
    fields = asked.on(asked.instead or (schema.parsed(beside, beside.name) if beside.exists() else schema.Schema()))
    with _tables(folder) as found:
        tables = [one for one in found if ending(one) != ".npz"]
    if not tables or fields.columns.target is not None:
        return fields
    names = _header(tables, folder, fields)
    usual = {role: name for role, name in (("target", "label"), ("text", "text")) if name in names}
    is_other = "target" not in usual or {*IMAGE_COLUMNS, WINDOW_COLUMN} & set(names)
    return fields if is_other else replace(fields, columns=replace(fields.columns, **usual))


def _slug(path: Path) -> str:
    """A name for a folder, from the file's own."""
    return paths.slug(path.resolve().name if path.is_dir() else path.stem)


def _origin(path: Path, staged: Path, written: int, private: Sequence[str]) -> str:
    """Which place, the schema of what lies there, and when it was written: a digest, so that no path is kept.

    Not what lies there: the name of the copy would tell neighbours apart. Nor the rule of coins, which older ones lack.
    """
    said = schema.schema_toml(replace(schema.parsed(staged / schema.NAME, schema.NAME), coins=None))
    place = "\n".join((str(path.resolve()), *private))
    return sha256(f"{place}\n{written}\n{said}".encode("utf-8", "surrogatepass")).hexdigest()


def _is_free(name: str, root: Path) -> bool:
    """Whether no data have this name, or are about to."""
    is_taken = (root / name).exists() or own.folders_of(name) or any(root.glob(f"{_STAGED}*/{_ARRIVED}/{name}"))
    return not is_taken and name not in {card.folder for card in catalog.CARDS.values()}


def _is_same(folder: Path, origin: str, owner: str) -> bool:
    """Whether this is a copy of the same, taken in by the same visitor."""
    with suppress(OSError, UnicodeDecodeError):
        said = [(folder / name).read_text(encoding="ascii") for name in (own.ORIGIN, own.OWNER)]
        return said == [origin, owner] and own.folders_of(folder.name) == [folder]
    return False


def _trouble(path: Path) -> AbstractContextManager[None]:
    """Turns errors of the file system into a sentence without a path."""
    said = "could not be copied to your own data"
    return instead_of(OSError, say=lambda error: BadInput(FIELD, path.name, f"{said}: {error.strerror or 'unknown error'}"))
