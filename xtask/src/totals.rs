//! Totals of long runs: `store/tests/totals.jsonl` has a row for each work and each state of the sources
//! that it ran, the newest last, and `docs/testing.md` a table of them. That depends on the file alone,
//! so that a change of the store does not make the page wrong.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use zmeld_linux::file::replace;
use zmeld_report::{table, Column, Table};

use crate::kernel_tests::{RACES, SOAK};
use crate::module_build::ZMELD;
use crate::process::{git, output_of};
use crate::workspace;

const TOTALS: &str = "store/tests/totals.jsonl";
const PAGE: &str = "docs/testing.md";
const FIRST_COLUMN: &str = "aim";

pub struct Aim {
    name: &'static str,
    amount: u64,
    pub unit: &'static str,
    /// Folders of the store that its works run.
    folders: &'static [&'static str],
}

/// A part of an aim, as large as its others.
pub struct Work {
    pub name: &'static str,
    pub aim: &'static Aim,
    /// Amount of a slice: half a minute of a program, ten minutes of a guest.
    pub slice: u64,
    pub run: Run,
}

pub enum Run {
    /// Step of a C test, and the arguments before the amount.
    Program(&'static str, &'static str),
    /// Script, in the kernel of the work's name.
    Guest(&'static str),
}
use Run::{Guest, Program};

#[rustfmt::skip]
const AIMS: [&Aim; 5] = [
    &Aim { name: "level 1", amount: 1_000_000_000, unit: "pages", folders: &["zword"] },
    &Aim { name: "level 2", amount: 100_000_000, unit: "pages", folders: &["zword"] },
    &Aim { name: "sanitizers", amount: 10_000_000, unit: "pages", folders: &["zword"] },
    &Aim { name: "model", amount: 100_000_000, unit: "operations", folders: &["include", "core", "zword", "port/user"] },
    &Aim { name: "guests", amount: 24 * 3600, unit: "seconds", folders: ZMELD.sources },
];
const LEVEL_1: &Aim = AIMS[0];
const LEVEL_2: &Aim = AIMS[1];
const CHECKED: &Aim = AIMS[2];
const MODEL: &Aim = AIMS[3];
const GUESTS: &Aim = AIMS[4];

#[rustfmt::skip]
pub const WORKS: &[Work] = &[
    Work { name: "level-1", aim: LEVEL_1, slice: 1_500_000, run: Program("round_trip-built", "1 S 0") },
    Work { name: "level-2", aim: LEVEL_2, slice: 250_000, run: Program("round_trip-built", "2 S 0") },
    Work { name: "level-1-asan", aim: CHECKED, slice: 500_000, run: Program("round_trip-asan", "1 S 0") },
    Work { name: "level-2-asan", aim: CHECKED, slice: 100_000, run: Program("round_trip-asan", "2 S 0") },
    Work { name: "model", aim: MODEL, slice: 2_000_000, run: Program("model-built", "soak S") },
    Work { name: "um", aim: GUESTS, slice: 600, run: Guest(SOAK) },
    Work { name: "um-debug", aim: GUESTS, slice: 600, run: Guest(SOAK) },
    Work { name: "kcsan", aim: GUESTS, slice: 600, run: Guest(RACES) },
    Work { name: "6.1", aim: GUESTS, slice: 600, run: Guest(SOAK) },
    Work { name: "6.12", aim: GUESTS, slice: 600, run: Guest(SOAK) },
    Work { name: "7.3", aim: GUESTS, slice: 600, run: Guest(SOAK) },
    Work { name: "7.3-arm64-16k", aim: GUESTS, slice: 600, run: Guest(SOAK) },
];

/// Hash of each folder of the store, the tree that git makes of it without its tests.
pub type Sources = BTreeMap<String, String>;

/// Sources as they are now, committed or not, without tests.
pub fn sources() -> Result<Sources> {
    let place = tempfile::tempdir()?;
    let git = |words: &[&str]| {
        let mut git = git();
        git.current_dir(workspace::root()).args(words);
        git.env("GIT_INDEX_FILE", place.path().join("index"));
        output_of(git.env("GIT_OBJECT_DIRECTORY", place.path()))
    };
    git(&["add", "--", "store", ":!store/*/tests/*"])?;
    let folders = AIMS.iter().flat_map(|aim| aim.folders);
    let hashes = folders.map(|folder| {
        let tree = git(&["write-tree", &format!("--prefix=store/{folder}/")])?;
        Ok((folder.to_string(), tree.chars().take(8).collect()))
    });
    hashes.collect()
}

impl Aim {
    /// Sources that its works run.
    pub fn own(&self, sources: &Sources) -> Sources {
        let mut own = sources.clone();
        own.retain(|folder, _| self.folders.contains(&&**folder));
        own
    }

    fn works(&'static self) -> impl Iterator<Item = &'static Work> {
        WORKS.iter().filter(|work| work.aim.name == self.name)
    }
}

impl Work {
    /// Seconds of a slice, about: most guests are emulated, and boot for minutes.
    pub fn seconds(&self) -> u64 {
        match self.run {
            Program(..) => 30,
            Guest(_) => self.slice + 180,
        }
    }

    /// An amount as a share of what the work has to do.
    pub fn share(&self, amount: u64) -> f64 {
        (amount * self.aim.works().count() as u64) as f64 / self.aim.amount as f64
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    work: String,
    unit: String,
    amount: u64,
    /// Of slices, not of processors.
    hours: f64,
    slices: u64,
    /// The lowest and the highest.
    seeds: [u64; 2],
    /// The first and the last.
    days: [String; 2],
    sources: Sources,
}

pub struct Totals(Vec<Row>);

impl Totals {
    pub fn load() -> Result<Totals> {
        let path = workspace::root().join(TOTALS);
        Totals::read(&workspace::read(&path)?).context(TOTALS)
    }

    fn read(text: &str) -> Result<Totals> {
        let rows = text.lines().enumerate().map(|(at, line)| {
            let line_number = || format!("line {}", at + 1);
            let row: Row = serde_json::from_str(line).with_context(line_number)?;
            let is_known = |work: &Work| (work.name, work.aim.unit) == (&row.work, &row.unit);
            let known = WORKS.iter().any(is_known).then_some(row);
            known.context("an unknown work").with_context(line_number)
        });
        Ok(Totals(rows.collect::<Result<_>>()?))
    }

    /// Replaces the file and the page, each whole.
    pub fn store(&self) -> Result<()> {
        let rows = self
            .0
            .iter()
            .map(|row| Ok(serde_json::to_string(row)? + "\n"));
        let rows = rows.collect::<Result<String>>()?;
        replace(&workspace::root().join(TOTALS), rows.as_bytes(), None)?;
        replace(&workspace::root().join(PAGE), self.page()?.as_bytes(), None)?;
        Ok(())
    }

    /// Adds a slice to what its sources have, which are the newest then.
    pub fn add(&mut self, work: &Work, seed: u64, took: Duration, day: &str, sources: &Sources) {
        let mut row = Row {
            work: work.name.to_owned(),
            unit: work.aim.unit.to_owned(),
            amount: work.slice,
            hours: took.as_secs_f64() / 3600.0,
            slices: 1,
            seeds: [seed; 2],
            days: [day.to_owned(), day.to_owned()],
            sources: work.aim.own(sources),
        };
        if let Some(at) = self.position(work, sources) {
            let before = self.0.remove(at);
            row.amount += before.amount;
            row.hours += before.hours;
            row.slices += before.slices;
            row.seeds = [before.seeds[0].min(seed), before.seeds[1].max(seed)];
            row.days[0].clone_from(&before.days[0]);
        }
        self.0.push(row);
    }

    fn position(&self, work: &Work, sources: &Sources) -> Option<usize> {
        let own = work.aim.own(sources);
        let is_of_both = |row: &Row| row.work == work.name && row.sources == own;
        self.0.iter().position(is_of_both)
    }

    pub fn share(&self, work: &Work, sources: &Sources) -> f64 {
        let row = self.position(work, sources);
        row.map_or(0.0, |at| work.share(self.0[at].amount))
    }

    /// The seed behind those of the work's slices, of all sources.
    pub fn next_seed(&self, work: &Work) -> u64 {
        let rows = self.0.iter().filter(|row| row.work == work.name);
        rows.map(|row| row.seeds[1] + 1).max().unwrap_or(1)
    }

    /// What these sources have behind them; without any, the newest of each aim.
    pub fn table(&self, sources: Option<&Sources>) -> Table {
        table!("", for aim in AIMS,
            where {
                let rows = || self.0.iter().filter(|row| aim.works().any(|work| work.name == row.work));
                let newest = || rows().next_back().map(|row| row.sources.clone());
                let own = sources.map_or_else(newest, |all| Some(aim.own(all))).unwrap_or_default();
                let (these, older): (Vec<&Row>, Vec<&Row>) = rows().partition(|row| row.sources == own);
                let hashes: Vec<String> = own.iter().map(|(folder, hash)| format!("{folder}:{hash}")).collect();
                let (size, unit) = match aim.unit {
                    "seconds" => (3600.0, "hours".to_owned()),
                    unit => (1e6, format!("million {unit}")),
                };
                let sum = |rows: &[&Row]| rows.iter().map(|row| row.amount).sum::<u64>() as f64 / size;
            }
            Column::text(FIRST_COLUMN) => format!("{}: {} {unit}", aim.name, aim.amount as f64 / size),
            Column::text("done") => format!("{:.1}", sum(&these)),
            Column::text("sources") => hashes.join(" "),
            Column::text("older") => format!("{:.1}", sum(&older)),
        )
    }

    /// The page with this table.
    fn page(&self) -> Result<String> {
        let page = workspace::read(&workspace::root().join(PAGE))?;
        let begin = page.find(&format!("| {FIRST_COLUMN} |"));
        let begin = begin.with_context(|| format!("{PAGE} has no table of aims"))?;
        let end = page[begin..]
            .find("|\n\n")
            .map_or(page.len(), |at| begin + at + 2);
        let table = self.table(None).to_markdown();
        Ok([&page[..begin], &table, &page[end..]].concat())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_the_table_of_the_file() {
        let page = workspace::read(&workspace::root().join(PAGE)).unwrap();
        let written = Totals::load().unwrap().page().unwrap();
        assert!(
            page == written,
            "`cargo xtask soak --hours 0` writes {PAGE} anew"
        );
    }

    #[test]
    fn totals_begin_anew_where_sources_that_are_run_changed() {
        let now = sources().unwrap();
        let mut totals = Totals(Vec::new());
        for work in WORKS {
            totals.add(work, 5, Duration::ZERO, "yesterday", &now);
            totals.add(work, 4, Duration::from_secs(3600), "today", &now);
        }
        let anew_with = |folder: &str| {
            let mut changed = now.clone();
            changed.insert(folder.to_owned(), "another".to_owned());
            let is_new = |work: &&Work| totals.share(work, &changed) == 0.0;
            WORKS
                .iter()
                .filter(is_new)
                .map(|work| work.name)
                .collect::<Vec<_>>()
        };
        let guests: Vec<&str> = GUESTS.works().map(|work| work.name).collect();
        assert_eq!(anew_with("tests"), [""; 0]);
        assert_eq!(anew_with("kmod"), guests);
        assert_eq!(anew_with("core"), [&["model"], &guests[..]].concat());
        assert_eq!(anew_with("zword").len(), WORKS.len());
        let (row, work) = (&totals.0[0], &WORKS[0]);
        assert_eq!(
            (row.amount, row.slices, row.hours),
            (2 * work.slice, 2, 1.0)
        );
        assert_eq!((row.seeds, totals.next_seed(work)), ([4, 5], 6));
        assert_eq!(row.days, ["yesterday", "today"]);
    }

    #[test]
    fn a_file_that_is_cut_off_or_has_an_unknown_row_is_refused_with_its_line() {
        let mut totals = Totals(Vec::new());
        totals.add(&WORKS[0], 1, Duration::ZERO, "today", &Sources::new());
        let row = serde_json::to_string(&totals.0[0]).unwrap();
        assert!(Totals::read(&format!("{row}\n{row}\n")).is_ok());
        let cut = row[..row.len() - 1].to_owned();
        let unknown = row.replace("level-1", "level-7");
        for wrong in [cut, unknown, row.replace("pages", "seconds")] {
            let error = Totals::read(&format!("{row}\n{wrong}")).err().unwrap();
            assert_eq!(error.to_string(), "line 2");
        }
    }
}
