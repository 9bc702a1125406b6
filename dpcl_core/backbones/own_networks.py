"""Your own torch networks: registered by name, checked layer by layer, and used as any other backbone.

    dpcl.register_network("small-cnn", make, shape=(3, 32, 32))
    dpcl.run(settings={"data.backbone": "own:small-cnn", ...}, here=True)

A worker, the terminal and the pages have what modules named in `DPCL_NETWORKS` register when they are imported. A page reads
the card alone, so such a module imports torch inside `make`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from hashlib import sha256
from importlib import import_module
from typing import Literal, cast

import numpy as np
from numpy.typing import NDArray

from dpcl_core.backbones import extractor
from dpcl_core.backbones.catalog import OWN, BackboneCard
from dpcl_core.backbones.later import adaptable, torch
from dpcl_core.backbones.weights import FIELD
from dpcl_core.data.card import Kind
from dpcl_core.data.dataset import Content
from dpcl_core.errors import BadInput, unknown

_ELSEWHERE = "DPCL_NETWORKS"
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,39}")
_VALUES: tuple[Kind, ...] = ("sensor", "table", "embedding")
_AT_ONCE = 1  # beside others an example's features could have other last digits at another place
_CLOSE = 1e-4  # relative; kernels may add in another order for another number of examples


@dataclass(frozen=True, slots=True, eq=False)
class _Registered:
    """A network that is made when it is first used."""

    card: BackboneCard
    make: Callable[[], torch.nn.Module]
    shape: tuple[int, ...]


_known: dict[str, _Registered] = {}


def register_network(
    name: str, make: Callable[[], torch.nn.Module], *, shape: Sequence[int], trained_on: str | None = None,
    saw: Sequence[str] = ()
) -> None:
    """Registers your own torch network as the backbone own:NAME; a second one of this name takes the first one's place.

    Args:
        name: up to 40 small letters, digits, - and _.
        make: returns the network, which turns float32 [b, *shape] into features float32 [b, K]. It is called once in each
            process, under torch's seed 0, so that random initial weights are public and the same everywhere.
        shape: of one example: (channels, side, side) for pictures, whose values are then in [0, 1]; (K,) or (samples, axes)
            for tables, embeddings and windows of a sensor, with values in [-1, 1].
        trained_on: in words, the public data that its weights were trained on; None: it was not trained.
        saw: datasets of the catalogue among these, which are refused as private data.

    The network is checked when it is first used: no layer may let one example change another's output, as batch norms do.
    Raises BadInput for a name, a shape or a `make` that cannot be used.
    """
    form = tuple(shape)
    is_picture = len(form) == 3 and form[0] in (1, 3) and form[1] == form[2]
    if not _NAME.fullmatch(name):
        raise BadInput("name", name, "must have 1 to 40 small letters, digits, - and _, the first a letter or a digit")
    if not all(isinstance(n, int) and n >= 1 for n in form) or not (is_picture or len(form) in (1, 2)):
        allowed = "must be (1, side, side) or (3, side, side) for pictures, else (K,) or (samples, axes)"
        raise BadInput("shape", form, allowed)
    if not callable(make):
        raise BadInput("make", type(make).__name__, "must be a function without arguments that returns a torch.nn.Module")
    card = BackboneCard(
        name=f"{OWN}{name}", title=f"{name} (your own)", reads=("image",) if is_picture else _VALUES, module=__name__,
        summary="Your own torch network, checked layer by layer when it is first used.", source="register_network",
        trained_on=trained_on, saw=tuple(saw), size_mb=None if trained_on else 0.0,
    )  # fmt: skip
    _known[card.name] = _Registered(card, make, form)
    extractor.identity.cache_clear()


def names() -> tuple[str, ...]:
    """The names of all registered networks, those of the modules in `DPCL_NETWORKS` included. Raises BadInput for a module
    that cannot be imported."""
    for module in filter(None, map(str.strip, os.environ.get(_ELSEWHERE, "").split(","))):
        try:
            import_module(module)
        except Exception as error:  # whatever somebody else's module raises
            must = "must be a module on PYTHONPATH that calls register_network"
            raise BadInput(_ELSEWHERE, module, f"{must} ({type(error).__name__}: {error})") from error
    return tuple(_known)


def card(name: str) -> BackboneCard:
    """The card of own:NAME. Raises BadInput naming the known ones."""
    return _registered(name).card


def _registered(name: str) -> _Registered:
    if name not in _known and name not in (all_names := names()):
        raise unknown(FIELD, name, all_names, ", and others once register_network or a module in DPCL_NETWORKS names them")
    return _known[name]


@dataclass(frozen=True, slots=True, eq=False)
class Own:
    """The extractor of a registered network."""

    identity: str
    network: adaptable.Network
    feature_dim: int

    def batches(self, content: Content) -> Iterator[NDArray[np.float32]]:
        """float32 [b, K], as the network gives them."""
        yield np.zeros((0, self.feature_dim), np.float32)
        rows = extractor.result_of(self.network.features.stored(content))
        yield from adaptable.of_rows(self.network.features, rows, _AT_ONCE, self.network.device)


def make(card: BackboneCard, device: str) -> Own:
    """The extractor of a registered network. Raises BadInput where a layer of it mixes examples."""
    network, identity = _opened(_registered(card.name))
    return Own(f"{identity}|{extractor.precision(device)}", _on(network, device), network.feature_dim)


def make_network(card: BackboneCard, device: str) -> adaptable.Network:
    """The network, for adapting its layers. Raises what `make` raises."""
    return _on(_opened(_registered(card.name))[0], device)


def _on(network: adaptable.Network, device: str) -> adaptable.Network:
    return replace(network, features=network.features.to(device), device=device)


@lru_cache(maxsize=4)
def _opened(entry: _Registered) -> tuple[adaptable.Network, str]:
    """The network, checked, and what tells it from others: its numbers and what it makes of public probes.

    Features in the cache are then never those of another network of the same name.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        made = entry.make()
        if not isinstance(made, torch.nn.Module):
            allowed = f"must be a torch.nn.Module, and its function made a {type(made).__name__}"
            raise BadInput(FIELD, entry.card.name, allowed)
        with _tried(entry), torch.no_grad():
            made.float().eval()(torch.zeros(1, *entry.shape))  # lazy layers get their weights
    made.requires_grad_(False)
    features = _checked(made, entry)
    inside: adaptable.Inside = adaptable.Values(entry.card.name, made, entry.shape)
    if len(entry.shape) == 3:
        n_channels, side, _ = entry.shape
        form = adaptable.Input(side, cast(Literal[1, 3], n_channels), "bilinear")
        inside = adaptable.Pictures(made, form, (0.0,) * n_channels, (255.0,) * n_channels)
    digest = sha256(features.numpy().tobytes())
    for name, tensor in made.state_dict().items():
        digest.update(name.encode() + tensor.cpu().contiguous().numpy().tobytes())
    name = entry.card.name
    return adaptable.Network(name, inside.eval(), features.shape[1], "cpu"), f"{name}|{digest.hexdigest()}"


@contextmanager
def _tried(entry: _Registered) -> Iterator[None]:
    """Whatever somebody else's network raises, as BadInput."""
    try:
        yield
    except Exception as error:
        reason, form = str(error).strip().partition("\n")[0], ", ".join(map(str, entry.shape))
        allowed = f"must take float32 [b, {form}] ({type(error).__name__}: {reason})"
        raise BadInput(FIELD, entry.card.name, allowed) from error


def _checked(made: torch.nn.Module, entry: _Registered) -> torch.Tensor:
    """The features of public probes [3, K], after every layer was seen to keep examples apart.

    A layer keeps them apart if the first example's output is the same beside others of any value and number. Raises BadInput
    naming the first layer that does not.
    """
    def refuse(allowed: str) -> BadInput:
        return BadInput(FIELD, entry.card.name, allowed)

    for name, layer in made.named_modules():
        if isinstance(layer, torch.nn.modules.batchnorm._BatchNorm):
            named = f"mixes examples in its layer {name or 'network'} ({type(layer).__name__})"
            mend = "put GroupNorm in its place, or fold it into the layer before it (torch.nn.utils.fusion)"
            raise refuse(f"{named}: {mend}")
    probes = torch.rand(5, *entry.shape, generator=torch.Generator().manual_seed(1))
    before = {name: tensor.clone() for name, tensor in made.state_dict().items()}
    with _tried(entry):
        alone, others, again, beside = (_passed(made, probes[rows]) for rows in ([0], [0, 1, 2], [0, 1, 2], [0, 3, 4]))
    _, _, features = others[-1]
    if features.ndim != 2 or len(features) != 3 or not features.is_floating_point() or not features.isfinite().all():
        raise refuse("must give a row of finite numbers for each example, [b, K]")
    if changed := [name for name, tensor in made.state_dict().items() if not torch.equal(tensor, before[name])]:
        raise refuse(f"remembers earlier examples in {changed[0]}: its numbers must not change in use")
    for (name, _, first), (_, _, second) in zip(others, again, strict=True):
        if not torch.equal(first, second):
            raise refuse(f"gives another output each time in its layer {name}: it must not draw at random, as dropout does")
    for other in (beside, alone):
        for (name, *mine), (_, *theirs) in zip(others, other, strict=True):
            for where, first, second in zip(("before", "in"), mine, theirs, strict=True):
                if not _same_first(first, second, len(others[-1][2]), len(other[-1][2])):
                    mend = "each output must come from its own example alone"
                    raise refuse(f"mixes examples {where} its layer {name}: {mend}")
    return features


def _passed(made: torch.nn.Module, probes: torch.Tensor) -> list[tuple[str, torch.Tensor, torch.Tensor]]:
    """Each layer's name, input and output, in the order of a forward pass; the network itself last."""
    seen: list[tuple[str, torch.Tensor, torch.Tensor]] = []

    def noting(name: str) -> Callable[[object, tuple[object, ...], object], None]:
        def note(layer: object, given: tuple[object, ...], out: object) -> None:
            if given and isinstance(given[0], torch.Tensor) and isinstance(out, torch.Tensor):
                seen.append((f"{name or 'network'} ({type(layer).__name__})", given[0].clone(), out.clone()))

        return note

    with ExitStack() as hooks, torch.no_grad():
        for name, layer in made.named_modules():
            hooks.enter_context(layer.register_forward_hook(noting(name)))
        made(probes.clone())
    return seen


def _same_first(one: torch.Tensor, other: torch.Tensor, n_one: int, n_other: int) -> bool:
    """Whether two outputs agree on the first of n examples; True where their first dimension is not of examples."""
    if len(one) % n_one or len(other) % n_other or len(one) // n_one != len(other) // n_other:
        return True
    own = len(one) // n_one  # pieces of an example, one after the other
    first, second = one[:own].double(), other[:own].double()
    return first.shape == second.shape and torch.allclose(first, second, rtol=_CLOSE, atol=_CLOSE, equal_nan=True)
