"""Compiled classes: Java of ours, compiled in the driver by Janino, which Spark brings.

Only classic sessions have a JVM to compile in. What is compiled depends on internals of Spark;
where they differ, it does not compile or not run, and the caller has a slower way by the public
API.
"""

from __future__ import annotations

import os
import tempfile
import weakref
import zipfile
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

_OLDEST_JAVA = 17
"""Which executors may run, whatever the driver runs."""
_ISOLATION = "spark.sql.artifact.isolation.enabled"


class ClassesUnavailableError(Exception):
    """Executors of this session would not find classes of ours."""


OBSTACLES = (
    ClassesUnavailableError,
    Py4JError,
    PySparkException,
    AttributeError,
    TypeError,
    OSError,
)
"""What a call of a class of ours raises where there is no JVM for it, or another Spark inside."""


def first_line(error: Exception) -> str:
    """What stood in the way, without Java's stack."""
    return str(error).strip().split("\n")[0]


_made: weakref.WeakKeyDictionary[Any, dict[str, Any]] = weakref.WeakKeyDictionary()


def instance_of(spark: SparkSession, name: str, source: str) -> Any:
    """An instance of the class in the session's JVM; threads that begin together may each compile.

    Args:
        name: The class; it has a constructor without arguments.
        source: Java without generics, one class or several.
    """
    return _instance(spark, name, source, lambda compiler, _context: compiler.getClassLoader())


def instance_on_executors(
    spark: SparkSession, name: str, source: str, services: Mapping[str, str] = {}
) -> Any:
    """Like `instance_of`, of a class that Spark's own code finds by its name, on executors too.

    A jar joins those of the application, for as long as it runs.

    Args:
        services: Classes by the interface for which Java's `ServiceLoader` finds them.

    Raises:
        ClassesUnavailableError: The session has artifacts of its own, and keeps to them.
    """
    if (spark.conf.get(_ISOLATION, "false") or "").lower() == "true":
        raise ClassesUnavailableError(f"{_ISOLATION} keeps jars of the driver from executors")
    return _instance(spark, name, source, partial(_send, services))


def _instance(
    spark: SparkSession, name: str, source: str, loader_of: Callable[[Any, Any], Any]
) -> Any:
    context: Any = spark.sparkContext
    of_context = _made.setdefault(context, {})
    made = of_context.get(name)
    if made is None:
        of_name = loader_of(_compile(context, source), context).loadClass(name)
        none = context._gateway.new_array(context._jvm.java.lang.Object, 0)
        made = of_name.getConstructors()[0].newInstance(none)
    return of_context.setdefault(name, made)


def _compile(context: Any, source: str) -> Any:
    jvm = context._jvm
    assert jvm is not None
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(jvm.java.lang.Thread.currentThread().getContextClassLoader())
    compiler.setTargetVersion(_OLDEST_JAVA)
    compiler.cook(source)
    return compiler


def _send(services: Mapping[str, str], compiler: Any, context: Any) -> Any:
    """The class loader of the application, which has the classes when this returns."""
    jvm = context._jvm
    # Executors get the jar from here while the application runs; Spark removes it in the end.
    place = jvm.org.apache.spark.SparkFiles.getRootDirectory()
    folder = tempfile.mkdtemp(prefix="delta_ops-", dir=place)
    jar = os.path.join(folder, f"{os.path.basename(folder)}.jar")
    bytecodes = compiler.getBytecodes()
    with zipfile.ZipFile(jar, "w") as classes:
        for name in bytecodes:
            classes.writestr(f"{name.replace('.', '/')}.class", bytes(bytecodes[name]))
        for interface, of_interface in services.items():
            classes.writestr(f"META-INF/services/{interface}", of_interface)
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    loader.addURL(jvm.java.io.File(jar).toURI().toURL())
    context._jsc.addJar(jar)
    for name in bytecodes:
        loader.loadClass(name)
    return loader
