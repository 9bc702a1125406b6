"""Noise on replayed lists (CSLR): what is claimed, what every reading of the text really costs, and attacks to be played."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, cast

import streamlit as st

from dpcl_core.errors import BadInput
from dpcl_core.events import Guarantee
from dpcl_core.privacy import cslr_claim
from dpcl_core.privacy.cslr_claim import TABLE_5
from dpcl_core.privacy.statement import shown, words
from pages.parts.claims import cslr_attacks, cslr_readings, cslr_theorems, privacy_bar
from pages.parts.shell import layout, link
from pages.parts.shell.text import plain
from pages.parts.shell.view import View

if TYPE_CHECKING:
    from dpcl_core.privacy.cslr_accounting import Costs, Reading

_DELTAS = (1e-8, 1e-7, 1e-6, 1e-5, 1e-4)
BENCHMARKS: dict[str, str] = {
    "ag-news": "Split-AG-News",
    "amazon": "Split-Amazon",
    "ontonotes": "OntoNotes-Domain",
    "multiwoz": "MultiWOZ-Intent",
}
SAMPLING: dict[str, str] = {
    "poisson": "by a coin each (Poisson)",
    "fixed": "a set of fixed size",
    "everyone": "all of them, or nothing amplified (Eqs. 6 to 9)",
}
CLIPPING: dict[str, str] = {
    "joint": "all that a client sends of one statistic: 1",
    "mode": "each of K groups on its own: √K",
    "entry": "each of L entries, added up in one group: L",
}
ADJACENCIES: dict[str, str] = {"add-remove": "one client more or less", "replace": "one client replaced by another"}
FIELDS: list[link.Field[Any]] = [
    link.Field("lists", "r", "list claims open", link.Flag(), False),
    link.Field("r_benchmark", "rb", "benchmark", link.Choice(tuple(BENCHMARKS)), "ag-news"),
    link.Field("r_rounds", "rt", "rounds", link.Maybe(link.Whole(1, 100_000)), None),
    link.Field("r_statistics", "rk", "statistics a round", link.Whole(1, 64), 4),
    link.Field("r_sampling", "rs", "how clients are drawn", link.Choice(tuple(SAMPLING)), "poisson"),
    link.Field("r_rate", "rq", "share of clients", link.Number(0.001, 1.0), 0.3),
    link.Field("r_clients", "rn", "clients", link.Maybe(link.Whole(2, 100_000)), None),
    link.Field("r_adjacency", "ra", "neighbours", link.Choice(tuple(ADJACENCIES)), "add-remove"),
    link.Field("r_clipping", "rc", "what is clipped", link.Choice(tuple(CLIPPING)), "joint"),
    link.Field("r_groups", "rg", "K", link.Whole(1, 1000), 4),
    link.Field("r_coin", "ro", "one coin for all statistics", link.Flag(), True),
    link.Field("r_list", "rl", "own list released too", link.Flag(), False),
    link.Field("r_head", "rh", "noise on the head", link.Maybe(link.Number(0.01, 1000.0)), None),
    link.Field("r_delta", "rd", "δ of a client", link.Number(1e-12, 0.1), 1e-5),
    *cslr_attacks.FIELDS,
    *cslr_theorems.FIELDS,
]
TITLE = "Claimed, accounted, audited: noise on replayed lists (CSLR)"
ABOUT = """CSLR (Shihab et al. 2026) claims ε = {:g}, {:g} and {:g} for noise multipliers {:.2f}, {:.2f} and {:.2f}. **These
claims are not verified, and are for what is released for replay alone**: the head's updates leave in the clear. What the
noise costs depends on things that the text leaves open: how clients are drawn, what is clipped, how often is released, what
neighbours are. Each is a control. Every number but the claims is computed here, now.""".format(*TABLE_5, *TABLE_5.values())


def is_of_lists(given: Guarantee) -> bool:
    """Whether what is claimed for a run is CSLR's budget of its replay."""
    return given.claim is not None and given.claim.source.startswith(cslr_claim.PAPER)


def part(view: View, given: Guarantee | None) -> dict[str, object]:
    """The section; drawn only while it is open. `given`: of the run on the page, where its ε is CSLR's claim."""
    box = st.expander(TITLE, expanded=bool(view["lists"]) or given is not None, key=view.key("lists"), on_change="rerun")
    values: dict[str, object] = {field.name: view[field.name] for field in FIELDS} | {"lists": bool(box.open)}
    if not box.open:
        return values
    with box:
        st.markdown(ABOUT)
        left, right = st.columns(2)
        with left, layout.card("list-reading"):
            own = _controls(view)
            values |= own
        with right:
            reading = _reading(own)
            with layout.card("list-costs"):
                _costs(reading)
            with layout.card("list-needed"):
                _needed(reading)
        every = layout.card("list-readings")
        left, right = st.columns(2)
        with left, layout.card("list-audits"):
            values |= cslr_attacks.part(view, reading, TABLE_5)
        with right:
            with layout.card("list-local"):
                _local(reading)
            with layout.card("list-theory"):
                values |= cslr_theorems.part(view, reading)
        with every:  # last, for it takes seconds the first time
            _every(own)
    return values


def of_run(given: Guarantee) -> None:
    """The claim of a run, what its noise costs, replay, head and total of its ledger, and what the audit proved."""
    assert given.claim is not None
    said, claimed = words(given), given.claim
    least = "no audit" if given.audit is None else f"at least {math.floor(10 * given.audit.lower_bound) / 10:g}"
    computed = {name: value for name, value in claimed.numbers.items() if name.startswith("computed")}
    rows = f"| **claimed**, replay alone ({plain(claimed.source)}, not verified) | {shown(claimed.epsilon)} |\n"
    rows += "".join(f"| {plain(name)} | {shown(value)} |\n" for name, value in computed.items())
    channels = [name for name in ("replay release", "head") if name in given.parts]
    rows += "".join(f"| **accounted**: {name} | {_bound(given.parts[name])} |\n" for name in channels)
    rest = " · ".join(f"{name} = {value:g}" for name, value in claimed.numbers.items() if name not in computed)
    with layout.card("claim"):
        st.markdown("**Claimed, accounted, audited**")
        st.markdown(
            f"| of this run | ε |\n|---|---:|\n{rows}"
            f"| **accounted**: replay and head together | {_bound(given.epsilon)} |\n| **audited** | **{least}** |\n"
        )
        st.caption(plain(said.audited or "This run was not audited."))
        st.caption(plain(f"Computed for {rest}, granting the printed sensitivity."))


def _controls(view: View) -> dict[str, object]:
    st.markdown("**How is it released?** What the text leaves open, and our defaults")
    benchmark = _select(view, "r_benchmark", "Benchmark", {name: _title(name) for name in BENCHMARKS})
    printed = cslr_claim.BENCHMARKS[BENCHMARKS[benchmark]]
    usual_clients, n_tasks = printed.n_clients, printed.n_tasks
    with st.container(horizontal=True, gap="small"):
        rounds = _whole(view, "r_rounds", "rounds in all", 100_000, 50 * n_tasks, benchmark)
        statistics = _whole(view, "r_statistics", "statistics a round", 64)
        clients = _whole(view, "r_clients", "clients, N", 100_000, usual_clients, benchmark, low=2)
    sampling = _select(view, "r_sampling", "Clients of a round", SAMPLING)
    rate = cast(float, view["r_rate"])
    if sampling != "everyone":
        rate = st.slider("share of clients a round, q", 0.01, 1.0, rate, 0.01, key=view.key("r_rate"))
    adjacency = _select(view, "r_adjacency", "Neighbouring data differ by", ADJACENCIES)
    clipping = _select(view, "r_clipping", "Clipped to B is", CLIPPING)
    groups = cast(int, view["r_groups"])
    if clipping != "joint":
        groups = _whole(view, "r_groups", "K groups" if clipping == "mode" else "L entries", 1000)
    coin = st.toggle(
        "The statistics of a round are of the same clients: amplified once", bool(view["r_coin"]), key=view.key("r_coin")
    )
    with_list = st.toggle(
        "The clients' own lists are released too, at the same noise", bool(view["r_list"]), key=view.key("r_list")
    )
    head = cast("float | None", view["r_head"])
    is_noisy = st.toggle("The head's updates get noise, in the same rounds", head is not None, key=view.key("r_head"))
    head = _float(view, "r_head", "noise over the updates' clipping norm", 0.01, 1000.0, head or 4.71) if is_noisy else None
    asked = cast(float, view["r_delta"])
    delta = float(
        st.select_slider("δ", sorted({*_DELTAS, asked}), asked, format_func=lambda one: f"{one:g}", key=view.key("r_delta"))
    )
    return {
        "r_benchmark": benchmark,
        "r_rounds": None if rounds == 50 * n_tasks else rounds,
        "r_statistics": statistics,
        "r_clients": None if clients == usual_clients else clients,
        "r_sampling": sampling,
        "r_rate": rate,
        "r_adjacency": adjacency,
        "r_clipping": clipping,
        "r_groups": groups,
        "r_coin": coin,
        "r_list": with_list,
        "r_head": head,
        "r_delta": delta,
    }


def _reading(own: dict[str, object]) -> Reading:
    """What the controls say, with the noise that is printed for the middle claim."""
    from dpcl_core.privacy.cslr_accounting import ROUNDS_PER_TASK, Reading

    printed = cslr_claim.BENCHMARKS[BENCHMARKS[str(own["r_benchmark"])]]
    groups = cast(int, own["r_groups"])
    sensitivity = {"joint": 1.0, "mode": math.sqrt(groups), "entry": float(groups)}[str(own["r_clipping"])]
    return Reading(
        noise_multiplier=TABLE_5[4.0],
        n_rounds=cast("int | None", own["r_rounds"]) or ROUNDS_PER_TASK * printed.n_tasks,
        n_statistics=cast(int, own["r_statistics"]),
        sampling=cast(Literal["poisson", "everyone", "fixed"], own["r_sampling"]),
        sample_rate=cast(float, own["r_rate"]),
        n_clients=cast("int | None", own["r_clients"]) or printed.n_clients,
        adjacency=cast(Literal["add-remove", "replace"], own["r_adjacency"]),
        sensitivity=sensitivity,
        one_coin=bool(own["r_coin"]),
        with_list=bool(own["r_list"]),
        head_multiplier=cast("float | None", own["r_head"]),
        delta=cast(float, own["r_delta"]),
    )


def _costs(reading: Reading) -> None:
    """Claimed and computed for the controls, three noises side by side, and the three numbers: replay, head, together."""
    from dpcl_core.privacy.cslr_accounting import costs

    st.markdown("**Claimed and computed, for this reading**")
    replays, totals = [], []
    for sigma in TABLE_5.values():
        replays.append(costs(replace(reading, noise_multiplier=sigma, head_multiplier=None)))
        if reading.head_multiplier is not None:
            totals.append(costs(replace(reading, noise_multiplier=sigma)))
    head = "no bound"
    if reading.head_multiplier is not None:
        alone = replace(
            reading, noise_multiplier=reading.head_multiplier, n_statistics=1, sensitivity=1.0, with_list=False,
            head_multiplier=None,
        )  # fmt: skip
        head = cslr_readings.number(costs(alone).least)
    titles = " | ".join(f"claimed {epsilon:g}: σ = {sigma:g}" for epsilon, sigma in TABLE_5.items())
    rows = "".join(
        f"| {name} | {' | '.join(cslr_readings.number(getattr(one, which)) for one in replays)} |\n"
        for which, name in cslr_readings.ACCOUNTANTS.items()
    )
    together = " | ".join(cslr_readings.number(one.least) if one else "no bound" for one in totals or (None,) * len(TABLE_5))
    st.markdown(
        f"| computed ε; claims not verified | {titles} |\n|---|---:|---:|---:|\n{rows}"
        f"| **head alone** | {' | '.join([head] * len(TABLE_5))} |\n| **replay and head together** | {together} |\n"
    )
    st.caption(_how(reading))
    _verdict(reading, replays)


def _title(name: str) -> str:
    printed = cslr_claim.BENCHMARKS[BENCHMARKS[name]]
    return f"{BENCHMARKS[name]}: {printed.n_clients} clients, {printed.n_tasks} tasks"


def _how(reading: Reading) -> str:
    share = reading.sensitivity * math.sqrt(reading.n_statistics * (2 if reading.with_list else 1))
    drawn = {
        "poisson": f"amplified by a coin of {reading.sample_rate:g}",
        "fixed": f"amplified by drawing {reading.n_sampled} of {reading.n_clients} clients",
        "everyone": "not amplified",
    }[reading.sampling]
    return (
        f"A round is one Gaussian of multiplier σ/{share:.4g} on everything that a client sends, {drawn}; "
        f"{reading.n_rounds:,} of them at δ = {reading.delta:g}. All numbers are upper bounds, rounded up; a dash: that "
        "accountant does not know these steps. Head and replay of a round have the same clients: together they cost less "
        "than the sum."
    )


def _verdict(reading: Reading, replays: list[Costs]) -> None:
    if not reading.one_coin and reading.sampling != "everyone":
        privacy_bar.not_dp(
            "Not valid: one coin decides about all statistics of a round, so that they cannot be amplified one by one."
        )
        return
    least = [one.least for one in replays]
    if all(one is None for one in least):
        st.warning("No accountant here knows sets of fixed size where neighbours differ in how many clients there are.")
        return
    kept = [f"{epsilon:g}" for epsilon, one in zip(TABLE_5, least, strict=True) if one is not None and one <= epsilon]
    if kept:
        what = f"keeps the replay within ε = {', '.join(kept)}, which is also what is claimed for it"
    else:
        what = "keeps none of the claims"
    open_head = "" if reading.head_multiplier is not None else " With the head in the clear, the model has no bound at all."
    st.markdown(f"**This reading {what}.**{open_head}")


def _every(own: dict[str, object]) -> None:
    printed = cslr_claim.BENCHMARKS[BENCHMARKS[str(own["r_benchmark"])]]
    st.markdown("**Every reading, at the printed noise**")
    place = st.empty()
    st.caption(
        "Each cell: by Eq. 9 / by dp_accounting's conversion of the same divergences / by PLD. Where nothing else is said: "
        "clients by a coin of 0.3, one more or less, each statistic within B. The last row counts replay and head; all "
        "others are for the replay alone, and with its head in the clear the model has no bound."
    )
    cslr_readings.table(place, printed.n_clients, printed.n_tasks, cast(float, own["r_delta"]), TABLE_5)


def _needed(reading: Reading) -> None:
    """The noise that would keep the claims, found on request: some seconds of the accountant."""
    st.markdown("**How much noise would the claims take?**")
    st.caption("The smallest multiplier of each statistic with which this reading stays within ε, the replay alone.")
    seen = st.session_state.setdefault("list-needed", {})
    own = replace(reading, head_multiplier=None)
    if st.button("Search", key="list-needed-search"):
        with st.spinner("Searching ..."):
            seen[own] = _searched(own)
    if (found := seen.get(own)) is None:
        return
    if isinstance(found, str):
        st.error(plain(found))
        return
    rows = "".join(
        f"| {epsilon:g} | {TABLE_5[epsilon]:g} | **{value:,.4g}** | {value / TABLE_5[epsilon]:.1f} |\n"
        for epsilon, value in found.items()
    )
    st.markdown(f"| ε to keep | σ printed | σ needed | times as much |\n|---:|---:|---:|---:|\n{rows}")


def _searched(reading: Reading) -> dict[float, float] | str:
    from dpcl_core.privacy.cslr_accounting import multiplier_for

    which: Literal["pld", "rdp"] = "rdp" if reading.sampling == "fixed" else "pld"
    try:
        return {epsilon: multiplier_for(epsilon, reading, which) for epsilon in TABLE_5}
    except (BadInput, ValueError) as refused:  # Unaccountable: one sentence, too
        return str(refused)


def _local(reading: Reading) -> None:
    """One client's lists before a server that sees them one by one."""
    from dpcl_core.privacy.cslr_accounting import participations, per_client

    rate = 1.0 if reading.sampling == "everyone" else reading.sample_rate
    expected, most = participations(reading.n_rounds, rate)
    counts = dict.fromkeys(sorted({1, max(1, reading.n_rounds // 50), max(1, expected), max(1, most)}))
    told = {max(1, expected): ", expected here", max(1, most): ", exceeded once in a thousand"}
    rows = ""
    for count in counts:
        cells = []
        for sigma in TABLE_5.values():
            pair = [
                cslr_readings.number(per_client(replace(reading, noise_multiplier=sigma, adjacency=kind), count).pld)
                for kind in ("add-remove", "replace")
            ]
            cells.append(" / ".join(pair))
        rows += f"| {count:,}{told.get(count, '')} | {' | '.join(cells)} |\n"
    titles = " | ".join(f"σ = {sigma:g}" for sigma in TABLE_5.values())
    st.markdown("**A server that sees each client's own list**")
    st.markdown(f"| times that the client takes part | {titles} |\n|---:|---:|---:|---:|\n{rows}")
    st.caption(
        "The printed algorithm clusters lists client by client, so that against the server this is local privacy: nothing "
        "is averaged, and nothing amplified, for the server sees who sent. ε by PLD, all that the client sends becoming "
        "zero / being replaced."
    )


def _bound(epsilon: float) -> str:
    return "no bound" if math.isinf(epsilon) else shown(epsilon)


def _select(view: View, name: str, title: str, options: dict[str, str]) -> str:
    names = list(options)
    return st.selectbox(
        title, names, index=names.index(str(view[name])), format_func=options.__getitem__, key=view.key(name)
    )


def _whole(view: View, name: str, title: str, high: int, usual: int | None = None, of: str = "", *, low: int = 1) -> int:
    """A whole number, whose default follows another choice where `usual` is given."""
    start = cast("int | None", view[name]) or usual or low
    return int(st.number_input(title, low, high, start, key=f"{view.key(name)}{f'-{of}' if of else ''}", width=150))


def _float(view: View, name: str, title: str, low: float, high: float, start: float) -> float:
    return float(st.number_input(title, low, high, start, key=f"{view.key(name)}-value", format="%g", width=260))
