"""The child objects of a Collection, as plain JSON."""

from __future__ import annotations

from typing import Any

from seamark_operator.api import constants as k
from seamark_operator.api.meta import ObjectMeta
from seamark_operator.ports import Object
from seamark_operator.specs import names


def owner_reference(kind: str, metadata: ObjectMeta) -> dict[str, Any]:
    return {
        "apiVersion": k.API_VERSION,
        "kind": kind,
        "name": metadata.name,
        "uid": metadata.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def labels(collection: str, rendition: str) -> dict[str, str]:
    """What every child carries; `rendition` is the Rendition object's name."""
    return {k.LABEL_COLLECTION: collection, k.LABEL_RENDITION: rendition}


def rendition(collection: ObjectMeta, name: str, definition_hash: str, document: str) -> Object:
    object_name = names.rendition_object(collection.name, name)
    return {
        "apiVersion": k.API_VERSION,
        "kind": k.RENDITION,
        "metadata": {
            "name": object_name,
            "namespace": collection.namespace,
            "labels": labels(collection.name, object_name),
            "ownerReferences": [owner_reference(k.COLLECTION, collection)],
        },
        "spec": {
            "collectionRef": {"name": collection.name},
            "ordinal": names.ordinal(name),
            "definitionHash": definition_hash,
            "definition": document,
        },
    }


def shard(collection: str, parent: ObjectMeta, name: str, index: int) -> Object:
    return {
        "apiVersion": k.API_VERSION,
        "kind": k.SHARD,
        "metadata": {
            "name": names.shard_object(collection, name, index),
            "namespace": parent.namespace,
            "labels": labels(collection, parent.name),
            "ownerReferences": [owner_reference(k.RENDITION, parent)],
        },
        "spec": {
            "collectionRef": {"name": collection},
            "renditionRef": {"name": parent.name},
            "index": index,
        },
    }
