//! Rules for a kind of machine beside compressed swap: reclaim, the guard, and which of its control
//! groups are left alone.
//!
//! Only what is there is named: a group's name is written where the machine has such a
//! group now. Each entry has its reason as a comment.

use crate::watch::reclaim;
use zmeld_config::{
    Comments, Config, GroupPattern, GuardRule, MeldRule, Named, RamDriver, ReclaimRule,
};
use zmeld_linux::groups::{outlook, Selection};
use zmeld_linux::Host;
use zmeld_report::units::bytes;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Profile {
    Desktop,
    Server,
    /// The same with at most 2 GiB of RAM.
    Small,
    VmHost,
    Kubernetes,
    Pi,
}

impl Named for Profile {
    const ALL: &'static [(&'static str, Profile)] = &[
        ("desktop", Profile::Desktop),
        ("server", Profile::Server),
        ("small", Profile::Small),
        ("vm-host", Profile::VmHost),
        ("kubernetes", Profile::Kubernetes),
        ("pi", Profile::Pi),
    ];
}

/// At most so much RAM is small, in bytes.
const SMALL_BYTES: u64 = 2 << 30;

const MODEL: &str = "/proc/device-tree/model";
const KUBELET: &str = "/var/lib/kubelet/config.yaml";
const DISPLAY: &str = "/etc/systemd/system/display-manager.service";
const KVM: &str = "/dev/kvm";
const MACHINES: &str = "/machine.slice";
const PODS: [&str; 2] = ["/kubepods.slice", "/kubepods"];

/// The guard's keys, each in a line.
const GUARD_KEYS: [(&str, &str); 4] = [
    (
        "room_below",
        "with less headroom than this, [watch.reclaim] and others act at once",
    ),
    (
        "end_below",
        "with less headroom than this, it ends a process",
    ),
    (
        "stalled_above",
        "or when less than end_below is available without swapping, and all tasks waited for more than this share of the last 10 s",
    ),
    ("grace", "from SIGTERM to SIGKILL"),
];

/// Services that know what they keep in memory.
const CACHES: [&str; 8] = [
    "postgresql*.service",
    "mariadb.service",
    "mysql*.service",
    "mongod.service",
    "redis*.service",
    "valkey*.service",
    "memcached.service",
    "elasticsearch.service",
];

impl Profile {
    pub fn of(host: &Host, ram_bytes: u64) -> Profile {
        let all = [Profile::Pi, Profile::Kubernetes, Profile::VmHost];
        let special = all.into_iter().find(|it| it.missing(host).is_none());
        match special {
            Some(Profile::VmHost) if !is_there(host, MACHINES) => {}
            Some(profile) => return profile,
            None => {}
        }
        match ram_bytes {
            _ if host.path(DISPLAY).symlink_metadata().is_ok() => Profile::Desktop,
            ..=SMALL_BYTES => Profile::Small,
            _ => Profile::Server,
        }
    }

    /// Recommends it for a machine of the kind, with the sign that it was found by; none where it
    /// adds nothing to the configuration.
    pub fn hint(self, host: &Host, config: &Config) -> Option<String> {
        let mut with = config.clone();
        self.add_to(host, &mut with, &mut Comments::new());
        let rules_of = |config: &Config| {
            let guard = config.watch.guard.as_ref().map(|_| "guard");
            Vec::from_iter(config.watch.rules().into_iter().chain(guard))
        };
        let had = rules_of(config);
        let mut added = rules_of(&with);
        added.retain(|rule| !had.contains(rule));
        let added: Vec<String> = added.iter().map(|rule| format!("[watch.{rule}]")).collect();
        let sign = match self {
            Profile::Pi => format!("{MODEL} says so"),
            Profile::Kubernetes => format!("there is {KUBELET}"),
            Profile::VmHost => format!("there are {KVM} and the control group {MACHINES}"),
            Profile::Desktop => {
                let unit = host.path(DISPLAY).read_link().unwrap_or_default();
                let unit = unit
                    .file_name()
                    .unwrap_or("display-manager.service".as_ref());
                format!("it starts {}", unit.to_string_lossy())
            }
            Profile::Small => format!("it has at most {} of RAM", bytes(SMALL_BYTES)),
            Profile::Server => "no display manager is enabled".to_owned(),
        };
        let name = self.name();
        (!added.is_empty()).then(|| {
            format!(
                "This machine looks like a {name} ({sign}): zmeld plan --profile {name} adds {}.",
                added.join(" and ")
            )
        })
    }

    fn missing(self, host: &Host) -> Option<String> {
        match self {
            Profile::Pi => {
                let model = host.read_optional(MODEL).ok().flatten().unwrap_or_default();
                let is_one = model.starts_with("Raspberry Pi");
                (!is_one).then(|| format!("{MODEL} does not name a Raspberry Pi"))
            }
            Profile::Kubernetes => match host.read_optional(KUBELET).ok().flatten() {
                None => Some(format!("there is no {KUBELET}")),
                Some(text) => {
                    (!text.lines().any(|it| it.trim() == "failSwapOn: false")).then(|| {
                        format!(
                        "{KUBELET} does not say \"failSwapOn: false\", without which the kubelet \
                         does not start while swap is on; pods swap with \"swapBehavior: \
                         LimitedSwap\""
                    )
                    })
                }
            },
            Profile::VmHost => (!host.exists(KVM)).then(|| format!("there is no {KVM}")),
            Profile::Desktop | Profile::Server | Profile::Small => None,
        }
    }

    /// Whether the machine can have it.
    ///
    /// # Errors
    /// The unmet requirement, in a sentence, and the profile that suits.
    pub fn check(self, host: &Host, ram_bytes: u64) -> Result<(), String> {
        let Some(why) = self.missing(host) else {
            return Ok(());
        };
        let name = self.name();
        let suits = Profile::of(host, ram_bytes);
        Err(match suits.hint(host, &Config::default()) {
            Some(_) => format!(
                "profile {name}: {why}; --profile {} suits the machine",
                suits.name()
            ),
            None => format!(
                "profile {name}: {why}; leave --profile out: {}, which suits the machine, adds \
                 nothing here",
                suits.name()
            ),
        })
    }

    /// A warning where the machine can have it, but has the RAM that another is for, or cannot
    /// reclaim.
    pub fn doubt(self, host: &Host, ram_bytes: u64) -> Option<String> {
        let suits = Profile::of(host, ram_bytes).name();
        let (name, small, ram) = (self.name(), bytes(SMALL_BYTES), bytes(ram_bytes));
        let is_for = match self {
            Profile::Small if ram_bytes > SMALL_BYTES => "at most",
            Profile::Server if ram_bytes <= SMALL_BYTES => "more than",
            Profile::Small | Profile::Pi => return None,
            _ => {
                let why = reclaim::lacks(host)?;
                return Some(format!(
                    "profile {name} reclaims nothing ahead of time: {why}"
                ));
            }
        };
        let what = format!("profile {name} is for {is_for} {small} of RAM, and the machine has");
        Some(format!("{what} {ram}: --profile {suits} suits it"))
    }

    /// Adds it to the configuration of a machine that can have it.
    pub fn add_to(self, host: &Host, config: &mut Config, comments: &mut Comments) {
        let mut say = |key: &str, why: &str| comments.insert(key.to_owned(), why.to_owned());
        let head = format!("For a machine of the profile {}.", self.name());
        say("", &head);
        let (kept, why): (&[&str], &str) = match self {
            Profile::Desktop => (&[], ""),
            Profile::Server => (&CACHES, "these manage a cache of their own"),
            Profile::VmHost => (
                &[MACHINES],
                "the host cannot see which memory of a guest is idle",
            ),
            Profile::Kubernetes => (&PODS, "the limits of pods say what they may use"),
            // Their processor and their card have better things to do.
            Profile::Small | Profile::Pi => return,
        };
        if let Some(why) = reclaim::lacks(host) {
            let head = format!("{head} Nothing is reclaimed ahead of time: {why}.");
            say("", &head);
        } else {
            let protect = present(host, kept);
            say(
                "watch.reclaim",
                "what is idle goes to swap before memory is short",
            );
            if !protect.is_empty() {
                say("watch.reclaim.protect", why);
            }
            config.watch.reclaim = Some(ReclaimRule {
                protect,
                ..ReclaimRule::default()
            });
        }
        if self == Profile::Desktop {
            let why = "when memory runs out, a program of the largest user or group is ended, not \
                       the session";
            say("watch.guard", why);
            for (key, what) in GUARD_KEYS {
                say(&format!("watch.guard.{key}"), what);
            }
            config.watch.guard = Some(GuardRule::default());
        }
        let melds = config.in_ram().any(|(_, it)| it.driver == RamDriver::Zmeld);
        if self == Profile::VmHost && melds {
            say("watch.meld", "guests of one image hold the same pages");
            config.watch.meld = Some(MeldRule::default());
        }
    }
}

fn patterns(forms: &[&str]) -> Vec<GroupPattern> {
    forms.iter().filter_map(|form| form.parse().ok()).collect()
}

/// Those of which there is a group.
fn present(host: &Host, forms: &[&str]) -> Vec<GroupPattern> {
    let named = patterns(forms);
    let selection = Selection {
        named: &named,
        ..Selection::default()
    };
    let Some(found) = outlook(host, selection) else {
        return Vec::new();
    };
    let is_one = |it: &GroupPattern| !found.unmatched.contains(&it.to_string());
    named.iter().filter(|it| is_one(it)).cloned().collect()
}

fn is_there(host: &Host, group: &str) -> bool {
    !present(host, &[group]).is_empty()
}
