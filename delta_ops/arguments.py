"""Arguments: what a caller gives to a public function, held against the function's annotations.

Python runs a call whatever the types of its arguments are: `dry_run="no"` would act as if it were
true, and `keep_last="2"` would end in a traceback from far below. So a public function begins with
`validate_arguments(itself, locals())`, and its signature is the one place that says what it takes.

Whole numbers are what Python can use as an index, so that those of numpy count; a flag is a bool.
Lists are looked through, but for sets and for what can be gone through once. What an annotation
says beyond that (the keys of a mapping, the arguments of a function) is left to whoever uses it.
"""

from __future__ import annotations

import os
import reprlib
import types
from collections.abc import Callable, Collection, Mapping, Sequence, Set
from datetime import datetime, timedelta
from functools import cache
from numbers import Real
from typing import Any, Literal, SupportsIndex, Union, get_args, get_origin, get_type_hints

from delta_ops.errors import InvalidRequestError

_SECRET = frozenset({"storage_options", "outside"})
"""Arguments whose value no message repeats."""
_WORDS: Mapping[Any, str] = {
    bool: "True or False",
    int: "a whole number",
    float: "a number",
    str: "a text",
    timedelta: "a duration, such as timedelta(hours=168)",
    datetime: "a datetime with a time of day",
    type(None): "None",
}


def validate_arguments(function: Callable[..., Any], given: Mapping[str, object]) -> None:
    """Refuse an argument of another type than the function's annotation says.

    Args:
        function: The function that was called.
        given: By name; what the function has no annotation for is passed over.

    Raises:
        InvalidRequestError: With the function, the argument and what to give.
    """
    for name, annotation in _annotations(function).items():
        if name in given and not _fits(given[name], annotation):
            value = given[name]
            shown = "" if name in _SECRET else f" {reprlib.repr(value)},"
            raise InvalidRequestError(
                f"{function.__qualname__}: {name} is{shown} of type {type(value).__name__}; give "
                f"{_words(annotation)}"
            )


@cache
def _annotations(function: Callable[..., Any]) -> dict[str, Any]:
    found = get_type_hints(function)
    found.pop("return", None)
    return found


def _fits(value: object, annotation: Any) -> bool:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if annotation is Any:
        return True
    if origin in (Union, types.UnionType):
        return any(_fits(value, each) for each in arguments)
    if origin is Literal:
        return type(value) in map(type, arguments)
    if annotation is bool or annotation is type(None):
        return isinstance(value, annotation)
    if annotation is int:
        return isinstance(value, SupportsIndex) and not isinstance(value, bool)
    if annotation is float:
        return isinstance(value, Real) and not isinstance(value, bool)
    if origin is tuple:
        return isinstance(value, tuple)
    if isinstance(origin, type):
        return isinstance(value, origin) and _elements_fit(value, origin, arguments)
    if isinstance(annotation, type) and not getattr(annotation, "_is_protocol", False):
        return isinstance(value, annotation)
    return True


def _elements_fit(value: object, origin: type, arguments: tuple[Any, ...]) -> bool:
    if origin not in (Collection, Sequence):
        return not isinstance(value, str | bytes)
    if isinstance(value, str | bytes):
        return False
    assert isinstance(value, Collection)
    return isinstance(value, Set | Mapping) or all(_fits(each, arguments[0]) for each in value)


def _words(annotation: Any) -> str:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin in (Union, types.UnionType):
        # None last; several classes may share their words.
        ordered = sorted(arguments, key=lambda each: each is type(None))
        return " or ".join(dict.fromkeys(map(_words, ordered)))
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
        if origin in (Collection, Sequence):
            return f"a list of {_plural_words(arguments)}"
        return f"a {origin.__name__}"
    if annotation in _WORDS:
        return _WORDS[annotation]
    return str(getattr(annotation, "__words__", f"a {annotation.__name__}"))


def _plural_words(annotations: tuple[Any, ...]) -> str:
    """What the elements are, as more than one."""
    if get_origin(annotations[0]) is Literal:
        return ", ".join(map(repr, get_args(annotations[0])))
    words = (_words(each).removeprefix("a ") for each in annotations if each is not Ellipsis)
    return ", ".join(dict.fromkeys(f"{each}s" for each in words))
