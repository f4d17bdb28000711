//! A result as a reader meets it: sections of paragraphs, values, tables, plots and advice, in one order everywhere.

use std::borrow::Cow;

use crate::text;
use crate::{Plot, Style, Table};

/// How a piece of advice is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    /// Neither good nor bad.
    Neutral,
    /// This is worth doing, or all is well.
    Good,
    /// This needs attention.
    Warning,
    /// This must not stay so.
    Critical,
}

impl Tone {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Tone::Neutral => "Notice",
            Tone::Good => "Advice",
            Tone::Warning => "Warning",
            Tone::Critical => "Critical",
        }
    }
}

#[derive(Debug, Clone)]
pub(crate) enum Block {
    /// Running text; `code` between backticks.
    Paragraph(String),
    /// A sentence or two that stand out.
    Advice(Tone, String),
    Values(Vec<(String, String)>),
    /// Points, one below the other.
    List(Vec<String>),
    /// Commands or file contents, shown as they are.
    Code(String),
    Table(Table),
    /// A plot, on pages alone: its figures belong in a table.
    Plot(Plot),
}

/// A heading and what belongs under it.
#[derive(Debug, Clone)]
pub struct Section {
    pub(crate) heading: String,
    pub(crate) blocks: Vec<Block>,
}

impl Section {
    /// A section without content; the heading may be empty.
    pub fn new(heading: &str) -> Self {
        Section {
            heading: heading.into(),
            blocks: Vec::new(),
        }
    }

    fn block(mut self, block: Block) -> Self {
        self.blocks.push(block);
        self
    }

    /// Adds running text; words between backticks are shown as code.
    pub fn paragraph(self, text: impl Into<String>) -> Self {
        self.block(Block::Paragraph(text.into()))
    }

    /// Adds a sentence that stands out.
    pub fn advice(self, tone: Tone, text: impl Into<String>) -> Self {
        self.block(Block::Advice(tone, text.into()))
    }

    pub fn values<K: Into<String>, V: Into<String>>(
        self,
        values: impl IntoIterator<Item = (K, V)>,
    ) -> Self {
        self.block(Block::Values(
            values
                .into_iter()
                .map(|(key, value)| (key.into(), value.into()))
                .collect(),
        ))
    }

    /// Adds points, where there are any.
    pub fn list<T: Into<String>>(self, points: impl IntoIterator<Item = T>) -> Self {
        let points: Vec<String> = points.into_iter().map(Into::into).collect();
        match points.is_empty() {
            true => self,
            false => self.block(Block::List(points)),
        }
    }

    /// Adds commands or file contents; line feeds are kept.
    pub fn code(self, code: impl Into<String>) -> Self {
        self.block(Block::Code(code.into()))
    }

    pub fn table(self, table: Table) -> Self {
        self.block(Block::Table(table))
    }

    /// Adds a plot, which only pages show.
    pub fn plot(self, plot: impl Into<Plot>) -> Self {
        self.block(Block::Plot(plot.into()))
    }
}

/// A title, a first sentence, where the figures come from, and sections.
#[derive(Debug, Clone)]
pub struct Document {
    pub(crate) title: String,
    pub(crate) lead: String,
    pub(crate) provenance: Vec<(String, String)>,
    pub(crate) sections: Vec<Section>,
}

impl Document {
    /// A document without content.
    pub fn new(title: &str) -> Self {
        Document {
            title: title.into(),
            lead: String::new(),
            provenance: Vec::new(),
            sections: Vec::new(),
        }
    }

    /// The answer in a sentence, below the title.
    pub fn lead(mut self, text: impl Into<String>) -> Self {
        self.lead = text.into();
        self
    }

    /// Adds to where the figures come from: machine, kernel, command, time.
    pub fn provenance(mut self, name: &str, value: impl Into<String>) -> Self {
        self.provenance.push((name.into(), value.into()));
        self
    }

    /// Names the host that the figures come from, in the title too, and its kernel unless that is
    /// told already.
    pub fn on_host(mut self, host: &str, kernel: &str) -> Self {
        self.title = format!("{} on {host}", self.title);
        let is_told = |(name, value): &(String, String)| name == "kernel" && value == kernel;
        let is_told = self.provenance.iter().any(is_told);
        let named = self.provenance("host", host);
        match is_told {
            true => named,
            false => named.provenance("host's kernel", kernel),
        }
    }

    /// Adds a section, unless there is nothing below its heading.
    pub fn section(mut self, section: Section) -> Self {
        let is_empty = section.blocks.is_empty();
        self.sections.extend((!is_empty).then_some(section));
        self
    }

    /// The document for a terminal. Provenance comes last, the answer first.
    pub fn to_text(&self, style: &Style) -> String {
        let mut parts = Vec::new();
        let title = text::running(&self.title);
        if !title.is_empty() {
            parts.push(bold_lines(&title, style));
        }
        if !self.lead.is_empty() {
            parts.push(paragraph(&self.lead, style, "", ""));
        }
        for section in &self.sections {
            if !section.heading.is_empty() {
                let heading = text::running(&section.heading).to_uppercase();
                parts.push(bold_lines(&heading, style));
            }
            parts.extend(section.blocks.iter().map(|block| block_text(block, style)));
        }
        parts.push(values_text(&self.provenance, style));
        parts.retain(|part| !part.is_empty());
        parts.join("\n")
    }

    pub fn to_markdown(&self) -> String {
        let mut parts = Vec::new();
        if !self.title.is_empty() {
            parts.push(format!(
                "# {}\n",
                text::markdown(&text::running(&self.title))
            ));
        }
        if !self.lead.is_empty() {
            parts.push(format!("{}\n", markdown_paragraph(&self.lead)));
        }
        for section in &self.sections {
            if !section.heading.is_empty() {
                parts.push(format!(
                    "## {}\n",
                    text::markdown(&text::running(&section.heading))
                ));
            }
            parts.extend(section.blocks.iter().map(block_markdown));
        }
        parts.push(values_markdown(&self.provenance));
        parts.retain(|part| !part.is_empty());
        parts.join("\n")
    }
}

pub(crate) fn bold_lines(text: &str, style: &Style) -> String {
    text::wrap(text, style.width)
        .into_iter()
        .map(|line| style.bold(&line) + "\n")
        .collect()
}

/// Running text, its first line after `first` and the others after as many spaces.
fn paragraph(content: &str, style: &Style, first: &str, painted_first: &str) -> String {
    let indent = text::width(first);
    let content = text::running(content).replace('`', "'");
    let mut out = String::new();
    for (at, line) in text::wrap(&content, style.paragraph_width().saturating_sub(indent))
        .into_iter()
        .enumerate()
    {
        match at {
            0 => out.push_str(painted_first),
            _ => out.push_str(&" ".repeat(indent)),
        }
        out.push_str(&line);
        out.push('\n');
    }
    out
}

fn block_text(block: &Block, style: &Style) -> String {
    match block {
        Block::Paragraph(text) => paragraph(text, style, "", ""),
        Block::Advice(tone, text) => {
            let word = format!("{}: ", tone.word());
            let painted = match tone {
                Tone::Neutral => style.bold(&word),
                Tone::Good => style.good(&word),
                Tone::Warning | Tone::Critical => style.warning(&word),
            };
            paragraph(text, style, &word, &painted)
        }
        Block::Values(values) => values_text(values, style),
        Block::List(points) => points
            .iter()
            .map(|point| paragraph(point, style, "• ", "• "))
            .collect(),
        Block::Code(code) => code_lines(code, style.width.saturating_sub(4))
            .iter()
            .map(|line| format!("    {}\n", line.trim_end()))
            .collect(),
        Block::Table(table) => table.to_text(style),
        Block::Plot(_) => String::new(),
    }
}

/// Code as it is, since it may be pasted; comments that are too wide in lines of that width.
fn code_lines(code: &str, width: usize) -> Vec<String> {
    let lines: Vec<_> = code.lines().map(text::inert).collect();
    let is_comment = |line: &str| line.starts_with("# ");
    let parts = lines.chunk_by(|one, next| is_comment(one) && is_comment(next));
    let as_written = |part: &[Cow<'_, str>]| part.iter().map(|it| it.to_string()).collect();
    let lines = parts.flat_map(|part: &[Cow<'_, str>]| -> Vec<String> {
        if !is_comment(&part[0]) || text::widest(part) <= width {
            return as_written(part);
        }
        let comment: Vec<&str> = part.iter().map(|line| &line[2..]).collect();
        let lines = text::wrap(&comment.join(" "), width.saturating_sub(2));
        lines.into_iter().map(|it| format!("# {it}")).collect()
    });
    lines.collect()
}

/// Values in a column of their own, wrapped there; below their names where that column would be too narrow.
fn values_text(values: &[(String, String)], style: &Style) -> String {
    let names: Vec<_> = values.iter().map(|(name, _)| text::running(name)).collect();
    let column = (text::widest(&names) + 2).min(style.width / 2);
    let indent = " ".repeat(column);
    let mut out = String::new();
    for (name, (_, value)) in names.iter().zip(values) {
        let padding = column.saturating_sub(text::width(name));
        let mut head = format!("{name}{}", " ".repeat(padding));
        if text::width(name) >= column {
            let lines = text::wrap(name, style.width).into_iter();
            out.extend(lines.map(|line| line + "\n"));
            head.clone_from(&indent);
        }
        for line in text::wrap(&text::running(value), style.width - column) {
            out.push_str(format!("{head}{line}").trim_end());
            out.push('\n');
            head.clone_from(&indent);
        }
    }
    out
}

fn block_markdown(block: &Block) -> String {
    match block {
        Block::Paragraph(text) => format!("{}\n", markdown_paragraph(text)),
        Block::Advice(tone, text) => format!(
            "> **{}:** {}\n",
            tone.word(),
            text::markdown(&text::running(text))
        ),
        Block::Values(values) => values_markdown(values),
        Block::List(points) => points
            .iter()
            .map(|point| format!("- {}\n", markdown_paragraph(point)))
            .collect(),
        Block::Code(code) => {
            let runs = code.split(|c| c != '`').map(str::len);
            let fence = "`".repeat(runs.max().unwrap_or(0).max(2) + 1);
            let lines: Vec<_> = code.lines().map(text::inert).collect();
            format!("{fence}\n{}\n{fence}\n", lines.join("\n"))
        }
        Block::Table(table) => table.to_markdown(),
        Block::Plot(_) => String::new(),
    }
}

/// Text as Markdown, with what would start a list, a heading or a rule at the head of a line made literal.
fn markdown_paragraph(content: &str) -> String {
    let escaped = text::markdown(&text::running(content));
    let digits = escaped.bytes().take_while(u8::is_ascii_digit).count();
    if escaped.starts_with(['-', '+', '=']) {
        return format!("\\{escaped}");
    }
    if digits > 0
        && [". ", ") "]
            .iter()
            .any(|mark| escaped[digits..].starts_with(mark))
    {
        return format!("{}\\{}", &escaped[..digits], &escaped[digits..]);
    }
    escaped
}

fn values_markdown(values: &[(String, String)]) -> String {
    let line = |(name, value): &(String, String)| {
        let (name, value) = (
            text::markdown(&text::running(name)),
            text::markdown(&text::running(value)),
        );
        format!("- {name}: {value}\n")
    };
    values.iter().map(line).collect()
}
