"""Write rules: the rules that a commit must meet, checked before anything is committed.

Source: PROTOCOL.md, "Requirements for Writers".

Action rules look at actions and are checked here. Row rules look at rows, which a transaction never
sees: an engine checks them and attests it in `Staged.row_rules`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from delta_ops.errors import InvalidRequestError, LogPathError
from delta_ops.log import Snapshot
from delta_ops.option_words import option
from delta_ops.protocol.actions import AddFile, DomainMetadata, FileAction, RemoveFile
from delta_ops.protocol.columns.mapping import physical_name, rename_columns
from delta_ops.protocol.file_paths import canonical_texts, is_absolute
from delta_ops.protocol.properties.table_properties import table_properties_from_configuration
from delta_ops.protocol.schema import DataType, StructField, StructType
from delta_ops.protocol.schema.arrow_types import arrow_type_from_type
from delta_ops.protocol.stats.file_stats import num_records
from delta_ops.protocol.table_definition import TableDefinition
from delta_ops.protocol.values.partition_values import parse
from delta_ops.storage.parquet_ranges import stored_schema
from delta_ops.storage.paths import validate
from delta_ops.transaction.changes import Draft
from delta_ops.transaction.staging import Staged


def validate_staged(staged: Staged, definition: TableDefinition, *, table: str) -> None:
    """Reject staged files whose rows do not fit the table.

    Raises:
        InvalidRequestError: Partitioning or columns differ from the table's, or the engine did not
            check a rule of the table.
    """
    if staged.partition_columns != definition.partition_columns:
        raise InvalidRequestError(
            f"{table} is partitioned by {_names(definition.partition_columns)}, the data by "
            f"{_names(staged.partition_columns)}; write with the table's own partitioning"
        )
    columns = {field.name: field for field in definition.schema.fields}
    for field in staged.schema.fields:
        if field.name not in columns:
            raise InvalidRequestError(
                f"{table} has no column {field.name!r}; drop it from the data, or write with "
                f"{option('merge_schema', True)} to add it. Its columns are "
                f"{', '.join(columns) or 'none'}",
                "DELTA_METADATA_MISMATCH",
            )
        wanted, staged_type = _shape(columns[field.name].data_type), _shape(field.data_type)
        if wanted != staged_type:
            raise InvalidRequestError(
                f"{table}: column {field.name!r} is {wanted} in the table and {staged_type} in the "
                "data; cast it"
            )
        if definition.is_mapped and _names_in_files(columns[field.name]) != _names_in_files(field):
            raise InvalidRequestError(
                f"{table}: column {field.name!r} was replaced after the files were written; write "
                "the rows again"
            )
    missing = sorted(str(rule) for rule in definition.row_rules if rule not in staged.row_rules)
    # Rearranged rows come from the table, so they meet its rules already.
    if missing and any(add.data_change for add in staged.adds):
        raise InvalidRequestError(
            f"{table} requires {', '.join(missing)}, which the engine that wrote the files does "
            "not support; write with an engine that does"
        )


def validate_footer(footer: pq.FileMetaData, schema: StructType, path: str) -> None:
    """Reject a data file with columns that the table lacks: no reader would see them.

    Raises:
        InvalidRequestError: The file has unknown columns, or its footer cannot be parsed.
    """
    known = {field.name.lower() for field in schema.fields}
    try:
        names = stored_schema(footer).names
    except ValueError as error:
        raise InvalidRequestError(f"file {path} cannot be read again ({error})") from error
    if unknown := [name for name in names if name.lower() not in known]:
        raise InvalidRequestError(
            f"file {path} has columns that are not in the table ({', '.join(unknown)}); drop them, "
            "or add them to the table first"
        )


def validate_draft(
    draft: Draft, definition: TableDefinition, before: Snapshot | None, *, table: str
) -> None:
    """Reject a commit whose file actions break a rule of the table.

    Args:
        definition: The table after the commit.
        before: The table before the commit.

    Raises:
        InvalidRequestError: A file action breaks a rule, or rearranged rows are lost or duplicated.
    """
    known = (each.path for each in (*draft.named_again, *draft.vectored))
    validate_actions(
        draft.files,
        definition,
        append_only=_is_append_only(definition, before),
        table=table,
        known=frozenset(canonical_texts(known, table)),
    )
    _validate_balance(draft.files, draft.rearranged, table=table)


def validate_actions(
    files: Sequence[FileAction],
    definition: TableDefinition,
    *,
    append_only: bool,
    table: str,
    known: Collection[str] = (),
) -> None:
    """Reject file actions that contradict each other or the table.

    Args:
        known: Canonical paths of files that the log already knows. Only these files may lie outside
            the table.

    Raises:
        InvalidRequestError: A file action breaks a rule.
    """
    names = definition.partition_names
    types = {names[each.name]: each.data_type for each in definition.partition_fields}
    paths = _paths_of(files, table)
    if len(set(paths)) < len(paths):
        _validate_twice_named(files, paths, table)
    for action, path in zip(files, paths, strict=True):
        if isinstance(action, AddFile):
            if not is_absolute(path):
                validate(path)
            elif path not in known:
                raise InvalidRequestError(f"{table}: file {path} lies outside the table")
            _validate_add(action, path, types, table)
    removed = [a for a in files if isinstance(a, RemoveFile) and a.data_change]
    if append_only and removed:
        raise InvalidRequestError(
            f"{table} is append-only (delta.appendOnly = true), and this commit would delete "
            f"{len(removed)} files; append instead, or unset the property",
            "DELTA_CANNOT_MODIFY_APPEND_ONLY",
        )


def validate_domain(domain: DomainMetadata, definition: TableDefinition, *, table: str) -> None:
    """Reject a domain of the protocol, and any domain on a table without the feature.

    Raises:
        InvalidRequestError: The domain is not allowed.
    """
    if domain.domain.startswith("delta."):
        raise InvalidRequestError(
            f"the domain {domain.domain} belongs to the protocol; choose another prefix"
        )
    if not definition.has("domainMetadata"):
        raise InvalidRequestError(
            f"{table} has no domains: domainMetadata is not among the writer features of its "
            "protocol"
        )


def validate_row_ids(snapshot: Snapshot) -> None:
    """Reject a table that has rows without ids.

    Raises:
        InvalidRequestError: A live file has no `baseRowId`.
    """
    live = snapshot.stream_live(["baseRowId"])
    if any(each["baseRowId"].null_count for each in live):
        raise InvalidRequestError(
            f"{snapshot.uri} has rows without row ids; add the feature rowTracking, rewrite the "
            "files (an overwrite of all rows), and then set delta.enableRowTracking"
        )


def _is_append_only(definition: TableDefinition, before: Snapshot | None) -> bool:
    """Whether the table is append-only before or after a commit."""
    if definition.properties.append_only or before is None:
        return definition.properties.append_only
    # Parse only this property: the commit may repair a malformed value of another property.
    configuration = before.metadata.configuration
    alone = {name: configuration[name] for name in ("delta.appendOnly",) if name in configuration}
    return table_properties_from_configuration(alone).append_only


def _validate_balance(
    files: Sequence[FileAction], rearranged: Sequence[AddFile], *, table: str
) -> None:
    """Reject a rearrangement that loses or duplicates rows, if statistics have the row counts.

    Args:
        files: All file actions; adds with `dataChange` false hold the rearranged rows.
        rearranged: The files that held these rows before.

    Raises:
        InvalidRequestError: The numbers of rows differ.
    """
    added = [a for a in files if isinstance(a, AddFile) and not a.data_change]
    before, after = num_rows(rearranged), num_rows(added)
    if before is not None and after is not None and before != after:
        raise InvalidRequestError(
            f"{table}: the commit has dataChange false, so it must keep all rows, but it removes "
            f"files of {before} rows and adds files of {after}; nothing was committed"
        )


def num_rows(files: Iterable[AddFile]) -> int | None:
    """The number of live rows in files; None if a file has no row count in its statistics."""
    total = 0
    for add in files:
        found = num_records(add.stats)
        if found is None:
            return None
        total += found
        total -= add.deletion_vector.cardinality if add.deletion_vector else 0
    return total


def _validate_twice_named(files: Sequence[FileAction], paths: Sequence[str], table: str) -> None:
    by_path: dict[str, list[FileAction]] = {}
    for action, path in zip(files, paths, strict=True):
        by_path.setdefault(path, []).append(action)
    for path, actions in by_path.items():
        if not _is_one_change(actions):
            raise InvalidRequestError(
                f"{table}: file {path} is in the commit twice; a commit can have one action for "
                "each file"
            )


def _is_one_change(actions: Sequence[FileAction]) -> bool:
    """Whether the actions of one file are a single change; a new vector takes two actions.

    Source: PROTOCOL.md, "Deletion Vectors" (a file is identified by its path and its vector).
    """
    if len(actions) == 1:
        return True
    vectors = {each.deletion_vector and each.deletion_vector.unique_id for each in actions}
    return len(actions) == len(vectors) == len({type(each) for each in actions}) == 2


def _paths_of(files: Sequence[FileAction], table: str) -> list[str]:
    try:
        return canonical_texts((action.path for action in files), table)
    except LogPathError as error:
        raise InvalidRequestError(f"{table}: file {error.file} lies outside the table") from error


def _validate_add(add: AddFile, path: str, types: Mapping[str, DataType], table: str) -> None:
    """Reject an add that readers cannot parse: it would make the whole table unreadable."""
    if add.size < 0:
        raise InvalidRequestError(f"{table}: file {path} has {add.size} bytes; give its real size")
    if add.partition_values.keys() != types.keys():
        raise InvalidRequestError(
            f"{table}: file {path} has values for {_names(tuple(add.partition_values))}, but the "
            f"table is partitioned by {_names(tuple(types))}"
        )
    for name, text in add.partition_values.items():
        try:
            parse(text, types[name])
        except InvalidRequestError as error:
            raise InvalidRequestError(
                f"{table}: file {path}, partition column {name!r}: {error}"
            ) from error


def _shape(data_type: DataType) -> pa.DataType:
    """The type in Arrow, without metadata, which do not change how values are stored."""
    return arrow_type_from_type(data_type)


def _names_in_files(field: StructField) -> pa.DataType:
    """The field with physical names, as data files have it."""
    return _shape(rename_columns(StructType((field,)), physical_name))


def _names(names: Sequence[str]) -> str:
    return ", ".join(names) if names else "nothing"
