use super::*;

fn random_bytes(size: usize, mut seed: u64) -> Vec<u8> {
    (0..size)
        .map(|_| {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            (seed >> 32) as u8
        })
        .collect()
}

fn round_trip(stream: &mut Stream, page: &[u8]) -> usize {
    let mut object = vec![0; page.len() * 2 + 256];
    let size = stream.compress(page, &mut object).unwrap();
    let mut back = vec![0xa5; page.len()];
    stream.decompress(&object[..size], &mut back).unwrap();
    assert!(back == page, "{stream:?} returned other bytes");
    let mut tight = vec![0; size];
    assert_eq!(stream.compress(page, &mut tight), Ok(size));
    assert_eq!(tight, object[..size]);
    size
}

#[test]
fn the_list_is_zrams_and_our_own() {
    let names: Vec<_> = codecs().iter().map(|codec| codec.name).collect();
    assert_eq!(
        names,
        ["lzo", "lzo-rle", "lz4", "lz4hc", "zstd", "deflate", "zword"]
    );
    for info in codecs() {
        assert!((info.level_min..=info.level_max).contains(&info.level_default));
    }
}

#[test]
fn a_page_that_its_dictionary_has_becomes_smaller() {
    let page = random_bytes(4096, 9);
    let dict: Arc<[u8]> = page.clone().into();
    for info in codecs() {
        let with = Codec::new(info.name, None, Some(dict.clone()));
        if !info.takes_dict {
            assert!(with.unwrap_err().to_string().contains("no dictionary"));
            continue;
        }
        let mut with = Stream::new(&with.unwrap()).unwrap();
        let mut without = Stream::new(&Codec::new(info.name, None, None).unwrap()).unwrap();
        let (small, large) = (
            round_trip(&mut with, &page),
            round_trip(&mut without, &page),
        );
        assert!(2 * small < large, "{}: {small} against {large}", info.name);
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let page = random_bytes(4096, 3);
    let mut stream = Stream::new(&Codec::new("lz4", None, None).unwrap()).unwrap();
    let refused = stream.compress(&page, &mut [0; 100]);
    assert_eq!(refused, Err(NoFit { capacity: 100 }));
}

#[test]
fn damage_is_an_error_that_names_the_codec() {
    for info in codecs() {
        let mut stream = Stream::new(&Codec::new(info.name, None, None).unwrap()).unwrap();
        let mut object = [0; 4096];
        let size = stream.compress(&[1; 4096], &mut object).unwrap();
        let damaged = stream
            .decompress(&object[..size - 1], &mut [0; 4096])
            .unwrap_err();
        assert_eq!(damaged.codec, info.name);
    }
}

#[test]
fn specs_are_read_and_written_alike() {
    for spec in [
        "lzo",
        "lzo-rle",
        "lz4:1",
        "zstd:-7",
        "zstd:dict=/a,b:c",
        "zstd:level=3,dict=some/file",
    ] {
        assert_eq!(spec.parse::<CodecSpec>().unwrap().to_string(), spec);
    }
    let long: CodecSpec = "zstd:level=3".parse().unwrap();
    assert_eq!(long.to_string(), "zstd:3");
    let short: CodecSpec = "zstd:3,dict=x".parse().unwrap();
    assert_eq!(short.to_string(), "zstd:level=3,dict=x");
}

#[test]
fn specs_that_make_no_sense_say_why() {
    for (spec, words) in [
        ("", "there is no codec"),
        ("lz5", "there are lzo, lzo-rle, lz4"),
        ("zstd:", "expected a level"),
        ("zstd:fast", "expected a level"),
        ("zstd:23", "-131072 to 22, not 23"),
        ("zstd:3,4", "expected dict=PATH after the level"),
        ("zstd:dict=", "names no file"),
        ("lzo:1", "lzo has no levels"),
        ("deflate:dict=x", "deflate takes no dictionary"),
    ] {
        let said = spec.parse::<CodecSpec>().unwrap_err().to_string();
        assert!(said.contains(words), "{spec:?}: {said}");
    }
    let missing: CodecSpec = "lz4:dict=/no/such/file".parse().unwrap();
    assert_eq!(
        missing.open().unwrap_err().to_string(),
        "cannot read the dictionary /no/such/file"
    );
}

#[test]
fn dictionaries_that_cannot_be_used_are_refused() {
    // Too short to find anything in, and longer than lz4 looks back.
    for (name, size) in [("lz4", 3), ("lz4hc", 3), ("lz4", 65537), ("lz4hc", 65537)] {
        let dict = Arc::from(random_bytes(size, 5));
        let refused = Codec::new(name, None, Some(dict)).unwrap_err().to_string();
        assert!(refused.contains(&format!("{size} bytes")), "{refused}");
    }
}
