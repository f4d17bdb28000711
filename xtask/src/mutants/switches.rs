//! Faults of a crate as switches: one build holds all of them, and a variable of the environment
//! turns one on.
//!
//! cargo-mutants says what can be changed where. Here each change goes beside what it changes, as
//! in `(if crate::switched(7) { a <= b } else { a < b })`, in a copy of the workspace. Changes that
//! the compiler refuses are left out. So a fault costs the tests that find it, and no build.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use anyhow::{Context, Result};
use serde::Deserialize;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

use crate::workspace;

/// The variable that has the number of the fault.
pub const VARIABLE: &str = "ZMELD_SWITCH";
/// The variable that names the file to which the numbers go of what was reached.
pub const REACHED: &str = "ZMELD_SWITCHES_REACHED";

/// Function that each crate with switches asks.
const ASKED: &str = r#"
/// Returns true if the fault of this number is turned on.
#[doc(hidden)]
pub fn switched(number: usize) -> bool {
    use std::sync::{LazyLock, Mutex};
    static ON: LazyLock<Option<usize>> =
        LazyLock::new(|| std::env::var("ZMELD_SWITCH").ok()?.parse().ok());
    static REACHED: LazyLock<Option<Mutex<(std::fs::File, Vec<bool>)>>> = LazyLock::new(|| {
        let path = std::env::var_os("ZMELD_SWITCHES_REACHED")?;
        let file = std::fs::File::options().append(true).open(path).ok()?;
        Some(Mutex::new((file, vec![false; 100_000])))
    });
    if let Some(Ok(mut reached)) = REACHED.as_ref().map(Mutex::lock) {
        if !std::mem::replace(&mut reached.1[number], true) {
            let _ = std::io::Write::write_all(&mut reached.0, format!("{number}\n").as_bytes());
        }
    }
    *ON == Some(number)
}
"#;

/// A change, as `cargo mutants --list --json` has it.
#[derive(Deserialize)]
pub struct Mutant {
    pub name: String,
    pub file: String,
    genre: Genre,
    replacement: String,
    span: Span,
    function: Option<Function>,
}

#[derive(Deserialize)]
struct Function {
    span: Span,
}

#[derive(Deserialize)]
enum Genre {
    FnValue,
    BinaryOperator,
    UnaryOperator,
    MatchArmGuard,
    MatchArm,
    StructField,
}

#[derive(Deserialize)]
struct Span {
    start: Position,
    end: Position,
}

/// Both counted from one, columns in characters.
#[derive(Deserialize)]
struct Position {
    line: usize,
    column: usize,
}

impl Position {
    fn offset(&self, text: &str) -> usize {
        let lines = text.split_inclusive('\n').take(self.line - 1);
        let before: usize = lines.map(str::len).sum();
        let line = text[before..].chars().take(self.column - 1);
        before + line.map(char::len_utf8).sum::<usize>()
    }
}

impl Mutant {
    /// The name without line and column: the same wherever else the file was edited.
    pub fn identity(&self) -> String {
        let rest = self.name.strip_prefix(&self.file).unwrap_or(&self.name);
        let rest = rest.splitn(4, ':').last().unwrap_or(rest);
        format!("{}:{rest}", self.file)
    }

    /// An edit that changes nothing, around the function: the compiler may complain of its head.
    fn whole(&self, text: &str, number: usize) -> Edit {
        let span = self.function.as_ref().map_or(&self.span, |it| &it.span);
        Edit {
            number,
            around: span.start.offset(text)..span.end.offset(text),
            before: String::new(),
            after: String::new(),
        }
    }
}

/// Text put before and after a stretch of a file.
struct Edit {
    number: usize,
    around: Range<usize>,
    before: String,
    after: String,
}

/// A file with its switches, and which bytes of it belong to which.
struct Switched {
    text: String,
    of: Vec<(Range<usize>, usize)>,
}

/// Ranges of each file, and the numbers of the faults put there.
#[derive(Default)]
pub struct Places(BTreeMap<String, Vec<(Range<usize>, usize)>>);

impl Places {
    /// The fault that an error at this byte of a file is about: the smallest around it.
    pub fn at(&self, file: &str, byte: usize) -> Option<usize> {
        let around = self
            .0
            .get(file)?
            .iter()
            .filter(|(of, _)| of.contains(&byte));
        let least = around.min_by_key(|(of, _)| of.len());
        least.map(|(_, number)| *number)
    }
}

/// The files of a package with the switches of these numbers in them.
pub struct Put {
    pub texts: BTreeMap<String, String>,
    pub places: Places,
    /// Those that have no such form.
    pub without: BTreeSet<usize>,
}

/// Puts the switches with these numbers into the files of the package whose folder this is.
pub fn put(package: &str, mutants: &[Mutant], numbers: &[usize]) -> Result<Put> {
    let mut by_file: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for &number in numbers {
        by_file
            .entry(&mutants[number].file)
            .or_default()
            .push(number);
    }
    let mut places = Places::default();
    let mut without = BTreeSet::new();
    let mut texts = BTreeMap::new();
    for (file, numbers) in by_file {
        let text = workspace::read(&workspace::root().join(file))?;
        let nodes = Nodes::of(&text).with_context(|| format!("cannot parse {file}"))?;
        let mut edits = Vec::new();
        for number in numbers {
            match nodes.edit(&text, &mutants[number], number) {
                Some(edit) => edits.extend([mutants[number].whole(&text, number), edit]),
                None => {
                    without.insert(number);
                }
            }
        }
        let switched = edited(&text, edits);
        places.0.insert(file.to_owned(), switched.of);
        texts.insert(file.to_owned(), switched.text);
    }
    for root in ["lib.rs", "main.rs"] {
        let file = format!("{package}/src/{root}");
        let path = workspace::root().join(&file);
        if path.exists() {
            let text = texts.entry(file);
            text.or_insert(workspace::read(&path)?).push_str(ASKED);
        }
    }
    Ok(Put {
        texts,
        places,
        without,
    })
}

/// The text with all edits; of two around the same, the earlier is outside.
fn edited(text: &str, edits: Vec<Edit>) -> Switched {
    let mut inserted = Vec::new();
    for (at, edit) in edits.iter().enumerate() {
        let Range { start, end } = edit.around;
        let at = at as isize;
        inserted.push((start, true, -(end as isize), at));
        inserted.push((end, false, -(start as isize), -at));
    }
    inserted.sort_unstable();
    let mut switched = Switched {
        text: String::with_capacity(text.len() * 2),
        of: Vec::new(),
    };
    let mut starts = vec![0; edits.len()];
    let mut from = 0;
    for (place, is_before, _, at) in inserted {
        let at = at.unsigned_abs();
        let edit = &edits[at];
        switched.text.push_str(&text[from..place]);
        from = place;
        let words = if is_before {
            starts[at] = switched.text.len();
            &edit.before
        } else {
            &edit.after
        };
        switched.text.push_str(words);
        if !is_before {
            let around = starts[at]..switched.text.len();
            switched.of.push((around, edit.number));
        }
    }
    switched.text.push_str(&text[from..]);
    switched
}

/// The stretches of a file that an operator, a guard, an arm or a field is part of, by where that begins.
#[derive(Default)]
struct Nodes {
    binary: BTreeMap<usize, Binary>,
    /// By the operator: the whole, and what it is applied to.
    unary: BTreeMap<usize, [Range<usize>; 2]>,
    arms: BTreeMap<usize, Arm>,
    fields: BTreeMap<usize, Field>,
}

struct Binary {
    whole: Range<usize>,
    left: Range<usize>,
    right: Range<usize>,
}

struct Arm {
    pattern: Range<usize>,
    guard: Option<Range<usize>>,
}

struct Field {
    name: String,
    value: Range<usize>,
    is_short: bool,
    of: String,
    base: Range<usize>,
}

fn bytes(node: &impl Spanned) -> Range<usize> {
    node.span().byte_range()
}

impl Nodes {
    fn of(text: &str) -> Result<Nodes> {
        let mut nodes = Nodes::default();
        nodes.visit_file(&syn::parse_file(text)?);
        Ok(nodes)
    }

    fn edit(&self, text: &str, mutant: &Mutant, number: usize) -> Option<Edit> {
        let start = mutant.span.start.offset(text);
        let end = mutant.span.end.offset(text);
        let new = &mutant.replacement;
        let on = format!("crate::switched({number})");
        let edit = |around: Range<usize>, before: String, after: &str| {
            Some(Edit {
                number,
                around,
                before,
                after: after.to_owned(),
            })
        };
        let otherwise = |around: Range<usize>, changed: String| {
            edit(around, format!("(if {on} {{ {changed} }} else {{ "), " })")
        };
        match mutant.genre {
            Genre::FnValue => edit(start..end, format!("if {on} {{ return {new}; }} "), ""),
            Genre::BinaryOperator => {
                let found = self.binary.get(&start)?;
                let [left, right] = [&found.left, &found.right].map(|it| &text[it.clone()]);
                let changed = format!("{left} {new} {right}");
                otherwise(found.whole.clone(), changed)
            }
            Genre::UnaryOperator => {
                let [whole, inner] = self.unary.get(&start)?;
                otherwise(whole.clone(), text[inner.clone()].to_owned())
            }
            Genre::MatchArmGuard if new == "true" => edit(start..end, format!("({on} || ("), "))"),
            Genre::MatchArmGuard => edit(start..end, format!("(!{on} && ("), "))"),
            Genre::MatchArm => {
                let arm = self.arms.get(&start)?;
                match &arm.guard {
                    Some(guard) => edit(guard.clone(), format!("!{on} && ("), ")"),
                    None => {
                        let end = arm.pattern.end;
                        edit(end..end, format!(" if !{on}"), "")
                    }
                }
            }
            Genre::StructField => {
                let field = self.fields.get(&start)?;
                let name = &field.name;
                let other = match &text[field.base.clone()] {
                    base if base.ends_with("default()") => {
                        format!("<{} as Default>::default().{name}", field.of)
                    }
                    base => format!("({base}).clone().{name}"),
                };
                let label = match field.is_short {
                    true => format!("{name}: "),
                    false => String::new(),
                };
                let before = format!("{label}if {on} {{ {other} }} else {{ ");
                edit(field.value.clone(), before, " }")
            }
        }
    }
}

impl<'a> Visit<'a> for Nodes {
    fn visit_expr_binary(&mut self, node: &'a syn::ExprBinary) {
        let found = Binary {
            whole: bytes(node),
            left: bytes(&node.left),
            right: bytes(&node.right),
        };
        self.binary.insert(bytes(&node.op).start, found);
        visit::visit_expr_binary(self, node);
    }

    fn visit_expr_unary(&mut self, node: &'a syn::ExprUnary) {
        let ranges = [bytes(node), bytes(&node.expr)];
        self.unary.insert(ranges[0].start, ranges);
        visit::visit_expr_unary(self, node);
    }

    fn visit_arm(&mut self, node: &'a syn::Arm) {
        let arm = Arm {
            pattern: bytes(&node.pat),
            guard: node.guard.as_ref().map(|(_, guard)| bytes(guard)),
        };
        self.arms.insert(arm.pattern.start, arm);
        visit::visit_arm(self, node);
    }

    fn visit_expr_struct(&mut self, node: &'a syn::ExprStruct) {
        if let Some(base) = &node.rest {
            for field in &node.fields {
                let path = &node.path;
                let found = Field {
                    name: quote_of(&field.member),
                    value: bytes(&field.expr),
                    is_short: field.colon_token.is_none(),
                    of: quote_of(path),
                    base: bytes(base),
                };
                self.fields.insert(bytes(field).start, found);
            }
        }
        visit::visit_expr_struct(self, node);
    }
}

fn quote_of(node: &impl quote::ToTokens) -> String {
    node.to_token_stream().to_string()
}
