"""Random mutants of a package: one small change of the source each, chosen by a seed.

A mutant replaces one expression or statement inside of a function.
Docstrings, annotations, imports and `__all__` are never changed.
"""

from __future__ import annotations

import ast
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

COMPARISONS: dict[type[ast.cmpop], str] = {
    ast.Eq: "!=",
    ast.NotEq: "==",
    ast.Lt: "<=",
    ast.LtE: "<",
    ast.Gt: ">=",
    ast.GtE: ">",
    ast.Is: "is not",
    ast.IsNot: "is",
    ast.In: "not in",
    ast.NotIn: "in",
}
ARITHMETIC: dict[type[ast.operator], str] = {
    ast.Add: "-",
    ast.Sub: "+",
    ast.Mult: "+",
    ast.FloorDiv: "*",
    ast.Mod: "+",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """One change of one file."""

    path: str
    """Relative to the checkout."""
    line: int
    """From 1; the first line that changes."""
    start: int
    """Offset in characters, where `old` begins."""
    old: str
    new: str

    def apply(self, checkout: Path) -> str:
        """Write the mutant into a checkout.

        Returns:
            The original text of the file, to restore it.

        Raises:
            ValueError: The file does not have `old` there: it is of another version.
        """
        file = checkout / self.path
        text = file.read_text(encoding="utf-8")
        end = self.start + len(self.old)
        if text[self.start : end] != self.old:
            raise ValueError(f"{self.path}:{self.line}: the file has changed since the choice")
        file.write_text(text[: self.start] + self.new + text[end:], encoding="utf-8")
        return text

    def __str__(self) -> str:
        old, new = (" ".join(text.split()) for text in (self.old, self.new))
        return f"{self.path}:{self.line}: {old[:60]} -> {new[:60]}"


def choose_mutants(
    checkout: Path, folders: Sequence[str], *, count: int, seed: int
) -> list[Mutant]:
    """Choose mutants at random, each place in the code with the same chance.

    Args:
        checkout: Root of the checkout.
        folders: Folders below it, such as `delta_ops/log`.
        count: How many mutants.
        seed: Decides the choice. One seed and code always give the same mutants.
    """
    files = sorted(file for folder in folders for file in (checkout / folder).rglob("*.py"))
    mutants = [mutant for file in files for mutant in mutants_of(checkout, file)]
    return random.Random(seed).sample(mutants, count)


def mutants_of(checkout: Path, file: Path) -> Iterator[Mutant]:
    """All mutants of one file."""
    text = file.read_text(encoding="utf-8")
    path = file.relative_to(checkout).as_posix()
    offsets = _line_offsets(text)

    def span(node: ast.expr | ast.stmt) -> tuple[int, int]:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return (
            _offset(text, offsets, node.lineno, node.col_offset),
            _offset(text, offsets, node.end_lineno, node.end_col_offset),
        )

    for node in _changeable(ast.parse(text)):
        start, end = span(node)
        old = text[start:end]
        for new in _replacements(node, text, span):
            if new != old:
                yield Mutant(path=path, line=node.lineno, start=start, old=old, new=new)


def _changeable(tree: ast.Module) -> Iterator[ast.expr | ast.stmt]:
    """Expressions and statements inside of functions, without annotations and docstrings."""
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            for statement in function.body:
                yield from _nodes_below(statement)


def _nodes_below(node: ast.AST) -> Iterator[ast.expr | ast.stmt]:
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return  # functions inside of functions are visited by themselves
        case ast.Expr(value=ast.Constant()) | ast.JoinedStr() | ast.Assert():
            return
        case ast.AnnAssign(value=value):
            children: Iterable[ast.AST] = [value] if value else []
        case _:
            children = ast.iter_child_nodes(node)
            if isinstance(node, ast.expr | ast.stmt):
                yield node
    for child in children:
        yield from _nodes_below(child)


def _replacements(
    node: ast.expr | ast.stmt,
    text: str,
    span: Callable[[ast.expr], tuple[int, int]],
) -> Iterator[str]:
    """Texts that change what a node does."""

    def source(part: ast.expr) -> str:
        start, end = span(part)
        return f"({text[start:end]})"

    match node:
        case ast.Compare(left=left, ops=[operator], comparators=[right]):
            yield f"{source(left)} {COMPARISONS[type(operator)]} {source(right)}"
        case ast.BinOp(left=left, op=operator, right=right) if type(operator) in ARITHMETIC:
            yield f"{source(left)} {ARITHMETIC[type(operator)]} {source(right)}"
        case ast.BoolOp(op=operator, values=values):
            other = " or " if isinstance(operator, ast.And) else " and "
            yield other.join(map(source, values))
            yield source(values[0])
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield source(operand)
        case ast.Constant(value=bool(value)):
            yield str(not value)
        case ast.Constant(value=int(value)):
            yield str(value + 1)
        case ast.IfExp(body=body, orelse=orelse):
            yield source(body)
            yield source(orelse)
        case ast.Return(value=ast.expr()):
            yield "return None"
        case ast.Expr(value=ast.Call()) | ast.AugAssign() | ast.Raise() | ast.Continue():
            yield "pass"
        case ast.Break():
            yield "continue"


def _line_offsets(text: str) -> list[int]:
    offsets = [0]
    for line in text.splitlines(keepends=True):
        offsets.append(offsets[-1] + len(line))
    return offsets


def _offset(text: str, offsets: list[int], line: int, column: int) -> int:
    """Offset in characters; `ast` counts columns in bytes of UTF-8."""
    start = offsets[line - 1]
    prefix = text[start : offsets[line]].encode()[:column]
    return start + len(prefix.decode())
