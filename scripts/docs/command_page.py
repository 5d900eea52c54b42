"""The page that lists all commands of `delta-ops`, with their arguments and options."""

from __future__ import annotations

from collections.abc import Iterator
from inspect import cleandoc

import click

HEAD = """# Commands

This page lists the arguments and options of all commands, as `--help` shows them. \
[Terminal](../terminal.md) shows how to use them, and lists the exit codes.

Where *default* is empty, the option is off or has no value. `COMMAND -h` shows the same help.
"""


def command_page() -> str:
    """The page, from the commands of click."""
    from delta_ops.cli.main import cli

    # With its settings, as in a real call: a command caches the help options of its first context.
    context = click.Context(cli, **cli.context_settings)
    return HEAD + "".join(_sections(cli, "delta-ops", context, level=2))


def _sections(group: click.Group, name: str, context: click.Context, level: int) -> Iterator[str]:
    for each in group.list_commands(context):
        command = group.commands[each]
        inner = click.Context(command, context)
        yield _section(command, f"{name} {each}", inner, level)
        if isinstance(command, click.Group):
            yield from _sections(command, f"{name} {each}", inner, level + 1)


def _section(command: click.Command, name: str, context: click.Context, level: int) -> str:
    usage = " ".join(command.collect_usage_pieces(context))
    text = cleandoc(command.help or "").replace("\b\n", "")
    rows = "".join(_rows(command, context))
    table = f"\n| option | default | meaning |\n|---|---|---|\n{rows}" if rows else ""
    example = cleandoc((command.epilog or "").replace("\b\n", "").removeprefix("Example:\n"))
    shown = f"\n```bash\n{example}\n```\n" if example else ""
    return (
        f"\n{'#' * level} {name.removeprefix('delta-ops ')}\n\n"
        f"```text\n{name} {usage}\n```\n\n{_escape(text)}\n{shown}{table}"
    )


def _rows(command: click.Command, context: click.Context) -> Iterator[str]:
    for each in command.get_params(context):
        record = each.get_help_record(context)
        if record is None or not isinstance(each, click.Option) or "--help" in each.opts:
            continue
        shown = record[0].replace("|", r"\|")
        yield f"| `{shown}` | {_default(each)} | {_cell_text(each.help or '')} |\n"


def _default(option: click.Option) -> str:
    default = option.to_info_dict()["default"]
    return "" if default in (None, False, (), [], "") else f"`{default}`"


def _cell_text(text: str) -> str:
    return _escape(" ".join(text.split())).replace("|", r"\|")


def _escape(text: str) -> str:
    """Keep characters of a help text from being read as HTML or as emphasis."""
    return text.replace("<", "&lt;").replace("*", r"\*").replace("_", r"\_")
