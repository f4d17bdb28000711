//! The sources of the codecs' libraries, where cargo keeps them: for processors that cargo
//! builds nothing for.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result};

use crate::rust_tests::cargo;
use crate::workspace;

/// One library.
pub struct LibrarySources {
    /// Its C files.
    pub files: Vec<PathBuf>,
    /// The folder of its headers.
    pub include: PathBuf,
}

/// lz4 and lz4hc.
pub fn lz4() -> Result<LibrarySources> {
    let include = crate_folder("lz4-sys")?.join("liblz4/lib");
    Ok(LibrarySources {
        files: ["lz4.c", "lz4hc.c"].map(|name| include.join(name)).to_vec(),
        include,
    })
}

/// zstd, with what makes dictionaries.
pub fn zstd() -> Result<LibrarySources> {
    let include = crate_folder("zstd-sys")?.join("zstd/lib");
    let mut files = Vec::new();
    for part in ["common", "compress", "decompress", "dictBuilder"] {
        files.extend(workspace::files(&include.join(part), "c")?);
    }
    Ok(LibrarySources { files, include })
}

/// zlib without files of its own format.
pub fn zlib() -> Result<LibrarySources> {
    let include = crate_folder("libz-sys")?.join("src/zlib");
    let mut files = workspace::files(&include, "c")?;
    files.retain(|file| !workspace::stem(file).starts_with("gz"));
    Ok(LibrarySources { files, include })
}

/// Where cargo keeps a dependency.
fn crate_folder(name: &str) -> Result<PathBuf> {
    let output = cargo(&["metadata", "--format-version", "1"])
        .stderr(Stdio::inherit())
        .output()
        .context("cannot start cargo")?;
    let known: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    let packages = known["packages"].as_array().into_iter().flatten();
    let manifest = packages
        .filter(|package| package["name"] == name)
        .find_map(|package| package["manifest_path"].as_str())
        .with_context(|| format!("cargo knows no {name}"))?;
    Ok(Path::new(manifest).with_file_name(""))
}
