"""Every method that says "proved", and what its noise is made of: public numbers of the small plays."""

import math
from collections.abc import Mapping

from dpcl_core.methods import catalog
from dpcl_core.methods.common.dpsgd import ROUNDING
from tests.attacks import small_plays

PROVED = [name for name, card in catalog.CARDS.items() if card.guarantee == "proved"]
ALWAYS_READ = ("cosine", "dp-coeff-memory", "independent-laplace", "label-means", "cslr-server-head", "local-list")
IN_ROUNDS = ("cslr-central", "dp-stat-share", "dp-fedavg", "fedcil-dp")  # of clients, each round charged by itself
IN_STEPS = tuple(name for name in PROVED if name not in (*ALWAYS_READ, *IN_ROUNDS))
_SUM, _LIST = math.hypot(1, 0.5), math.sqrt(1.5)  # bounds of a client's vector, and of its list
_OF_TEXTS = 6.0  # texts in a step on average: half of twelve
_IMAGES = small_plays.NOMINAL / 2

# By method: what a multiplier of the ledger is multiplied by, and how many draws a charge stands for.
UNITS: Mapping[str, tuple[tuple[float, ...], int]] = {
    **dict.fromkeys(("cosine", "peft-ensemble", "naive", "non-cl", "dp-fedavg"), ((1.0,), 1)),  # in units of a clipping norm
    "dp-agem": (((1 + ROUNDING) / _IMAGES, (1 + ROUNDING) / 2), 1),  # own batch, replayed one
    "dp-coeff-memory": ((math.sqrt(3), math.sqrt(1.5)), 4),  # features, their classes, products on the diagonal and off it
    "independent-laplace": ((), 1),
    **dict.fromkeys(("lm-seqft", "lm-olora", "lm-mtl"), (((1 + ROUNDING) / _OF_TEXTS,), 1)),
    "lm-er": (((1 + ROUNDING) / _OF_TEXTS, (1 + ROUNDING) / 7), 1),  # own texts, and with a kept one
    # Steps, and squares of all texts or references.
    **dict.fromkeys(("lm-ewc", "lm-gem"), (((1 + ROUNDING) / _OF_TEXTS, (1 + ROUNDING) / 12), 1)),
    "pecl": ((0.5 * (1 + ROUNDING) / _OF_TEXTS, 1.0), 1),  # steps, clipped to a half, and mean scores
    **dict.fromkeys(("cslr-server-head", "label-means"), ((_SUM,), 1)),
    **dict.fromkeys(("cslr-central", "dp-stat-share"), ((_SUM, 1.0), 1)),
    "local-list": ((_LIST,), 1),
    "fedcil-dp": ((math.sqrt(2),), 2),  # generator and classifier, each half of the budget
}
