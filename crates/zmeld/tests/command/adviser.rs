//! What a scan of other memory than this machine's advises.

use crate::run::{code, folder, run, str, text, write};

#[test]
fn a_scan_of_other_memory_says_how_to_set_up_just_that() {
    // What is swapped to by another test would count.
    let _alone = crate::setup::alone();
    let folder = folder();
    // 20 MB of text that compresses, no page like another.
    let mut random = crate::run::Random(5);
    let pages: Vec<u8> = (0..5000)
        .flat_map(|_| crate::run::text_page(&mut random))
        .collect();
    let path = write(folder.path(), "pages", &pages);
    let output = run(&["scan", "--file", str(&path), "--codecs", "lz4"]);
    assert_eq!(code(&output), 0, "{}", text(&output.stderr));
    let out = text(&output.stdout);
    assert!(out.contains("zmeld up --tier zram --size"), "{out}");
    assert!(!out.contains("echo ") && !out.contains("modprobe"), "{out}");
    // A handful of them says nothing of a size.
    let few = write(folder.path(), "few", &pages[..68 * 4096]);
    let out = text(&run(&["scan", "--file", str(&few)]).stdout);
    assert!(out.contains("Too little to go by"), "{out}");
    assert!(
        !out.contains("Disk size ") && !out.contains("zmeld up"),
        "{out}"
    );
}
