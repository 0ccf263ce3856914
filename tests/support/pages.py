"""What the documents hold: fenced blocks, the commands in them with the output that is shown, and Python."""

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

import chunkfit

ROOT = Path(chunkfit.__file__).parent
PAGES = [
    ROOT / "README.md",
    ROOT / "ARCHITECTURE.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]
GENERATED = ROOT / "docs" / "cli.md"
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Command:
    page: str
    words: tuple[str, ...]
    shown: str  # the output that the page shows, or nothing

    def __str__(self) -> str:
        return f"{self.page}: {' '.join(self.words)}"


def name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def blocks(page: Path) -> list[tuple[str, str]]:
    """(language, text) of each fenced block."""
    return FENCE.findall(page.read_text())


def commands(page: Path) -> list[Command]:
    """Of blocks marked `console`: a command after each `$ `, its output below it until the next one."""
    found = []
    for language, text in blocks(page):
        if language == "console":
            for part in re.split(r"^\$ ", text.replace("\\\n", " "), flags=re.MULTILINE)[1:]:
                line, _, shown = part.partition("\n")
                found.append(Command(name(page), tuple(shlex.split(line)), shown.strip("\n")))
    return found
