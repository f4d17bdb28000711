//! Folder of surveys, in which a file appears whole or not at all.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use chrono::{DateTime, Utc};
use zmeld_linux::{file, FileError};

use crate::survey::key::{chance, hex};
use crate::survey::run::Survey;
use crate::survey::Error;

/// Folder of this version's surveys, below a place.
pub(crate) const ROOT: &str = "zmeld-survey-2";

/// The bit of a folder that hands its group to what is made in it.
const SETGID: u32 = 0o2000;

/// The folder where surveys go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place(PathBuf);

impl Place {
    /// The folder that a text names.
    ///
    /// # Errors
    /// When it is empty, or a URL.
    pub fn parse(text: &str) -> Result<Place, Error> {
        let bad = |text: String, problem: &str| Error::BadPlace {
            text,
            problem: problem.to_owned(),
        };
        if text.is_empty() {
            return Err(bad(text.to_owned(), "it is empty: name a folder"));
        }
        // Text behind a scheme may be a secret, and is not shown.
        let scheme = text.split_once(":/").map_or("", |(scheme, _)| scheme);
        if !scheme.is_empty() && scheme.chars().all(|c| c.is_ascii_alphanumeric()) {
            return Err(bad(
                format!("{scheme}:/..."),
                "surveys go to a folder; zmeld-survey-upload.service sends them on, by the \
                 program that you name (docs/survey.md)",
            ));
        }
        Ok(Place(PathBuf::from(text)))
    }

    /// Finds out before a long run whether a survey could be kept there, as far as that
    /// can be told without writing one.
    ///
    /// # Errors
    /// When it could not.
    pub fn check(&self) -> Result<(), Error> {
        let below = self.0.join(ROOT);
        self.make_folder(&below)?;
        rustix::fs::access(&below, rustix::fs::Access::WRITE_OK)
            .map_err(|cause| FileError::new("write to", &below, cause).into())
    }

    /// Keeps a survey that is a file of these bytes; says where.
    ///
    /// # Errors
    /// When it cannot be kept there; then nothing is there.
    pub fn put(&self, survey: &Survey, bytes: &[u8]) -> Result<String, Error> {
        let path = self.0.join(ROOT).join(file_path(survey, chance()?));
        self.make_folder(path.parent().expect("a name has folders"))?;
        file::create(&path, bytes, Some(0o600 | self.group_mode(0o040)))?;
        Ok(path.display().to_string())
    }

    /// Group permissions: `mode` in a setgid folder, else none. A reader of surveys who has memory
    /// on a machine can try out what others hold there.
    fn group_mode(&self, mode: u32) -> u32 {
        match fs::metadata(&self.0).is_ok_and(|found| found.mode() & SETGID != 0) {
            true => mode,
            false => 0,
        }
    }

    /// Makes a folder that is not there, with those above it. Another user's folder is believed as
    /// little as a link would be.
    fn make_folder(&self, folder: &Path) -> Result<(), Error> {
        let failed = |cause| FileError::new("make", folder, cause);
        let mut builder = fs::DirBuilder::new();
        builder
            .recursive(true)
            .mode(0o700 | self.group_mode(0o050))
            .create(folder)
            .map_err(|cause| not_made(folder, cause))?;
        let me = rustix::process::geteuid().as_raw();
        let is_ours = |part: &&Path| part.components().any(|name| name.as_os_str() == ROOT);
        for part in folder.ancestors().take_while(is_ours) {
            let found = fs::symlink_metadata(part).map_err(failed)?;
            if !found.is_dir() || ![0, me].contains(&found.uid()) {
                return Err(Error::BadPlace {
                    text: part.display().to_string(),
                    problem: "it is a link, or another user's: surveys could land anywhere"
                        .to_owned(),
                });
            }
        }
        Ok(())
    }
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

/// The file of a survey below the folder of its version.
fn file_path(survey: &Survey, chance: [u8; 4]) -> PathBuf {
    let time = DateTime::<Utc>::from(survey.time);
    PathBuf::from(format!(
        "date={}/{}-{}-{}.parquet",
        time.format("%Y-%m-%d"),
        survey.machine,
        time.format("%Y%m%dT%H%M%SZ"),
        hex(&chance)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn places_are_folders_and_a_url_is_told_what_sends_surveys_without_its_secret() {
        for text in ["./s3:/x", "/srv/a:/b", "surveys"] {
            assert_eq!(Place::parse(text).unwrap().0, Path::new(text));
        }
        for text in ["s3:/secret", "s3://KEY:secret@fleet", "ftp://secret/y"] {
            let said = Place::parse(text).unwrap_err().to_string();
            assert!(said.contains("zmeld-survey-upload.service"), "{said}");
            assert!(!said.contains("secret"), "{said}");
        }
        assert!(Place::parse("").is_err());
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
        let said = Place(file).check().unwrap_err().to_string();
        assert!(said.contains("file/zmeld-survey-2"), "{said}");
        let folder = dir.path().join("new/folder");
        Place(folder.clone()).check().unwrap();
        let made = fs::metadata(folder.join(ROOT)).unwrap();
        assert_eq!(made.mode() & 0o777, 0o700);
        let linked = dir.path().join("linked");
        fs::create_dir(&linked).unwrap();
        std::os::unix::fs::symlink(dir.path(), linked.join(ROOT)).unwrap();
        let said = Place(linked).check().unwrap_err().to_string();
        assert!(said.contains("it is a link"), "{said}");
    }

    #[test]
    fn a_group_reads_what_is_in_a_folder_that_hands_its_group_on() {
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o7777;
        let dir = tempfile::tempdir().unwrap();
        for (of_folder, group, below) in [(0o750, 0, 0o700), (0o2750, 0o040, 0o2750)] {
            let folder = dir.path().join(format!("{of_folder:o}"));
            fs::create_dir(&folder).unwrap();
            fs::set_permissions(&folder, fs::Permissions::from_mode(of_folder)).unwrap();
            let place = Place(folder.clone());
            place.check().unwrap();
            assert_eq!(mode(&folder.join(ROOT)), below);
            assert_eq!(place.group_mode(0o040), group);
        }
    }
}
