"""Features that users apply to a table, each compared with a plain model of its rows.

A feature may reject a table by an error of delta_ops. Any other error, and other rows, are faults.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from click.testing import CliRunner

import delta_ops.arrow as da
from delta_ops import DeltaLog, ddl, maintenance, versioning
from delta_ops.cli.main import cli
from delta_ops.log.scan_cache_write.write import write_scan_cache
from delta_ops.protocol.predicate.text import predicate_text
from tests.sweep.odd_tables import copy_of
from tests.sweep.row_model import (
    OddTable,
    conditions,
    counted,
    leaves,
    may_reject,
    order_key,
    quoted,
    repeated,
    validate,
    validate_same,
    with_nulls,
)

NO_RETENTION: Mapping[str, Any] = {"retention": timedelta(0), "enforce_retention": False}


def late_clock() -> int:
    """A year from now, when all retentions are over."""
    return int((time.time() + 400 * 86_400) * 1000)


def reads(table: OddTable) -> None:
    validate(table.root, table.rows, "all", num_conditions=1000)
    for name in table.names:
        validate_same(da.to_table(table.root, [quoted(name)]), table.rows.select([name]), name)
    for each in conditions(table.rows)[::3]:
        assert da.count_rows(table.root, predicate_text(each.predicate)) == sum(each.mask)
        plan = da.explain_scan(table.root, each.predicate)
        assert str(plan)
        assert plan.max_rows is None or plan.max_rows >= sum(each.mask)


def orders(table: OddTable) -> None:
    for name in table.names:
        with may_reject():
            batches = list(da.to_batches(table.root, order_by=[quoted(name)]))
            found = pa.Table.from_batches(batches, table.rows.schema)
            validate_same(found, table.rows, name)
            keys = [None if v is None else order_key(v) for v in found[name].to_pylist()]
            present = [each for each in keys if each is not None]
            assert keys == [None] * keys.count(None) + sorted(present)


def appends(table: OddTable) -> None:
    with may_reject():
        da.write(table.root, table.none)
        validate(table.root, table.rows, "nothing appended")
        da.write(table.root, table.rows)
        validate(table.root, repeated(table.rows), "appended")


def overwrites(table: OddTable) -> None:
    for each in conditions(table.rows, 4):
        with may_reject():
            root = table.copy()
            wanted = each.of(table.rows)
            da.write(root, wanted, "overwrite", replace_where=each.predicate)
            validate(root, table.rows, f"replaced: {each.predicate}")
            da.write(root, table.none, "overwrite", replace_where=each.predicate)
            validate(root, each.others(table.rows), f"removed: {each.predicate}")
    with may_reject():
        da.write(table.root, table.rows, "overwrite", partition_overwrite_mode="dynamic")
        validate(table.root, table.rows, "partitions overwritten")
        da.write(table.root, table.rows, "overwrite")
        validate(table.root, table.rows, "overwritten")
        da.write(table.root, table.none, "overwrite")
        validate(table.root, table.none, "overwritten by nothing")


def adds_columns(table: OddTable) -> None:
    numbers = pa.array(range(len(table.rows)), pa.int64())
    with may_reject():
        more = table.rows.append_column("extra", numbers)
        da.write(table.root, more, merge_schema=True)
        old = table.rows.append_column("extra", pa.nulls(len(table.rows), pa.int64()))
        validate(table.root, pa.concat_tables([old, more]), "a new column")


def deletes(table: OddTable) -> None:
    for each in conditions(table.rows, 5):
        with may_reject():
            root = table.copy()
            da.delete(root, each.predicate)
            validate(root, each.others(table.rows), f"deleted: {each.predicate}")
    with may_reject():
        da.delete(table.root)
        validate(table.root, table.none, "all deleted")
        da.delete(table.root)
        da.write(table.root, table.rows)
        validate(table.root, table.rows, "written again")


def updates(table: OddTable) -> None:
    for each in conditions(table.rows, 5):
        for name in {table.names[0], table.names[-1]}:
            with may_reject():
                root = table.copy()
                da.update(root, {quoted(name): None}, each.predicate)
                expected = with_nulls(table.rows, name, each.mask)
                validate(root, expected, f"updated: {each.predicate}")


def merges(table: OddTable) -> None:
    for leaf in leaves(table.rows):
        key = f"target.{leaf.name} = source.{leaf.name}"
        keys = [None if v is None else order_key(v) for v in leaf.values]
        is_null = [each is None for each in keys]
        first = [
            place
            for place, each in enumerate(keys)
            if each is not None and keys.index(each) == place
        ]
        source = table.rows.take(pa.array(first, pa.int64()))
        nulls = table.rows.filter(pa.array(is_null, pa.bool_()))
        others = table.rows.filter(pa.array([not each for each in is_null], pa.bool_()))
        updated = [place if each is None else keys.index(each) for place, each in enumerate(keys)]
        merges: list[tuple[Callable[[Any], Any], pa.Table, pa.Table]] = [
            (
                lambda merge: merge.when_matched_update_all(),
                source,
                table.rows.take(pa.array(updated, pa.int64())),
            ),
            (lambda merge: merge.when_matched_delete(), source, nulls),
            (
                lambda merge: merge.when_not_matched_insert_all(),
                table.rows,
                pa.concat_tables([table.rows, nulls]),
            ),
            (lambda merge: merge.when_not_matched_by_source_delete(), source, others),
            (lambda merge: merge.when_not_matched_by_source_delete(), table.none, table.none),
        ]
        for number, (add_clauses, rows, expected) in enumerate(merges):
            with may_reject():
                root = table.copy()
                add_clauses(da.merge(root, rows, key)).execute()
                validate(root, expected, f"merge {number} by {leaf.name}", 1)


def optimizes(table: OddTable) -> None:
    paths = [leaf.name for leaf in leaves(table.rows)]
    rows = repeated(table.rows)
    options: list[dict[str, Any]] = [{}, {"full": True}, {"zorder_by": paths[:3]}]
    options += [{"zorder_by": [each], "curve": "hilbert", "full": True} for each in paths]
    appended = table.copy(appended=1)
    if da.count_rows(appended) != len(rows):
        return  # the rows could not be appended
    for each in options:
        root = copy_of(appended, appended.with_name("optimized"))
        with may_reject():
            maintenance.optimize(root, **each)
        validate(root, rows, f"optimized: {each}")


def sorts(table: OddTable) -> None:
    rows = repeated(table.rows)
    for name in table.names:
        prepares: list[Callable[[Path, str], object]] = [
            lambda root, key: ddl.set_properties(root, {"delta_ops.sortKey": key}),
            lambda root, key: ddl.cluster_by(root, [key]),
            lambda root, key: ddl.set_properties(root, {"delta_ops.bloomFilterColumns": key}),
        ]
        for prepare in prepares:
            with may_reject():
                root = table.copy()
                prepare(root, quoted(name))
                da.write(root, table.rows)
                for is_full in (False, True):
                    maintenance.optimize(root, full=is_full)
                    validate(root, rows, f"sorted by {name}")
                da.delete(root)
                maintenance.optimize(root, full=True)
                maintenance.health(root)
                maintenance.create_scan_cache(root)
                validate(root, table.none, f"sorted by {name}, emptied")
                da.write(root, table.rows)
                validate(root, table.rows, f"sorted by {name}, filled")


def vacuums(table: OddTable) -> None:
    for each in ({}, {"mode": "lite"}, NO_RETENTION, {**NO_RETENTION, "mode": "lite"}):
        with may_reject():
            root = table.copy(appended=1)
            da.delete(root)
            da.write(root, table.rows)
            maintenance.vacuum(root, dry_run=True, **each)
            maintenance.vacuum(root, **each)
            validate(root, table.rows, f"vacuumed: {each}")


def writes_checkpoints(table: OddTable) -> None:
    for properties in (
        {},
        {"delta.checkpointPolicy": "v2"},
        {
            "delta.checkpoint.writeStatsAsStruct": "true",
            "delta.checkpoint.writeStatsAsJson": "false",
        },
    ):
        root = table.copy()
        with may_reject():
            if properties:
                ddl.set_properties(root, properties)
            maintenance.create_checkpoint(root)
            validate(root, table.rows, f"checkpoint {properties}")
            da.write(root, table.rows)
            maintenance.create_checkpoint(root)
            validate(root, repeated(table.rows), f"second checkpoint {properties}")
            maintenance.clean_up_log(root, clock=late_clock)
            maintenance.maintain(root, clock=late_clock)
            validate(root, repeated(table.rows), f"log cleaned up {properties}")


def restores(table: OddTable) -> None:
    version = DeltaLog(table.root).snapshot().version
    with may_reject():
        da.write(table.root, table.rows)
        da.delete(table.root)
        maintenance.restore(table.root, version=version)
        validate(table.root, table.rows, "restored")
        maintenance.revert(table.root, DeltaLog(table.root).snapshot().version)
        validate(table.root, table.none, "reverted")


def clones(table: OddTable) -> None:
    clone = table.root.with_name("clone")
    with may_reject():
        ddl.shallow_clone(table.root, clone)
        validate(clone, table.rows, "cloned")
        da.write(clone, table.rows)
        maintenance.optimize(clone)
        validate(clone, repeated(table.rows), "written to a clone")
        da.delete(clone)
        maintenance.vacuum(clone, **NO_RETENTION)
        validate(table.root, table.rows, "beside a clone")


def caches_scans(table: OddTable) -> None:
    for group_rows in (1, None):
        root, rows = table.copy(), table.rows
        steps: list[tuple[Callable[[Path], object], pa.Table]] = [
            (lambda root: da.write(root, table.rows), repeated(rows)),
            (da.delete, table.none),
            (lambda root: da.write(root, table.rows), rows),
        ]
        with may_reject():
            for step, later in steps:
                maintenance.create_checkpoint(root)
                write_scan_cache(DeltaLog(root).snapshot(), group_rows=group_rows)
                validate(root, rows, "cached", 8)
                step(root)
                rows = later
                validate(root, rows, "written beside the cache", 4)


def indexes(table: OddTable) -> None:
    for leaf in leaves(table.rows):
        with may_reject():
            root = table.copy(appended=9 if len(table.rows) < 9 else 1)
            times = da.count_rows(root) // len(table.rows) if len(table.rows) else 1
            maintenance.create_index(root, "index", leaf.name)
            for each in conditions(table.rows.select(leaf.path[:1]), 8):
                found = da.to_table(root, predicate=each.predicate)
                validate_same(found, repeated(each.of(table.rows), times), f"{each.predicate}")
            (info,) = maintenance.list_indexes(root)
            assert info.problems == ()
            da.delete(root)
            maintenance.refresh_index(root, "index", verify=True)
            validate(root, table.none, f"an index of {leaf.name}, emptied")
            da.write(root, table.rows)
            maintenance.refresh_indexes(root)
            validate(root, table.rows, f"an index of {leaf.name}, filled")
            maintenance.drop_index(root, "index")


def branches(table: OddTable) -> None:
    with may_reject():
        versioning.create_branch(table.root, "b")
        da.write(versioning.open_branch(table.root, "b"), table.rows)
        validate(table.root, table.rows, "main beside a branch")
        versioning.diff_branch(table.root, "b")
        da.write(table.root, table.rows)
        versioning.rebase_branch(table.root, "b")
        validate(versioning.open_branch(table.root, "b"), repeated(table.rows, 3), "rebased")
        versioning.publish(table.root, "b")
        validate(table.root, repeated(table.rows, 3), "published")
        versioning.create_branch(table.root, "e")
        da.delete(versioning.open_branch(table.root, "e"))
        versioning.publish(table.root, "e")
        validate(table.root, table.none, "emptied by a branch")


def tags(table: OddTable) -> None:
    with may_reject():
        versioning.create_tag(table.root, "t")
        versioning.create_release(table.root.with_name("set"), {"t": table.root})
        versioning.create_anchor(table.root, "tag:t")
        da.write(table.root, table.rows)
        da.delete(table.root)
        maintenance.create_checkpoint(table.root)
        maintenance.clean_up_log(table.root, clock=late_clock)
        maintenance.vacuum(table.root, clock=late_clock)
        validate(DeltaLog(table.root).snapshot(ref="tag:t"), table.rows, "tagged")
        released = versioning.open_release(table.root.with_name("set"))
        validate(released["t"], table.rows, "released")
        assert all(each.is_readable for each in versioning.verify_refs(table.root))


def sessions(table: OddTable) -> None:
    with may_reject():
        session = versioning.begin_session(table.root)
        da.write(session.fork("a"), table.rows)
        validate(session.snapshot(), repeated(table.rows), "staged")
        session.commit()
        validate(table.root, repeated(table.rows), "committed")
        other = versioning.begin_session(table.root)
        da.delete(other.fork("d"))
        other.abandon()
        validate(table.root, repeated(table.rows), "abandoned")


def compares(table: OddTable) -> None:
    first = DeltaLog(table.root).snapshot()
    assert da.diff_rows(first, first).num_rows == 0
    with may_reject():
        da.write(table.root, table.rows)
        maintenance.optimize(table.root)
        found = da.diff_rows(first, table.root)
        change = pa.array(["insert"] * len(table.rows), pa.string())
        assert counted(found) == counted(table.rows.append_column("_change_type", change))
        da.delete(table.root)
        for name in table.names:
            found = da.diff_rows(first, table.root, [quoted(name)])
            assert found["_change_type"].to_pylist() == ["delete"] * len(table.rows)


def records_changes(table: OddTable) -> None:
    with may_reject():
        ddl.set_properties(table.root, {"delta.enableChangeDataFeed": "true"})
        version = DeltaLog(table.root).snapshot().version + 1
        da.write(table.root, table.rows)
        da.delete(table.root)
        changes = da.read_changes(table.root, version).read_all()
        inserted = changes.filter(pc.equal(changes["_change_type"], "insert"))
        validate_same(inserted.select(table.names), table.rows, "inserted")
        deleted = changes.filter(pc.equal(changes["_change_type"], "delete"))
        validate_same(deleted.select(table.names), repeated(table.rows), "deleted")


def repairs(table: OddTable) -> None:
    for repair in (
        maintenance.backfill_statistics,
        maintenance.repair,
        maintenance.purge,
        lambda root: maintenance.purge(root, old_schema=True, lacking_statistics=True),
        maintenance.maintain,
    ):
        root = table.copy()
        with may_reject():
            repair(root)
        validate(root, table.rows, "repaired", 8)
    json.dumps(maintenance.health_json(maintenance.health(table.root)))


def alters(table: OddTable) -> None:
    for name in table.names:
        with may_reject():
            root = table.copy()
            ddl.set_properties(root, {"delta.columnMapping.mode": "name"})
            ddl.rename_column(root, quoted(name), "re named")
            names = ["re named" if each == name else each for each in table.names]
            validate(root, table.rows.rename_columns(names), f"{name} renamed")
            ddl.drop_columns(root, [quoted("re named")])
            validate(root, table.rows.drop_columns([name]), f"{name} dropped")


def commands(table: OddTable) -> None:
    root = str(table.root)
    where = [predicate_text(each.predicate) for each in conditions(table.rows, 3)]
    selecting = [
        [each, root, "--where", text] for text in where for each in ("plan", "count", "head")
    ]
    for command in (
        *([each, root] for each in ("show", "history", "files", "head", "count", "schema")),
        *([each, root] for each in ("properties", "health", "refs", "advise", "manifest")),
        *selecting,
        ["head", root, "--columns", quoted(table.names[0])],
        ["diff", root, "0", "0"],
        *([each, root, "--dry-run"] for each in ("optimize", "vacuum", "maintain", "repair")),
        *([each, root] for each in ("scan-cache", "optimize", "vacuum", "maintain")),
    ):
        for options in ([], ["--json"]):
            result = CliRunner().invoke(cli, [*command, *options])
            assert isinstance(result.exception, SystemExit | None), command
            if options and result.exit_code in (0, 3):
                lines = result.stdout.splitlines()
                texts = lines if command[0] in _LINES else [result.stdout]
                assert all(json.loads(each) is not None for each in texts), command


_LINES = ("history", "files", "head", "diff", "health", "maintain")
FEATURES: Mapping[str, Callable[[OddTable], None]] = {
    each.__name__: each
    for each in (
        *(reads, orders, appends, overwrites, adds_columns, deletes, updates, merges, optimizes),
        *(sorts, vacuums, writes_checkpoints, restores, clones, caches_scans, indexes, branches),
        *(tags, sessions, compares, records_changes, repairs, alters, commands),
    )
}
