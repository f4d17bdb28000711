# SPDX-License-Identifier: GPL-2.0-or-later
"""A document as one page: no scripts, no requests, light and dark, everything escaped.

The colours and the look are those of crates/zmeld-report.
"""

from __future__ import annotations

import re
from html import escape

from zmeld_fleet import units
from zmeld_fleet.document import Bars, Block, Code, Document, Section, Table
from zmeld_fleet.words import inert

POLICY = "default-src 'none'; style-src 'unsafe-inline'"

_STYLE = """
:root{--page:#ffffff;--raised:#f4f6f8;--text:#1b2127;
--quiet:#56616c;--line:#d5dbe1;--c0:#0065a4;--c1:#e96f00}
@media (prefers-color-scheme:dark){:root{--page:#12161b;--raised:#1b2128;--text:#e6eaee;
--quiet:#a0abb6;--line:#343d47;--c0:#47b8fa;--c1:#ff8f40}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:60rem;padding:1.5rem 1rem 4rem;background:var(--page);
color:var(--text);font:16px/1.5 system-ui,sans-serif}
h1{font-size:1.6rem;margin:0 0 .5rem}h2{font-size:1.15rem;margin:2.2rem 0 .6rem}
.lead{font-size:1.1rem}
.scroll{overflow-x:auto}
table{border-collapse:collapse;font-variant-numeric:tabular-nums;margin:.6rem 0}
.caption{color:var(--quiet);margin:.6rem 0 .3rem}
th,td{padding:.25rem .9rem .25rem 0;text-align:left;border-bottom:1px solid var(--line)}
th{font-weight:600;color:var(--quiet)}
.n{text-align:right;white-space:nowrap}td{overflow-wrap:break-word}
pre{background:var(--raised);padding:.8rem 1rem;overflow-x:auto;border-radius:6px}
details{margin:.4rem 0}summary{cursor:pointer}figure{margin:1rem 0}figcaption{color:var(--quiet)}
.bars{display:grid;grid-template-columns:minmax(6rem,14rem) 1fr;gap:.5rem 1rem;margin:.6rem 0}
.b{text-align:right;overflow-wrap:break-word;min-width:0}
.bar{display:flex;align-items:center;gap:.4rem;white-space:nowrap;font-size:.85rem;line-height:1.25}
.bar i{display:block;height:.8rem;min-width:1px;border-radius:0 3px 3px 0;print-color-adjust:exact}
.key{white-space:nowrap;margin-left:.8rem}.key i{display:inline-block;width:.8rem;height:.8rem;
margin-right:.3rem}
nav ul{columns:16rem;padding-left:1.1rem}a{color:var(--c0)}
@media (max-width:40rem){.bars{grid-template-columns:1fr;gap:.2rem}.b{text-align:left}
table,tbody{display:block}thead{display:none}
tr{display:block;padding:.4rem 0;border-bottom:1px solid var(--line)}
td,.n{display:flex;justify-content:space-between;gap:1rem;padding:0;border:0;text-align:right}
td::before{content:attr(data-head);color:var(--quiet);text-align:left;white-space:normal}
td:first-child{display:block;font-weight:600;text-align:left}td:first-child::before{content:none}
td span{min-width:0}pre{white-space:pre-wrap;overflow-wrap:break-word}}
@media print{body{max-width:none}pre{white-space:pre-wrap}
details::details-content{content-visibility:visible;block-size:auto}}
"""


def render(document: Document) -> str:
    """The whole page."""
    title = _text(document.title)
    sections = "".join(_section(at, part) for at, part in enumerate(document.sections))
    sections = sections.replace("<details>", "<details open>", 1)
    contents = "".join(
        f'<li><a href="#s{at}">{_text(part.heading)}</a></li>'
        for at, part in enumerate(document.sections)
    )
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark"><meta name="generator" content="zmeld">'
        f"<title>{title}</title><style>{_STYLE}</style></head><body>"
        f'<header><h1>{title}</h1><p class="lead">{_text(document.lead)}</p>'
        f'<nav aria-label="Contents"><ul>{contents}</ul></nav></header>'
        f"<main>{sections}</main></body></html>\n"
    )


def _text(text: str) -> str:
    return escape(inert(text))


def _section(at: int, section: Section) -> str:
    blocks = "".join(_block(block) for block in section.blocks)
    heading = _text(section.heading)
    return f'<section id="s{at}"><h2>{heading}</h2>{blocks}</section>'


def _block(block: Block) -> str:
    if isinstance(block, str):
        said = re.sub("`([^`]+)`", r"<code>\1</code>", _text(block))
        return f"<p>{said}</p>"
    if isinstance(block, Code):
        lines = (_text(line) for line in block.text.rstrip("\n").split("\n"))
        code = f'<pre tabindex="0"><code>{chr(10).join(lines)}</code></pre>'
        return f"<details><summary>{_text(block.name)}</summary>{code}</details>"
    if isinstance(block, Table):
        return _table(block)
    return _bars(block)


def _bars(block: Bars) -> str:
    """Bars as wide as the style sheet makes them: no picture, so that they fold and scale."""
    known = [value for _, values in block.rows for value in values if value is not None]
    most = max([*known, 1e-9])
    rows = ""
    for name, values in block.rows:
        rows += f'<div class="b">{_folding(name)}</div><div>'
        for at, value in enumerate(values):
            wide = f"{100.0 * max(value or 0.0, 0.0) / most:.2f}%"
            shown = "not known" if value is None else units.percent(value)
            rows += (
                f'<div class="bar"><i style="width:calc({wide}*.8);background:var(--c{at})"></i>'
            )
            rows += f"{_text(shown)}</div>"
        rows += "</div>"
    keys = "".join(
        f'<span class="key"><i style="background:var(--c{at})"></i>{_text(one)}</span>'
        for at, one in enumerate(block.series)
    )
    caption = f"<figcaption>{_text(block.caption)} {keys}</figcaption>"
    return f'<figure>{caption}<div class="bars">{rows}</div></figure>'


def _table(table: Table) -> str:
    kinds = [""] * len(table.texts) + [' class="n"'] * len(table.numbers)
    heads = [_text(head) for head in table.heads]
    top = "".join(
        f'<th scope="col"{kind}>{head}</th>' for kind, head in zip(kinds, heads, strict=True)
    )
    rows = "".join(
        "<tr>"
        + "".join(
            f'<td{kind} data-head="{head}"><span>{(_text if kind else _folding)(cell)}</span></td>'
            for kind, head, cell in zip(kinds, heads, row, strict=True)
        )
        + "</tr>"
        for row in table.rows
    )
    # Not a <caption>, which would be folded to the width of a narrow table.
    said = _text(table.caption)
    caption = f'<p class="caption">{said}</p>' if said else ""
    label = f' aria-label="{said}"' if said else ""
    body = f"<thead><tr>{top}</tr></thead><tbody>{rows}</tbody>"
    return f'{caption}<div class="scroll"><table{label}>{body}</table></div>'


def _folding(text: str) -> str:
    """Where long names have parts they may be folded, and nowhere else."""
    return re.sub(r"(?<=[^ ])([/._:@])(?=[^ ])", r"\1<wbr>", _text(text))
