"""Extension of griffe: shows the options that public functions share.

`shares_options` changes the signature and the docstring of a function when its module is imported.
Griffe reads the source only, so it would show `**options`. This extension imports the function and
takes both from there.
"""

from __future__ import annotations

from importlib import import_module
from inspect import Parameter, signature
from typing import Any

from griffe import Docstring, Extension, Function, ParameterKind
from griffe import Parameter as ShownParameter
from griffe import Parameters as ShownParameters

_KINDS = {
    Parameter.POSITIONAL_ONLY: ParameterKind.positional_only,
    Parameter.POSITIONAL_OR_KEYWORD: ParameterKind.positional_or_keyword,
    Parameter.VAR_POSITIONAL: ParameterKind.var_positional,
    Parameter.KEYWORD_ONLY: ParameterKind.keyword_only,
    Parameter.VAR_KEYWORD: ParameterKind.var_keyword,
}


class SharedOptions(Extension):
    """Takes signature and docstring of decorated functions from the imported function."""

    def on_function(self, *, func: Function, **_: Any) -> None:
        """Change a decorated function."""
        if any("shares_options" in str(each.value) for each in func.decorators):
            function = getattr(import_module(func.module.path), func.name)
            shown = signature(function).parameters.values()
            func.parameters = ShownParameters(*map(_parameter, shown))
            func.docstring = Docstring(function.__doc__, parent=func)


def _parameter(parameter: Parameter) -> ShownParameter:
    has_default = parameter.default is not Parameter.empty
    return ShownParameter(
        parameter.name,
        annotation=str(parameter.annotation),
        kind=_KINDS[parameter.kind],
        default=repr(parameter.default) if has_default else None,
    )
