"""The statement of a run as plain text, for terminals and files, in the words that the app prints."""

from __future__ import annotations

from collections.abc import Mapping

from dpcl_core.events import Guarantee
from dpcl_core.privacy.statement import Words, is_nominal, shown, standing, words


def text(given: Mapping[float, Guarantee]) -> str:
    """The statement of a run, by epsilon asked for: each budget, then what holds for all of them."""
    said = {asked: words(guarantee) for asked, guarantee in given.items()}
    lists = {asked: _lists(guarantee, said[asked]) for asked, guarantee in given.items()}
    common = [line for line in next(iter(lists.values()), []) if all(line in other for other in lists.values())]
    lines: list[str] = []
    for asked, guarantee in given.items():
        own = [line for line in lists[asked] if line not in common]
        lines += [
            _asked(asked, guarantee),
            *(f"  {line}" for line in _sentences(said[asked])),
            *(f"  {line}" for line in own),
        ]
    return "\n".join([*lines, *common]) + "\n"


def _asked(asked: float, given: Guarantee) -> str:
    if is_nominal(given):
        return f"Asked for epsilon {shown(asked)}, which is claimed and not verified; accounted: no bound."
    if standing(given) == "replay":
        return f"Asked for epsilon {shown(asked)} for the replay alone; the head is not private, and the whole has no bound."
    return f"Asked for epsilon {shown(asked)}: accounted epsilon {shown(given.epsilon)}, delta {given.delta:g}."


def _sentences(said: Words) -> list[str]:
    """What is said first; where an epsilon is only claimed, with what the audit proved."""
    return [line for line in (said.banner, said.headline, said.audited, said.odds) if line]


def _lists(given: Guarantee, said: Words) -> list[str]:
    return [
        *(f"Covered: {text}" for text in said.covered),
        *(f"Not covered: {text}" for text in said.not_covered),
        *(f"Assumed: {text}" for text in said.assumptions),
        *(f"Note: {text}" for text in said.caveats),
        *([f"Layer: {said.layer}"] if said.layer is not None else []),
        f"Composition: {given.composition}",
        f"By part: {_parts(given.parts)}",
        *([f"Claimed by part: {_parts(given.claim.terms)}"] if given.claim is not None else []),
    ]


def _parts(parts: Mapping[str, float]) -> str:
    """Parts that cost the same said once: "task 1 to task 5: epsilon 1"."""
    groups: list[tuple[list[str], str]] = []
    for name, value in parts.items():
        if groups and name.startswith("task ") and groups[-1][1] == shown(value):
            groups[-1][0].append(name)
        else:
            groups.append(([name], shown(value)))
    spans = [names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}" for names, _ in groups]
    return "; ".join(f"{span}: epsilon {value}" for span, (_, value) in zip(spans, groups, strict=True))
