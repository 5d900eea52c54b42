"""A Dagster project in the layout of `create-dagster`."""

from __future__ import annotations

from pathlib import Path

SETTINGS = """
[tool.dg]
directory_type = "project"

[tool.dg.project]
root_module = "my_lake"
registry_modules = ["delta_ops.components"]

[tool.dg.cli]
suppress_warnings = ["create_dagster_outdated", "project_and_activated_venv_mismatch"]
"""
# The section `cli.telemetry` of the project would be an error in Dagster 1.12.0.
INSTANCE = "telemetry:\n  enabled: false\n"


def make_project(root: Path) -> Path:
    """Make a project in a folder, and return the folder of its definitions."""
    root.mkdir(exist_ok=True)
    (root / "pyproject.toml").write_text(SETTINGS)
    (root / "dagster.yaml").write_text(INSTANCE)
    package = root / "src" / "my_lake"
    (package / "defs").mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "defs" / "__init__.py").touch()
    (package / "definitions.py").write_text(
        "from pathlib import Path\n\nimport dagster as dg\n\n\n@dg.definitions\ndef defs():\n"
        "    return dg.load_from_defs_folder(path_within_project=Path(__file__).parent)\n"
    )
    return package / "defs"
