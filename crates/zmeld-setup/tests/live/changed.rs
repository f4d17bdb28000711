//! What the kernel changes while a device is swapped to is changed in place, with pages in
//! the device.

use std::fs;
use std::process::Command;
use std::time::Duration;

use zmeld_config::Config;
use zmeld_linux::Host;

use crate::{config, down, turn, up};

/// Has 96 MiB, gives them to swap, and waits. 21 is `MADV_PAGEOUT`.
const PROGRAM: &str = "import mmap, os, time\n\
                       m = mmap.mmap(-1, 96 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)\n\
                       m.write(os.urandom(96 << 20))\n\
                       m.madvise(21)\n\
                       time.sleep(600)";

/// The machine is left as it was, whatever the test finds.
struct Scratch(Option<std::process::Child>);

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
        let _ = down();
    }
}

fn limited(limit: &str) -> Config {
    config(&format!(
        "accept = [\"second-device\"]\n[tier.fast]\nkind = \"zram\"\nsize = \"512MiB\"\n\
         memory_limit = \"{limit}\"\n"
    ))
}

/// The limit of the device, and the bytes that are stored in it.
fn limit_and_stored(device: &str) -> (u64, u64) {
    let stat = fs::read_to_string(format!("/sys/block/{device}/mm_stat")).unwrap();
    let field = |at: usize| stat.split_whitespace().nth(at).unwrap().parse().unwrap();
    (field(3), field(0))
}

#[test]
fn a_limit_is_changed_with_pages_in_the_device() {
    let Some(_turn) = turn(&["/sys/class/zram-control/hot_add"]) else {
        return;
    };
    let mut scratch = Scratch(None);
    up(&limited("256MiB")).unwrap();
    let applied = zmeld_setup::applied::read(&Host::here()).unwrap().unwrap();
    let device = applied.tier("fast").unwrap().device.clone().unwrap();
    let program = Command::new("python3").args(["-c", PROGRAM]).spawn();
    scratch.0 = Some(program.unwrap());
    let begin = std::time::Instant::now();
    while limit_and_stored(&device).1 < 72 << 20 {
        assert!(begin.elapsed() < Duration::from_secs(60), "no pages come");
        std::thread::sleep(Duration::from_millis(100));
    }
    let report = up(&limited("384MiB")).unwrap();
    let steps: Vec<&str> = report.applied.iter().map(|it| it.step.as_str()).collect();
    assert_eq!(steps, [format!("set its mem_limit to {}", 384_u64 << 20)]);
    assert!(report.undone.is_empty(), "{:?}", report.undone);
    let (limit, stored) = limit_and_stored(&device);
    assert_eq!(limit, 384 << 20);
    assert!(stored >= 64 << 20, "{stored} bytes are left in it");
    // By hand.
    fs::write(format!("/sys/block/{device}/mem_limit"), "4M").unwrap();
    let report = up(&limited("384MiB")).unwrap();
    assert_eq!((report.applied.len(), report.undone.len()), (1, 0));
    assert_eq!(limit_and_stored(&device).0, 384 << 20);
}
