"""Maintenance: keep tables fast and cheap. `plan_x` decides and changes nothing, `x` acts.

Every operation takes `dry_run`. An operation without work commits nothing.
"""

from typing import TYPE_CHECKING

from delta_ops.late_imports import late_names

if TYPE_CHECKING:
    from delta_ops.maintenance.backfill_statistics.act import BackfillResult, backfill_statistics
    from delta_ops.maintenance.checkpoint.act import CheckpointResult, create_checkpoint
    from delta_ops.maintenance.checkpoint.plan import (
        CheckpointPlan,
        checkpoint_due,
        plan_checkpoint,
    )
    from delta_ops.maintenance.fleet.failures import Failure
    from delta_ops.maintenance.fleet.find import FoundTables, find_tables
    from delta_ops.maintenance.fleet.maintain import (
        TableHealth,
        TableMaintenance,
        fleet_health,
        maintain_fleet,
    )
    from delta_ops.maintenance.fleet.rules import MaintenanceRules
    from delta_ops.maintenance.health.figures import HealthFigures
    from delta_ops.maintenance.health.findings import assess
    from delta_ops.maintenance.health.report import HealthReport, health, health_json
    from delta_ops.maintenance.indexes.act import (
        IndexesRefresh,
        IndexInfo,
        create_index,
        drop_index,
        list_indexes,
        refresh_index,
        refresh_indexes,
    )
    from delta_ops.maintenance.indexes.refresh import IndexRefresh
    from delta_ops.maintenance.log_cleanup.act import LogCleanupResult, clean_up_log
    from delta_ops.maintenance.log_cleanup.plan import LogCleanupPlan, plan_clean_up_log
    from delta_ops.maintenance.log_compaction.act import LogCompactionResult, compact_log
    from delta_ops.maintenance.log_compaction.plan import LogCompactionPlan, plan_compact_log
    from delta_ops.maintenance.maintain import MaintenanceResult, maintain
    from delta_ops.maintenance.optimize.act import optimize
    from delta_ops.maintenance.optimize.advice import AdvisedLayout, LayoutAdvice, advise
    from delta_ops.maintenance.optimize.auto_compact import auto_compact
    from delta_ops.maintenance.optimize.plan import OptimizePlan, plan_optimize
    from delta_ops.maintenance.optimize.run import OptimizeResult
    from delta_ops.maintenance.plan import MaintenancePlan, plan_maintenance
    from delta_ops.maintenance.purge.act import purge
    from delta_ops.maintenance.purge.plan import plan_purge
    from delta_ops.maintenance.registry import Operation
    from delta_ops.maintenance.repair.act import RepairResult, repair
    from delta_ops.maintenance.repair.plan import RepairPlan, plan_repair
    from delta_ops.maintenance.restore.act import RestoreResult, restore
    from delta_ops.maintenance.restore.plan import RestorePlan, plan_restore
    from delta_ops.maintenance.revert.act import RevertResult, revert
    from delta_ops.maintenance.revert.plan import RevertPlan, plan_revert
    from delta_ops.maintenance.scan_cache.act import ScanCacheResult, create_scan_cache
    from delta_ops.maintenance.scan_cache.plan import ScanCachePlan
    from delta_ops.maintenance.thresholds import Finding, HealthThresholds
    from delta_ops.maintenance.vacuum.act import vacuum
    from delta_ops.maintenance.vacuum.plan import VacuumPlan, plan_vacuum
    from delta_ops.maintenance.vacuum.result import VacuumResult
else:
    late_names(
        __name__,
        {
            "delta_ops.maintenance.backfill_statistics.act": [
                "BackfillResult",
                "backfill_statistics",
            ],
            "delta_ops.maintenance.checkpoint.act": ["CheckpointResult", "create_checkpoint"],
            "delta_ops.maintenance.checkpoint.plan": [
                "CheckpointPlan",
                "checkpoint_due",
                "plan_checkpoint",
            ],
            "delta_ops.maintenance.fleet.failures": ["Failure"],
            "delta_ops.maintenance.fleet.find": ["FoundTables", "find_tables"],
            "delta_ops.maintenance.fleet.maintain": [
                "TableHealth",
                "TableMaintenance",
                "fleet_health",
                "maintain_fleet",
            ],
            "delta_ops.maintenance.fleet.rules": ["MaintenanceRules"],
            "delta_ops.maintenance.health.figures": ["HealthFigures"],
            "delta_ops.maintenance.health.findings": ["assess"],
            "delta_ops.maintenance.health.report": ["HealthReport", "health", "health_json"],
            "delta_ops.maintenance.indexes.act": [
                "IndexesRefresh",
                "IndexInfo",
                "create_index",
                "drop_index",
                "list_indexes",
                "refresh_index",
                "refresh_indexes",
            ],
            "delta_ops.maintenance.indexes.refresh": ["IndexRefresh"],
            "delta_ops.maintenance.log_cleanup.act": ["LogCleanupResult", "clean_up_log"],
            "delta_ops.maintenance.log_cleanup.plan": ["LogCleanupPlan", "plan_clean_up_log"],
            "delta_ops.maintenance.log_compaction.act": ["LogCompactionResult", "compact_log"],
            "delta_ops.maintenance.log_compaction.plan": ["LogCompactionPlan", "plan_compact_log"],
            "delta_ops.maintenance.maintain": ["MaintenanceResult", "maintain"],
            "delta_ops.maintenance.optimize.act": ["optimize"],
            "delta_ops.maintenance.optimize.advice": ["AdvisedLayout", "LayoutAdvice", "advise"],
            "delta_ops.maintenance.optimize.auto_compact": ["auto_compact"],
            "delta_ops.maintenance.optimize.plan": ["OptimizePlan", "plan_optimize"],
            "delta_ops.maintenance.optimize.run": ["OptimizeResult"],
            "delta_ops.maintenance.plan": ["MaintenancePlan", "plan_maintenance"],
            "delta_ops.maintenance.purge.act": ["purge"],
            "delta_ops.maintenance.purge.plan": ["plan_purge"],
            "delta_ops.maintenance.registry": ["Operation"],
            "delta_ops.maintenance.repair.act": ["RepairResult", "repair"],
            "delta_ops.maintenance.repair.plan": ["RepairPlan", "plan_repair"],
            "delta_ops.maintenance.restore.act": ["RestoreResult", "restore"],
            "delta_ops.maintenance.restore.plan": ["RestorePlan", "plan_restore"],
            "delta_ops.maintenance.revert.act": ["RevertResult", "revert"],
            "delta_ops.maintenance.revert.plan": ["RevertPlan", "plan_revert"],
            "delta_ops.maintenance.scan_cache.act": ["ScanCacheResult", "create_scan_cache"],
            "delta_ops.maintenance.scan_cache.plan": ["ScanCachePlan"],
            "delta_ops.maintenance.thresholds": ["Finding", "HealthThresholds"],
            "delta_ops.maintenance.vacuum.act": ["vacuum"],
            "delta_ops.maintenance.vacuum.plan": ["VacuumPlan", "plan_vacuum"],
            "delta_ops.maintenance.vacuum.result": ["VacuumResult"],
        },
    )

__all__ = [
    "AdvisedLayout",
    "BackfillResult",
    "CheckpointPlan",
    "CheckpointResult",
    "Failure",
    "Finding",
    "FoundTables",
    "HealthFigures",
    "HealthReport",
    "HealthThresholds",
    "IndexInfo",
    "IndexRefresh",
    "IndexesRefresh",
    "LayoutAdvice",
    "LogCleanupPlan",
    "LogCleanupResult",
    "LogCompactionPlan",
    "LogCompactionResult",
    "MaintenancePlan",
    "MaintenanceResult",
    "MaintenanceRules",
    "Operation",
    "OptimizePlan",
    "OptimizeResult",
    "RepairPlan",
    "RepairResult",
    "RestorePlan",
    "RestoreResult",
    "RevertPlan",
    "RevertResult",
    "ScanCachePlan",
    "ScanCacheResult",
    "TableHealth",
    "TableMaintenance",
    "VacuumPlan",
    "VacuumResult",
    "advise",
    "assess",
    "auto_compact",
    "backfill_statistics",
    "checkpoint_due",
    "clean_up_log",
    "compact_log",
    "create_checkpoint",
    "create_index",
    "create_scan_cache",
    "drop_index",
    "find_tables",
    "fleet_health",
    "health",
    "health_json",
    "list_indexes",
    "maintain",
    "maintain_fleet",
    "optimize",
    "plan_checkpoint",
    "plan_clean_up_log",
    "plan_compact_log",
    "plan_maintenance",
    "plan_optimize",
    "plan_purge",
    "plan_repair",
    "plan_restore",
    "plan_revert",
    "plan_vacuum",
    "purge",
    "refresh_index",
    "refresh_indexes",
    "repair",
    "restore",
    "revert",
    "vacuum",
]
