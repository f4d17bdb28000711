//! A table for the terminal: right-aligned numbers, one rule, no line wider than asked for.
//!
//! Excess width is taken in this order: headings wrap, words wrap and paths are shortened (or wrap,
//! where that makes two the same), and then the table continues below with the columns that name its
//! rows repeated. Numbers are never broken.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use super::{Kind, Table};
use crate::document::bold_lines;
use crate::text;
use crate::Style;

const GAP: usize = 2;
/// Words and paths are not squeezed below this, if the width allows for it.
const WORDS_WIDTH_MIN: usize = 14;

impl Table {
    /// The table as text, ending in a line feed.
    pub fn to_text(&self, style: &Style) -> String {
        let mut out = String::new();
        if !self.title.is_empty() {
            out += &bold_lines(&text::running(&self.title), style);
        }
        let mut shortened = None;
        if !self.columns.is_empty() {
            let layout = Layout::new(self, style);
            layout.write(&mut out);
            let option = self.whole_with.filter(|_| layout.is_shortened());
            shortened = option.map(|option| {
                let columns = self.width();
                format!("…: shortened; whole with {option}, or on a terminal of {columns} columns.")
            });
        }
        for note in self.notes.iter().chain(&shortened) {
            for line in text::wrap(&text::running(note), style.paragraph_width()) {
                out.push_str(&style.dim(&line));
                out.push('\n');
            }
        }
        out
    }

    /// Columns that all of it takes side by side.
    pub fn width(&self) -> usize {
        let style = Style::plain(0);
        let layout = Layout::new(self, &style);
        let gaps = GAP * layout.widths.len().saturating_sub(1);
        layout.widths.iter().sum::<usize>() + gaps
    }
}

struct Layout<'a> {
    table: &'a Table,
    style: &'a Style,
    headings: Vec<String>,
    rows: Vec<Vec<String>>,
    /// Columns of the widest cell, without the heading.
    contents: Vec<usize>,
    /// The same with the heading.
    widths: Vec<usize>,
}

impl<'a> Layout<'a> {
    fn new(table: &'a Table, style: &'a Style) -> Self {
        let headings: Vec<_> = table
            .columns
            .iter()
            .map(|c| text::running(&c.title))
            .collect();
        let rows: Vec<Vec<_>> = table
            .rows
            .iter()
            .map(|row| show_row(table, row, style))
            .collect();
        let contents: Vec<_> = (0..headings.len())
            .map(|at| text::widest(rows.iter().map(|row| &row[at])))
            .collect();
        let widest = headings.iter().zip(&contents);
        let widths = widest.map(|(heading, content)| text::width(heading).max(*content));
        Layout {
            widths: widths.collect(),
            table,
            style,
            headings,
            rows,
            contents,
        }
    }

    fn is_number(&self, at: usize) -> bool {
        self.table.columns[at].is_number()
    }

    fn overflow(&self, widths: &[usize]) -> usize {
        (widths.iter().sum::<usize>() + GAP * (widths.len() - 1)).saturating_sub(self.style.width)
    }

    /// The widths of these columns side by side, each as wide as it wants to be where there is room.
    fn arrange(&self, columns: &[usize]) -> Vec<usize> {
        let mut widths: Vec<_> = columns.iter().map(|at| self.widths[*at]).collect();
        self.wrap_headings(columns, &mut widths);
        self.squeeze_words(columns, &mut widths);
        widths
    }

    /// Lets headings wrap at their spaces, the ones furthest beyond their numbers first.
    fn wrap_headings(&self, columns: &[usize], widths: &mut [usize]) {
        let least: Vec<_> = columns
            .iter()
            .map(|at| text::widest(self.headings[*at].split(' ')).max(self.contents[*at]))
            .collect();
        for _ in 0..self.overflow(widths) {
            let spare = |at: usize| widths[at].saturating_sub(least[at]);
            match (0..widths.len())
                .max_by_key(|at| spare(*at))
                .filter(|at| spare(*at) > 0)
            {
                Some(at) => widths[at] -= 1,
                None => break,
            }
        }
    }

    /// How many columns from the left name the row.
    fn keys(&self) -> usize {
        let more = self.table.columns.iter().skip(1);
        1 + more.take_while(|column| column.names_row).count()
    }

    /// Takes the rest from the widest columns of words; from those that name the row last.
    fn squeeze_words(&self, columns: &[usize], widths: &mut [usize]) {
        for from in [self.keys().min(widths.len()), 0] {
            for _ in 0..self.overflow(widths) {
                let widest = (from..widths.len())
                    .filter(|at| !self.is_number(columns[*at]) && widths[*at] > WORDS_WIDTH_MIN)
                    .max_by_key(|at| widths[*at]);
                match widest {
                    Some(at) => widths[at] -= 1,
                    None => break,
                }
            }
        }
    }

    /// The columns that stand side by side in each block; those that name the row are repeated in all.
    fn blocks(&self) -> Vec<Vec<usize>> {
        let all: Vec<_> = (0..self.widths.len()).collect();
        // How narrow each column can be made decides where the table continues below.
        let widths = self.arrange(&all);
        let keys = self.keys();
        let names: Vec<usize> = (0..keys).collect();
        let names_width = widths[..keys].iter().sum::<usize>() + GAP * (keys - 1);
        let mut blocks = vec![names.clone()];
        let mut used = names_width;
        for (at, width) in widths.iter().enumerate().skip(keys) {
            if used + GAP + width > self.style.width
                && blocks.last().is_some_and(|block| block.len() > keys)
            {
                blocks.push(names.clone());
                used = names_width;
            }
            used += GAP + width;
            if let Some(block) = blocks.last_mut() {
                block.push(at);
            }
        }
        blocks
    }

    fn write(&self, out: &mut String) {
        for (index, block) in self.blocks().into_iter().enumerate() {
            if index > 0 {
                out.push('\n');
            }
            self.write_block(out, &block);
        }
    }

    fn write_block(&self, out: &mut String, columns: &[usize]) {
        let widths = self.fit(columns);
        let heading = columns
            .iter()
            .zip(&widths)
            .map(|(at, width)| text::wrap(&self.headings[*at], *width))
            .collect::<Vec<_>>();
        let height = heading.iter().map(Vec::len).max().unwrap_or(0);
        for line in 0..height {
            // Short headings sit on the rule, like the numbers below them.
            let parts = heading.iter().map(|lines| {
                (line + lines.len())
                    .checked_sub(height)
                    .map_or("", |at| &lines[at])
            });
            let line = self.line(columns, &widths, parts);
            out.push_str(&self.style.bold(&line));
            out.push('\n');
        }
        let total = widths.iter().sum::<usize>() + GAP * (widths.len() - 1);
        out.push_str(&self.style.dim(&"─".repeat(total)));
        out.push('\n');
        let alike = columns.iter().zip(&widths);
        let alike: Vec<_> = alike.map(|(at, width)| self.alike(*at, *width)).collect();
        for (row, cells) in self.table.rows.iter().zip(&self.rows) {
            let lines: Vec<_> = columns
                .iter()
                .zip(widths.iter().zip(&alike))
                .map(|(at, (width, alike))| self.cell(*at, &cells[*at], *width, alike))
                .collect();
            for line in 0..lines.iter().map(Vec::len).max().unwrap_or(0) {
                let parts = lines
                    .iter()
                    .map(|lines| lines.get(line).map_or("", String::as_str));
                let line = self.line(columns, &widths, parts);
                out.push_str(&if row.strong {
                    self.style.bold(&line)
                } else {
                    line
                });
                out.push('\n');
            }
        }
    }

    /// The widths of a block; if one number beside the row's name is still too much, the name gives way.
    fn fit(&self, columns: &[usize]) -> Vec<usize> {
        let mut widths = self.arrange(columns);
        let mut overflow = self.overflow(&widths);
        for (width, at) in widths.iter_mut().zip(columns) {
            if !self.is_number(*at) {
                let taken = overflow.min(width.saturating_sub(4));
                *width -= taken;
                overflow -= taken;
            }
        }
        widths.iter().map(|width| (*width).max(1)).collect()
    }

    fn is_shortened(&self) -> bool {
        let is_in = |at: usize, width: usize| {
            let alike = self.alike(at, width);
            let is_short = |row: &Vec<String>| {
                let lines = self.cell(at, &row[at], width, &alike);
                lines.len() == 1 && lines[0] != row[at]
            };
            self.table.columns[at].kind == Kind::Path && self.rows.iter().any(is_short)
        };
        let blocks = self.blocks();
        let mut all = blocks
            .iter()
            .flat_map(|block| block.iter().zip(self.fit(block)));
        all.any(|(at, width)| is_in(*at, width))
    }

    /// Shortened paths of which several become the same: what tells them apart is in their middles.
    fn alike(&self, at: usize, width: usize) -> HashSet<Cow<'_, str>> {
        let mut seen = HashMap::new();
        let is_path = self.table.columns[at].kind == Kind::Path;
        let rows = self.rows.iter().filter(|_| is_path);
        let alike = rows.filter_map(|row| {
            let short = text::shorten(&row[at], width);
            let before = seen.insert(short.clone(), &row[at]);
            before.is_some_and(|it| *it != row[at]).then_some(short)
        });
        alike.collect()
    }

    fn cell(
        &self,
        at: usize,
        shown: &str,
        width: usize,
        alike: &HashSet<Cow<'_, str>>,
    ) -> Vec<String> {
        let short = text::shorten(shown, width);
        match self.table.columns[at].kind {
            Kind::Path if !alike.contains(&short) => vec![short.into_owned()],
            Kind::Text | Kind::Path if text::width(shown) > width => text::wrap(shown, width),
            _ => vec![shown.to_string()],
        }
    }

    fn line<'b>(
        &self,
        columns: &[usize],
        widths: &[usize],
        parts: impl Iterator<Item = &'b str>,
    ) -> String {
        let mut line = String::new();
        for (index, ((at, width), part)) in columns.iter().zip(widths).zip(parts).enumerate() {
            let padding = " ".repeat(width.saturating_sub(text::width(part)));
            if index > 0 {
                line.push_str(&" ".repeat(GAP));
            }
            match self.is_number(*at) {
                true => line.extend([&padding, part]),
                false => line.extend([part, &padding]),
            }
        }
        line.truncate(line.trim_end().len());
        line
    }
}

fn show_row(table: &Table, row: &super::Row, style: &Style) -> Vec<String> {
    let mut cells: Vec<_> = table
        .columns
        .iter()
        .zip(&row.cells)
        .map(|(column, cell)| column.show(cell))
        .collect();
    // A star says the same where nothing can be bold.
    if let Some(first) = cells.first_mut().filter(|_| row.strong && !style.colour) {
        first.push_str(" *");
    }
    cells
}
