//! `cargo xtask dist`: what a stranger installs. Everything is made from the commit,
//! and is the same bytes when it is made again by the same compilers.

mod deb;
mod licences;
pub mod program;
mod release;
pub mod repository;
mod rpm;
pub mod source;
mod tree;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{bail, Context, Result};

use crate::module_build::{ZMELD, ZWORD};
use crate::process::{output_of, reason, Log};
use crate::recipes::Arch;
use crate::tools;
use crate::workspace;
use program::Target;
pub use release::Release;
use release::{checksums, git, Package};
use repository::Signer;
use tree::Tree;

/// Make under target/dist what is released, from the last commit
///
/// The source archive with all crates, static programs for x86-64 and arm64, packages of them and
/// of the kernel modules' sources (.deb, .rpm), and SHA256SUMS. Parts that this machine cannot make
/// are named and left out. The same commit and compilers give the same bytes.
#[derive(clap::Args)]
pub struct Options {
    /// Sign SHA256SUMS and the .rpm with this key of gpg's, and lay out signed repositories for
    /// apt and dnf in target/dist/repository
    #[arg(long, value_name = "KEY")]
    sign: Option<String>,
}

const PROGRAM: Package = Package {
    name: "zmeld",
    dkms: None,
};

const MODULE: Package = Package {
    name: "zmeld-dkms",
    dkms: Some(&ZMELD),
};

const CODEC: Package = Package {
    name: "zword-dkms",
    dkms: Some(&ZWORD),
};

impl Release {
    /// File tree of the program's package.
    fn program_tree(&self, arch: Arch) -> Result<Tree> {
        let root = self.work(&format!("tree-zmeld-{}", arch.debian()))?;
        Ok(Tree { root })
    }
}

pub fn run(options: &Options) -> Result<ExitCode> {
    let release = Release::of_commit(&workspace::target().join("dist"))?;
    let log = Log::named("dist")?;
    let signer = options.sign.as_deref();
    let signer = signer.map(|key| Signer::new(&log, key, None)).transpose()?;
    if !git(&["status", "--porcelain"])?.is_empty() {
        bail!("there are changes that are not committed: packages are made from a commit");
    }
    let made = make(&log, &release)?;
    let signed = match &signer {
        Some(signer) => repository::make(&log, &release, &made, signer)?,
        None => Vec::new(),
    };
    for path in made.iter().chain(&signed) {
        let about = fs::metadata(path)?;
        let size = match about.is_dir() {
            true => "folder".to_owned(),
            false => format!("{} KiB", about.len().div_ceil(1024)),
        };
        println!("{size:>14}  {}", workspace::shown(path));
    }
    if signer.is_some() {
        print!("\n{}", repository::LINES);
    }
    Ok(ExitCode::SUCCESS)
}

/// Makes everything that can be made here; the paths of what was.
pub fn make(log: &Log, release: &Release) -> Result<Vec<PathBuf>> {
    let sources = source::tree(log, release, &release.work("source")?)?;
    let archive = release.folder.join(format!("{}.tar.xz", release.name()));
    source::pack(log, release, &sources, &archive)?;
    let mut made = arch_files(release, &archive)?.to_vec();
    made.push(archive);
    for arch in [Arch::Amd64, Arch::Arm64] {
        let program = match make_program(log, release, &sources, arch) {
            Err(error) if reason(&error).is_some() => {
                println!("Nothing for {}: {error}.", arch.debian());
                continue;
            }
            program => program?,
        };
        let machine = program::machine(arch);
        let name = format!("{}-{machine}", release.name());
        let alone = release.folder.join(name);
        fs::copy(&program.file, &alone)?;
        made.push(alone);
        made.extend(packages(log, release, &PROGRAM, Some(arch), &program.tree)?);
    }
    for module in [&MODULE, &CODEC] {
        let files = module_tree(release, module, &release.version, &sources)?;
        made.extend(packages(log, release, module, None, &files)?);
    }
    made.push(checksums(release, &made)?);
    Ok(made)
}

/// A program, and the files of its package.
struct Program {
    file: PathBuf,
    tree: Tree,
}

fn make_program(log: &Log, release: &Release, sources: &Path, arch: Arch) -> Result<Program> {
    let products = release.work("products")?;
    let build = |target: &Target| program::build(log, release, sources, target, &products);
    let own = program::target()?;
    let target = match arch {
        Arch::Arm64 => program::arm64(log)?,
        Arch::Amd64 => own.clone(),
    };
    let file = build(&target)?;
    let licences = licences::linked_in(sources, target.triple)?;
    // The program's own texts are asked of one that runs here.
    let tree = program_tree(release, sources, arch, &file, &build(&own)?, licences)?;
    Ok(Program { file, tree })
}

/// The program's .deb, and where it is wanted the same as another version in `folder`, from
/// the tree that the first one left.
pub fn program_debs(
    log: &Log,
    release: &Release,
    arch: Arch,
    again: Option<(&str, &Path)>,
) -> Result<Vec<PathBuf>> {
    let sources = source::tree(log, release, &release.work("source")?)?;
    let tree = make_program(log, release, &sources, arch)?.tree;
    let mut made = vec![deb::make(log, release, &PROGRAM, Some(arch), &tree)?];
    if let Some((version, folder)) = again {
        let next = release.as_version(version, folder)?;
        made.push(deb::make(log, &next, &PROGRAM, Some(arch), &tree)?);
    }
    Ok(made)
}

pub fn module_deb(log: &Log, release: &Release) -> Result<PathBuf> {
    let tree = module_tree(release, &MODULE, &release.version, &workspace::root())?;
    deb::make(log, release, &MODULE, None, &tree)
}

/// The packages for this machine again with another version, from the trees that [`make`]
/// left.
pub fn make_next(
    log: &Log,
    from: &Release,
    version: &str,
    folder: &Path,
) -> Result<(Release, Vec<PathBuf>)> {
    let next = from.as_version(version, folder)?;
    let arch = Arch::Amd64;
    let mut made = packages(log, &next, &PROGRAM, Some(arch), &from.program_tree(arch)?)?;
    for module in [&MODULE, &CODEC] {
        let tree = module_tree(&next, module, version, &workspace::root())?;
        made.extend(packages(log, &next, module, None, &tree)?);
    }
    Ok((next, made))
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

fn program_tree(
    release: &Release,
    from: &Path,
    arch: Arch,
    program: &Path,
    speaks: &Path,
    licences: String,
) -> Result<Tree> {
    const UNITS: &str = "/usr/lib/systemd";
    let tree = Tree::new(&release.program_tree(arch)?.root)?;
    tree.program("/usr/bin/zmeld", fs::read(program)?)?;
    let guard = program.with_file_name("zmeld-guard");
    tree.program("/usr/bin/zmeld-guard", fs::read(guard)?)?;
    let generator = format!("{UNITS}/system-generators/zmeld-generator");
    tree.link(&generator, "../../../bin/zmeld")?;
    let packaging = from.join("packaging");
    tree.copy(&format!("{UNITS}/system"), &packaging.join("systemd"))?;
    tree.copy(
        "/usr/lib/sysusers.d/zmeld.conf",
        &packaging.join("sysusers.conf"),
    )?;

    let says = |words: &[&str]| output_of(Command::new(speaks).args(words)).map(|it| it + "\n");
    for (name, page) in man_pages(&says(&["man"])?) {
        let path = format!("/usr/share/man/man1/{name}.1.gz");
        tree.file(&path, gzip(page)?)?;
    }
    for (shell, path) in [
        ("bash", "bash-completion/completions/zmeld"),
        ("zsh", "zsh/vendor-completions/_zmeld"),
        ("zsh", "zsh/site-functions/_zmeld"),
        ("fish", "fish/vendor_completions.d/zmeld.fish"),
    ] {
        tree.file(
            &format!("/usr/share/{path}"),
            says(&["completions", shell])?,
        )?;
    }

    const DOCS: &str = "/usr/share/doc/zmeld";
    tree.copy(&format!("{DOCS}/README.md"), &from.join("README.md"))?;
    tree.copy(&format!("{DOCS}/docs"), &from.join("docs"))?;
    for folder in ["grafana", "kubernetes", "prometheus"] {
        tree.copy(&format!("{DOCS}/{folder}"), &packaging.join(folder))?;
    }
    let example = format!("{DOCS}/examples/zmeld.toml");
    tree.copy(&example, &packaging.join("zmeld.toml"))?;
    texts(&tree, DOCS, from)?;
    let third = licences::text_of("GPL-3.0-only")?;
    tree.file(&format!("{DOCS}/GPL-3.0.gz"), gzip(third)?)?;
    tree.file(&format!("{DOCS}/licences.gz"), gzip(licences)?)?;
    Ok(tree)
}

/// Files of a module's package, and the release's texts `from` its sources.
fn module_tree(release: &Release, package: &Package, version: &str, from: &Path) -> Result<Tree> {
    let dkms = package.dkms.context("no package of a module")?;
    let tree = Tree::new(&release.work(&format!("tree-{}", package.name))?)?;
    let sources = dkms.tree(&release.work("dkms")?, version)?;
    tree.copy(&format!("/usr/src/{}-{version}", dkms.name), &sources)?;
    let docs = format!("/usr/share/doc/{}", package.name);
    texts(&tree, &docs, from)?;
    for page in ["kernel-module.md", "secure-boot.md", "zword.md"] {
        tree.copy(&format!("{docs}/{page}"), &from.join("docs").join(page))?;
    }
    if dkms.name == ZWORD.name {
        let hooks = from.join("packaging/initramfs");
        for (place, name) in [
            ("share/initramfs-tools/hooks/zword", "initramfs-tools"),
            ("lib/dracut/modules.d/90zword/module-setup.sh", "dracut"),
        ] {
            tree.program(&format!("/usr/{place}"), fs::read(hooks.join(name))?)?;
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

fn texts(tree: &Tree, docs: &str, from: &Path) -> Result<()> {
    tree.file(&format!("{docs}/copyright"), COPYRIGHT)?;
    for (name, file) in [("LICENSE", "LICENSE"), ("changelog", "CHANGELOG.md")] {
        let text = fs::read(from.join(file))?;
        tree.file(&format!("{docs}/{name}.gz"), gzip(text)?)?;
    }
    Ok(())
}

/// The same bytes each time: without a name and a time.
fn gzip(bytes: impl AsRef<[u8]>) -> Result<Vec<u8>> {
    let place = workspace::work_folder("dist")?.join("packed");
    fs::write(&place, bytes)?;
    let mut gzip = Command::new("gzip");
    let packed = gzip.args(["-9", "-n", "-c"]).stdin(fs::File::open(&place)?);
    let output = packed.stderr(Stdio::inherit()).output();
    let output = output.context("cannot start gzip")?;
    anyhow::ensure!(output.status.success(), "gzip fails");
    Ok(output.stdout)
}

/// How Arch Linux builds it, with the archive's version and checksum.
fn arch_files(release: &Release, archive: &Path) -> Result<[PathBuf; 2]> {
    let text = output_of(Command::new("sha256sum").arg(archive))?;
    let sum = text.split(' ').next().unwrap_or_default();
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::package;

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
        // The part that makepkg reads first, by the shell that it is written in.
        let script = "set -e; bash -n \"$2\"; . \"$1\"; \
            declare -F build package_zmeld package_zmeld-dkms package_zword-dkms >/dev/null; \
            echo \"$pkgver ${source[0]} ${sha256sums[0]}\"";
        let mut bash = Command::new("bash");
        bash.args(["-c", script, "bash"]).args([&build, &scripts]);
        let said = output_of(&mut bash).unwrap();
        let sum = "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881";
        assert_eq!(said, format!("1.2.3 zmeld-1.2.3.tar.xz {sum}"));
    }

    /// Sources, and packages of sources, are under version 2 of the GPL or later; what has the
    /// linked program is under version 3 or later (docs/packages.md).
    #[test]
    fn every_package_says_the_licence_of_what_is_in_it() {
        const SOURCES: &str = "GPL-2.0-or-later";
        const LINKED: &str = "GPL-3.0-or-later";
        let fields = [
            ("Cargo.toml", "license = ", vec![SOURCES]),
            ("fleet/pyproject.toml", "license = ", vec![SOURCES]),
            ("packaging/rpm/dkms.spec", "License:", vec![SOURCES]),
            ("packaging/rpm/zmeld.spec", "License:", vec![LINKED]),
            // All of them, and of the program alone.
            ("packaging/arch/PKGBUILD", "license=", vec![SOURCES, LINKED]),
            (
                "packaging/nix/kernel-module.nix",
                "license =",
                vec!["lib.licenses.gpl2Plus"],
            ),
            (
                "packaging/nix/package.nix",
                "license =",
                vec!["lib.licenses.gpl3Plus"],
            ),
            (
                "packaging/kubernetes/Containerfile",
                "org.opencontainers.image.licenses=",
                vec![LINKED],
            ),
        ];
        for (file, field, licences) in fields {
            let text = fs::read_to_string(workspace::root().join(file)).unwrap();
            let said = text
                .lines()
                .filter_map(|line| line.trim().strip_prefix(field));
            let bare = |it: &str| it.trim_matches(|c| " \"();".contains(c)).to_owned();
            assert_eq!(Vec::from_iter(said.map(bare)), licences, "{file}");
        }
        for entry in fs::read_dir(workspace::root().join("crates")).unwrap() {
            let manifest = entry.unwrap().path().join("Cargo.toml");
            let text = fs::read_to_string(&manifest).unwrap();
            assert!(
                text.contains("\nlicense.workspace = true\n"),
                "{manifest:?}"
            );
        }
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
        let mut nix = Command::new("nix-instantiate");
        nix.current_dir(workspace::root());
        nix.args(["--eval", "--expr", expression]);
        nix.env("NIX_STATE_DIR", workspace::work_folder("unit/nix").unwrap());
        assert_eq!(output_of(&mut nix).unwrap(), "true");
    }
}
