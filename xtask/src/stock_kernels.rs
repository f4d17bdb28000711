//! Debian's own kernels, of any suite and for any processor, fetched and unpacked: the
//! image, the headers that modules are built with, the modules that guests get.

use std::cmp::Ordering;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{bail, Context, Result};

use crate::apt::{Reason, Suite};
use crate::kernels::{missing_tool, KernelRecipe};
use crate::process::Log;

const UNPACK_LIMIT: Duration = Duration::from_secs(1800);

/// Modules of stock kernels that guests get, with what these depend on.
const STOCK_MODULES: &[&str] = &[
    "zram",
    "zsmalloc",
    "lz4",
    "lz4hc",
    "lz4_compress",
    "lz4hc_compress",
    "zstd",
    "842",
    "842_compress",
    "842_decompress",
    "lzo",
    "lzo-rle",
    "deflate",
    "ext4",
    "btrfs",
    "loop",
    "dm-mod",
    "dm-crypt",
    "xts",
    "aesni-intel",
    "algif_skcipher",
    "zbud",
    "z3fold",
    "dm-flakey",
    "dm-delay",
    "dm-zero",
    "virtio_blk",
    "virtio_pci",
    "crc32c_generic",
    "crc32c-intel",
    "xxhash_generic",
    "sha256_generic",
    "blake2b_generic",
];

/// Fetches and unpacks it; its release.
pub fn fetch(
    log: &Log,
    recipe: &KernelRecipe,
    place: &Path,
) -> Result<std::result::Result<String, Reason>> {
    if let Some(reason) = missing_tool(&["depmod", "xz"]) {
        return Ok(Err(reason));
    }
    let suite = match Suite::open(log, recipe.suite, recipe.arch, &place.join("apt"))? {
        Ok(suite) => suite,
        Err(reason) => return Ok(Err(reason)),
    };
    let (series, flavour) = recipe.series;
    let names = suite.names(&format!("^linux-image-{series}.*-{flavour}$"))?;
    let Some(release) = newest(&names, series, flavour) else {
        let why = format!("{} has no kernel {series} for {flavour}", recipe.suite);
        return Ok(Err(why));
    };
    let root = place.join("root");
    suite.unpack(log, &packages(&suite, &release)?, &root)?;
    // Packages of a Debian whose /lib is a link have nothing there.
    if !root.join("lib").exists() {
        std::os::unix::fs::symlink("usr/lib", root.join("lib"))?;
    }
    redirect_headers(&root, &release)?;
    choose_modules(log, &root, &release, &place.join("modules"))?;
    Ok(Ok(release))
}

/// Where its packages put the image: newer ones beside the modules.
pub fn image(place: &Path, release: &str) -> PathBuf {
    let newer = place.join(format!("root/usr/lib/modules/{release}/vmlinuz"));
    match newer.exists() {
        true => newer,
        false => place.join(format!("root/boot/vmlinuz-{release}")),
    }
}

/// The newest release of a series and flavour among names of packages.
fn newest(names: &[String], series: &str, flavour: &str) -> Option<String> {
    let end = format!("-{flavour}");
    let releases = names.iter().filter_map(|name| {
        let release = name.strip_prefix("linux-image-")?;
        let version = release.strip_suffix(&end)?;
        let rest = version.strip_prefix(series)?;
        // Another flavour, or another series that begins alike.
        let is_one = rest.starts_with(['.', '-', '+', '~'])
            && rest.split(['.', '-', '+', '~']).all(|part| {
                !part.starts_with(|letter: char| letter.is_ascii_lowercase())
                    || part.starts_with("deb")
            });
        is_one.then_some(release)
    });
    releases
        .max_by(|one, other| by_numbers(one, other))
        .map(str::to_owned)
}

/// 6.1.0-9 is older than 6.1.0-50.
fn by_numbers(one: &str, other: &str) -> Ordering {
    let numbers = |text: &str| -> Vec<u64> {
        text.split(|letter: char| !letter.is_ascii_digit())
            .filter_map(|part| part.parse().ok())
            .collect()
    };
    numbers(one).cmp(&numbers(other))
}

/// The packages of a release's image, modules and headers: how many there are depends
/// on the suite. For others than this machine's processor the headers come with tools
/// of this machine's, so only what carries the release's name is of that processor.
fn packages(suite: &Suite, release: &str) -> Result<Vec<String>> {
    let mut all = Vec::new();
    let image = suite.of_arch(&format!("linux-image-{release}"));
    for name in suite.dependencies(&image)? {
        let is_part = ["linux-base-", "linux-binary-", "linux-modules-"]
            .iter()
            .any(|part| name.strip_prefix(part).is_some_and(|rest| rest == release));
        if is_part {
            all.push(suite.of_arch(&name));
        }
    }
    all.push(image);
    let headers = suite.of_arch(&format!("linux-headers-{release}"));
    for name in suite.dependencies(&headers)? {
        if name.contains("-common") || name.starts_with("linux-kbuild-") {
            all.push(name);
        }
    }
    all.push(headers);
    Ok(all)
}

/// The packages expect to lie in `/usr/src`; here they lie under `root`.
fn redirect_headers(root: &Path, release: &str) -> Result<()> {
    let makefile = root.join(format!("usr/src/linux-headers-{release}/Makefile"));
    let text = fs::read_to_string(&makefile).with_context(|| {
        format!(
            "no header package of the known form: {}",
            makefile.display()
        )
    })?;
    let there = format!("{}/usr/src/", root.display());
    let text = text.replace("/usr/src/", &there);
    fs::write(&makefile, text)?;
    Ok(())
}

/// Copies the modules that guests need, unpacked, into a folder of their own.
fn choose_modules(log: &Log, root: &Path, release: &str, to: &Path) -> Result<()> {
    let unfinished = to.with_extension("unfinished");
    if unfinished.exists() {
        fs::remove_dir_all(&unfinished)?;
    }
    let from = root.join("lib/modules").join(release);
    let depmod = |root: &Path| -> Result<()> {
        let mut command = Command::new("depmod");
        command.arg("-b").arg(root).arg(release);
        match log.run(&mut command, UNPACK_LIMIT)?.succeeded() {
            true => Ok(()),
            false => bail!("depmod fails on {}", root.display()),
        }
    };
    depmod(root)?;
    let dependencies = fs::read_to_string(from.join("modules.dep"))?;
    let target = unfinished.join("lib/modules").join(release);
    for path in zmeld_vm::with_dependencies(&dependencies, STOCK_MODULES) {
        let copy = target.join(&path);
        fs::create_dir_all(copy.parent().unwrap_or(&target))?;
        fs::copy(from.join(&path), &copy)?;
        if path.ends_with(".xz") {
            let mut command = Command::new("xz");
            command.arg("-d").arg(&copy);
            if !log.run(&mut command, UNPACK_LIMIT)?.succeeded() {
                bail!("{} cannot be unpacked", copy.display());
            }
        }
    }
    for name in [
        "modules.order",
        "modules.builtin",
        "modules.builtin.modinfo",
    ] {
        fs::copy(from.join(name), target.join(name))?;
    }
    depmod(&unfinished)?;
    if to.exists() {
        fs::remove_dir_all(to)?;
    }
    fs::rename(&unfinished, to)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_of_a_flavour_is_chosen() {
        let names: Vec<String> = [
            "linux-image-6.1.0-9-amd64",
            "linux-image-6.1.0-50-amd64",
            "linux-image-6.1.0-51-rt-amd64",
            "linux-image-6.12.95+deb12-amd64",
            "linux-image-6.12.9+deb12-cloud-amd64",
            "linux-image-7.2.12+deb13-arm64",
            "linux-image-7.2.13+deb13-arm64-16k",
        ]
        .map(str::to_owned)
        .to_vec();
        let newest = |series, flavour| newest(&names, series, flavour);
        assert_eq!(newest("6.1", "amd64").as_deref(), Some("6.1.0-50-amd64"));
        assert_eq!(
            newest("6.1", "rt-amd64").as_deref(),
            Some("6.1.0-51-rt-amd64")
        );
        assert_eq!(
            newest("6.12", "amd64").as_deref(),
            Some("6.12.95+deb12-amd64")
        );
        assert_eq!(
            newest("7.2", "arm64-16k").as_deref(),
            Some("7.2.13+deb13-arm64-16k")
        );
        assert_eq!(newest("7.2", "amd64"), None);
    }
}
