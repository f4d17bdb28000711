//! zswap.

use crate::config::{Kind, Trap, Zswap};
use crate::error::Error;
use crate::machine::ZSWAP;
use crate::step::Step;
use crate::steps::SetValue;

use super::{Draft, Steps};

const COMPRESSOR: &str = "compressor";

impl Draft<'_> {
    pub(super) fn zswap(&mut self, zswap: &Zswap, steps: &mut Steps<'_>) -> Result<(), Error> {
        if self.machine.zswap.is_none() {
            return Err(Error::KernelFeature {
                what: "this tier needs zswap".to_owned(),
                way_out:
                    "use a zram tier where the kernel has zram, or boot one that was built with \
                          zswap"
                        .to_owned(),
            });
        }
        let planned = |tier: &crate::config::Tier| matches!(tier.kind, Kind::Disk(_));
        let ram = |path: &str| path.starts_with("/dev/zram") || path.starts_with("/dev/zmeld");
        let on_disk = self.machine.swaps.iter().any(|swap| !ram(&swap.path));
        if !self.config.tiers.iter().any(planned) && !on_disk {
            return Err(Error::Refused {
                what: "zswap is a cache in front of swap on a disk, and there is none: add a disk \
                       tier beside it, or use a zram tier where the kernel has zram"
                    .to_owned(),
            });
        }
        for parameter in zswap.parameters() {
            let name = parameter.name;
            let path = format!("{ZSWAP}/{name}");
            let Some(now) = self.host.read_optional(&path)? else {
                self.warn(
                    Trap::UnusedRule,
                    &format!("{}.{name}", steps.name),
                    format!(
                        "kernel {} has no choice of it; remove it",
                        self.machine.kernel
                    ),
                );
                continue;
            };
            if name == COMPRESSOR && now.trim() != parameter.value {
                self.check_compressor(&parameter.value)?;
            }
            steps.add_over(
                Step::SetValue(SetValue::new(path, parameter.value)),
                parameter.purpose,
                Some(now),
            );
        }
        Ok(())
    }

    /// The kernel refuses one that it neither has nor can load.
    fn check_compressor(&self, wanted: &str) -> Result<(), Error> {
        let Some(known) = self.host.read_optional("/proc/crypto")? else {
            return Ok(());
        };
        let known = compressors(&known);
        if known.contains(&wanted) {
            return Ok(());
        }
        let aliases = format!("/lib/modules/{}/modules.alias", self.machine.kernel);
        let alias = format!("alias crypto-{wanted} ");
        let aliases = self.host.read_optional(aliases)?.unwrap_or_default();
        if aliases.lines().any(|line| line.starts_with(&alias)) {
            return Ok(());
        }
        Err(Error::KernelFeature {
            what: format!("zswap would need {wanted}"),
            way_out: match known.is_empty() {
                true => "leave compressor out".to_owned(),
                false => format!("set compressor to one of {}", known.join(", ")),
            },
        })
    }
}

/// The names of what compresses, as `/proc/crypto` tells them.
fn compressors(text: &str) -> Vec<&str> {
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
    fn what_compresses_is_told_from_what_hashes_and_stands_once() {
        let text = "name         : lzo\ndriver       : lzo-scomp\ntype         : scomp\n\n\
                    name         : crc32c\ntype         : shash\n\n\
                    name         : deflate\ntype         : acomp\n\n\
                    name         : lzo\ndriver       : lzo-generic\ntype         : compression\n\n";
        assert_eq!(compressors(text), ["lzo", "deflate"]);
        assert!(compressors("").is_empty());
    }
}
