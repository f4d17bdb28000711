//! `zmeld top` on a terminal of its own: it leaves the terminal as it was however it ends.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, ExitStatus, Stdio};

use nix::fcntl::{fcntl, FcntlArg, FdFlag};
use nix::pty::{openpty, Winsize};
use nix::sys::signal::{kill, Signal};
use nix::sys::termios::{tcgetattr, Termios};
use nix::unistd::Pid;

use crate::run::wait_until;

const ENTER: &str = "\x1b[?1049h";
const LEAVE: &str = "\x1b[?1049l";
const SHOW_CURSOR: &str = "\x1b[?25h";

const SIZE: Winsize = Winsize {
    ws_row: 24,
    ws_col: 80,
    ws_xpixel: 0,
    ws_ypixel: 0,
};

/// The command on a terminal of 80 columns and 24 lines, which it has drawn on.
struct Screen {
    child: Child,
    master: File,
    slave: OwnedFd,
    before: Termios,
    said: Vec<u8>,
}

impl Screen {
    /// `shell` runs the command, its `$@`.
    fn open(shell: &str) -> Screen {
        let pty = openpty(&SIZE, None).unwrap();
        // The child would hold the terminal itself.
        fcntl(&pty.master, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC)).unwrap();
        let before = tcgetattr(&pty.slave).unwrap();
        let side = || Stdio::from(pty.slave.try_clone().unwrap());
        // So that closing the terminal is told by a signal, as it is to people.
        let child = Command::new("setsid")
            .args(["--ctty", "sh", "-c", shell, "sh"])
            .args([env!("CARGO_BIN_EXE_zmeld"), "top", "--interval", "0.2"])
            .env("TERM", "xterm-256color")
            .env("LC_ALL", "C.UTF-8")
            .env_remove("NO_COLOR")
            .stdin(side())
            .stdout(side())
            .stderr(side())
            .spawn()
            .unwrap();
        let mut screen = Screen {
            child,
            master: File::from(pty.master),
            slave: pty.slave,
            before,
            said: Vec::new(),
        };
        while !String::from_utf8_lossy(&screen.said).contains("quit") {
            let mut buffer = [0; 4096];
            let count = screen.master.read(&mut buffer).unwrap();
            screen.said.extend_from_slice(&buffer[..count]);
        }
        screen
    }

    fn press(&mut self, keys: &str) {
        self.master.write_all(keys.as_bytes()).unwrap();
    }

    fn signal(&mut self, signal: Signal) {
        kill(Pid::from_raw(self.child.id() as i32), signal).unwrap();
    }
}

fn end_of(child: &mut Child, what: &str) -> ExitStatus {
    wait_until(what, || child.try_wait().unwrap().is_some());
    child.wait().unwrap()
}

#[test]
fn the_terminal_is_restored_however_it_ends() {
    type Act = fn(&mut Screen);
    let ways: [(&str, Act); 6] = [
        ("q", |screen| screen.press("q")),
        ("the key Ctrl-C", |screen| screen.press("\x03")),
        ("keys before", |screen| screen.press("+- \x1b")),
        ("SIGINT", |screen| screen.signal(Signal::SIGINT)),
        ("SIGTERM", |screen| screen.signal(Signal::SIGTERM)),
        ("SIGHUP", |screen| screen.signal(Signal::SIGHUP)),
    ];
    for (name, act) in ways {
        let mut screen = Screen::open("exec \"$@\"");
        let raw = tcgetattr(&screen.slave).unwrap();
        assert_ne!(raw, screen.before, "{name}: keys come one by one");
        act(&mut screen);
        let status = end_of(&mut screen.child, name);
        assert!(status.success(), "{name}: {status}");
        assert_eq!(tcgetattr(&screen.slave).unwrap(), screen.before);
        drop(screen.slave);
        // Ends with an error, since nobody holds the other side any more.
        let _ = screen.master.read_to_end(&mut screen.said);
        let said = String::from_utf8_lossy(&screen.said);
        let enter = said.find(ENTER).expect("it takes the screen");
        for back in [LEAVE, SHOW_CURSOR] {
            assert!(said.rfind(back).is_some_and(|at| at > enter), "{name}");
        }
    }
}

#[test]
fn it_ends_when_the_terminal_goes_away() {
    // Somebody who does not hear the signal, as under nohup, ends too.
    for shell in ["exec \"$@\"", "trap '' HUP; exec \"$@\""] {
        let mut screen = Screen::open(shell);
        drop(screen.master);
        end_of(&mut screen.child, shell);
    }
}
