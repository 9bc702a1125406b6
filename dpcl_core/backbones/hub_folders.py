"""Hub models that are folders: finds them in the user's folder or in the download cache, or downloads them. No torch."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from dpcl_core import paths
from dpcl_core.backbones.weights import FIELD, weights_dir, why_offline
from dpcl_core.errors import BadInput, DataMissing

_CONFIG = "config.json"
# Weights as safetensors only: files of the older kind can run code when they are opened.
_PATTERNS = ["*.json", "*.safetensors", "*.txt", "tokenizer.model"]


@dataclass(frozen=True, slots=True)
class HubFolders:
    """One kind of hub models.

    `prefix`: of their names in this project. `example`: one of these names. `files`: the files needed, in words. `marker`: a
    file that every model of the kind has, by which the download cache is searched.
    """

    prefix: str
    example: str
    files: str
    marker: str = _CONFIG

    def local(self, model: str) -> Path | None:
        """The folder OWNER--NAME of a model inside the folder `DPCL_WEIGHTS`, if it exists."""
        parent = weights_dir()
        place = paths.inside(parent, model.replace("/", "--"), FIELD) if parent else None
        return place if place and (place / _CONFIG).is_file() else None

    def cached(self, model: str) -> Path | None:
        """The model's folder in the download cache, if it is there."""
        from huggingface_hub import try_to_load_from_cache  # takes a moment to import, and only models of the hub need it

        cached = try_to_load_from_cache(model, self.marker)
        return Path(cached).parent if isinstance(cached, str) else None

    def missing(self, model: str) -> str | None:
        """The instruction which files to put where; None if the model is on this computer or the hub answers."""
        why = None if self.local(model) or self.cached(model) else why_offline()
        return self.wish(model, why) if why else None

    def wish(self, model: str, reason: str) -> str:
        """The instruction which files to put where, so that `local` finds them."""
        place = os.environ.get("DPCL_WEIGHTS") or "a folder, and name that folder in DPCL_WEIGHTS"
        return (
            f"put a folder {model.replace('/', '--')} with its {self.files} into {place}; "
            f"the model is not on this computer, and {reason}"
        )

    def fetched(self, model: str, shown: str) -> Path:
        """The model's folder in the download cache, completed from the hub while it answers; `shown`: name in messages.

        Raises BadInput for a model unknown to the hub, DataMissing with the files to add where it is unavailable.
        """
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import RepositoryNotFoundError

        why = why_offline()
        try:
            return Path(snapshot_download(model, allow_patterns=_PATTERNS, local_files_only=why is not None))
        except RepositoryNotFoundError as error:
            allowed = f"must be the name of a model on the Hugging Face hub that anybody may read, such as {self.example}"
            raise BadInput(FIELD, shown, allowed) from error
        except Exception as error:  # the hub's client raises many kinds of error, all with the same meaning for the user
            reason = why or f"the Hugging Face hub did not give it ({type(error).__name__})"
            raise DataMissing(FIELD, shown, self.wish(model, reason)) from error
