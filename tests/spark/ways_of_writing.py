"""The two ways of Spark to write data files, as a fixture.

The way that lists the written files is for sessions without the commit protocol. The checks on
Spark Connect always use it; only the long tests run all tests both ways.
"""

from __future__ import annotations

import pytest

PROTOCOL, LISTING = "commit protocol", "listing"


@pytest.fixture(params=[PROTOCOL, pytest.param(LISTING, marks=pytest.mark.long)])
def way_of_writing(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Each of the two ways to write; the other way is disabled."""
    from delta_ops.spark.write import data_files
    from delta_ops.spark.write.commit_protocol import ProtocolUnavailableError, write_parquet

    def refuse(*_args: object) -> object:
        raise ProtocolUnavailableError("the other way was chosen")

    def require(*args: object) -> object:
        try:
            return write_parquet(*args)  # type: ignore[arg-type]
        except ProtocolUnavailableError as error:
            raise AssertionError("the protocol is to be had here") from error

    way = str(request.param)
    monkeypatch.setattr(data_files, "write_parquet", require if way == PROTOCOL else refuse)
    return way
