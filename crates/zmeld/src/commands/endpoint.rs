//! The metrics endpoint: GET /metrics, answered until it is dropped.
//!
//! Whoever can reach it can connect and stay silent. So there are few connections at
//! a time, each has a deadline, and a connection that cannot be taken (no descriptors
//! left) is one that was not taken: the next is.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::Context;
use rustix::event::{poll, PollFd, PollFlags, Timespec};
use zmeld_linux::Host;
use zmeld_swap::config::Config;
use zmeld_swap::metrics;

use super::metrics::text_for_others;

/// So many are answered at a time; Prometheus is one.
const CONNECTIONS_MAX: usize = 16;
/// For a connection from its first byte to its last.
const DEADLINE: Duration = Duration::from_secs(5);
/// A request's head is not longer.
const HEAD_BYTES_MAX: usize = 8 << 10;
/// How often it is looked whether the endpoint is over, and how long it waits where
/// connections cannot be taken.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// An endpoint that answers until it is dropped.
pub struct Endpoint {
    over: Arc<AtomicBool>,
    worker: Option<JoinHandle<()>>,
    /// Where it listens, with the port that the system chose for port 0.
    pub address: SocketAddr,
}

/// What is told, and to how many just now.
struct Service {
    host: Host,
    config: Config,
    connections: AtomicUsize,
}

impl Endpoint {
    /// Answers GET /metrics with what the host's memory is like at that moment.
    pub fn open(address: SocketAddr, host: Host, config: Config) -> anyhow::Result<Endpoint> {
        let what = || format!("cannot listen on {address}");
        let listener = TcpListener::bind(address).with_context(what)?;
        listener.set_nonblocking(true).with_context(what)?;
        let address = listener.local_addr().unwrap_or(address);
        let over = Arc::new(AtomicBool::new(false));
        let service = Arc::new(Service {
            host,
            config,
            connections: AtomicUsize::new(0),
        });
        let worker = thread::spawn({
            let over = Arc::clone(&over);
            move || {
                while !over.load(Ordering::SeqCst) {
                    take(&listener, &service);
                }
            }
        });
        Ok(Endpoint {
            over,
            worker: Some(worker),
            address,
        })
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        self.over.store(true, Ordering::SeqCst);
        if let Some(worker) = self.worker.take() {
            let _ = worker.join();
        }
    }
}

/// Takes the next connection, if one comes soon. What goes wrong with it is its own
/// business.
fn take(listener: &TcpListener, service: &Arc<Service>) {
    let mut polled = [PollFd::new(listener, PollFlags::IN)];
    let limit = Timespec {
        tv_sec: 0,
        tv_nsec: LOOK_EVERY.subsec_nanos().into(),
    };
    // Interrupted, or nobody came: the caller comes again.
    if poll(&mut polled, Some(&limit)).unwrap_or(0) == 0 {
        return;
    }
    match listener.accept() {
        Ok((stream, _)) => {
            let before = service.connections.fetch_add(1, Ordering::SeqCst);
            let counted = Counted(Arc::clone(service));
            if before < CONNECTIONS_MAX {
                // Where there can be no thread, it is closed.
                let _ = thread::Builder::new().spawn(move || serve(stream, &counted.0));
            }
        }
        Err(err) if err.kind() == ErrorKind::WouldBlock => {}
        // No descriptors are left: the ones that wait would be found again at once.
        Err(_) => thread::sleep(LOOK_EVERY),
    }
}

/// A connection that counts until it is dropped.
struct Counted(Arc<Service>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::SeqCst);
    }
}

fn serve(mut stream: TcpStream, service: &Service) {
    let until = Instant::now() + DEADLINE;
    let Ok(head) = head(&mut stream, until) else {
        return;
    };
    let answer = answer(&head, service);
    if let Some(left) = left(until) {
        let _ = stream.set_write_timeout(Some(left));
        let _ = stream.write_all(&answer);
        let _ = stream.shutdown(Shutdown::Write);
        // Closed with bytes unread, the answer could be lost.
        let mut rest = [0; 1024];
        while timed_read(&mut stream, &mut rest, until).is_ok_and(|count| count > 0) {}
    }
}

fn left(until: Instant) -> Option<Duration> {
    let left = until.saturating_duration_since(Instant::now());
    (!left.is_zero()).then_some(left)
}

fn timed_read(stream: &mut TcpStream, bytes: &mut [u8], until: Instant) -> io::Result<usize> {
    let left = left(until).ok_or(ErrorKind::TimedOut)?;
    stream.set_read_timeout(Some(left))?;
    stream.read(bytes)
}

/// The head of a request, up to the empty line.
fn head(stream: &mut TcpStream, until: Instant) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    let mut bytes = [0; 1024];
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        let count = timed_read(stream, &mut bytes, until)?;
        if count == 0 || head.len() + count > HEAD_BYTES_MAX {
            return Err(ErrorKind::InvalidData.into());
        }
        head.extend_from_slice(&bytes[..count]);
    }
    Ok(head)
}

fn answer(head: &[u8], service: &Service) -> Vec<u8> {
    const PLAIN: &str = "text/plain";
    let line = head.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let line = String::from_utf8_lossy(line);
    let mut words = line.split(' ');
    let (method, target) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
    let (status, kind, body) = match (method, target.split('?').next().unwrap_or("")) {
        ("GET" | "HEAD", "/metrics") => (
            "200 OK",
            metrics::CONTENT_TYPE,
            text_for_others(&service.host, &service.config),
        ),
        ("GET" | "HEAD", "/") => ("200 OK", PLAIN, "zmeld: see /metrics\n".to_owned()),
        ("GET" | "HEAD", _) => ("404 Not Found", PLAIN, "see /metrics\n".to_owned()),
        _ => (
            "405 Method Not Allowed",
            PLAIN,
            "only GET is answered\n".to_owned(),
        ),
    };
    let mut text = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: \
         close\r\n\r\n",
        body.len()
    );
    if method != "HEAD" {
        text.push_str(&body);
    }
    text.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint() -> (tempfile::TempDir, Endpoint) {
        let dir = tempfile::tempdir().unwrap();
        let host = Host::at(dir.path());
        let local = "127.0.0.1:0".parse().unwrap();
        let endpoint = Endpoint::open(local, host, Config::default()).unwrap();
        (dir, endpoint)
    }

    fn ask(address: SocketAddr, request: &str) -> String {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut text = String::new();
        // Refused, it may be reset.
        let _ = stream.read_to_string(&mut text);
        text
    }

    #[test]
    fn it_answers_what_it_has() {
        let (_dir, endpoint) = endpoint();
        for (request, status, body) in [
            (
                "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n",
                "200",
                "zmeld_findings{",
            ),
            (
                "GET /metrics?x=y HTTP/1.0\r\n\r\n",
                "200",
                "zmeld_findings{",
            ),
            ("GET / HTTP/1.1\r\n\r\n", "200", "see /metrics"),
            ("GET /else HTTP/1.1\r\n\r\n", "404", "see /metrics"),
            (
                "POST /metrics HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc",
                "405",
                "only GET",
            ),
        ] {
            let text = ask(endpoint.address, request);
            assert!(text.starts_with(&format!("HTTP/1.1 {status} ")), "{text}");
            assert!(text.contains(body), "{text}");
        }
        let text = ask(endpoint.address, "HEAD /metrics HTTP/1.1\r\n\r\n");
        assert!(
            text.ends_with("\r\n\r\n") && text.contains("Content-Length: "),
            "{text}"
        );
        let long = format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(HEAD_BYTES_MAX));
        assert_eq!(ask(endpoint.address, &long), "");
    }

    /// More than there may be connections stay silent: they are closed, and it answers
    /// whoever comes after them.
    #[test]
    fn silent_connections_do_not_end_it() {
        let (_dir, endpoint) = endpoint();
        let silent: Vec<TcpStream> = (0..CONNECTIONS_MAX * 4)
            .map(|_| TcpStream::connect(endpoint.address).unwrap())
            .collect();
        let request = "GET / HTTP/1.1\r\n\r\n";
        // Those that are too many are closed at once; the others, too, in the end.
        for mut stream in silent {
            let mut byte = [0];
            stream.set_read_timeout(Some(DEADLINE * 10)).unwrap();
            assert!(!matches!(stream.read(&mut byte), Ok(1)));
        }
        let begin = Instant::now();
        while !ask(endpoint.address, request).contains("see /metrics") {
            assert!(begin.elapsed() < DEADLINE * 10, "it answers no more");
        }
    }
}
