//! Every mistake in files of TOML with its place, its key and the way out.
//!
//! serde ends at the first mistake, so that what is mistaken is taken out of the [`Tree`] and the
//! rest is read again, until nothing is wrong.

use std::collections::BTreeMap;
use std::mem;
use std::ops::Range;

use toml::de::{DeArray, DeTable, DeValue};
use toml::Spanned;

use super::files::{place, Source};
use crate::choices::{choices, known_elsewhere, meant};
use crate::codec::{respelt, Codec};
use crate::finding::{FilePosition, Finding, Severity};

/// Below this key the names are the user's own.
pub(super) const TIERS: &str = "tier";

/// A file may hold more mistakes than anybody reads at once, and each costs a reading of the whole.
const MISTAKES_MAX: usize = 20;

pub(super) type Places = BTreeMap<String, FilePosition>;

/// Position of a key, or of the nearest table or list that it is in.
pub(super) fn nearest<'a>(places: &'a Places, key: &str) -> Option<&'a FilePosition> {
    let above = || nearest(places, &key[..key.rfind(['.', '['])?]);
    places.get(key).or_else(above)
}

/// A mistake in a tree: in which bytes, and what serde says of it.
pub(super) type Mistake = (Range<usize>, String);

pub(super) type Node<'t> = Spanned<DeValue<'t>>;

pub(super) struct Tree<'t> {
    pub root: Node<'t>,
    pub sources: &'t [Source],
}

/// A key with the tables that it is in, the bytes of its name and of its value, and what that is.
struct Key {
    path: String,
    name: Range<usize>,
    value: Range<usize>,
    is: String,
}

impl<'t> Tree<'t> {
    /// All keys, and the root at their head.
    fn keys(&self) -> Vec<Key> {
        let mut keys = Vec::new();
        add_keys(String::new(), 0..0, &self.root, &mut keys);
        keys
    }

    pub fn places(&self) -> Places {
        let keys = self.keys().into_iter().skip(1);
        let at = |key: Key| (place(self.sources, key.start()), key.path);
        keys.map(at).map(|(place, path)| (path, place)).collect()
    }

    /// What `read` makes of it, and all mistakes. Where something is wrong its default stands in,
    /// so that what follows is read too. None where nothing can be made of it.
    pub fn read<T>(
        &self,
        read: impl Fn(Node<'t>) -> Result<T, Mistake>,
    ) -> (Option<T>, Vec<Finding>) {
        let keys = self.keys();
        let mut root = self.root.clone();
        let mut found: Vec<Finding> = Vec::new();
        // serde would take the items of a list for a table's values, in their order, and a date
        // for a table.
        for key in keys
            .iter()
            .filter(|key| (key.is == A_LIST || key.is.starts_with(A_DATE)) && is_table(&key.path))
        {
            let table = told(key, "invalid type: sequence, expected a map");
            let is_in_two_pairs =
                |item: &Key| item.path == format!("{}[0]", key.path) && item.value == key.value;
            let what = match keys.iter().any(is_in_two_pairs) {
                true => table.replacen("write ", "write one pair of brackets: ", 1),
                false => table,
            };
            found.push(mistake(self.sources, key.start(), &key.path, what));
            change(root.get_mut(), key, "");
        }
        loop {
            let (at, what) = match read(root.clone()) {
                Ok(value) => return (Some(value), found),
                Err(_) if found.len() >= MISTAKES_MAX => break,
                Err(mistake) => mistake,
            };
            // The first of `[[list]]` and the list stand in the same bytes.
            let key = keys.iter().rfind(|key| key.name == at || key.value == at);
            let key = match key.unwrap_or(&keys[0]) {
                // It is the name that is wrong.
                key if key.name == at => key,
                key => key.meant_by(&what, &keys),
            };
            let change = change(root.get_mut(), key, &what);
            let is_mended = change == Some(true) && !what.starts_with(NO_SUCH_NAME);
            // What was taken out is missed later.
            let missed = what
                .strip_prefix(MISSING)
                .and_then(|it| it.split('`').next());
            let missed = missed.map(|name| dotted(&key.path, name));
            let is_known = missed.is_some_and(|it| found.iter().any(|found| found.about == it));
            if !is_mended && !is_known {
                let at = match what.starts_with(NO_SUCH_KEY) {
                    true => key.name.start,
                    false => key.start(),
                };
                let kind = dotted(&key.path, "kind");
                let is_tier = !key.path.contains('.') && keys.iter().any(|it| it.path == kind);
                let what = match is_tier && what.starts_with(NO_SUCH_KEY) {
                    true => format!("there is no such key; write [{TIERS}.{}]", key.path),
                    false => told(key, &what),
                };
                found.push(mistake(self.sources, at, &key.path, what));
            }
            if change.is_none() {
                return (None, found);
            }
        }
        let what = format!("{MISTAKES_MAX} mistakes are told at once; mend them to see the rest");
        found.push(Finding {
            severity: Severity::Notice,
            ..mistake(self.sources, usize::MAX, "", what)
        });
        (None, found)
    }

    /// The smallest part that can be left out whole and that a key is in: a tier, a rule, or
    /// what is no table of tables. None where it is in none.
    pub fn part(&self, key: &str) -> Option<String> {
        // A list is left out whole.
        let mut names = key.split('[').next()?.split('.');
        let (first, second) = (names.next()?, names.next());
        let table = self.root.get_ref().get(first)?.get_ref();
        let below = second.filter(|it| table.get(it).is_some_and(|it| it.get_ref().is_table()));
        match below {
            Some(name) => Some(dotted(first, name)),
            // All tiers are too much.
            None => (first != TIERS).then(|| first.to_owned()),
        }
    }

    pub fn remove(&mut self, part: &str) {
        let keys = self.keys();
        for key in keys.iter().filter(|key| key.path == part) {
            change(self.root.get_mut(), key, "");
        }
    }
}

// What toml says of them.
const UNQUOTED: &str = "string values must be quoted";
// Of words that begin as a truth value, `inf` or `nan` does.
const UNQUOTED_WORDS: [&str; 3] = [UNQUOTED, "invalid boolean", "invalid float"];
const NO_VALUE: &str = "key with no value";
const UNEXPECTED: &str = "unexpected key or value";
const NO_SEMICOLON: &str = "no ; ends a line; remove it";
const UNCLOSED_TABLE: &str = "unclosed table";
const UNCLOSED_TEXT: [&str; 2] = ["string, expected `\"`", "string, expected `'`"];

/// A value without quotes: up to the end of its line, or of the list or table that it is in.
fn bare_value(rest: &str) -> &str {
    let mut open = 0;
    let ends = |c: char| {
        open += i32::from(c == '(') - i32::from(c == ')');
        "#\n".contains(c) || open <= 0 && ",]}".contains(c)
    };
    rest.split(ends).next().unwrap_or_default().trim()
}

/// The head of a table whose names have blanks in them, as it is meant: a point between the first
/// two, where there is none, and a hyphen for every other blank.
fn without_blanks(line: &str) -> Option<String> {
    let (name, _) = line.trim_start_matches('[').split_once(']')?;
    let name = match name.contains('.') {
        true => name.trim().to_owned(),
        false => name.trim().replacen(' ', ".", 1),
    };
    let names = name.split('.').map(|name| {
        let words: Vec<&str> = name.split_whitespace().collect();
        words.join("-")
    });
    let names: Vec<String> = names.collect();
    (names.iter().all(|name| !name.is_empty())).then(|| format!("[{}]", names.join(".")))
}

fn in_quotes(value: &str) -> String {
    let respelt = respelt(value);
    let value = respelt.as_deref().unwrap_or(value);
    format!("a text is needed in quotes; write {value:?}")
}

/// The rest of a line, without its comment.
fn before_comment(rest: &str) -> &str {
    rest.split(['#', '\n']).next().unwrap_or_default()
}

/// The head of a table that lacks one of its brackets, with both.
fn with_brackets(line: &str) -> Option<String> {
    let line = before_comment(line).trim();
    let name = line.strip_prefix('[').or(line.strip_suffix(']'))?.trim();
    let is_of_name = |c: char| c.is_alphanumeric() || "._-".contains(c);
    (!name.is_empty() && name.chars().all(is_of_name)).then(|| format!("[{name}]"))
}

/// Keys that are true or false.
const TRUTHS: [&str; 10] = [
    "compressed",
    "dry_run",
    "enabled",
    "format",
    "hibernation",
    "melding",
    "optional",
    "protect_real_time",
    "same_filled",
    "shrinker",
];

/// Lists that a line of its own table or the end of the text shows to be open: from the line of
/// the bracket up to the last byte before it.
fn unclosed_lists(text: &str) -> Vec<Range<usize>> {
    let is_in_text = ["\"\"\"", "'''"].iter().any(|it| text.contains(it));
    let mut found = Vec::new();
    // Where the line of each open bracket begins, and the last byte that says something.
    let (mut open, mut last) = (Vec::new(), 0);
    let mut at = 0;
    for line in text.split_inclusive('\n').filter(|_| !is_in_text) {
        let (said, begins) = (before_comment(line).trim(), at);
        let name = said.split('=').next().unwrap_or_default().trim();
        let head = said.trim_matches(['[', ']']);
        let is_key = said.contains('=') && !name.is_empty() && !name.contains(NOT_OF_NAMES);
        let is_head = said.starts_with('[')
            && said.ends_with(']')
            && head.starts_with(char::is_alphabetic)
            && !head.contains(NOT_OF_NAMES);
        if is_key || is_head {
            found.extend(begin_of(&open).map(|begin| begin..last));
            open.clear();
        }
        let (mut quote, mut is_value) = (None, !open.is_empty());
        let mut letters = line.char_indices();
        while let Some((place, c)) = letters.next() {
            match (quote, c) {
                (None, '"' | '\'') => quote = Some(c),
                (Some('"'), '\\') => {
                    letters.next();
                    continue;
                }
                (Some(open), c) if open == c => quote = None,
                (Some(_), _) => continue,
                (None, '#') => break,
                (None, '=') => is_value = true,
                (None, '[' | '{') if !is_value => {}
                (None, '[') => open.push(begins),
                (None, '{') => open.push(IN_TABLE),
                (None, ']' | '}') => {
                    open.pop();
                }
                _ => {}
            }
            if !c.is_whitespace() {
                last = at + place + c.len_utf8();
            }
        }
        // A text without its closing quote: the parser names that.
        if quote.is_some() {
            open.clear();
        }
        at += line.len();
    }
    found.extend(begin_of(&open).map(|begin| begin..last));
    found
}

/// Where the outermost open list begins; none where a table is open, in which keys stand, too.
fn begin_of(open: &[usize]) -> Option<usize> {
    let first = open.first().copied();
    first.filter(|_| !open.contains(&IN_TABLE))
}

/// In place of the begin of a list's line.
const IN_TABLE: usize = usize::MAX;
const NOT_OF_NAMES: [char; 7] = ['[', ']', '{', '}', ',', '"', '\''];

/// The text of a file that is no TOML, with blanks in place of lists that are open and of lines
/// whose value lacks its quotes, and what each lacks.
pub(super) fn without_unquoted(source: &Source) -> (String, Vec<(usize, String)>) {
    let mut legible = source.text.clone();
    let mut found = Vec::new();
    for list in unclosed_lists(&legible).into_iter().take(MISTAKES_MAX) {
        found.push((
            list.end,
            "a list has no closing bracket; end it with ]".to_owned(),
        ));
        let blank = legible[list.clone()].chars().map(|c| match c {
            '\n' => "\n".to_owned(),
            c => " ".repeat(c.len_utf8()),
        });
        let blank: String = blank.collect();
        legible.replace_range(list, &blank);
    }
    // The same without the other lines that are no TOML.
    let mut rest = legible.clone();
    for _ in 0..MISTAKES_MAX {
        let (_, errors) = DeTable::parse_recoverable(&rest);
        let mut errors: Vec<(usize, &str)> = errors
            .iter()
            .map(|error| {
                let at = error.span().map_or(source.start, |span| span.start);
                (at, error.message())
            })
            .collect();
        errors.sort_by_key(|(at, _)| *at);
        let Some((at, message)) = errors.first().copied() else {
            break;
        };
        let (start, line) = (source.line_start(at), source.line(at));
        let (end, blank) = (start + line.len(), " ".repeat(line.len()));
        if unquoted(source, at, message).is_none() {
            let is_head = line.trim_start().starts_with('[') && !line.contains('=');
            let before = &rest[..if is_head { start } else { end }];
            let is_in_text = ["\"\"\"", "'''"].iter().any(|it| before.contains(it));
            if rest[start..end].trim().is_empty() || is_in_text || !closes_brackets(before) {
                break;
            }
            rest.replace_range(start..end, &blank);
            continue;
        }
        let mut after = start;
        for (at, message) in errors {
            // What is wrong within a value goes with it.
            let is_next = (after..=end).contains(&at);
            let what = unquoted(source, at, message).filter(|_| is_next);
            if let Some(what) = what {
                found.push((at, what));
                after = at + bare_value(&source.text[at..]).len();
            }
        }
        // The lines after it are of the same list or table.
        if !closes_brackets(line) {
            break;
        }
        legible.replace_range(start..end, &blank);
        rest.replace_range(start..end, &blank);
    }
    (legible, found)
}

/// Whether as many lists and tables end in a text as begin.
fn closes_brackets(text: &str) -> bool {
    let count = |brackets: [char; 2]| text.matches(brackets).count();
    count(['[', '{']) == count([']', '}'])
}

/// The way out where a syntax error is a value without its quotes.
fn unquoted(source: &Source, at: usize, message: &str) -> Option<String> {
    let rest = source.text.get(at..).unwrap_or_default();
    // The parser names the place before a value, or the value itself.
    let quote = rest
        .trim_start_matches([' ', '='])
        .chars()
        .next()
        .filter(|c| "“”„‟‘’‚‛«»".contains(*c));
    if let Some(quote) = quote {
        return Some(format!(
            "{quote} is a typographic quote; write straight ones: \"...\""
        ));
    }
    let written = bare_value(rest);
    let value = written.trim_end_matches([';', ' ']);
    let is = |names: &[&str]| {
        let value = value.to_lowercase();
        let is_near = |name: &&str| name.len() > 3 && strsim::jaro_winkler(name, &value) > 0.85;
        names.contains(&&*value) || names.iter().any(is_near)
    };
    // The last of a dotted one, or of an inline table.
    let before = source.text.get(..at).unwrap_or_default();
    let before = before.trim_end_matches([' ', '\t', '=', '"', '\'']);
    let is_of_key = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
    let key = before.rsplit(|c| !is_of_key(c)).next().unwrap_or_default();
    let is_word = value.starts_with(char::is_alphabetic) || message.starts_with(UNQUOTED);
    let is_unquoted = UNQUOTED_WORDS.iter().any(|it| message.starts_with(it));
    (is_word && !value.is_empty() && is_unquoted).then(|| {
        match (is(&["true", "yes", "on"]), is(&["false", "no", "off"])) {
            (true, _) => format!("{value} is no value; write true"),
            (_, true) => format!("{value} is no value; write false"),
            _ if TRUTHS.contains(&key) => format!("{value} is no value; write true or false"),
            _ if value != written && value.parse::<f64>().is_ok() => NO_SEMICOLON.to_owned(),
            _ => in_quotes(value.trim_matches('"')),
        }
    })
}

/// What a syntax error at a byte says, with the way out.
pub(super) fn syntax(source: &Source, at: usize, message: &str) -> String {
    if let Some(what) = unquoted(source, at, message) {
        return what;
    }
    let rest = source.text.get(at..).unwrap_or_default();
    let line = source.line(at).trim();
    let line_value = bare_value(line.split_once('=').map_or("", |(_, value)| value));
    if message.starts_with(UNCLOSED_TABLE) || message.starts_with(NO_VALUE) {
        if let Some(head) = with_brackets(line) {
            return format!("a table's name stands in brackets; write {head}");
        }
    }
    let head = without_blanks(line).filter(|_| message.starts_with(UNCLOSED_TABLE));
    if let Some(head) = head {
        return format!("a name takes no blanks; write {head}");
    }
    match source.first_of(at) {
        Some((key, first)) if message == "duplicate key" => {
            format!("{key} is in line {first} already; keep one of them")
        }
        None if message == "duplicate key" && line.starts_with("[[") => {
            let name = line.trim_matches(['[', ']', ' ']);
            format!("a table of that name is there already; write [{name}.NAME]")
        }
        _ if UNCLOSED_TEXT.iter().any(|it| message.ends_with(it)) => {
            let quote = message.trim_end_matches('`').chars().last();
            format!(
                "a text has no closing quote; end it with {}",
                quote.unwrap_or('"')
            )
        }
        _ if source.text.trim_start().starts_with('{') => {
            "this looks like JSON, and a configuration is TOML; zmeld plan --toml prints one"
                .to_owned()
        }
        _ if message.ends_with("expected key") => {
            "a line is [TABLE], KEY = VALUE or # COMMENT".to_owned()
        }
        _ if line.starts_with(';') => "a comment begins with #".to_owned(),
        _ if message.starts_with("missing comma between array") => {
            match before_comment(rest).contains('=') {
                true => "a list above is not closed, or a text in it".to_owned(),
                false => "a comma is missing between items of a list".to_owned(),
            }
        }
        _ if message.starts_with(NO_VALUE) && line.contains(':') => {
            match line
                .strip_suffix(':')
                .filter(|name| name.starts_with("tier."))
            {
                Some(table) => format!("a table's name stands in brackets; write [{table}]"),
                None => "write = between a key and its value, not :".to_owned(),
            }
        }
        _ if message.starts_with(UNEXPECTED) && rest.starts_with('=') => in_quotes(line_value),
        _ if message.starts_with(UNEXPECTED) && before_comment(rest).contains('=') => {
            "one key stands in a line; write each in a line of its own".to_owned()
        }
        _ if message.starts_with(UNEXPECTED) && rest.trim_start().starts_with(',') => {
            let (key, values) = before_comment(line).split_once('=').unwrap_or_default();
            let values = values.trim().trim_end_matches([',', ' ']);
            match (line_value.contains(','), values.contains(',')) {
                (true, _) => in_quotes(line_value),
                (_, true) => {
                    let of_list = |value: &str| format!("{:?}", value.trim().trim_matches('"'));
                    let values: Vec<String> = values.split(',').map(of_list).collect();
                    let (key, values) = (key.trim(), values.join(", "));
                    format!("several values are a list; write {key} = [{values}]")
                }
                (_, false) => "no comma ends a line; remove it".to_owned(),
            }
        }
        _ if message.starts_with(UNEXPECTED) && rest.trim_start().starts_with(';') => {
            NO_SEMICOLON.to_owned()
        }
        _ => format!("{message}; see docs/configuration.md or toml.io"),
    }
}

pub(super) fn mistake(sources: &[Source], at: usize, key: &str, what: String) -> Finding {
    Finding {
        place: Some(place(sources, at)),
        ..Finding::new(Severity::Critical, key, what)
    }
}

/// A key with the tables that it is in.
pub(super) fn dotted(path: &str, name: &str) -> String {
    if path.is_empty() {
        name.to_owned()
    } else {
        format!("{path}.{name}")
    }
}

/// Adds a key, and those in its table or list after it.
fn add_keys(path: String, name: Range<usize>, node: &Node<'_>, keys: &mut Vec<Key>) {
    let (value, is) = (node.span(), description(node.get_ref()));
    let head = path.clone();
    keys.push(Key {
        path,
        name,
        value,
        is,
    });
    match node.get_ref() {
        DeValue::Table(table) => {
            for (name, node) in table {
                add_keys(dotted(&head, name.get_ref()), name.span(), node, keys);
            }
        }
        DeValue::Array(items) => {
            for (at, item) in items.iter().enumerate() {
                add_keys(format!("{head}[{at}]"), item.span(), item, keys);
            }
        }
        _ => {}
    }
}

impl Key {
    /// Where it begins, as people see it: a table at its name.
    fn start(&self) -> usize {
        match &*self.is {
            A_TABLE => self.name.start,
            _ => self.value.start,
        }
    }

    /// The key that is mistaken: within a table whose kind stands in it, serde knows no places.
    fn meant_by<'k>(&'k self, what: &str, keys: &'k [Key]) -> &'k Key {
        let wrong = what.split(['`', '"']).nth(1);
        let wrong = wrong.filter(|_| self.is == A_TABLE && !what.starts_with(MISSING));
        let is_meant = |it: &&Key| match what.starts_with(NO_SUCH_KEY) {
            true => it.path.rsplit('.').next() == wrong,
            false => wrong.is_some_and(|wrong| it.is.trim_end_matches('"').ends_with(wrong)),
        };
        let below = dotted(&self.path, "");
        let mut below = keys.iter().filter(|it| it.path.starts_with(&below));
        below.find(is_meant).unwrap_or(self)
    }
}

/// The name that was meant for a table, or for a key that is wrong in its capitals alone: the value
/// is read all the same.
fn meant_name(name: &str, node: &Node<'_>, what: &str) -> Option<String> {
    let names: Vec<&str> = what.split('`').skip(3).step_by(2).collect();
    let is_unknown = what.starts_with(NO_SUCH_KEY) && known_elsewhere(name, &names).is_none();
    let meant = meant(name, names.into_iter()).filter(|_| is_unknown)?;
    (node.get_ref().is_table() || name.eq_ignore_ascii_case(meant)).then(|| meant.to_owned())
}

/// Gives a key the value or the name that is meant, and takes it out where that is not known:
/// false, as with a name. None where it is not there.
fn change(node: &mut DeValue<'_>, key: &Key, what: &str) -> Option<bool> {
    let mut is_mended = None;
    let mut keep = |name: Range<usize>, node: &mut Node<'_>| {
        if name != key.name {
            is_mended = is_mended.or(change(node.get_mut(), key, what));
            return true;
        }
        let meant = meaning(&key.path, node, what);
        is_mended = Some(meant.is_some());
        meant.map(|it| *node.get_mut() = it).is_some()
    };
    match node {
        DeValue::Table(table) => {
            for (name, mut node) in mem::take(table) {
                if keep(name.span(), &mut node) {
                    table.insert(name, node);
                } else if let Some(meant) = meant_name(name.get_ref(), &node, what) {
                    let name = Spanned::new(name.span(), meant.into());
                    table.entry(name).or_insert(node);
                }
            }
        }
        DeValue::Array(items) => {
            let all = mem::replace(items, DeArray::new()).into_iter();
            let kept = all.filter_map(|mut it| keep(it.span(), &mut it).then_some(it));
            *items = kept.collect();
        }
        _ => {}
    }
    is_mended
}

// What serde and toml say.
pub(super) const NO_SUCH_KEY: &str = "unknown field";
const NO_SUCH_NAME: &str = "unknown variant";
const MISSING: &str = "missing field `";
const NEEDS_NAME: &str = "wanted string or table";

/// The value that is meant: where a list is needed anything else is a list of one (but for a
/// command with arguments), a misspelt name hides no other mistakes, and where a name
/// is needed a number is a name, of which serde then says what names there are.
fn meaning<'t>(path: &str, node: &Node<'t>, what: &str) -> Option<DeValue<'t>> {
    let text = match node.get_ref() {
        DeValue::Array(_) | DeValue::Table(_) | DeValue::Datetime(_) => return None,
        DeValue::String(text) => text.to_string(),
        scalar => description(scalar).replace("the number ", ""),
    };
    let name = meant(&text, what.split('`').skip(3).step_by(2));
    if what.ends_with(", expected a sequence") {
        if path.ends_with(".on_end") && text.contains(char::is_whitespace) {
            return None;
        }
        let item = Spanned::new(node.span(), DeValue::String(text.into()));
        return Some(DeValue::Array([item].into_iter().collect()));
    }
    if what == NEEDS_NAME {
        return Some(DeValue::String(text.into()));
    }
    let name = name.filter(|_| what.starts_with(NO_SUCH_NAME))?;
    Some(DeValue::String(name.to_owned().into()))
}

const A_TABLE: &str = "a table";
const A_LIST: &str = "a list";
const A_DATE: &str = "the date ";

/// Whether a key is a table of the configuration.
fn is_table(path: &str) -> bool {
    let names: Vec<&str> = path.split('.').collect();
    let is_item = path.ends_with(']');
    matches!(names[..], [TIERS, _] if !is_item)
        || matches!(
            names[..],
            [TIERS | "tunables" | "watch" | "metrics"]
                | [
                    "watch",
                    "recompress" | "writeback" | "meld" | "reclaim" | "guard"
                ]
                | [TIERS, _, "writeback"]
        )
}

fn description(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => format!("the text {text:?}"),
        DeValue::Integer(number) => format!("the number {number}"),
        DeValue::Float(number) => format!("the number {number}"),
        DeValue::Boolean(value) => value.to_string(),
        DeValue::Datetime(date) => format!("{A_DATE}{date}"),
        DeValue::Array(_) => A_LIST.to_owned(),
        DeValue::Table(_) => A_TABLE.to_owned(),
    }
}

/// What serde says, with the way out. What our own types say has it already.
fn told(Key { path, is, .. }: &Key, what: &str) -> String {
    // What our own types take as a text may be a number.
    let unquoted = is.strip_prefix("the number ").and_then(|number| {
        let rest = what.strip_prefix(&format!("{number:?}"))?;
        Some(format!("{number}{rest}"))
    });
    let what = unquoted.as_deref().unwrap_or(what);
    let (problem, needed) = what.rsplit_once(", expected ").unwrap_or((what, ""));
    let names: Vec<&str> = needed.split('`').skip(1).step_by(2).collect();
    if problem.starts_with(NO_SUCH_KEY) {
        let name = path.rsplit('.').next().unwrap_or_default();
        return format!("there is no such key; {}", choices(name, &names));
    }
    let text = is.strip_prefix("the text ").unwrap_or(is);
    if problem.starts_with(NO_SUCH_NAME) {
        let choices = choices(text.trim_matches('"'), &names);
        return format!("{text} is none of its values; {choices}");
    }
    if let Some(name) = what.strip_prefix(MISSING) {
        return format!("has no {}", name.replacen('`', "", 1));
    }
    if what.starts_with("write ") {
        return format!("is {is}; {what}");
    }
    if path.ends_with(".codec") {
        let names: Vec<&str> = text.trim_matches('"').split(',').map(str::trim).collect();
        let is_list = names
            .iter()
            .enumerate()
            .all(|(at, name)| name.parse::<Codec>().is_ok() && !names[..at].contains(name));
        if names.len() > 1 && is_list {
            return format!("is {is}; write {names:?}");
        }
    }
    if !problem.starts_with("invalid ") && what != NEEDS_NAME {
        return what.to_owned();
    }
    let unquoted = if text == is { "" } else { ", without quotes" };
    let way_out = match needed {
        "" | "a string" | "path string" => TEXT.to_owned(),
        "a boolean" => format!("write true or false{unquoted}"),
        "a sequence" => "write a list in [ ]".to_owned(),
        "f64" => format!("write a number{unquoted}"),
        "u32" | "u64" | "usize" if is.starts_with("the number -") => {
            "write a whole number from 0 on".to_owned()
        }
        "i64" | "u16" | "u32" | "u64" | "usize" => format!("write a whole number{unquoted}"),
        _ if path == TIERS => "write [tier.NAME] and its keys".to_owned(),
        _ => {
            // A key in [tier] belongs where it would at the top. A tier may be named as its kind.
            let key = path.strip_prefix("tier.").unwrap_or_default();
            let way_out = known_elsewhere(key, &["tunables"]);
            let way_out = way_out.filter(|way_out| !way_out.contains("kind = "));
            way_out.unwrap_or_else(|| format!("write [{path}] and its keys"))
        }
    };
    format!("is {is}; {way_out}")
}

const TEXT: &str = "a text is needed: write it in quotes, with its unit if it has one";
