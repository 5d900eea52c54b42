"""Array writer: commits the output of an asset to the array table of its group.

1. A dataset is written in a session of its own, which is committed with the txn of the run. A rerun
   that finds the txn writes nothing.
2. A session that another run has overtaken, because that run has created the arrays or made them
   longer, is written once more on the latest version. A chunk that both have written is an error:
   two runs have written one partition.
3. An asset that writes in parallel steps returns a `DeltaStore` of their session.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import dagster as dg

from delta_ops.arrays import DeltaStore, create_array_table, place_of
from delta_ops.error_texts import class_name
from delta_ops.errors import (
    ChunkConflictError,
    DeltaOpsError,
    InvalidRequestError,
    SessionEndedError,
    TableExistsError,
)
from delta_ops.log import DeltaLog, Snapshot
from delta_ops.orchestration import dagster_compat as compat
from delta_ops.orchestration.arrays.array_settings import ArraySettings
from delta_ops.orchestration.arrays.chunk_sizes import add_encodings
from delta_ops.orchestration.arrays.partition_labels import PartitionedLabels
from delta_ops.orchestration.arrays.region_writer import (
    RegionWriter,
    free_strings,
    open_dataset,
    write_to,
)
from delta_ops.orchestration.arrays.stored_variables import check_values, validate_times
from delta_ops.orchestration.io_manager.output_txns import step_output, user_metadata, write_txns
from delta_ops.transaction import CommitResult, Txn
from delta_ops.transaction.idempotency import result_if_done

_MOST_ATTEMPTS = 20
"""Sessions that one output may begin; each failure means that another run was committed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenArrays:
    """The commit of an output, and its chunks."""

    version: int | None
    """The version with the arrays; None if they were there already."""
    is_adopted: bool = False
    """Whether this run, or a run that it continues, had committed the output before."""
    changed_chunks: tuple[int, int] | None = None
    """Number of chunks with other bytes than before, and their bytes; None if unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayWriter:
    """Writes an output of a step to its table."""

    context: dg.OutputContext
    settings: ArraySettings
    log: DeltaLog

    def write(self, value: Any) -> WrittenArrays:
        """Commit a dataset, or the session of a store.

        Raises:
            InvalidRequestError: The value is of another type, or does not fit the partitions or the
                arrays of the table.
            ChunkConflictError: Another run has written the same chunks meanwhile.
        """
        output = step_output(self.context)
        txns = write_txns(output, lambda: self.log, "run", is_repeatable=True)
        done = result_if_done(self.log, self.log.snapshot_if_exists(), txns)
        if isinstance(value, DeltaStore | Snapshot | DeltaLog):
            self._validate_is_own(value)
            if isinstance(value, DeltaStore) and value.session is not None:
                return self._commit_store(value, txns, done)
            return WrittenArrays(version=None)  # the asset has committed by itself
        if not _is_dataset(value):
            raise InvalidRequestError(
                f"asset {self._asset} returned a {class_name(type(value))}; return an "
                "xarray.Dataset, or a DeltaStore with a session of the table. Nothing was written"
            )
        if done is not None:
            return WrittenArrays(version=done.version, is_adopted=True)
        with suppress(TableExistsError):
            if not self.log.exists():
                create_array_table(self.log)
        for attempt in range(1, _MOST_ATTEMPTS + 1):
            try:
                return self._write_dataset(value, txns)
            except ChunkConflictError as error:
                is_about_metadata = any(place_of(key).kind == "metadata" for key in error.keys)
                if not is_about_metadata or attempt == _MOST_ATTEMPTS:
                    raise
                self.context.log.info(
                    f"{self.log.uri}: another run has changed the shape of the arrays; writing "
                    "again on the latest version"
                )
        raise AssertionError

    def _validate_is_own(self, value: DeltaStore | Snapshot | DeltaLog) -> None:
        """Reject a value that belongs to another table.

        Raises:
            InvalidRequestError: The value is of another table.
        """
        uri = value.log.uri if isinstance(value, DeltaStore) else value.uri
        if uri != self.log.uri:
            raise InvalidRequestError(
                f"asset {self._asset} returned a {class_name(type(value))} of {uri}, and its table "
                f"is {self.log.uri}; return one of this table. Nothing was committed"
            )

    @property
    def _asset(self) -> str:
        return self.context.asset_key.to_user_string()

    def _write_dataset(self, dataset: Any, txns: Sequence[Txn]) -> WrittenArrays:
        store = DeltaStore.begin(self.log)
        try:
            if self.settings.dimension is None:
                whole = add_encodings(dataset, self.settings.chunks)
                write_to(check_values(whole, whole, self._asset), store, self._asset, mode="w")
                validate_times(whole, open_dataset(store), self._asset)
            else:
                RegionWriter(
                    store=store,
                    dataset=free_strings(dataset),
                    labels=self._labels(self.settings.dimension),
                    chunks=self.settings.chunks,
                ).write()
            return self._commit(store, txns)
        except BaseException:
            with suppress(DeltaOpsError):
                store.abandon()
            raise

    def _commit(self, store: DeltaStore, txns: Sequence[Txn]) -> WrittenArrays:
        counts: tuple[int, int] | None = None
        with suppress(SessionEndedError):  # a killed call has begun to commit; finish it
            store.refresh()
            counts = store.changed_chunks()
        version = store.commit(
            user_metadata(step_output(self.context), self.settings.user_metadata),
            txn=(txns[0].app_id, txns[0].version) if txns else None,
        )
        return WrittenArrays(version=version, changed_chunks=counts)

    def _labels(self, dimension: str) -> PartitionedLabels:
        context = self.context
        partitions = context.asset_partitions_def
        keys = list(context.asset_partition_keys)
        instance = compat.instance_of(context)
        return PartitionedLabels(
            asset=self._asset,
            dimension=dimension,
            partitions=partitions,
            keys=keys,
            all_keys=partitions.get_partition_keys(dynamic_partitions_store=instance),
        )

    def _commit_store(
        self, store: DeltaStore, txns: Sequence[Txn], done: CommitResult | None
    ) -> WrittenArrays:
        """Commit the session of a store, unless this run or an earlier run has committed it."""
        if done is None:
            return self._commit(store, txns)
        with suppress(DeltaOpsError):  # mostly, it is the session that was committed
            store.abandon()
        return WrittenArrays(version=done.version, is_adopted=True)


def _is_dataset(value: Any) -> bool:
    """Whether a value is an `xarray.Dataset`; does not import xarray."""
    return any(
        base.__name__ == "Dataset" and base.__module__.partition(".")[0] == "xarray"
        for base in type(value).__mro__
    )
