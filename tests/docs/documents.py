"""Reads the commands and snippets that the documents and --help print. Standard library only."""

import re
from dataclasses import dataclass

LANGUAGES = ("sh", "python", "cpp")
# What begins a line of a shell block. A block that begins so must say that it is one.
PROGRAMS = re.compile(r"\s*(?:[A-Z_]+=\S+ +)*(?:heliograph|export|mpirun|torchrun|srun|ctest|cmake|python3|"
                      r"(?:scripts|experiments|bench|build)/\S+) ")


class Unclear(Exception):
    """A block of which nobody can tell whether it is to be run."""


@dataclass
class Step:
    language: str  # One of LANGUAGES.
    text: str      # A command in one line without comment, or a whole snippet.


def split_commands(block):
    """The commands of a shell block, each in one line and without its comment."""
    commands = []
    for line in block.replace("\\\n", " ").splitlines():
        words = " ".join(re.sub(r"(^|\s)#.*", "", line).split())
        if words:
            commands.append(words)
    return commands


def steps_of(language, block):
    if language == "sh":
        return [Step("sh", command) for command in split_commands(block)]
    return [Step(language, block)]


def read_markdown(text):
    """The steps of a page in its order: every block that is marked with one of LANGUAGES, and every
    command that is alone in the last cell of a table's row."""
    steps = []
    fence = re.compile(r"^```(\w*)\n(.*?)^```$|^\|[^\n]*\| `((?:heliograph|python3) [^`\n]*)` \|$",
                       re.MULTILINE | re.DOTALL)
    for language, block, cell in fence.findall(text):
        if cell:
            steps.append(Step("sh", cell))
        elif language in LANGUAGES:
            steps += steps_of(language, block)
        elif language or PROGRAMS.match(block):
            raise Unclear(f"mark this block with one of {', '.join(LANGUAGES)}:\n{block}")
    indented = [line for line in fence.sub("", text).splitlines()
                if line.startswith("    ") and PROGRAMS.match(line)]
    if indented:
        raise Unclear(f"put this command between ```sh and ```: {indented[0].strip()}")
    return steps


def read_help(text):
    """The examples below a command's --help."""
    block = re.search(r"^Examples:\n((?:  .*\n)+)", text + "\n", re.MULTILINE)
    return steps_of("sh", block.group(1)) if block else []


def command_names(text):
    """The commands that `heliograph --help` lists."""
    block = re.search(r"^Commands:\n((?:  .*\n)+)", text, re.MULTILINE)
    return re.findall(r"^  (\w+) ", block.group(1), re.MULTILINE)
