//! How fast the ciphers are that a drive may be encrypted with, measured by
//! `cryptsetup benchmark`: in memory, on one processor.

use serde::Serialize;

use zmeld_config::{Cipher, Config, Encryption, Kind};
use zmeld_linux::command::Invocation;
use zmeld_linux::{Host, HostError};

/// A cipher's speed.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Speed {
    /// As `cryptsetup --cipher` takes it.
    pub cipher: String,
    /// Bits of its key.
    pub key_size: u16,
    /// Bytes a second.
    pub encrypt_bytes_per_s: f64,
    /// Bytes a second.
    pub decrypt_bytes_per_s: f64,
    /// Whether the configuration uses it.
    pub used: bool,
}

/// What a chosen cipher is compared with: the default, half its key, and what was
/// usual before.
const OTHERS: [(&str, u16); 3] = [
    ("aes-xts-plain64", 512),
    ("aes-xts-plain64", 256),
    ("aes-cbc-essiv:sha256", 256),
];

/// The ciphers of a configuration that have to be chosen: those of volumes that
/// it makes.
pub fn chosen(config: &Config) -> Vec<Cipher> {
    let mut ciphers = Vec::new();
    for tier in &config.tiers {
        let encryption = match &tier.kind {
            Kind::Disk(disk) => Some(&disk.encryption),
            Kind::Ram(device) => device.writeback.as_ref().map(|it| &it.encryption),
            Kind::Zswap(_) => None,
        };
        if let Some(Encryption::Luks { cipher, .. } | Encryption::Random { cipher }) = encryption {
            if !ciphers.contains(cipher) {
                ciphers.push(cipher.clone());
            }
        }
    }
    ciphers
}

/// Measures the chosen ciphers and those that they are to be compared with. Takes
/// about two seconds each.
///
/// # Errors
/// When `cryptsetup` is missing, or the kernel does not let it measure.
pub fn measure(host: &Host, chosen: &[Cipher]) -> Result<Vec<Speed>, HostError> {
    let others = OTHERS.map(|(name, key_size)| Cipher {
        name: name.to_owned(),
        key_size,
    });
    let others = others.into_iter().filter(|it| !chosen.contains(it));
    let mut speeds = Vec::new();
    for cipher in chosen.iter().cloned().chain(others) {
        let used = chosen.contains(&cipher);
        let benchmark = Invocation::new("cryptsetup")
            .args(["benchmark", "--cipher", &cipher.name])
            .args(["--key-size", &cipher.key_size.to_string()]);
        match host.run(&benchmark) {
            Ok(text) => {
                let (encrypt, decrypt) = speed(&text).ok_or_else(|| {
                    HostError::malformed(
                        "cryptsetup",
                        format!("does not say how fast {} is", cipher.name),
                    )
                })?;
                speeds.push(Speed {
                    cipher: cipher.name,
                    key_size: cipher.key_size,
                    encrypt_bytes_per_s: encrypt,
                    decrypt_bytes_per_s: decrypt,
                    used,
                });
            }
            // What is only for comparison may be missing.
            Err(HostError::Command { .. }) if !used => {}
            Err(err) => return Err(err),
        }
    }
    Ok(speeds)
}

/// `aes-xts  512b  2520.0 MiB/s  2522.0 MiB/s`: encryption, decryption.
fn speed(text: &str) -> Option<(f64, f64)> {
    text.lines()
        .filter(|line| !line.starts_with('#'))
        .find_map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let [_, _, encrypt, "MiB/s", decrypt, "MiB/s"] = words[..] else {
                return None;
            };
            let rate = |text: &str| Some(text.parse::<f64>().ok()? * f64::from(1u32 << 20));
            Some((rate(encrypt)?, rate(decrypt)?))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speeds_are_read_from_what_cryptsetup_prints() {
        let text = "# Tests are approximate using memory only (no storage IO).\n\
                    #     Algorithm |       Key |      Encryption |      Decryption\n\
                    \x20       aes-xts        512b      2520.5 MiB/s      2522.0 MiB/s\n";
        let mib = f64::from(1u32 << 20);
        assert_eq!(speed(text), Some((2520.5 * mib, 2522.0 * mib)));
        assert_eq!(
            speed("        aes-xts        512b               N/A               N/A\n"),
            None
        );
        assert_eq!(speed(""), None);
    }
}
