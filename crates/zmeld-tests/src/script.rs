//! Cases that are text: a machine, what is done to it, and what comes of that.
//!
//! `let NAME = TEXT` names a configuration, in which "; " ends a line. `-- NAME` opens steps
//! that `do NAME ARGUMENTS` takes in, `== TITLE` a case. A case runs once for each of its
//! `with` lines; $1, $2 and so on are what they hold between bars. Steps of every machine:
//!
//! ```text
//! put PATH TEXT           writes a line, or several with \n between them
//! edit PATH FROM -> TO    puts a text in place of one that is there
//! says PATH TEXT          that is the line
//! $ LINE                  a line of shell in the machine's root folder
//! root                    the rest is for root alone
//! ```
//!
//! Below a step stands, indented, what comes of it; a single word of that may stand behind
//! the step and " => ":
//!
//! ```text
//! ! WORDS        it fails in one line with these words (else it must not fail), and leaves
//!                the machine as it was, unless `changed` stands below it, too
//! + WORDS        a line of the outcome has these words
//! all WORDS      each line has, and there is one
//! only WORDS     the one line that is there has
//! - WORDS        none has; of a failure: it does not say them
//! 2 WORDS        so many have
//! at-least 2     so many lines are there; so, too, at-most
//! unchanged      nothing was done, or is to be
//! kind KIND      the kind of the failure
//! ```
//!
//! Words may leave out some with " ... "; "^" is the line's begin, "$" its end.
//!
//! What came out of a file's cases, and what the steps that said something wrote and removed, is
//! held against what did before: `FILE.shown` has each line once, behind how often it came; of a long
//! one its beginning and a hash of all; of a folder that is gone its name alone. With ZMELD_SHOW=1 it
//! is written. Only root's runs do either.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::shown::shown;

/// A machine, and what can be done to it.
pub trait Case {
    /// Does a step, with what stands behind its first word.
    fn step(&mut self, script: &Script, what: &str, rest: &str, place: &str) -> Outcome;

    fn root(&self) -> PathBuf;

    /// State that a failed step leaves alone.
    fn everything(&self) -> Vec<String> {
        Vec::new()
    }

    /// Whether `FILE.shown` has what comes out.
    fn is_recorded() -> bool {
        true
    }

    /// State that `FILE.shown` has the changes of: all files but zmeld's own.
    fn recorded(&self) -> Vec<String> {
        files(&self.root())
    }

    /// A line for `FILE.shown` of that step, without what differs from run to run.
    fn lasting(&self, _what: &str, line: &str) -> String {
        let root = self.root();
        let above = root.parent().unwrap_or(&root).to_string_lossy();
        line.replace(&*root.to_string_lossy(), "")
            .replace(&*above, "TMP")
    }

    /// Whether other lines say the same, so that `FILE.shown` lacks this one.
    fn is_repeated(&self, _line: &str) -> bool {
        false
    }

    /// A step that is the same on every machine; whether it is one.
    fn on_files(&self, what: &str, rest: &str, place: &str) -> bool {
        let (path, text) = rest.split_once(' ').unwrap_or((rest, ""));
        let path = self.root().join(path.trim_start_matches('/'));
        let read = || String::from_utf8_lossy(&fs::read(&path).unwrap()).into_owned();
        match what {
            "put" => {
                let end = if text.is_empty() { "" } else { "\n" };
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, text.to_owned() + end).unwrap();
            }
            "edit" => {
                let (from, to) = text.split_once(" -> ").unwrap();
                assert!(read().contains(from), "{place}: {}", read());
                fs::write(&path, read().replace(from, to)).unwrap();
            }
            "says" => assert_eq!(read().trim_end(), text, "{place}"),
            "$" => {
                let mut shell = Command::new("sh");
                shell.args(["-euc", rest]).current_dir(self.root());
                assert!(shell.status().unwrap().success(), "{place}");
            }
            _ => return false,
        }
        true
    }

    fn steps(&mut self, script: &Script, lines: &[Line]) {
        let mut lines = lines.iter().peekable();
        while let Some((number, step)) = lines.next() {
            let (step, first) = step.split_once(" => ").unwrap_or((step, ""));
            let mut expected = Vec::from_iter((!first.is_empty()).then_some(first));
            while let Some((_, line)) = lines.next_if(|(_, line)| line.starts_with(' ')) {
                expected.push(line.trim_start());
            }
            let place = format!("{}:{number}: {step}", script.file);
            let (what, rest) = step.split_once(' ').unwrap_or((step, ""));
            match what {
                "with" => continue,
                "do" => {
                    let (name, arguments) = rest.split_once(' ').unwrap_or((rest, ""));
                    self.steps(script, &filled(&script.parts[name], arguments));
                    continue;
                }
                // Only root can try it.
                "root" if gives_files_away(&self.root()) => continue,
                "root" => return,
                _ if self.on_files(what, &unescaped(rest), &place) => {
                    Outcome::default().check(&expected, &place);
                    continue;
                }
                _ => {}
            }
            let before = self.everything();
            let recorded = Self::is_recorded().then(|| self.recorded());
            let outcome = self.step(script, what, rest, &place);
            outcome.check(&expected, &place);
            if let Some(recorded) = recorded {
                script.record(what, &outcome, self, recorded);
            }
            if !outcome.errors.is_empty() && !expected.contains(&"changed") {
                assert!(self.everything() == before, "{place} changed something");
            }
        }
    }
}

/// All files below a folder but zmeld's own, each with its text.
pub fn files(folder: &Path) -> Vec<String> {
    let mut all = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let (path, kind) = (entry.path(), entry.file_type().unwrap());
            if kind.is_dir() && !path.ends_with("run/zmeld") {
                folders.push(path);
            } else if kind.is_file() {
                let text = fs::read(&path).unwrap_or_default();
                let text = String::from_utf8_lossy(&text);
                all.push(format!("{} {text}", path.display()));
            }
        }
    }
    all
}

/// What makes the text of the one before: "+ " and "- " stand before a line that came and one
/// that went, and between them is how many others are the same; without any, the text as it is.
pub fn difference(before: &str, now: &str) -> String {
    let [before, after] = [before, now].map(|text| text.lines().collect::<Vec<_>>());
    // Length of the longest common subsequence of the lines from there on.
    let mut common = vec![vec![0; after.len() + 1]; before.len() + 1];
    for old in (0..before.len()).rev() {
        for new in (0..after.len()).rev() {
            common[old][new] = match before[old] == after[new] {
                true => common[old + 1][new + 1] + 1,
                false => common[old + 1][new].max(common[old][new + 1]),
            };
        }
    }
    if common[0][0] == 0 {
        return now.to_owned();
    }
    let (mut told, mut old, mut new) = (String::new(), 0, 0);
    while old < before.len() || new < after.len() {
        let same = before[old..].iter().zip(&after[new..]);
        let same = same.take_while(|(old, new)| old == new).count();
        if same > 0 {
            told += &format!("({same} the same)\n");
            (old, new) = (old + same, new + same);
        } else if old < before.len() && common[old + 1][new] == common[old][new] {
            told += &format!("- {}\n", before[old]);
            old += 1;
        } else {
            told += &format!("+ {}\n", after[new]);
            new += 1;
        }
    }
    told
}

/// Runs all cases of the file, each on a new machine.
pub fn run<C: Case>(file: &str, new: impl Fn() -> C) {
    let script = Script::read(file);
    let mut failed = Vec::new();
    for (title, lines) in &script.cases {
        let is_with = |(_, line): &Line| line.strip_prefix("with").map(str::to_owned);
        let mut with: Vec<String> = lines.iter().filter_map(is_with).collect();
        with.extend(with.is_empty().then(String::new));
        for arguments in &with {
            let run = || new().steps(&script, &filled(lines, arguments));
            if catch_unwind(AssertUnwindSafe(run)).is_err() {
                failed.push(format!("{title} {arguments}"));
            }
        }
    }
    let is_there = !script.cases.is_empty();
    assert!(is_there && failed.is_empty(), "{file}: {failed:#?}");
    if !C::is_recorded() {
        return;
    }
    if !gives_files_away(tempfile::tempdir().unwrap().path()) {
        eprintln!("SKIP: what {file} shows is held by root's runs alone");
    } else {
        let count = |(line, count): (&String, &usize)| format!("{count} {line}\n");
        let all: String = script.shown.borrow().iter().map(count).collect();
        shown(&file.replace(".txt", ".shown"), &all);
    }
}

/// Takes the steps of that part, on that machine.
pub fn take<C: Case>(file: &str, part: &str, mut case: C) -> C {
    case.steps(&Script::read(file), &[(0, format!("do {part}"))]);
    case
}

/// Of a line of `FILE.shown`, so many characters.
const LINE_MAX: usize = 300;

/// A line and where it stands.
pub type Line = (usize, String);

/// Whether this user makes a file another one's, as root does but for that of a container.
fn gives_files_away(folder: &Path) -> bool {
    let file = folder.join("given-away");
    fs::write(&file, "").unwrap();
    let is_given = std::os::unix::fs::chown(&file, Some(65534), None).is_ok();
    fs::remove_file(&file).unwrap();
    is_given
}

/// The lines with those arguments in place of $1 and so on.
fn filled(lines: &[Line], arguments: &str) -> Vec<Line> {
    let arguments: Vec<&str> = arguments.split('|').map(str::trim).collect();
    let fill = |line: &String| {
        (1..=6).fold(line.clone(), |line, number| {
            let argument = arguments.get(number - 1).unwrap_or(&"");
            line.replace(&format!("${number}"), argument)
        })
    };
    lines.iter().map(|(at, line)| (*at, fill(line))).collect()
}

/// With line feeds, tabs and the like.
pub fn unescaped(text: &str) -> String {
    let text = text.replace("\\n", "\n").replace("\\t", "\t");
    text.replace("\\x00", "\0").replace("\\x1b", "\x1b")
}

/// Whether the line has these words, in this order.
pub fn has(line: &str, words: &str) -> bool {
    let (line, words) = (format!("^{line}$"), unescaped(words));
    let mut words = words.split(" ... ");
    let rest = words.try_fold(&*line, |rest, it| Some(rest.split_once(it)?.1));
    rest.is_some()
}

/// A file of cases.
#[derive(Default)]
pub struct Script {
    file: String,
    texts: BTreeMap<String, String>,
    parts: BTreeMap<String, Vec<Line>>,
    cases: Vec<(String, Vec<Line>)>,
    /// Lines that came out, and how often.
    shown: RefCell<BTreeMap<String, usize>>,
}

impl Script {
    /// Notes what a step said and, where it said something, what it wrote.
    fn record(
        &self,
        what: &str,
        outcome: &Outcome,
        case: &(impl Case + ?Sized),
        before: Vec<String>,
    ) {
        if outcome.lines.is_empty() && outcome.more.is_empty() && outcome.errors.is_empty() {
            return;
        }
        let note = |sign: &str, line: &str| {
            let whole = case.lasting(what, line).replace('\n', "\\n");
            let mut line: String = whole.chars().take(LINE_MAX).collect();
            // Headers that are no text have numbers drawn by chance in them.
            if line.len() < whole.len() && !whole.contains(r"\\0\\0") {
                let fnv = |hash: u32, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
                line += &format!(" ... {:08x}", whole.bytes().fold(0x811c_9dc5, fnv));
            }
            let line = line.trim_end();
            *self
                .shown
                .borrow_mut()
                .entry(format!("{what} {sign} {line}"))
                .or_default() += 1;
        };
        let lines = outcome.lines.iter();
        lines
            .filter(|line| !case.is_repeated(line))
            .for_each(|line| note("+", line));
        outcome.more.iter().for_each(|line| note("&", line));
        for (error, kind) in &outcome.errors {
            note("!", &format!("{error} ({kind})"));
        }
        let [before, after] = [before, case.recorded()].map(BTreeSet::from_iter);
        after
            .difference(&before)
            .for_each(|line| note("writes", line));
        let name = |line: &String| line.split(' ').next().unwrap_or_default().to_owned();
        let left: BTreeSet<String> = after.iter().map(name).collect();
        let is_left = |folder: &str| {
            let is_in = |name: &String| {
                let rest = name.strip_prefix(folder);
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            };
            left.iter().any(is_in)
        };
        // The uppermost folder in which nothing is left.
        let upmost = |name: String| {
            let folders = name.match_indices('/').map(|(at, _)| &name[..at]);
            let mut all = folders.filter(|it| it.starts_with('/')).chain([&*name]);
            all.find(|it| !is_left(it)).unwrap_or_default().to_owned()
        };
        let gone = before.iter().map(name).filter(|name| !is_left(name));
        let gone: BTreeSet<String> = gone.map(upmost).collect();
        gone.iter().for_each(|name| note("removes", name));
    }

    fn read(file: &str) -> Script {
        let mut script = Script {
            file: file.to_owned(),
            ..Script::default()
        };
        let mut open = None;
        for (at, line) in fs::read_to_string(Path::new("tests").join(file))
            .unwrap()
            .lines()
            .enumerate()
        {
            if let Some(title) = line.strip_prefix("== ") {
                script.cases.push((title.to_owned(), Vec::new()));
                open = None;
            } else if let Some(name) = line.strip_prefix("-- ") {
                open = Some(name.to_owned());
            } else if let Some(line) = line.strip_prefix("let ") {
                let (name, text) = line.split_once(" = ").unwrap();
                script.texts.insert(name.to_owned(), script.text(text));
            } else if !line.is_empty() && !line.starts_with('#') {
                let lines = match &open {
                    Some(name) => script.parts.entry(name.clone()).or_default(),
                    None => &mut script.cases.last_mut().unwrap().1,
                };
                lines.push((at + 1, line.to_owned()));
            }
        }
        script
    }

    /// Parts joined by " + ", each a text or a name, with `~FROM~TO` where it differs.
    pub fn text(&self, parts: &str) -> String {
        let mut text = String::new();
        for part in parts.split(" + ").filter(|part| !part.is_empty()) {
            let mut words = part.split('~');
            let name = words.next().unwrap();
            let own = || name.replace("; ", "\n") + "\n";
            let mut part = self.texts.get(name).cloned().unwrap_or_else(own);
            while let (Some(from), Some(to)) = (words.next(), words.next()) {
                assert!(part.contains(&unescaped(from)), "{from} in {part}");
                part = part.replace(&unescaped(from), to);
            }
            text += &part;
        }
        text
    }
}

/// Result of a step.
#[derive(Default)]
pub struct Outcome {
    pub lines: Vec<String>,
    /// Further lines, which `FILE.shown` alone has.
    pub more: Vec<String>,
    /// With their kinds.
    pub errors: Vec<(String, String)>,
    pub is_unchanged: bool,
}

impl<T: ToString> FromIterator<T> for Outcome {
    fn from_iter<I: IntoIterator<Item = T>>(lines: I) -> Outcome {
        Outcome {
            lines: lines.into_iter().map(|it| it.to_string()).collect(),
            ..Outcome::default()
        }
    }
}

impl Outcome {
    fn check(&self, expected: &[&str], place: &str) {
        let (errors, lines) = (&self.errors, &self.lines);
        let fails = expected.iter().any(|it| it.starts_with("! "));
        assert_eq!(!errors.is_empty(), fails, "{place}: {errors:?}");
        let is_one_line = errors.iter().all(|it| !it.0.contains('\n'));
        assert!(is_one_line, "{place}: {errors:?}");
        for it in expected {
            let (sign, words) = it.split_once(' ').unwrap_or((it, ""));
            let found = lines.iter().filter(|it| has(it, words)).count();
            let is_so = match sign {
                "!" => errors.iter().all(|it| has(&it.0, words)),
                "+" => found > 0,
                "only" => found == 1 && lines.len() == 1,
                "all" => found > 0 && found == lines.len(),
                "-" => found == 0 && !errors.iter().any(|it| has(&it.0, words)),
                "unchanged" => self.is_unchanged,
                "changed" => true,
                "at-least" => lines.len() >= words.parse().unwrap(),
                "at-most" => lines.len() <= words.parse().unwrap(),
                "kind" => errors.iter().all(|it| it.1 == words),
                number => found == number.parse::<usize>().unwrap(),
            };
            assert!(is_so, "{place}\n{it}\nof {errors:?} {lines:#?}");
        }
    }
}
