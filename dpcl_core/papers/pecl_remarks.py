"""What is to be known about PeCL's printed numbers: contradictions between its tables, its text and its proofs."""

from __future__ import annotations

from dpcl_core.papers.remarks import Remark

_UPPER = 10.0
_CLAIMED = (
    "Printed as ε of 1 to 10. Two clipped embeddings lie up to 2C apart and Eq. 5 calibrates to C: one noisy token truly "
    "has 1.66 to 24.4 at δ = 1e-6, a text of 64 tokens 18 to 599. The text calls its noise matched to the bound.",
    "A token of score 0 has no budget in the text, 10 in Eq. 4, and gets no noise at all.",
    "Lemma 2 and Corollary 1 need a score from 0 to 1; Eq. 3 can be negative, which gives up to 11.5.",
    "Remark 1 calls its bound for a text advanced composition; it is always above the plain sum of the budgets.",
)
REMARKS = (
    Remark(
        "Printed as 0.769 here and as 0.869 in tables 2 to 5; only 0.869 gives the printed mean of 0.573. Very likely a "
        "misprint.",
        "1", "PeCL", metric="task3_frac", is_doubtful=True,
    ),
    Remark("The six values of this row average 0.557; with 0.869 for the third they give it.", "1", "PeCL",
           metric="Last_frac"),
    *(Remark(text, "1", "PeCL", epsilon=_UPPER) for text in _CLAIMED),
    Remark("The text calls this table 3.", "1"),
    Remark("The text calls this table 4.", "2"),
    Remark("The six values average 0.343, so one of the seven is wrong; which cannot be told.", "2", "PeCL", "w/o PMS",
           metric="Last_frac"),
    *(
        Remark("The six values average 0.357: at the edge of rounding.", table, "EWC", "DPSGD", metric="Last_frac",
               dataset="order1")
        for table in ("1", "3")
    ),
    Remark("Called an upper bound, and exceeded by PeCL by 8 to 11 points: a method with other noise, not a bound.", "1",
           "MTL", metric="Last_frac"),
    Remark("The text sets PeCL's 0.535 beside this, which is an average along the way; MTL has none.", "1", "MTL", "DPSGD",
           metric="Last_frac"),
    Remark("The text calls SeqFT worst; this is the best of all ten baselines.", "1", "SeqFT", "DPSGD",
           metric="BWT_frac"),
    Remark("The text calls SeqFT worst; this is above GEM and O-LoRA with DPSGD.", "1", "SeqFT", "DPSGD",
           metric="Last_frac"),
    *(
        Remark(
            "The text has PeCL ahead in all orders; here ER with DPSGD has 0.434 and -0.039 against 0.428 and -0.073, and "
            "ER with FN has -0.005.",
            "3", "PeCL", metric=metric, dataset="order3",
        )
        for metric in ("Last_frac", "BWT_frac")
    ),
    *(
        Remark(
            "Columns are said to be tasks 1 to 6. As places in the order they predict the printed averages to 0.05, as "
            "tasks to 0.16: read as places here.",
            "3", metric=f"task{k}_frac", dataset=order,
        )
        for order in ("order2", "order3")
        for k in range(1, 7)
    ),
    *(
        Remark("The text gives lambda = 1 the lowest forgetting, -0.093; this is as low or lower.", "5", "PeCL", variant,
               metric="BWT_frac")
        for variant in ("lambda 7", "lambda 10")
    ),
    *(
        Remark(
            "Along 3, 5, 7, 10 it falls, rises and falls, by 0.06: single runs seem to differ by 0.03 to 0.05, more than "
            "most differences of this table.",
            "5", "PeCL", f"lambda {value}", metric="Avg_frac",
        )
        for value in (3, 5, 7, 10)
    ),
    Remark(
        "A threshold that hardly any token passes should act as no unlearning, which has -0.133 in tables 2 and 5.",
        "figure 5b", "PeCL", "theta 0.9", metric="BWT_frac",
    ),
    *(
        Remark(
            f"Implies {learned} right after a task was learned, over the first five. Holding the adapters buys stability "
            "with 4 to 6 points of what is learned, which the text does not say.",
            "2", "PeCL", variant, metric="BWT_frac",
        )
        for variant, learned in (("", "0.638"), ("w/o MemReg", "0.673"), ("w/o PMS", "0.700"))
    ),
)  # fmt: skip
