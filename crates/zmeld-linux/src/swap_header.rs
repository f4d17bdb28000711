//! First page of a swap area (`union swap_header` of the kernel's `include/linux/swap.h`), of
//! whatever page size and byte order.

use std::path::Path;

use crate::Host;

/// The largest page that a kernel has.
pub const PAGE_MAX: usize = 64 << 10;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SwapHeader {
    /// The page size that it was made for.
    pub page_bytes: u64,
    /// How large the area is, with the header.
    pub size_bytes: u64,
    pub uuid: [u8; 16],
    /// Its label; empty where it has none.
    pub label: String,
    /// It holds the image of a hibernation, and `swapon` makes it a swap area again.
    pub is_suspended: bool,
}

impl SwapHeader {
    /// The header at that start of a device or file, as far as it is at hand.
    pub fn parse(start: &[u8]) -> Option<SwapHeader> {
        // As util-linux knows them: of swsusp, of suspend to disk in user space, of TuxOnIce.
        const SUSPENDED: [&[u8]; 4] = [
            b"S1SUSPEND",
            b"S2SUSPEND",
            b"ULSUSPEND",
            b"\xed\xc3\x02\xe9\x98\x56\xe5\x0c",
        ];
        let pages = (12..=16).map(|shift| 1usize << shift);
        let (page, is_suspended) = pages
            .filter_map(|page| Some((page, start.get(page - 10..page)?)))
            .find_map(|(page, mark)| match mark == b"SWAPSPACE2" {
                true => Some((page, false)),
                false => SUSPENDED
                    .iter()
                    .any(|it| mark.starts_with(it))
                    .then_some((page, true)),
            })?;
        let number = |at: usize| Some(u32::from_le_bytes(start.get(at..at + 4)?.try_into().ok()?));
        let (version, mut last) = (number(1024)?, number(1028)?);
        if version == 1u32.swap_bytes() {
            last = last.swap_bytes();
        }
        let label = start.get(1052..1068)?.split(|byte| *byte == 0).next()?;
        Some(SwapHeader {
            page_bytes: page as u64,
            size_bytes: (u64::from(last) + 1) * page as u64,
            uuid: start.get(1036..1052)?.try_into().ok()?,
            label: String::from_utf8_lossy(label).into_owned(),
            is_suspended,
        })
    }

    /// That of a device or file; none where it has none, cannot be read or does not answer.
    pub fn read(host: &Host, path: &Path) -> Option<SwapHeader> {
        let meta = host.tree().metadata(path).ok()?;
        SwapHeader::parse(&host.read_header(path, &meta, PAGE_MAX).ok()?)
    }
}

/// How large a device or file is, where that is less than the header on it says: it was cut, and
/// no kernel takes it.
pub fn cut_to(host: &Host, path: &Path) -> Option<(u64, SwapHeader)> {
    let header = SwapHeader::read(host, path)?;
    let meta = host.tree().metadata(path).ok()?;
    let is = match path.starts_with("/dev") {
        true => host.device_bytes(path)?,
        false => meta.len(),
    };
    (is < header.size_bytes).then_some((is, header))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_of_any_page_size_are_read() {
        for page in [4096usize, 16384, 65536] {
            let mut start = vec![0u8; PAGE_MAX];
            start[1024..1032].copy_from_slice(&[1, 0, 0, 0, 255, 0, 0, 0]);
            start[1036..1052].copy_from_slice(&[7; 16]);
            start[1052..1056].copy_from_slice(b"fast");
            assert_eq!(SwapHeader::parse(&start), None);
            start[page - 10..page].copy_from_slice(b"SWAPSPACE2");
            let header = SwapHeader::parse(&start).unwrap();
            assert_eq!(header.page_bytes, page as u64);
            assert_eq!(header.size_bytes, 256 * page as u64);
            assert_eq!((header.uuid, &*header.label), ([7; 16], "fast"));
            assert!(!header.is_suspended);
            start[page - 10..page].copy_from_slice(b"S1SUSPEND\0");
            assert!(SwapHeader::parse(&start).unwrap().is_suspended);
            // Of the other byte order.
            start[1024..1032].copy_from_slice(&[0, 0, 0, 1, 0, 0, 0, 255]);
            let header = SwapHeader::parse(&start).unwrap();
            assert_eq!(header.size_bytes, 256 * page as u64);
            for end in [0, 1030, 1040, 1060, page - 1] {
                assert_eq!(SwapHeader::parse(&start[..end]), None, "{end}");
            }
        }
    }
}
