"""Hadoop names: settings by which users of Spark open a store, in the words of its client. Pure.

`fs.s3a.access.key` and its like, given as options, open the store that they would open in Spark.

1. A setting of one bucket or account counts for that alone, and before one of all.
2. A setting that decides what is reached or who asks is translated, or refused by its name.
3. How Hadoop's clients work, such as their buffers and retries, is left out, and so is what is said
   of stores of another kind, since a configuration of Hadoop is for all of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from delta_ops.errors import InvalidRequestError
from delta_ops.storage.backends.option_names import is_true
from delta_ops.storage.paths import split_uri

Options = Mapping[str, Any]

_HADOOPS = ("fs.", "dfs.")
_CENTRAL_S3 = "s3.amazonaws.com"
_FOUND_BY_ITSELF = frozenset(
    {
        "DefaultCredentialsProvider",
        "EnvironmentVariableCredentialsProvider",
        "ContainerCredentialsProvider",
        "IAMInstanceCredentialsProvider",
        "InstanceProfileCredentialsProvider",
        "ProfileAWSCredentialsProvider",
        "ProfileCredentialsProvider",
        "SimpleAWSCredentialsProvider",
        "TemporaryAWSCredentialsProvider",
        "WebIdentityTokenFileCredentialsProvider",
        # Of the SDK before, whose names Hadoop still takes.
        "DefaultAWSCredentialsProviderChain",
        "WebIdentityTokenCredentialsProvider",
    }
)
"""Where Hadoop looks for credentials, and the client does too without being told."""
_ENCRYPTION = {
    "SSE-S3": "AES256",
    "AES256": "AES256",
    "SSE-KMS": "aws:kms",
    "DSSE-KMS": "aws:kms:dsse",
}
_OLD_S3 = re.compile(r"fs\.s3n?\.(?!impl)")
"""Names of connectors that Hadoop does not have any more."""
_HOW_S3A_WORKS = re.compile(
    r"impl|(?:attempts|audit|block|buffer|bulk|change|committer|connection|create|directory"
    r"|etag|executor|experimental|fast|input|list|max|multiobjectdelete|multipart|optimized"
    r"|paging|performance|prefetch|readahead|retry|socket|threads|user\.agent|vectored)\..*"
)
_HOW_GCS_WORKS = re.compile(
    r"impl|auth\.service\.account\.enable|(?:batch|block|client|copy|create|delete|fadvise|glob"
    r"|grpc|http|implicit|inputstream|io|lazy|list|marker|max|operation|outputstream|performance"
    r"|reporting|rewrite|status|tracelog|working|write)\..*"
)
_HOW_AZURE_WORKS = re.compile(
    r"account\.hns\.enabled|(?:always|atomic|block|buffer|cluster|create|data|disable|enable|fns|io"
    r"|list|max|metrics|read|readaheadqueue|rename|retry|secure|shellkeyprovider|skip"
    r"|tracingheader|user|write)\..*"
)
_TENANT = re.compile(r"https://login\.[^/]+/([^/]+)/oauth2(?:/v2\.0)?/token")
_AN_ACCOUNT = re.compile(r"\.[a-z0-9]+\.(?:dfs|blob)\.[a-z0-9.-]+$")


def translate_hadoop_names(uri: str, options: Options) -> dict[str, Any]:
    """The options, those of Hadoop's names in words that the client of the store has for them.

    Args:
        uri: As the user wrote it.

    Raises:
        InvalidRequestError: A setting has no counterpart, or an option says something else. No
            value is repeated.
    """
    plain = {name: value for name, value in options.items() if not _is_hadoops(name)}
    hadoops = {name.lower(): value for name, value in options.items() if _is_hadoops(name)}
    way = _WAYS.get(split_uri(uri)[0])
    if way is None or not hadoops:
        return dict(options)
    for name, value in way(uri, hadoops).items():
        if plain.setdefault(name, value) != value:
            raise InvalidRequestError(
                f"The option {name} of the store says one thing and a setting of Hadoop's another; "
                "leave one of them out"
            )
    return plain


def _is_hadoops(name: object) -> bool:
    return isinstance(name, str) and name.lower().startswith(_HADOOPS)


class _Settings:
    """Settings of one store, of which those that nobody has taken are refused in the end."""

    def __init__(self, prefix: str, left: dict[str, Any]) -> None:
        self._prefix, self._left = prefix, {n: v for n, v in left.items() if v is not None}

    def take(self, *names: str) -> str | None:
        """The value of the first of the names that has one."""
        found = [self._left.pop(name, None) for name in names]
        return next((str(value) for value in found if value is not None), None)

    def take_truth(self, name: str) -> bool | None:
        """Whether it is true; None where nothing is said."""
        value = self.take(name)
        return None if value is None else is_true(f"{self._prefix}{name}", value)

    def refusal(self, name: str, cure: str) -> InvalidRequestError:
        """The error for a setting."""
        return InvalidRequestError(
            f"The setting {self._prefix}{name} of Hadoop has no counterpart in the client of the "
            f"store; {cure}"
        )

    def refuse_rest(self, harmless: re.Pattern[str]) -> None:
        """Refuse what is left and not about how a client works."""
        for name in self._left:
            if not harmless.fullmatch(name):
                raise self.refusal(
                    name, "leave it out, or say it by the storage_options that the client has"
                )


def _s3(uri: str, given: Options) -> dict[str, Any]:
    bucket = f"fs.s3a.bucket.{split_uri(uri)[1].partition('/')[0].lower()}."
    of_all = {
        name.removeprefix("fs.s3a."): value
        for name, value in given.items()
        if name.startswith("fs.s3a.") and not name.startswith("fs.s3a.bucket.")
    }
    of_bucket = {
        name.removeprefix(bucket): value for name, value in given.items() if name.startswith(bucket)
    }
    settings = _Settings("fs.s3a.", of_all | of_bucket)
    if old := next(filter(_OLD_S3.match, given), None):
        raise InvalidRequestError(
            f"The setting {old} is of a connector that Hadoop does not have any more; give the one "
            "of fs.s3a. that stands for it"
        )
    path_style = settings.take_truth("path.style.access")
    found = {
        "key": settings.take("access.key"),
        "secret": settings.take("secret.key"),
        "token": settings.take("session.token"),
        "profile": settings.take("auth.profile.name"),
        "endpoint_url": _s3_endpoint(settings),
        "region": settings.take("endpoint.region"),
        "requester_pays": settings.take_truth("requester.pays.enabled"),
        "aws_virtual_hosted_style_request": None if path_style is None else not path_style,
        "anon": _is_anonymous(settings),
        "s3_additional_kwargs": _s3_encryption(settings),
    }
    settings.refuse_rest(_HOW_S3A_WORKS)
    return {name: value for name, value in found.items() if value is not None}


def _s3_endpoint(settings: _Settings) -> str | None:
    endpoint, is_https = settings.take("endpoint"), settings.take_truth("connection.ssl.enabled")
    if not endpoint or endpoint.partition("://")[2] == _CENTRAL_S3 or endpoint == _CENTRAL_S3:
        return None
    return endpoint if "://" in endpoint else f"http{'' if is_https is False else 's'}://{endpoint}"


def _is_anonymous(settings: _Settings) -> bool | None:
    """True where requests are not signed; None where the client finds credentials."""
    name = "aws.credentials.provider"
    classes = [each.strip() for each in (settings.take(name) or "").split(",")]
    kinds = [re.split(r"[.$]", each)[-1] for each in classes if each]
    if kinds == ["AnonymousAWSCredentialsProvider"]:
        return True
    for kind in kinds:
        if kind not in _FOUND_BY_ITSELF and kind != "AnonymousAWSCredentialsProvider":
            raise settings.refusal(name, "give keys, a profile, or what the environment has")
    return None


def _s3_encryption(settings: _Settings) -> dict[str, str] | None:
    name = "encryption.algorithm"
    algorithm = settings.take(name, "server-side-encryption-algorithm")
    key = settings.take("encryption.key", "server-side-encryption.key")
    if algorithm is None:
        return None
    if algorithm not in _ENCRYPTION:
        raise settings.refusal(name, f"give one of {', '.join(_ENCRYPTION)}")
    found = {"ServerSideEncryption": _ENCRYPTION[algorithm]}
    return {**found, "SSEKMSKeyId": key} if key else found


def _gcs(_uri: str, given: Options) -> dict[str, Any]:
    settings = _Settings(
        "fs.gs.",
        {n.removeprefix("fs.gs."): value for n, value in given.items() if n.startswith("fs.gs.")},
    )
    found = {"token": _gcs_token(settings), "project": settings.take("project.id")}
    settings.refuse_rest(_HOW_GCS_WORKS)
    return {name: value for name, value in found.items() if value is not None}


def _gcs_token(settings: _Settings) -> Any:
    kind = settings.take("auth.type")
    path = settings.take("auth.service.account.json.keyfile")
    user = {
        "client_id": settings.take("auth.client.id"),
        "client_secret": settings.take("auth.client.secret"),
        "refresh_token": settings.take("auth.refresh.token"),
    }
    match kind:
        case None | "SERVICE_ACCOUNT_JSON_KEYFILE":
            return path
        case "UNAUTHENTICATED":
            return "anon"
        case "COMPUTE_ENGINE":
            return "cloud"
        case "APPLICATION_DEFAULT":
            return "google_default"
        case "USER_CREDENTIALS":
            return {"type": "authorized_user", **user}
    raise settings.refusal("auth.type", "give SERVICE_ACCOUNT_JSON_KEYFILE and a key's file")


def _azure(uri: str, given: Options) -> dict[str, Any]:
    container, _, host = split_uri(uri)[1].partition("/")[0].lower().partition("@")
    settings = _Settings("fs.azure.", _settings_of_account(given, container, host))
    kind = settings.take("account.auth.type")
    provider = settings.take("account.oauth.provider.type")
    endpoint = settings.take("account.oauth2.client.endpoint") or ""
    tenant = _TENANT.fullmatch(endpoint)
    if endpoint and tenant is None:
        raise settings.refusal("account.oauth2.client.endpoint", "give tenant_id as an option")
    by_machine = (provider or "").endswith("MsiTokenProvider")
    if provider and not by_machine and not provider.endswith("ClientCredsTokenProvider"):
        raise settings.refusal("account.oauth.provider.type", "give a client's id and secret")
    if kind not in (None, "SharedKey", "SAS", "OAuth"):
        raise settings.refusal("account.auth.type", "give SharedKey, SAS or OAuth")
    found = {
        "account_key": settings.take("account.key"),
        "sas_token": settings.take("sas.fixed.token", "sas"),
        "client_id": settings.take("account.oauth2.client.id"),
        "client_secret": settings.take("account.oauth2.client.secret"),
        "tenant_id": tenant[1] if tenant else None,
        "anon": False if by_machine else None,
    }
    wanted = _BY_KIND.get(kind or "", tuple(found))
    settings.refuse_rest(_HOW_AZURE_WORKS)
    return {name: value for name, value in found.items() if value is not None and name in wanted}


_BY_KIND: Mapping[str, tuple[str, ...]] = {
    "SharedKey": ("account_key",),
    "SAS": ("sas_token",),
    "OAuth": ("client_id", "client_secret", "tenant_id", "anon"),
}
"""What Hadoop goes by, of all that may be set."""


def _settings_of_account(given: Options, container: str, host: str) -> dict[str, Any]:
    """Settings by their names without account and container; the closest says it."""
    of_all: dict[str, Any] = {}
    of_account: dict[str, Any] = {}
    of_container: dict[str, Any] = {}
    ends = (f".{host.replace('.blob.', '.dfs.')}", f".{host.replace('.dfs.', '.blob.')}")
    for full_name, value in given.items():
        if not full_name.startswith("fs.azure."):
            continue
        name = full_name.removeprefix("fs.azure.")
        end = next((each for each in ends if host and name.endswith(each)), None)
        if end is None:
            if not _AN_ACCOUNT.search(name):
                of_all[name] = value
        elif container and name.removesuffix(end).endswith(f".{container}"):
            of_container[name.removesuffix(end).removesuffix(f".{container}")] = value
        else:
            of_account[name.removesuffix(end)] = value
    return of_all | of_account | of_container


_WAYS: Mapping[str, Callable[[str, Options], dict[str, Any]]] = {
    **dict.fromkeys(("s3", "s3a"), _s3),
    **dict.fromkeys(("gs", "gcs"), _gcs),
    **dict.fromkeys(("abfs", "abfss", "az"), _azure),
}
