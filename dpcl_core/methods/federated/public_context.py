"""Public inputs of CSLR, fixed before any private text is read: anchors, the public view, and the entry matcher."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpcl_core.errors import BadInput
from dpcl_core.methods.federated import matchers
from dpcl_core.methods.federated.cards.federated_params import ListParams
from dpcl_core.methods.federated.lists import Element
from dpcl_core.methods.federated.matchers import FeatureMap, Rule
from dpcl_core.methods.federated.public_view import AxesOf, PublicView
from dpcl_core.methods.federated.signatures import Signature
from dpcl_core.privacy.sums import unit_rows
from dpcl_core.scenarios.stream import generator

_LEAST = 4  # public sentences that must remain for the view


@dataclass(frozen=True, slots=True, eq=False)
class PublicEmbeddings:
    """Public embeddings of one seed, unit length: anchors [m, d] drawn from them, the others [p - m, d], and their view."""

    anchors: NDArray[np.float64]
    others: NDArray[np.float64]
    view: PublicView

    @classmethod
    def of(
        cls,
        features: NDArray[np.generic] | None,
        seed: int,
        n_axes: int,
        radius: float | None = None,
        n_anchors: int = 0,
        axes_of: AxesOf = "sentences",
    ) -> PublicEmbeddings:
        """From all public features [p, d]: the anchors' order depends on the seed alone; the other sentences make the view.

        Raises BadInput for more anchors or axes than there are public sentences, or more axes than an embedding has.
        """
        rows = unit_rows(features if features is not None else np.zeros((0, 1)))
        if n_anchors > len(rows) - _LEAST:
            allowed = f"must be at most {max(0, len(rows) - _LEAST)}: there are {len(rows)} public sentences"
            raise BadInput("params.anchors", n_anchors, allowed)
        if n_axes > (most := min(rows.shape[1], len(rows) - n_anchors - 1)):
            raise BadInput("params.dimensions", n_axes, f"must be at most {most}: public sentences span no more axes")
        order = generator(seed, "anchors").permutation(len(rows))
        others = rows[np.sort(order[n_anchors:])]
        return cls(rows[order[:n_anchors]], others, PublicView.of(others, n_axes, radius, axes_of))


@dataclass(frozen=True, slots=True, eq=False)
class EntryMatcher:
    """A matcher's feature map and assignment rule."""

    features: FeatureMap
    rule: Rule
    name: str

    @classmethod
    def of(cls, params: ListParams, public: PublicEmbeddings) -> EntryMatcher:
        """The matcher that the settings choose."""
        name = f"{params.matcher}, {params.rule}"
        match params.matcher:
            case "random":
                return cls(matchers.mean_features, "random", "random")
            case "target":
                return cls(matchers.target_features, params.rule, name)
            case "pca-mean":
                return cls(matchers.PcaMean(public.view.centre, public.view.axes), params.rule, name)
            case "mean":  # Eq 22 also compares covariances
                features = matchers.Moments() if params.rule == "ot" else matchers.mean_features
                return cls(features, params.rule, name)
            case "signature":
                kind, norm = params.signature_covariance, params.signature_norm
                return cls(Signature(public.anchors, kind, norm, public.view.covariance), params.rule, name)

    def assigned(
        self, features: NDArray[np.float64], weights: NDArray[np.float64], groups: NDArray[np.float64]
    ) -> NDArray[np.int64]:
        """Groups int64 [n, L] of lists' features [n, L, f] among prototypes [K, f]; -1 for entries of weight [n, L] zero."""
        ids = np.full(weights.shape, -1, dtype=np.int64)
        random = np.random.default_rng(0)  # only rule "random" uses it, and no figure depends on its draw
        for client in range(len(weights)):
            exist = np.flatnonzero(weights[client] > 0)
            ids[client, exist] = matchers.assign(self.rule, features[client, exist], groups, generator=random)
        return ids

    def of_means(
        self, means: NDArray[np.float64], variances: NDArray[np.float64], targets: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Features [K, f] of prototypes with these means [K, d], diagonal covariance [d] and targets [K, C]."""
        share = 1 / max(1, len(means))
        return self.features([Element(share, mean, variances, target) for mean, target in zip(means, targets, strict=True)])
