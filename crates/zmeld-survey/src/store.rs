//! Object stores: the one module that speaks with a network.
//!
//! A survey is one PUT that makes an object and never replaces one. The crate
//! `object_store` finds the credentials, signs, and tries again; between it and the
//! network a listener notes how the last request came out, which makes the errors. What
//! it waits for is waited for in this thread.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use object_store::aws::AmazonS3Builder;
use object_store::azure::MicrosoftAzureBuilder;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpService,
    ReqwestConnector,
};
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::list::{PaginatedListOptions, PaginatedListStore};
use object_store::path::Path;
use object_store::{
    Attribute, Attributes, BackoffConfig, ClientOptions, ObjectStore, ObjectStoreExt, PutMode,
    PutOptions, RetryConfig,
};

use crate::Error;
use zmeld_linux::store_url::{Scheme, StoreUrl};

/// A store that does not answer for so long before a survey is not there.
const CHECK_WITHIN: Duration = Duration::from_secs(15);
/// For so long a survey that cannot be put is tried again.
const RETRY_FOR: Duration = Duration::from_secs(40);
/// Then the request under way has so long.
const PUT_WITHIN: Duration = Duration::from_secs(60);
/// And so long, where the program is to end: whoever ends it may wait 10 s at most.
const STOPPED_WITHIN: Duration = Duration::from_secs(3);
/// How often is looked whether it is to end.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Between tries, at first and at most.
const PAUSE: [Duration; 2] = [Duration::from_millis(200), Duration::from_secs(10)];

/// Codes with which a store refuses who asks, and not what is asked.
const UNKNOWN_USER: [&str; 10] = [
    "InvalidAccessKeyId",
    "SignatureDoesNotMatch",
    "ExpiredToken",
    "InvalidToken",
    "TokenRefreshRequired",
    "RequestTimeTooSkewed",
    "AuthenticationFailed",
    "AuthorizationFailure",
    "AccountIsDisabled",
    "NoSuchBucket",
];

/// Where machines of a cloud ask for their credentials.
const METADATA: [&str; 5] = [
    "169.254.169.254",
    "169.254.170.2",
    "169.254.170.23",
    "metadata.google.internal",
    "metadata",
];

/// Finds out whether the store is there and knows who asks: by a list of one name, which
/// who may only write may be refused.
pub(crate) fn check(url: &StoreUrl) -> Result<(), Error> {
    usable(url, "cannot be written to")?;
    let last = Arc::<Last>::default();
    let failed =
        |cause: String| failure(url, &url.to_string(), "cannot be written to", &last, &cause);
    let store = open(url, &last, CHECK_WITHIN).map_err(|err| failed(err.to_string()))?;
    let options = PaginatedListOptions {
        max_keys: Some(1),
        ..PaginatedListOptions::default()
    };
    let prefix = url.key(crate::place::ROOT) + "/";
    let listed = within(CHECK_WITHIN, store.list_paginated(Some(&prefix), options))?;
    match listed {
        Some(Ok(_)) => Ok(()),
        Some(Err(err)) => {
            let said = err.to_string();
            match may_still_write(&last, &said) {
                true => Ok(()),
                false => Err(failed(said)),
            }
        }
        None => Err(failed(no_answer(CHECK_WITHIN))),
    }
}

/// What became of an object that was to be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Made {
    /// It is there, with these bytes.
    Whole,
    /// One of that name was there, and may not be read.
    Unseen,
}

/// Makes an object of these bytes. Once `stop` is set, it is given up soon.
pub(crate) fn put(
    url: &StoreUrl,
    name: &str,
    bytes: &[u8],
    stop: &AtomicBool,
) -> Result<Made, Error> {
    usable(url, "cannot be written to")?;
    let last = Arc::<Last>::default();
    let object = url.object(name);
    let failed = |cause: String| failure(url, &object, "cannot be written", &last, &cause);
    let store = open(url, &last, RETRY_FOR).map_err(|err| failed(err.to_string()))?;
    let key = Path::parse(url.key(name)).map_err(|err| failed(err.to_string()))?;
    let work = unless(stop, made(store.as_ref(), &key, bytes, &last));
    let put = match within(PUT_WITHIN, work)? {
        Some(None) => {
            return Err(Error::Store {
                object,
                action: "is not written".to_owned(),
                why: "stopped before the store answered".to_owned(),
                way_out: "nothing is wrong with the survey".to_owned(),
            })
        }
        Some(Some(put)) => Some(put),
        None => None,
    };
    match put {
        Some(Ok(made)) => Ok(made),
        Some(Err(object_store::Error::AlreadyExists { .. })) => Err(Error::Store {
            object,
            action: "cannot be written".to_owned(),
            why: "another object has that name, which no survey has by chance".to_owned(),
            way_out: "look who else may write there".to_owned(),
        }),
        Some(Err(err)) => Err(failed(err.to_string())),
        None => Err(failed(no_answer(PUT_WITHIN))),
    }
}

async fn made(
    store: &dyn Store,
    key: &Path,
    bytes: &[u8],
    last: &Last,
) -> Result<Made, object_store::Error> {
    let begun = Instant::now();
    let mut pause = PAUSE[0];
    let mut mode = PutMode::Create;
    loop {
        let options = PutOptions {
            mode: mode.clone(),
            attributes: Attributes::from_iter([(
                Attribute::ContentType,
                "application/vnd.apache.parquet",
            )]),
            ..PutOptions::default()
        };
        let err = match store.put_opts(key, bytes.to_vec().into(), options).await {
            Ok(_) => return Ok(Made::Whole),
            Err(err) => err,
        };
        match err {
            // Nobody else makes such a name: an answer to an earlier try was lost.
            object_store::Error::AlreadyExists { .. } => return same(store, key, bytes, err).await,
            // A store that cannot promise not to replace; there is nothing to replace.
            object_store::Error::NotImplemented { .. } if mode == PutMode::Create => {
                mode = PutMode::Overwrite;
            }
            _ if mode == PutMode::Create && last.status() == Some(501) => mode = PutMode::Overwrite,
            // Whether it is there nobody knows, so the crate does not try again.
            _ if last.is_open() && begun.elapsed() < RETRY_FOR => {
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(PAUSE[1]);
            }
            err => return Err(err),
        }
    }
}

/// Whether what is there already is this. Who may only write cannot see it, and need not:
/// the name is drawn by chance.
async fn same(
    store: &dyn Store,
    key: &Path,
    bytes: &[u8],
    err: object_store::Error,
) -> Result<Made, object_store::Error> {
    let found = match store.get(key).await {
        Err(
            object_store::Error::PermissionDenied { .. }
            | object_store::Error::Unauthenticated { .. },
        ) => return Ok(Made::Unseen),
        found => found?,
    };
    if found.meta.size != bytes.len() as u64 || found.bytes().await? != bytes {
        return Err(err);
    }
    Ok(Made::Whole)
}

/// Does that, unless `stop` is set: then the request under way has a moment more.
async fn unless<T>(stop: &AtomicBool, work: impl Future<Output = T>) -> Option<T> {
    let stopped = async {
        while !stop.load(Ordering::SeqCst) {
            tokio::time::sleep(LOOK_EVERY).await;
        }
        tokio::time::sleep(STOPPED_WITHIN).await;
    };
    let (mut work, mut stopped) = (pin!(work), pin!(stopped));
    std::future::poll_fn(|context| {
        if let Poll::Ready(done) = work.as_mut().poll(context) {
            return Poll::Ready(Some(done));
        }
        stopped.as_mut().poll(context).map(|()| None)
    })
    .await
}

/// Refuses settings with which requests cannot be made or do not go where they should:
/// of the first the libraries below make a panic.
fn usable(url: &StoreUrl, action: &str) -> Result<(), Error> {
    match unusable(url, std::env::vars_os()) {
        None => Ok(()),
        Some((why, way_out)) => Err(Error::Store {
            object: url.to_string(),
            action: action.to_owned(),
            why,
            way_out,
        }),
    }
}

/// What is wrong with the settings, and the way out; no values.
fn unusable(
    url: &StoreUrl,
    variables: impl Iterator<Item = (OsString, OsString)>,
) -> Option<(String, String)> {
    let begins = format!("{}_", prefix(url.scheme));
    let mut ours = BTreeMap::new();
    for (name, value) in variables {
        let Some(name) = name.to_str().filter(|name| name.starts_with(&begins)) else {
            continue;
        };
        let Some(value) = value.to_str() else {
            let why = format!("{name} holds bytes that are no UTF-8");
            return Some((why, "set it anew".to_owned()));
        };
        // A key as JSON may have lines.
        let is_json = value.trim_start().starts_with('{');
        if !is_json && value.contains(char::is_control) {
            let why = format!("{name} holds a line break or another control character");
            let way_out = "set it anew without (a file's last line break is one, too)";
            return Some((why, way_out.to_owned()));
        }
        if URLS.contains(&name) && !is_url(value) {
            let why = match value.contains('@') {
                true => format!("{name} holds more than a scheme, a host and a path"),
                false => format!("{name} is {value:?}, no URL"),
            };
            let way_out =
                "write https://HOST[:PORT], or http:// where that is allowed, or unset it";
            return Some((why, way_out.to_owned()));
        }
        ours.insert(name.to_owned(), value.to_owned());
    }
    let of = |names: &[&str]| {
        let mut found = names.iter().filter_map(|name| ours.get(*name));
        found.find(|value| !value.is_empty()).map(String::as_str)
    };
    let is_on = |value: &str| ["1", "true", "on", "yes", "y"].contains(&value);
    let style = of(&["AWS_VIRTUAL_HOSTED_STYLE_REQUEST"]).map(str::to_ascii_lowercase);
    let endpoint = of(&["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"])?;
    let host = endpoint
        .split_once("://")
        .map_or(endpoint, |(_, rest)| rest);
    if style.as_deref().is_some_and(is_on) && !host.starts_with(&format!("{}.", url.bucket)) {
        let bucket = &url.bucket;
        let why = format!(
            "AWS_VIRTUAL_HOSTED_STYLE_REQUEST is set, and AWS_ENDPOINT_URL does not begin with \
             {bucket}: requests would name no bucket"
        );
        let way_out = format!("write https://{bucket}. before the endpoint's name, or unset it");
        return Some((why, way_out));
    }
    None
}

/// Variables whose values are URLs; of others the libraries below make a panic.
const URLS: [&str; 12] = [
    "AWS_ENDPOINT_URL_S3",
    "AWS_ENDPOINT_URL",
    "AWS_ENDPOINT_URL_STS",
    "AWS_ENDPOINT",
    "AWS_METADATA_ENDPOINT",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "GOOGLE_BASE_URL",
    "AZURE_STORAGE_ENDPOINT",
    "AZURE_ENDPOINT",
    "AZURE_AUTHORITY_HOST",
    "AZURE_MSI_ENDPOINT",
    "AZURE_IDENTITY_ENDPOINT",
];

fn is_url(text: &str) -> bool {
    let rest = ["https://", "http://"]
        .iter()
        .find_map(|scheme| text.strip_prefix(scheme));
    let host = rest.map(|rest| rest.split(['/', '?']).next().unwrap_or_default());
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-._:[]".contains(c);
    host.is_some_and(|host| !host.is_empty() && host.chars().all(is_plain))
        && text.chars().all(|c| c.is_ascii_graphic())
}

/// What is asked of a store here.
trait Store: ObjectStore + PaginatedListStore {}
impl<T: ObjectStore + PaginatedListStore> Store for T {}

fn open(
    url: &StoreUrl,
    last: &Arc<Last>,
    retry_for: Duration,
) -> Result<Box<dyn Store>, object_store::Error> {
    // Where another part of the program chose one, that is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let retry = RetryConfig {
        backoff: BackoffConfig {
            init_backoff: PAUSE[0],
            max_backoff: PAUSE[1],
            base: 2.0,
        },
        max_retries: 20,
        retry_timeout: retry_for,
    };
    let connector = Listening(Arc::clone(last));
    let bucket = url.bucket.as_str();
    Ok(match url.scheme {
        Scheme::S3 => Box::new(
            AmazonS3Builder::from_env()
                .with_bucket_name(bucket)
                .with_retry(retry)
                .with_http_connector(connector)
                .build()?,
        ),
        Scheme::Gs => Box::new(
            GoogleCloudStorageBuilder::from_env()
                .with_bucket_name(bucket)
                .with_retry(retry)
                .with_http_connector(connector)
                .build()?,
        ),
        Scheme::Az => Box::new(
            MicrosoftAzureBuilder::from_env()
                .with_container_name(bucket)
                .with_retry(retry)
                .with_http_connector(connector)
                .build()?,
        ),
    })
}

/// Waits for something for so long, in this thread; `None` where it takes longer.
fn within<T>(limit: Duration, work: impl Future<Output = T>) -> Result<Option<T>, Error> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        // One looks up names.
        .max_blocking_threads(1)
        .build()
        .map_err(Error::NoRuntime)?;
    let found = runtime.block_on(async { tokio::time::timeout(limit, work).await.ok() });
    // A name that is still looked up is not waited for.
    runtime.shutdown_background();
    Ok(found)
}

/// How the last request came out.
#[derive(Debug, Default)]
struct Last(Mutex<Option<Exchange>>);

#[derive(Debug, Clone)]
struct Exchange {
    host: String,
    /// It asked for names, and not for credentials.
    is_list: bool,
    answer: Answer,
}

#[derive(Debug, Clone)]
enum Answer {
    Status { code: u16, reason: &'static str },
    None { kind: HttpErrorKind, why: String },
}

impl Last {
    fn get(&self) -> Option<Exchange> {
        self.0.lock().expect("no panic").clone()
    }

    fn status(&self) -> Option<u16> {
        match self.get()?.answer {
            Answer::Status { code, .. } => Some(code),
            Answer::None { .. } => None,
        }
    }

    /// Whether the request may have been carried out though no answer came.
    fn is_open(&self) -> bool {
        use HttpErrorKind::{Interrupted, Timeout};
        self.get().is_some_and(|it| match it.answer {
            Answer::None { kind, .. } => matches!(kind, Timeout | Interrupted),
            Answer::Status { .. } => false,
        })
    }
}

/// Makes clients that note how requests come out.
#[derive(Debug)]
struct Listening(Arc<Last>);

impl HttpConnector for Listening {
    fn connect(&self, options: &ClientOptions) -> Result<HttpClient, object_store::Error> {
        let inner = ReqwestConnector::default().connect(options)?;
        let last = Arc::clone(&self.0);
        Ok(HttpClient::new(Listener { inner, last }))
    }
}

#[derive(Debug)]
struct Listener {
    inner: HttpClient,
    last: Arc<Last>,
}

#[async_trait]
impl HttpService for Listener {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let host = request.uri().host().unwrap_or_default().to_owned();
        let is_list = request.method().as_str() == "GET"
            && is_list(request.uri().query().unwrap_or_default());
        let answered = self.inner.execute(request).await;
        let answer = match &answered {
            Ok(response) => Answer::Status {
                code: response.status().as_u16(),
                reason: response.status().canonical_reason().unwrap_or_default(),
            },
            Err(err) => Answer::None {
                kind: err.kind(),
                why: deepest(err),
            },
        };
        *self.last.0.lock().expect("no panic") = Some(Exchange {
            host,
            is_list,
            answer,
        });
        answered
    }
}

/// What lies at the bottom of an error.
fn deepest(err: &HttpError) -> String {
    let mut cause: &dyn std::error::Error = err;
    while let Some(next) = cause.source() {
        cause = next;
    }
    let said = cause.to_string();
    match said.split_once(" (os error ") {
        Some((words, _)) => words.to_owned(),
        None => said,
    }
}

/// Whether a request asks a store for names: who gives credentials is asked otherwise.
fn is_list(query: &str) -> bool {
    query
        .split('&')
        .any(|pair| ["list-type=2", "comp=list"].contains(&pair))
}

/// Whether a list was refused to somebody who may be let write: rights to write alone are
/// the least that a survey takes.
fn may_still_write(last: &Last, said: &str) -> bool {
    let refused = last.get().is_some_and(|it| {
        matches!(it.answer, Answer::Status { code: 403, .. })
            && it.is_list
            && !METADATA.contains(&it.host.as_str())
    });
    refused && !element(said, "Code").is_some_and(|code| UNKNOWN_USER.contains(&code))
}

/// The first element of that name in an answer of XML, where it is short and plain.
fn element<'a>(said: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = said.split_once(&format!("<{name}>"))?;
    let (text, _) = rest.split_once(&format!("</{name}>"))?;
    let is_plain = text.len() <= 64 && text.chars().all(|c| c.is_ascii_alphanumeric());
    is_plain.then_some(text)
}

fn no_answer(limit: Duration) -> String {
    format!("no answer within {} s", limit.as_secs())
}

/// What failed in one line: the object, who answered what, the way out. Answers hold the
/// keys' names and what was signed; of them only the code is told.
fn failure(url: &StoreUrl, object: &str, action: &str, last: &Last, cause: &str) -> Error {
    let (names, place) = match url.scheme {
        Scheme::S3 => (
            "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
            "AWS_ENDPOINT_URL and AWS_REGION",
        ),
        Scheme::Gs => (
            "GOOGLE_APPLICATION_CREDENTIALS, the file of a service account",
            "GOOGLE_BASE_URL",
        ),
        Scheme::Az => (
            "AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY",
            "AZURE_STORAGE_ENDPOINT",
        ),
    };
    let (why, way_out) = match last.get() {
        None => (without_secrets(cause), format!("set {names}")),
        Some(it) if METADATA.contains(&it.host.as_str()) => (
            format!(
                "no credentials are set, and {}, which has those of a machine in a cloud, gives none",
                it.host
            ),
            format!("set {names}"),
        ),
        Some(Exchange { host, answer, .. }) => match answer {
            Answer::Status { code, reason } => {
                let told = element(cause, "Code").map(|told| format!(" ({told})"));
                let why = format!("{host} answers {code} {reason}{}", told.unwrap_or_default());
                let way_out = match code {
                    401 | 403 => format!("look at {names}, and at what they may do there"),
                    404 => format!("make {} there, or look at {place}", url.bucket),
                    300..=399 => format!("look at {place}"),
                    500.. | 429 => "try again later".to_owned(),
                    // The request was understood, its answer not.
                    200..=299 => format!("{host} may be no such store: look at {place}"),
                    _ => format!("look at {place}"),
                };
                (why, way_out)
            }
            Answer::None { why, .. } if why.contains("scheme is not allowed") => (
                format!("{host} is asked by plain http, which anybody on the way reads"),
                format!("use https, or set {}_ALLOW_HTTP=true", prefix(url.scheme)),
            ),
            Answer::None { why, .. } => (
                format!("{host} cannot be reached: {why}"),
                format!("look at the network and {place}"),
            ),
        },
    };
    Error::Store {
        object: object.to_owned(),
        action: action.to_owned(),
        why,
        way_out,
    }
}

/// What names of variables begin with.
fn prefix(scheme: Scheme) -> &'static str {
    match scheme {
        Scheme::S3 => "AWS",
        Scheme::Gs => "GOOGLE",
        Scheme::Az => "AZURE",
    }
}

/// What a library says of a setting, without its value.
fn without_secrets(said: &str) -> String {
    let mut said = said.to_owned();
    for (name, value) in std::env::vars_os() {
        let (Some(name), Some(value)) = (name.to_str(), value.to_str()) else {
            continue;
        };
        let is_ours = ["AWS_", "GOOGLE_", "AZURE_"]
            .iter()
            .any(|it| name.starts_with(it));
        if is_ours && value.len() > 3 {
            said = said.replace(value, &format!("${name}"));
        }
    }
    // A parser of JSON quotes what it did not expect.
    let (said, _) = said.split_once("invalid type").unwrap_or((&said, ""));
    said.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt;

    use super::*;

    fn last(code: u16) -> Last {
        Last(Mutex::new(Some(Exchange {
            host: "store".to_owned(),
            is_list: true,
            answer: Answer::Status { code, reason: "" },
        })))
    }

    #[test]
    fn who_may_only_write_is_let_in_and_who_is_unknown_is_not() {
        let answer = |code: &str| format!("<?xml?><Error><Code>{code}</Code></Error>");
        assert!(may_still_write(&last(403), &answer("AccessDenied")));
        assert!(may_still_write(&last(403), ""));
        assert!(!may_still_write(&last(403), &answer("InvalidAccessKeyId")));
        assert!(!may_still_write(&last(401), &answer("AccessDenied")));
        assert!(!may_still_write(&last(404), &answer("NoSuchBucket")));
        assert!(!may_still_write(&Last::default(), ""));
    }

    #[test]
    fn who_gives_credentials_and_refuses_them_lets_nobody_in() {
        let asked = |query: &str| {
            let last = last(403);
            last.0.lock().unwrap().as_mut().unwrap().is_list = is_list(query);
            may_still_write(&last, "")
        };
        assert!(asked("list-type=2&prefix=zmeld-survey-1%2F&max-keys=1"));
        assert!(asked("restype=container&comp=list"));
        assert!(!asked(
            "Action=AssumeRoleWithWebIdentity&Version=2011-06-15"
        ));
        assert!(!asked(""));
    }

    #[test]
    fn settings_that_cannot_be_sent_are_named_and_not_shown() {
        let url = |text: &str| StoreUrl::parse(text).unwrap();
        let said = |text: &str, name: &str, value: &[u8]| {
            let set = std::iter::once((name.into(), OsString::from_vec(value.to_vec())));
            unusable(&url(text), set).map(|(why, _)| why)
        };
        for wrong in [&b"secret\n"[..], b"sec\rret", b"secret\xff"] {
            let why = said("s3://fleet", "AWS_ACCESS_KEY_ID", wrong).unwrap();
            assert!(
                why.contains("AWS_ACCESS_KEY_ID") && !why.contains("sec"),
                "{why}"
            );
            assert_eq!(said("gs://fleet", "AWS_ACCESS_KEY_ID", wrong), None);
        }
        let json = b"{\n\"type\": \"service_account\"\n}\n";
        assert_eq!(said("gs://fleet", "GOOGLE_SERVICE_ACCOUNT_KEY", json), None);
        assert_eq!(said("s3://fleet", "AWS_REGION", b"eu-north-1"), None);
    }

    #[test]
    fn an_endpoint_is_a_url_or_refused() {
        let url = StoreUrl::parse("s3://fleet").unwrap();
        let said = |value: &str| {
            let set = std::iter::once(("AWS_ENDPOINT_URL".into(), value.into()));
            unusable(&url, set)
        };
        for wrong in [
            "127.0.0.1:5077",
            "",
            "garbage",
            "http://127.0.0.1:1/ x",
            "https://",
        ] {
            let (why, way_out) = said(wrong).unwrap();
            assert!(why.contains("AWS_ENDPOINT_URL") && way_out.contains("https://HOST"));
        }
        for right in [
            "http://127.0.0.1:5077",
            "https://s3.example.org/a",
            "http://[::1]:9",
        ] {
            assert_eq!(said(right), None, "{right}");
        }
    }

    #[test]
    fn a_request_that_would_name_no_bucket_is_not_made() {
        let with = |style: &str, endpoint: &str| {
            let set = [
                ("AWS_VIRTUAL_HOSTED_STYLE_REQUEST", style),
                ("AWS_ENDPOINT_URL", endpoint),
            ];
            let set = set.map(|(name, value)| (name.into(), value.into()));
            unusable(&StoreUrl::parse("s3://fleet/x").unwrap(), set.into_iter()).is_none()
        };
        assert!(!with("true", "https://s3.example.org"));
        assert!(!with("True", "https://fleetx.example.org"));
        assert!(with("true", "https://fleet.s3.example.org"));
        assert!(with("false", "https://s3.example.org"));
    }

    #[test]
    fn of_an_answer_only_a_plain_code_is_told() {
        assert_eq!(
            element("a<Code>AccessDenied</Code>b", "Code"),
            Some("AccessDenied")
        );
        for odd in [
            "<Code></Code",
            "<Code>a b</Code>",
            "<Code>\u{1b}[2J</Code>",
            "",
        ] {
            assert_eq!(element(odd, "Code"), None, "{odd}");
        }
    }
}
