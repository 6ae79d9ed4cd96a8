"""From what a person names (a Hub id, a folder, a GGUF file) to a folder that transformers can load."""

from __future__ import annotations

import hashlib
import json
import re
from contextlib import suppress
from pathlib import Path

from specviz.errors import UserError
from specviz.models import store
from specviz.models.fetch import converted_folder, folder_name, sha256_of
from specviz.models.registry import PAIRS, WheelModel
from specviz.models.store import Progress, silent

HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
WANTED = ["*.json", "*.safetensors", "*.jinja", "*.model", "*.txt"]
PEEK = 2**20


def find(source: str | WheelModel, progress: Progress = silent) -> Path:
    """The folder with the model's config, safetensors and tokenizer; fetched or converted if need be.

    Raises UserError that says what is missing.
    """
    if isinstance(source, WheelModel):
        return converted_folder(source, progress)
    try:
        path = Path(source).expanduser()
        is_folder = path.is_dir()
    except (OSError, RuntimeError) as error:  # a name too long, a user who is not there
        raise UserError(f"There can be no model at {source[:80]!r}: {_reason(error)}. Check the path.") from None
    if path.suffix == ".gguf":
        return _from_gguf(path, progress)
    if is_folder:
        return _complete(path)
    if HUB_ID.fullmatch(source):
        return _complete(_from_hub(source, progress))
    if path.is_absolute() or source.startswith((".", "~")):
        raise UserError(f"There is no folder {path}. Name a Hugging Face folder, a .gguf file or a Hub id.")
    raise UserError(
        f"There is no model named {source!r}. Known pairs: {', '.join(PAIRS)}; "
        "or name a Hub id (owner/name), a local folder or a .gguf file."
    )


def title(source: str | WheelModel) -> str:
    """What to call a source that was found."""
    if isinstance(source, WheelModel):
        return source.title
    return source if HUB_ID.fullmatch(source) and not Path(source).exists() else Path(source).expanduser().stem


def fingerprint(folder: Path) -> str:
    """Tells weights apart: the hash of the GGUF they came from, or of all configs, sizes and tensor headers."""
    with suppress(OSError, ValueError, KeyError, TypeError):  # not there, or not written by us
        return str(json.loads((folder / "specviz.json").read_text(encoding="utf-8"))["sha256"])[:16]
    digest = hashlib.sha256((folder / "config.json").read_bytes())
    for weights in sorted(folder.glob("*.safetensors")):
        digest.update(f"{weights.name} {weights.stat().st_size}".encode())
        with weights.open("rb") as file:
            digest.update(file.read(PEEK))
    return digest.hexdigest()[:16]


def _from_gguf(path: Path, progress: Progress) -> Path:
    if not path.is_file():
        raise UserError(f"There is no file {path}. Check the path of the .gguf file.")
    progress(f"Checking {path.name}", 0.0)
    digest = sha256_of(path)
    folder = store.root() / "models" / folder_name(path, digest)
    if folder.exists():
        return folder
    from specviz.models.convert import convert

    return store.build_once(folder, lambda part: convert(path.resolve(), digest, part, progress))


def _from_hub(name: str, progress: Progress) -> Path:
    from huggingface_hub import constants, snapshot_download
    from huggingface_hub.errors import GatedRepoError, HfHubHTTPError, HFValidationError, RepositoryNotFoundError

    progress(f"Looking up {name}", 0.0)
    try:
        with store.disk_errors_in_words(Path(constants.HF_HUB_CACHE), "HF_HOME"):
            return Path(snapshot_download(name, allow_patterns=WANTED))
    except HFValidationError:
        raise UserError(f"{name[:80]} is no name that the Hub allows. Check it, or name a local folder.") from None
    except GatedRepoError:
        raise UserError(f"{name} asks for consent: accept its licence on the Hub and run `hf auth login`.") from None
    except RepositoryNotFoundError:
        raise UserError(f"The Hub has no public model {name}. Check the name, or log in if it is private.") from None
    except (HfHubHTTPError, OSError) as error:  # with no network the Hub's library ends in one of these
        raise UserError(
            f"{name} is not on this machine and the Hub cannot be reached. Connect to the network, "
            "or name a local folder or .gguf file instead."
        ) from error


def _reason(error: Exception) -> str:
    return (getattr(error, "strerror", None) or str(error)).rstrip(".")


def _complete(folder: Path) -> Path:
    if not (folder / "config.json").is_file():
        raise UserError(f"{folder} holds no config.json, so it is not a Hugging Face model folder.")
    if not any(folder.glob("*.safetensors")):
        raise UserError(f"{folder} holds no .safetensors weights; other formats can run code and are not opened.")
    return folder
