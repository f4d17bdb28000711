//! Where surveys go: a folder, where a file appears whole or not at all, or an object
//! store.

use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::SystemTime;

use parquet::file::reader::{FileReader, SerializedFileReader};
use zmeld_linux::{file, FileError};

use crate::key::{chance, hex};
#[cfg(feature = "object-stores")]
use crate::store;
use crate::survey::{microseconds, Survey};
use crate::Error;
use zmeld_linux::store_url::StoreUrl;

/// What holds the surveys of this version, below a place.
pub(crate) const ROOT: &str = "zmeld-survey-1";

/// Where root's surveys are kept.
const STATE: &str = "/var/lib/zmeld/surveys";

/// No survey is larger: the largest sketches of all owners.
const FILE_BYTES_MAX: u64 = 4 << 30;

/// Where surveys go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// A folder.
    Folder(PathBuf),
    /// An object store.
    Store(StoreUrl),
}

/// A survey that was put somewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Put {
    /// Where it is.
    pub object: String,
    /// What is there is known to be this survey; without, one of its name was there and
    /// may not be read.
    pub is_seen: bool,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Folder(path) => path.display().fmt(f),
            Place::Store(url) => url.fmt(f),
        }
    }
}

impl Place {
    /// The place that a text names.
    ///
    /// # Errors
    /// When it names none.
    pub fn parse(text: &str) -> Result<Place, Error> {
        if text.is_empty() {
            return Err(Error::BadPlace {
                text: text.to_owned(),
                problem: "it is empty: name a folder or a URL".to_owned(),
            });
        }
        if !text.contains("://") {
            // A URL that lacks a slash would be made as folders, and nobody would see it.
            let scheme = text.split_once(":/").map_or("", |(scheme, _)| scheme);
            if !scheme.is_empty() && scheme.chars().all(|c| c.is_ascii_alphanumeric()) {
                return Err(Error::BadPlace {
                    text: format!("{scheme}:/..."),
                    problem: format!(
                        "a URL is {scheme}://BUCKET; for a folder of that name write ./{scheme}:"
                    ),
                });
            }
            return Ok(Place::Folder(PathBuf::from(text)));
        }
        let url = StoreUrl::parse(text)?;
        if cfg!(not(feature = "object-stores")) {
            return Err(Error::BadPlace {
                text: url.to_string(),
                problem: "this zmeld was built without object stores: name a folder; what is \
                          in it may be copied to one"
                    .to_owned(),
            });
        }
        Ok(Place::Store(url))
    }

    /// Finds out before a long run whether a survey could be kept there, as far as that
    /// can be told without writing one.
    ///
    /// # Errors
    /// When it could not.
    pub fn check(&self) -> Result<(), Error> {
        let folder = match self {
            Place::Folder(folder) => folder,
            #[cfg(feature = "object-stores")]
            Place::Store(url) => return store::check(url),
            #[cfg(not(feature = "object-stores"))]
            Place::Store(_) => return Ok(()),
        };
        let below = folder.join(ROOT);
        make_folder(&below)?;
        rustix::fs::access(&below, rustix::fs::Access::WRITE_OK)
            .map_err(|cause| FileError::new("write to", &below, cause).into())
    }

    /// Keeps a survey that is a file of these bytes; says where. One that a store does not
    /// take soon after `stop` is set, or at all, is kept on this machine.
    ///
    /// # Errors
    /// When it cannot be kept there; then nothing is there. What could be kept here is named.
    pub fn put(&self, survey: &Survey, bytes: &[u8], stop: &AtomicBool) -> Result<String, Error> {
        let name = file_name(survey, chance()?);
        match self.put_named(&name, bytes, stop) {
            // Nobody else makes such a name.
            Ok(put) => Ok(put.object),
            Err(err) => Err(match self {
                Place::Folder(_) => err,
                Place::Store(_) => self.unsent(err, &name, bytes),
            }),
        }
    }

    /// Puts there what was kept on this machine because a store did not take it, and removes
    /// it here; says what is there.
    ///
    /// # Errors
    /// When one is not taken: it stays, with those after it.
    pub fn put_unsent(&self, stop: &AtomicBool) -> Result<Vec<Put>, Error> {
        let mut all = Vec::new();
        if matches!(self, Place::Folder(_)) {
            return Ok(all);
        }
        for folder in state().into_iter() {
            let entries = fs::read_dir(&folder).into_iter().flatten().flatten();
            let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
            files.retain(|path| {
                let name = path.file_name().and_then(|name| name.to_str());
                name.is_some_and(|name| date(name).is_some())
            });
            files.sort();
            for path in files {
                let put = self.put_file(&path, stop)?;
                if put.is_seen {
                    let removed = fs::remove_file(&path);
                    removed.map_err(|cause| FileError::new("remove", &path, cause))?;
                }
                all.push(put);
            }
        }
        Ok(all)
    }

    /// Puts there a survey that is a file, under the name that it has; says where.
    ///
    /// # Errors
    /// When it is no survey, or cannot be kept there.
    pub fn put_file(&self, path: &Path, stop: &AtomicBool) -> Result<Put, Error> {
        let none = |problem: &str| Error::BadFile {
            path: path.to_owned(),
            problem: problem.to_owned(),
        };
        let name = path.file_name().and_then(|name| name.to_str());
        let name = name.filter(|name| date(name).is_some()).ok_or_else(|| {
            none("its name is not that of a survey, MACHINE-YYYYMMDDThhmmssZ-XXXXXXXX.parquet")
        })?;
        let failed = |cause| FileError::new("read", path, cause);
        let size = fs::metadata(path).map_err(failed)?;
        if !size.is_file() || size.len() > FILE_BYTES_MAX {
            return Err(none("it is no file, or larger than a survey can be"));
        }
        let opened = fs::File::open(path).map_err(failed)?;
        let is_survey = SerializedFileReader::new(opened).is_ok_and(|reader| {
            let schema = reader.metadata().file_metadata().schema_descr();
            let is_there = |name: &&str| schema.columns().iter().any(|it| it.name() == *name);
            ["schema", "record", "survey"].iter().all(is_there)
        });
        if !is_survey {
            return Err(none("it is no whole file of Parquet, or none of a survey"));
        }
        let bytes = fs::read(path).map_err(failed)?;
        self.put_named(name, &bytes, stop)
    }

    #[cfg_attr(not(feature = "object-stores"), allow(unused_variables))]
    fn put_named(&self, name: &str, bytes: &[u8], stop: &AtomicBool) -> Result<Put, Error> {
        let seen = |object| Put {
            object,
            is_seen: true,
        };
        let date = date(name).expect("a survey's name");
        let below = format!("{ROOT}/date={date}/{name}");
        let folder = match self {
            Place::Folder(folder) => folder,
            #[cfg(feature = "object-stores")]
            Place::Store(url) => {
                let made = store::put(url, &below, bytes, stop)?;
                return Ok(Put {
                    object: url.object(&below),
                    is_seen: made == store::Made::Whole,
                });
            }
            #[cfg(not(feature = "object-stores"))]
            Place::Store(url) => return Ok(seen(url.object(&below))),
        };
        let path = folder.join(&below);
        make_folder(path.parent().expect("a name has folders"))?;
        // Who reads surveys and has memory on a machine can try out what others hold there.
        file::create_with_mode(&path, bytes, 0o600)?;
        Ok(seen(path.display().to_string()))
    }

    /// Half an hour's work is not lost because a store was not there.
    fn unsent(&self, err: Error, name: &str, bytes: &[u8]) -> Error {
        let mut tried = Vec::new();
        for folder in keeping() {
            let path = folder.join(name);
            let kept = make_private(&folder)
                .and_then(|()| Ok(file::create_with_mode(&path, bytes, 0o600)?));
            match kept {
                Ok(()) => {
                    return Error::Unsent {
                        cause: Box::new(err),
                        place: self.to_string(),
                        path,
                    }
                }
                Err(why) => tried.push(why.to_string()),
            }
        }
        Error::Lost {
            cause: Box::new(err),
            why: tried.join("; "),
        }
    }
}

/// Where a survey is kept that a store did not take: what systemd gave the unit, else
/// what is root's or the user's, else where temporary files are. Those of a unit may go
/// with it.
fn keeping() -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = state().into_iter().collect();
    if named("STATE_DIRECTORY").is_none() {
        folders.push(std::env::temp_dir());
    }
    folders
}

/// The first of these, which has nothing else in it.
fn state() -> Option<PathBuf> {
    let state = named("STATE_DIRECTORY").and_then(|all| {
        let all = all.into_string().ok()?;
        all.split(':').next().map(PathBuf::from)
    });
    let own = match rustix::process::geteuid().is_root() {
        true => Some(PathBuf::from(STATE)),
        false => named("XDG_STATE_HOME")
            .map(PathBuf::from)
            .or_else(|| Some(PathBuf::from(named("HOME")?).join(".local/state")))
            .map(|folder| folder.join("zmeld")),
    };
    let folder = state.or(own).filter(|folder| folder.is_absolute())?;
    Some(folder.join("unsent"))
}

fn named(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|path| !path.is_empty())
}

/// Makes a folder that others may not read, where it is not there.
fn make_private(folder: &Path) -> Result<(), Error> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true).mode(0o700);
    let made = builder.create(folder);
    Ok(made.map_err(|cause| FileError::new("make", folder, cause))?)
}

/// Makes a folder that is not there, with those above it: nobody else's to read. What is
/// there already and is another user's is believed as little as a link would be.
fn make_folder(folder: &Path) -> Result<(), Error> {
    let failed = |cause| FileError::new("make", folder, cause);
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true).mode(0o700);
    builder
        .create(folder)
        .map_err(|cause| not_made(folder, cause))?;
    let me = rustix::process::geteuid().as_raw();
    let is_ours = |part: &&Path| part.components().any(|name| name.as_os_str() == ROOT);
    for part in folder.ancestors().take_while(is_ours) {
        let found = fs::symlink_metadata(part).map_err(failed)?;
        if !found.is_dir() || ![0, me].contains(&found.uid()) {
            return Err(Error::BadPlace {
                text: part.display().to_string(),
                problem: "it is a link, or another user's: surveys could land anywhere".to_owned(),
            });
        }
    }
    Ok(())
}

/// Why a folder is not there. Of a unit's file system nothing can be written but what the
/// unit names, and that only where it was there when the unit started.
fn not_made(folder: &Path, cause: io::Error) -> Error {
    match cause.kind() {
        io::ErrorKind::ReadOnlyFilesystem => Error::BadPlace {
            text: folder.display().to_string(),
            problem: "its file system is read-only here; for a unit of systemd, make the folder \
                      first, name it in ReadWritePaths=, and start the unit again"
                .to_owned(),
        },
        _ => FileError::new("make", folder, cause).into(),
    }
}

/// The file of a survey.
fn file_name(survey: &Survey, chance: [u8; 4]) -> String {
    let [year, month, day, hour, minute, second] = civil(survey.time);
    format!(
        "{}-{year:04}{month:02}{day:02}T{hour:02}{minute:02}{second:02}Z-{}.parquet",
        survey.machine,
        hex(&chance)
    )
}

/// The date in the name of a survey's file, `YYYY-MM-DD`; none where it has no such name.
fn date(name: &str) -> Option<String> {
    let mut parts = name.strip_suffix(".parquet")?.split('-');
    let (machine, time, chance) = (parts.next()?, parts.next()?, parts.next()?);
    let is_hex = |text: &str, length| {
        let is_digit = |c: u8| c.is_ascii_digit() || (b'a'..=b'f').contains(&c);
        text.len() == length && text.bytes().all(is_digit)
    };
    let form: String = time
        .chars()
        .map(|c| if c.is_ascii_digit() { '0' } else { c })
        .collect();
    let is_survey = is_hex(machine, 32)
        && is_hex(chance, 8)
        && form == "00000000T000000Z"
        && parts.next().is_none();
    is_survey.then(|| format!("{}-{}-{}", &time[..4], &time[4..6], &time[6..8]))
}

/// Year, month, day, hour, minute and second in UTC (Howard Hinnant, chrono-compatible
/// low-level date algorithms, `civil_from_days`).
fn civil(time: SystemTime) -> [i64; 6] {
    let seconds = microseconds(time) / 1_000_000;
    let (days, of_day) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let of_era = shifted.rem_euclid(146_097);
    let years = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * years + years / 4 - years / 100);
    let shifted_month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 {
        shifted_month + 3
    } else {
        shifted_month - 9
    };
    let year = years + era * 400 + i64::from(month <= 2);
    [
        year,
        month,
        day,
        of_day / 3600,
        of_day / 60 % 60,
        of_day % 60,
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, UNIX_EPOCH};

    #[test]
    fn a_url_that_lacks_a_slash_is_no_folder() {
        for text in ["s3:/fleet/x", "az:/x", "ftp:/x"] {
            let said = Place::parse(text).unwrap_err().to_string();
            assert!(said.contains("://BUCKET"), "{said}");
        }
        for text in ["./s3:/x", "/srv/a:/b", "surveys"] {
            assert!(matches!(Place::parse(text), Ok(Place::Folder(_))), "{text}");
        }
    }

    #[test]
    fn moments_have_their_date() {
        for (seconds, date) in [
            (0, [1970, 1, 1, 0, 0, 0]),
            (951_827_696, [2000, 2, 29, 12, 34, 56]),
            (951_868_800, [2000, 3, 1, 0, 0, 0]),
            (1_798_761_599, [2026, 12, 31, 23, 59, 59]),
            (4_107_542_400, [2100, 3, 1, 0, 0, 0]),
        ] {
            assert_eq!(civil(UNIX_EPOCH + Duration::from_secs(seconds)), date);
        }
    }

    #[test]
    fn places_are_folders_and_stores() {
        let folder = Place::Folder(PathBuf::from("/var/lib/x"));
        assert_eq!(Place::parse("/var/lib/x").unwrap(), folder);
        let store = Place::parse("s3://fleet/production");
        match cfg!(feature = "object-stores") {
            true => assert_eq!(store.unwrap().to_string(), "s3://fleet/production"),
            false => {
                let said = store.unwrap_err().to_string();
                assert!(said.contains("built without object stores"), "{said}");
            }
        }
        for wrong in ["", "ftp://x/y"] {
            assert!(Place::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_file_says_its_date_and_only_surveys_do() {
        let machine = "5a".repeat(16);
        let name = format!("{machine}-20261123T013223Z-0123abcd.parquet");
        assert_eq!(date(&name).unwrap(), "2026-11-23");
        for wrong in [
            "x.parquet".to_owned(),
            format!("{machine}-20261123T013223Z-0123abcd"),
            format!("{machine}-20261123T013223Z-0123ABCD.parquet"),
            format!("{machine}-2026112300132232-0123abcd.parquet"),
            format!("{machine}-20261123T013223Z-0123abcd-x.parquet"),
            format!("../{machine}-20261123T013223Z-0123abcd.parquet"),
            format!("{}-20261123T013223Z-0123abcd.parquet", "\u{e4}".repeat(16)),
        ] {
            assert_eq!(date(&wrong), None, "{wrong}");
        }
    }

    #[test]
    fn what_is_no_survey_is_not_put_anywhere() {
        let dir = tempfile::tempdir().unwrap();
        let place = Place::Folder(dir.path().join("surveys"));
        let named = format!("{}-20261123T013223Z-0123abcd.parquet", "5a".repeat(16));
        for (name, word) in [("x.parquet", "its name"), (named.as_str(), "Parquet")] {
            let file = dir.path().join(name);
            fs::write(&file, "PAR1PAR1").unwrap();
            let said = place
                .put_file(&file, &AtomicBool::new(false))
                .unwrap_err()
                .to_string();
            assert!(said.contains(word) && said.contains(name), "{said}");
        }
        assert!(!dir.path().join("surveys").exists());
    }

    #[test]
    fn a_folder_that_a_unit_may_not_make_is_to_be_made_first() {
        let read_only = io::Error::from(io::ErrorKind::ReadOnlyFilesystem);
        let said = not_made(Path::new("/srv/x"), read_only).to_string();
        assert!(
            said.contains("/srv/x") && said.contains("ReadWritePaths="),
            "{said}"
        );
        let denied = io::Error::from(io::ErrorKind::PermissionDenied);
        let said = not_made(Path::new("/srv/x"), denied).to_string();
        assert!(!said.contains("ReadWritePaths="), "{said}");
    }

    #[test]
    fn a_place_that_cannot_be_is_told_before() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        fs::write(&file, "").unwrap();
        let said = Place::Folder(file).check().unwrap_err().to_string();
        assert!(said.contains("file/zmeld-survey-1"), "{said}");
        let folder = dir.path().join("new/folder");
        Place::Folder(folder.clone()).check().unwrap();
        let made = fs::metadata(folder.join(ROOT)).unwrap();
        assert_eq!(made.mode() & 0o777, 0o700);
        let linked = dir.path().join("linked");
        fs::create_dir(&linked).unwrap();
        std::os::unix::fs::symlink(dir.path(), linked.join(ROOT)).unwrap();
        let said = Place::Folder(linked).check().unwrap_err().to_string();
        assert!(said.contains("it is a link"), "{said}");
    }
}
