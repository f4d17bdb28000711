//! Debian's own kernels, of any suite and for any processor, fetched and unpacked: the
//! image, the headers that modules are built with, the modules that guests get.

use std::cmp::Ordering;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::apt::Suite;
use crate::process::{unavailable, Log};
use crate::recipes::KernelRecipe;
use crate::tools;
use crate::workspace;

/// Modules of stock kernels that guests get, with what these depend on.
const STOCK_MODULES: &str = "zram zsmalloc lz4 lz4hc lz4_compress lz4hc_compress zstd 842 \
    842_compress 842_decompress lzo lzo-rle deflate ext4 loop dm-mod dm-crypt xts \
    aesni-intel algif_skcipher zbud z3fold dm-flakey dm-delay dm-zero virtio_blk virtio_pci \
    crc32c_generic crc32c-intel xxhash_generic sha256_generic blake2b_generic";

pub fn fetch(log: &Log, recipe: &KernelRecipe, place: &Path) -> Result<String> {
    tools::need(&["depmod", "xz"])?;
    let suite = Suite::open(log, recipe.suite, recipe.arch(), &place.join("apt"))?;
    let (series, flavour) = recipe.series;
    // No letters but those of `+deb12`: another flavour's name ends alike.
    let pattern = format!("^linux-image-{series}[-.][-.+~0-9]*(deb[-.+~0-9]*)?-{flavour}$");
    let names = suite.names(&pattern)?;
    let newest = names.iter().max_by(|one, other| by_numbers(one, other));
    let Some(release) = newest.and_then(|name| name.strip_prefix("linux-image-")) else {
        unavailable!("{} has no kernel {series} for {flavour}", recipe.suite);
    };
    let release = release.to_owned();
    let root = place.join("root");
    suite.unpack(log, &packages(&suite, &release)?, &root)?;
    // Packages of a Debian whose /lib is a link have nothing there.
    if !root.join("lib").exists() {
        std::os::unix::fs::symlink("usr/lib", root.join("lib"))?;
    }
    redirect_headers(&root, &release)?;
    workspace::whole(&place.join("modules"), |modules| {
        choose_modules(log, &root, &release, modules)
    })?;
    Ok(release)
}

/// Path of its image in its packages: newer ones have it beside the modules.
pub fn image(place: &Path, release: &str) -> PathBuf {
    let newer = place.join(format!("root/usr/lib/modules/{release}/vmlinuz"));
    match newer.exists() {
        true => newer,
        false => place.join(format!("root/boot/vmlinuz-{release}")),
    }
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
    let depmod = |root: &Path| log.must(Command::new("depmod").arg("-b").arg(root).arg(release));
    depmod(root)?;
    let kernel = zmeld_vm::Kernel {
        image: PathBuf::new(),
        release: release.to_owned(),
        modules: Some(root.join("lib/modules").join(release)),
        kind: zmeld_vm::KernelKind::Image,
    };
    let modules: Vec<&str> = STOCK_MODULES.split_whitespace().collect();
    kernel.copy_modules(&modules, to)?;
    for path in workspace::all_files(to)? {
        if path.extension().is_some_and(|it| it == "xz") {
            log.must(Command::new("xz").arg("-d").arg(&path))?;
        }
    }
    depmod(to)?;
    Ok(())
}
