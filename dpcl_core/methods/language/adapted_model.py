"""A LoRA-adapted language model for one (epsilon, seed) cell: input encoding and label scoring."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from dpcl_core.backbones.language import causal, tokenizer
from dpcl_core.data.texts import TOKEN
from dpcl_core.errors import BadInput
from dpcl_core.methods.common.learner import PublicContext
from dpcl_core.methods.language import evaluation, public_log_likelihoods, token_log_likelihoods
from dpcl_core.methods.language.cards.network_params import LanguageParams
from dpcl_core.methods.language.gradients import Batch
from dpcl_core.methods.language.prompts import FIRST, TEXT, Prompted, prompted
from dpcl_core.methods.language.scoring import Planes, planes
from dpcl_core.privacy.labels import in_label_space, label_space
from dpcl_core.scenarios.stream import Examples, Task
from dpcl_core.spec import Cell, RunSpec


class AdaptedModel:
    """One cell's adapted model with its tokenizer."""

    def __init__(self, spec: RunSpec, cell: Cell, known: PublicContext) -> None:
        assert isinstance(spec.params, LanguageParams)
        params, backbone = spec.params, spec.data.backbone
        self._spec, self._params, self._known = spec, params, known
        self.net = causal.adapted(backbone, known.device, params.lora_rank, params.lora_alpha, cell.seed)
        self._tokenizer = tokenizer.load(backbone)

    def space(self, task: Task) -> tuple[int, ...]:
        """The task's label space: its public labels, ascending."""
        return label_space(self._spec.labels, task.prior, self._known.public, task.train.labels, [], task=task.index)

    def training_examples(self, task: Task) -> Examples:
        """The training texts whose label is in the label space."""
        return task.train.take(np.flatnonzero(in_label_space(task.train.labels, self.space(task))))

    def prompted(self, inputs: Planes, labels: NDArray[np.int64], name: str) -> Prompted:
        """Texts with their prompts and answers. Raises BadInput if they do not fit into the model's context."""
        texts = prompted(self._tokenizer, inputs, labels, self._known.classes, name)
        context, needed = self.net.context, texts.ids.shape[1]
        if context is not None and needed > context:
            most = self._params.length - (needed - context)
            allowed = f"must be at most {most}: with its prompt and answer a text may have {context} tokens in this model"
            raise BadInput("params.length", self._params.length, allowed)
        return texts

    def answers(self, task: Task) -> NDArray[np.float32]:
        """Scores [n, classes] of the test texts, read without noise; -inf for labels outside the task's label space."""
        scores = evaluation.ranked if self._params.eval == "rank" else evaluation.generated
        inputs, device = planes(task.test), self._known.device
        return scores(self.net, self._tokenizer, inputs, self.space(task), self._known.classes, task.name, device=device)

    def public_log_probs(self, inputs: Planes) -> NDArray[np.float32]:
        """log P of every token [n, length] under the frozen public model."""
        return public_log_likelihoods.log_probabilities(self._spec.data.backbone, inputs[:, :, TOKEN], self._known.device)

    def current_log_probs(self, inputs: Planes) -> NDArray[np.float32]:
        """log P of every token [n, length] under the current model."""
        return token_log_likelihoods.log_probabilities(
            self.net.model, inputs[:, :, TOKEN], self._tokenizer.bos, self._known.device
        )

    def table(self, per_token: NDArray[np.floating]) -> Tensor:
        """Per-token values [n, length, ...] as a float32 tensor on the device, for `gather_batch`."""
        return torch.from_numpy(np.asarray(per_token, np.float32)).to(self._known.device)


def gather_batch(table: Tensor, batch: Batch) -> Tensor:
    """The batch's rows [b, S, ...] of per-token values [n, length, ...]; 0 outside the texts."""
    values = table[torch.from_numpy(batch.rows).to(table.device), : batch.ids.shape[1] - FIRST]
    missing = batch.ids.shape[1] - FIRST - values.shape[1]
    inner = [0, 0] * (values.dim() - 2)
    values = functional.pad(values, [*inner, FIRST, missing])
    is_text = batch.role == TEXT
    return values * is_text.view(*is_text.shape, *([1] * (values.dim() - 2)))


def replace_text_embeddings(embeddings: Tensor, stored: Tensor, batch: Batch) -> Tensor:
    """Embeddings [b, S, d] in which the texts' tokens take theirs from `stored` [n, length, d]; prompts keep their own."""
    return torch.where((batch.role == TEXT)[..., None], gather_batch(stored, batch).to(embeddings.dtype), embeddings)


def embedding_table(net: causal.Adapted) -> NDArray[np.float32]:
    """The network's input embedding of each token [size, d]: a public table."""
    layer = net.model.get_input_embeddings()  # type: ignore[operator]  # a module's attributes have no types
    size, device = len(layer.weight), layer.weight.device
    with torch.no_grad():
        table: NDArray[np.float32] = net.embed(torch.arange(size, device=device)).float().cpu().numpy()
    return table


def without_tokens(texts: Prompted) -> Prompted:
    """The same prompts with the texts' tokens set to 0, for training that must not read them."""
    is_text = texts.role == TEXT
    return Prompted(np.where(is_text, 0, texts.ids), texts.role, texts.stop & ~is_text, np.where(is_text, 0, texts.kind))


def median_norm(table: NDArray[np.float32]) -> float:
    """Median L2 norm of the rows: the default clip of embeddings."""
    return float(np.median(np.linalg.norm(table, axis=1)))
