"""The settings of a model, read from its JSON schema; widgets and link are made from the same list."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Literal, cast

from pydantic import BaseModel

from pages.parts.shell import link
from pages.parts.shell.text import capital

Sort = Literal["whole", "number", "choice", "flag", "text", "texts", "wholes"]
Schema = dict[str, object]
_MOST = 10**6


_OPTIONS = {  # the names of options that do not read as words
    "dp-sgd": "DP-SGD", "fn": "noisy embeddings (FN)", "npo": "negative preference (NPO)", "ot": "optimal transport",
    "hungarian": "Hungarian assignment", "pca-mean": "means on public axes", "mean": "means", "target": "anchor targets",
    "film": "FiLM", "lora": "LoRA", "head": "last layer only", "argmax": "largest score (ArgMax)",
    "cnn-32": "CNN, 32 channels", "cnn-64": "CNN, 64 channels", "cnn-128": "CNN, 128 channels", "bilstm": "BiLSTM",
    "cnn-ig": "CNN-Ig", "cnn-ig-featureless": "CNN-Ig without statistics", "taylor1-abs": "first-order Taylor, absolute",
    "taylor1-linear": "first-order Taylor, linear", "taylor2": "second-order Taylor", "eq-12": "Eq. 12, as printed",
    "lifelong": "that of the other methods",
}  # fmt: skip


@dataclass(frozen=True)
class Setting:
    """One setting of a card: `low` and `high` are allowed bounds (None: unbounded), `is_optional`: may be left empty."""

    name: str
    title: str
    help: str
    sort: Sort
    default: object
    low: float | None = None
    high: float | None = None
    options: tuple[str, ...] = ()
    is_optional: bool = False

    def kind(self) -> link.Kind[object]:
        """The codec kind of the setting in a link."""
        kinds: dict[Sort, object] = {
            "whole": link.Whole(int(self.low or 0), int(self.high if self.high is not None else _MOST)),
            "number": link.Number(
                -link.UNBOUNDED if self.low is None else self.low, link.UNBOUNDED if self.high is None else self.high
            ),
            "choice": link.Choice(self.options),
            "flag": link.Flag(),
            "text": link.Text(),
            "texts": link.Many(link.Text(60)),
            "wholes": link.Many(link.Whole(-_MOST, _MOST), 1000),
        }
        kind = cast("link.Kind[object]", kinds[self.sort])
        return link.Maybe(kind) if self.is_optional else kind

    def shown(self, value: object) -> str:
        """A value of the setting in words."""
        match self.sort:
            case "choice":
                return f"“{option_title(str(value))}”"
            case "flag":
                return "on" if value else "off"
            case "texts" | "wholes":
                return ", ".join(map(str, cast("tuple[object, ...]", value)))
            case "number":
                return f"{value:g}"
        return str(value)


@cache
def settings(model: type[BaseModel], leave_out: tuple[str, ...] = ()) -> tuple[Setting, ...]:
    """The settings of a model in its own order. Raises TypeError for a field that no widget can show."""
    schema = model.model_json_schema()
    shared = cast("dict[str, Schema]", schema.get("$defs", {}))
    fields = cast("dict[str, Schema]", schema.get("properties", {}))
    return tuple(_setting(name, field, shared) for name, field in fields.items() if name not in leave_out)


def option_title(option: str) -> str:
    """An option of a setting in words."""
    return capital(_OPTIONS.get(option, option.replace("-", " ")))


def _setting(name: str, field: Schema, shared: dict[str, Schema]) -> Setting:
    branches = cast("list[Schema]", field.get("anyOf", [field]))
    main = next(branch for branch in branches if branch.get("type") != "null")
    if "$ref" in main:
        main = {**shared[str(main["$ref"]).rpartition("/")[2]], **{k: v for k, v in main.items() if k != "$ref"}}
    low = main.get("minimum", main.get("exclusiveMinimum"))
    high = main.get("maximum", main.get("exclusiveMaximum"))
    return Setting(
        name, _title(name, field), str(field.get("description", "")), _sort(name, main), field.get("default"),
        low=cast("float | None", low), high=cast("float | None", high),
        options=tuple(cast("list[str]", main.get("enum", []))), is_optional=len(branches) > 1,
    )  # fmt: skip


def _title(name: str, field: Schema) -> str:
    """The setting's title in the model, else its name."""
    words = name.replace("_", " ")
    given = str(field.get("title", words.title()))
    return words.capitalize() if given == words.title() else given


def _sort(name: str, schema: Schema) -> Sort:
    if "enum" in schema:
        return "choice"
    if cast("Schema", schema.get("items", {})).get("type") == "integer":
        return "wholes"
    sorts: dict[object, Sort] = {
        "integer": "whole",
        "number": "number",
        "boolean": "flag",
        "string": "text",
        "array": "texts",
    }
    if schema.get("type") not in sorts:
        raise TypeError(f"no widget for the setting {name}: {schema}")
    return sorts[schema["type"]]
