//! `zmeld top` on a terminal of its own: it leaves the terminal as it was however it ends.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use nix::fcntl::{fcntl, FcntlArg, FdFlag};
use nix::pty::{openpty, Winsize};
use nix::sys::signal::{kill, Signal};
use nix::sys::termios::{tcgetattr, Termios};
use nix::unistd::Pid;

const ENTER: &str = "\x1b[?1049h";
const LEAVE: &str = "\x1b[?1049l";
const SHOW_CURSOR: &str = "\x1b[?25h";

const SIZE: Winsize = Winsize {
    ws_row: 24,
    ws_col: 80,
    ws_xpixel: 0,
    ws_ypixel: 0,
};

/// The command on a terminal of 80 columns and 24 lines.
struct Screen {
    child: Child,
    keys: File,
    slave: OwnedFd,
    before: Termios,
    said: Arc<Mutex<Vec<u8>>>,
}

impl Screen {
    fn open() -> Screen {
        let pty = openpty(&SIZE, None).unwrap();
        let before = tcgetattr(&pty.slave).unwrap();
        let side = || Stdio::from(pty.slave.try_clone().unwrap());
        // So that closing the terminal is told by a signal, as it is to people.
        let mut command = Command::new("setsid");
        command
            .args(["--ctty", env!("CARGO_BIN_EXE_zmeld"), "top"])
            .args(["--interval", "0.2"])
            .env("TERM", "xterm-256color")
            .env("LC_ALL", "C.UTF-8")
            .env_remove("NO_COLOR")
            .stdin(side())
            .stdout(side())
            .stderr(side());
        let child = command.spawn().unwrap();
        let said = Arc::new(Mutex::new(Vec::new()));
        let mut master = File::from(pty.master);
        let keys = master.try_clone().unwrap();
        std::thread::spawn({
            let said = Arc::clone(&said);
            move || {
                let mut buffer = [0; 4096];
                while let Ok(count @ 1..) = master.read(&mut buffer) {
                    let mut said = said.lock().unwrap();
                    said.extend_from_slice(&buffer[..count]);
                }
            }
        });
        Screen {
            child,
            keys,
            slave: pty.slave,
            before,
            said,
        }
    }

    fn said(&self) -> String {
        String::from_utf8_lossy(&self.said.lock().unwrap()).into_owned()
    }

    /// Until it has drawn a few times.
    fn drawn(&self) {
        let begin = Instant::now();
        while !self.said().contains("quit") {
            assert!(begin.elapsed() < Duration::from_secs(20), "{}", self.said());
            std::thread::sleep(Duration::from_millis(20));
        }
        std::thread::sleep(Duration::from_millis(600));
    }

    fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id() as i32), signal).unwrap();
    }

    fn end(&mut self) -> ExitStatus {
        let begin = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                std::thread::sleep(Duration::from_millis(100));
                return status;
            }
            if begin.elapsed() > Duration::from_secs(20) {
                self.child.kill().unwrap();
                panic!("it does not end");
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn is_restored(&self) {
        assert_eq!(tcgetattr(&self.slave).unwrap(), self.before);
        let said = self.said();
        let enter = said.find(ENTER).expect("it takes the screen");
        let leave = said.rfind(LEAVE).expect("it gives the screen back");
        assert!(leave > enter);
        assert!(said.rfind(SHOW_CURSOR).is_some_and(|at| at > enter));
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // Where a test failed, it still runs.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
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
        let mut screen = Screen::open();
        screen.drawn();
        assert_ne!(
            tcgetattr(&screen.slave).unwrap(),
            screen.before,
            "{name}: keys come one by one"
        );
        act(&mut screen);
        let status = screen.end();
        assert!(status.success(), "{name}: {status} {:?}", screen.said());
        screen.is_restored();
    }
}

#[test]
fn it_ends_when_the_terminal_goes_away() {
    // Somebody who does not hear the signal, as under nohup, ends too.
    for ignored in [false, true] {
        let pty = openpty(&SIZE, None).unwrap();
        // The child would hold the terminal itself.
        fcntl(&pty.master, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC)).unwrap();
        let side = || Stdio::from(pty.slave.try_clone().unwrap());
        let mut command = Command::new("setsid");
        command.args(["--ctty"]);
        if ignored {
            command.args(["sh", "-c", "trap '' HUP; exec \"$0\" top"]);
        }
        command.arg(env!("CARGO_BIN_EXE_zmeld"));
        if !ignored {
            command.arg("top");
        }
        let mut child = command
            .env("TERM", "xterm")
            .stdin(side())
            .stdout(side())
            .stderr(side())
            .spawn()
            .unwrap();
        drop((command, pty.slave));
        let mut master = File::from(pty.master);
        let mut said = Vec::new();
        while !said.windows(4).any(|window| window == b"quit") {
            let mut buffer = [0; 4096];
            let count = master.read(&mut buffer).unwrap();
            said.extend_from_slice(&buffer[..count]);
        }
        drop(master);
        let begin = Instant::now();
        while child.try_wait().unwrap().is_none() {
            if begin.elapsed() > Duration::from_secs(10) {
                child.kill().unwrap();
                panic!("it goes on without a terminal (signal ignored: {ignored})");
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}
