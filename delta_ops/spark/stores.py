"""Stores: configures a session to reach tables in a bucket.

1. Settings go into the context's Hadoop configuration, and Spark sends it to executors with each
   job. Options of a scan or a write would appear in its plan. Settings of the session would appear
   in the event log with every query. The environment page shows Hadoop's settings and redacts
   credentials by the session's `spark.redaction.regex`, which is widened if it misses a name.
2. If a session itself configures a bucket, only its own configuration applies.
3. Hadoop caches one client for each bucket and ignores later settings. If driver and executor are
   one process, new credentials for a bucket replace the old credentials, also for existing
   DataFrames. In other sessions, and for another endpoint, different credentials are rejected.
4. Before the first job, a client with few retries looks for the table, so an error shows within
   seconds. Jobs retry for some minutes at most, unless the session configures retries.
5. All settings of a Spark Connect client are visible, so none is set there. Its server reaches
   stores with its own settings. Before the first job, the server looks for the table.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from delta_ops.errors import InvalidRequestError, MissingDependencyError, StorageError
from delta_ops.spark.compiled import instance_of
from delta_ops.spark.java_classes import java_class
from delta_ops.spark.session.failures import reason_of_store, store_failure
from delta_ops.spark.session.session import is_one_process
from delta_ops.spark.versions import is_connect
from delta_ops.storage import Readable
from delta_ops.storage.backends.hadoop_connector import Hadoop, HadoopStore
from delta_ops.storage.hadoop import hadoop_of, hadoop_root, hadoop_store

R = TypeVar("R")

logger = logging.getLogger(__name__)

_LOG_HINT = "_delta_log/_last_checkpoint"
_NO_PATH = "PATH_NOT_FOUND"
_JAR = re.compile(r"/hadoop-(?:aws|gcp|azure)-(\d[\w.]*)\.jar$")
_REDACTION = "spark.redaction.regex"
_SPARKS_REDACTION = "(?i)secret|password|token|access[.]?key"
_CREDENTIALS = "account[.]key"
"""Matches names of credential settings that Spark's default expression misses."""
_CLIENTS = "delta_ops.stores.StoreClients"


class KnownStores:
    """Stores that are configured in a context."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.by_root: dict[str, HadoopStore] = {}
        self.left: set[str] = set()
        """Buckets that users configured in their sessions; delta_ops leaves them as they are."""
        self.seen: weakref.WeakKeyDictionary[SparkSession, set[str]] = weakref.WeakKeyDictionary()
        """For each session, the buckets that were checked for the session's own configuration."""


known_by_context: weakref.WeakKeyDictionary[Any, KnownStores] = weakref.WeakKeyDictionary()


def known_stores(spark: SparkSession) -> KnownStores:
    """The stores that are configured in the context of a session."""
    return known_by_context.setdefault(spark.sparkContext, KnownStores())


def root_of(storage: Readable) -> str | None:
    """Hadoop's URI of a storage's bucket; None if it is not in a bucket.

    Raises:
        InvalidRequestError: Hadoop has no name for the bucket.
    """
    return _hide_variables(lambda: hadoop_root(storage.uri, storage.client_options, os.environ))


def reach(spark: SparkSession, storage: Readable, place: str) -> None:
    """Configure the session to reach a storage, once for each bucket and its options.

    Args:
        place: The root of the storage in Hadoop's format. A client looks for it.

    Raises:
        InvalidRequestError: The session or Hadoop cannot reach the storage. The message has the
            cure.
        MissingDependencyError: The session lacks Hadoop's connector, or its connector is for
            another Hadoop version.
        StorageError: The store did not answer, or denied access.
    """
    root = root_of(storage)
    if root is None:
        return
    if is_connect(spark):
        _look_from_server(spark, root, storage.uri, place)
        return
    known = known_stores(spark)
    with known.lock:
        seen = known.seen.setdefault(spark, set())
        if root not in seen:
            _validate_connector(spark, root, storage.uri)
            _validate_configuration(spark, root, known, storage.uri)
            seen.add(root)
        if root in known.left:
            return
        store = _hide_variables(
            lambda: hadoop_store(storage.uri, storage.client_options, os.environ, storage.endpoint)
        )
        assert store is not None
        before = known.by_root.get(root)
        if before == store:
            return
        _validate_change(spark, before, store, known, storage.uri)
        put_settings(spark, before, store, known)
        try:
            _look(spark, store, storage.uri, place)
        except BaseException:
            put_settings(spark, store, before, known)
            raise
        known.by_root[root] = store


def _hadoop_of(root: str) -> Hadoop:
    hadoop = hadoop_of(root)
    assert hadoop is not None  # or there would be no root
    return hadoop


def _validate_configuration(spark: SparkSession, root: str, known: KnownStores, uri: str) -> None:
    """Keep a session's own configuration of a bucket, unless another session relies on ours."""
    is_own = _is_configured(spark, root, known)
    if root in known.by_root if is_own else root in known.left:
        raise InvalidRequestError(
            f"{uri}: one Spark session has its own settings for {root}, and another session of "
            "the application does not, but both share one Hadoop client; give both sessions the "
            "same settings when the application starts, or none"
        )
    if is_own and root not in known.left:
        _forget_clients(spark, root)
        known.left.add(root)


def _is_configured(spark: SparkSession, root: str, known: KnownStores) -> bool:
    """Whether the session has its own settings for the bucket."""
    ours = {name: text for store in known.by_root.values() for name, text in store.settings.items()}
    with quiet_py4j():
        configuration = _settings_of_jobs(spark)
        found = dict(configuration.getValByRegex(_hadoop_of(root).settings_pattern(root)))
        own = [name for name, text in found.items() if ours.get(name) != text]
        return not all(_is_default(configuration, name) for name in own)


def _validate_connector(spark: SparkSession, root: str, uri: str) -> None:
    hadoop = _hadoop_of(root)
    cure = (
        f'start the session with get_session(configuration=packages("{hadoop.connector}")), both '
        "of delta_ops.spark"
    )
    found = _configuration(spark).getClassByNameOrNull(hadoop.file_system)
    if found is None:
        raise MissingDependencyError(
            f"{uri} needs Hadoop's connector for its store, which this Spark session lacks; {cure}."
        )
    source = found.getProtectionDomain().getCodeSource()
    jar = _JAR.search(str(source.getLocation())) if source is not None else None
    jvm: Any = spark.sparkContext._jvm
    version = java_class(jvm, "org.apache.hadoop.util.VersionInfo").getVersion()
    if jar is not None and jar[1] != version:
        raise MissingDependencyError(
            f"{uri} cannot be reached because the session has Hadoop {version} and a connector of "
            f"Hadoop {jar[1]}; {cure}."
        )


def _validate_change(
    spark: SparkSession,
    before: HadoopStore | None,
    store: HadoopStore,
    known: KnownStores,
    uri: str,
) -> None:
    cure = "use the same options for all of them, or read each in its own session"
    if _is_contradicted(store, known):
        raise InvalidRequestError(
            f"{uri}: this Spark session uses other values of the same Hadoop settings for other "
            f"tables, but Hadoop has one value for all; {cure}"
        )
    if before is None:
        return
    if before.place != store.place:
        raise InvalidRequestError(
            f"{uri}: this Spark session uses a bucket of the same name at another endpoint; {cure}"
        )
    if not is_one_process(spark):
        raise InvalidRequestError(
            f"{uri}: this Spark session has opened {store.root} with other credentials, which its "
            "executors keep; start another session, or use a profile or role whose credentials "
            "renew themselves"
        )
    logger.warning(
        "From now on %s uses other credentials, also for existing DataFrames",
        store.root,
    )


def _is_contradicted(store: HadoopStore, known: KnownStores) -> bool:
    """Whether another bucket has another value for one of the settings."""
    others = _settings_of_others(known, store.root)
    return any(others.get(name, value) != value for name, value in store.settings.items())


def _settings_of_others(known: KnownStores, root: str) -> dict[str, str]:
    return {
        name: value
        for other, store in known.by_root.items()
        if other != root
        for name, value in store.settings.items()
    }


def put_settings(
    spark: SparkSession, before: HadoopStore | None, after: HadoopStore | None, known: KnownStores
) -> None:
    """Replace the settings of one store by the settings of another; either may be missing."""
    configuration = _configuration(spark)
    settings = after.settings if after else {}
    with quiet_py4j():
        if before is not None:
            others = _settings_of_others(known, before.root)
            certain = settings.keys() - (after.unless.keys() if after else set())
            for name in before.settings.keys() - certain - others.keys():
                configuration.unset(name)
        _hide(spark, settings)
        for name, value in settings.items():
            assert after
            general = after.unless.get(name)
            if general is None or _is_default(configuration, general):
                configuration.set(name, value)
    for root in {store.root for store in (before, after) if store is not None}:
        _forget_clients(spark, root)


def _forget_clients(spark: SparkSession, root: str) -> None:
    """Remove clients from Hadoop's cache. Another context of this JVM may have created some."""
    scheme, _, authority = root.lower().partition("://")
    instance_of(spark, _CLIENTS).forget(scheme, authority)


def _is_default(configuration: Any, name: str) -> bool:
    """Whether the value of the setting is Hadoop's default."""
    sources = configuration.getPropertySources(name) or ()
    return all(str(each).endswith("-default.xml") for each in sources)


def _hide(spark: SparkSession, settings: Mapping[str, str]) -> None:
    """Make Spark redact credentials that its environment page would show."""
    if not any(re.search(_CREDENTIALS, name) for name in settings):
        return
    context: Any = spark.sparkContext
    live = context._jsc.sc().conf()
    known = live.get(_REDACTION, _SPARKS_REDACTION)
    if _CREDENTIALS not in known:
        live.set(_REDACTION, f"{known}|{_CREDENTIALS}")


def _look(spark: SparkSession, store: HadoopStore, uri: str, place: str) -> None:
    """Test access to the store by a look-up of the table, which may not exist yet."""
    jvm: Any = spark.sparkContext._jvm
    try:
        if store.root.startswith("abfs://"):
            # An emulator: Hadoop's client also needs this for HTTP, but sets it up only for HTTPS.
            ssl = java_class(jvm, "org.apache.hadoop.security.ssl.DelegatingSSLSocketFactory")
            ssl.initializeDefaultFactory(ssl.SSLChannelMode.Default_JSSE)
        own = _settings_of_jobs(spark)
        few_tries = _hadoop_of(store.root).few_tries
        for name, value in few_tries.items():
            own.set(name, value)
        for name, general in store.unless.items():
            if general in few_tries:
                own.unset(name)  # a setting of the bucket overrides the general setting
        root = java_class(jvm, "java.net.URI").create(store.root)
        client = java_class(jvm, "org.apache.hadoop.fs.FileSystem").newInstance(root, own)
        try:
            client.getFileStatus(java_class(jvm, "org.apache.hadoop.fs.Path")(place))
        finally:
            client.close()
    except (Py4JError, PySparkException) as error:
        failure = store_failure(error, uri)
        if failure is not None:
            raise failure from None


_reached: weakref.WeakKeyDictionary[SparkSession, set[str]] = weakref.WeakKeyDictionary()
"""Buckets that the server of a session has reached."""


def _look_from_server(spark: SparkSession, root: str, uri: str, place: str) -> None:
    """Test the access of a Connect server by a look-up of the table, which may not exist yet."""
    reached = _reached.setdefault(spark, set())
    if root in reached:
        return
    try:
        _ = spark.read.format("text").load(f"{place}/{_LOG_HINT}").schema
    except PySparkException as error:
        if _NO_PATH not in str(error):
            reason = (
                f"{reason_of_store(error)}; the Spark Connect server uses its own settings, such "
                "as spark.hadoop.fs.s3a.*, which a client cannot set"
            )
            raise StorageError(uri, "reached by Spark", reason) from None
    reached.add(root)


def _configuration(spark: SparkSession) -> Any:
    context: Any = spark.sparkContext
    return context._jsc.hadoopConfiguration()


def _settings_of_jobs(spark: SparkSession) -> Any:
    """Copy the Hadoop configuration of the session's jobs.

    It combines the settings of the context and of the session.
    """
    session: Any = spark._jsparkSession
    return session.sessionState().newHadoopConf()


def _hide_variables(call: Callable[[], R]) -> R:
    """Call a function. Errors show no frame with options or environment variables."""
    try:
        return call()
    except InvalidRequestError as error:
        raise error.with_traceback(None) from None


_silenced = threading.local()


def _is_wanted(_record: logging.LogRecord) -> bool:
    return not getattr(_silenced, "depth", 0)


@contextlib.contextmanager
def quiet_py4j() -> Iterator[None]:
    """Keep the values that this thread sends out of Py4J's debug log."""
    for name in ("py4j.java_gateway", "py4j.clientserver"):
        logging.getLogger(name).addFilter(_is_wanted)  # adding it again has no effect
    _silenced.depth = getattr(_silenced, "depth", 0) + 1
    try:
        yield
    finally:
        _silenced.depth -= 1
