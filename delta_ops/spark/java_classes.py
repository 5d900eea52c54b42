"""Classes and values of the JVM of a classic session, with few requests."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


def java_class(jvm: Any, name: str) -> Any:
    """Find a class of the JVM with one request.

    `jvm.java.util.ArrayList` is a request for each part of the name. For a package, the JVM then
    searches all jars of Spark for a class of that name.

    Args:
        jvm: `SparkContext._jvm`.
        name: The full name of the class.
    """
    return getattr(jvm, name)


def mapping_of(jvm: Any, texts: Any) -> Mapping[str, str]:
    """Read a Java map from texts to texts.

    Py4J requests each key and value, and recognizes the end by a Java exception.
    """
    writer = java_class(jvm, "com.fasterxml.jackson.databind.ObjectMapper")()
    found: dict[str, str] = json.loads(writer.writeValueAsString(texts))
    return found
