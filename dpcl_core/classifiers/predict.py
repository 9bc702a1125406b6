"""Predictions by a released classifier: reads a folder and inputs, and applies the classifier's rule."""

import io
import stat
import tempfile
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import cast

import numpy as np
from numpy.typing import NDArray

from dpcl_core.backbones import bundled, extractor, pixels
from dpcl_core.backbones import catalog as backbones
from dpcl_core.classifiers import folder as folders
from dpcl_core.data import copying, dataset, sheets, table_features
from dpcl_core.data.card import AXES, PICTURES, SAMPLES
from dpcl_core.data.dataset import AS_READ, Content, Images, Vectors
from dpcl_core.data.files import ending
from dpcl_core.data.table_features import RowEncoding
from dpcl_core.data.texts import Sentences, Texts, decode
from dpcl_core.errors import BadInput, entry, instead_of
from dpcl_core.events import JsonValue
from dpcl_core.methods.common.classifier import Step

# Files that predictions are asked for: a picture or a folder of pictures, lines of text, tables, arrays.


FIELD = "INPUT"
_LARGEST, _MOST = 200_000_000, 100_000  # bytes of a file; examples
TEXT = "text"  # the column of texts, where the classifier's data called it nothing else
_ALLOWED = (
    "must be a picture, a folder of pictures, a CSV, TSV, JSON lines or parquet file, a TXT of one text a line, or an NPZ "
    "with an array features, pictures or windows"
)
_TABLES = (*sheets.LINES, ".parquet")


@dataclass(frozen=True, slots=True, eq=False)
class Asked:
    """Examples to be classified, with a name each: as content that a network reads, or as its features [n, K].

    `lost`: what is lost on the way in, in sentences.
    """

    names: tuple[str, ...]
    content: Content | None = None
    features: NDArray[np.floating] | None = None
    lost: tuple[str, ...] = ()


def read_examples(
    path: Path, shape: tuple[int, int, int] | None, *, tagged: bool, encoding: RowEncoding | None, texts: str
) -> Asked:
    """The examples of a file or folder. `shape`: of the pictures that the classifier was made from, None for any.

    `tagged`: a text is read as words, each an example. `encoding`: how a table's rows were read. `texts`: the column
    of texts, as the classifier's own data called it. Raises BadInput in one
    sentence for anything else.
    """
    unread = f"{_ALLOWED}; it cannot be read"
    with instead_of(OSError, say=lambda error: BadInput(FIELD, path.name, f"{unread}: {error.strerror or error}")):
        if path.is_dir():
            within = sorted(one for one in path.rglob("[!.]*") if one.is_file())
            found = [one for one in within if one.suffix.lower() in PICTURES]
            if not 1 <= len(found) <= _MOST:
                raise BadInput(FIELD, path.name, f"holds {len(found)} pictures; 1 to {_MOST:,} are read")
            names = tuple(str(one.relative_to(path)) for one in found)
            others = [one.name for one in within if one.suffix.lower() not in PICTURES]
            lost = [f"{len(others)} of {len(within)} files are left out: {sheets.first_names(others)}."] if others else []
            return Asked(names, Images([_content(one) for one in found], shape, names), lost=(*lost, AS_READ))
        content = _content(path)
    suffix = path.suffix.lower()
    if suffix in PICTURES:
        return Asked((path.name,), Images([content], shape, (path.name,)), lost=(AS_READ,))
    if suffix in (".npz", ".npy"):
        return _arrays(path, content, shape)
    if ending(path) in _TABLES:
        return _table(path, encoding, texts, tagged=tagged)
    if suffix != ".txt":
        with tempfile.TemporaryDirectory() as folder:
            if copying.convert(path, Path(folder), "table", _LARGEST):
                return _table(next(Path(folder).iterdir()), encoding, texts, tagged=tagged)
        raise BadInput(FIELD, path.name, _ALLOWED)
    with instead_of(UnicodeDecodeError, say=BadInput(FIELD, path.name, "must be a text file in UTF-8")):
        lines = content.decode("utf-8-sig").splitlines()
    return _texts([line for line in lines if line.strip()], path, tagged=tagged)


def _content(path: Path) -> bytes:
    """The content of a regular file of bounded size: a pipe would never end."""
    about = path.stat()
    if not stat.S_ISREG(about.st_mode):
        raise BadInput(FIELD, path.name, "must be a regular file or a folder")
    if about.st_size > _LARGEST:
        raise BadInput(FIELD, path.name, f"must have {_LARGEST // 1_000_000} MB at most")
    return path.read_bytes()


def _table(path: Path, encoding: RowEncoding | None, texts: str, *, tagged: bool) -> Asked:
    """Rows as the classifier's own data had them, else a column of texts, else features."""
    try:
        table = sheets.rows_of(path, path.name, has_names=encoding is None or encoding.has_names)
    except BadInput as error:
        raise BadInput(f"{FIELD} {error.field}", error.value, error.allowed) from error
    names = list(table.columns)
    if not 1 <= len(table) <= _MOST:
        raise BadInput(FIELD, path.name, f"holds {len(table)} rows; 1 to {_MOST:,} are read")
    lacking = [] if encoding is None else [name for name in encoding.names if name not in names]
    if encoding is not None and (len(lacking) < len(encoding.names) or len(names) != sum(encoding.widths)):
        if lacking:
            learned = f"the columns that the classifier learned from, {sheets.first_names(encoding.names)}"
            it = f"lacks {sheets.first_names(lacking)} and has {sheets.first_names(names)}"
            raise BadInput(FIELD, path.name, f"must have {learned}; it {it}")
        lost = table_features.unread_cells(table, () if encoding.is_embedding else encoding.features, "cells")
        return Asked(_numbered(len(table)), Vectors(encoding.values(table, path.name)), lost=tuple(lost))
    if texts in names:
        return _texts([word or "" for word in table[texts].words(texts)], path, tagged=tagged)
    numbers = np.stack([table_features.column_numbers(table[name], name) for name in names], axis=1)
    if np.isnan(numbers).any():
        raise BadInput(
            FIELD, path.name, f"must have the column {texts}, or numbers alone; it has {sheets.first_names(names)}"
        )
    return _features(path, numbers)


def _texts(strings: Sequence[str], path: Path, *, tagged: bool) -> Asked:
    if not 1 <= len(strings) <= _MOST:
        raise BadInput(FIELD, path.name, f"holds {len(strings)} texts; 1 to {_MOST:,} are read")
    if tagged:
        sentences = Sentences([words for string in strings if (words := tuple(string.split()))])
        return Asked(tuple(word for words in sentences.words for word in words), sentences)
    return Asked(_numbered(len(strings)), Texts(list(strings)))


def _arrays(path: Path, content: bytes, shape: tuple[int, int, int] | None) -> Asked:
    # numpy, zipfile and zlib raise many kinds of error, all with the same meaning for the user.
    with instead_of(Exception, say=BadInput(FIELD, path.name, "must be an NPY or NPZ file without pickled objects")):
        loaded = np.load(io.BytesIO(content), allow_pickle=False)
        arrays = {"features": loaded} if isinstance(loaded, np.ndarray) else _unpacked(path, loaded)
    if (pictures := arrays.get("pictures")) is not None:
        if pictures.dtype != np.uint8 or pictures.ndim != 4 or pictures.shape[3] not in (1, 3) or not len(pictures):
            raise BadInput(FIELD, "pictures", "must be of type uint8 and of the form [n, height, width, 1 or 3]")
        return Asked(_numbered(len(pictures)), Images(pictures.astype(np.uint8), shape))
    if (measured := arrays.get("windows")) is not None:
        form = (SAMPLES, AXES)
        if measured.dtype.kind != "f" or measured.shape[1:] != form or not np.isfinite(measured).all():
            raise BadInput(FIELD, "windows", f"must be accelerations in m/s^2 in the form [n, {form[0]}, {form[1]}]")
        return Asked(_numbered(len(measured)), dataset.in_range(measured.astype(np.float32)))
    return _features(path, arrays["features"])


def _unpacked(path: Path, archive: np.lib.npyio.NpzFile) -> dict[str, NDArray[np.generic]]:
    """The first array that is known. Its size is looked at before it is unpacked."""
    known = [name for name in ("features", "pictures", "windows") if name in archive.files]
    if len(known) != 1:
        raise BadInput(FIELD, path.name, "must hold exactly one of the arrays features, pictures and windows")
    with zipfile.ZipFile(path) as packed:
        if sum(one.file_size for one in packed.infolist()) > _LARGEST:
            raise BadInput(FIELD, path.name, f"must have {_LARGEST // 1_000_000} MB at most, unpacked")
    return {known[0]: archive[known[0]]}


def _features(path: Path, values: NDArray[np.generic]) -> Asked:
    if values.ndim != 2 or values.dtype.kind not in "fiu" or not 1 <= len(values) <= _MOST:
        raise BadInput(FIELD, path.name, f"must hold features as numbers [n, K], for 1 to {_MOST:,} examples")
    features = values.astype(np.float32)
    if not np.isfinite(features).all():
        raise BadInput(FIELD, path.name, "must hold finite numbers")
    return Asked(_numbered(len(features)), features=features)


def _numbered(n: int) -> tuple[str, ...]:
    return tuple(f"row {number}" for number in range(1, n + 1))


# By name: the family whose `rules` module has the function, loaded when used.
RULES = {
    "cosine": "features", "heads": "features", "adapters": "features", "readout": "lifelong", "network": "lifelong",
    "language": "language", "federated-head": "federated", "nearest-mean": "federated", "mixed-prototypes": "federated",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Prediction:
    """The answer for one example: the class with the highest score, None where no class was ever released."""

    name: str
    label: str | None
    scores: Mapping[str, float]

    def document(self) -> dict[str, JsonValue]:
        """As JSON; a class that cannot be predicted has no score."""
        return {"input": self.name, "label": self.label, "scores": dict(self.scores)}


@dataclass(frozen=True, slots=True)
class Predicted:
    """Predictions and the classifier that made them; `warnings` in sentences."""

    classifier: folders.Loaded
    predictions: tuple[Prediction, ...]
    warnings: tuple[str, ...]


def predicted(
    folder: Path, asked: Path, *, epsilon: float | None = None, seed: int | None = None, after: int | None = None,
    task: int | None = None, device: str = "cpu",
) -> Predicted:  # fmt: skip
    """The predictions for a file or folder of examples.

    `epsilon`, `seed`, `after`: which classifier, as `folder.read_classifier` takes them; `task`: the examples' own task,
    counted from 1, where it is known. Raises BadInput in one sentence for folders, inputs and choices that do not fit.
    """
    found = folders.read_classifier(folder, epsilon, seed, after)
    facts = found.steps[-1].facts
    competing = _competing(found, task)
    shape = facts.get("shape", ())
    pictures = shape if len(shape) == 3 else None  # a window of a sensor has two sides
    if pictures == pixels.RESIZED:  # what pictures of any size become, and those of this size stay
        pictures = None
    encoding = table_features.read_encoding(facts["rows"]) if "rows" in facts else None  # of other data: None
    texts = facts.get("text_column", TEXT)
    given = read_examples(asked, pictures, tagged=bool(facts["is_tagged"]), encoding=encoding, texts=texts)
    warnings = () if found.model.protected else (f"epsilon {found.model.epsilon:g}: {folders.UNPROTECTED}",)
    values, more = _values(found, given, encoding, device)
    steps = [*found.steps[:-1], replace(found.steps[-1], competing=competing, task=None if task is None else task - 1)]
    scores = rule(found.step.rule)(steps, values)
    has_label = np.isfinite(scores).any(axis=1)
    chosen = np.where(has_label, scores.argmax(axis=1), -1) if len(competing) else np.full(len(scores), -1)
    if isinstance(given.content, Sentences):
        chosen = decode(scores, given.content.sentence_of, competing)
    predictions = []
    for name, label, row in zip(given.names, chosen.tolist(), scores, strict=True):
        by_class = {one: float(score) for one, score in zip(competing, row, strict=True) if np.isfinite(score)}
        predictions.append(Prediction(name, None if label < 0 else competing[label], by_class))
    return Predicted(found, tuple(predictions), (*warnings, *given.lost, *more))


def _competing(found: folders.Loaded, task: int | None) -> tuple[str, ...]:
    """The classes that compete: all so far, or those of the examples' own task."""
    last, known = found.steps[-1], len(found.step.by_task)
    if task is None:
        if "task_names" in last.facts:  # a language model is asked in the words of a task
            offered = ", ".join(f"{place} ({name})" for place, name in enumerate(last.facts["task_names"], start=1))
            raise BadInput("--task", "", f"must be given, as the question names the task: {offered}")
        return last.competing
    if not known:
        raise BadInput("--task", task, "must be left out: this classifier needs no task")
    if not 1 <= task <= known:
        raise BadInput("--task", task, f"must lie between 1 and {known}, the tasks that it has learned")
    return found.step.by_task[task - 1]


def _values(
    found: folders.Loaded, given: Asked, encoding: RowEncoding | None, device: str
) -> tuple[NDArray[np.generic], Sequence[str]]:
    """The examples as the rule reads them, and a warning where another version of the network made its features."""
    from dpcl_core import engine  # loads every method's neighbours, which reading a folder does not need

    spec, facts = found.spec, found.steps[-1].facts
    if given.features is not None:
        if spec.params.inputs != "features":
            raise BadInput(FIELD, "numbers", "must be examples themselves: this classifier adapts its network")
        is_embedding = encoding is not None and encoding.is_embedding
        return _along(found, table_features.units(given.features) if is_embedding else given.features), ()
    assert given.content is not None
    values = extractor.result_of(engine.inputs(spec, backbones.card(spec.data.backbone), given.content, device))
    now, then = extractor.identity(spec.data.backbone, device, spec.data.resolution), facts["network_identity"]
    differs = now.split("|")[:2] != then.split("|")[:2]
    warning = f"the network {spec.data.backbone} is another version than the one that the classifier was made with"
    return values[:, : facts["n_inputs"]] if "axes" in facts else values, (warning,) if differs else ()


def _along(found: folders.Loaded, features: NDArray[np.floating]) -> NDArray[np.floating]:
    """Features along the run's public axes; unchanged where there are none, or where they are coordinates already."""
    facts = found.steps[-1].facts
    n_inputs, n_given = facts["n_inputs"], features.shape[1]
    if n_given == n_inputs:
        return features
    public = bundled.load(facts["network"], facts["axes"]) if "axes" in facts else None
    if public is None or n_given != len(public.centre):
        other = "" if public is None else f" along the axes, or {len(public.centre)} as {facts['network']} gives them"
        raise BadInput(FIELD, f"{n_given} numbers a row", f"must have {n_inputs}{other}")
    return public.first(n_inputs).along(features)


# Scores [n, competing] of inputs [n, ...] by a classifier: its last step, preceded by those that belong to it.
Scores = Callable[[Sequence[Step], NDArray[np.generic]], NDArray[np.floating]]


def rule(name: str) -> Scores:
    """The rule of this name. Raises BadInput for another."""
    family = entry("rule", name, RULES)
    return cast(Scores, getattr(import_module(f"dpcl_core.methods.{family}.rules"), name.replace("-", "_")))
