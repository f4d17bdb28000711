//! Where surveys go: a folder, where a file appears whole or not at all.

use std::fs;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use zmeld_linux::{file, FileError};

use crate::key::{chance, hex};
use crate::survey::{microseconds, Survey};
use crate::Error;

/// What holds the surveys of this version, below a place.
const ROOT: &str = "zmeld-survey-1";

/// Where surveys go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// A folder.
    Folder(PathBuf),
}

impl Place {
    /// The place that a text names.
    ///
    /// # Errors
    /// When it names none.
    pub fn parse(text: &str) -> Result<Place, Error> {
        let bad = |problem: &str| Error::BadPlace {
            text: text.to_owned(),
            problem: problem.to_owned(),
        };
        if text.is_empty() {
            return Err(bad("it is empty: name a folder or a URL"));
        }
        if text.contains("://") {
            return Err(bad(
                "name a folder; what is in it may be copied to an object store",
            ));
        }
        Ok(Place::Folder(PathBuf::from(text)))
    }

    /// Finds out before a long run whether a survey could be kept there, as far as that
    /// can be told without writing one.
    ///
    /// # Errors
    /// When it could not.
    pub fn check(&self) -> Result<(), Error> {
        let Place::Folder(folder) = self;
        let below = folder.join(ROOT);
        make_folder(&below)?;
        rustix::fs::access(&below, rustix::fs::Access::WRITE_OK)
            .map_err(|cause| FileError::new("write to", &below, cause).into())
    }

    /// Keeps a survey that is a file of these bytes; says where.
    ///
    /// # Errors
    /// When it cannot be kept; then nothing is there.
    pub fn put(&self, survey: &Survey, bytes: &[u8]) -> Result<String, Error> {
        let name = name(survey, chance()?);
        let Place::Folder(folder) = self;
        let path = folder.join(&name);
        make_folder(path.parent().expect("a name has folders"))?;
        // Who reads surveys and has memory on a machine can try out what others hold there.
        file::create_with_mode(&path, bytes, 0o600)?;
        Ok(path.display().to_string())
    }
}

/// Makes a folder that is not there, with those above it: nobody else's to read. What is
/// there already and is another user's is believed as little as a link would be.
fn make_folder(folder: &Path) -> Result<(), Error> {
    let failed = |cause| FileError::new("make", folder, cause);
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true).mode(0o700);
    builder.create(folder).map_err(failed)?;
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

/// Below a place: folder and file.
fn name(survey: &Survey, chance: [u8; 4]) -> String {
    let [year, month, day, hour, minute, second] = civil(survey.time);
    format!(
        "{ROOT}/date={year:04}-{month:02}-{day:02}/{}-\
         {year:04}{month:02}{day:02}T{hour:02}{minute:02}{second:02}Z-{}.parquet",
        survey.machine,
        hex(&chance)
    )
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
    fn places_are_folders() {
        let folder = Place::Folder(PathBuf::from("/var/lib/x"));
        assert_eq!(Place::parse("/var/lib/x").unwrap(), folder);
        for wrong in ["", "ftp://x/y"] {
            assert!(Place::parse(wrong).is_err(), "{wrong}");
        }
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
