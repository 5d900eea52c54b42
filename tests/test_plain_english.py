"""Plain English: sentences that must be read twice, names, and the form of decisions.

Four rules, each in a section of its own:

1. Docstrings, comments, messages and Markdown avoid the constructions of `PATTERNS`.
2. The docstring of a class or function begins with its subject.
3. The name of a function is a verb or a noun, in words that users of Delta and Dagster know.
4. A decision fits on a page, and has a context, a decision and consequences.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

PROJECT = Path(__file__).resolve().parents[1]
CODE = [PROJECT / each for each in ("delta_ops", "benchmarks", "examples", "scripts")]
TESTS = [PROJECT / "tests"]
PAGES = [*sorted(PROJECT.glob("*.md")), PROJECT / "docs", PROJECT / "benchmarks"]
DECISIONS = sorted((PROJECT / "docs" / "decisions").glob("*.md"))
PAGE_WORDS = 800
MOST = 0.02
"""Most texts of a kind that may match a pattern, as a share."""


@cache
def parse(source: str) -> ast.Module:
    """Parse a module once for all tests of this file."""
    return ast.parse(source)


@cache
def sources(places: tuple[Path, ...], suffix: str) -> dict[str, str]:
    """Texts of files by path."""
    files = [
        file
        for place in places
        for file in ([place] if place.is_file() else sorted(place.rglob(f"*{suffix}")))
        if not any(part.startswith(".") for part in file.relative_to(PROJECT).parts)
    ]
    assert files
    return {str(file.relative_to(PROJECT)): file.read_text() for file in files}


@pytest.fixture(scope="module", autouse=True)
def _forget_sources() -> Iterator[None]:
    yield
    parse.cache_clear()
    sources.cache_clear()
    may_be_crooked.cache_clear()


# Rule 1: sentences.


class Pattern(NamedTuple):
    """A construction that makes readers go back in a sentence, and what to write instead."""

    regex: str
    cure: str


_BEGIN = r"(?:^|(?<=[.:;] ))"

PATTERNS = (
    Pattern(
        r"\b(?:of|by|in|to|with|from|on|for|at|after|before|into|through|under|below|above|within|"
        r"without|beside|behind) which\b",
        "the reader must find the noun of `which`: make two sentences",
    ),
    Pattern(
        r"\bthose (?:that|of|which|who|in|it|by|with|from|for|to|on|at|whose|is|are|they|we)\b|"
        r"\b(?:the|its|their|an?) (?:(?:other|first|last|new|old|next|same) )?ones?\b"
        r"(?! of| by one|-)|\bones\b",
        "say the noun again",
    ),
    Pattern(
        _BEGIN + r"(?:What|Whatever|Whoever|Who)\b(?![^.]*\?)",
        "a clause is the subject: name the thing, then say what it does",
    ),
    Pattern(
        _BEGIN + r"(?:Of|Nothing (?!is |was |to )|So (?:many|much|long|large|old))(?:\b| )",
        "put the subject first",
    ),
    Pattern(r"\bt(?:ells?|old|elling)\b", "code reports, records, returns or describes"),
    Pattern(r"\bask(?:s|ed|ing)?\b", "code requests, requires, calls or checks"),
    Pattern(
        r"\bstands?\b|\b(?:comes?|came) to (?:be|have|need|know|hold)\b|\bheed|"
        r"\bbe (?:it|they)\b|\bas (?:it|they) (?:was|were) before\b",
        "an old word: write is, must, respect or cancel",
    ),
    Pattern(r"\bthat (?:of (?:the|a|an|it|its|each|what)|which)\b", "say the noun again"),
    Pattern(r"\bbut (?:for|that)\b|\bsave (?:for|that)\b", "say `except`, or make two sentences"),
)
_PATTERN = re.compile("|".join(f"({each.regex})" for each in PATTERNS), re.MULTILINE)

REVIEWED: tuple[str, ...] = ()
"""Parts of texts that match a pattern and are plain all the same; each was read by a reviewer."""


class Text(NamedTuple):
    line: int
    text: str


Find = Callable[[str], Iterable[Text]]


def _bodies(tree: ast.AST) -> Iterator[list[ast.stmt]]:
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            yield body


def docstrings(source: str) -> Iterator[Text]:
    """Docstrings of modules, classes, functions and attributes."""
    for body in _bodies(parse(source)):
        for each in body:
            match each:
                case ast.Expr(value=ast.Constant(value=str(text))):
                    yield Text(each.lineno, text)


def comments(source: str) -> Iterator[Text]:
    """Comments; lines below each other are one comment."""
    line = 0
    parts: list[str] = []
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            line = line if parts else token.start[0]
            parts.append(token.string.lstrip("# "))
        elif token.type not in (tokenize.NL, tokenize.NEWLINE) and parts:
            yield Text(line, " ".join(parts))
            parts = []


def messages(source: str) -> Iterator[Text]:
    """String literals of three words or more, with {} for their values."""
    tree = parse(source)
    statements = {
        id(each.value) for body in _bodies(tree) for each in body if isinstance(each, ast.Expr)
    }
    formats = [node for node in ast.walk(tree) if isinstance(node, ast.JoinedStr)]
    parts = {id(part) for node in formats for part in node.values}
    for node in ast.walk(tree):
        match node:
            case ast.JoinedStr(values=values):
                text = "".join(
                    str(part.value) if isinstance(part, ast.Constant) else "{}" for part in values
                )
            case ast.Constant(value=str(text)) if id(node) not in parts | statements:
                pass
            case _:
                continue
        if " " in text.strip() and len(re.findall(r"[A-Za-z]{2,}", text)) >= 3:
            yield Text(node.lineno, text)


def paragraphs(source: str) -> Iterator[Text]:
    """Paragraphs of Markdown without code and headings."""
    line = 1
    prose = re.sub(r"```.*?```", lambda block: "\n" * block[0].count("\n"), source, flags=re.DOTALL)
    for block in prose.split("\n\n"):
        if block.strip() and not block.lstrip().startswith("#"):
            yield Text(line, re.sub(r"`[^`]*`", "`x`", block))
        line += block.count("\n") + 2


def crooked(texts: Iterable[Text]) -> list[str]:
    """Texts that match a pattern and were not reviewed, with the cure."""
    found = []
    for line, text in texts:
        for match in _PATTERN.finditer(text):
            around = text[max(0, match.start() - 60) : match.end() + 60]
            if not any(each in around for each in REVIEWED):
                cure = PATTERNS[(match.lastindex or 1) - 1].cure
                found.append(f"line {line}: {' '.join(around.split())} [{match[0]}: {cure}]")
                break
    return found


# A search for these words is much faster than parsing all files.
_WORDS = (
    *(" which", "those ", " one", "ones", "What", "Who", "Of ", "Nothing ", "So ", "tell", "told"),
    *("ask", "stand", "come to ", "came to ", "comes to ", "heed", "be it", "be they"),
    *("were before", "was before", "that of ", "that which", "but for", "but that", "save "),
)
_ROUGHLY = re.compile(_PATTERN.pattern.replace(_BEGIN, r"(?:(?<=[\"'.:;#] )|(?<=[\"']))"))


@cache
def may_be_crooked(source: str) -> bool:
    """Whether some text of a file may match a pattern; never false if one does."""
    flat = " ".join(source.split()).replace('" f"', "").replace('" "', "").replace(" # ", " ")
    return any(
        _ROUGHLY.search(flat, max(0, found.start() - 25), found.end() + 30)
        for word in _WORDS
        for found in re.finditer(word, flat)
    )


def num_docstrings(source: str) -> int:
    return source.count('"""') // 2


def num_comments(source: str) -> int:
    return len(re.findall(r"^ *#.*(?:\n *#.*)*|  # ", source, re.MULTILINE))


def num_messages(source: str) -> int:
    """Number of string literals of three words or more; parts on several lines are one literal."""
    code = re.sub(r'""".*?"""', "", source, flags=re.DOTALL)
    literals = re.findall(r'"[^"\n]*"(?:\s*f?"[^"\n]*")*', code)
    return sum(len(re.findall(r"[A-Za-z]{2,}[ \"]", each)) >= 3 for each in literals)


def num_paragraphs(source: str) -> int:
    return sum(1 for _ in paragraphs(source))


@pytest.mark.parametrize(
    ("places", "suffix", "find", "count"),
    [
        pytest.param(CODE, ".py", docstrings, num_docstrings, id="docstrings"),
        pytest.param(CODE, ".py", comments, num_comments, id="comments"),
        pytest.param(CODE, ".py", messages, num_messages, id="messages"),
        pytest.param(TESTS, ".py", docstrings, num_docstrings, id="docstrings of tests"),
        pytest.param(TESTS, ".py", comments, num_comments, id="comments of tests"),
        pytest.param(TESTS, ".py", messages, num_messages, id="messages of tests"),
        pytest.param(PAGES, ".md", paragraphs, num_paragraphs, id="pages"),
    ],
)
def test_few_texts_must_be_read_twice(
    places: list[Path], suffix: str, find: Find, count: Callable[[str], int]
) -> None:
    texts = sources(tuple(places), suffix)
    found = {
        path: wrong
        for path, source in texts.items()
        if path != "tests/test_plain_english.py"
        if (suffix == ".md" or may_be_crooked(source)) and (wrong := crooked(find(source)))
    }
    share = sum(map(len, found.values())) / sum(map(count, texts.values()))
    assert share <= MOST, found


@pytest.mark.parametrize(
    "text",
    [
        "Columns by which files are skipped.",
        "Files and those of other writers.",
        "What is there is kept.",
        "Of each file the size.",
        "Nothing that a user wrote is lost.",
        "An event tells of a commit.",
        "The table asks for vectors.",
        "The commit stands.",
        "The id of the table, and that of its clone.",
        "All files but for the last.",
    ],
)
def test_a_crooked_sentence_is_found_wherever_it_is(text: str) -> None:
    head, _, tail = text.rpartition(" ")
    found = {
        docstrings: f'"""A first line.\n\n{text}\n"""',
        comments: f"# A first line.\n# {head}\n# {tail}\nx = 1\n",
        messages: f'raise ValueError(\n    f"{{x}}: {head} "\n    "{tail}")\n',
    }
    for find, source in found.items():
        assert may_be_crooked(source)
        assert len(crooked(find(source))) == 1
    assert len(crooked(paragraphs(f"# Title\n\n{text}\n"))) == 1


@pytest.mark.parametrize(
    "text",
    [
        "The columns that skip files.",
        "One of the files, one by one.",
        "Nothing was written.",
        "What is a snapshot?",
        "Files of the table, and files of its clone.",
        "A standard that many tools understand.",
    ],
)
def test_a_plain_sentence_passes(text: str) -> None:
    assert crooked([Text(1, text)]) == []


# Rule 2: subjects.

# A docstring that begins so says where or how, and not what. Fields and constants may begin this
# way, because their name is the subject.
_WITHOUT_SUBJECT = re.compile(r"(?:As|By|From|In|Only|To be|With|That|Those|The same) .*")


def without_subject(source: str) -> list[str]:
    if not re.search(rf'"""{_WITHOUT_SUBJECT.pattern}', source):  # a search is faster than parsing
        return []
    return [
        f"line {node.lineno}: {found[0]}"
        for node in ast.walk(parse(source))
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        if (found := _WITHOUT_SUBJECT.match(ast.get_docstring(node) or ""))
    ]


def found_in_code(look: Callable[[str], list[str]]) -> dict[str, list[str]]:
    found = {path: look(source) for path, source in sources(tuple(CODE), ".py").items()}
    return {path: wrong for path, wrong in found.items() if wrong}


def test_a_docstring_begins_with_its_subject() -> None:
    assert found_in_code(without_subject) == {}


@pytest.mark.parametrize(
    ("source", "count"),
    [
        pytest.param('def a():\n    """By path."""', 1, id="a function"),
        pytest.param('class A:\n    """As written."""', 1, id="a class"),
        pytest.param('class A:\n    size: int\n    """By path."""', 0, id="a field"),
        pytest.param('def a():\n    """In-commit timestamps."""', 0, id="a noun of the protocol"),
    ],
)
def test_a_docstring_without_a_subject_is_found(source: str, count: int) -> None:
    assert len(without_subject(source)) == count


# Rule 3: names.

# Public names that stay: `DeltaLog.over(storage)`, `Transaction.done_before()`, and Zarr's
# `Store.with_read_only()`.
_KEPT_NAMES = frozenset({"over", "done_before", "with_read_only"})
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
    if all(map(says_what_it_does, re.findall(r"def (\w+)", source))):  # faster than parsing
        return []
    return [
        f"line {node.lineno}: {node.name}"
        for node in ast.walk(parse(source))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and not says_what_it_does(node.name)
        and not any(ast.unparse(each).split(".")[-1] in _VALUES for each in node.decorator_list)
    ]


def test_functions_are_verbs_or_nouns() -> None:
    assert found_in_code(misnamed_in) == {}


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


_PRIVATE_WORD = re.compile(r"(?:told|tells?|asked|asks|stands|stood|heeds?|heeded|spelt|gave)")
"""Words for reported, requested, is, respected, spelled and set."""


def private_words_in(source: str) -> list[str]:
    """Names of functions, classes and variables with a word that users do not know."""
    names = re.findall(r"^ *(?:(?:async )?def |class )?(\w+)(?=\(|: \w| = )", source, re.MULTILINE)
    return [
        name
        for name in dict.fromkeys(names)
        if any(_PRIVATE_WORD.fullmatch(word) for word in name.lower().split("_"))
    ]


def test_names_have_words_that_users_know() -> None:
    texts = sources(tuple(CODE), ".py") | sources(tuple(TESTS), ".py")
    found = {path: names for path, text in texts.items() if (names := private_words_in(text))}
    assert {
        path: names for path, names in found.items() if path not in _FILES_WITH_OTHER_NAMES
    } == {}


_FILES_WITH_OTHER_NAMES = frozenset(
    {
        "delta_ops/errors.py",  # an alias
        "delta_ops/storage/remote/uploads.py",  # `tell` of Python's files
    }
)


# Rule 4: decisions.


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
