"""Errors have one form: what was expected; what was found. What to do."""

import ast
import re
from pathlib import Path

import pytest

import crossgrad

SOURCE = Path(crossgrad.__file__).parent
SENTENCES = ("ValueError", "TypeError", "ConfigError", "DataFileError", "BusyError", "FileNotFoundError", "ImportError",
             "ModuleNotFoundError", "FloatingPointError", "ChildProcessError")  # fmt: skip
RULE = re.compile(r"\b(must|needs?|expected|takes)\b")  # what the reader can follow without further advice
SENTENCE = re.compile(r"[.?](?= ?[A-Z0-9`'-]| ?\{\})")  # a further one


def template(node):
    """The text of an expression, with {} for what is put in; None if it is no text."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join("{}" if isinstance(part, ast.FormattedValue) else part.value for part in node.values)
    if isinstance(node, ast.BinOp):
        parts = template(node.left), template(node.right)
        return None if None in parts else "".join(parts)
    return None


def messages(room):
    """Place and text of each message of a room's errors; reasons that become part of another are left out."""
    for path in [SOURCE / f"{room}.py"] if (SOURCE / f"{room}.py").exists() else sorted((SOURCE / room).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and node.exc.args:
                text = template(node.exc.args[0])
                if getattr(node.exc.func, "id", "") in SENTENCES and text is not None and text.endswith((".", "?")):
                    yield f"{path.relative_to(SOURCE)}:{node.lineno}", text


def fault(text):
    """What a message lacks; empty if it has the form."""
    expected, semicolon, found = text.partition("; ")
    if not semicolon:
        return "a semicolon between what was expected and what was found"
    if not SENTENCE.search(found) and not RULE.search(expected):
        return "what to do: a rule before the semicolon, or a sentence at the end"
    return ""


ROOMS = sorted({path.relative_to(SOURCE).parts[0].removesuffix(".py") for path in SOURCE.rglob("*.py")})


@pytest.mark.parametrize("room", ROOMS)
def test_an_error_says_what_was_expected_what_was_found_and_what_to_do(room):
    assert [f"{place}: {text} (lacks {fault(text)})" for place, text in messages(room) if fault(text)] == []


@pytest.mark.parametrize(
    ("text", "lacks"),
    [
        ("{} is damaged: it is not what was written.", "semicolon"),
        ("the tree is for methods that need one.", "semicolon"),
        ("this run has ended ({}); there is nothing to go on with.", "what to do"),
        ("seed must be at least 0; found {}.", ""),
        ("expected a TOML file; found a folder. Name a file in it.", ""),
    ],
)
def test_a_message_without_one_of_the_three_parts_is_noticed(text, lacks):
    assert lacks in fault(text)
    assert bool(lacks) == bool(fault(text))


def test_the_messages_are_found():
    assert sum(len(list(messages(room))) for room in ROOMS) > 300
