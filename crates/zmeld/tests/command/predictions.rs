//! A scan predicts the memory that a store, and a device, then takes: zram, or with
//! `ZMELD_TEST_DRIVER=zmeld` the kernel module, melded pages included.

use std::os::unix::fs::FileExt;

use serde_json::Value;
use zmeld_store::{Codec, MeldMode, Store, SHARE_BYTES};
use zmeld_tests::{mixed, zram};

use crate::run::*;

const CODECS: &str = "lzo,lzo-rle,lz4,zstd";

#[test]
fn a_store_takes_what_was_predicted() {
    let folder = folder();
    let known = known_pages();
    let path = write(folder.path(), "pages", &known.bytes);
    let scan = ["scan", "--file", str(&path), "--codecs", CODECS];
    let found = json(&[&scan[..], &["--full", "--json"]].concat());
    if found["pool_chain"] != 8 {
        eprintln!("SKIP: this kernel's pool is another than the store's");
        return;
    }
    let pages = &found["pages"];
    for (name, count) in [
        ("zero", known.zero),
        ("same_filled", known.same_filled),
        ("unique", known.unique),
        ("duplicate", known.duplicate),
    ] {
        assert_eq!(pages[name], count, "{name}");
    }
    for codec in found["codecs"].as_array().unwrap() {
        // Random pages do not compress; text does.
        assert_eq!(codec["incompressible_pages"], 67);
        let name = codec["codec"].as_str().unwrap();
        let pages = known.bytes.chunks_exact(PAGE);
        let compressor = Codec::new(name, None).unwrap();
        let store = Store::new(pages.len() as u64, MeldMode::Manual, &compressor).unwrap();
        for (at, page) in pages.enumerate() {
            store.write(at as u64, page).unwrap();
        }
        let stats = store.stats();
        assert_eq!(codec["compressed_bytes"], stats.bytes_compressed, "{name}");
        assert_eq!(codec["memory_used_bytes"], stats.memory_used, "{name}");
        store.meld().unwrap();
        store.compact();
        let stats = store.stats();
        assert_eq!(
            codec["melded_compressed_bytes"], stats.bytes_compressed,
            "{name}"
        );
        let predicted = codec["melded_memory_used_bytes"].as_u64().unwrap();
        // Compaction leaves at most one span of a class partly empty, as predicted.
        let shares = stats.shares * SHARE_BYTES;
        assert!(shares > 0, "{name}");
        assert_eq!(predicted, stats.memory_used + shares, "{name}");
    }
}

/// This machine's programs, libraries and texts, zeros, repeated words, noise and
/// copies: what swap is given, about 100 MiB.
fn mixed_pages() -> Vec<u8> {
    const TENTH: usize = 10 << 20;
    let folders = [
        ("/usr/lib/x86_64-linux-gnu", 3 * TENTH),
        ("/usr/lib", 6 * TENTH),
        ("/usr/bin", 9 * TENTH),
        ("/usr/share/perl5", 9 * TENTH),
        ("/etc", 9 * TENTH),
    ];
    let mut bytes = mixed::files(&folders, 6 << 20, PAGE);
    let mut random = Random(99);
    let own = bytes.len() / PAGE;
    for _ in 0..own / 40 {
        bytes.extend_from_slice(&[0; PAGE]);
        bytes.extend(random.number().to_ne_bytes().repeat(PAGE / 8));
        bytes.extend(noise_page(&mut random));
        let copied = (random.number() >> 33) as usize % own * PAGE;
        bytes.extend_from_within(copied..copied + PAGE);
    }
    bytes
}

/// Memory that direct output can use.
fn aligned(pages: &[u8]) -> (Vec<u8>, usize) {
    let mut memory = vec![0; pages.len() + PAGE];
    let start = memory.as_ptr().addr().next_multiple_of(PAGE) - memory.as_ptr().addr();
    memory[start..start + pages.len()].copy_from_slice(pages);
    (memory, start)
}

#[test]
fn a_device_takes_what_was_predicted() {
    let device = match zram::Device::add() {
        Ok(device) => device,
        Err(reason) => {
            eprintln!("SKIP: {reason}");
            return;
        }
    };
    let offered = device.algorithms().expect("comp_algorithm can be read");
    let codecs: Vec<&str> = zmeld_store::codec::codecs()
        .into_iter()
        .map(|codec| codec.name)
        .filter(|codec| offered.iter().any(|name| name == codec))
        .collect();
    if codecs.is_empty() {
        eprintln!("SKIP: this kernel offers none of our codecs: {offered:?}");
        return;
    }
    let folder = folder();
    let bytes = mixed_pages();
    let path = write(folder.path(), "pages", &bytes);
    let found = json(&[
        "scan",
        "--file",
        str(&path),
        "--raw",
        "--codecs",
        &codecs.join(","),
        "--full",
        "--json",
    ]);
    let (memory, start) = aligned(&bytes);
    for (codec, predicted) in codecs.iter().zip(found["codecs"].as_array().unwrap()) {
        fill(&device, codec, &memory[start..start + bytes.len()]);
        // The kernel's lzo is followed to the byte.
        let off = if codec.starts_with("lzo") { 0.0 } else { 0.005 };
        let stat = device.mm_stat();
        check(predicted, "compressed_bytes", stat.compressed_bytes, off);
        check(predicted, "memory_used_bytes", stat.memory_used_bytes, 0.01);
        if device.melds() {
            device.set("meld", "start").unwrap();
            device.set("compact", "1").unwrap();
            let stat = device.mm_stat();
            let (bytes, memory) = (stat.compressed_bytes, stat.memory_used_bytes);
            check(predicted, "melded_compressed_bytes", bytes, 0.005);
            check(predicted, "melded_memory_used_bytes", memory, 0.01);
        }
    }
}

fn fill(device: &zram::Device, codec: &str, bytes: &[u8]) {
    device.set("reset", "1").unwrap();
    device.set("comp_algorithm", codec).unwrap();
    if device.melds() {
        device.set("meld_mode", "manual").unwrap();
    }
    device.set("disksize", &bytes.len().to_string()).unwrap();
    let file = device.open().unwrap();
    for (at, chunk) in bytes.chunks(1 << 20).enumerate() {
        file.write_all_at(chunk, (at << 20) as u64).unwrap();
    }
}

fn check(predicted: &Value, field: &str, taken: u64, tolerance: f64) {
    let predicted_bytes = predicted[field].as_u64().unwrap();
    let off = predicted_bytes as f64 / taken as f64 - 1.0;
    let codec = &predicted["codec"];
    eprintln!(
        "{codec}: {field} {predicted_bytes}, device {taken}: {:+.4} %",
        100.0 * off
    );
    assert!(
        off.abs() <= tolerance,
        "{codec}: {field} {predicted_bytes}, device {taken}"
    );
}

/// The sentence at the head of a scan, its table and its JSON have one size and one ratio, and
/// `zmeld codecs` predicts the same memory.
#[test]
fn a_scan_gives_one_size_and_one_ratio_for_a_codec() {
    let folder = folder();
    let pages = write(folder.path(), "pages", &known_pages().bytes);
    let scan = ["scan", "--file", str(&pages), "--codecs", "lz4", "--full"];
    let out = text(&run(&scan).stdout);
    let words: Vec<&str> = out.split_whitespace().collect();
    let at = words.windows(2).position(|it| it == ["would", "take"]);
    let at = at.expect("a sentence on what they would take") + 2;
    let size = words[at..at + 2].join(" ");
    let row = out.lines().find(|line| line.starts_with("lz4 "));
    let row = row.expect("a row of the codec");
    assert!(row.contains(&size), "{size}: {row}");
    let codecs = text(&run(&["codecs", str(&pages), "--codecs", "lz4", "--full"]).stdout);
    let other_row = codecs.lines().find(|line| line.starts_with("lz4 "));
    assert!(
        other_row.is_some_and(|it| it.contains(&size)),
        "{size}: {codecs}"
    );
    let codec = &json(&[&scan[..], &["--json"]].concat())["codecs"][0];
    let ratio = zmeld_config::advice::size::tenths(codec["effective_ratio"].as_f64().unwrap());
    assert!(row.contains(&format!(" {ratio}x ")), "{ratio}: {row}");
}
