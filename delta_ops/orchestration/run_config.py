"""Run config: the base of the config classes of our jobs, which rejects unknown fields."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any

import dagster as dg

from delta_ops.errors import InvalidRequestError


class StrictConfig(dg.Config):
    """Config that rejects a field it does not have.

    Dagster ignores such a field of a config class, so that a job with `dry_runn=True` would act.
    """

    def __init__(self, **fields: Any) -> None:
        """Check the names of the fields.

        Raises:
            InvalidRequestError: A field is unknown; the error names the closest field.
        """
        known = list(type(self).model_fields)
        for name in fields:
            if name not in known:
                (closest,) = get_close_matches(name, known, n=1, cutoff=0)
                raise InvalidRequestError(
                    f"{type(self).__name__} has no field {name}; the closest field is {closest}"
                )
        super().__init__(**fields)
