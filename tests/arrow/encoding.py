"""Dictionary-encoded strings from every file, even small files, for tests."""

from __future__ import annotations

import pyarrow.parquet as pq
import pytest

from delta_ops.arrow.read import file_rows


def encode_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the strings of every file with a dictionary dictionary-encoded."""

    def texts_in(metadata: pq.FileMetaData, *_: object) -> list[int]:
        columns = [metadata.schema.column(i) for i in range(metadata.num_columns)]
        return [
            i
            for i, each in enumerate(columns)
            if each.physical_type == "BYTE_ARRAY"
            and each.path == each.name
            and metadata.row_group(0).column(i).has_dictionary_page
        ]

    monkeypatch.setattr(file_rows, "repeated_texts", texts_in)
