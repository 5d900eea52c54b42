"""Prepare tools for the tests: delta-spark, connectors, Azurite, archives, older versions.

`make test` runs it first, so that no test waits for a download. It names the tools that it cannot
install; their tests skip.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from tests.peers.environment import MavenMissingError, ensure_delta_spark
from tests.support.class_archive import ensure_class_archive
from tests.support.servers.azure import AzuriteMissingError, ensure_azurite
from tests.support.servers.connectors import connector_jars
from tests.versions.environments import dagster_python, spark_python

# Two concurrent processes of Maven could damage its download folder.
_SIDE_BY_SIDE: tuple[Sequence[Callable[[], object]], ...] = (
    (connector_jars, lambda: ensure_class_archive(ensure_delta_spark().python)),
    (ensure_azurite, ensure_class_archive),
    # `make test` runs one path on the lowest versions.
    (lambda: dagster_python("1.10"), lambda: spark_python("3.5")),
)


def _obstacle(installs: Sequence[Callable[[], object]]) -> str | None:
    """The reason why a tool cannot be installed; None if all tools exist."""
    try:
        for install in installs:
            install()
    except (MavenMissingError, AzuriteMissingError) as error:
        return str(error)
    return None


def main() -> None:
    """Install all tools, and name the tools that cannot be installed."""
    with ThreadPoolExecutor() as threads:
        for obstacle in threads.map(_obstacle, _SIDE_BY_SIDE):
            if obstacle:
                print(f"Some tests will skip: {obstacle}")


if __name__ == "__main__":
    main()
