"""Base of what is read from files and written to them: cards, lessons, presets, records."""

from pydantic import BaseModel, ConfigDict


class Document(BaseModel):
    """A frozen table without unknown fields; infinity survives a JSON round trip."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="strings", validate_default=True)
