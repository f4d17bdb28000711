//! Imports other tools' swap as zmeld configuration.
//!
//! Nothing is dropped in silence: each tier's comment says where it came from,
//! and what has no counterpart is listed.

use std::fs;
use std::path::Path;

use zmeld_linux::config_files;
use zmeld_linux::fstab::has_swap;
use zmeld_linux::tree::Tree;
use zmeld_linux::HostError;

mod expression;
pub mod fstab;
mod imported;
mod ini;
mod others;
pub mod rpi_swap;
pub mod zram_generator;
pub mod zram_tools;

pub use imported::{Imported, Tool};

/// Reads what is set up on the machine whose root directory is `root` and which
/// has `ram_bytes` of RAM. RAM is needed for sizes that only arithmetic can tell.
///
/// # Errors
/// When a file is there and cannot be read.
pub fn import(root: &Path, ram_bytes: u64) -> Result<Imported, HostError> {
    let mut imported = Imported::default();
    let rpi = rpi_swap::import(root, ram_bytes, &mut imported)?;
    zram_generator::import(root, ram_bytes, rpi, &mut imported)?;
    zram_tools::import(root, &mut imported)?;
    fstab::import(root, &mut imported)?;
    others::name(root, &mut imported);
    others::in_use(root, &mut imported)?;
    // Areas without a priority come last, in their order, as the kernel has it.
    imported
        .config
        .tiers
        .sort_by_key(|tier| std::cmp::Reverse(tier.swap.priority.map_or(-1, |it| it.0)));
    if !imported.files.is_empty() {
        imported.comments.insert(String::new(), imported.head());
    }
    Ok(imported)
}

/// Reads one file of another tool, wherever it lies, as if it stood alone on a machine with
/// `ram_bytes` of RAM. None where it is of no tool that is known here.
///
/// # Errors
/// When it cannot be read.
pub fn import_file(file: &Path, ram_bytes: u64) -> Result<Option<Imported>, HostError> {
    let failed = |doing| move |cause| HostError::io(doing, file, cause);
    let text = config_files::read(&Tree::new("/"), file)?;
    let text = String::from_utf8_lossy(&text);
    let Some(place) = place_of(file, &text) else {
        return Ok(None);
    };
    let root = tempfile::tempdir().map_err(failed("copy"))?;
    let copy = root.path().join(place);
    let folder = copy.parent().unwrap_or(root.path());
    let copied = fs::create_dir_all(folder).and_then(|()| fs::write(&copy, &*text));
    copied.map_err(failed("copy"))?;
    let mut imported = import(root.path(), ram_bytes)?;
    let (there, here) = (format!("/{place}"), file.display().to_string());
    for (key, comment) in &mut imported.comments {
        // Its head has commands for the machine of the file, too.
        let before_it = match key.is_empty() {
            true => &["settings of ", "\n- "][..],
            false => &[""],
        };
        for before in before_it {
            *comment = comment.replace(&format!("{before}{there}"), &format!("{before}{here}"));
        }
    }
    for left in &mut imported.left {
        *left = left.replace(&there, &here);
    }
    Ok(Some(imported))
}

/// Where its tool has such a file, by its name or else by its lines.
fn place_of(file: &Path, text: &str) -> Option<&'static str> {
    const ZRAM_GENERATOR: &str = "etc/systemd/zram-generator.conf";
    const ZRAM_TOOLS: &str = "etc/default/zramswap";
    const RPI_SWAP: &str = "etc/rpi/swap.conf";
    const FSTAB: &str = "etc/fstab";
    const EARLYOOM: &str = "etc/default/earlyoom";
    let name = file.file_name()?.to_str()?;
    let mut places = [ZRAM_GENERATOR, ZRAM_TOOLS, RPI_SWAP, FSTAB, EARLYOOM].into_iter();
    let named = places.find(|place| Path::new(place).ends_with(name));
    let mut lines = text.lines().map(str::trim);
    let place = |line: &str| match line.split_once(['=', ']']).unwrap_or((line, "")).0 {
        "[Main" | "[File" => Some(RPI_SWAP),
        key if key.starts_with("[zram") => Some(ZRAM_GENERATOR),
        "ALGO" | "PERCENT" | "SIZE" | "PRIORITY" => Some(ZRAM_TOOLS),
        "EARLYOOM_ARGS" => Some(EARLYOOM),
        _ if has_swap(line) => Some(FSTAB),
        _ => None,
    };
    named.or_else(|| lines.find_map(place))
}
