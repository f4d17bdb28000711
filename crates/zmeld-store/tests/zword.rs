//! zword's two decoders beside each other: the C one, which stores use, and the
//! one of zmeld-zword, which was written from docs/zword.md.

use zmeld_store::zword::{trained_lengths, Zword};
use zmeld_zword::{decode, Lengths};

const BLOCK: usize = 4096;

#[path = "support/random.rs"]
mod random;
use random::Random;

/// A page of one of the kinds that the modes are for, and of mixtures.
fn page(random: &mut Random, size: usize) -> Vec<u8> {
    let words = b"the a of page memory word slot = ( ) { return if 0x \n\t.,;";
    let mut page = Vec::with_capacity(size + 64);
    if random.below(16) == 0 {
        page.extend((0..size).map(|_| random.next() as u8));
    }
    while page.len() < size {
        let count = 1 + random.below(200);
        match random.below(7) {
            0 => page.extend((0..count).map(|_| random.next() as u8)),
            1 => page.extend(vec![random.below(3) as u8; count]),
            2 => page.extend((0..count).map(|_| words[random.below(words.len())])),
            3 => {
                page.resize(page.len().next_multiple_of(8), 0);
                let base = 0x7f12_3456_7000 + (random.next() & 0xff_fff8);
                let each = |k| (base + 16 * k as u64).to_le_bytes();
                page.extend((0..count).flat_map(each));
            }
            4 => {
                page.resize(page.len().next_multiple_of(4), 0);
                let each = |_| (random.next() as u32 & 0x0003_ffff).to_le_bytes();
                page.extend((0..count).flat_map(each));
            }
            _ if page.is_empty() => {}
            _ => {
                let back = 1 + random.below(page.len());
                for _ in 0..count {
                    page.push(page[page.len() - back]);
                }
            }
        }
    }
    page.truncate(size);
    page
}

fn trained() -> (Zword, Lengths) {
    let row = trained_lengths();
    (
        Zword::new(row).expect("the trained lengths are lengths"),
        Lengths::new(row).expect("the trained lengths are lengths"),
    )
}

#[test]
fn both_decoders_give_back_every_page() {
    let (mut zword, lengths) = trained();
    let mut modes = [0; 4];
    for seed in 1..600u64 {
        let mut random = Random(seed);
        let size = BLOCK << [0, 0, 0, 2, 4][random.below(5)];
        let page = page(&mut random, size);
        let mut object = vec![0; 2 * size];
        let used = zword.compress(&page, &mut object).expect("there is room");
        assert!(used <= size + size / 512, "seed {seed}: {used} bytes");
        let object = &object[..used];
        let mut back = vec![0xa5; size];
        assert!(zword.decompress(object, &mut back), "seed {seed}");
        assert!(back == page, "seed {seed}: the C decoder made another page");
        let second = decode(&lengths, object, size, &mut ()).expect("it is sound");
        assert!(second == page, "seed {seed}: the second one did");
        if size == BLOCK {
            modes[usize::from(object[0] & 3)] += 1;
        }
    }
    assert!(
        modes.iter().all(|&count| count > 5),
        "a mode is missing: {modes:?}"
    );
}

/// Objects with a few bits, bytes or lengths changed: both say the same of them.
#[test]
fn both_decoders_judge_damage_alike() {
    let (mut zword, lengths) = trained();
    let rounds = match std::env::var("ZMELD_ZWORD_ROUNDS") {
        Ok(rounds) => rounds.parse().expect("ZMELD_ZWORD_ROUNDS is a number"),
        Err(_) => 4000u64,
    };
    let (mut sound, mut refused) = (0, 0);
    for seed in 1..=rounds {
        let mut random = Random(seed);
        let size = BLOCK << [0, 0, 0, 0, 0, 2][random.below(6)];
        let page = page(&mut random, size);
        let mut object = vec![0; 2 * size];
        let used = zword.compress(&page, &mut object).expect("there is room");
        object.truncate(used);
        for _ in 0..1 + random.below(3) {
            let at = random.below(object.len());
            let early = random.below(object.len().min(14));
            match random.below(5) {
                0 => object[at] ^= 1 << random.below(8),
                1 => object[at] = random.next() as u8,
                2 => object[early] ^= 1 << random.below(8),
                3 if random.below(4) == 0 => object.truncate(at + 1),
                _ => object[at] = object[early],
            }
        }
        let mut one = vec![0; size];
        let first = zword.decompress(&object, &mut one);
        match decode(&lengths, &object, size, &mut ()) {
            Ok(other) => {
                assert!(first, "seed {seed}: only the second one takes it");
                assert!(one == other, "seed {seed}: they made two pages");
                sound += 1;
            }
            Err(_) => {
                assert!(!first, "seed {seed}: only the C decoder takes it");
                refused += 1;
            }
        }
    }
    assert!(
        sound > 50 && refused > 50,
        "{sound} sound, {refused} refused"
    );
}

#[test]
fn both_decoders_judge_noise_alike() {
    let (mut zword, lengths) = trained();
    for seed in 1..4000u64 {
        let mut random = Random(seed);
        let mut object: Vec<u8> = (0..random.below(300))
            .map(|_| random.next() as u8)
            .collect();
        // A header that could be one, more often than chance would have it.
        if object.len() > 8 && seed % 2 == 0 {
            object[0] &= !4;
            object[1] &= 3;
            for size in &mut object[2..6] {
                *size &= 31;
            }
        }
        let mut one = vec![0; BLOCK];
        let first = zword.decompress(&object, &mut one);
        let second = decode(&lengths, &object, BLOCK, &mut ());
        assert_eq!(first, second.is_ok(), "seed {seed}");
        assert!(second.map_or(true, |page| page == one), "seed {seed}");
    }
}

#[test]
fn an_object_never_passes_the_end_of_its_room() {
    let (mut zword, _) = trained();
    for seed in 1..200u64 {
        let mut random = Random(seed);
        let page = page(&mut random, BLOCK);
        let mut whole = vec![0; 2 * BLOCK];
        let used = zword.compress(&page, &mut whole).expect("there is room");
        for room in [0, 1, 9, used / 2, used - 1] {
            let mut object = vec![0x5a; room + 64];
            let fits = zword.compress(&page, &mut object[..room]);
            assert_eq!(fits, None, "seed {seed}, room {room}");
            let guard = &object[room..];
            assert!(guard.iter().all(|&b| b == 0x5a), "seed {seed}, room {room}");
        }
        let again = zword.compress(&page, &mut whole[..used]);
        assert_eq!(again, Some(used), "seed {seed}");
    }
}

#[test]
fn lengths_that_are_none_are_refused() {
    let row = trained_lengths();
    for at in (0..row.len()).step_by(7) {
        let mut other = row.to_vec();
        other[at] ^= 0x0f;
        // What it makes of odd but whole codes does not matter; both agree on them.
        let first = Zword::new(&other).is_some();
        let second = Lengths::new(&other).is_ok();
        assert!(second || !first, "byte {at}: only the C side takes these");
    }
    assert!(Zword::new(&row[1..]).is_none());
    assert!(Zword::new(&[]).is_none());
}
