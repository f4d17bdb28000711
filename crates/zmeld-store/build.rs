//! Builds the store's C sources for user space: `store/core`, `store/zword`, and
//! `store/port/user` on top of the codec libraries that Cargo built.
//!
//! `ZMELD_PAGE_SHIFT` (12 to 16) chooses the page size of the store itself, for its tests; 4 KiB
//! without it. Measuring pages of other sizes needs no other build.

use std::env;
use std::path::{Path, PathBuf};

fn main() {
    let store = Path::new(&required("CARGO_MANIFEST_DIR")).join("../../store");
    let store = store.canonicalize().unwrap_or(store);
    let includes = [
        store.join("include"),
        store.join("port/user"),
        store.join("zword"),
        PathBuf::from(required("DEP_LZ4_INCLUDE")),
        PathBuf::from(required("DEP_ZSTD_INCLUDE")),
        PathBuf::from(required("DEP_Z_INCLUDE")),
    ];
    let page_shift = page_shift();

    let core = sources(&store.join("core"));
    let zword = sources(&store.join("zword"));
    let port = sources(&store.join("port/user"));
    let compiler = || {
        let mut build = cc::Build::new();
        build
            .std("gnu11")
            .opt_level(2)
            .warnings(true)
            .extra_warnings(true)
            .define("ZM_PAGE_SHIFT", page_shift.as_str());
        build
    };

    // One archive: the core calls the port and the port calls the core.
    let objects = compiler()
        .includes(&includes[..2])
        .files(&core)
        .compile_intermediates();
    compiler()
        // A codec of pages has no vector registers in the kernel.
        .flag_if_supported("-fno-tree-vectorize")
        .objects(&objects)
        .includes(&includes)
        .files(&zword)
        .files(&port)
        .compile("zmeld_store");

    // Cargo looks through a folder that it is told to watch, new files included.
    for folder in ["core", "zword", "port/user", "include"] {
        let folder = store.join(folder);
        println!("cargo:rerun-if-changed={}", folder.display());
    }
    println!("cargo:rerun-if-env-changed=ZMELD_PAGE_SHIFT");
    println!("cargo:rerun-if-changed=build.rs");
    tell_c_tests(&includes, &page_shift, &objects);
}

/// Includes and libraries of C programs for `cargo xtask test`, and the core's objects, whose
/// symbols it looks at.
fn tell_c_tests(includes: &[PathBuf], page_shift: &str, core: &[PathBuf]) {
    let out = PathBuf::from(required("OUT_DIR"));
    let includes = env::join_paths(includes).expect("an include path holds a separator");
    let libraries = [
        out,
        PathBuf::from(required("DEP_LZ4_ROOT")),
        PathBuf::from(required("DEP_ZSTD_ROOT")),
        PathBuf::from(required("DEP_Z_ROOT")).join("lib"),
    ];
    let libraries = env::join_paths(libraries).expect("a library path holds a separator");
    println!(
        "cargo:rustc-env=ZMELD_C_INCLUDES={}",
        includes.to_string_lossy()
    );
    println!(
        "cargo:rustc-env=ZMELD_C_LIBRARIES={}",
        libraries.to_string_lossy()
    );
    println!("cargo:rustc-env=ZMELD_C_PAGE_SHIFT={page_shift}");
    let core = env::join_paths(core).expect("an object's path holds a separator");
    println!(
        "cargo:rustc-env=ZMELD_C_CORE_OBJECTS={}",
        core.to_string_lossy()
    );
}

fn page_shift() -> String {
    let Ok(given) = env::var("ZMELD_PAGE_SHIFT") else {
        return "12".to_owned();
    };
    match given.parse::<u32>() {
        Ok(shift @ 12..=16) => shift.to_string(),
        _ => panic!("ZMELD_PAGE_SHIFT is {given}; it must be a number from 12 to 16"),
    }
}

fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder)
        .expect("the folder is there")
        .map(|entry| entry.expect("the folder can be read").path())
        .filter(|path| path.extension().is_some_and(|ext| ext == "c"))
        .collect();
    files.sort();
    files
}

fn required(name: &str) -> String {
    env::var(name)
        .unwrap_or_else(|_| panic!("{name} is not set: is its library's build script gone?"))
}
