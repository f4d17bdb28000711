//! Owner of a process, by its control group, and for virtual machines by its command line.

use std::fmt;
use std::io;

use serde_json::Value;
use zmeld_linux::octal::unescape_bytes;
use zmeld_linux::others::{LockedFile, PatientReader};
use zmeld_linux::{process, Host};

use crate::survey::description::of_host;

/// Bytes of a name that a command line gives.
const NAME_MAX: usize = 128;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OwnerKind {
    Service,
    Scope,
    User,
    /// Another control group.
    Cgroup,
    Container,
    Vm,
    /// All smaller ones together.
    Other,
}

impl OwnerKind {
    /// As it stands in files.
    pub fn as_str(self) -> &'static str {
        match self {
            OwnerKind::Service => "service",
            OwnerKind::Scope => "scope",
            OwnerKind::User => "user",
            OwnerKind::Cgroup => "cgroup",
            OwnerKind::Container => "container",
            OwnerKind::Vm => "vm",
            OwnerKind::Other => "other",
        }
    }
}

/// Paths of runtimes' container configurations, before and after the id.
const CONFIGS: [(&str, &str); 2] = [
    (
        "/run/containerd/io.containerd.runtime.v2.task/k8s.io/",
        "/config.json",
    ),
    (
        "/run/containers/storage/overlay-containers/",
        "/userdata/config.json",
    ),
];

/// A container's pod in Kubernetes, as containerd or CRI-O wrote it down.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pod {
    pub namespace: String,
    pub pod: String,
    pub image: Option<String>,
}

impl Pod {
    /// The pod of the container with that id.
    fn of(host: &Host, id: &str) -> Option<Pod> {
        let read = |(before, after): &(&str, &str)| of_host(host, &format!("{before}{id}{after}"));
        Pod::parse(&CONFIGS.iter().find_map(read)?)
    }

    /// From the annotations of an OCI runtime's `config.json`.
    fn parse(config: &str) -> Option<Pod> {
        let config: Value = serde_json::from_str(config).ok()?;
        let get = |names: [&str; 2]| {
            let found = names
                .iter()
                .find_map(|name| config["annotations"][name].as_str());
            found.map(|text| shortened(text).to_owned())
        };
        Some(Pod {
            namespace: get([
                "io.kubernetes.cri.sandbox-namespace",
                "io.kubernetes.pod.namespace",
            ])?,
            pod: get(["io.kubernetes.cri.sandbox-name", "io.kubernetes.pod.name"])?,
            image: get([
                "io.kubernetes.cri.image-name",
                "io.kubernetes.cri-o.ImageName",
            ]),
        })
    }
}

impl fmt::Display for Pod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.pod)?;
        match &self.image {
            Some(image) => write!(f, " {image}"),
            None => Ok(()),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Owner {
    /// Its name in the survey, which no other owner has.
    pub id: String,
    pub kind: OwnerKind,
    pub name: String,
    /// Of a container in Kubernetes, its pod.
    pub pod: Option<Pod>,
}

impl Owner {
    fn new(kind: OwnerKind, id: impl Into<String>, name: impl Into<String>) -> Owner {
        Owner {
            id: id.into(),
            kind,
            name: name.into(),
            pod: None,
        }
    }

    /// Whether an ordinary user can make as many of such as he likes.
    pub(crate) fn is_a_users(&self) -> bool {
        self.id.starts_with("/user.slice/") || self.kind == OwnerKind::Vm && self.id.contains('@')
    }

    /// All that are too small for a row of their own.
    pub(crate) fn others(how_many: usize) -> Owner {
        Owner::new(OwnerKind::Other, "other", format!("{how_many} more"))
    }

    /// The owner of a process, as far as it can be told, and the control group that its
    /// memory is charged to.
    pub fn of_process(
        host: &Host,
        pid: i32,
        reader: &mut PatientReader,
    ) -> (Owner, Option<String>) {
        let read = |name: &str| {
            host.read_bytes(format!("/proc/{pid}/{name}"))
                .unwrap_or_default()
        };
        let here = host.clone();
        let command = move || Ok(here.read_bytes(LockedFile::CommandLine.path(pid)));
        let command = reader
            .of(pid)
            .run(command)
            .and_then(|it| it.map_err(io::Error::other));
        let command = command.unwrap_or_default();
        let words: Vec<String> = command
            .split(|&byte| byte == 0)
            .map(|word| String::from_utf8_lossy(word).into_owned())
            .collect();
        let groups = Groups::parse(&String::from_utf8_lossy(&read("cgroup")));
        let uid = process::user(&String::from_utf8_lossy(&read("status")));
        // Nobody's where that cannot be read.
        let uid = uid.unwrap_or(u32::MAX);
        let mut owner = of(&groups, &words, uid);
        let id = owner.id.strip_prefix("container:");
        owner.pod = id
            .filter(|_| owner.name.starts_with("pod "))
            .and_then(|id| Pod::of(host, id));
        if let Some(pod) = &owner.pod {
            owner.name = pod.to_string();
        }
        (owner, groups.memory)
    }
}

struct Groups {
    /// With the one of version 2 first, then those of version 1 that say the most.
    paths: Vec<String>,
    memory: Option<String>,
}

impl Groups {
    /// Lines of `/proc/PID/cgroup`: `number:controllers:path`.
    fn parse(text: &str) -> Groups {
        let lines: Vec<(&str, &str)> = text
            .lines()
            .filter_map(|line| line.split_once(':')?.1.split_once(':'))
            .collect();
        let of = |has: &dyn Fn(&str) -> bool| {
            let found = lines.iter().find(|(controllers, _)| has(controllers));
            found.map(|(_, path)| seen_from_above(path))
        };
        let unified = of(&|controllers| controllers.is_empty());
        let memory = of(&|controllers| controllers.split(',').any(|it| it == "memory"));
        let systemd = of(&|controllers| controllers == "name=systemd");
        let paths = [unified.clone(), memory.clone(), systemd];
        let paths = paths.into_iter().flatten().filter(|path| path != "/");
        Groups {
            paths: paths.collect(),
            memory: memory.or(unified),
        }
    }
}

/// A path without the steps upwards that a process in a group namespace of its own sees.
fn seen_from_above(path: &str) -> String {
    let mut path = path;
    while let Some(rest) = path.strip_prefix("/..") {
        path = rest;
    }
    match path {
        "" => "/".to_owned(),
        path => path.to_owned(),
    }
}

/// A group's path goes before a command line, which anybody writes as he likes.
fn of(groups: &Groups, command: &[String], uid: u32) -> Owner {
    let find = |of: fn(&str) -> Option<Owner>| groups.paths.iter().find_map(|path| of(path));
    find(machine_group)
        .or_else(|| machine_by_command(command, uid))
        .or_else(|| find(known_group))
        .unwrap_or_else(|| {
            let path = groups.paths.first().map_or("/", String::as_str);
            Owner::new(OwnerKind::Cgroup, path, path)
        })
}

/// A virtual machine by the command line of the program that runs it.
///
/// Of an ordinary user's the id has his number, so that nobody's pages count as those of
/// another's machine.
fn machine_by_command(command: &[String], uid: u32) -> Option<Owner> {
    let program = command.first()?.rsplit('/').next()?;
    let after = |option: &str| {
        let at = command.iter().position(|word| word == option)?;
        command.get(at + 1)
    };
    let name = if program.starts_with("qemu-system-") || matches!(program, "qemu-kvm" | "kvm") {
        let name = after("-name").map(|name| name.split(',').next().unwrap_or(name));
        name.map_or(program, |name| name.strip_prefix("guest=").unwrap_or(name))
    } else if program == "firecracker" {
        after("--id").map_or(program, String::as_str)
    } else {
        // User-mode Linux, whatever its file is called.
        command.iter().find_map(|word| word.strip_prefix("umid="))?
    };
    let name = shortened(name);
    let id = match uid {
        0 => format!("vm:{name}"),
        uid => format!("vm:{name}@{uid}"),
    };
    Some(Owner::new(OwnerKind::Vm, id, name))
}

/// A name of a length that a file of many rows can bear.
fn shortened(name: &str) -> &str {
    let mut end = name.len().min(NAME_MAX);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    &name[..end]
}

/// Owner by a group's path, where it is a virtual machine or a container.
fn machine_group(path: &str) -> Option<Owner> {
    known_group(path).filter(|owner| matches!(owner.kind, OwnerKind::Vm | OwnerKind::Container))
}

/// Owner by a group's path, if it says one.
fn known_group(path: &str) -> Option<Owner> {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let (at, mut owner) = machine_or_container(&parts).or_else(|| unit(&parts))?;
    if owner.id.is_empty() {
        owner.id = format!("/{}", parts[..=at].join("/"));
    }
    Some(owner)
}

/// The outermost virtual machine or container of a path, and which part of it that is.
fn machine_or_container(parts: &[&str]) -> Option<(usize, Owner)> {
    parts.iter().enumerate().find_map(|(at, part)| {
        let before = at.checked_sub(1).map(|before| parts[before]);
        let owner = machine_scope(part, before).or_else(|| container(part, &parts[..at]))?;
        Some((at, owner))
    })
}

/// Groups that systemd-machined, libvirt, Proxmox and LXC make.
fn machine_scope(part: &str, before: Option<&str>) -> Option<Owner> {
    let vm = |name: &str| Owner::new(OwnerKind::Vm, format!("vm:{name}"), name);
    let held = |name: &str| Owner::new(OwnerKind::Container, format!("container:{name}"), name);
    // qemu-3-web1: its number in libvirt is another after each start.
    let numbered = |text: &str, driver: &str| {
        let (number, name) = text.strip_prefix(driver)?.split_once('-')?;
        number.parse::<u32>().ok().map(|_| name.to_owned())
    };
    if let Some(scope) = part
        .strip_prefix("machine-")
        .and_then(|it| it.strip_suffix(".scope"))
    {
        let name = unescape(scope);
        return Some(match numbered(&name, "qemu-") {
            Some(name) => vm(&name),
            None => held(&numbered(&name, "lxc-").unwrap_or(name)),
        });
    }
    if let Some(name) = part.strip_suffix(".libvirt-qemu") {
        return Some(vm(
            &numbered(name, "qemu-").unwrap_or_else(|| name.to_owned())
        ));
    }
    if before == Some("qemu.slice") {
        return part.strip_suffix(".scope").map(vm);
    }
    if let Some(name) = part.strip_prefix("systemd-nspawn@") {
        return Some(held(&unescape(name.strip_suffix(".service")?)));
    }
    if let Some(name) = part.strip_prefix("lxc.payload.") {
        return Some(held(name));
    }
    (matches!(before, Some("lxc" | "lxc.payload")) && !part.contains('.')).then(|| held(part))
}

/// Digits of a container's id.
const CONTAINER_DIGITS: usize = 64;
/// As many as people write of it.
const SHORT_DIGITS: usize = 12;

/// `docker-ID.scope`, `cri-containerd-ID.scope`, `crio-ID.scope`, `libpod-ID.scope`, or
/// the digits alone.
fn container(part: &str, before: &[&str]) -> Option<Owner> {
    let part = part.strip_suffix(".scope").unwrap_or(part);
    let (prefix, id) = match part.len().checked_sub(CONTAINER_DIGITS) {
        Some(at) if part.is_char_boundary(at) => part.split_at(at),
        _ => return None,
    };
    let is_id = id.bytes().all(|byte| byte.is_ascii_hexdigit());
    let is_apart = prefix.is_empty() || prefix.ends_with(['-', ':']);
    if !is_id || !is_apart || prefix.contains("conmon") {
        return None;
    }
    let short = &id[..SHORT_DIGITS];
    let name = match before.iter().rev().find_map(|part| pod(part)) {
        Some(pod) => format!("pod {pod}/{short}"),
        None => short.to_owned(),
    };
    Some(Owner::new(
        OwnerKind::Container,
        format!("container:{id}"),
        name,
    ))
}

/// The first digits of a pod's id: `kubepods-burstable-pod1a2b_3c.slice`, `pod1a2b-3c`.
fn pod(part: &str) -> Option<&str> {
    let part = part.strip_suffix(".slice").unwrap_or(part);
    let at = match part.rfind("-pod") {
        Some(at) => at + 4,
        None => part.starts_with("pod").then_some(3)?,
    };
    let digits = part[at..].split(['-', '_']).next()?;
    let is_id = digits.len() >= 8 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_id.then(|| &digits[..8])
}

/// The unit, or the user, that a path of systemd's names.
fn unit(parts: &[&str]) -> Option<(usize, Owner)> {
    let user = parts.iter().position(|part| user_of_slice(part).is_some());
    let below = user.map_or(0, |at| at + 1);
    let is_sessions = |part: &str| {
        user.is_some()
            && (part.starts_with("session-") || part.starts_with("user@") || part == "init.scope")
    };
    let found = parts.iter().enumerate().skip(below).find_map(|(at, part)| {
        let kind = match part {
            part if is_sessions(part) => return None,
            part if part.ends_with(".service") => OwnerKind::Service,
            part if part.ends_with(".scope") => OwnerKind::Scope,
            _ => return None,
        };
        Some((at, Owner::new(kind, "", unescape(part))))
    });
    found.or_else(|| {
        let at = user?;
        let name = format!("user {}", user_of_slice(parts[at])?);
        Some((at, Owner::new(OwnerKind::User, "", name)))
    })
}

fn user_of_slice(part: &str) -> Option<u32> {
    part.strip_prefix("user-")?
        .strip_suffix(".slice")?
        .parse()
        .ok()
}

/// A name without systemd's escapes: `\x2d` is a dash.
fn unescape(name: &str) -> String {
    let hex = |code: &[u8]| {
        let digits = std::str::from_utf8(code.strip_prefix(b"x")?).ok()?;
        u8::from_str_radix(digits, 16).ok()
    };
    String::from_utf8_lossy(&unescape_bytes(name.as_bytes(), hex)).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_in_other_letters_is_no_container() {
        let digits = "0123456789abcdef".repeat(4);
        let id = container(&format!("docker-{digits}.scope"), &[])
            .unwrap()
            .id;
        assert!(id.contains(&digits), "{id}");
        assert!(container(&format!("\u{e9}{}", &digits[1..]), &[]).is_none());
    }

    #[test]
    fn sessions_and_virtual_machines_of_users_are_a_users() {
        for (kind, id, expected) in [
            (
                OwnerKind::Service,
                "/user.slice/user-1000.slice/app.service",
                true,
            ),
            (OwnerKind::Service, "/system.slice/ssh.service", false),
            (OwnerKind::Vm, "vm:web@1000", true),
            (OwnerKind::Vm, "vm:web", false),
            (
                OwnerKind::Service,
                "/system.slice/getty@tty1.service",
                false,
            ),
        ] {
            assert_eq!(Owner::new(kind, id, "").is_a_users(), expected, "{id}");
        }
    }

    #[test]
    fn pods_are_named_by_what_their_runtime_wrote_down() {
        let containerd = r#"{"annotations": {"io.kubernetes.cri.sandbox-namespace": "shop",
            "io.kubernetes.cri.sandbox-name": "web-6d4f-x2x9z",
            "io.kubernetes.cri.image-name": "registry.example/web:3"}}"#;
        let pod = Pod::parse(containerd).unwrap();
        assert_eq!(
            pod.to_string(),
            "shop/web-6d4f-x2x9z registry.example/web:3"
        );
        let crio = r#"{"annotations": {"io.kubernetes.pod.namespace": "a",
            "io.kubernetes.pod.name": "b"}}"#;
        assert_eq!(Pod::parse(crio).unwrap().to_string(), "a/b");
        for none in [
            "",
            "{}",
            "[]",
            r#"{"annotations": {"io.kubernetes.pod.name": "b"}}"#,
        ] {
            assert_eq!(Pod::parse(none), None);
        }
    }

    const ID: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    /// The owner of a process with these lines of `/proc/PID/cgroup`, command line and user.
    fn owner(groups: &str, command: &str, uid: &str) -> Owner {
        let groups = match groups.starts_with('/') {
            true => format!("0::{groups}\n"),
            false => groups.replace("; ", "\n") + "\n",
        };
        let (_dir, host) = Host::planted(&[
            ("/proc/77/cgroup", &*groups.replace("ID", ID)),
            ("/proc/77/cmdline", &command.replace(' ', "\0")),
            (
                "/proc/77/status",
                &format!("Name:\tx\nUid:\t{uid}\t0\t0\t0\n"),
            ),
        ]);
        Owner::of_process(&host, 77, &mut PatientReader::default()).0
    }

    /// Each line: control groups, a path alone in version 2's hierarchy; command line; user; and
    /// whose the process is, by kind, id and name.
    #[test]
    fn whose_a_process_is() {
        let mut wrong = String::new();
        for line in include_str!("owners.txt").lines().skip(1) {
            let (given, told) = line.split_once(" => ").unwrap();
            let fields: Vec<&str> = given.split(" | ").collect();
            let found = owner(fields[0], fields[1], fields[2]);
            let found = format!("{} | {} | {}", found.kind.as_str(), found.id, found.name);
            if found.replace(ID, "ID").replace(&ID[..12], "SHORT") != told {
                wrong += &format!("{given} => {found}\n");
            }
        }
        assert!(wrong.is_empty(), "{wrong}");
    }

    #[test]
    fn escapes_that_are_none_stay() {
        assert_eq!(unescape("a\\x2db\\x"), "a-b\\x");
        assert_eq!(unescape("\\x\u{e9}9"), "\\x\u{e9}9");
        assert_eq!(unescape("\\x2"), "\\x2");
    }

    #[test]
    fn a_command_line_claims_no_room() {
        let found = owner(
            "/user.slice",
            &format!("./a umid={}", "x".repeat(100_000)),
            "1000",
        );
        assert_eq!(
            (found.name.len(), found.id.len()),
            (NAME_MAX, NAME_MAX + "vm:@1000".len())
        );
    }
}
