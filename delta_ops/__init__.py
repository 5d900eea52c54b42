"""Run Delta Lake tables: the log in Python, the data on Spark or Arrow, and maintenance.

    from delta_ops import DeltaLog, begin, col

Importing this package imports neither pyspark nor dagster.
"""

from typing import TYPE_CHECKING

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

from delta_ops.log import DeltaLog, Snapshot
from delta_ops.protocol.expression import lit, parse_expression
from delta_ops.protocol.predicate import col, parse_predicate
from delta_ops.storage import RangeCache
from delta_ops.transaction import CommitResult, Transaction, begin
from delta_ops.transaction.commit.info import installed_version

if TYPE_CHECKING:
    __version__: str
else:

    def __getattr__(name: str) -> str:
        """The version, found on first access, since the search would slow down every import."""
        if name == "__version__":
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
