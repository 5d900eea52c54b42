"""Texts for people in a hurry: docstrings that begin with their subject, decisions of a page."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[1]
PACKAGE = PROJECT / "delta_ops"
DECISIONS = sorted((PROJECT / "docs" / "decisions").glob("*.md"))
PAGE_WORDS = 800
PLACES = [PACKAGE, *(PROJECT / each for each in ("benchmarks", "examples", "scripts"))]
TESTS = PROJECT / "tests"

# Such a docstring hides its subject.
_MIDDLE = r"(?:Of|That|Those|So many|The same)\b"
_BEGINS_IN_THE_MIDDLE = re.compile(rf"(?:\A\s*|^ +[a-z_]+: ){_MIDDLE}.*", re.MULTILINE)
_MAY_BEGIN_IN_THE_MIDDLE = re.compile(rf"""(?:["']\s*|^ +[a-z_]+: ){_MIDDLE}""", re.MULTILINE)
"""Matches the source of each such docstring; a search is faster than parsing."""
_BEGINS_WITHOUT_SUBJECT = re.compile(r"(?:As|By|From|In|Only|To be|With) .*|Nothing: .*")
"""Fields and constants may begin this way, because their name is the subject."""


@cache
def parse(source: str) -> ast.Module:
    """Parse a module once for all tests of this file."""
    return ast.parse(source)


@pytest.fixture(scope="module", autouse=True)
def _forget_modules() -> Iterator[None]:
    yield
    parse.cache_clear()


def docstrings(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and text of the docstrings of modules, classes, functions and attributes."""
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        for each in body if isinstance(body, list) else []:
            match each:
                case ast.Expr(value=ast.Constant(value=str(text))):
                    yield each.lineno, text


def texts_from_the_middle(source: str) -> list[str]:
    if not _MAY_BEGIN_IN_THE_MIDDLE.search(source):
        return []
    return [
        f"line {line}: {found[0].strip()}"
        for line, text in docstrings(parse(source))
        for found in _BEGINS_IN_THE_MIDDLE.finditer(text)
    ]


def texts_without_subject(source: str) -> list[str]:
    return [
        f"line {node.lineno}: {found[0]}"
        for node in ast.walk(parse(source))
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        if (found := _BEGINS_WITHOUT_SUBJECT.match(ast.get_docstring(node) or ""))
    ]


def found_in(source: str) -> list[str]:
    return [*texts_from_the_middle(source), *texts_without_subject(source)]


def found_below(places: Iterable[Path], look: Callable[[str], list[str]]) -> dict[str, list[str]]:
    files = sorted(path for place in places for path in place.rglob("*.py"))
    assert files
    found = {str(path.relative_to(PROJECT)): look(path.read_text()) for path in files}
    return {path: texts for path, texts in found.items() if texts}


def test_no_docstring_begins_in_the_middle_of_a_sentence() -> None:
    assert found_below([*PLACES, TESTS], texts_from_the_middle) == {}


def test_a_docstring_says_what_it_is_about() -> None:
    assert found_below(PLACES, texts_without_subject) == {}


@pytest.mark.parametrize(
    "source",
    [
        pytest.param('"""Of a table."""', id="of a module"),
        pytest.param('class A:\n    """That is none."""', id="of a class"),
        pytest.param('def a():\n    """Those that stay."""', id="of a function"),
        pytest.param('class A:\n    async def a(self):\n        """So many."""', id="of a method"),
        pytest.param('class A:\n    size: int\n    """Of it."""', id="of a field"),
        pytest.param('SIZE = 1\n"""The same."""', id="of a constant"),
        pytest.param('def a():\n    """\n    Of a table."""', id="on its second line"),
        pytest.param(
            'def a():\n    """Do.\n\n    Args:\n        b: Of it."""', id="of an argument"
        ),
        pytest.param('def a():\n    """By path."""', id="of a function that names no subject"),
        pytest.param('class A:\n    """As given."""', id="of a class that names no subject"),
    ],
)
def test_the_docstring_is_found(source: str) -> None:
    assert len(found_in(source)) == 1


@pytest.mark.parametrize(
    "source",
    [
        pytest.param('"""Offsets of values."""', id="a word that begins alike"),
        pytest.param('"""Keep files.\n\nThose of a table."""', id="a later sentence"),
        pytest.param('name = "Of a table"', id="a text that is no docstring"),
        pytest.param('class A:\n    size: int\n    """By path."""', id="a field is a subject"),
        pytest.param('def a():\n    """In-commit timestamps."""', id="a noun of the protocol"),
    ],
)
def test_only_the_first_words_count(source: str) -> None:
    assert found_in(source) == []


def test_a_decision_fits_on_a_page() -> None:
    words = {each.stem: len(each.read_text().split()) for each in DECISIONS}
    longer = {name: count for name, count in words.items() if count > PAGE_WORDS}
    assert longer == {}, "move details to docs/measurements"


def test_a_decision_says_why_what_and_what_follows() -> None:
    heading = re.compile(r"^(?:## |\*\*)(Context|Decision|Consequences)\b", re.MULTILINE)
    wrong = {
        each.stem: parts
        for each in DECISIONS
        if (parts := list(dict.fromkeys(heading.findall(each.read_text()))))
        != ["Context", "Decision", "Consequences"]
    }
    assert wrong == {}
    assert DECISIONS


# Public names that stay: `DeltaLog.over(storage)`, `Transaction.done_before()`.
_KEPT_NAMES = frozenset({"over", "done_before"})
_PREPOSITION = re.compile(
    "above|after|among|as|at|before|below|between|by|for|from|in|into|like|of|over|since|"
    "through|unless|unlike|until|while|with|within|without"
)
_PARTICIPLE = re.compile(
    "become|begun|bound|broken|brought|built|chosen|done|drawn|fallen|forgotten|found|frozen|"
    "given|gone|grown|held|hidden|kept|known|left|lost|made|meant|met|said|seen|sent|shown|"
    "sold|spoilt|sworn|taken|thrown|told|torn|understood|unknown|unseen|won|written"
)
_ADJECTIVE = re.compile(
    "absolute|alone|anonymous|bare|basic|canonical|comparable|convertible|deletable|distinct|"
    "due|even|final|flat|healthy|last|latest|live|malformed|misleading|missing|most|native|"
    "natural|negative|newest|nullable|oldest|plain|positive|printable|readable|relative|same|"
    "shorter|small|stale|unconditional|unreadable|whole"
)
_ADVERB = re.compile("again|alone|apart|away|back|before|elsewhere|late|now|since|together")
_VALUES = frozenset({"property", "lazy", "cached_property", "setter"})


def _is(words: re.Pattern[str], word: str) -> bool:
    return words.fullmatch(word) is not None


def says_what_it_does(name: str) -> bool:
    """Whether a function's name is a verb or a noun, judged by its words.

    A participle or an adjective needs a noun (`deleted_files`), and a preposition cannot begin a
    name. Exceptions: `on_event` is the usual name of a listener, and an in-commit timestamp is a
    noun of the protocol.
    """

    def is_quality(word: str) -> bool:
        is_regular = re.fullmatch(r"\w+[^e]ed", word) is not None and word not in ("embed", "shed")
        return is_regular or _is(_PARTICIPLE, word) or _is(_ADJECTIVE, word)

    first, *rest = name.strip("_").removeprefix("in_commit_").split("_")
    if name in _KEPT_NAMES or name.startswith("__"):
        return True
    if _is(_PREPOSITION, first):
        return False
    has_noun = bool(rest) and not (_is(_PREPOSITION, rest[0]) or _is(_ADVERB, rest[0]))
    return not is_quality(first) or (has_noun and not all(map(is_quality, rest)))


def misnamed_in(source: str) -> list[str]:
    """Functions with a name that is no verb and no noun; a property may be either."""
    return [
        f"line {node.lineno}: {node.name}"
        for node in ast.walk(parse(source))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and not says_what_it_does(node.name)
        and not any(ast.unparse(each).split(".")[-1] in _VALUES for each in node.decorator_list)
    ]


def test_functions_are_verbs_or_nouns() -> None:
    assert found_below(PLACES, misnamed_in) == {}


@pytest.mark.parametrize(
    "source",
    [
        pytest.param("def _listed(names): ...", id="a participle"),
        pytest.param("def found(): ...", id="an irregular participle"),
        pytest.param("def removed_before(time_ms): ...", id="a participle and a preposition"),
        pytest.param("def _taken_apart(lines): ...", id="a participle and an adverb"),
        pytest.param("def _parsed_small(data): ...", id="a participle and an adjective"),
        pytest.param("def _plain(value): ...", id="an adjective"),
        pytest.param("def _of_files(figures): ...", id="a preposition"),
        pytest.param("def a():\n    async def asked(): ...", id="within a function"),
        pytest.param("class A:\n    def without_high(self): ...", id="a method"),
    ],
)
def test_a_function_that_is_neither_verb_nor_noun_is_found(source: str) -> None:
    assert len(misnamed_in(source)) == 1


@pytest.mark.parametrize(
    "source",
    [
        pytest.param("def find_files(): ...", id="a verb"),
        pytest.param("def _need(): ...", id="a verb that ends like a participle"),
        pytest.param("def deleted_files(): ...", id="a participle with its noun"),
        pytest.param("def is_known(): ...", id="a claim"),
        pytest.param("def to_table(): ...", id="a conversion"),
        pytest.param("class A:\n    @property\n    def failed(self): ...", id="a property"),
        pytest.param("class A:\n    @lazy\n    def kept(self): ...", id="a lazy value"),
    ],
)
def test_a_verb_a_noun_and_a_value_pass(source: str) -> None:
    assert misnamed_in(source) == []
