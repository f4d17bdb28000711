//! zword's two decoders beside each other: the C one, which stores use, and the
//! one in `support/zword`, which was written from docs/zword.md.

use zmeld_store::zword::{trained_lengths, Level, Zword};
use zmeld_tests::random::Random;
use zword::decoder::decode;
use zword::lengths::{
    layout, Lengths, BYTE_TOKENS, BYTE_TOKEN_BITS, CONTEXTS, LITERAL_BITS, MASKS, SETS,
    WORD_LITERALS,
};

#[allow(dead_code)]
#[path = "support/train.rs"]
mod train;
#[path = "support/zword/mod.rs"]
mod zword;

const BLOCK: usize = 4096;

/// A page of one of the kinds that the modes are for, and of mixtures.
fn page(random: &mut Random, size: usize) -> Vec<u8> {
    let words = b"the a of page memory word slot = ( ) { return if 0x \n\t.,;";
    let mut page = Vec::with_capacity(size + 64);
    if random.below(16) == 0 {
        page.extend((0..size).map(|_| random.number() as u8));
    }
    if random.below(16) == 0 {
        // Words of 32 bits, which stand again an odd number of them later.
        let mut words = vec![0; 64];
        while words.len() < size / 4 {
            words.extend((0..5).map(|_| 0x4000_0000 | random.number() as u32 & 0xffff));
            let back = 17 + 2 * random.below(24);
            for _ in 0..40 {
                words.push(words[words.len() - back]);
            }
        }
        page.extend(words.into_iter().flat_map(u32::to_le_bytes));
    }
    while page.len() < size {
        let count = 1 + random.below(200);
        match random.below(7) {
            0 => page.extend((0..count).map(|_| random.number() as u8)),
            1 => page.extend(vec![random.below(3) as u8; count]),
            2 => page.extend((0..count).map(|_| words[random.below(words.len())])),
            3 => {
                page.resize(page.len().next_multiple_of(8), 0);
                let base = 0x7f12_3456_7000 + (random.number() & 0xff_fff8);
                let each = |k| (base + 16 * k as u64).to_le_bytes();
                page.extend((0..count).flat_map(each));
            }
            4 => {
                page.resize(page.len().next_multiple_of(4), 0);
                let each = |_| (random.number() as u32 & 0x0003_ffff).to_le_bytes();
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

const LEVELS: [Level; 2] = [Level::Glance, Level::All];

#[test]
fn both_decoders_give_back_every_page() {
    let (mut zword, lengths) = trained();
    for level in LEVELS {
        let mut modes = [0; 4];
        for seed in 1..600u64 {
            let mut random = Random(seed);
            let size = BLOCK << [0, 0, 0, 2, 4][random.below(5)];
            let page = page(&mut random, size);
            let mut object = vec![0; 2 * size];
            let used = zword
                .compress(level, &page, &mut object)
                .expect("there is room");
            let seed = format!("seed {seed}, {level:?}");
            assert!(used <= size + size / 512, "{seed}: {used} bytes");
            let object = &object[..used];
            let mut back = vec![0xa5; size];
            assert!(zword.decompress(object, &mut back), "{seed}");
            assert!(back == page, "{seed}: the C decoder made another page");
            let second = decode(&lengths, object, size, &mut ()).expect("it is sound");
            assert!(second == page, "{seed}: the second one did");
            if size == BLOCK {
                modes[usize::from(object[0] & 3)] += 1;
            }
        }
        assert!(
            modes.iter().all(|&count| count > 5),
            "{level:?}: a mode is missing: {modes:?}"
        );
    }
}

/// The levels are different encoders: with the same one twice, tests of both are one.
#[test]
fn the_second_level_finds_what_the_first_does_not() {
    let (mut zword, _) = trained();
    let mut sizes = [0; 2];
    for seed in 1..200u64 {
        let page = page(&mut Random(seed), BLOCK);
        for (level, all) in LEVELS.into_iter().zip(&mut sizes) {
            let mut object = vec![0; 2 * BLOCK];
            *all += zword
                .compress(level, &page, &mut object)
                .expect("there is room");
        }
    }
    assert!(sizes[1] < sizes[0], "{sizes:?} bytes");
}

/// A few bits, bytes or lengths of an object become others.
fn damage(random: &mut Random, object: &mut Vec<u8>) {
    for _ in 0..1 + random.below(3) {
        let at = random.below(object.len());
        let early = random.below(object.len().min(14));
        match random.below(5) {
            0 => object[at] ^= 1 << random.below(8),
            1 => object[at] = random.number() as u8,
            2 => object[early] ^= 1 << random.below(8),
            3 if random.below(4) == 0 => object.truncate(at + 1),
            _ => object[at] = object[early],
        }
    }
}

/// Of each page an object, and so many damaged ones.
const DAMAGED: u64 = 9;

/// Both decoders say the same of 20,000 objects, sound ones and damaged ones; of as many
/// as `ZMELD_ZWORD_ROUNDS` says, a tenth of them sound.
#[test]
fn both_decoders_judge_damage_alike() {
    let (mut zword, lengths) = trained();
    let objects = match std::env::var("ZMELD_ZWORD_ROUNDS") {
        Ok(rounds) => rounds.parse().expect("ZMELD_ZWORD_ROUNDS is a number"),
        Err(_) => 20_000u64,
    };
    let (mut sound, mut refused) = (0, 0);
    for seed in 1..=objects.div_ceil(1 + DAMAGED) {
        let mut random = Random(seed);
        let size = BLOCK << [0, 0, 0, 0, 0, 2][random.below(6)];
        let page = page(&mut random, size);
        let mut object = vec![0; 2 * size];
        let level = LEVELS[random.below(2)];
        let used = zword
            .compress(level, &page, &mut object)
            .expect("there is room");
        object.truncate(used);
        for round in 0..=DAMAGED {
            let mut object = object.clone();
            if round > 0 {
                damage(&mut random, &mut object);
            }
            let mut one = vec![0; size];
            let first = zword.decompress(&object, &mut one);
            let place = format!("seed {seed}, round {round}");
            match decode(&lengths, &object, size, &mut ()) {
                Ok(other) => {
                    assert!(first, "{place}: only the second one takes it");
                    assert!(one == other, "{place}: they made two pages");
                    sound += u64::from(round > 0);
                }
                Err(_) => {
                    assert!(!first, "{place}: only the C decoder takes it");
                    assert!(round > 0, "{place}: the encoder's own is refused");
                    refused += 1;
                }
            }
        }
    }
    assert!(
        sound > 50 && refused > 50,
        "{sound} sound, {refused} refused"
    );
}

#[test]
fn lengths_that_are_none_are_refused() {
    let row = trained_lengths();
    for at in (0..row.len()).step_by(7) {
        let mut other = row.to_vec();
        other[at] ^= 0x0f;
        // Its result on odd but whole codes does not matter; both agree on them.
        let first = Zword::new(&other).is_some();
        let second = Lengths::new(&other).is_ok();
        assert!(second || !first, "byte {at}: only the C side takes these");
    }
    assert!(Zword::new(&row[1..]).is_none());
    assert!(Zword::new(&[]).is_none());
}

/// Start of each code of the row, its number of symbols, and its most bits.
fn codes() -> Vec<(usize, usize, u8)> {
    let widths = [(0, layout::WORDS_32), (layout::WORDS_32, layout::BYTES)];
    let words = widths
        .into_iter()
        .flat_map(|(width, end)| (width + layout::WORD_SETS..end).step_by(256));
    let mut codes: Vec<_> = words.map(|at| (at, 256, LITERAL_BITS)).collect();
    let bytes = layout::BYTES + layout::BYTE_SETS;
    codes.extend((bytes..layout::SIZE).step_by(256).map(|at| {
        match (at - bytes) % layout::BYTE_SET {
            0 => (at, BYTE_TOKENS, BYTE_TOKEN_BITS),
            _ => (at, 256, LITERAL_BITS),
        }
    }));
    codes
}

/// Every symbol must have a code, since an encoder writes any of them. Whole codes without
/// one: a symbol gives its row of bits to another of the same length.
#[test]
fn a_symbol_without_a_code_is_refused() {
    let row = trained_lengths();
    let mut tried = 0;
    for (at, symbols, most) in codes() {
        let code = &row[at..at + symbols];
        let longest = *code.iter().max().expect("there are symbols");
        let twins: Vec<usize> = (0..symbols).filter(|&k| code[k] == longest).collect();
        // Without a code, and with one that is too long to be one.
        for none in [0, most + 1, 15, 16, 255] {
            let mut other = row.to_vec();
            other[at + twins[0]] = none;
            other[at + twins[1]] = longest - 1;
            assert!(Zword::new(&other).is_none(), "byte {at}, length {none}");
            assert!(Lengths::new(&other).is_err(), "byte {at}, length {none}");
            tried += 1;
        }
    }
    assert_eq!(tried, 5 * (56 + 14 + 48));
}

/// A code in which these symbols have `bits`, and the others 8 or 9.
fn code_with(short: std::ops::Range<u8>, bits: u32) -> Vec<u8> {
    // In rows of 9 bits, what is left when all others have 9.
    let mut room = (512 - (short.len() << (9 - bits))) - (256 - short.len());
    let each = (0..=255u8).map(|symbol| {
        if short.contains(&symbol) {
            return bits as u8;
        }
        let spare = usize::from(room > 0);
        room -= spare;
        9 - spare as u8
    });
    each.collect()
}

/// A block with so many literals that the sum of their votes takes more than 16 bits still
/// gets the set that is the shortest.
#[test]
fn many_votes_elect_the_set_that_suits() {
    let mut row = train::flat_lengths();
    let words = &mut row[..layout::WORDS_32];
    // Encoders take zero as the reference of every word, so that all bytes are literals.
    words[layout::COSTS..layout::WORD_SETS].fill(250);
    words[layout::COSTS + MASKS..layout::COSTS + 2 * MASKS].fill(1);
    for set in 0..SETS[0] {
        let lengths = code_with(if set == 0 { 144..152 } else { 64..72 }, 4);
        let literals = layout::WORD_SETS + set * layout::WORD_SET + CONTEXTS * 256;
        for table in 0..WORD_LITERALS {
            words[literals + table * 256..][..256].copy_from_slice(&lengths);
        }
    }
    let mut zword = Zword::new(&row).expect("they are lengths");
    let mut random = Random(7);
    let mut page: Vec<u8> = (0..BLOCK).map(|_| 144 + random.below(8) as u8).collect();
    // A block with a literal for each byte would be given up.
    page[..128].fill(0);
    for level in LEVELS {
        let mut object = vec![0; 2 * BLOCK];
        let used = zword
            .compress(level, &page, &mut object)
            .expect("there is room");
        let (mode, set) = (object[0] & 3, object[0] >> 3 & 3);
        assert_eq!((mode, set), (0, 0), "{level:?}: {used} bytes");
        assert!(used < 3300, "{level:?}: {used} bytes");
    }
}
