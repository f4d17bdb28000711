//! `zmeld scan --survey` into object stores: what is sent, what becomes of every answer,
//! and that no survey is lost and no secret told. The store is a few lines here.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nix::sys::signal::{kill, Signal};
use nix::unistd::Pid;
use parquet::file::reader::{FileReader, SerializedFileReader};

use crate::run::*;
use crate::survey::{calm, files, key_in};

const SECRET: &str = "wJalrXUtnFEMIsecret";

/// A request as it came.
#[derive(Clone, Debug)]
struct Request {
    method: String,
    /// With its query, percent-encoding undone.
    path: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Request {
    fn read(stream: &TcpStream) -> Option<Request> {
        let mut reader = BufReader::new(stream);
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let mut words = line.split(' ');
        let (method, path) = (words.next()?.to_owned(), decoded(words.next()?));
        let mut headers = Vec::new();
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).ok()?;
            let Some((name, value)) = line.trim_end().split_once(": ") else {
                break;
            };
            headers.push((name.to_ascii_lowercase(), value.to_owned()));
        }
        let mut request = Request {
            method,
            path,
            headers,
            body: Vec::new(),
        };
        let length = request.header("content-length").parse().unwrap_or(0);
        request.body = vec![0; length];
        reader.read_exact(&mut request.body).ok()?;
        Some(request)
    }

    fn header(&self, name: &str) -> &str {
        let found = self.headers.iter().find(|(known, _)| known == name);
        found.map_or("", |(_, value)| value)
    }
}

fn decoded(text: &str) -> String {
    let mut parts = text.split('%');
    let mut all = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (code, rest) = part.split_at(2);
        all.push(u8::from_str_radix(code, 16).unwrap() as char);
        all.push_str(rest);
    }
    all
}

/// A status and a body; none: the connection ends without an answer.
type Answer = Option<(u16, Vec<u8>)>;

/// What a list with nothing in it is.
fn nothing() -> Answer {
    let list = "<?xml version=\"1.0\"?><ListBucketResult><Name>fleet</Name>\
                <IsTruncated>false</IsTruncated></ListBucketResult>";
    Some((200, list.into()))
}

fn error(status: u16, code: &str) -> Answer {
    let body = format!(
        "<?xml version=\"1.0\"?><Error><Code>{code}</Code>\
         <StringToSign>{SECRET}</StringToSign></Error>"
    );
    Some((status, body.into()))
}

/// An object store that answers as it is told, the list of names aside.
struct Store {
    address: String,
    requests: Arc<Mutex<Vec<Request>>>,
}

impl Store {
    /// `answer` is asked with every request but the first list, and with those before it.
    fn start(answer: impl Fn(&Request, &[Request]) -> Answer + Send + 'static) -> Store {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let requests = Arc::<Mutex<Vec<Request>>>::default();
        let seen = Arc::clone(&requests);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let Some(request) = Request::read(&stream) else {
                    continue;
                };
                let mut seen = seen.lock().unwrap();
                let answered = answer(&request, &seen);
                seen.push(request);
                if let Some((status, body)) = answered {
                    let head = format!(
                        "HTTP/1.1 {status} Some\r\nconnection: close\r\netag: \"1\"\r\n\
                         last-modified: Mon, 23 Nov 2026 01:32:23 GMT\r\n\
                         content-length: {}\r\n\r\n",
                        body.len()
                    );
                    let _ = stream.write_all(&[head.as_bytes(), &body].concat());
                }
            }
        });
        Store { address, requests }
    }

    /// One that lists nothing, and answers puts.
    fn with_puts(answer: impl Fn(usize) -> Answer + Send + 'static) -> Store {
        Store::start(move |request, before| match request.method.as_str() {
            "PUT" => answer(before.iter().filter(|it| it.method == "PUT").count()),
            _ => nothing(),
        })
    }

    fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }

    fn puts(&self) -> Vec<Request> {
        let mut all = self.requests();
        all.retain(|request| request.method == "PUT");
        all
    }
}

/// A fleet's key, a process to survey, and a folder for what is not sent.
struct Machine {
    folder: tempfile::TempDir,
    key: PathBuf,
    process: Child,
}

impl Machine {
    fn new() -> Machine {
        let folder = folder();
        let key = key_in(folder.path());
        let process = Command::new("sleep").arg("600").spawn().unwrap();
        Machine {
            folder,
            key,
            process,
        }
    }

    /// A command that finds the store, and nothing of the environment's stores.
    fn zmeld(&self, store: &Store, args: &[&str]) -> Command {
        let mut command = zmeld(args);
        for (name, _) in std::env::vars() {
            let is_theirs = ["AWS_", "AZURE_", "GOOGLE_"]
                .iter()
                .any(|it| name.starts_with(it));
            if is_theirs || name.to_ascii_lowercase().ends_with("_proxy") {
                command.env_remove(name);
            }
        }
        let url = format!("http://{}", store.address);
        command
            .env("STATE_DIRECTORY", self.folder.path())
            .env("AWS_ENDPOINT_URL", &url)
            .env("AWS_ALLOW_HTTP", "true")
            .env("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
            .env("AWS_SECRET_ACCESS_KEY", SECRET)
            .env("AZURE_STORAGE_ENDPOINT", format!("{url}/account"))
            .env("AZURE_ALLOW_HTTP", "true")
            .env("AZURE_STORAGE_ACCOUNT_NAME", "account")
            .env("AZURE_STORAGE_ACCOUNT_KEY", "c2VjcmV0")
            .env("GOOGLE_BASE_URL", &url)
            .env("GOOGLE_ALLOW_HTTP", "true")
            .env("GOOGLE_BEARER_TOKEN", SECRET);
        command
    }

    /// A survey of the process.
    fn scan(&self, store: &Store, place: &str, more: &[&str]) -> Command {
        let (pid, key) = (self.process.id().to_string(), str(&self.key));
        let args = ["scan", "--survey", place, "--key", key, "--pid", &pid];
        self.zmeld(store, &[&args[..], more].concat())
    }

    fn survey(&self, store: &Store, place: &str, more: &[&str]) -> Output {
        calm(|| self.scan(store, place, more).output().unwrap())
    }

    /// A survey that is there already.
    fn send(&self, store: &Store, place: &str, file: &Path) -> Output {
        let args = ["scan", "--survey", place, "--survey-put", str(file)];
        self.zmeld(store, &args).output().unwrap()
    }

    fn kept(&self) -> Vec<PathBuf> {
        files(&self.folder.path().join("unsent"))
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Refused in one line with these words, and no secret.
fn is_refused(output: &Output, words: &[&str]) -> String {
    let said = text(&output.stderr);
    assert_eq!((code(output), said.lines().count()), (2, 1), "{said}");
    for word in words {
        assert!(said.contains(word), "{word}: {said}");
    }
    assert!(!said.contains("secret") && !said.contains("AKID"), "{said}");
    said
}

#[test]
fn a_survey_is_one_put_that_replaces_nothing() {
    let machine = Machine::new();
    let ok = || Some((200, Vec::new()));
    for (place, below, header) in [
        ("s3://fleet/prod/", "/fleet/prod/", ("if-none-match", "*")),
        ("az://fleet", "/account/fleet/", ("if-none-match", "*")),
        (
            "gs://fleet/a/b",
            "/fleet/a/b/",
            ("x-goog-if-generation-match", "0"),
        ),
    ] {
        // Azure says that something was made, and lists in words of its own.
        let store = Store::start(move |request, _| match (request.method.as_str(), place) {
            ("PUT", "az://fleet") => Some((201, Vec::new())),
            ("PUT", _) => ok(),
            (_, "az://fleet") => {
                let list =
                    "<?xml version=\"1.0\"?><EnumerationResults><Blobs /></EnumerationResults>";
                Some((200, list.into()))
            }
            _ => nothing(),
        });
        let output = machine.survey(&store, place, &["--json"]);
        assert_eq!(code(&output), 0, "{}", text(&output.stderr));
        let result: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let requests = store.requests();
        let methods: Vec<&str> = requests.iter().map(|it| it.method.as_str()).collect();
        assert_eq!(methods, ["GET", "PUT"], "{requests:?}");
        let put = &requests[1];
        assert_eq!(put.header(header.0), header.1);
        assert!(!put.header("authorization").is_empty());
        let name = put.path.strip_prefix(below).unwrap();
        assert!(name.starts_with("zmeld-survey-1/date="), "{name}");
        let file = result["file"].as_str().unwrap();
        assert_eq!(file, format!("{}/{name}", place.trim_end_matches('/')));
        assert_eq!(result["file_bytes"], put.body.len());
        let copy = write(machine.folder.path(), "copy.parquet", &put.body);
        let reader = SerializedFileReader::new(File::open(copy).unwrap()).unwrap();
        assert!(reader.metadata().file_metadata().num_rows() > 1);
        assert!(machine.kept().is_empty());
    }
}

#[test]
fn a_store_that_is_busy_or_loses_its_answer_is_asked_again() {
    let machine = Machine::new();
    let busy = Store::with_puts(|puts| match puts {
        0 => error(503, "SlowDown"),
        _ => Some((200, Vec::new())),
    });
    let output = machine.survey(&busy, "s3://fleet", &["--quiet"]);
    assert_eq!(code(&output), 0, "{}", text(&output.stderr));
    assert_eq!(text(&output.stdout) + &text(&output.stderr), "", "quiet");
    let puts = busy.puts();
    assert_eq!(puts.len(), 2);
    assert!(puts[0].path == puts[1].path && puts[0].body == puts[1].body);

    // The object was made, its answer lost; then it is there, and is the same.
    let lossy = Store::start(|request, before| match request.method.as_str() {
        "PUT" if before.iter().any(|it| it.method == "PUT") => error(412, "PreconditionFailed"),
        "PUT" => None,
        _ if request.path.contains(".parquet") => {
            let put = before.iter().find(|it| it.method == "PUT").unwrap();
            Some((200, put.body.clone()))
        }
        _ => nothing(),
    });
    let output = machine.survey(&lossy, "s3://fleet", &[]);
    assert_eq!(code(&output), 0, "{}", text(&output.stderr));
    assert_eq!(lossy.puts().len(), 2);
    assert!(machine.kept().is_empty());
}

#[test]
fn an_object_with_other_bytes_stays_and_rights_to_write_alone_are_enough() {
    for (found, expected) in [
        (Some((200, b"other".to_vec())), 2),
        (error(403, "AccessDenied"), 0),
    ] {
        let machine = Machine::new();
        let store = Store::start(move |request, _| match request.method.as_str() {
            "PUT" => error(412, "PreconditionFailed"),
            _ if request.path.contains(".parquet") => found.clone(),
            _ => error(403, "AccessDenied"),
        });
        let output = machine.survey(&store, "s3://fleet", &["--quiet"]);
        let said = text(&output.stderr);
        assert_eq!(code(&output), expected, "{said}");
        assert_eq!(machine.kept().len(), usize::from(expected == 2), "{said}");
        if expected == 2 {
            assert!(said.contains("another object has that name"), "{said}");
        }
    }
}

#[test]
fn what_a_store_refuses_is_kept_and_can_be_sent() {
    let machine = Machine::new();
    let closed = Store::with_puts(|_| error(403, "AccessDenied"));
    let output = machine.survey(&closed, "s3://fleet/prod", &[]);
    let kept = machine.kept();
    assert_eq!(kept.len(), 1);
    let path = str(&kept[0]);
    let way_out = format!("zmeld scan --survey s3://fleet/prod --survey-put {path} ");
    let words = [
        "s3://fleet/prod/zmeld-survey-1/date=",
        "127.0.0.1 answers 403",
        "(AccessDenied)",
        "AWS_SECRET_ACCESS_KEY",
        &way_out,
    ];
    is_refused(&output, &words);
    assert_eq!(
        fs::metadata(path).unwrap().permissions().mode() & 0o777,
        0o600
    );

    let open = Store::with_puts(|_| Some((200, Vec::new())));
    let output = machine.send(&open, "s3://fleet/prod", &kept[0]);
    assert_eq!(code(&output), 0, "{}", text(&output.stderr));
    let (first, second) = (&closed.puts()[0], &open.puts()[0]);
    assert!(first.path == second.path && first.body == second.body);
    assert_eq!(fs::read(path).unwrap(), second.body, "it stays");
    assert!(text(&output.stdout).contains("s3://fleet/prod/zmeld-survey-1/date="));

    // Into a folder, too; what is no survey goes nowhere.
    let place = machine.folder.path().join("place");
    let args = [
        "scan",
        "--survey",
        str(&place),
        "--survey-put",
        path,
        "--quiet",
    ];
    assert_eq!(code(&run(&args)), 0);
    let copies = files(&place);
    assert_eq!(fs::read(&copies[0]).unwrap(), second.body);
    let output = machine.send(&open, "s3://fleet", &machine.key);
    is_refused(&output, &["fleet.key", "its name is not that of a survey"]);
    assert_eq!(open.puts().len(), 1);
}

/// Looks at something until it is so; false after two minutes.
fn becomes(mut is_so: impl FnMut() -> bool) -> bool {
    (0..1200).any(|_| {
        std::thread::sleep(Duration::from_millis(100));
        is_so()
    })
}

#[test]
fn one_that_is_ended_while_a_store_does_not_answer_keeps_its_survey() {
    let machine = Machine::new();
    let is_put = Arc::<AtomicBool>::default();
    let heard = Arc::clone(&is_put);
    let store = Store::with_puts(move |_| {
        heard.store(true, Ordering::SeqCst);
        std::thread::sleep(Duration::from_secs(600));
        None
    });
    let start = || {
        let mut command = machine.scan(&store, "s3://fleet", &[]);
        command.stderr(Stdio::piped()).spawn().unwrap()
    };
    let mut child = start();
    let is_sent = becomes(|| {
        // Where memory was short.
        if child
            .try_wait()
            .unwrap()
            .is_some_and(|it| it.code() == Some(75))
        {
            child = start();
        }
        is_put.load(Ordering::SeqCst)
    });
    assert!(is_sent);
    kill(Pid::from_raw(child.id() as i32), Signal::SIGTERM).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = text(&output.stderr);
    assert_eq!(code(&output), 2, "{said}");
    for word in ["stopped before the store answered", "the survey is kept"] {
        assert!(said.contains(word), "{said}");
    }
    assert_eq!(machine.kept().len(), 1);
}

#[test]
fn every_goes_on_where_a_store_refuses_and_sends_what_was_kept_first() {
    let machine = Machine::new();
    let store = Store::start(|request, before| match request.method.as_str() {
        "PUT" if before.iter().filter(|it| it.method == "PUT").count() > 1 => {
            Some((200, Vec::new()))
        }
        _ => error(403, "AccessDenied"),
    });
    let mut command = machine.scan(&store, "s3://fleet", &["--every", "1s"]);
    command.env("ZMELD_TEST_EVERY", "1");
    let child = command.stdout(Stdio::null()).stderr(Stdio::piped());
    let child = child.spawn().unwrap();
    let is_enough = becomes(|| store.puts().len() > 3);
    let _ = kill(Pid::from_raw(child.id() as i32), Signal::SIGTERM);
    let output = child.wait_with_output().unwrap();
    let said = text(&output.stderr);
    assert!(is_enough, "{said}");
    assert!(matches!(code(&output), 0 | 130), "{said}");
    for word in [
        "the survey is kept",
        "no survey this time: ",
        "is there now",
    ] {
        assert!(said.contains(word), "{word}: {said}");
    }
    let puts = store.puts();
    let bodies: Vec<_> = puts.iter().map(|it| (&it.path, &it.body)).collect();
    assert!(bodies[0] == bodies[1] && bodies[0] == bodies[2], "{said}");
    assert!(
        bodies[0] != bodies[3],
        "another, once that was sent: {said}"
    );
    assert_eq!(machine.kept().len(), 0, "{said}");
}

#[test]
fn what_cannot_be_compared_is_not_called_needless() {
    let machine = Machine::new();
    let closed = Store::with_puts(|_| error(403, "AccessDenied"));
    machine.survey(&closed, "s3://fleet", &[]);
    let kept = machine.kept();
    let store = Store::start(|request, _| match request.method.as_str() {
        "PUT" => error(412, "PreconditionFailed"),
        _ => error(403, "AccessDenied"),
    });
    let output = machine.send(&store, "s3://fleet", &kept[0]);
    let said = text(&output.stdout);
    assert_eq!(code(&output), 0, "{}", text(&output.stderr));
    assert!(said.contains("was not compared"), "{said}");
    assert!(!said.contains("needed no more"), "{said}");
}

/// Where temporary files are a unit's own they go with it.
#[test]
fn in_a_unit_nothing_is_kept_among_temporary_files() {
    let machine = Machine::new();
    let store = Store::with_puts(|_| error(403, "AccessDenied"));
    let temporary = folder();
    let output = calm(|| {
        let mut command = machine.scan(&store, "s3://fleet", &[]);
        command.env("STATE_DIRECTORY", &machine.key);
        command.env("TMPDIR", temporary.path()).output().unwrap()
    });
    is_refused(&output, &["nor can the survey be kept here", "unsent"]);
    assert!(files(temporary.path()).is_empty());
}

#[test]
fn credentials_that_cannot_be_sent_are_named() {
    let machine = Machine::new();
    let store = Store::with_puts(|_| Some((200, Vec::new())));
    for name in ["AWS_ACCESS_KEY_ID", "AWS_SESSION_TOKEN"] {
        let mut command = machine.scan(&store, "s3://fleet", &[]);
        let output = command.env(name, "AKIDsecret\n").output().unwrap();
        is_refused(&output, &[name, "line break"]);
    }
    assert!(store.requests().is_empty());
}

#[test]
fn a_store_that_cannot_be_written_to_is_told_before_memory_is_read() {
    let machine = Machine::new();
    for (status, word, way_out) in [
        (404, "NoSuchBucket", "make fleet there"),
        (403, "InvalidAccessKeyId", "what they may do there"),
        (401, "Unauthorized", "what they may do there"),
    ] {
        let store = Store::start(move |_, _| error(status, word));
        let output = machine.survey(&store, "s3://fleet", &[]);
        let status = status.to_string();
        is_refused(
            &output,
            &["s3://fleet cannot be written to", &status, word, way_out],
        );
        assert!(store.puts().is_empty());
    }
    let store = Store::with_puts(|_| Some((200, Vec::new())));
    let mut command = machine.scan(&store, "s3://fleet", &[]);
    let output = command.env_remove("AWS_ALLOW_HTTP").output().unwrap();
    is_refused(&output, &["plain http", "AWS_ALLOW_HTTP=true"]);
    let mut command = machine.scan(&store, "s3://fleet", &[]);
    let output = command
        .env_remove("AWS_SECRET_ACCESS_KEY")
        .output()
        .unwrap();
    is_refused(&output, &["Missing SecretAccessKey"]);
    let wrong = format!("s3://AKID:{SECRET}@fleet/x");
    let output = machine.survey(&store, &wrong, &[]);
    is_refused(&output, &["s3://...", "environment"]);
    assert!(store.requests().is_empty() && machine.kept().is_empty());
    // A port where nobody listens any more.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    drop(listener);
    let gone = Store {
        address,
        requests: Arc::default(),
    };
    let mut command = machine.scan(&gone, "s3://fleet", &[]);
    let output = command.stdout(Stdio::piped()).output().unwrap();
    is_refused(
        &output,
        &["127.0.0.1 cannot be reached: Connection refused", "network"],
    );
}
