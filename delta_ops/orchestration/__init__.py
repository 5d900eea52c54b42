"""Dagster: assets as Delta tables, and their maintenance as jobs, sensors and schedules."""

from typing import TYPE_CHECKING

from delta_ops.late_imports import late_names

try:
    import dagster as _dagster  # noqa: F401
except ImportError as error:
    from delta_ops.errors import MissingDependencyError

    raise MissingDependencyError(
        "delta_ops.orchestration needs the package dagster; install it with: "
        "pip install 'delta_ops[dagster]'"
    ) from error
else:
    from delta_ops.orchestration.dagster_versions import OLDEST, require_dagster

    require_dagster(OLDEST, "delta_ops.orchestration")

if TYPE_CHECKING:
    from delta_ops.orchestration.arrays.array_io_manager import DeltaArrayIOManager
    from delta_ops.orchestration.automation import on_new_table_version
    from delta_ops.orchestration.card.table_card import table_card
    from delta_ops.orchestration.changed_values import ChangedValues, changed_values
    from delta_ops.orchestration.checks.change_checks import (
        build_column_checks,
        build_row_count_checks,
    )
    from delta_ops.orchestration.checks.freshness_checks import build_freshness_checks
    from delta_ops.orchestration.checks.table_checks import build_health_checks, build_table_checks
    from delta_ops.orchestration.commits.commit_sensor import build_commit_sensor
    from delta_ops.orchestration.definitions import delta_ops_definitions
    from delta_ops.orchestration.io_manager.audit_branches import audit_metadata, open_audit_branch
    from delta_ops.orchestration.io_manager.delta_io_manager import DeltaIOManager
    from delta_ops.orchestration.io_manager.output_txns import Idempotency, source_txn
    from delta_ops.orchestration.io_manager.output_writer import SourcePart
    from delta_ops.orchestration.io_manager.type_handlers import (
        TableRead,
        TypeHandler,
        register_type_handler,
    )
    from delta_ops.orchestration.maintenance.fleet_job import (
        FleetConfig,
        FleetMaintenanceConfig,
        build_fleet_maintenance_job,
        fleet_config,
    )
    from delta_ops.orchestration.maintenance.jobs import (
        build_log_maintenance_job,
        build_maintenance_job,
    )
    from delta_ops.orchestration.maintenance.restore_jobs import (
        RepairConfig,
        RestoreConfig,
        RevertConfig,
        build_repair_job,
        build_restore_job,
        build_revert_job,
    )
    from delta_ops.orchestration.maintenance.schedule import build_maintenance_schedule
    from delta_ops.orchestration.maintenance.sensor import build_maintenance_sensor
    from delta_ops.orchestration.pipes import pipes_extras
    from delta_ops.orchestration.policies.maintenance_config import (
        MaintenanceConfig,
        maintenance_config,
    )
    from delta_ops.orchestration.policies.policy import MaintenancePolicy
    from delta_ops.orchestration.publish.publish_asset import build_publish_asset
    from delta_ops.orchestration.publish.release_asset import build_release_asset
    from delta_ops.orchestration.resources import DeltaLogResource
    from delta_ops.orchestration.session_resource import DeltaSessionResource, StagedStep
    from delta_ops.orchestration.streams import run_available_now
    from delta_ops.orchestration.tables import TableRef, add_table_metadata, external_table
else:
    late_names(
        __name__,
        {
            "delta_ops.orchestration.arrays.array_io_manager": ["DeltaArrayIOManager"],
            "delta_ops.orchestration.automation": ["on_new_table_version"],
            "delta_ops.orchestration.card.table_card": ["table_card"],
            "delta_ops.orchestration.changed_values": ["ChangedValues", "changed_values"],
            "delta_ops.orchestration.checks.change_checks": [
                "build_column_checks",
                "build_row_count_checks",
            ],
            "delta_ops.orchestration.checks.freshness_checks": ["build_freshness_checks"],
            "delta_ops.orchestration.checks.table_checks": [
                "build_health_checks",
                "build_table_checks",
            ],
            "delta_ops.orchestration.commits.commit_sensor": ["build_commit_sensor"],
            "delta_ops.orchestration.definitions": ["delta_ops_definitions"],
            "delta_ops.orchestration.io_manager.audit_branches": [
                "audit_metadata",
                "open_audit_branch",
            ],
            "delta_ops.orchestration.io_manager.delta_io_manager": ["DeltaIOManager"],
            "delta_ops.orchestration.io_manager.output_txns": ["Idempotency", "source_txn"],
            "delta_ops.orchestration.io_manager.output_writer": ["SourcePart"],
            "delta_ops.orchestration.io_manager.type_handlers": [
                "TableRead",
                "TypeHandler",
                "register_type_handler",
            ],
            "delta_ops.orchestration.maintenance.fleet_job": [
                "FleetConfig",
                "FleetMaintenanceConfig",
                "build_fleet_maintenance_job",
                "fleet_config",
            ],
            "delta_ops.orchestration.maintenance.jobs": [
                "build_log_maintenance_job",
                "build_maintenance_job",
            ],
            "delta_ops.orchestration.maintenance.restore_jobs": [
                "RepairConfig",
                "RestoreConfig",
                "RevertConfig",
                "build_repair_job",
                "build_restore_job",
                "build_revert_job",
            ],
            "delta_ops.orchestration.maintenance.schedule": ["build_maintenance_schedule"],
            "delta_ops.orchestration.maintenance.sensor": ["build_maintenance_sensor"],
            "delta_ops.orchestration.pipes": ["pipes_extras"],
            "delta_ops.orchestration.policies.maintenance_config": [
                "MaintenanceConfig",
                "maintenance_config",
            ],
            "delta_ops.orchestration.policies.policy": ["MaintenancePolicy"],
            "delta_ops.orchestration.publish.publish_asset": ["build_publish_asset"],
            "delta_ops.orchestration.publish.release_asset": ["build_release_asset"],
            "delta_ops.orchestration.resources": ["DeltaLogResource"],
            "delta_ops.orchestration.session_resource": ["DeltaSessionResource", "StagedStep"],
            "delta_ops.orchestration.streams": ["run_available_now"],
            "delta_ops.orchestration.tables": ["TableRef", "add_table_metadata", "external_table"],
        },
    )

__all__ = [
    "ChangedValues",
    "DeltaArrayIOManager",
    "DeltaIOManager",
    "DeltaLogResource",
    "DeltaSessionResource",
    "FleetConfig",
    "FleetMaintenanceConfig",
    "Idempotency",
    "MaintenanceConfig",
    "MaintenancePolicy",
    "RepairConfig",
    "RestoreConfig",
    "RevertConfig",
    "SourcePart",
    "StagedStep",
    "TableRead",
    "TableRef",
    "TypeHandler",
    "add_table_metadata",
    "audit_metadata",
    "build_column_checks",
    "build_commit_sensor",
    "build_fleet_maintenance_job",
    "build_freshness_checks",
    "build_health_checks",
    "build_log_maintenance_job",
    "build_maintenance_job",
    "build_maintenance_schedule",
    "build_maintenance_sensor",
    "build_publish_asset",
    "build_release_asset",
    "build_repair_job",
    "build_restore_job",
    "build_revert_job",
    "build_row_count_checks",
    "build_table_checks",
    "changed_values",
    "delta_ops_definitions",
    "external_table",
    "fleet_config",
    "maintenance_config",
    "on_new_table_version",
    "open_audit_branch",
    "pipes_extras",
    "register_type_handler",
    "run_available_now",
    "source_txn",
    "table_card",
]
