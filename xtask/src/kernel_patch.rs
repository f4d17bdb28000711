//! `cargo xtask kernel-patch`: zword as a series of patches for a plain kernel.
//!
//! The codec, its library and its compressors are the files of `store`, with what
//! probes find there decided for that kernel. Files that only a kernel's tree has are in
//! `xtask/kernel-patch`; files of the tree are edited at lines that they must have.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{bail, Context, Result};

use crate::kernel_tests::{self, KernelCache};
use crate::process::{self, output_of, unavailable, Log};
use crate::step::Tally;
use crate::tools;
use crate::workspace;

pub const STEP: &str = "kernel-patch";

/// Write zword as patches for a plain kernel to target/kernel-patch/SERIES: library, compressors
/// of the crypto API, backend of zram, documentation; submitter and maintainer are placeholders
#[derive(clap::Args)]
pub struct Options {
    /// Which kernel
    #[arg(value_parser = SERIES)]
    series: String,
    /// Folder of that kernel's plain sources
    #[arg(long)]
    tree: PathBuf,
}

const SERIES: [&str; 3] = ["6.12", "7.2", "7.3"];

const SUBMITTER: &str = "PLACEHOLDER SUBMITTER";
const SUBMITTER_ADDRESS: &str = "submitter@placeholder.invalid";

const COVER: &str = "zword: a compressor for pages of memory

All names and addresses in this series are placeholders: those of the
submitter, and the maintainer in MAINTAINERS.

zword compresses pages of memory: words are predicted from words some
strides back, and what differs is coded by static, trained codes. It
has no dictionary to load, allocates nothing and uses no SIMD. zswap
takes it through the crypto API, zram by a backend.

In zswap its pool takes 0.83 of the bytes of zstd's, a fault 0.61 of its
time (user-mode Linux, without checks; bytes and times of five rounds).
crypto/testmgr.c has no vectors of whole pages, and zword takes nothing
else: it tests itself when it starts.";

struct Part {
    message: &'static str,
    /// From where in the workspace to where in the tree; a folder's sources, or a file.
    copies: &'static [(&'static str, &'static str)],
    /// A file of the tree, a line that it has, and what stands there then: % is that line.
    edits: &'static [(&'static str, &'static str, &'static str)],
}

#[rustfmt::skip]
const PARTS: &[Part] = &[
    Part {
        message: "lib: zword: add a compressor for pages of memory

A library with tables that stand once for all its users. They are made
from trained lengths of codes at load, which then tests itself. Each
page is decoded and compared before it counts as compressed, unless
libzword.check_writes is off.",
        copies: &[
            ("store/zword", "lib/zword"),
            ("store/crypto/library.c", "lib/zword/library.c"),
            ("store/crypto/library.h", "include/linux/zword.h"),
            ("store/crypto/page.c", "lib/zword/page.c"),
            ("store/crypto/page.h", "lib/zword/page.h"),
            ("store/crypto/selftest.c", "lib/zword/selftest.c"),
            ("store/crypto/selftest.h", "lib/zword/selftest.h"),
            ("xtask/kernel-patch/lib/zword", "lib/zword"),
        ],
        edits: &[
            ("lib/Kconfig", "source \"lib/xz/Kconfig\"", "config ZWORD\n\ttristate\n\n%"),
            ("lib/Makefile", "obj-$(CONFIG_XZ_DEC) += xz/", "obj-$(CONFIG_ZWORD) += zword/\n%"),
            ("MAINTAINERS", "F:\ttools/testing/selftests/cgroup/test_zswap.c",
                "%\n\nZWORD COMPRESSOR\nM:\tPLACEHOLDER MAINTAINER <maintainer@placeholder.invalid>\n\
                 S:\tMaintained\nF:\tinclude/linux/zword.h\nF:\tlib/zword/"),
        ],
    },
    Part {
        message: "crypto: zword: add zword and zword-dense

Two levels of zword as synchronous compressors, which zswap takes by
name: zword is the quick one, zword-dense takes a twentieth less memory in
five times the time.",
        copies: &[("store/crypto/scomps.c", "crypto/zword.c")],
        edits: &[
            ("crypto/Kconfig", "\t  See https://github.com/facebook/zstd for further information.",
                "%\n\nconfig CRYPTO_ZWORD\n\ttristate \"zword\"\n\tdepends on PAGE_SIZE_LESS_THAN_256KB\n\tselect CRYPTO_ALGAPI\n\
                 \tselect CRYPTO_ACOMP2\n\tselect ZWORD\n\thelp\n\
                 \t  zword, a compressor for pages of memory, in two levels: zword and\n\
                 \t  zword-dense. It takes nothing but whole pages, as zswap has them.\n\
                 \t  Each is decoded and compared before it counts as compressed.\n\n\
                 \t  See Documentation/staging/zword.rst for its format."),
            ("crypto/Makefile", "obj-$(CONFIG_CRYPTO_ZSTD) += zstd.o", "%\nobj-$(CONFIG_CRYPTO_ZWORD) += zword.o"),
            ("MAINTAINERS", "F:\tinclude/linux/zword.h", "F:\tcrypto/zword.c\n%"),
        ],
    },
    Part {
        message: "zram: add a zword backend

zword as comp_algorithm; algorithm_params takes level 1, the default,
which is quick, and level 2, which is dense.",
        copies: &[("xtask/kernel-patch/drivers/block/zram", "drivers/block/zram")],
        edits: &[
            ("drivers/block/zram/Kconfig",
                "config ZRAM_BACKEND_FORCE_LZO",
                "config ZRAM_BACKEND_ZWORD\n\tbool \"zword compression support\"\n\
                 \tdepends on ZRAM && PAGE_SIZE_LESS_THAN_256KB\n\tselect ZWORD\n\thelp\n\
                 \t  zword, a compressor for pages that programs swap out: most of them\n\
                 \t  take less memory and time than with zstd. Code takes more at level\n\
                 \t  1, the default; level 2 is for recompression.\n\n\
                 \t  See Documentation/staging/zword.rst for its format.\n\n%"),
            ("drivers/block/zram/Kconfig", "\t\t!ZRAM_BACKEND_842", "% && !ZRAM_BACKEND_ZWORD"),
            ("drivers/block/zram/Kconfig", "endchoice",
                "config ZRAM_DEF_COMP_ZWORD\n\tbool \"zword\"\n\tdepends on ZRAM_BACKEND_ZWORD\n\n%"),
            ("drivers/block/zram/Kconfig", "\tdefault \"842\" if ZRAM_DEF_COMP_842", "%\n\tdefault \"zword\" if ZRAM_DEF_COMP_ZWORD"),
            ("drivers/block/zram/Makefile", "zram-$(CONFIG_ZRAM_BACKEND_842)\t\t+= backend_842.o", "%\nzram-$(CONFIG_ZRAM_BACKEND_ZWORD)\t+= backend_zword.o"),
            ("drivers/block/zram/zcomp.c", "#include \"backend_842.h\"", "%\n#include \"backend_zword.h\""),
            ("drivers/block/zram/zcomp.c", "\tNULL", "#if IS_ENABLED(CONFIG_ZRAM_BACKEND_ZWORD)\n\t&backend_zword,\n#endif\n%"),
            ("MAINTAINERS", "F:\tcrypto/zword.c", "%\nF:\tdrivers/block/zram/backend_zword.*"),
        ],
    },
    Part {
        message: "Documentation: describe zword's format

Complete enough to write a decoder from.",
        copies: &[("docs/zword.md", "Documentation/staging/zword.rst")],
        edits: &[
            ("Documentation/staging/index.rst", "   xz", "%\n   zword"),
            ("MAINTAINERS", "F:\tcrypto/zword.c", "F:\tDocumentation/staging/zword.rst\n%"),
        ],
    },
];

/// Texts that differ in a kernel's tree.
#[rustfmt::skip]
const NAMES: &[(&str, &str)] = &[
    ("Made by `cargo xtask train zword`; docs/zword.md says what stands where.",
     "Lengths of codes, trained on pages that programs had in swap."),
    ("#include <zm_platform.h>", "#include \"platform.h\""),
    ("#include \"../zword/", "#include \""),
    ("#include \"library.h\"", "#include <linux/zword.h>"),
    ("#include \"compat.h\"", "#include <crypto/internal/scompress.h>"),
    ("#include \"scomps.h\"\n", ""),
    ("See library.h.", "See include/linux/zword.h."),
    ("ZM_", "ZWORD_"),
    ("zm_", "zword_"),
    ("docs/zword.md", "Documentation/staging/zword.rst"),
    ("store/zword/", "lib/zword/"),
    (AT_LOAD, "/* What makes tables is given back when they are made. */\n#define zword_at_load\t__init\n"),
    ("zword_data_at_load", "__initconst"),
    // Its life is that of a module of its own.
    ("\n/* Makes the tables and tries them, before anybody asks for a context. */\n\
      int zword_library_start(void);\nvoid zword_library_stop(void);\n\
      const struct zword_tables *zword_library_tables(void);\n", ""),
    ("\nconst struct zword_tables *zword_library_tables(void)\n{\n\treturn tables;\n}\n", ""),
    ("\nint __init zword_", "\nstatic int __init zword_"),
    ("\nvoid zword_library_stop", "\nstatic void __exit zword_library_stop"),
    ("\nvoid zword_scomps_unregister", "\nstatic void __exit zword_scomps_unregister"),
];

/// In `store/zword/zword.h`; a kernel makes its tables at load.
const AT_LOAD: &str = "/*
 * What makes tables. Where they are made only at load (ZWORD_AT_LOAD), this memory
 * is given back then.
 */
#ifdef ZWORD_AT_LOAD
#include <linux/init.h>
#define zword_at_load\t\t__init
#define zword_data_at_load\t__section(\".init.rodata\")
#else
#define zword_at_load
#define zword_data_at_load
#endif
";

/// Functions that other parts of the kernel call.
const EXPORTS: &[&str] = &[
    "zword_context_new",
    "zword_context_free",
    "zword_page_encode",
    "zword_page_decode",
];

pub fn run(options: &Options) -> Result<ExitCode> {
    let folder = workspace::target()
        .join("kernel-patch")
        .join(&options.series);
    for patch in write(&options.series, &options.tree, &folder)? {
        println!("{}", workspace::shown(&patch));
    }
    Ok(ExitCode::SUCCESS)
}

/// Source files of the series.
pub fn files() -> Result<Vec<PathBuf>> {
    let root = workspace::root();
    let mut files = vec![root.join("xtask/src/kernel_patch.rs")];
    for folder in ["store/zword", "store/crypto", "xtask/kernel-patch"] {
        files.extend(workspace::all_files(&root.join(folder))?);
    }
    files.retain(|file| !file.starts_with(root.join("store/crypto/tests")));
    files.sort();
    Ok(files)
}

/// Puts the series into the sources in that folder.
pub fn put_in(log: &Log, tree: &Path) -> Result<()> {
    let series = series_of(tree)?;
    if !SERIES.contains(&&*series) {
        unavailable!("zword's patches are not made for Linux {series}");
    }
    let patches = write(&series, tree, &workspace::work_folder(STEP)?.join(&series))?;
    let mut apply = process::git();
    // Not a part of a repository that the sources may be in.
    apply.env("GIT_CEILING_DIRECTORIES", tree.parent().unwrap_or(tree));
    log.must(apply.current_dir(tree).arg("apply").args(&patches[1..]))?;
    Ok(())
}

/// The series has the kernel's style. Kernels that are built with it show the rest.
pub fn test(log: &Log, kernels: &KernelCache) -> Result<Tally> {
    let kernel = kernels.take(log, "um")?;
    tools::need(&["perl"])?;
    let tree = kernel.source.as_deref();
    let tree = tree.context("user-mode Linux without its sources")?;
    let series = series_of(tree)?;
    let patches = write(&series, tree, &workspace::work_folder(STEP)?.join(&series))?;
    let mut style = kernel_tests::style_check(&kernel)?;
    // Its neighbours in the menu of zram's codecs have no help.
    style.args(["--ignore", "CONFIG_DESCRIPTION"]);
    style.args(&patches[1..]);
    Tally::of_run(log, STEP, &mut style, "checkpatch has a point, see above")
}

/// The patches, by number: a repository of the files in question, which git formats.
fn write(series: &str, tree: &Path, folder: &Path) -> Result<Vec<PathBuf>> {
    tools::need(&["git"])?;
    let found = series_of(tree)?;
    if found != series {
        bail!("{} is Linux {found}, not {series}", tree.display());
    }
    workspace::empty_folder(folder)?;
    let work = folder.join("work");
    for (file, ..) in PARTS.iter().flat_map(|part| part.edits) {
        workspace::put(&work.join(file), &workspace::read(&tree.join(file))?)?;
    }
    let git = |arguments: &[&str]| {
        let mut git = process::git();
        for role in ["AUTHOR", "COMMITTER"] {
            git.env(format!("GIT_{role}_NAME"), SUBMITTER);
            git.env(format!("GIT_{role}_EMAIL"), SUBMITTER_ADDRESS);
        }
        // Whoever runs this may have hooks, signatures and formats of his own.
        git.env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_NOSYSTEM", "1");
        output_of(git.arg("-C").arg(&work).args(arguments))
    };
    let commit = |message: &str| {
        git(&["add", "-A"])?;
        git(&["commit", "-qm", message])
    };
    git(&["init", "-q", "-b", "zword"])?;
    commit("plain")?;
    for part in PARTS {
        apply(part, series, &work)?;
        commit(&format!(
            "{}\n\nSigned-off-by: {SUBMITTER} <{SUBMITTER_ADDRESS}>",
            part.message
        ))?;
    }
    git(&["config", "branch.zword.description", COVER])?;
    let base = format!("HEAD~{}", PARTS.len());
    let format = "format-patch -q --cover-letter --cover-from-description=subject -o ..";
    git(&format.split(' ').chain([&*base]).collect::<Vec<_>>())?;
    workspace::remove(&work)?;
    workspace::files(folder, "patch")
}

fn apply(part: &Part, series: &str, work: &Path) -> Result<()> {
    for (from, to) in part.copies {
        let source = workspace::root().join(from);
        if source.is_file() {
            workspace::put(
                &work.join(to),
                in_tree(&workspace::read(&source)?, to, series),
            )?;
            continue;
        }
        for file in workspace::all_files(&source)? {
            let to = Path::new(to).join(file.strip_prefix(&source)?);
            // The store's own codec list has no place in a kernel.
            if !to.ends_with("codec.h") {
                let text = in_tree(&workspace::read(&file)?, &to.to_string_lossy(), series);
                workspace::put(&work.join(&to), &text)?;
            }
        }
    }
    for (file, line, new) in part.edits {
        let path = work.join(file);
        workspace::put(
            &path,
            &edited(&workspace::read(&path)?, line, new)
                .with_context(|| format!("{file} of this tree"))?,
        )?;
    }
    Ok(())
}

fn edited(text: &str, line: &str, new: &str) -> Result<String> {
    let (old, new) = (
        format!("\n{line}\n"),
        format!("\n{}\n", new.replace('%', line)),
    );
    if !text.contains(&old) {
        bail!("has no line '{}', where zword's would go", line.trim());
    }
    Ok(text.replacen(&old, &new, 1))
}

/// A source of the store as the kernel's tree has it, at that place.
fn in_tree(text: &str, place: &str, series: &str) -> String {
    if place.ends_with(".rst") {
        return restructured(text);
    }
    let mut text = renamed(text);
    match place {
        "lib/zword/library.c" => {
            for name in EXPORTS {
                text = exported(&text, name);
            }
            text += "\n/* Before whoever is built in and asks for a context. */\n\
                     subsys_initcall(zword_library_start);\nmodule_exit(zword_library_stop);\n\n\
                     MODULE_LICENSE(\"GPL\");\n\
                     MODULE_DESCRIPTION(\"zword: a compressor for pages of memory\");\n";
        }
        "crypto/zword.c" => {
            text = shaped(&text, series);
            text += "\nmodule_init(zword_scomps_register);\nmodule_exit(zword_scomps_unregister);\n\n\
                     MODULE_LICENSE(\"GPL\");\nMODULE_DESCRIPTION(\"zword compression algorithm\");\n";
        }
        "drivers/block/zram/backend_zword.c" if series == "6.12" => {
            text = text.replace("ZCOMP_PARAM_NOT_SET", "ZCOMP_PARAM_NO_LEVEL");
        }
        _ => {}
    }
    text
}

fn renamed(text: &str) -> String {
    let rename = |text: String, (old, new): &(&str, &str)| text.replace(old, new);
    NAMES.iter().fold(text.to_owned(), rename)
}

/// How that kernel makes contexts, in the place of `compat.h`.
fn shaped(text: &str, series: &str) -> String {
    let (alloc, free, begin, end) = match series {
        "6.12" => (
            "struct crypto_scomp *tfm",
            "struct crypto_scomp *tfm, void *context",
            "",
            "",
        ),
        _ => ("void", "void *context", ".streams = { ", " }"),
    };
    let text = text
        .replace("ZWORD_ALLOC_ARGUMENTS", alloc)
        .replace("ZWORD_FREE_ARGUMENTS", free);
    let contexts = |text: String, new| {
        let by = format!("{begin}.alloc_ctx = {new}, .free_ctx = scomp_free{end}");
        text.replace(&format!("ZWORD_CONTEXTS_BY({new}, scomp_free)"), &by)
    };
    ["scomp_alloc", "scomp_alloc_dense"]
        .into_iter()
        .fold(text, contexts)
}

fn exported(text: &str, name: &str) -> String {
    let end = text
        .find(&format!("{name}("))
        .and_then(|at| Some(at + text[at..].find("\n}\n")? + 3));
    match end {
        Some(end) => format!(
            "{}EXPORT_SYMBOL_GPL({name});\n{}",
            &text[..end],
            &text[end..]
        ),
        None => text.to_owned(),
    }
}

/// The format of docs/zword.md, as the kernel's documentation is written.
fn restructured(page: &str) -> String {
    let begin = page.find("All numbers are little endian.").unwrap_or(0);
    let end = page.find("## How it is encoded").unwrap_or(page.len());
    let mut text = ".. SPDX-License-Identifier: GPL-2.0-or-later\n\n\
        zword: a compressor for pages of memory\n=======================================\n\n\
        This is the format, complete enough to write a decoder from. No object outlives the\n\
        kernel that wrote it, so it may change with each version.\n\n"
        .to_owned();
    let mut is_table = false;
    for line in page[begin..end].lines() {
        let line = renamed(&line.replace('`', "``"));
        if let Some(title) = line.strip_prefix("## ") {
            text += &format!("{title}\n{}\n", "-".repeat(title.len()));
        } else if let Some(row) = line.strip_prefix('|').and_then(|row| row.strip_suffix('|')) {
            let cells: Vec<&str> = row.split('|').map(str::trim).collect();
            if !is_table {
                text += ".. list-table::\n\n";
            }
            is_table = true;
            if !cells.iter().all(|cell| cell.trim_matches('-').is_empty()) {
                text += &format!("   * - {}\n", cells.join("\n     - "));
            }
        } else {
            is_table = false;
            text += &format!("{line}\n");
        }
    }
    text.trim_end().to_owned() + "\n"
}

fn series_of(tree: &Path) -> Result<String> {
    let makefile = workspace::read(&tree.join("Makefile"))?;
    let value = |name: &str| {
        let line = makefile.lines().find_map(|line| line.strip_prefix(name));
        line.with_context(|| format!("{} is no kernel's", tree.display()))
    };
    Ok(format!(
        "{}.{}",
        value("VERSION = ")?,
        value("PATCHLEVEL = ")?
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_the_store_is_left_in_a_kernel() {
        let work = workspace::work_folder("unit/kernel-patch").unwrap();
        let each = |part| SERIES.map(|series| (part, series));
        for (part, series) in PARTS.iter().flat_map(each) {
            workspace::empty_folder(&work).unwrap();
            let part = Part {
                edits: &[],
                ..*part
            };
            apply(&part, series, &work).unwrap();
            for file in workspace::all_files(&work).unwrap() {
                let text = workspace::read(&file).unwrap();
                for word in
                    "zm_ ZM_ zmeld ../ ZWORD_AT_LOAD _ARGUMENTS CONTEXTS_BY cargo xtask".split(' ')
                {
                    assert!(!text.contains(word), "{word} in {}", file.display());
                }
            }
        }
    }
}
