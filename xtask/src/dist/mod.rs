//! `cargo xtask dist`: what a stranger installs. Everything is made from the commit,
//! and is the same bytes when it is made again by the same compilers.
//!
//! | module | what it makes |
//! |---|---|
//! | `source` | the source archive, with the crates, which builds without a network |
//! | `program` | the static program, built from it |
//! | `tree` | the files of a package, laid out |
//! | `deb`, `rpm` | packages of a tree |
//! | `bill` | the bill of materials and the licences |

mod bill;
mod deb;
pub mod program;
mod rpm;
pub mod source;
mod tree;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{bail, Context, Result};

use crate::apt::Reason;
use crate::kernels::Arch;
use crate::package::{self, Dkms};
use crate::process::Log;
use crate::tools;
use crate::workspace;
use bill::Bill;
use program::Target;
use tree::Tree;

/// The arguments of `dist`.
pub const USAGE: &str = "";

/// What `dist` does.
pub const ABOUT: &str = "\
Makes under target/dist what is released, from the last commit: the source archive with
all crates, static programs for x86-64 and arm64, packages of them and of the kernel module's sources (.deb,
.rpm), bills of materials, and SHA256SUMS. What this machine lacks is named and left
out. The same commit and compilers give the same bytes.";

/// What is made, and where.
pub struct Release {
    /// The one version of program, module and packages.
    pub version: String,
    /// When the commit was made, in seconds: the time of everything.
    pub epoch: u64,
    /// Where results go.
    pub folder: PathBuf,
}

/// A package, whatever its format.
pub struct Package {
    name: &'static str,
    summary: &'static str,
    description: &'static str,
    section: &'static str,
    /// More fields for dpkg.
    debian: &'static [(&'static str, &'static str)],
    /// The module, where it is one that DKMS builds.
    dkms: Option<&'static Dkms>,
}

impl Package {
    /// The name of its scripts in `packaging`: modules share theirs.
    fn scripts(&self) -> &'static str {
        self.dkms.map_or(self.name, |_| "dkms")
    }

    fn fill(&self, text: &str, version: &str) -> String {
        match self.dkms {
            Some(dkms) => dkms.fill(text, version),
            None => text.replace("@VERSION@", version),
        }
    }
}

const PROGRAM: Package = Package {
    name: "zmeld",
    summary: "makes the memory of a Linux machine go further",
    description: "\
Says what compressed swap would save on this machine, sets it up (zram, zswap,
disks, encrypted ones), watches over it and takes it back. Installing it sets
nothing up.",
    section: "admin",
    debian: &[
        // util-linux, which every Debian has, is not to be named.
        ("Depends", "mount"),
        ("Recommends", "kmod"),
        ("Suggests", "cryptsetup-bin, zword-dkms, zmeld-dkms"),
    ],
    dkms: None,
};

/// What both modules' packages say to dpkg.
const DKMS_FIELDS: &[(&str, &str)] = &[
    ("Depends", "dkms (>= 2.8)"),
    (
        "Recommends",
        "openssl, linux-headers-amd64 | linux-headers-arm64 | linux-headers-rpi-2712 | \
         linux-headers-generic | linux-headers",
    ),
];

const MODULE: Package = Package {
    name: "zmeld-dkms",
    summary: "kernel module of zmeld, built by DKMS",
    description: "\
The sources of zmeld.ko, a compressed block device in RAM with zram's interface
that also keeps identical pages once. DKMS builds it for each kernel that is
installed.",
    section: "kernel",
    debian: DKMS_FIELDS,
    dkms: Some(&package::ZMELD),
};

const CODEC: Package = Package {
    name: "zword-dkms",
    summary: "codec zword for zswap, built by DKMS",
    description: "\
The sources of zword.ko, a codec for pages of memory: with it the kernel's own
zswap, and zram up to 6.11, hold more pages than with zstd. DKMS builds it for
each kernel that is installed. Installing it changes no setting.",
    section: "kernel",
    debian: DKMS_FIELDS,
    dkms: Some(&package::ZWORD),
};

impl Release {
    /// That of the last commit, with results in `folder`.
    pub fn of_commit(folder: &Path) -> Result<Release> {
        let output = Command::new("git")
            .current_dir(workspace::root())
            .args(["log", "-1", "--format=%ct"])
            .output()
            .context("cannot start git")?;
        let epoch = String::from_utf8_lossy(&output.stdout);
        let epoch = epoch
            .trim()
            .parse()
            .context("this is no clone: git knows no commit")?;
        fs::create_dir_all(folder)?;
        Ok(Release {
            version: package::module_version()?,
            epoch,
            folder: folder.canonicalize()?,
        })
    }

    /// The same as another version, with results in `folder`.
    fn as_version(&self, version: &str, folder: &Path) -> Result<Release> {
        fs::create_dir_all(folder)?;
        Ok(Release {
            version: version.to_owned(),
            epoch: self.epoch,
            folder: folder.to_path_buf(),
        })
    }

    /// The name of its tree and archive.
    pub fn name(&self) -> String {
        format!("zmeld-{}", self.version)
    }

    /// A folder for what is not a result.
    pub fn work(&self, name: &str) -> Result<PathBuf> {
        let folder = self.folder.join("work").join(name);
        fs::create_dir_all(&folder)?;
        Ok(folder)
    }

    /// Its time, as ISO 8601 writes it.
    fn time(&self) -> Result<String> {
        let output = Command::new("date")
            .args(["-u", "+%Y-%m-%dT%H:%M:%SZ", "-d"])
            .arg(format!("@{}", self.epoch))
            .output()?;
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }
}

/// Makes all of it.
pub fn run(arguments: &[String]) -> Result<ExitCode> {
    if let Some(argument) = arguments.first() {
        bail!("there is no argument {argument:?}");
    }
    let release = Release::of_commit(&workspace::target().join("dist"))?;
    let log = Log::create(&workspace::work_folder("logs")?.join("dist.log"))?;
    if is_changed()? {
        bail!("there are changes that are not committed: packages are made from a commit");
    }
    let made = make(&log, &release)?;
    for path in &made {
        let size = fs::metadata(path)?.len();
        println!("{:>10}  {}", kib(size), workspace::shown(path));
    }
    Ok(ExitCode::SUCCESS)
}

fn kib(bytes: u64) -> String {
    format!("{} KiB", bytes.div_ceil(1024))
}

fn is_changed() -> Result<bool> {
    let output = Command::new("git")
        .current_dir(workspace::root())
        .args(["status", "--porcelain"])
        .output()?;
    Ok(!output.stdout.is_empty())
}

/// Makes everything that can be made here; the paths of what was.
pub fn make(log: &Log, release: &Release) -> Result<Vec<PathBuf>> {
    let sources = source::tree(log, release, &release.work("source")?)?;
    let archive = release.folder.join(format!("{}.tar.xz", release.name()));
    source::pack(log, release, &sources, &archive)?;
    let [build, scripts] = arch_files(release, &archive)?;
    let mut targets = vec![own_target()?];
    match program::arm64(log)? {
        Ok(target) => targets.push(target),
        Err(reason) => println!("Nothing for arm64: {reason}."),
    }
    let products = release.work("products")?;
    let mut made = vec![archive, build, scripts];
    // What the program says of itself is the same for every processor: this one's.
    let mut speaks = None;
    for target in &targets {
        let program = program::build(log, release, &sources, target, &products)?;
        let bill = Bill::of(&sources, target.triple, &compiler()?)?;
        let machine = program::machine(target.arch);
        let list = format!("{}-{machine}.cdx.json", release.name());
        let list = release.folder.join(list);
        fs::write(&list, bill.cyclonedx(release)?)?;
        made.push(list);
        println!(
            "{machine}: {} crates of others are linked in.",
            bill.count()
        );

        let speaks = speaks.get_or_insert_with(|| program.clone());
        let files = program_tree(release, &sources, target.arch, &program, speaks, &bill)?;
        let alone = format!("{}-{machine}", release.name());
        let alone = release.folder.join(alone);
        fs::copy(&program, &alone)?;
        made.push(alone);
        made.extend(packages(log, release, &PROGRAM, Some(target.arch), &files)?);
    }
    for module in [&MODULE, &CODEC] {
        let files = module_tree(release, module, &package::module_version()?, &sources)?;
        made.extend(packages(log, release, module, None, &files)?);
    }
    made.push(checksums(release, &made)?);
    Ok(made)
}

/// This machine's; says what would be better, where that is not the best.
fn own_target() -> Result<Target> {
    let (target, better) = program::target()?;
    if let Some(better) = better {
        println!("The program is {better}.");
    }
    Ok(target)
}

/// The program's .deb for a processor; if it cannot be built here, why.
pub fn make_program_deb(
    log: &Log,
    release: &Release,
    arch: Arch,
) -> Result<std::result::Result<PathBuf, Reason>> {
    let sources = source::tree(log, release, &release.work("source")?)?;
    let own = own_target()?;
    let products = release.work("products")?;
    let build = |target: &Target| program::build(log, release, &sources, target, &products);
    // What the program says of itself is asked of one that runs here.
    let speaks = build(&own)?;
    let (target, program) = match arch {
        Arch::Amd64 => (own, speaks.clone()),
        Arch::Arm64 => match program::arm64(log)? {
            Ok(target) => {
                let program = build(&target)?;
                (target, program)
            }
            Err(reason) => return Ok(Err(reason)),
        },
    };
    let bill = Bill::of(&sources, target.triple, &compiler()?)?;
    let tree = program_tree(release, &sources, arch, &program, &speaks, &bill)?;
    Ok(Ok(deb::make(log, release, &PROGRAM, Some(arch), &tree)?))
}

/// The .deb of the module's sources.
pub fn make_module_deb(log: &Log, release: &Release) -> Result<PathBuf> {
    let sources = source::tree(log, release, &release.work("source")?)?;
    let tree = module_tree(release, &MODULE, &release.version, &sources)?;
    deb::make(log, release, &MODULE, None, &tree)
}

/// The program's .deb again with another version, from the tree that was left.
pub fn make_program_deb_of(
    log: &Log,
    from: &Release,
    arch: Arch,
    version: &str,
    folder: &Path,
) -> Result<PathBuf> {
    let next = from.as_version(version, folder)?;
    let program = Tree::of(&from.work(&program_tree_name(arch))?)?;
    deb::make(log, &next, &PROGRAM, Some(arch), &program)
}

/// The packages for this machine again with another version, from the trees that [`make`]
/// left.
pub fn make_next(log: &Log, from: &Release, version: &str, folder: &Path) -> Result<()> {
    let next = from.as_version(version, folder)?;
    let program = Tree::of(&from.work(&program_tree_name(Arch::Amd64))?)?;
    packages(log, &next, &PROGRAM, Some(Arch::Amd64), &program)?;
    for module in [&MODULE, &CODEC] {
        let tree = module_tree(&next, module, version, &workspace::root())?;
        packages(log, &next, module, None, &tree)?;
    }
    Ok(())
}

/// For that processor, or for all.
fn packages(
    log: &Log,
    release: &Release,
    package: &Package,
    arch: Option<Arch>,
    tree: &Tree,
) -> Result<Vec<PathBuf>> {
    let mut made = Vec::new();
    match tools::is_on_path("dpkg-deb") {
        true => made.push(deb::make(log, release, package, arch, tree)?),
        false => println!("No .deb of {}: dpkg-deb is not installed.", package.name),
    }
    match tools::is_on_path("rpmbuild") {
        true => made.push(rpm::make(log, release, package, arch, tree)?),
        false => println!("No .rpm of {}: rpmbuild is not installed.", package.name),
    }
    Ok(made)
}

fn program_tree_name(arch: Arch) -> String {
    format!("tree-zmeld-{}", arch.debian())
}

fn program_tree(
    release: &Release,
    from: &Path,
    arch: Arch,
    program: &Path,
    speaks: &Path,
    bill: &Bill,
) -> Result<Tree> {
    const UNITS: &str = "/usr/lib/systemd";
    let mut tree = Tree::new(&release.work(&program_tree_name(arch))?)?;
    tree.program("/usr/bin/zmeld", &fs::read(program)?)?;
    let guard = program.with_file_name("zmeld-guard");
    tree.program("/usr/bin/zmeld-guard", &fs::read(guard)?)?;
    tree.link(
        &format!("{UNITS}/system-generators/zmeld-generator"),
        "../../../bin/zmeld",
    )?;
    let packaging = from.join("packaging");
    tree.folder(&format!("{UNITS}/system"), &packaging.join("systemd"))?;
    tree.file(
        "/usr/lib/sysusers.d/zmeld.conf",
        &fs::read(packaging.join("sysusers.conf"))?,
    )?;

    let says = |words: &[&str]| -> Result<Vec<u8>> {
        let output = Command::new(speaks).args(words).output()?;
        if !output.status.success() {
            bail!("zmeld {} fails", words.join(" "));
        }
        Ok(output.stdout)
    };
    for (name, page) in man_pages(&String::from_utf8(says(&["man"])?)?) {
        let path = format!("/usr/share/man/man1/{name}.1.gz");
        tree.file(&path, &gzip(page.as_bytes())?)?;
    }
    for (shell, path) in [
        ("bash", "bash-completion/completions/zmeld"),
        ("zsh", "zsh/vendor-completions/_zmeld"),
        ("zsh", "zsh/site-functions/_zmeld"),
        ("fish", "fish/vendor_completions.d/zmeld.fish"),
    ] {
        tree.file(
            &format!("/usr/share/{path}"),
            &says(&["completions", shell])?,
        )?;
    }

    const DOCS: &str = "/usr/share/doc/zmeld";
    tree.file(
        &format!("{DOCS}/README.md"),
        &fs::read(from.join("README.md"))?,
    )?;
    tree.folder(&format!("{DOCS}/docs"), &from.join("docs"))?;
    for folder in ["grafana", "kubernetes", "prometheus"] {
        tree.folder(&format!("{DOCS}/{folder}"), &packaging.join(folder))?;
    }
    tree.file(
        &format!("{DOCS}/examples/zmeld.toml"),
        &fs::read(packaging.join("zmeld.toml"))?,
    )?;
    copyright(&mut tree, DOCS, from)?;
    let changes = fs::read(from.join("CHANGELOG.md"))?;
    tree.file(&format!("{DOCS}/changelog.gz"), &gzip(&changes)?)?;
    let third = bill::text_of("GPL-3.0-only")?;
    tree.file(&format!("{DOCS}/GPL-3.0.gz"), &gzip(third.as_bytes())?)?;
    tree.file(
        &format!("{DOCS}/licences.gz"),
        &gzip(bill.licences()?.as_bytes())?,
    )?;
    tree.file(
        &format!("{DOCS}/zmeld.cdx.json"),
        bill.cyclonedx(release)?.as_bytes(),
    )?;
    Ok(tree)
}

/// What a module's package has, and the release's texts `from` its sources.
fn module_tree(release: &Release, package: &Package, version: &str, from: &Path) -> Result<Tree> {
    let dkms = package.dkms.context("no package of a module")?;
    let mut tree = Tree::new(&release.work(&format!("tree-{}", package.name))?)?;
    let sources = dkms.tree(&release.work("dkms")?, version)?;
    tree.folder(&format!("/usr/src/{}-{version}", dkms.module), &sources)?;
    let docs = format!("/usr/share/doc/{}", package.name);
    copyright(&mut tree, &docs, from)?;
    let changes = fs::read(from.join("CHANGELOG.md"))?;
    tree.file(&format!("{docs}/changelog.gz"), &gzip(&changes)?)?;
    for page in ["kernel-module.md", "secure-boot.md", "zword.md"] {
        tree.file(
            &format!("{docs}/{page}"),
            &fs::read(from.join("docs").join(page))?,
        )?;
    }
    if dkms.module == package::ZWORD.module {
        for (place, name) in [
            ("/usr/share/initramfs-tools/hooks/zword", "initramfs-tools"),
            (
                "/usr/lib/dracut/modules.d/90zword/module-setup.sh",
                "dracut",
            ),
        ] {
            let text = fs::read(from.join("packaging/initramfs").join(name))?;
            tree.program(place, &text)?;
        }
    }
    Ok(tree)
}

const COPYRIGHT: &str = "\
zmeld is free software under the GNU General Public License, version 2 or later: see
LICENSE.gz, and on Debian /usr/share/common-licenses/GPL-2.

Copyright: the zmeld developers.

Some of what is linked into the program is under the Apache License 2.0 alone, which goes
with version 3 of the GPL and not with version 2. So the program as a whole, in binary
form, is under version 3: see GPL-3.0.gz of the package zmeld, and on Debian
/usr/share/common-licenses/GPL-3. What is linked in, and under which licences, is in
licences.gz there.
";

/// `zmeld man` prints the page of zmeld and of each command, one after the other.
fn man_pages(text: &str) -> Vec<(String, String)> {
    const BEGIN: &str = ".ie \\n(.g";
    let pages = text.split(BEGIN).skip(1).filter_map(|page| {
        let (_, rest) = page.split_once(".TH ")?;
        let name = rest.split_whitespace().next()?;
        Some((name.to_owned(), format!("{BEGIN}{page}")))
    });
    pages.collect()
}

fn copyright(tree: &mut Tree, docs: &str, from: &Path) -> Result<()> {
    tree.file(&format!("{docs}/copyright"), COPYRIGHT.as_bytes())?;
    let licence = fs::read(from.join("LICENSE"))?;
    tree.file(&format!("{docs}/LICENSE.gz"), &gzip(&licence)?)
}

/// The same bytes each time: without a name and a time.
fn gzip(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut child = Command::new("gzip")
        .args(["-9", "-n", "-c"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot start gzip")?;
    let mut input = child.stdin.take().context("no input of gzip")?;
    let bytes = bytes.to_vec();
    let writer = std::thread::spawn(move || input.write_all(&bytes));
    let output = child.wait_with_output()?;
    let written = writer.join().is_ok_and(|written| written.is_ok());
    if !output.status.success() || !written {
        bail!("gzip fails");
    }
    Ok(output.stdout)
}

fn compiler() -> Result<String> {
    let output = Command::new("rustc")
        .current_dir(workspace::root())
        .arg("--version")
        .output()
        .context("cannot start rustc")?;
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.split(' ').nth(1).unwrap_or_default().trim().to_owned())
}

/// How Arch Linux builds it, with the archive's version and checksum.
fn arch_files(release: &Release, archive: &Path) -> Result<[PathBuf; 2]> {
    let output = Command::new("sha256sum")
        .arg(archive)
        .output()
        .context("cannot start sha256sum")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let sum = text.split(' ').next().unwrap_or_default();
    if !output.status.success() || sum.len() != 64 {
        bail!("sha256sum fails");
    }
    let from = workspace::root().join("packaging/arch");
    let text = fs::read_to_string(from.join("PKGBUILD"))?
        .replace("@VERSION@", &release.version)
        .replace("@SHA256@", sum);
    let build = release.folder.join("PKGBUILD");
    fs::write(&build, text)?;
    let scripts = release.folder.join("zmeld.install");
    fs::copy(from.join("zmeld.install"), &scripts)?;
    Ok([build, scripts])
}

fn checksums(release: &Release, made: &[PathBuf]) -> Result<PathBuf> {
    let mut names: Vec<_> = made.iter().filter_map(|path| path.file_name()).collect();
    names.sort();
    let output = Command::new("sha256sum")
        .current_dir(&release.folder)
        .args(names)
        .output()
        .context("cannot start sha256sum")?;
    if !output.status.success() {
        bail!("sha256sum fails");
    }
    let place = release.folder.join("SHA256SUMS");
    fs::write(&place, output.stdout)?;
    Ok(place)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_command_has_a_man_page_of_its_own() {
        let text = ".ie \\n(.g x\n.TH zmeld 1  \"zmeld\"\na\n.ie \\n(.g x\n.TH zmeld-up 1 \nb\n";
        let pages = man_pages(text);
        assert_eq!(pages.len(), 2);
        assert_eq!(pages[1].0, "zmeld-up");
        assert_eq!(pages[0].1.clone() + &pages[1].1, text);
    }

    #[test]
    fn program_and_module_have_one_version() {
        assert_eq!(
            package::module_version().unwrap(),
            env!("CARGO_PKG_VERSION")
        );
    }

    #[test]
    fn the_changelog_begins_with_this_version() {
        let text = fs::read_to_string(workspace::root().join("CHANGELOG.md")).unwrap();
        let first = text.lines().find(|line| line.starts_with("## ")).unwrap();
        assert!(first.contains(env!("CARGO_PKG_VERSION")), "{first}");
    }

    #[test]
    fn a_package_for_arch_is_made_of_the_archive() {
        let release = Release {
            version: "1.2.3".into(),
            epoch: 1,
            folder: workspace::work_folder("unit/arch").unwrap(),
        };
        let archive = release.folder.join("archive");
        fs::write(&archive, "x").unwrap();
        let [build, scripts] = arch_files(&release, &archive).unwrap();
        // What makepkg reads first, by the shell that it is written in.
        let script = "set -e; bash -n \"$2\"; . \"$1\"; \
            declare -F build package_zmeld package_zmeld-dkms package_zword-dkms >/dev/null; \
            echo \"$pkgver ${source[0]} ${sha256sums[0]}\"";
        let output = Command::new("bash")
            .args(["-c", script, "bash"])
            .args([&build, &scripts])
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let sum = "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881";
        assert_eq!(said.trim(), format!("1.2.3 zmeld-1.2.3.tar.xz {sum}"));
    }

    /// Without nixpkgs: what it would be given is made up, so that names and paths of
    /// ours are all that is tried.
    #[test]
    fn the_flake_names_what_there_is() {
        if !tools::is_on_path("nix-instantiate") {
            return;
        }
        let expression = r#"
            let
              system = { callPackage = path: _: builtins.isFunction (import path); };
              nixpkgs = {
                legacyPackages = { x86_64-linux = system; aarch64-linux = system; };
                lib.genAttrs = names: of: builtins.listToAttrs
                  (map (name: { inherit name; value = of name; }) names);
              };
              made = (import ./flake.nix).outputs { self = { }; inherit nixpkgs; };
            in
            made.packages.x86_64-linux.default && made.packages.aarch64-linux.zmeld
              && builtins.isFunction (import made.nixosModules.default)
              && builtins.isFunction (import ./packaging/nix/kernel-module.nix)
        "#;
        let output = Command::new("nix-instantiate")
            .current_dir(workspace::root())
            .args(["--eval", "--expr", expression])
            .env("NIX_STATE_DIR", workspace::work_folder("unit/nix").unwrap())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(said.trim(), "true", "{error}");
    }

    #[test]
    fn scripts_of_packages_are_sound() {
        for name in ["zmeld", "dkms"] {
            for script in ["postinst", "prerm"] {
                let path = format!("packaging/debian/{name}.{script}");
                let path = workspace::root().join(path);
                let checked = Command::new("sh").arg("-n").arg(&path).status().unwrap();
                assert!(checked.success(), "{}", path.display());
            }
        }
    }
}
