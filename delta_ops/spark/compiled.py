"""Compiled classes: our Java, compiled in the driver by Janino, which Spark brings.

The sources are in `java/`, one folder for each Java package. The first use of a class compiles its
package. Only classic sessions have a JVM to compile in. What is compiled depends on internals of
Spark; where they differ, it does not compile or not run, and the caller falls back to Spark's
public API.

Janino compiles less of Java than javac, and the sources keep to what both compile. It ignores type
arguments, so values of generic types need casts and overridden methods the parameters of the raw
type; it knows no lambdas, and try-with-resources fails. A test compiles all sources by javac with
warnings as errors.
"""

from __future__ import annotations

import os
import tempfile
import weakref
import zipfile
from collections.abc import Callable, Mapping
from functools import partial
from importlib.resources import files
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

_OLDEST_JAVA = 17
"""Executors may run it, whatever the driver runs."""
_ISOLATION = "spark.sql.artifact.isolation.enabled"


class ClassesUnavailableError(Exception):
    """Executors of this session would not find our classes."""


OBSTACLES = (
    ClassesUnavailableError,
    Py4JError,
    PySparkException,
    AttributeError,
    TypeError,
    OSError,
)
"""Errors of a call of our classes where no JVM is at hand, or Spark has other internals."""


def first_line(error: Exception) -> str:
    """The message of an error without Java's stack."""
    return str(error).strip().split("\n")[0]


_instances: weakref.WeakKeyDictionary[Any, dict[str, Any]] = weakref.WeakKeyDictionary()
"""By context and name of the class."""


def instance_of(spark: SparkSession, name: str) -> Any:
    """Return the instance of a class in the session's JVM.

    Args:
        name: The class with its package; it has a constructor without arguments. Threads that
            request it at the same time may each compile it.
    """
    return _instance(spark, name, _load_in_driver)


def instance_on_executors(spark: SparkSession, name: str, services: Mapping[str, str] = {}) -> Any:
    """Like `instance_of`, for a class that Spark finds by its name, on executors too.

    A jar joins those of the application, for as long as the application runs.

    Args:
        services: Classes by the interface for which Java's `ServiceLoader` finds them.

    Raises:
        ClassesUnavailableError: The session keeps jars of the driver from executors.
    """
    if (spark.conf.get(_ISOLATION, "false") or "").lower() == "true":
        raise ClassesUnavailableError(f"{_ISOLATION} keeps jars of the driver from executors")
    return _instance(spark, name, partial(_load_everywhere, services))


def _instance(spark: SparkSession, name: str, load: Callable[[Any, Any, Any], Any]) -> Any:
    context: Any = spark.sparkContext
    instances = _instances.setdefault(context, {})
    made = instances.get(name)
    if made is None:
        lang = context._jvm.java.lang
        application_loader = lang.Thread.currentThread().getContextClassLoader()
        class_files = _compile(context, application_loader, name.rpartition(".")[0])
        loader = load(context, application_loader, class_files)
        none = context._gateway.new_array(lang.Object, 0)
        made = loader.loadClass(name).getConstructors()[0].newInstance(none)
    return instances.setdefault(name, made)


def _compile(context: Any, application_loader: Any, package: str) -> Any:
    """Compile a package; a Java map of the class files by their paths."""
    # Each name of a package or class is a call of the JVM, so none is repeated.
    codehaus = context._jvm.org.codehaus
    janino, resource = codehaus.janino, codehaus.commons.compiler.util.resource
    compiler, compiled = janino.Compiler(), resource.MapResourceCreator()
    compiler.setIClassLoader(janino.ClassLoaderIClassLoader(application_loader))
    compiler.setTargetVersion(_OLDEST_JAVA)
    compiler.setClassFileCreator(compiled)
    sources = sources_of(package)
    resources = context._gateway.new_array(resource.Resource, len(sources))
    make_resource = resource.StringResource
    for number, (path, text) in enumerate(sources.items()):
        resources[number] = make_resource(path, text)
    compiler.compile(resources)
    return compiled.getMap()


def sources_of(package: str) -> dict[str, str]:
    """The Java sources of a package by their names."""
    folder = files("delta_ops.spark").joinpath("java", *package.split("."))
    return {each.name: each.read_text(encoding="utf-8") for each in folder.iterdir()}


def _load_in_driver(context: Any, application_loader: Any, class_files: Any) -> Any:
    """A class loader that has the classes."""
    util = context._jvm.org.codehaus.commons.compiler.util
    finder = util.resource.MapResourceFinder(class_files)
    return util.ResourceFinderClassLoader(finder, application_loader)


def _load_everywhere(
    services: Mapping[str, str], context: Any, application_loader: Any, class_files: Any
) -> Any:
    """The class loader of the application, which has the classes when this returns."""
    jvm = context._jvm
    # Executors get the jar from here while the application runs; Spark removes it in the end.
    place = jvm.org.apache.spark.SparkFiles.getRootDirectory()
    folder = tempfile.mkdtemp(prefix="delta_ops-", dir=place)
    jar = os.path.join(folder, f"{os.path.basename(folder)}.jar")
    paths = list(class_files)
    with zipfile.ZipFile(jar, "w") as classes:
        for path in paths:
            classes.writestr(path, bytes(class_files[path]))
        for interface, implementation in services.items():
            classes.writestr(f"META-INF/services/{interface}", implementation)
    application_loader.addURL(jvm.java.io.File(jar).toURI().toURL())
    context._jsc.addJar(jar)
    for path in paths:
        application_loader.loadClass(path.removesuffix(".class").replace("/", "."))
    return application_loader
