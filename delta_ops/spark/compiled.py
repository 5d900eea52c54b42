"""Compiled classes: compiles our Java sources in the driver with Janino, which ships with Spark.

`java_sources` has the sources, as this version of Spark needs them. The first use of a class
compiles its package. Only classic sessions have a local JVM. The code depends on Spark internals.
If these differ, it fails to compile or run, and the caller falls back to Spark's public API.

Janino supports less of Java than javac; the sources use only what both accept. Janino ignores type
arguments: values of generic types need casts, and overriding methods need the parameters of the raw
type. It has no lambdas, and try-with-resources fails. A test compiles all sources with javac and
treats warnings as errors.
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

from delta_ops.spark.installed_version import version_of
from delta_ops.spark.java_classes import java_class
from delta_ops.spark.java_sources import java_sources
from delta_ops.spark.versions import OLDEST_JAVA

_ISOLATION = "spark.sql.artifact.isolation.enabled"


class ClassesUnavailableError(Exception):
    """Executors of this session cannot load our classes."""


OBSTACLES = (
    ClassesUnavailableError,
    Py4JError,
    PySparkException,
    AttributeError,
    TypeError,
    OSError,
)
"""Errors of our classes without a local JVM, or with different Spark internals."""


def first_line(error: Exception) -> str:
    """The message of an error without the Java stack trace."""
    return str(error).strip().split("\n")[0]


_instances: weakref.WeakKeyDictionary[Any, dict[str, Any]] = weakref.WeakKeyDictionary()
"""By Spark context and class name."""


def instance_of(spark: SparkSession, name: str) -> Any:
    """Return the instance of a class in the session's JVM.

    Args:
        name: Class name with package. The class has a constructor without arguments. If several
            threads request it at once, each of them may compile it.
    """
    return _instance(spark, name, _load_in_driver)


def instance_on_executors(spark: SparkSession, name: str, services: Mapping[str, str] = {}) -> Any:
    """Return an instance as `instance_of` does, of a class that executors can also load by name.

    A jar with the class is added to the application until it ends.

    Args:
        services: Implementation class by interface, for Java's `ServiceLoader`.

    Raises:
        ClassesUnavailableError: The session hides jars of the driver from executors.
    """
    if (spark.conf.get(_ISOLATION, "false") or "").lower() == "true":
        raise ClassesUnavailableError(f"{_ISOLATION} keeps jars of the driver from executors")
    return _instance(spark, name, partial(_load_everywhere, services))


def _instance(spark: SparkSession, name: str, load: Callable[[Any, Any, Any], Any]) -> Any:
    context: Any = spark.sparkContext
    instances = _instances.setdefault(context, {})
    made = instances.get(name)
    if made is None:
        thread = java_class(context._jvm, "java.lang.Thread").currentThread()
        application_loader = thread.getContextClassLoader()
        class_files = _compile(context, application_loader, name.rpartition(".")[0])
        loader = load(context, application_loader, class_files)
        none = context._gateway.new_array(java_class(context._jvm, "java.lang.Object"), 0)
        made = loader.loadClass(name).getConstructors()[0].newInstance(none)
    return instances.setdefault(name, made)


def _compile(context: Any, application_loader: Any, package: str) -> Any:
    """Compile a package to a Java map from path to class file."""
    # Each access to a package or class name calls the JVM, so no access is repeated.
    codehaus = context._jvm.org.codehaus
    janino, resource = codehaus.janino, codehaus.commons.compiler.util.resource
    compiler, compiled = janino.Compiler(), resource.MapResourceCreator()
    compiler.setIClassLoader(janino.ClassLoaderIClassLoader(application_loader))
    compiler.setTargetVersion(OLDEST_JAVA)
    compiler.setClassFileCreator(compiled)
    scala = java_class(context._jvm, "scala.util.Properties").versionNumberString()
    sources = java_sources(package, version_of(context.version), scala)
    resources = context._gateway.new_array(resource.Resource, len(sources))
    make_resource = resource.StringResource
    for number, (path, text) in enumerate(sources.items()):
        resources[number] = make_resource(path, text)
    compiler.compile(resources)
    return compiled.getMap()


def _load_in_driver(context: Any, application_loader: Any, class_files: Any) -> Any:
    """Create a class loader with the compiled classes."""
    util = context._jvm.org.codehaus.commons.compiler.util
    finder = util.resource.MapResourceFinder(class_files)
    return util.ResourceFinderClassLoader(finder, application_loader)


def _load_everywhere(
    services: Mapping[str, str], context: Any, application_loader: Any, class_files: Any
) -> Any:
    """Add the compiled classes to the application, and return its class loader."""
    jvm = context._jvm
    # Executors load the jar from this folder while the application runs. Spark then deletes it.
    place = java_class(jvm, "org.apache.spark.SparkFiles").getRootDirectory()
    folder = tempfile.mkdtemp(prefix="delta_ops-", dir=place)
    jar = os.path.join(folder, f"{os.path.basename(folder)}.jar")
    paths = list(class_files)
    with zipfile.ZipFile(jar, "w") as classes:
        for path in paths:
            classes.writestr(path, bytes(class_files[path]))
        for interface, implementation in services.items():
            classes.writestr(f"META-INF/services/{interface}", implementation)
    application_loader.addURL(java_class(jvm, "java.io.File")(jar).toURI().toURL())
    context._jsc.addJar(jar)
    for path in paths:
        application_loader.loadClass(path.removesuffix(".class").replace("/", "."))
    return application_loader
