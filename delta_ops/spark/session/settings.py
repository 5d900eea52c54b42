"""Session settings of the reference that affect reads and writes with `format("delta")`.

Only the settings named here apply. All other settings below `spark.databricks.delta.` belong to the
reference and have no effect. Options of a call override session settings.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import SparkSession

from delta_ops.errors import InvalidRequestError
from delta_ops.spark.versions import setting_names

PREFIX = "spark.databricks.delta."
_DEFAULTS = f"{PREFIX}properties.defaults."
_VERSIONS = frozenset({"minreaderversion", "minwriterversion"})
"""Protocol defaults, in lower case. A new table gets the lowest version for its features."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSettings:
    """Settings of a session for all its reads and writes."""

    merge_schema: bool
    """`schema.autoMerge.enabled`: writes and merges add columns that only the data have."""
    enforce_retention: bool
    """`retentionDurationCheck.enabled`: vacuum rejects a dangerously short retention."""
    overwrites_dynamically: bool
    """`spark.sql.sources.partitionOverwriteMode`: an overwrite replaces the data's partitions."""
    user_metadata: str | None
    """`commitInfo.userMetadata`: kept in each commit that has none of its own."""


def session_settings(spark: SparkSession) -> SessionSettings:
    """Read the current settings.

    Raises:
        InvalidRequestError: A setting is neither true nor false.
    """
    mode = spark.conf.get("spark.sql.sources.partitionOverwriteMode", "static") or "static"
    return SessionSettings(
        merge_schema=_flag(spark, "schema.autoMerge.enabled", default=False),
        enforce_retention=_flag(spark, "retentionDurationCheck.enabled", default=True),
        overwrites_dynamically=mode.lower() == "dynamic",
        user_metadata=user_metadata_of(spark),
    )


def user_metadata_of(spark: SparkSession) -> str | None:
    """User metadata for each commit of the session; None if it is not set."""
    return _text(spark, "commitInfo.userMetadata")


def default_properties(spark: SparkSession) -> Mapping[str, str]:
    """Default properties for new tables, by property name."""
    found = {}
    for name in setting_names(spark):
        rest = name[len(_DEFAULTS) :]
        if not name.startswith(_DEFAULTS) or rest.lower() in _VERSIONS:
            continue
        value = spark.conf.get(name, None)
        if value is not None:
            found[f"delta.{rest}"] = value
    return found


def _text(spark: SparkSession, name: str) -> str | None:
    return spark.conf.get(PREFIX + name, None)


def _flag(spark: SparkSession, name: str, *, default: bool) -> bool:
    text = (_text(spark, name) or str(default)).strip().lower()
    if text not in ("true", "false"):
        raise InvalidRequestError(f"{PREFIX}{name} is {text!r}; set it to true or false")
    return text == "true"


def txn_of(spark: SparkSession) -> tuple[str, int] | None:
    """The txn from `write.txnAppId` and `write.txnVersion`; None if neither is set.

    A write is skipped if the table already has the txn.

    Raises:
        InvalidRequestError: Only one of them is set, or the version is no number.
    """
    app_id, version = _text(spark, "write.txnAppId"), _text(spark, "write.txnVersion")
    if app_id is None and version is None:
        return None
    if app_id is None or version is None or not version.isdecimal():
        raise InvalidRequestError(
            f"{PREFIX}write.txnAppId is {app_id!r} and {PREFIX}write.txnVersion is {version!r}; "
            "set both, the version to a whole number, or unset both"
        )
    return app_id, int(version)


def reset_txn(spark: SparkSession) -> None:
    """Unset `write.txnVersion` after a write, if the session enables that."""
    if _flag(spark, "write.txnVersion.autoReset.enabled", default=False):
        spark.conf.unset(f"{PREFIX}write.txnVersion")
