"""Every word of the API that more than one module must spell alike."""

from __future__ import annotations

GROUP = "seamark.io"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"

STORAGE_LOCATION = "StorageLocation"
CHECKPOINT_STORE = "CheckpointStore"
COLLECTION = "Collection"
RENDITION = "Rendition"
SHARD = "Shard"
READ_HOLD = "ReadHold"

KINDS = (STORAGE_LOCATION, CHECKPOINT_STORE, COLLECTION, RENDITION, SHARD, READ_HOLD)
PLURALS = {
    STORAGE_LOCATION: "storagelocations",
    CHECKPOINT_STORE: "checkpointstores",
    COLLECTION: "collections",
    RENDITION: "renditions",
    SHARD: "shards",
    READ_HOLD: "readholds",
}

FINALIZER = f"{GROUP}/operator"

LABEL_COLLECTION = f"{GROUP}/collection"
LABEL_RENDITION = f"{GROUP}/rendition"
LABEL_RUN_KIND = f"{GROUP}/run-kind"
LABEL_ATTEMPT = f"{GROUP}/attempt"

ANNOTATION_PAUSED = f"{GROUP}/paused"
ANNOTATION_HANDOVER = f"{GROUP}/handover"

HOLD_PREFIX = "readhold/"
RETENTION_HOLD = "retention"


class Conditions:
    """The types of condition."""

    READY = "Ready"
    RECONCILED = "Reconciled"
    REBUILDING = "Rebuilding"
    REBUILD_FAILED = "RebuildFailed"
    INGEST_FAILING = "IngestFailing"
    PAUSED = "ReconciliationPaused"
    ABANDONED = "Abandoned"


class Reasons:
    """The reasons given in conditions and events."""

    READABLE = "Readable"
    HYDRATING = "Hydrating"
    INVALID_DEFINITION = "InvalidDefinition"
    INVALID_SPEC = "InvalidSpec"
    LOCATION_NOT_FOUND = "LocationNotFound"
    CHECKPOINT_STORE_NOT_FOUND = "CheckpointStoreNotFound"
    NAME_TAKEN = "NameTaken"
    NOT_CREATED = "NotCreated"
    DELETING = "Deleting"
    PAUSED = "Paused"
    SUCCEEDED = "Succeeded"
    INTERNAL_ERROR = "InternalError"
    LOCKED = "Locked"

    AWAITING_CATCH_UP = "AwaitingCatchUp"
    AWAITING_APPROVAL = "AwaitingApproval"
    HANDING_OVER = "HandingOver"
    HANDED_OVER = "HandedOver"

    RETRYING = "Retrying"
    RUN_FAILED = "RunFailed"
    RUN_LAUNCHED = "RunLaunched"
    PENDING_TOO_LONG = "PendingTooLong"

    RENDITION_ADDED = "RenditionAdded"
    ABANDONING = "Abandoning"
    SUPERSEDED = "Superseded"
    HYDRATION_DEADLINE = "HydrationDeadlineExceeded"
    CONDEMNING = "Condemning"
    SWEEPING = "Sweeping"
    COLLECTED = "Collected"

    COLLECTION_NOT_FOUND = "CollectionNotFound"
    HELD = "Held"
    NOT_READABLE = "NotReadable"
    STALE_HOLD = "StaleHoldReleased"

    AVAILABLE = "Available"
