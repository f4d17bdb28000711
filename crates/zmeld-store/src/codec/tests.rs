use super::*;

#[test]
fn the_list_is_zrams_and_our_own() {
    let names: Vec<_> = codecs().iter().map(|codec| codec.name).collect();
    assert_eq!(
        names,
        ["lzo-rle", "lzo", "lz4", "lz4hc", "zstd", "deflate", "zword"]
    );
    for info in codecs() {
        assert!((info.level_min..=info.level_max).contains(&info.level_default));
    }
}

#[test]
fn pages_come_back_and_what_does_not_fit_or_is_damaged_is_told() {
    let page: Vec<u8> = (0..4096u32).map(|at| ((at * at) >> 7) as u8).collect();
    for info in codecs() {
        let mut stream = Stream::new(&Codec::new(info.name, None).unwrap()).unwrap();
        let (mut object, mut back) = ([0; 2 * 4096 + 256], [0xa5; 4096]);
        let size = stream.compress(&page, &mut object).unwrap();
        stream.decompress(&object[..size], &mut back).unwrap();
        assert!(back == page[..], "{stream:?} returned other bytes");
        let capacity = size - 1;
        let refused = stream.compress(&page, &mut vec![0; capacity]);
        assert_eq!(refused, Err(NoFit { capacity }));
        let damaged = stream.decompress(&object[..size - 1], &mut back);
        assert_eq!(damaged.unwrap_err().codec, info.name);
    }
}

#[test]
fn specs_are_read_and_written_alike() {
    for spec in ["lzo", "lzo-rle", "lz4:1", "zstd:-7"] {
        assert_eq!(spec.parse::<CodecSpec>().unwrap().to_string(), spec);
    }
    let long: CodecSpec = "zstd:level=3".parse().unwrap();
    assert_eq!(long.to_string(), "zstd:3");
}

#[test]
fn specs_that_make_no_sense_say_why() {
    for (spec, words) in [
        ("", "there is no codec"),
        ("lz5", "there are lzo-rle, lzo, lz4"),
        ("zstd:", "expected a level"),
        ("zstd:fast", "expected a level"),
        ("zstd:23", "-131072 to 22, not 23"),
        ("zstd:3,4", "expected a level"),
        ("lzo:1", "lzo has no levels"),
    ] {
        let said = spec.parse::<CodecSpec>().unwrap_err().to_string();
        assert!(said.contains(words), "{spec:?}: {said}");
    }
}
