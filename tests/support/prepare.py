"""Install what the tests need beside Python packages: delta-spark, Hadoop's connectors, Azurite.

`make test` runs it first, so that no test waits for a download. What cannot be installed is named;
its tests skip.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from tests.peers.environment import MavenMissingError, ensure_delta_spark
from tests.support.servers.azure import AzuriteMissingError, ensure_azurite
from tests.support.servers.connectors import connector_jars


def _obstacle(install: Callable[[], object]) -> str | None:
    """Why a tool cannot be installed; None if it is there."""
    try:
        install()
    except (MavenMissingError, AzuriteMissingError) as error:
        return str(error)
    return None


def main() -> None:
    """Install all tools, side by side."""
    with ThreadPoolExecutor() as threads:
        for obstacle in threads.map(
            _obstacle, (ensure_delta_spark, connector_jars, ensure_azurite)
        ):
            if obstacle:
                print(f"Some tests will skip: {obstacle}")


if __name__ == "__main__":
    main()
