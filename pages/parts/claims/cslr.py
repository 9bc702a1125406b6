"""The privacy claim of CSLR: claimed ε, the accounted ε of every reading of its text, and attacks to run."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, cast

import streamlit as st

from dpcl_core.errors import BadInput
from dpcl_core.events import Guarantee
from dpcl_core.privacy import cslr_claim
from dpcl_core.privacy.cslr_claim import TABLE_5, Benchmark
from dpcl_core.privacy.statement import shown
from dpcl_core.spec import Adjacency
from pages.parts.claims import cslr_attacks, cslr_readings, cslr_theorems, privacy_bar
from pages.parts.claims.calculator import Claim, Controls, bound
from pages.parts.shell import layout, link
from pages.parts.shell.text import plain
from pages.parts.shell.view import View

if TYPE_CHECKING:
    from dpcl_core.privacy.cslr_accounting import Costs, Reading, Sampling

BENCHMARKS: dict[str, str] = {
    "ag-news": "Split-AG-News",
    "amazon": "Split-Amazon",
    "ontonotes": "OntoNotes-Domain",
    "multiwoz": "MultiWOZ-Intent",
}
SAMPLING: dict[str, str] = {
    "poisson": "each independently (Poisson)",
    "fixed": "a set of fixed size",
    "everyone": "all of them: no amplification (Eqs. 6 to 9)",
}
CLIPPING: dict[str, str] = {
    "joint": "everything a client sends for one statistic: 1",
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
claims are not verified and cover only the release for replay**: the head's updates are sent without noise. The cost of the
noise depends on details that the text leaves open: how clients are sampled, what is clipped, how often statistics are
released, and what neighbours are. Each is a control. All numbers except the claims are computed here.""".format(
    *TABLE_5, *TABLE_5.values()
)


def _body(view: View, given: Guarantee | None) -> dict[str, object]:
    controls = Controls(view, FIELDS)
    left, right = st.columns(2)
    with left, layout.card("list-reading"):
        printed, reading = _controls(view, controls)
    with right:
        with layout.card("list-costs"):
            _costs(reading)
        with layout.card("list-needed"):
            _needed(reading)
    readings = layout.card("list-readings")
    left, right = st.columns(2)
    with left, layout.card("list-audits"):
        claimed = cslr_attacks.part(view, reading)
    with right:
        with layout.card("list-local"):
            _local(reading)
        with layout.card("list-theory"):
            cslr_theorems.part(controls, reading)
    with readings:  # drawn last, because the first time takes seconds
        _readings(printed, reading.delta)
    return controls.values | {"r_claim": claimed}


def _lines(given: Guarantee) -> tuple[dict[str, str], str]:
    """A run's claimed ε, the computed cost of its noise, and replay, head and total of its ledger."""
    assert given.claim is not None
    claimed = given.claim
    rows = {f"**claimed**, replay alone ({plain(claimed.source)}, not verified)": shown(claimed.epsilon)}
    computed = {name: value for name, value in claimed.numbers.items() if name.startswith("computed")}
    rows |= {plain(name): shown(value) for name, value in computed.items()}
    channels = [name for name in ("replay release", "head") if name in given.parts]
    rows |= {f"**accounted**: {name}": bound(given.parts[name]) for name in channels}
    rows["**accounted**: replay and head together"] = bound(given.epsilon)
    rest = " · ".join(f"{name} = {value:g}" for name, value in claimed.numbers.items() if name not in computed)
    return rows, f"Computed for {rest}, granting the printed sensitivity."


def _controls(view: View, controls: Controls) -> tuple[Benchmark, Reading]:
    """Draws the controls; returns the benchmark and the reading, with the noise printed for the middle claim."""
    from dpcl_core.privacy.cslr_accounting import ROUNDS_PER_TASK, Reading

    st.markdown("**What is released, and how?** Details that the text leaves open, with our defaults")
    benchmark = controls.select("r_benchmark", "Benchmark", {name: _title(name) for name in BENCHMARKS})
    printed = cslr_claim.BENCHMARKS[BENCHMARKS[benchmark]]
    with st.container(horizontal=True, gap="small"):
        rounds = controls.whole("r_rounds", "rounds in all", usual=ROUNDS_PER_TASK * printed.n_tasks, of=benchmark)
        statistics = controls.whole("r_statistics", "statistics a round")
        clients = controls.whole("r_clients", "clients, N", usual=printed.n_clients, of=benchmark)
    sampling = controls.select("r_sampling", "Clients of a round", SAMPLING)
    rate = 1.0 if sampling == "everyone" else controls.share("r_rate", "share of clients a round, q", 0.01, 0.01)
    adjacency = controls.select("r_adjacency", "Neighbouring data differ by", ADJACENCIES)
    clipping = controls.select("r_clipping", "Clipped to B is", CLIPPING)
    groups = cast(int, view["r_groups"])
    if clipping != "joint":
        groups = controls.whole("r_groups", "K groups" if clipping == "mode" else "L entries")
    coin = controls.flag("r_coin", "All statistics of a round come from the same clients: amplified once")
    with_list = controls.flag("r_list", "The clients' own lists are released too, at the same noise")
    label = "The head's updates get noise, in the same rounds"
    is_noisy = st.toggle(label, view["r_head"] is not None, key=view.key("r_head"))
    title = "noise std divided by the updates' clipping norm"
    head = controls.number("r_head", title, start=4.71, width=260) if is_noisy else None
    controls.values["r_head"] = head
    return printed, Reading(
        noise_multiplier=TABLE_5[4.0],
        n_rounds=rounds,
        n_statistics=statistics,
        sampling=cast("Sampling", sampling),
        sample_rate=rate,
        n_clients=clients,
        adjacency=cast(Adjacency, adjacency),
        sensitivity={"joint": 1.0, "mode": math.sqrt(groups), "entry": float(groups)}[clipping],
        one_coin=coin,
        with_list=with_list,
        head_multiplier=head,
        delta=controls.delta("r_delta"),
    )


def _costs(reading: Reading) -> None:
    """Draws claimed and computed ε of this reading at the three printed noises: replay, head, and both together."""
    from dpcl_core.privacy.cslr_accounting import costs

    st.markdown("**Claimed and computed, for this reading**")
    at_each_noise = [replace(reading, noise_multiplier=sigma) for sigma in TABLE_5.values()]
    replays = [costs(replace(one, head_multiplier=None)) for one in at_each_noise]
    alone = together = ["no bound"] * len(TABLE_5)
    if reading.head_multiplier is not None:
        only_head = replace(
            reading, noise_multiplier=reading.head_multiplier, n_statistics=1, sensitivity=1.0, with_list=False,
            head_multiplier=None,
        )  # fmt: skip
        alone = [cslr_readings.number(costs(only_head).least)] * len(TABLE_5)
        together = [cslr_readings.number(costs(one).least) for one in at_each_noise]
    rows = {
        name: [cslr_readings.number(getattr(one, which)) for one in replays]
        for which, name in cslr_readings.ACCOUNTANTS.items()
    } | {"**head alone**": alone, "**replay and head together**": together}
    heads = ("computed ε; claims not verified", *cslr_readings.titles())
    layout.table(heads, ((name, *cells) for name, cells in rows.items()))
    st.caption(_how(reading))
    _verdict(reading, replays)


def _title(name: str) -> str:
    printed = cslr_claim.BENCHMARKS[BENCHMARKS[name]]
    return f"{BENCHMARKS[name]}: {printed.n_clients} clients, {printed.n_tasks} tasks"


def _how(reading: Reading) -> str:
    share = reading.sensitivity * math.sqrt(reading.n_statistics * (2 if reading.with_list else 1))
    drawn = {
        "poisson": f"amplified by Poisson sampling at rate {reading.sample_rate:g}",
        "fixed": f"amplified by sampling {reading.n_sampled} of {reading.n_clients} clients",
        "everyone": "not amplified",
    }[reading.sampling]
    return (
        f"A round is one Gaussian mechanism with multiplier σ/{share:.4g} on everything that a client sends, {drawn}; "
        f"{reading.n_rounds:,} rounds at δ = {reading.delta:g}. All numbers are upper bounds, rounded up; a dash: that "
        "accountant cannot handle these steps. Head and replay of a round use the same clients, so together they cost less "
        "than the sum."
    )


def _verdict(reading: Reading, replays: list[Costs]) -> None:
    if not reading.one_coin and reading.sampling != "everyone":
        privacy_bar.not_dp(
            "Not valid: a client is sampled for all statistics of a round at once, so they cannot be amplified separately."
        )
        return
    least = [one.least for one in replays]
    if all(one is None for one in least):
        st.warning("No accountant here handles sets of fixed size if neighbours differ in the number of clients.")
        return
    kept_claims = [f"{epsilon:g}" for epsilon, one in zip(TABLE_5, least, strict=True) if one is not None and one <= epsilon]
    listed = ", ".join(kept_claims)
    what = f"keeps the replay within the claimed ε = {listed}" if listed else "keeps none of the claims"
    open_head = "" if reading.head_multiplier is not None else " Without noise on the head, the model has no bound at all."
    st.markdown(f"**This reading {what}.**{open_head}")


def _readings(printed: Benchmark, delta: float) -> None:
    st.markdown("**Every reading, at the printed noise**")
    place = st.empty()
    st.caption(
        "Each cell: by Eq. 9 / by dp_accounting's conversion of the same divergences / by PLD. Unless stated otherwise: "
        "Poisson sampling of clients at rate 0.3, one client more or less, each statistic clipped to B. The last row counts "
        "replay and head; the others count the replay only, and without noise on the head the model has no bound."
    )
    cslr_readings.draw(place, printed, delta)


def _needed(reading: Reading) -> None:
    """Draws the noise that would satisfy the claims, searched on request: some seconds of accounting."""
    st.markdown("**How much noise would the claims need?**")
    st.caption("The smallest multiplier per statistic that keeps this reading within ε, for the replay only.")
    results = st.session_state.setdefault("list-needed", {})
    replay_only = replace(reading, head_multiplier=None)
    if st.button("Search", key="list-needed-search"):
        with st.spinner("Searching ..."):
            results[replay_only] = _searched(replay_only)
    if (multipliers := results.get(replay_only)) is None:
        return
    if isinstance(multipliers, str):
        st.error(plain(multipliers))
        return
    rows = (
        (f"{epsilon:g}", f"{TABLE_5[epsilon]:g}", f"**{value:,.4g}**", f"{value / TABLE_5[epsilon]:.1f}")
        for epsilon, value in multipliers.items()
    )
    layout.table(("claimed ε", "σ printed", "σ needed", "ratio"), rows, names=0)


def _searched(reading: Reading) -> dict[float, float] | str:
    from dpcl_core.privacy.cslr_accounting import multiplier_for

    which: Literal["pld", "rdp"] = "rdp" if reading.sampling == "fixed" else "pld"
    try:
        return {epsilon: multiplier_for(epsilon, reading, which) for epsilon in TABLE_5}
    except (BadInput, ValueError) as refused:  # Unaccountable: one sentence, too
        return str(refused)


def _local(reading: Reading) -> None:
    """Draws the local ε of one client against a server that sees its lists."""
    from dpcl_core.privacy.cslr_accounting import participations, per_client

    expected, most = participations(reading.n_rounds, reading.sample_rate)
    counts = dict.fromkeys(sorted({1, max(1, reading.n_rounds // 50), max(1, expected), max(1, most)}))
    remarks = {max(1, expected): ", expected here", max(1, most): ", exceeded once in a thousand"}
    kinds: tuple[Adjacency, ...] = ("add-remove", "replace")

    def cell(count: int, sigma: float) -> str:
        pair = (per_client(replace(reading, noise_multiplier=sigma, adjacency=kind), count).pld for kind in kinds)
        return " / ".join(map(cslr_readings.number, pair))

    rows = ((f"{n:,}{remarks.get(n, '')}", *(cell(n, sigma) for sigma in TABLE_5.values())) for n in counts)
    st.markdown("**A server that sees each client's own list**")
    titles = (f"σ = {sigma:g}" for sigma in TABLE_5.values())
    layout.table(("rounds in which the client takes part", *titles), rows, names=0)
    st.caption(
        "In the printed algorithm the server sees each client's lists, so protection against the server is local: nothing "
        "is averaged, and nothing is amplified, because the server knows the sender. ε by PLD if everything the client "
        "sends becomes zero / is replaced."
    )


CLAIM = Claim(TITLE, ABOUT, FIELDS, cslr_claim.PAPER, _lines, _body)
