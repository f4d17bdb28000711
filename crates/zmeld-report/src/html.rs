//! One page that needs nothing else: no scripts, no requests, system fonts, light and dark, screen and paper.

use maud::{html, Markup, PreEscaped, DOCTYPE};

use crate::document::{Block, Document, Section, Tone};
use crate::palette::{DARK, LIGHT};
use crate::text;

/// Rights of a page: to show its own styles. Nothing is loaded, nothing runs.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'";

impl Document {
    /// The document as a self-contained HTML page.
    pub fn to_html(&self) -> String {
        let title = text::running(&self.title);
        let page = html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta http-equiv="Content-Security-Policy" content=(POLICY);
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="color-scheme" content="light dark";
                    meta name="generator" content="zmeld";
                    title { (title) }
                    style { (PreEscaped(css())) }
                }
                body {
                    header {
                        h1 { (title) }
                        @if !self.lead.is_empty() { p.lead { (running(&self.lead)) } }
                        @if !self.provenance.is_empty() {
                            dl.provenance {
                                @for (name, value) in &self.provenance {
                                    div { dt { (text::running(name)) } dd { (text::running(value)) } }
                                }
                            }
                        }
                    }
                    main {
                        @for part in &self.sections { (section(part)) }
                    }
                }
            }
        };
        page.into_string()
    }
}

fn section(section: &Section) -> Markup {
    html! {
        section {
            @if !section.heading.is_empty() { h2 { (text::running(&section.heading)) } }
            @for part in &section.blocks { (block(part)) }
        }
    }
}

fn block(block: &Block) -> Markup {
    match block {
        Block::Paragraph(text) => html! { p { (running(text)) } },
        Block::Advice(tone, text) => {
            let class = match tone {
                Tone::Neutral => "advice",
                Tone::Good => "advice good",
                Tone::Warning | Tone::Critical => "advice warning",
            };
            html! { p class=(class) { strong { (tone.word()) } " " (running(text)) } }
        }
        Block::Values(values) => html! {
            dl.values {
                @for (name, value) in values {
                    div { dt { (text::running(name)) } dd { (running(value)) } }
                }
            }
        },
        Block::List(points) => html! { ul { @for point in points { li { (running(point)) } } } },
        Block::Code(code) => {
            let lines: Vec<_> = code.lines().map(text::inert).collect();
            html! { pre tabindex="0" { code { (lines.join("\n")) } } }
        }
        Block::Table(table) => table.to_html(),
        Block::Plot(plot) => plot.to_figure(),
    }
}

/// Running text with its code spans.
fn running(content: &str) -> Markup {
    let content = text::running(content);
    html! {
        @for (piece, is_code) in text::code_spans(&content) {
            @if is_code { code { (piece) } } @else { (text::together(piece)) }
        }
    }
}

fn css() -> String {
    format!(
        ":root{{color-scheme:light dark;{LIGHT}}}\
         @media screen and (prefers-color-scheme:dark){{:root{{{DARK}}}}}\
         {PAGE}{}{PAPER}",
        crate::plot::css()
    )
}

// A table that is wider than the page scrolls by itself. The shadow at its edge says so; what hides the shadow scrolls along
// and comes to lie on it where the table ends.
const PAGE: &str = "\
*{box-sizing:border-box}\
body{margin:0 auto;max-width:60rem;padding:1.5rem 1rem 4rem;background:var(--page);color:var(--text);\
font:1rem/1.55 system-ui,sans-serif;overflow-wrap:break-word;-webkit-text-size-adjust:100%}\
h1{font-size:1.75rem;line-height:1.2;margin:.5rem 0}\
h2{font-size:1.25rem;line-height:1.3;margin:2.5rem 0 .75rem;padding-top:.75rem;border-top:1px solid var(--line)}\
p,ul{margin:.75rem 0;max-width:46rem}ul{padding-left:1.25rem}\
.lead{font-size:1.15rem}\
code,pre{font-family:ui-monospace,monospace;font-size:.9em;background:var(--raised);border-radius:4px}\
code{padding:.1em .3em}pre code{padding:0}pre{padding:.75rem 1rem;overflow-x:auto}\
.provenance{display:flex;flex-wrap:wrap;gap:.15rem 1.25rem;margin:1rem 0;font-size:.85rem;color:var(--quiet)}\
.provenance div{display:flex;gap:.4rem;min-width:0}.provenance dd,.values dd{overflow-wrap:anywhere}\
dd{margin:0}dt{flex:none}.provenance dt{font-weight:600}\
.values{display:grid;grid-template-columns:max-content 1fr;gap:.25rem 1.5rem;font-variant-numeric:tabular-nums}\
.values div{display:contents}.values dt{color:var(--quiet)}\
.advice{padding:.6rem 1rem;background:var(--raised);border-left:4px solid var(--quiet);border-radius:0 4px 4px 0}\
.advice.good{border-color:var(--good)}.advice.warning{border-color:var(--warning)}\
.advice.good strong{color:var(--good)}.advice.warning strong{color:var(--warning)}\
.zm-table{overflow-x:auto;margin:.25rem 0 .5rem;background:\
linear-gradient(to left,var(--page) 40%,transparent) right/2.5rem 100% no-repeat local,\
linear-gradient(to left,var(--line),transparent) right/1rem 100% no-repeat scroll}\
table{border-collapse:separate;border-spacing:0;font-variant-numeric:tabular-nums;font-size:.94rem}\
.zm-caption{font-weight:600;margin:1.25rem 0 0}\
th,td{padding:.3rem .6rem;text-align:left;vertical-align:top;border-bottom:1px solid var(--line)}\
th:first-child,td:first-child{padding-left:.25rem}\
thead th{color:var(--quiet);font-weight:600;vertical-align:bottom;border-bottom:2px solid var(--line)}\
thead th.name{white-space:normal}\
tbody th{font-weight:400}th.name:first-child{position:sticky;left:0;background:var(--page)}.name{white-space:nowrap}.words{overflow-wrap:anywhere;min-width:11rem;max-width:24rem}.path{word-break:break-all}\
.number{text-align:right}td.number{white-space:nowrap}\
tr.strong th.name:first-child,tr.strong th,tr.strong td{font-weight:700;background:var(--raised)}\
.zm-note{font-size:.85rem;color:var(--quiet);margin:.25rem 0 1rem}\
@media screen and (max-width:600px){\
th,td{padding:.3rem .4rem}table{font-size:.85rem}pre{white-space:pre-wrap}.values{grid-template-columns:1fr;gap:0}.values dd{margin-bottom:.5rem}}";

const PAPER: &str = "\
@media print{body{max-width:none;padding:0;font-size:10pt}h2{break-after:avoid}\
figure,tr,.advice{break-inside:avoid}.zm-table{overflow:visible;background:none}\
*{-webkit-print-color-adjust:exact;print-color-adjust:exact}}";
