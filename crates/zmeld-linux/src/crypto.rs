//! Compressors of the kernel's crypto interface, from which zswap takes its own.

use crate::modules::is_loadable;
use crate::{Host, HostError, KernelVersion};

/// The codec that `zword-dkms` brings.
pub const ZWORD: &str = "zword";

/// Whether the crypto interface of this kernel has that compressor, or would load it.
pub fn has_compressor(host: &Host, kernel: &str, wanted: &str) -> Result<bool, HostError> {
    let known = host.read_optional("/proc/crypto")?.unwrap_or_default();
    if compressors(&known).contains(&wanted) {
        return Ok(true);
    }
    is_loadable(host, kernel, &format!("crypto-{wanted}"))
}

/// Whether zram takes a codec that its devices do not list: up to Linux 6.11, which had no
/// parameters of codecs yet, it asks the crypto interface for any name. A device shows whether it
/// has them; without one the kernel's version says it, and an unreadable one is a new one.
pub fn takes_unlisted(host: &Host, device: Option<&str>, codec: &str) -> Result<bool, HostError> {
    let kernel = host.read_optional("/proc/sys/kernel/osrelease")?;
    let kernel = kernel.unwrap_or_default();
    let has_parameters = match device {
        Some(device) => host.exists(format!("/sys/block/{device}/algorithm_params")),
        None => KernelVersion::parse(&kernel).is_none_or(|it| it >= KernelVersion::new(6, 12)),
    };
    Ok(!has_parameters && has_compressor(host, &kernel, codec)?)
}

/// The names of what compresses, as `/proc/crypto` tells them.
pub fn compressors(text: &str) -> Vec<&str> {
    let mut found: Vec<&str> = Vec::new();
    for entry in text.split("\n\n") {
        let get = |key: &str| {
            let mut pairs = entry.lines().filter_map(|line| line.split_once(':'));
            let found = pairs.find(|(name, _)| name.trim() == key);
            found.map(|(_, value)| value.trim())
        };
        let compresses = matches!(get("type"), Some("scomp" | "acomp" | "compression"));
        if let (true, Some(name)) = (compresses, get("name")) {
            if !found.contains(&name) {
                found.push(name);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_counts_where_the_kernel_loads_any() {
        let (_dir, host) = Host::planted(&[
            (
                "/lib/modules/6.12/modules.alias",
                "alias crypto-deflate deflate\n",
            ),
            ("/proc/modules", ""),
        ]);
        let has = |codec: &str| has_compressor(&host, "6.12", codec).unwrap();
        assert!(has("deflate"));
        assert!(!has("842"));
        host.plant("/proc/sys/kernel/modules_disabled", "1\n");
        assert!(!has("deflate"));
        host.plant("/proc/modules", "deflate 16384 0 - Live 0x0\n");
        assert!(has("deflate"));
        host.plant("/proc/modules", "");
        host.plant("/proc/crypto", "name : deflate\ntype : scomp\n");
        assert!(has("deflate"));
    }

    #[test]
    fn what_compresses_is_told_from_what_hashes_and_stands_once() {
        let text = "name         : lzo\ndriver       : lzo-scomp\ntype         : scomp\n\n\
                    name         : crc32c\ntype         : shash\n\n\
                    name         : deflate\ntype         : acomp\n\n\
                    name         : lzo\ndriver       : lzo-generic\ntype         : compression\n\n";
        assert_eq!(compressors(text), ["lzo", "deflate"]);
        assert!(compressors("").is_empty());
    }
}
