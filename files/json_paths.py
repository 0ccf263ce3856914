"""Where in a JSON text something is: used to say where a file was cut or which value is wrong."""

from __future__ import annotations

from collections.abc import Sequence


def render(path: Sequence[str | int]) -> str:
    """`('scenes', 'mixed', 3)` as `$.scenes.mixed[3]`."""
    return "$" + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)


def last_complete_path(text: str, stop: int) -> str:
    """Path of the last value that is complete before offset `stop` of a damaged JSON text, or "none".

    A scan of the text's own structure: it needs no valid JSON after `stop`.
    """
    stack: list[list[str | int | None]] = []  # per container: [kind, current key or index]
    complete: list[str | int] | None = None
    i = 0

    def path() -> list[str | int]:
        return [frame[1] for frame in stack if frame[1] is not None]

    while i < stop:
        ch = text[i]
        if ch == '"':
            end = i + 1
            while end < stop and text[end] != '"':
                end += 2 if text[end] == "\\" else 1
            if end >= stop:
                break
            if stack and stack[-1][0] == "key":
                stack[-1] = ["colon", text[i + 1 : end]]
            else:
                complete = path()
            i = end + 1
        elif ch in "{[":
            stack.append(["key", None] if ch == "{" else ["array", 0])
            i += 1
        elif ch in "}]":
            if stack:
                stack.pop()
            complete = path()
            i += 1
        elif ch == ":":
            if stack:
                stack[-1][0] = "value"
            i += 1
        elif ch == ",":
            if stack:
                kind, where = stack[-1]
                stack[-1] = ["array", where + 1] if isinstance(where, int) and kind == "array" else ["key", where]
            i += 1
        elif ch.isspace():
            i += 1
        else:
            end = i
            while end < stop and text[end] not in ",]} \n\r\t":
                end += 1
            if end >= stop:
                break  # a number that runs into the cut may be half a number
            complete = path()
            i = end
    return "none" if complete is None else render(complete)
