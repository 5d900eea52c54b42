"""Value columns: a Python value of any table type as a constant Spark column.

A nested value is sent as one JSON text of physical texts, because one Py4J call per list element
would take a millisecond each.
"""

from __future__ import annotations

import json
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as sf
from pyspark.sql import types as st

from delta_ops.protocol.schema import STRING, ArrayType, DataType, MapType, StructType
from delta_ops.spark.expressions.columns import parse_physical_text, physical_text

_KEY, _VALUE = "key", "value"
_OPTIONS = {"mode": "FAILFAST", "maxStringLen": str(2**31 - 1)}


def column_of_value(value: Any, data_type: DataType) -> Column:
    """Build a column with this value in every row.

    Args:
        value: As `values.value_of_type` makes it.
        data_type: Type of the value, without a variant.
    """
    if not isinstance(data_type, ArrayType | MapType | StructType):
        return parse_physical_text(sf.lit(physical_text(value)), data_type)
    text = json.dumps({_VALUE: _texts(value, data_type)})
    stored = st.StructType([st.StructField(_VALUE, _type_of_texts(data_type))])
    return _parse(sf.from_json(sf.lit(text), stored, _OPTIONS).getField(_VALUE), data_type)


def _texts(value: Any, data_type: DataType) -> Any:
    if value is None:
        return None
    match data_type:
        case StructType(fields=fields):
            # Fields are numbered: column names may contain any character, or differ only in case.
            return {str(n): _texts(value[f.name], f.data_type) for n, f in enumerate(fields)}
        case ArrayType(element_type=element_type):
            return [_texts(each, element_type) for each in value]
        case MapType(key_type=key_type, value_type=value_type):
            return [
                {_KEY: _texts(key, key_type), _VALUE: _texts(item, value_type)}
                for key, item in value
            ]
    return physical_text(value)


def _type_of_texts(data_type: DataType) -> st.DataType:
    match data_type:
        case StructType(fields=fields):
            return st.StructType(
                [st.StructField(str(n), _type_of_texts(f.data_type)) for n, f in enumerate(fields)]
            )
        case ArrayType(element_type=element_type):
            return st.ArrayType(_type_of_texts(element_type))
        case MapType(key_type=key_type, value_type=value_type):
            pair = st.StructType(
                [
                    st.StructField(_KEY, _type_of_texts(key_type)),
                    st.StructField(_VALUE, _type_of_texts(value_type)),
                ]
            )
            return st.ArrayType(pair)
    return st.StringType()


def _parse(texts: Column, data_type: DataType) -> Column:
    match data_type:
        case StructType(fields=fields):
            members = (
                _parse(texts.getField(str(n)), f.data_type).alias(f.name)
                for n, f in enumerate(fields)
            )
            return sf.when(texts.isNotNull(), sf.struct(*members))
        case ArrayType(element_type=element_type):
            if element_type == STRING:
                return texts
            return sf.transform(texts, lambda each: _parse(each, element_type))
        case MapType(key_type=key_type, value_type=value_type):
            pairs = sf.transform(
                texts,
                lambda pair: sf.struct(
                    _parse(pair.getField(_KEY), key_type).alias(_KEY),
                    _parse(pair.getField(_VALUE), value_type).alias(_VALUE),
                ),
            )
            return sf.map_from_entries(pairs)
    return parse_physical_text(texts, data_type)
