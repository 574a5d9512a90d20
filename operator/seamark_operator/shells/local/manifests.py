"""Reads manifests as users write them: files and folders of YAML, with paths relative to where they stand."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from seamark.errors import InvalidDefinition, NotFound
from seamark_operator.api import constants as k
from seamark_operator.ports import Object


def read_manifests(paths: list[Path]) -> Iterator[Object]:
    """Every object of the files and of the folders' *.yaml, *.yml and *.json, in order."""
    for path in paths:
        for file in _files(path):
            try:
                documents = list(yaml.safe_load_all(file.read_text()))
            except yaml.YAMLError as error:
                raise InvalidDefinition(f"{file} is not YAML: {error}") from error
            for number, document in enumerate(documents, 1):
                if document is None:
                    continue
                if not isinstance(document, dict):
                    raise InvalidDefinition(f"{file}, document {number}: expected an object, found {document!r}")
                yield resolve_paths(document, file.resolve().parent)


def resolve_paths(manifest: Object, folder: Path) -> Object:
    """A path or `disk:` URL that begins with ./ or ../ is meant from the manifest's folder."""
    spec = manifest.get("spec")
    if not isinstance(spec, dict):
        return manifest
    if manifest.get("kind") in (k.STORAGE_LOCATION, k.CHECKPOINT_STORE):
        url = spec.get("url")
        if isinstance(url, str) and url.startswith("disk:"):
            return {**manifest, "spec": {**spec, "url": "disk:" + _resolved(url.removeprefix("disk:"), folder)}}
    files: Any = spec.get("source", {}).get("files") if isinstance(spec.get("source"), dict) else None
    if manifest.get("kind") == k.COLLECTION and isinstance(files, dict) and isinstance(files.get("path"), str):
        source = {**spec["source"], "files": {**files, "path": _resolved(files["path"], folder)}}
        return {**manifest, "spec": {**spec, "source": source}}
    return manifest


def _resolved(path: str, folder: Path) -> str:
    return str((folder / path).resolve()) if path.startswith(("./", "../")) or path == "." else path


def _files(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise NotFound(f"no file or folder {path}; give the path of a manifest or of a folder of manifests")
    found = sorted(file for file in path.iterdir() if file.suffix in (".yaml", ".yml", ".json"))
    if not found:
        raise NotFound(f"folder {path} has no .yaml, .yml or .json file; give the path of a manifest")
    return found
