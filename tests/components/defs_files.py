"""A component in a `defs.yaml`, loaded as in a project."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import dagster as dg
import yaml
from dagster.components.testing.utils import DefsFolderSandbox


@contextmanager
def loaded(
    sandbox: DefsFolderSandbox, kind: str, attributes: dict[str, Any], **document: Any
) -> Iterator[tuple[Any, dg.Definitions]]:
    """The component of a file `lake/defs.yaml`, and its definitions.

    Args:
        document: Parts of the file beside type and attributes.
    """
    folder = sandbox.defs_folder_path / "lake"
    folder.mkdir(exist_ok=True)
    whole = {"type": f"delta_ops.components.{kind}", "attributes": attributes, **document}
    (folder / "defs.yaml").write_text(yaml.safe_dump(whole, sort_keys=False))
    with warnings.catch_warnings():
        # Dagster's own warnings: how it loads files and extends their definitions.
        warnings.simplefilter("ignore", dg.BetaWarning)
        warnings.simplefilter("ignore", dg.PreviewWarning)
        with sandbox.load_component_and_build_defs(defs_path=folder) as (component, defs):
            yield component, defs


def specs_by_key(defs: dg.Definitions) -> dict[str, dg.AssetSpec]:
    """The assets by their keys as text."""
    return {spec.key.to_user_string(): spec for spec in defs.resolve_all_asset_specs()}
