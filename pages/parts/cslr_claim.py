"""The privacy claim of CSLR: claimed ε, the accounted ε of every reading of its text, and attacks to run."""

import math
from dataclasses import replace
from typing import Any, Literal, cast

import streamlit as st

from dpcl_core.attacks import cslr_games
from dpcl_core.errors import BadInput
from dpcl_core.events import Claim, Guarantee
from dpcl_core.figures.picture import epsilon_text
from dpcl_core.privacy import cslr_accounting, statement
from dpcl_core.privacy.audit_bounds import Audited, bound_of_counts
from dpcl_core.privacy.cslr_accounting import TABLE_5, Benchmark, Reading, Sampling, costs
from dpcl_core.spec import Adjacency
from pages.parts import fields, layout, link, pecl_claim, state
from pages.parts.claim_calculator import TRIALS, ClaimSection, attacks, bound, rounded_down
from pages.parts.text import WORDS, capital, plain

ACCOUNTANTS = {"eq_9": "Eq. 9, the paper's own", "rdp": "RDP, by dp_accounting", "pld": "**PLD, used here**"}

BENCHMARKS = {
    "ag-news": "Split-AG-News", "amazon": "Split-Amazon", "ontonotes": "OntoNotes-Domain", "multiwoz": "MultiWOZ-Intent",
}  # fmt: skip
SAMPLING = WORDS["cslr_sampling"]
CLIPPING = WORDS["cslr_clipping"]
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
    link.Field("r_claim", "rx", "claim that is attacked", link.Number(1.0, 8.0), 4.0),
]
TITLE = "Claimed, accounted, audited: noise on replayed lists (CSLR)"
ABOUT = WORDS["cslr_claim"]["about"].format(*TABLE_5, *TABLE_5.values())


def _body(view: state.View, given: Guarantee | None) -> None:
    left, right = st.columns(2)
    with left, layout.card("list-reading"):
        printed, reading = _controls(view)
    with right:
        with layout.card("list-costs", "**Claimed and computed, for this reading**"):
            _costs(reading)
        with layout.card("list-needed", "**How much noise would the claims need?**"):
            _needed(reading)
    readings = layout.card("list-readings")
    left, right = st.columns(2)
    with left, layout.card("list-audits", "**Attack it**"):
        _attacks(view, reading)
    with right, layout.card("list-local", "**A server that sees each client's own list**"):
        _local(reading)
    with readings:  # drawn last, because the first time takes seconds
        st.markdown("**Every reading, at the printed noise**")
        place = st.empty()
        st.caption(WORDS["cslr_claim"]["readings"])
        rows: list[tuple[str, ...]] = []
        for row in cslr_accounting.rows(printed.n_clients, printed.n_tasks, reading.delta).values():
            costs_by_claim = [costs(row.of(sigma)) for sigma in TABLE_5.values()]
            line = (row.name, *(f"{_number(one.eq_9)} / {_number(one.rdp)} / {_number(one.pld)}" for one in costs_by_claim))
            rows.append(tuple(f"**{cell}**" for cell in line) if row.is_as_printed else line)
            with place:  # all rows take seconds, so each is shown as soon as it is computed
                layout.draw_table(("reading; claims not verified", *_titles()), rows)


def _lines(given: Guarantee, claimed: Claim) -> tuple[dict[str, str], str]:
    """A run's claimed ε, the computed cost of its noise, and replay, head and total of its ledger."""
    rows = {f"**claimed**, replay alone ({plain(claimed.source)}, not verified)": statement.shown_number(claimed.epsilon)}
    computed = {name: value for name, value in claimed.numbers.items() if name.startswith("computed")}
    rows |= {plain(name): statement.shown_number(value) for name, value in computed.items()}
    channels = [name for name in ("replay release", "head") if name in given.parts]
    rows |= {f"**accounted**: {name}": bound(given.parts[name]) for name in channels}
    rows["**accounted**: replay and head together"] = bound(given.epsilon)
    rest = " · ".join(f"{name} = {value:g}" for name, value in claimed.numbers.items() if name not in computed)
    return rows, f"Computed for {rest}, granting the printed sensitivity."


def _controls(view: state.View) -> tuple[Benchmark, Reading]:
    """Draws the controls; returns the benchmark and the reading, with the noise printed for the middle claim."""
    st.markdown("**What is released, and how?** Details that the text leaves open, with our defaults")
    known = {name: cslr_accounting.BENCHMARKS[title] for name, title in BENCHMARKS.items()}
    titles = {name: f"{BENCHMARKS[name]}: {one.n_clients} clients, {one.n_tasks} tasks" for name, one in known.items()}
    benchmark = fields.select(view, "r_benchmark", "Benchmark", titles)
    printed = known[benchmark]
    usual = cslr_accounting.ROUNDS_PER_TASK * printed.n_tasks
    with st.container(horizontal=True, gap="small"):
        rounds = fields.whole(view, "r_rounds", "rounds in all", usual=usual, of=benchmark)
        statistics = fields.whole(view, "r_statistics", "statistics a round")
        clients = fields.whole(view, "r_clients", "clients, N", usual=printed.n_clients, of=benchmark)
    sampling = fields.select(view, "r_sampling", "Clients of a round", SAMPLING)
    rate = 1.0 if sampling == "everyone" else fields.share(view, "r_rate", "share of clients a round, q", 0.01, 0.01)
    adjacency = fields.select(view, "r_adjacency", "Neighbouring data differ by", ADJACENCIES)
    clipping = fields.select(view, "r_clipping", "Clipped to B is", CLIPPING)
    groups = view["r_groups"]
    if clipping != "joint":
        groups = fields.whole(view, "r_groups", "K groups" if clipping == "mode" else "L entries")
    coin = fields.flag(view, "r_coin", "All statistics of a round come from the same clients: amplified once")
    with_list = fields.flag(view, "r_list", "The clients' own lists are released too, at the same noise")
    label = "The head's updates get noise, in the same rounds"
    is_noisy = st.toggle(label, view["r_head"] is not None, key=view.key("r_head"))
    title = "noise std divided by the updates' clipping norm"
    head = view.keep("r_head", fields.number(view, "r_head", title, start=4.71, width=260) if is_noisy else None)
    return printed, Reading(
        noise_multiplier=TABLE_5[4.0], n_rounds=rounds, n_statistics=statistics, sampling=cast("Sampling", sampling),
        sample_rate=rate, n_clients=clients, adjacency=cast(Adjacency, adjacency),
        sensitivity={"joint": 1.0, "mode": math.sqrt(groups), "entry": float(groups)}[clipping], one_coin=coin,
        with_list=with_list, head_multiplier=head, delta=fields.delta(view, "r_delta"),
    )  # fmt: skip


def _costs(reading: Reading) -> None:
    """Draws claimed and computed ε of this reading at the three printed noises: replay, head, and both together."""
    at_each_noise = [replace(reading, noise_multiplier=sigma) for sigma in TABLE_5.values()]
    replays = [costs(replace(one, head_multiplier=None)) for one in at_each_noise]
    alone = together = ["no bound"] * len(TABLE_5)
    if reading.head_multiplier is not None:
        only_head = replace(
            reading, noise_multiplier=reading.head_multiplier, n_statistics=1, sensitivity=1.0, with_list=False,
            head_multiplier=None,
        )  # fmt: skip
        alone = [_number(costs(only_head).least)] * len(TABLE_5)
        together = [_number(costs(one).least) for one in at_each_noise]
    rows = {name: [_number(getattr(one, which)) for one in replays] for which, name in ACCOUNTANTS.items()} | {
        "**head alone**": alone,
        "**replay and head together**": together,
    }
    layout.draw_table(("computed ε; claims not verified", *_titles()), ((name, *cells) for name, cells in rows.items()))
    share = reading.sensitivity * math.sqrt(reading.n_statistics * (2 if reading.with_list else 1))
    drawn = {
        "poisson": f"amplified by Poisson sampling at rate {reading.sample_rate:g}",
        "fixed": f"amplified by sampling {reading.n_sampled} of {reading.n_clients} clients",
        "everyone": "not amplified",
    }[reading.sampling]
    st.caption(WORDS["cslr_claim"]["costs"].format(reading=reading, share=share, drawn=drawn))
    if not reading.one_coin and reading.sampling != "everyone":
        pecl_claim.not_dp(
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


def _needed(reading: Reading) -> None:
    """Draws the noise that would satisfy the claims, searched on request: some seconds of accounting."""
    st.caption("The smallest multiplier per statistic that keeps this reading within ε, for the replay only.")
    results = st.session_state.setdefault("list-needed", {})
    replay_only = replace(reading, head_multiplier=None)
    if st.button("Search", key="list-needed-search"):
        which: Literal["pld", "rdp"] = "rdp" if reading.sampling == "fixed" else "pld"
        with st.spinner("Searching ..."):
            try:
                found = {epsilon: cslr_accounting.multiplier_for(epsilon, replay_only, which) for epsilon in TABLE_5}
                results[replay_only] = found
            except (BadInput, ValueError) as refused:  # Unaccountable: one sentence, too
                results[replay_only] = str(refused)
    if (multipliers := results.get(replay_only)) is None:
        return
    if isinstance(multipliers, str):
        st.error(plain(multipliers))
        return
    rows = (
        (f"{epsilon:g}", f"{TABLE_5[epsilon]:g}", f"**{value:,.4g}**", f"{value / TABLE_5[epsilon]:.1f}")
        for epsilon, value in multipliers.items()
    )
    layout.draw_table(("claimed ε", "σ printed", "σ needed", "ratio"), rows, names=0)


def _local(reading: Reading) -> None:
    """Draws the local ε of one client against a server that sees its lists."""
    per_client = cslr_accounting.per_client
    expected, most = cslr_accounting.participations(reading.n_rounds, reading.sample_rate)
    counts = dict.fromkeys(sorted({1, max(1, reading.n_rounds // 50), max(1, expected), max(1, most)}))
    remarks = {max(1, expected): ", expected here", max(1, most): ", exceeded once in a thousand"}
    kinds: tuple[Adjacency, ...] = ("add-remove", "replace")

    def cell(count: int, sigma: float) -> str:
        pair = (per_client(replace(reading, noise_multiplier=sigma, adjacency=kind), count).pld for kind in kinds)
        return " / ".join(map(_number, pair))

    rows = ((f"{n:,}{remarks.get(n, '')}", *(cell(n, sigma) for sigma in TABLE_5.values())) for n in counts)
    titles = (f"σ = {sigma:g}" for sigma in TABLE_5.values())
    layout.draw_table(("rounds in which the client takes part", *titles), rows, names=0)
    st.caption(WORDS["cslr_claim"]["local"])


CLAIM = ClaimSection(TITLE, ABOUT, FIELDS, cslr_accounting.PAPER, _lines, _body)


def _titles() -> list[str]:
    """A column title for each claim."""
    return [f"claimed {epsilon:g}: σ = {sigma:g}" for epsilon, sigma in TABLE_5.items()]


def _number(epsilon: float | None) -> str:
    """ε with three digits, rounded up; a dash for None."""
    return "–" if epsilon is None else statement.shown_number(epsilon)


def _attacks(view: state.View, reading: Reading) -> None:
    """Draws the choice of a claim and its attacks."""
    titles = {epsilon: f"ε = {epsilon_text(epsilon)}, σ = {sigma:g}" for epsilon, sigma in TABLE_5.items()}
    start = None if view["r_claim"] in TABLE_5 else 4.0
    claimed = fields.segmented(view, "r_claim", "Claim that is attacked, not verified", titles, start=start)
    setting = cslr_games.Setting(
        claimed, TABLE_5[claimed] / reading.sensitivity, reading.n_rounds, reading.sample_rate, reading.delta,
        n_statistics=reading.n_statistics * (2 if reading.with_list else 1),
    )  # fmt: skip
    st.caption(WORDS["cslr_claim"]["attacks"])
    # The attack on lists needs a run whose clients add noise; its cost is on the card about local privacy.
    games = {name: attack for name, attack in cslr_games.ATTACKS.items() if name != "lists"}

    def remark(name: str, result: Audited) -> str:
        said = result.attack.removeprefix(games[name].attack).removeprefix("; ")
        return f" {capital(said)}." if said else ""

    attacks(
        games, lambda name: cslr_games.audited(setting, name, TRIALS), setting, key="list-audit", more=remark,
        than=lambda result: f"the claimed {result.claimed:g}",
    )  # fmt: skip
    most = {n: rounded_down(bound_of_counts(n, n, 0, n, reading.delta)) for n in (TRIALS, 10 * TRIALS, 100)}
    st.caption(
        f"Without any error, {TRIALS:,} releases per side prove at most {most[TRIALS]:.2f}, {10 * TRIALS:,} at most "
        f"{most[10 * TRIALS]:.2f} and 100 at most {most[100]:.2f}: the number of rounds is the limit, not the attack."
    )
