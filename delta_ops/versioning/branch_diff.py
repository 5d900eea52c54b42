"""Branch diff: compares the files and columns of a branch with its base version.

The engines compare rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from delta_ops.arguments import validate_arguments
from delta_ops.log import Snapshot, TableOrPlace, log_of
from delta_ops.log.refs.branches import find_branch
from delta_ops.protocol.file_paths import canonical_path
from delta_ops.protocol.schema import StructType
from delta_ops.protocol.schema.type_text import type_text
from delta_ops.versioning.net_changes import branch_commits, load_net_changes


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchDiff:
    """How a branch differs from its base version.

    Examples:
        >>> _ = create_branch("lake/orders", "audit")
        >>> diff = diff_branch("lake/orders", "audit")
        >>> diff.base_version, diff.branch_version, diff.main_version
        (0, 0, 0)
    """

    branch: str
    base_version: int
    """The version of main that the branch began with."""
    branch_version: int
    main_version: int
    """The latest version of main."""
    added: tuple[str, ...]
    """Paths of new files, and of files with other deleted rows."""
    removed: tuple[str, ...]
    """Paths of removed files, and of files with other deleted rows."""
    added_bytes: int
    removed_bytes: int
    columns: tuple[str, ...]
    """Changed columns, such as `added note string`."""
    properties: tuple[str, ...]
    """Names of changed table properties."""


def diff_branch(table: TableOrPlace, branch: str) -> BranchDiff:
    """Compare a branch with its base version: what a publication would commit.

    Raises:
        TableNotFoundError: There is no table here.
        VersionNotFoundError: There is no such branch, or its base version cannot be read.
        LogCorruptError: The journal of refs, or a log, is damaged.
        UnsupportedFeatureError: A later version of delta_ops wrote the refs of the table.
        StorageError: The store failed.

    Examples:
        >>> _ = create_branch("lake/orders", "audit")
        >>> _ = da.write(open_branch("lake/orders", "audit"), da.to_table("lake/orders"))
        >>> diff = diff_branch("lake/orders", "audit")
        >>> len(diff.added), diff.removed, diff.columns
        (1, (), ())
    """
    validate_arguments(diff_branch, locals())
    log = log_of(table).main
    own = log.on_branch(find_branch(log.storage, branch))
    head, base = own.snapshot(), own.base
    assert base
    net = load_net_changes(base, branch_commits(own, head))
    return BranchDiff(
        branch=branch,
        base_version=base.version,
        branch_version=head.version,
        main_version=log.snapshot().version,
        added=tuple(sorted(canonical_path(each.path, log.uri) for each in net.adds)),
        removed=tuple(sorted(canonical_path(each.path, log.uri) for each in net.removes)),
        added_bytes=sum(each.size for each in net.adds),
        removed_bytes=sum(each.size or 0 for each in net.removes),
        columns=tuple(_changed_columns(base.schema, head.schema)),
        properties=tuple(_changed_properties(base, head)),
    )


def _changed_columns(before: StructType, after: StructType) -> Iterator[str]:
    old = {field.name: field for field in before.fields}
    new = {field.name: field for field in after.fields}
    for name, field in new.items():
        if name not in old:
            yield f"added {name} {type_text(field.data_type)}"
        elif old[name].data_type != field.data_type:
            was, now = type_text(old[name].data_type), type_text(field.data_type)
            yield f"changed {name} from {was} to {now}"
        elif old[name] != field:
            yield f"changed {name}"
    yield from (f"removed {name}" for name in old if name not in new)


def _changed_properties(base: Snapshot, head: Snapshot) -> list[str]:
    old, new = base.metadata.configuration, head.metadata.configuration
    return sorted(name for name in {*old, *new} if old.get(name) != new.get(name))
