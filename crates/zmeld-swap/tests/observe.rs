//! Observations, findings, metrics and profiles on machines of several kernels, whole and
//! damaged. Most cases are in `observe`.

mod as_lines;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use rustix::fs::{mkfifoat, Mode, CWD};
use serde::Serialize;
use zmeld_config::advice::{Choice, CodecVerdict, Machine, Pool, Recommended, TierKind};
use zmeld_config::{Comments, Config, FindingId, Named, Severity};
use zmeld_linux::host::{Access, Direct};
use zmeld_linux::Host;
use zmeld_report::Style;
use zmeld_swap::observe::{lately, Observation};
use zmeld_swap::status::findings::{findings, Rule, RULES};
use zmeld_swap::status::metrics;
use zmeld_swap::status::outstanding::Outstanding;
use zmeld_swap::status::profile::Profile;
use zmeld_swap::status::{page, Status};
use zmeld_tests::machine::{self, files, plant, put, MACHINES};
use zmeld_tests::script::{self, Outcome, Script};
use zmeld_tests::shown;

const PAGE: u64 = 4096;

struct Root(tempfile::TempDir);

/// Reads, as far as `PATH.read` does not say with which error that fails.
struct Files;

impl Access for Files {
    fn read(&self, path: &Path, limit: u64) -> io::Result<Vec<u8>> {
        machine::refuse(path, "read")?;
        Direct.read(path, limit)
    }
}

impl script::Case for Root {
    fn root(&self) -> PathBuf {
        self.0.path().to_owned()
    }

    fn step(&mut self, script: &Script, what: &str, rest: &str, place: &str) -> Outcome {
        let host = Host::with(self.0.path(), Arc::new(Files));
        let now = Observation::read(&host, PAGE);
        let wanted = Config::from_text(Path::new("z.toml"), &script.text(rest));
        let config = wanted.as_ref().ok().map(|it| it.config.clone());
        let wanted = wanted.map(|it| Outstanding::of(&it.config));
        let (first, second) = rest.split_once(' ').unwrap_or((rest, ""));
        match what {
            "machine" => (self.0, _) = plant(rest),
            "ids" => {
                let mut ids: Vec<_> = found(&now).iter().map(|it| it.name()).collect();
                ids.dedup();
                assert_eq!(ids.join(" "), rest, "{place}");
            }
            // Without a configuration: all of it, or the section with that heading.
            "page" => {
                let status = Status::read(&host, Ok(&Config::default()), None);
                let text = page::document(&status).to_text(&Style::plain(200));
                let is_heading = |line: &str| {
                    line.contains(char::is_uppercase) && !line.contains(char::is_lowercase)
                };
                let is_before = |line: &&str| !rest.is_empty() && *line != rest;
                let mut lines = text.lines().skip_while(is_before);
                let heading = lines.next();
                let section = lines.take_while(|line| rest.is_empty() || !is_heading(line));
                return heading.into_iter().chain(section).collect();
            }
            // The row of kills in a page with that configuration.
            "kills" => {
                let status = Status::read(&host, Ok(&config.unwrap()), None);
                let text = page::document(&status).to_text(&Style::plain(200));
                let rows = text
                    .lines()
                    .filter(|line| line.starts_with("killed for memory"));
                return rows.map(str::to_owned).collect();
            }
            "status" => return as_lines::of_findings(&findings(&now, &wanted.unwrap())),
            // A part of it, in JSON, by its place.
            "seen" => {
                return match rest {
                    "accounting" => shown(&[now.accounting()]),
                    "devices" => shown(&now.devices),
                    "differences" => shown(&now.differences()),
                    "groups" => shown(&now.groups),
                    "hibernation" => shown(&[&now.hibernation]),
                    "lately" => shown(&[&now.lately]),
                    "swaps" => shown(&now.swaps),
                    "tiers" => shown(&now.tiers()),
                    "warnings" => shown(&now.warnings),
                    "zswap" => shown(&[&now.zswap]),
                    _ => panic!("{place}"),
                }
            }
            // In MiB.
            "headroom" => {
                let bytes = now.headroom(&now.tiers()).bytes;
                assert_eq!((bytes >> 20).to_string(), rest, "{place}");
            }
            "metrics" => return metrics::render(&now, &found(&now)).lines().collect(),
            "note" => lately::note(&host, &now.lately).unwrap(),
            "note-experiment" => lately::note_experiment(&host, rest.parse().unwrap()).unwrap(),
            "advise" => return advised(&host, rest),
            // A profile's configuration as a file.
            "profile" => {
                let tiers = Config::from_text(Path::new("z.toml"), &script.text(second));
                let (mut config, mut comments) = (tiers.unwrap().config, Comments::new());
                let profile = Profile::named(first).unwrap();
                if let Err(why) = profile.check(&host, now.memory.total_bytes) {
                    return Outcome {
                        errors: vec![(why, String::new())],
                        ..Outcome::default()
                    };
                }
                let hint = profile.hint(&host, &config);
                profile.add_to(&host, &mut config, &mut comments);
                assert_eq!(profile.hint(&host, &config), None, "{place}");
                let text = config.to_toml(&comments);
                let read = Config::from_text(Path::new("z.toml"), &text).unwrap();
                assert_eq!(read.config, config, "{text}");
                return text.lines().chain(hint.as_deref()).collect();
            }
            // Of a machine with so many GiB.
            "profile-of" => {
                let bytes = first.parse::<u64>().unwrap() << 30;
                assert_eq!(Profile::of(&host, bytes).name(), second, "{place}");
            }
            "doubt" => {
                let bytes = first.parse::<u64>().unwrap() << 30;
                let profile = Profile::named(second).unwrap();
                return profile.doubt(&host, bytes).iter().collect();
            }
            // The plan reads it as status does.
            "hibernates" => {
                let machine = Machine::read(&host).unwrap();
                assert_eq!(now.hibernation.resume, machine.hibernation, "{place}");
            }
            _ => panic!("{place}: there is no such step"),
        }
        Outcome::default()
    }
}

/// What is recommended as a file, in words, and what the kernel lacks for it. `rest`: the kind and the
/// codec that are asked for, or `-`; codec, ratio and MiB of pages that were measured, the best ratio
/// of those that do not compress, or a place or a size that is asked for.
fn advised(host: &Host, rest: &str) -> Outcome {
    let words: Vec<&str> = rest.split_whitespace().collect();
    let asked = |at: usize| words.get(at).filter(|word| **word != "-");
    let place = words.iter().find(|word| word.starts_with('/'));
    let size = words.iter().find(|word| word.ends_with('%'));
    let choice = Choice {
        kind: asked(0).map(|kind| TierKind::named(kind).unwrap()),
        codec: asked(1).map(|codec| codec.parse().unwrap()),
        place: place.map(|place| place.parse().unwrap()),
        size: size.map(|size| size.parse().unwrap()),
    };
    let measured = match words[..] {
        [_, _, name, ratio, mib] => CodecVerdict::Codec {
            name: name.to_owned(),
            ratio: ratio.parse().unwrap(),
            bytes: mib.parse::<u64>().unwrap() << 20,
        },
        [_, _, best] => best
            .parse()
            .map_or(CodecVerdict::Not, CodecVerdict::NothingToGain),
        _ => CodecVerdict::Not,
    };
    let found = match Recommended::new(&Machine::read(host).unwrap(), &choice, &measured, &[]) {
        Ok(found) => found,
        Err(why) => {
            return Outcome {
                errors: vec![(why, String::new())],
                ..Outcome::default()
            }
        }
    };
    let told = found.recommendation.iter().flat_map(|advice| {
        [
            Some(advice.words()),
            advice.pool.as_ref().map(Pool::words),
            advice.missing.clone(),
            advice.compared(),
        ]
    });
    let file = found.config.to_toml(&found.comments);
    let read = Config::from_text(Path::new("z.toml"), &file).unwrap();
    assert_eq!(read.config, found.config, "{file}");
    file.lines()
        .map(str::to_owned)
        .chain(told.flatten())
        .collect()
}

fn shown<T: Serialize>(all: &[T]) -> Outcome {
    let line = |(at, it): (usize, &T)| format!("{at} {}", serde_json::to_string(it).unwrap());
    all.iter().enumerate().map(line).collect()
}

fn found(now: &Observation) -> Vec<zmeld_swap::status::findings::Finding> {
    findings(now, &Outstanding::default())
}

#[test]
fn each_case_comes_out_as_it_says() {
    for file in ["advice", "cases", "profiles", "seen"] {
        let new = || Root(tempfile::tempdir().unwrap());
        script::run(&format!("observe/{file}.txt"), new);
    }
}

/// All that `zmeld status` and `zmeld metrics` show of each machine, beside a configuration that asks
/// for much, is what stands in `observe/shown`, but for findings that are not there.
#[test]
fn each_machine_is_shown_whole() {
    if rustix::param::page_size() as u64 != PAGE {
        return;
    }
    let everything = include_str!("config/everything.toml");
    let asked = Config::from_text(Path::new("z.toml"), everything).unwrap();
    for (kernel, _) in MACHINES {
        let (_dir, host) = plant(kernel);
        let status = Status::read(&host, Ok(&asked.config), None);
        let page = page::document(&status).to_text(&Style::plain(80));
        let metrics = metrics::render(&status.observation, &status.findings);
        let is_absent = |line: &str| line.starts_with("zmeld_finding{") && line.ends_with(" 0");
        let is_told = |line: &&str| !line.starts_with('#') && !is_absent(line);
        let values = metrics.lines().filter(is_told);
        let remedies = status.findings.iter().flat_map(|it| &it.commands);
        let lines = values.chain(remedies.map(String::as_str));
        let shown = format!("{page}\n{}\n", Vec::from_iter(lines).join("\n"));
        shown::shown(&format!("observe/shown/{kernel}.txt"), &shown);
    }
}

const MANUAL: &str = "../../../docs/findings.md";

/// Its row is the first paragraph of the comment on its function; with ZMELD_SHOW=1 it is written.
#[test]
fn the_manual_has_every_rule() {
    let row = |rule: &Rule| {
        let [file, function] = rule.function;
        let source = fs::read_to_string(format!("src/status/findings/{file}.rs")).unwrap();
        let head = format!("\npub(super) fn {function}(");
        let (before, _) = source.split_once(&head).unwrap();
        let comment = before.rsplit("\n\n").next().unwrap();
        let comment = shown::in_table(&comment.replace("/// ", "").replace("///", ""));
        let (when, remedy) = comment.split_once(". Do: ").expect(function);
        format!("| `{}` | {when} | {remedy} |\n", rule.id)
    };
    let mut manual = fs::read_to_string(Path::new("tests").join(MANUAL)).unwrap();
    for (name, severity) in Severity::ALL {
        let head = format!("\n| {name} | found when | what to do |\n|---|---|---|\n");
        let (before, rest) = manual.split_once(&head).unwrap();
        let (old, after) = rest.split_at(rest.find("\n\n").map_or(rest.len(), |at| at + 1));
        let rules = RULES.iter().filter(|rule| rule.severity == *severity);
        // That there is nothing to compare with is found by no rule.
        let unread = old
            .lines()
            .filter(|line| line.contains("`configuration-unread`"));
        let rows = rules.map(row).chain(unread.map(|line| format!("{line}\n")));
        manual = format!("{before}{head}{}{after}", rows.collect::<String>());
    }
    shown::shown(MANUAL, &manual);
    // The rest is of configurations.
    manual += include_str!("../../../docs/configuration.md");
    let has = |id: &&FindingId| manual.contains(&format!("\n| `{id}` | "));
    assert_eq!(FindingId::ALL.iter().find(|id| !has(id)), None);
}

/// Texts that no kernel writes.
fn hostile() -> Vec<Vec<u8>> {
    let max = u64::MAX;
    let columns = format!("{max} {max} {max} {max} {max} {max} {max} {max} {max}\n");
    vec![
        b"".to_vec(),
        b"\n\n\n".to_vec(),
        b"-1 -1 -1 -1 -1 -1 -1 -1 -1\n".to_vec(),
        columns.into_bytes(),
        format!("{max}\n").into_bytes(),
        b"99999999999999999999999999999999\n".to_vec(),
        b"\xff\xfe\x00\x1b[2J\n".to_vec(),
        b"[] [[]] #: #1: [ ] : = \\ \\777 \\04\n".to_vec(),
        b"some avg10=nan avg60=inf avg300=-1 total=-1\nfull\n".to_vec(),
        format!("x\n{0} partition {1} {1} -9223372036854775808\n", "a", max).into_bytes(),
        format!("MemTotal: {max} kB\nSwapFree: {max} kB\nZswap: {max}\n").into_bytes(),
        vec![b'a'; 1 << 16],
        vec![b' '; 1 << 16],
    ]
}

#[test]
fn no_content_of_any_file_stops_an_observation() {
    for (kernel, text) in MACHINES {
        let (dir, host) = plant(kernel);
        for (path, contents) in files(text) {
            for bytes in hostile() {
                put(dir.path(), &path, &bytes);
                look(&host);
            }
            let at = dir.path().join(path.trim_start_matches('/'));
            fs::remove_file(&at).unwrap();
            look(&host);
            fs::create_dir(&at).unwrap();
            let now = look(&host);
            assert!(
                now.warnings.iter().any(|warning| warning.path == path)
                    || path.ends_with("/dev")
                    || path.ends_with("/partition")
                    || path.ends_with("/dm/name")
                    || path.ends_with("/meld")
                    || path.ends_with("/cgroup.controllers")
                    || path.contains("/proc/pressure/cpu")
                    || path.contains("same_filled_pages_enabled"),
                "{kernel}: nothing said of {path}"
            );
            fs::remove_dir(&at).unwrap();
            // Nobody writes into it: who opens it waits for ever.
            mkfifoat(CWD, &at, Mode::RWXU).unwrap();
            look(&host);
            fs::remove_file(&at).unwrap();
            put(dir.path(), &path, contents);
        }
    }
}

fn look(host: &Host) -> Observation {
    let now = Observation::read(host, PAGE);
    let found = found(&now);
    let shown = serde_json::to_string(&(&now, now.tiers(), now.differences(), &found)).unwrap();
    assert!(!shown.contains('\x1b'));
    metrics::render(&now, &found);
    now
}

/// The parser of Prometheus' own Python library reads every metric of every machine.
#[test]
fn a_real_parser_takes_the_metrics() {
    let script = "import sys\n\
        from prometheus_client.parser import text_string_to_metric_families as parse\n\
        for f in parse(sys.stdin.read()):\n\
        \x20   for s in f.samples: print(s.name, f.type, s.value)\n";
    // The user's python3 may be another than the system's, which has the package.
    let has = |python: &&str| {
        Command::new(python)
            .args(["-c", "import prometheus_client"])
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|status| status.success())
    };
    let Some(python) = ["python3", "/usr/bin/python3"].into_iter().find(has) else {
        eprintln!("SKIP: python3 has no prometheus_client here");
        return;
    };
    for (kernel, _) in MACHINES {
        let (_dir, host) = plant(kernel);
        let now = Observation::read(&host, PAGE);
        let text = metrics::render(&now, &found(&now));
        let mut child = Command::new(python)
            .args(["-c", script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        std::io::Write::write_all(&mut child.stdin.take().unwrap(), text.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{kernel}: {text}");
        let read = String::from_utf8(output.stdout).unwrap();
        let samples = text.lines().filter(|line| !line.starts_with('#')).count();
        assert_eq!(read.lines().count(), samples, "{kernel}");
        assert!(
            read.contains("zmeld_swap_out_pages_total counter"),
            "{read}"
        );
    }
}

#[test]
fn figures_for_others_do_not_change_when_a_page_finds_its_twin() {
    // Without a twin the object is stored; with one its size is saved by melding.
    let (_dir, host) = plant("7.2");
    let now = Observation::read(&host, PAGE);
    let told = |twin: bool, hidden: bool| {
        let mut now = now.clone();
        for device in &mut now.devices {
            let (held, melding) = (device.held.as_mut(), device.melding.as_mut());
            if let (Some(held), Some(melding)) = (held, melding) {
                if twin {
                    for (name, more) in [("bytes_melded", 1000), ("inline_melded", 1)] {
                        *melding.counters.get_mut(name).expect(name) += more;
                    }
                } else {
                    held.compressed_bytes += 1000;
                }
            }
            if hidden {
                device.hide_melding();
            }
        }
        metrics::render(&now, &found(&now))
    };
    assert_ne!(told(true, false), told(false, false));
    assert_eq!(told(true, true), told(false, true));
    assert!(told(true, true).contains("zmeld_device_mismatches_total"));
    assert!(told(true, true).contains("zmeld_device_encode_errors_total"));
}
