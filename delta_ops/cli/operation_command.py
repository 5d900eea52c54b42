"""The command of an operation without its own module, built from its registry entry."""

from __future__ import annotations

from types import NoneType
from typing import Any, get_args

import click

from delta_ops.cli.options import dry_run_option, json_option, open_table, table_argument
from delta_ops.cli.render import command_error, progress, show_fields, show_result
from delta_ops.maintenance.operation import OperationEntry, Option, Request
from delta_ops.units import count_text


def operation_command(entry: OperationEntry[Any]) -> click.Command:
    """Build a command with the entry's options; it prints the figures of the result."""

    def run(
        table: str, storage_options: dict[str, Any], dry_run: bool, as_json: bool, **options: Any
    ) -> None:
        log = open_table(table, storage_options)
        with progress(wanted=not as_json) as on_event:
            result = entry.run(log, Request(on_event=on_event), options, dry_run=dry_run)
        if as_json:
            show_result(entry, log.uri, result)
        else:
            figures = entry.planned(result) if dry_run else entry.figures(result)
            show_fields({name.replace("_", " "): value for name, value in figures.items()})
        done = entry.figures(result).items()
        failures = sum(number for name, number in done if name.endswith("_failures"))
        if failures:
            raise command_error(
                f"{count_text(failures, 'file')} could not be deleted or read; check the "
                "permissions and run this again."
            )

    command = table_argument(dry_run_option(json_option(run)))
    for option in reversed(entry.options):
        command = _click_option(option)(command)
    summary = (entry.act.__doc__ or "").partition("\n")[0]
    return click.command(entry.command, help=summary)(command)


def _click_option(option: Option) -> Any:
    """The command line option for an option of the operation."""
    flag, default = f"--{option.name.replace('_', '-')}", option.default
    kinds = [each for each in get_args(option.kind) if each is not NoneType] or [option.kind]
    settings: dict[str, Any] = {"default": default, "help": option.description}
    if option.choices:
        settings["type"] = click.Choice(option.choices)
    elif kinds[0] is bool:
        flag = f"{flag}/--no-{option.name.replace('_', '-')}"
    elif option.at_least is not None:
        settings["type"] = click.IntRange(min=option.at_least)
    elif kinds[0] == list[str]:
        settings |= {"multiple": True, "callback": lambda _c, _p, texts: list(texts) or default}
    else:
        settings["type"] = kinds[0]
    return click.option(option.name, flag, **settings)
