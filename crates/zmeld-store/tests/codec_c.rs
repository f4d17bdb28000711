//! Runs `store/tests/codec.c`, the C test of the codecs: against the library
//! as it is built, and once more with our C compiled anew under the address
//! and undefined-behaviour sanitizers. Without a C compiler that has them, the
//! second says so and passes.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

struct Program {
    built: PathBuf,
}

impl Program {
    /// Compiles and links, or gives back what the compiler said.
    fn build(name: &str, sanitized: bool) -> Result<Program, String> {
        let store = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../store");
        let built = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let compiler = env::var_os("CC").unwrap_or_else(|| "cc".into());
        let mut command = Command::new(compiler);
        command.args(["-std=gnu11", "-g", "-O1", "-Wall", "-Wextra"]);
        command.arg(concat!("-DZM_PAGE_SHIFT=", env!("ZMELD_C_PAGE_SHIFT")));
        for include in env::split_paths(env!("ZMELD_C_INCLUDES")) {
            command.arg("-I").arg(include);
        }
        command.arg(store.join("tests/codec.c"));
        if sanitized {
            command.arg("-fsanitize=address,undefined");
            command.arg("-fno-sanitize-recover=all");
            command.args(codec_sources(&store));
        }
        for library in env::split_paths(env!("ZMELD_C_LIBRARIES")) {
            command.arg("-L").arg(library);
        }
        if !sanitized {
            command.arg("-lzmeld_store");
        }
        command.args(["-l:liblz4.a", "-l:libzstd.a", "-l:libz.a", "-lpthread"]);
        if Path::new("/usr/include/lzo/lzo1x.h").exists() {
            command.args(["-DTEST_LIBLZO2", "-llzo2"]);
        }
        command.arg("-o").arg(&built);
        let output = command.output().map_err(|error| error.to_string())?;
        if output.status.success() {
            Ok(Program { built })
        } else {
            Err(String::from_utf8_lossy(&output.stderr).into_owned())
        }
    }

    fn run(&self) -> Output {
        let seed = env::var("ZMELD_SEED").unwrap_or_else(|_| "1".to_owned());
        Command::new(&self.built)
            .arg(seed)
            .arg(env::current_exe().expect("the test has a file"))
            .output()
            .expect("the program that was just built can be run")
    }
}

fn codec_sources(store: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(store.join("port/user"))
        .expect("the port's folder can be read")
        .map(|entry| entry.expect("the port's folder can be read").path())
        .filter(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with("codec") && name.ends_with(".c")
        })
        .collect()
}

fn assert_passed(output: &Output) {
    let said = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}{errors}");
    print!("{said}");
}

#[test]
fn the_library_keeps_the_codec_contract() {
    match Program::build("codec", false) {
        Ok(program) => assert_passed(&program.run()),
        Err(said) => panic!("store/tests/codec.c does not compile:\n{said}"),
    }
}

#[test]
fn our_c_is_clean_under_the_sanitizers() {
    match Program::build("codec_sanitized", true) {
        Ok(program) => assert_passed(&program.run()),
        Err(said) if said.contains("asan") || said.contains("sanitize") => {
            eprintln!("SKIP: the C compiler has no sanitizers here: {said}");
        }
        Err(said) => panic!("store/tests/codec.c does not compile:\n{said}"),
    }
}
