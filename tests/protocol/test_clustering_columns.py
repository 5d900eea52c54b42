"""Clustering columns in the log."""

from __future__ import annotations

import json

import pytest

from delta_ops.errors import InvalidRequestError
from delta_ops.protocol.actions import DomainMetadata
from delta_ops.protocol.columns.clustering import CLUSTERING, clustering_columns


def domains(columns: object) -> dict[str, DomainMetadata]:
    text = json.dumps({"clusteringColumns": columns})
    return {CLUSTERING: DomainMetadata(domain=CLUSTERING, configuration=text, removed=False)}


def test_a_name_alone_is_a_column_as_a_path_of_one_name_is() -> None:
    assert clustering_columns(domains(["col-a", ["s", "b"]]), "t") == (("col-a",), ("s", "b"))


@pytest.mark.parametrize("columns", [7, [7], [[7]], None])
def test_values_that_are_no_path_are_refused(columns: object) -> None:
    with pytest.raises(InvalidRequestError, match="does not name the clustering columns"):
        clustering_columns(domains(columns), "t")
