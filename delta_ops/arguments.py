"""Arguments: validate a caller's arguments by the annotations of a public function.

Python does not check the types of arguments: `dry_run="no"` would count as true, and
`keep_last="2"` would cause a traceback from an inner function. Therefore a public function begins
with `validate_arguments(itself, locals())`, and its signature alone defines the valid types.

A whole number is any value that Python accepts as an index, including numpy's integers; a flag must
be a bool. The elements of lists are checked, except for sets and iterators. Other parts of an
annotation (keys of a mapping, arguments of a function) are checked by the code that uses them.
"""

from __future__ import annotations

import os
import re
import types
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from dataclasses import MISSING, fields
from datetime import date, timedelta
from functools import cache, wraps
from inspect import Parameter, Signature, cleandoc, signature
from numbers import Real
from typing import (
    Any,
    ClassVar,
    Literal,
    ParamSpec,
    Protocol,
    SupportsIndex,
    TypeVar,
    Union,
    Unpack,
    get_args,
    get_origin,
    get_type_hints,
)

from delta_ops.error_texts import value_text
from delta_ops.errors import InvalidRequestError

_SECRET = frozenset({"storage_options", "outside"})
"""Arguments whose values are never shown in a message."""
_WORDS: Mapping[Any, str] = {
    bool: "True or False",
    int: "a whole number",
    float: "a number",
    str: "a string",
    timedelta: "a duration, such as timedelta(hours=168)",
    date: "a date or datetime",
    type(None): "None",
}

_Fits = Callable[[object], bool]
_SECTIONS = ("Args", "Returns", "Raises", "Examples")
P = ParamSpec("P")
R = TypeVar("R")


def validate_arguments(function: Callable[..., Any], arguments: Mapping[str, object]) -> None:
    """Reject an argument whose type does not match the function's annotation.

    Args:
        function: The called function.
        arguments: Arguments by name; names without an annotation are skipped.

    Raises:
        InvalidRequestError: The message names the function, the argument and the valid types.
    """
    for name, (fits, annotation) in _parameters(function).items():
        if name in arguments and not fits(arguments[name]):
            value = arguments[name]
            shown = "" if name in _SECRET else f" {value_text(value)},"
            raise InvalidRequestError(
                f"{function.__qualname__}: {name} is{shown} of type {type(value).__name__}; give "
                f"{_words(annotation)}"
            )
        if name in arguments and _is_beyond_longs(arguments[name]):
            raise InvalidRequestError(
                f"{function.__qualname__}: {name} is {value_text(arguments[name])}; give a whole "
                "number that fits 64 bits"
            )


@cache
def _parameters(function: Callable[..., Any]) -> dict[str, tuple[_Fits, Any]]:
    """The check and the annotation of each argument."""
    found = get_type_hints(function)
    found.pop("return", None)
    for name, annotation in list(found.items()):
        if get_origin(annotation) is Unpack:
            del found[name]
            found |= get_type_hints(get_args(annotation)[0])
    return {name: (_plan_fits(each), each) for name, each in found.items()}


def _plan_fits(annotation: Any) -> _Fits:
    """Build the check for an annotation; each function builds its checks only once."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin in (Union, types.UnionType):
        return _plan_any(arguments)
    if origin is Literal:
        return lambda value: type(value) in map(type, arguments)
    if annotation is int:
        return _is_whole_number
    if annotation is float:
        return lambda value: isinstance(value, Real) and not isinstance(value, bool)
    if origin is tuple:
        return lambda value: isinstance(value, tuple)
    if origin in (Collection, Sequence):
        return _plan_elements(origin, _plan_fits(arguments[0]))
    if isinstance(origin, type):
        return lambda value: isinstance(value, origin) and not isinstance(value, str | bytes)
    if getattr(annotation, "_is_runtime_protocol", False):
        return lambda value: isinstance(value, annotation)
    is_protocol = getattr(annotation, "_is_protocol", False)
    if annotation is not Any and isinstance(annotation, type) and not is_protocol:
        return lambda value: isinstance(value, annotation) or _is_namesake(type(value), annotation)
    return lambda _: True


def _is_namesake(actual: type, wanted: type) -> bool:
    """Whether two classes share name and package, like PySpark's two session classes."""
    package = wanted.__module__.partition(".")[0]
    return actual.__name__ == wanted.__name__ and actual.__module__.startswith(f"{package}.")


def _plan_any(annotations: Sequence[Any]) -> _Fits:
    takes_none = type(None) in annotations
    tests = [_plan_fits(each) for each in annotations if each is not type(None)]
    return lambda value: (value is None and takes_none) or any(fits(value) for fits in tests)


def _plan_elements(kind: type, fits: _Fits) -> _Fits:
    def fit(value: object) -> bool:
        if not isinstance(value, kind) or isinstance(value, str | bytes):
            return False
        assert isinstance(value, Collection)
        return isinstance(value, Set | Mapping) or all(map(fits, value))

    return fit


def _is_whole_number(value: object) -> bool:
    return isinstance(value, int | SupportsIndex) and not isinstance(value, bool)


def _is_beyond_longs(value: object) -> bool:
    return type(value) is int and not -(2**63) <= value < 2**63


def _words(annotation: Any) -> str:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin in (Union, types.UnionType):
        # None comes last; several classes may have the same words.
        ordered = sorted(arguments, key=lambda each: each is type(None))
        *others, last = dict.fromkeys(map(_words, ordered))
        comma = "," if len(others) > 1 else ""
        return f"{', '.join(others)}{comma} or {last}" if others else last
    if origin is Literal:
        return " or ".join(map(repr, arguments))
    if origin is Callable:
        return "a function"
    if origin is not None and isinstance(origin, type):
        if issubclass(origin, Mapping):
            return "a mapping"
        if issubclass(origin, tuple):
            return f"a tuple of {_plural_words(arguments)}"
        if origin is os.PathLike:
            return "a path"
        if origin in (Collection, Iterable, Sequence):
            return f"a list of {_plural_words(arguments)}"
        return f"a {origin.__name__}"
    if annotation in _WORDS:
        return _WORDS[annotation]
    article = "an" if annotation.__name__[0] in "AEIOU" else "a"
    return str(getattr(annotation, "__words__", f"{article} {annotation.__name__}"))


def _plural_words(annotations: tuple[Any, ...]) -> str:
    """Words for several elements of a type, such as "strings"."""
    if get_origin(annotations[0]) is Literal:
        return ", ".join(map(repr, get_args(annotations[0])))
    if get_origin(annotations[0]) in (Union, types.UnionType):
        annotations = get_args(annotations[0])
    words = (re.sub("^an? ", "", _words(each)) for each in annotations if each is not Ellipsis)
    return ", ".join(dict.fromkeys(f"{each}s" for each in words))


class SharedRequest(Protocol):
    """A dataclass that holds the arguments of several public functions."""

    options: ClassVar[tuple[type, ...]]
    """TypedDicts with the options of these functions, the functions' own first."""
    __dataclass_fields__: ClassVar[dict[str, Any]]


def shares_options(request: type[SharedRequest]) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorate a public function that shares its `**options` with other functions.

    Each call validates its arguments. `help` and `inspect.signature` show the options as if the
    function listed and documented them.

    Args:
        request: Has the default value of each option. The sections Args and Raises of its `options`
            are appended to the function's sections.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        shown = _list_options(signature(function), request)

        @wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            validate_arguments(function, shown.bind(*args, **kwargs).arguments)
            return function(*args, **kwargs)

        documented = (each.__doc__ for each in request.options)
        call.__doc__ = _join_documentation([function.__doc__, *documented])
        vars(call)["__signature__"] = shown
        return call

    return decorate


def _list_options(shown: Signature, request: type[SharedRequest]) -> Signature:
    values = {each.name: each.default for each in fields(request) if each.default is not MISSING}
    own = [p for p in shown.parameters.values() if p.kind is not Parameter.VAR_KEYWORD]
    listed = (
        Parameter(
            name,
            Parameter.KEYWORD_ONLY,
            default=values[name],
            annotation=getattr(annotation, "__forward_arg__", annotation),
        )
        for name, annotation in request.options[0].__annotations__.items()
    )
    return shown.replace(parameters=[*own, *listed])


def _join_documentation(texts: Sequence[str | None]) -> str:
    """Join docstrings: the first docstring, extended by the sections of all others."""
    heads, sections = [], dict.fromkeys(_SECTIONS, "")
    for text in texts:
        head, *rest = re.split(rf"^({'|'.join(_SECTIONS)}):\n", cleandoc(text or ""), flags=re.M)
        heads.append(head)
        for name, body in zip(rest[::2], rest[1::2], strict=True):
            sections[name] += body.rstrip() + "\n"
    parts = [heads[0].rstrip(), *(f"{n}:\n{body}" for n, body in sections.items() if body)]
    return "\n\n".join(each.rstrip() for each in parts) + "\n"
