"""Pieces of HTML, and the page around them. Everything that comes from data is escaped here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from string import Template

# No scripts, no network: the browser is told to refuse both.
POLICY = "default-src 'none'; style-src 'unsafe-inline'"
PAGE = Template("""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="$policy">
<title>$title</title>
<style>$style</style>
</head>
<body>
$body
</body>
</html>
""")
STYLE = """
:root { color-scheme: light dark; --ink: #16181d; --paper: #fff; --faint: #5d6470; --line: #d5d9e0; --box: #f5f6f8;
  --bad: #b3261e; --warn: #8a5300; --good: #14683c; }
@media screen and (prefers-color-scheme: dark) { :root { --ink: #e4e6eb; --paper: #14161a; --faint: #9aa2b0;
  --line: #363b45; --box: #1d2027; --bad: #ff8a80; --warn: #ffb74d; --good: #7bd8a5; } }
* { box-sizing: border-box; } html { font-size: 15px; }
body { margin: 0 auto; padding: 1.5rem; max-width: 74rem; background: var(--paper); color: var(--ink);
  font: 1rem/1.5 system-ui, "DejaVu Sans", Arial, sans-serif; }
h1 { font-size: 1.35rem; margin: 0; } h2 { font-size: 1.1rem; margin: 2.2rem 0 .4rem; }
h3 { font-size: 1rem; margin: 0 0 .4rem; } a { color: inherit; }
p { margin: .4rem 0; max-width: 62rem; } .faint { color: var(--faint); }
.verdict { border-left: .4rem solid; padding: .5rem .9rem; margin: .8rem 0; background: var(--box); font-weight: 600;
  max-width: none; }
.good { color: var(--good); } .bad { color: var(--bad); } .warn { color: var(--warn); }
.first { display: grid; grid-template-columns: repeat(auto-fit, minmax(28rem, 1fr)); gap: 1rem; align-items: start; }
.first > div { background: var(--box); padding: .8rem 1rem; border-radius: .3rem; }
ul { margin: 0; padding: 0; list-style: none; } li { margin: .35rem 0; overflow-wrap: anywhere; }
li b { display: inline-block; min-width: 5.2rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: .88rem; margin: .5rem 0; }
th, td { text-align: left; vertical-align: top; padding: .18rem .9rem .18rem 0; border-bottom: 1px solid var(--line); }
td { overflow-wrap: break-word; }
th { font-weight: 600; color: var(--faint); }
tbody th, td:first-child { white-space: nowrap; }
.first tbody th { white-space: normal; min-width: 7.5rem; }
.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
figure { margin: .5rem 0; } figure svg { width: 100%; height: auto; display: block; }
figcaption { color: var(--faint); font-size: .88rem; max-width: 62rem; }
footer { margin-top: 2.5rem; border-top: 1px solid var(--line); padding-top: .6rem; font-size: .85rem;
  color: var(--faint); overflow-wrap: anywhere; }
@media print { html { font-size: 11px; } body { padding: 0; max-width: none; } .scroll { overflow: visible; }
  figure, tr { break-inside: avoid; } h2, h3 { break-after: avoid; } }
@media (max-width: 32rem) { .first { grid-template-columns: 1fr; } }
"""


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the page; `key` is its anchor, `body` HTML."""

    key: str
    title: str
    body: str


def page(title: str, head: str, sections: Sequence[Section], foot: str) -> str:
    """The whole document. title: text; head, foot and the sections' bodies: HTML."""
    parts = [f'<section id="{s.key}">\n<h2>{escape(s.title)}</h2>\n{s.body}\n</section>' for s in sections]
    body = "\n".join([f'<header id="first">{head}</header>', *parts, f"<footer>{foot}</footer>"])
    return PAGE.substitute(policy=escape(POLICY), title=escape(title), style=STYLE, body=body)


def table(headers: Sequence[str], rows: Sequence[Sequence[str]], text_columns: int = 1) -> str:
    """Cells are text; all columns but the first `text_columns` hold numbers and stand to the right."""
    align = ["" if i < text_columns else ' class="n"' for i in range(len(headers))]
    head = "".join(f"<th{a}>{escape(cell)}</th>" for a, cell in zip(align, headers, strict=True))
    lines = [
        "<tr>" + "".join(f"<td{a}>{escape(cell)}</td>" for a, cell in zip(align, row, strict=True)) + "</tr>"
        for row in rows
    ]
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{"".join(lines)}</tbody></table></div>'


def lines(pairs: Sequence[tuple[str, str]]) -> str:
    """Label and value, without a head."""
    rows = "".join(f"<tr><th>{escape(label)}</th><td>{escape(value)}</td></tr>" for label, value in pairs)
    return f'<div class="scroll"><table><tbody>{rows}</tbody></table></div>'


def figure(svg: str, caption: str) -> str:
    """svg: markup that `svg.drawn` made; caption: text."""
    return f"<figure>{svg}<figcaption>{escape(caption)}</figcaption></figure>"


def paragraph(text: str, kind: str = "") -> str:
    """kind: a class of the style sheet, such as warn or faint."""
    return f'<p class="{kind}">{escape(text)}</p>' if kind else f"<p>{escape(text)}</p>"
