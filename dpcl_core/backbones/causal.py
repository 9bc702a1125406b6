"""Causal language models in torch: frozen, or with trainable low-rank adapters (LoRA, Hu et al. 2022)."""

from __future__ import annotations

import copy
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, redirect_stderr
from functools import cached_property, lru_cache
from hashlib import blake2b
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from torch import Tensor, nn

from dpcl_core.backbones import adaptable, packaged, plain_language, weights
from dpcl_core.backbones.catalog import BackboneCard
from dpcl_core.backbones.gpu import at_least_single, half_precision, is_gpu
from dpcl_core.backbones.kept_states import KeptStates
from dpcl_core.backbones.plain_language import EPSILON
from dpcl_core.backbones.weights import FIELD, ensure_torchvision
from dpcl_core.errors import BadInput, read_as
from dpcl_core.machine import lacking

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_NUMBERED = re.compile(r"(.+?)\.(\d+)\.")  # the first number in a module's name is that of its block

# Names of attention's input projections in the families of models: GPT-2, Llama and most after it, GPT-NeoX, Phi.
PROJECTIONS = ("c_attn", "q_proj", "k_proj", "v_proj", "query_key_value", "qkv_proj", "Wqkv")
_ADAPTER = "default"


class Adapted(nn.Module):
    """A frozen language model whose attention projections become W x + (alpha / rank) B A x, with A and B trained.

    B starts at zero, so the model starts as the frozen one, whose tensors it shares. `context`: length of its context in
    tokens, None if not stated. `scale`: alpha / rank. `split`: the model cut below its first adapted block; `public`: the
    frozen model, cut at the same place.
    """

    def __init__(
        self, frozen: PreTrainedModel, rank: int, alpha: float, seed: int, layers: int | None = None, *, every: bool = False
    ) -> None:
        """`seed`: of the initial values of A, uniform as in the original, and the same on every device. `layers`: how many
        last blocks are adapted; None, or more than there are: all. `every`: every linear map of these blocks is adapted, not
        only attention's input projections.
        """
        super().__init__()
        from peft import LoraConfig, inject_adapter_in_model

        self._name = str(frozen.config.name_or_path or frozen.config.model_type)
        model = copy.deepcopy(frozen, {id(tensor): tensor for tensor in (*frozen.parameters(), *frozen.buffers())})
        named = {name: module for name, module in model.named_modules() if name.rpartition(".")[2] in PROJECTIONS}
        if not named:
            allowed = f"must be a model whose attention has projections called {', '.join(PROJECTIONS)}: they are adapted"
            raise BadInput(FIELD, self._name, allowed)
        path, cut = cut_below(named, layers)
        if every:
            kinds = {type(module) for module in named.values()}
            named = {name: module for name, module in model.named_modules() if type(module) in kinds and block_of(name)}
        named = {name: module for name, module in named.items() if (block_of(name) or ("", 0))[1] >= cut}
        transposed = type(next(iter(named.values()))).__name__ == "Conv1D"  # GPT-2 writes x W, others W x
        config = LoraConfig(r=rank, lora_alpha=alpha, target_modules=list(named), fan_in_fan_out=transposed)  # type: ignore[arg-type]
        with torch.random.fork_rng(devices=[]):  # the library draws initial values itself, which are overwritten below
            self.model = inject_adapter_in_model(config, model, adapter_name=_ADAPTER)
        self.layers: dict[str, nn.Module] = {name: self.model.get_submodule(name) for name in named}
        self.context: int | None = getattr(frozen.config, "max_position_embeddings", None)
        self.scale = alpha / rank
        for weight in self.trainable().values():  # the library takes the base's precision: half would lose small steps
            weight.data = weight.data.to(at_least_single(weight.dtype))
        self.split, self.public = Split(self.model, path, cut), _public(frozen, path, cut)
        self._kept: KeptStates | None = None
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for first, _ in self.pairs():
                fresh = torch.empty(first.shape)
                nn.init.kaiming_uniform_(fresh, a=math.sqrt(5), generator=generator)
                first.copy_(fresh)

    def embed(self, ids: Tensor) -> Tensor:
        """Token embeddings [b, S, width] of ids int64 [b, S], without position embeddings; arbitrary at the padding.

        Raises BadInput for texts longer than the model's context.
        """
        if self.context is not None and ids.ndim == 2 and ids.shape[1] > self.context:
            actual = f"a text with task and label has {ids.shape[1]}"
            raise BadInput(FIELD, self._name, f"looks back on {self.context} tokens, and {actual}: lower params.length")
        return cast(Tensor, self.model.get_input_embeddings()(ids.clamp(min=0)))  # type: ignore[operator]

    def states(self, ids: Tensor, mask: Tensor) -> Tensor:
        """What the first adapted block reads [b, S, width] of ids int64 [b, S]; from kept states if there are blocks below.

        `mask` bool [b, S]: False at the padding, where states are arbitrary. Raises BadInput as `embed` does.
        """
        embeddings = self.embed(ids)
        if not self.split.cut:
            return embeddings
        if self._kept is None:
            self._kept = KeptStates(self._below, self.public.identity, embeddings.shape[-1])
        return self._kept.of(ids, mask).to(embeddings.dtype)

    def _below(self, ids: Tensor) -> Tensor:
        return self.split.below(self.embed(ids))

    def forward(self, embeddings: Tensor, mask: Tensor) -> Tensor:
        """Logits [b, S, size] of the next token, from embeddings [b, S, width] and mask [b, S], 0 at padding."""
        return cast(Tensor, self.model(inputs_embeds=embeddings, attention_mask=mask, use_cache=False).logits)

    def trainable(self) -> dict[str, nn.Parameter]:
        """The trained tensors by name: LAYER.A [rank, inputs] and LAYER.B [outputs, rank] of each adapted layer in turn."""
        named: dict[str, nn.Parameter] = {}
        for name, (first, second) in zip(self.layers, self.pairs(), strict=True):
            named |= {f"{name}.A": first, f"{name}.B": second}
        return named

    def pairs(self) -> list[tuple[nn.Parameter, nn.Parameter]]:
        """A [rank, inputs] and B [outputs, rank] of each adapted layer, in the order of `layers`."""
        return [(layer.lora_A[_ADAPTER].weight, layer.lora_B[_ADAPTER].weight) for layer in self.layers.values()]  # type: ignore[index, union-attr]


@lru_cache(maxsize=1)
def _public(frozen: nn.Module, path: str, cut: int) -> Split:
    """The frozen model cut in two, shared by all that is adapted from it."""
    return Split(frozen, path, cut)


def cut_below(names: Iterable[str], layers: int | None) -> tuple[str, int]:
    """The list of blocks that these modules are in, and how many of its blocks are not adapted.

    0 where all are, and for models whose projections are in several lists.
    """
    places = [place for name in names if (place := block_of(name))]
    paths = {path for path, _ in places}
    if layers is None or len(paths) != 1:
        return "", 0
    return paths.pop(), max(0, 1 + max(number for _, number in places) - layers)


def load(backbone: str, device: str = "cpu", *, single: bool = False) -> PreTrainedModel:
    """A frozen language model without dropout, whose logits are in single precision. Do not modify it: all callers share it.

    The model itself is in single precision too, except where its files hold half precision and the device computes in
    bfloat16 (`gpu.half_precision`); `single`: always, for likelihoods that are shown, which are the same on every computer.

    Raises BadInput for an unusable name, weights file or kind of model, DataMissing where it is unavailable.
    """
    return _frozen(backbone, device, single)


def make_network(card: BackboneCard, device: str) -> adaptable.Network:
    """The last blocks as a network that gives features, for adapters under a last layer. Raises what `load` raises."""
    name, model = card.name, load(card.name, device, single=True).base_model  # trained numbers are single, and meet its own
    projections = [name for name, _ in model.named_modules() if name.rpartition(".")[2] in PROJECTIONS]
    path, cut = cut_below(projections, adaptable.BLOCKS)
    if not path:
        allowed = f"must be a model whose attention has projections called {', '.join(PROJECTIONS)}: they are adapted"
        raise BadInput(FIELD, name, allowed)
    tokenizer, blocks = plain_language.load_tokenizer(name), list(cast(nn.ModuleList, model.get_submodule(path)))
    lower = with_blocks(model, path, blocks[: cut + 1])  # what the last of these reads is kept
    last = with_blocks(model, path, [adaptable.plain(block) for block in blocks[cut:]])

    def pieces(strings: Sequence[str]) -> list[list[int]]:
        return [[tokenizer.bos, *ids[: adaptable.PIECES - 1]] for ids, _ in tokenizer.encode_all(strings)]

    def below(ids: Tensor, is_piece: Tensor) -> Tensor:
        seen: list[Tensor] = []
        with blocks[cut].register_forward_pre_hook(lambda block, args: seen.append(args[0])):
            lower(input_ids=ids, use_cache=False)
        return seen[0]

    width = cast(int, model.get_input_embeddings().weight.shape[1])  # type: ignore[operator]
    return adaptable.text_network(name, adaptable.OfCausal(last, path), pieces, below, width, device, n_marks=1)


def adapted(
    backbone: str, device: str, rank: int, alpha: float, seed: int, layers: int | None = None, *, every: bool = False
) -> Adapted:
    """The model with new adapters on its last `layers` blocks (None: all). It shares its frozen tensors with all others.

    `every`: on every linear map of these blocks. Raises what `load` raises.
    """
    return Adapted(load(backbone, device), rank, alpha, seed, layers, every=every).to(device)


def embedding_table(model: PreTrainedModel) -> NDArray[np.float32]:
    """The rows of a model's table of token embeddings [size, width]."""
    layer = model.get_input_embeddings()
    assert isinstance(layer, nn.Embedding)
    return cast("NDArray[np.float32]", layer.weight.detach().float().cpu().numpy())


@lru_cache(maxsize=1)
def _frozen(backbone: str, device: str, single: bool) -> PreTrainedModel:
    with torch.random.fork_rng(devices=[]):
        model = _bundled() if backbone == packaged.BUNDLED else _of_hub(backbone, device, single)
    model.config.name_or_path = backbone
    model.to(device).eval().requires_grad_(False)  # type: ignore[arg-type]
    model.get_output_embeddings().register_forward_hook(_in_single)  # type: ignore[no-untyped-call]
    return model


def _in_single(layer: nn.Module, args: tuple[Tensor, ...], logits: Tensor) -> Tensor:
    """The logits in single precision or better: every softmax and cross-entropy is taken of these."""
    return logits.to(at_least_single(logits.dtype))


def fresh(shape: packaged.Shape) -> PreTrainedModel:
    """A network of the bundled model's architecture without dropout, with random weights from torch's generator."""
    ensure_torchvision()  # before the library, which imports it
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        vocab_size=shape.size,
        n_positions=shape.context,
        n_embd=shape.width,
        n_layer=shape.n_blocks,
        n_head=shape.n_heads,
        layer_norm_epsilon=EPSILON,
        activation_function="gelu_pytorch_tanh",  # GPT-2's own "gelu_new", in one kernel
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        bos_token_id=None,
        eos_token_id=None,
    )
    return GPT2LMHeadModel(config)


def _bundled() -> PreTrainedModel:
    from safetensors.torch import load as read_safetensors

    bundle = packaged.bundled()
    model = fresh(bundle.shape)
    with weights.whole(packaged.BUNDLED, bundle.weights, KeyError, RuntimeError, SafetensorError):
        state = {name: values.float() for name, values in read_safetensors(bundle.read_weights()).items()}
        model.load_state_dict({**state, "lm_head.weight": state["transformer.wte.weight"]})
    return model


def _of_hub(backbone: str, device: str, single: bool) -> PreTrainedModel:
    ensure_torchvision()  # before the library, which imports it
    from transformers import AutoConfig, AutoModelForCausalLM
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
    from transformers.utils import logging

    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    folder = plain_language.network_folder(backbone)
    must = "must be a causal language model with safetensors weights that transformers can read"
    with read_as(FIELD, backbone, must, Exception):  # the library raises many kinds of error, all with the same meaning
        config = AutoConfig.from_pretrained(folder)
        usual = MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.get(config.model_type)  # files converted from others name no architecture
        kinds = tuple(config.architectures or ([usual] if usual else ()))
        if not any(kind.endswith(("ForCausalLM", "LMHeadModel")) for kind in kinds):
            raise ValueError(f"it is {', '.join(kinds) or 'of no known kind'}, which does not predict the next token")
        for name in config.to_dict():
            if "dropout" in name or name.endswith("pdrop"):
                setattr(config, name, 0.0)  # in the settings: training mode would turn it on again
        may_be_half = config.dtype in (torch.float16, torch.bfloat16) and not single
        precision = (half_precision(device) if may_be_half else None) or torch.float32
        # bfloat16's fused attention is slow backwards on processors: a step of two of smollm2's blocks takes a fifth more
        attention = "eager" if precision is torch.bfloat16 and not is_gpu(device) else None
        model: PreTrainedModel = AutoModelForCausalLM.from_pretrained(
            folder, config=config, dtype=precision, attn_implementation=attention, use_safetensors=True
        )
    return model


def block_of(name: str) -> tuple[str, int] | None:
    """The list of blocks that a module of this name is in, and the number of its block; None outside any."""
    found = _NUMBERED.match(name)
    return (found.group(1), int(found.group(2))) if found else None


class Split:
    """A model cut below block `cut`; 0: nothing is below but the embedding of tokens.

    `path`: name of the model's list of blocks. Both parts are the model's own modules behind a shorter list of blocks, so
    they share its weights and whatever is changed in them later. The model's own code runs them, with its masks, positions
    and scaling of logits; the states enter in front of the first block above the cut.
    """

    def __init__(self, model: nn.Module, path: str, cut: int) -> None:
        self.cut = cut
        self._model = model
        self._head: nn.Module = model.get_output_embeddings()  # type: ignore[operator]  # attributes have no types
        self._mlp: nn.Module | None = None  # of the last block
        if cut:
            blocks = list(cast(nn.ModuleList, model.get_submodule(path)))
            self._highest, self._first = blocks[cut - 1], blocks[cut]
            self._mlp = getattr(blocks[-1], "mlp", None)
            self._below, self._above = with_blocks(model, path, blocks[:cut]), with_blocks(model, path, blocks[cut:])

    @torch.no_grad()
    def below(self, embeddings: Tensor) -> Tensor:
        """States [b, S, width] before block `cut`, from token embeddings [b, S, width]; no gradient flows through them."""
        if not self.cut:
            return embeddings
        seen: list[Tensor] = []

        def note(block: nn.Module, args: tuple[Tensor, ...], out: Tensor | tuple[Tensor, ...]) -> None:
            seen.append(out if isinstance(out, Tensor) else out[0])

        with self._highest.register_forward_hook(note):
            self._below.base_model(inputs_embeds=embeddings, use_cache=False)  # type: ignore[operator]
        return seen[0]

    def above(
        self, states: Tensor, columns: Tensor | None, *, tokens: Tensor | None = None, whole: bool = False,
        is_below_head: bool = False
    ) -> Tensor:  # fmt: skip
        """Logits [b, k, size] of the tokens that follow these columns, int64 [b, k], from the states before block `cut`.

        These are token embeddings where `cut` is 0. Only the columns go through the last layer, which in a small model costs
        as much as all others, and through the last block's layers after its attention (`whole`: all do). `tokens` int64 [v]:
        logits of these alone, [b, k, v]. `is_below_head`: what the last layer reads [b, k, width], in place of logits.
        `columns` None: all columns.
        """
        seen: list[Tensor] = []

        def note(head: nn.Module, args: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
            seen.append(args[0])
            return (args[0][:, :0],)

        with ExitStack() as hooks:
            if columns is not None:
                _only(hooks, self._head, columns)
            if is_below_head:
                hooks.enter_context(self._head.register_forward_pre_hook(note))
            if tokens is not None:
                hooks.enter_context(_rows(self._head, tokens))
            if self.cut:  # the first block above it reads these states, whatever it is given
                hooks.enter_context(self._first.register_forward_pre_hook(lambda module, args: (states, *args[1:])))
            if self._mlp is not None and columns is not None and not whole:
                _only(hooks, self._mlp, columns, width=states.shape[1])
            logits = (self._above if self.cut else self._model)(inputs_embeds=states, use_cache=False).logits
            return seen[0] if seen else cast(Tensor, logits)

    @cached_property
    def plain_head(self) -> Tensor | None:
        """Weights [size, width] of a last layer whose products are the logits; None if they are shifted or scaled."""
        settings = self._model.config.to_dict()  # type: ignore[operator, union-attr]
        is_scaled = any("logit" in name and value not in (None, 1) for name, value in settings.items())
        is_plain = isinstance(self._head, nn.Linear) and self._head.bias is None and not is_scaled
        return cast(Tensor, self._head.weight) if is_plain else None

    @cached_property
    def identity(self) -> str:
        """Digest of all weights below the cut, with their precision and the kind of device that computes with them."""
        digest = blake2b(digest_size=16)
        for name, tensor in (*self._below.named_parameters(), *self._below.named_buffers()):
            digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)} {tensor.device.type}".encode())
            digest.update(tensor.detach().cpu().contiguous().view(torch.uint8).numpy().data)
        return f"{digest.hexdigest()}-{self.cut}"


@contextmanager
def _rows(head: nn.Module, tokens: Tensor) -> Iterator[None]:
    """Inside the context the last layer has the rows of these tokens alone; the table of embeddings keeps all."""
    whole = dict(head.named_parameters(recurse=False))
    try:
        for name, tensor in whole.items():
            setattr(head, name, nn.Parameter(tensor[tokens], requires_grad=False))
        yield
    finally:
        for name, tensor in whole.items():
            setattr(head, name, tensor)


def _only(hooks: ExitStack, layer: nn.Module, columns: Tensor, width: int | None = None) -> None:
    """Until `hooks` end the layer reads these columns [b, k] alone; with `width` its output has so many, 0 elsewhere."""
    places = columns[:, :, None]

    def chosen(module: nn.Module, args: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        return args[0].gather(1, places.expand(-1, -1, args[0].shape[2])), *args[1:]

    def restored(module: nn.Module, args: tuple[Tensor, ...], out: Tensor) -> Tensor:
        whole, ones = out.new_zeros((len(out), width or 0, out.shape[2])), torch.ones_like(columns)
        times = columns.new_zeros((len(out), width or 0)).scatter_add(1, columns, ones).gather(1, columns)
        return whole.scatter_add(1, places.expand(-1, -1, out.shape[2]), out / times[:, :, None])

    hooks.enter_context(layer.register_forward_pre_hook(chosen))
    if width is not None:
        hooks.enter_context(layer.register_forward_hook(restored))


def with_blocks(model: nn.Module, path: str, blocks: list[nn.Module]) -> nn.Module:
    """The model with this list of blocks at `path`, all modules shared."""
    changed = copy.copy(model)
    first, _, rest = path.partition(".")
    inner = model._modules[first]
    assert inner is not None
    changed._modules = {**model._modules, first: with_blocks(inner, rest, blocks) if rest else nn.ModuleList(blocks)}
    return changed


# Importing this module loads the libraries of language models, for a process that waits for a run.
#
# About 5 s and 130 MB in addition to torch (2026-11-21). All other code loads them at first use, so that a run's events
# about its texts before training do not wait for them.


ensure_torchvision()  # before the two below


# Converts a language model in a GGUF file into a folder as transformers saves it: settings, tokenizer, safetensors.


def convert(file: Path, folder: Path) -> None:
    """Writes the model in half precision: files of quantised weights hold them far more coarsely.

    Raises BadInput where transformers cannot read the file.
    """
    if absent := lacking(("gguf",)):
        raise BadInput(weights.FIELD, file.name, absent)
    ensure_torchvision()  # before the library, which imports it for some families of models
    from safetensors.torch import save_model
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from transformers.utils import logging

    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    verbosity = logging.get_verbosity()
    logging.set_verbosity_error()  # type: ignore[no-untyped-call]  # it advises how to compute; nothing is computed here
    must = "must be a GGUF file that transformers can read"
    try:
        with read_as(weights.FIELD, file.name, must, Exception):  # as above: many kinds of error, all with the same meaning
            with redirect_stderr(StringIO()):  # the progress of the tensors cannot be turned off
                model = AutoModelForCausalLM.from_pretrained(file.parent, gguf_file=file.name, dtype=torch.float16)
            tokenizer = AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)
    finally:
        logging.set_verbosity(verbosity)
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config  # transformers refuses to save a model that says it is quantised
    model.config.save_pretrained(folder)
    save_model(model, str(folder / "model.safetensors"), metadata={"format": "pt"})
    tokenizer.save_pretrained(folder)
