"""What is to be known about CSLR's printed numbers: contradictions between its tables, its text and its accounting."""

from __future__ import annotations

from dpcl_core.papers.remarks import Remark

_ONE_CLASS = (
    "One topic a task does not fit these numbers: with the task known every task has one class and everything is right; "
    "without it and without replay a head ends with the last topic, near 25 % and a backward transfer near -100."
)
_STAND_IN_NAME = (
    "Credited to Yoon et al. 2021, which is FedWeIT: no statistics are shared there and nothing is private. The numbers are "
    "those of lists of one entry (table 9)."
)
_BELOW = "Below DP-Stat-Share, which matches nothing, on all four benchmarks."
REMARKS = (
    Remark(
        "The noise printed for ε = 4 costs 62.3 over 200 rounds (94.4 by the paper's own Eq. 9), and 4.79 after a single "
        "one. No reading with one whole round keeps the claims; the Privacy page has them all.",
        "2",
    ),
    Remark(
        "ε is the replay release's, and the head's updates leave in the clear: the winning rows have no bound towards the "
        "server. Of DP-SGD it is the optimizer's, head included. The two are compared in one column.",
        "2",
    ),
    Remark(
        "Lists are noised and their averages again, which is noise twice; or averages are of lists without noise, and then "
        "clustering them together lets one client move what others are counted as. Both are charged, neither is proved.",
        "2",
    ),
    Remark(
        "With as many groups as tasks, and the task known, every entry's group is known beforehand: nothing to match.",
        "2",
    ),
    Remark(
        "Six clients and 384 values: the noise printed for ε = 4 has 4.7 times the length of an average embedding, and on a "
        "full second moment ninety times the signal. The text has no remark on it.",
        "2",
    ),
    Remark("The caption gives no ε, the text 4.", "2"),
    Remark(
        "No result by the partition's concentration, the number of clients or the share of a round, and no class means "
        "under noise, no matching by a plain projection and none by targets: the first needs no lists at all.",
        "2",
    ),
    Remark(_ONE_CLASS, "2", "DP-SGD (no replay)", dataset="Split-AG-News"),
    Remark(_ONE_CLASS, "3", "DP-SGD (no replay)", dataset="Split-AG-News"),
    Remark(_STAND_IN_NAME, "2", "DP-Stat-Share"),
    Remark(_BELOW, "2", "CSLR-NearestMean"),
    Remark("Entries matched by lot, and 2.4 to 2.6 points above no replay.", "2", "CSLR-NoAnchor (Random)"),
    *(
        Remark(
            "Printed for the replay release, and how its noise was set is not said. Ours is accounted, for all that leaves "
            "a client.",
            table, "FedCIL+DP",
        )
        for table in ("2", "4")
    ),
    Remark("Cited under the title of its preprint. No row in tables 3 and 7.", "2", "FedTA"),
    Remark(
        "The text gives MiniLM's 384 values for every benchmark and BERT-base, with 768, for this one.", "2",
        dataset="OntoNotes-Domain",
    ),
    Remark("Accuracy of several intents at once is not defined: all of them right, or any?", "2", dataset="MultiWOZ-Intent"),
    Remark(
        "With table 2, the accuracy right after learning is 65.1 to 65.8 for every method on AG News but CSLR (67.4): "
        "DP-SGD, the only one with a noised head, learns each task as well as the others, and four topics of news are "
        "learned to 65 %, for which the text has no reason.",
        "3",
    ),
    Remark("Above FedTA (63.5), which adds no noise.", "4", "CSLR", epsilon=8.0),
    Remark("One ε, two scopes: the optimizer's of DP-SGD, the replay's of the others, whose heads are not private.", "4"),
    Remark(
        "Follows from table 2 by Eq. 23, all eight of them. Its factor 2.776 belongs to paired differences, its standard "
        "error to unpaired ones; the seeds are shared, so that pairs could have been formed.",
        "6",
    ),
    Remark("Three of the matchers and FedTA have no row.", "7"),
    Remark(
        "p̂ is called the fraction of anchors that tell two entries apart. Such a share does not depend on how many anchors "
        "are drawn; printed it grows from 0.18 to 0.47. γ is not given, nor the margin's unit: raw log-densities at 384 "
        "values lie far more than 0.2 apart.",
        "8",
    ),
    Remark(
        "The smallest of all pairs' estimates does grow, for with few anchors it is far below the smallest share itself. "
        "Ours on AG News (twenty clients' class means, γ half a standard deviation): 0.12, 0.25, 0.32, 0.38 and 0.40 at 10 "
        "to 200 anchors, where the mean stays at 0.66 to 0.67. That would explain the printed row.",
        "8",
    ),
    Remark(
        "Longer lists cost nothing in the accounting. That holds only where the noise does not depend on their length.", "9"
    ),
    Remark("DP-Stat-Share's row of tables 2 and 3, to the digit.", "9", "CSLR", "L = 1"),
)  # fmt: skip
