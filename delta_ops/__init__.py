"""Run Delta Lake tables: the log in Python, the data on Spark or Arrow, and maintenance.

    from delta_ops import DeltaLog, begin, col

Importing this package imports neither pyspark nor dagster. Names load on first access.
"""

from typing import TYPE_CHECKING

from delta_ops.late_imports import late_names

try:
    import pyarrow as _pyarrow  # noqa: ICN001
except ImportError as error:
    from delta_ops.errors import MissingDependencyError

    raise MissingDependencyError(
        "delta_ops needs the package pyarrow; install it with: pip install delta_ops"
    ) from error
else:
    _OLDEST_PYARROW = 23
    if int(_pyarrow.__version__.partition(".")[0]) < _OLDEST_PYARROW:
        from delta_ops.errors import MissingDependencyError

        raise MissingDependencyError(
            f"delta_ops needs pyarrow {_OLDEST_PYARROW} or later, and pyarrow "
            f"{_pyarrow.__version__} is installed; install another one with: "
            f"pip install 'pyarrow>={_OLDEST_PYARROW}'"
        )

if TYPE_CHECKING:
    from delta_ops import errors as errors
    from delta_ops import log as log
    from delta_ops import protocol as protocol
    from delta_ops import storage as storage
    from delta_ops import transaction as transaction
    from delta_ops.log import DeltaLog, Snapshot
    from delta_ops.protocol.expression import lit, parse_expression
    from delta_ops.protocol.predicate import col, parse_predicate
    from delta_ops.storage import RangeCache
    from delta_ops.transaction import CommitResult, Transaction, begin

    __version__: str
else:
    late_names(
        __name__,
        {
            "delta_ops": ["errors", "log", "protocol", "storage", "transaction"],
            "delta_ops.log": ["DeltaLog", "Snapshot"],
            "delta_ops.protocol.expression": ["lit", "parse_expression"],
            "delta_ops.protocol.predicate": ["col", "parse_predicate"],
            "delta_ops.storage": ["RangeCache"],
            "delta_ops.transaction": ["CommitResult", "Transaction", "begin"],
        },
    )

    def __getattr__(name: str) -> str:
        """The version, found on first access, since the search would slow down every import."""
        if name == "__version__":
            from delta_ops.transaction.commit.info import installed_version

            return installed_version() or "unknown"
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "CommitResult",
    "DeltaLog",
    "RangeCache",
    "Snapshot",
    "Transaction",
    "__version__",
    "begin",
    "col",
    "lit",
    "parse_expression",
    "parse_predicate",
]
