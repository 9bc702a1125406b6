"""As printed, made to work or repaired: which of them a run is follows from its settings, and none can be left out."""

import json
import math
from dataclasses import asdict, replace
from pathlib import Path
from typing import Literal, get_args, get_origin, get_type_hints

import pytest
from pydantic import TypeAdapter, ValidationError

from dpcl_core import checks, events, export, presets, published
from dpcl_core.errors import BadInput
from dpcl_core.events import Guarantee
from dpcl_core.methods import catalog as methods
from dpcl_core.papers import claims
from dpcl_core.privacy import statement, text_mechanisms
from dpcl_core.published import Departure, Print, Printed
from dpcl_core.spec import DataSpec, RunSpec, fields_of, validated

TRAINS_NO_NETWORK = ("dp-coeff-memory", "independent-laplace")  # their features are a setting of their own
PRINTED = [card for card in methods.CARDS.values() if card.printed.kind != "added"]


def spec(**changed: object) -> RunSpec:
    return checks.parse({"method": "naive", "params": changed})


TOY = Print(
    "Doe 2020",
    {
        "params.epochs": Printed((40,), "Fewer take less time.", is_of_scale=True),
        "params.clip_norm": Printed((1.0, 2.0), "Other gradients are longer."),
        "params.learning_rate": Printed(lambda run: (0.1,) if run.method == "naive" else None, "Another step."),
        "privacy.epsilons": Printed((1.0, 8.0), "Another budget."),
        "scenario.clients": Printed((20,), "Other clients."),
    },
    {"params.lora_rank": "Its rank is not given.", "params.nothing": "There is no such setting."},
)


@pytest.mark.parametrize(("changed", "title", "words"), [
    ({}, "As printed", "As printed (Doe 2020)."),
    ({"epochs": 3}, "As printed but for epochs",
     "As printed (Doe 2020). On another scale: params.epochs = 3 (printed: 40)."),
    ({"epochs": 3, "clip_norm": 3.0}, "Differs from the paper in 1 setting and in epochs",
     "Made to work (Doe 2020): params.clip_norm = 3 (printed: 1 or 2). "
     "On another scale: params.epochs = 3 (printed: 40)."),
])
def test_a_layer_names_what_differs_with_both_values_and_counts_no_scale(changed, title, words):
    layer = TOY.layer(spec(learning_rate=0.1, **changed))
    assert (layer.source, layer.title, layer.words) == ("Doe 2020", title, words)
    assert layer.name == ("made to work" if "Differs" in title else "as printed")
    assert {one.parameter for one in layer.departures} == {f"params.{name}" for name in changed}
    assert [(one.parameter, one.here) for one in layer.left_open] == [("params.lora_rank", "4")]


def test_every_budget_of_a_run_has_to_be_printed() -> None:
    raw = {"method": "naive", "params": {"learning_rate": 0.1}, "privacy": {"epsilons": [1.0, math.inf]}}
    (found,) = TOY.layer(checks.parse(raw)).departures
    assert (found.parameter, found.printed, found.here) == ("privacy.epsilons", "1 or 8", "1, ∞")
    assert found.sentence == "privacy.epsilons = 1, ∞; printed: 1 or 8. Another budget."


def test_what_no_setting_undoes_is_never_as_printed_and_a_repair_never_anything_else() -> None:
    always = (Departure("", "the realised batch", "the expected batch", "It is private."),)
    assert Print("Doe 2020", always=always).layer(spec()).name == "made to work"
    assert Print("Doe 2020", kind="repair").layer(spec()).name == "repaired"
    repaired = Print("Doe 2020", kind="repair", always=always).layer(spec())
    assert repaired.title == "Repaired, differs from the paper in 1 setting"
    assert (published.ADDED.layer(spec()).name, published.ADDED.layer(spec()).title) == ("added", "Added")


@pytest.mark.parametrize("card", PRINTED, ids=lambda card: card.name)
def test_every_setting_of_a_papers_method_is_printed_or_said_to_be_left_open(card: methods.MethodCard) -> None:
    own = {f"params.{name}" for name in fields_of(card.params)}
    assert own == {name for name in (*card.printed.settings, *card.printed.left_open) if name.startswith("params.")}
    assert not set(card.printed.settings) & set(card.printed.left_open)


@pytest.mark.parametrize("card", PRINTED, ids=lambda card: card.name)
def test_any_setting_away_from_print_changes_the_layer_and_is_named(card: methods.MethodCard) -> None:
    base = checks.parse({"method": card.name, "scenario": {"kind": card.scenarios[0]}})
    for name, printed in card.printed.settings.items():
        if not name.startswith("params.") or callable(printed.values):
            continue
        field = name.removeprefix("params.")
        other = _another(card, field, printed.values)
        if other is None:  # the field allows nothing but what is printed
            continue
        layer = card.printed.layer(replace(base, params=replace(base.params, **{field: other})))
        assert [one.here for one in layer.departures if one.parameter == name] == [published.shown_value(other)]
        assert layer.name != "as printed" or printed.is_of_scale


def _another(card: methods.MethodCard, field: str, printed: published.Values) -> object | None:
    """A value that the field allows and the print does not; None where there is none."""
    hint = get_type_hints(card.params, include_extras=True)[field]
    tried: list[object] = [1, 3, 7, 0.123, 0.77, True, False, "", (1,), (2, 3)]
    for part in (hint, *get_args(hint)):
        if get_origin(part) is Literal:
            tried = [*get_args(part), *tried]
    reader: TypeAdapter[object] = TypeAdapter(hint)
    for value in tried:
        try:
            read = reader.validate_python(value, strict=True)
            validated(card.params, {field: read})
        except (ValidationError, BadInput):
            continue
        if read not in printed:
            return read
    return None


def test_presets_are_in_the_layer_that_their_settings_say() -> None:
    runs = presets.variants("paper-cslr-ag-news-small")
    names = {label: layer.name for label, run in runs.items() if (layer := methods.layer(run)) is not None}
    expected = {"cslr": "made to work", "server-head": "repaired", "private-head": "repaired", "class-means": "added"}
    assert names.items() >= expected.items()
    (digits,) = presets.variants("digits-cosine").values()
    layer = methods.layer(digits)
    assert (layer.name, "data.backbone = pixels" in layer.words) == ("as printed", True)


@pytest.mark.parametrize("method", ["cosine", "naive"])
def test_public_axes_are_named_where_the_network_has_some(method: str) -> None:
    cases = (("lite0", None, True), ("lite0", 64, True), ("lite0", 0, False), ("pixels", None, False))
    for backbone, axes, differs in cases:
        layer = layer_of(method, {}, data={"dataset": "cifar100", "backbone": backbone, "axes": axes})
        assert bool([one for one in layer.departures if one.parameter == "data.axes"]) is differs
        if method == "cosine":
            assert layer.name == ("made to work" if differs else "as printed")
    of_nobody = checks.parse({"method": "cosine", "data": {"dataset": "cifar100"}})
    gone = replace(of_nobody.data, backbone="gone")
    layer = methods.card("cosine").printed.layer(replace(of_nobody, data=gone))
    assert [one.parameter for one in layer.departures] == ["data.backbone"]


def test_lists_of_each_label_are_as_printed_where_a_task_has_one_label_alone() -> None:
    """Elsewhere nothing can be set that makes them so, and the layer says it."""
    names = {}
    for benchmark in ("ag-news", "ag-news-ovr", "amazon"):
        layer = methods.layer(presets.load(f"paper-cslr-{benchmark}-small"))
        names[benchmark] = "params.list_size" in [one.parameter for one in layer.departures]
    assert names == {"ag-news": False, "ag-news-ovr": True, "amazon": True}
    exact = methods.layer(presets.variants("paper-cslr-ag-news")["as-printed"])
    assert (exact.name, exact.departures) == ("as printed", ())


def test_a_guarantee_says_its_layer_and_survives_json() -> None:
    layer = TOY.layer(spec(learning_rate=0.1, epochs=3))
    given = Guarantee(1.0, 1e-5, "x", "y", "z", "s", 1.0, "release", (), (), (), {}, layer=layer)
    assert statement.guarantee_words(given).layer == layer.words
    done = events.CellFinished(events.Cell(1.0, 0), {}, given, 0.0)
    assert events.from_json(json.loads(json.dumps(events.to_json(done)))) == done


def test_the_list_of_methods_tells_what_is_printed() -> None:
    rows = {row["name"]: row for row in export.catalog_rows("methods")}
    told = rows["naive"]["printed"]
    card = methods.card("naive").printed
    assert (rows["naive"]["layer"], rows["label-means"]["layer"]) == (export.LAYERS["paper"], export.LAYERS["added"])
    assert told["always"] == [asdict(one) for one in card.always]
    json.dumps(told)


def test_whatever_a_layer_does_not_count_has_a_word_that_the_readme_and_the_legend_name() -> None:
    exempt = {name for card in PRINTED for name, one in card.printed.settings.items() if one.is_of_scale}
    assert exempt == published.EXEMPT.keys()
    assert not [one for card in PRINTED for one in card.printed.always if one.is_of_scale]
    readme = " ".join((Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8").split())
    assert f"A layer does not count differences of scale: {published.EXEMPTED}." in readme
    assert published.EXEMPTED in claims.MEANING["as printed"]


@pytest.mark.parametrize("card", PRINTED, ids=lambda card: card.name)
def test_network_delta_and_every_size_of_the_data_are_printed_or_said_to_be_left_open(card: methods.MethodCard) -> None:
    told = {*card.printed.settings, *card.printed.left_open}
    sizes = {f"data.{name}" for name in fields_of(DataSpec) if name.endswith(("_per_class", "_per_source"))}
    assert sizes | {"data.dataset"} <= told
    assert "data.backbone" in told or card.name in TRAINS_NO_NETWORK
    assert "privacy.delta" in told or card.printed.source == "Lai et al. 2022"  # which prints no δ


L2DP_AS_PRINTED = {
    "projection": "always", "scope": "joint", "recon_objective": "taylor1-linear", "label_objective": "eq-12",
    "encoder_weight": 1.0, "encoder_divisor": "none", "theta_norm": "columns", "first_layer": "plain",
    "output_norm_cap": 0.0, "output_noise": "shared",
}  # fmt: skip


def layer_of(method: str, params: dict[str, object], **more: object) -> published.Layer:
    return methods.layer(checks.parse({"method": method, "params": params, **more}))


def test_l2dp_ml_is_as_printed_under_ten_settings_and_each_of_them_counts() -> None:
    data = {"dataset": "mnist", "backbone": "pixels"}
    layer = layer_of("l2dp-ml", L2DP_AS_PRINTED, data=data)
    assert (layer.name, layer.departures) == ("as printed", ())
    assert {one.parameter for one in layer.left_open} >= {"params.encoder_share", "params.test_noise"}
    for name in L2DP_AS_PRINTED:
        layer = layer_of("l2dp-ml", {other: L2DP_AS_PRINTED[other] for other in L2DP_AS_PRINTED if other != name}, data=data)
        assert (layer.name, [one.parameter for one in layer.departures]) == ("made to work", [f"params.{name}"])


@pytest.mark.parametrize(("tasks", "named"), [(17, []), (4, ["scenario.tasks"])])
def test_fewer_tasks_than_printed_are_another_scale_and_repetitions_are_left_open(tasks: int, named: list[str]) -> None:
    data, scenario = {"dataset": "cifar10", "backbone": "pixels"}, {"kind": "permuted", "tasks": tasks}
    layer = layer_of("l2dp-ml", L2DP_AS_PRINTED, data=data, scenario=scenario)
    assert (layer.name, [one.parameter for one in layer.departures]) == ("as printed", named)
    assert "seeds" in {one.parameter for one in layer.left_open}


def test_pecl_is_as_printed_under_three_settings_on_another_scale() -> None:
    scenario, privacy = {"kind": "source-incremental"}, {"epsilons": [10.0], "delta": 1e-6}
    printed: dict[str, object] = {"score2_scope": "all", "learning_rate": 5e-4, "omega": "own"}

    def of(params: dict[str, object], **cap: int) -> published.Layer:
        data = {"dataset": "pecl-six", "backbone": "lm-tiny", **cap}
        return layer_of("pecl-published", params, scenario=scenario, privacy=privacy, data=data, labels="prior")

    for name in printed:
        layer = of({other: value for other, value in printed.items() if other != name})
        left = [one.parameter for one in layer.departures if not one.is_of_scale]
        assert (layer.name, left) == ("made to work", [f"params.{name}"])
    for cap, named in (({}, {"data.train_per_source"}), ({"train_per_source": 3000}, set()),
                       ({"train_per_class": 440}, {"data.train_per_class"})):  # fmt: skip
        layer = of(printed, **cap)
        assert layer.name == "as printed"
        assert {one.parameter for one in layer.departures} == {"data.dataset", "data.backbone"} | named
    assert "prompts and answers" in {one.parameter: one.why for one in layer.left_open}["params.embedding_clip"]


def test_fn_has_its_printed_noise_at_another_budget() -> None:
    """5.299 is printed for ε = 1; exact at the distance 2C it is the noise of ε = 1.6574."""
    params: dict[str, object] = {"mechanism": "fn", "budget_per": "token"}
    for epsilon, differs in ((1.0, True), (1.6574, False)):
        privacy = {"epsilons": [epsilon], "delta": 1e-6, "adjacency": "replace"}
        layer = layer_of("lm-seqft", params, privacy=privacy, scenario={"kind": "source-incremental"})
        assert any(one.parameter == "privacy.epsilons" for one in layer.departures) is differs
    assert text_mechanisms.ratio_for(1.6574, 1e-6) == pytest.approx(text_mechanisms.printed_ratio(1.0, 1e-6), rel=1e-4)
