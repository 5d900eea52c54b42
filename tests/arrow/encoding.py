"""Dictionary-encoded strings from every file, even small files, for tests."""

from __future__ import annotations

import pyarrow.parquet as pq
import pytest

from delta_ops.arrow.read import file_rows
from delta_ops.arrow.write import file_form


def encode_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep strings dictionary-encoded: each file has a dictionary, and readers keep it."""

    def texts_in(metadata: pq.FileMetaData, *_: object) -> list[int]:
        columns = [metadata.schema.column(i) for i in range(metadata.num_columns)]
        return [
            i
            for i, each in enumerate(columns)
            if each.physical_type == "BYTE_ARRAY"
            and each.path == each.name
            and metadata.row_group(0).column(i).has_dictionary_page
        ]

    monkeypatch.setattr(file_form, "TINY_BYTES", 0)
    monkeypatch.setattr(file_rows, "repeated_texts", texts_in)
