//! `zmeld metrics`: an observation as Prometheus reads it, printed, written or served.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{anyhow, Context};
use clap::Args;
use zmeld_swap::applied::Applied;
use zmeld_swap::config::Config;
use zmeld_swap::{
    findings::findings,
    metrics,
    observe::{Device, Observation},
    Host,
};

use super::status::page_size;
use crate::cli::Place;
use crate::exit::{Outcome, EXIT_CODES};
use crate::output;

const EXAMPLES: &str = "\
Examples:
  zmeld metrics                        to standard output
  zmeld metrics --textfile /var/lib/prometheus/node-exporter/zmeld.prom
                                       for node_exporter; whole or not at all
  zmeld watch --listen 127.0.0.1:9890  an endpoint for Prometheus itself";

/// Arguments of `zmeld metrics`.
#[derive(Args)]
#[command(after_help = EXAMPLES, after_long_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
pub struct MetricsArgs {
    /// Write this file instead, under another name first
    #[arg(long, value_name = "FILE")]
    pub textfile: Option<PathBuf>,

    /// Which machine, and its configuration
    #[command(flatten)]
    pub place: Place,
}

/// Runs the command.
pub fn run(args: &MetricsArgs) -> anyhow::Result<Outcome> {
    let (host, config) = (args.place.host(), args.place.config()?);
    let text = match &args.textfile {
        Some(_) => text_for_others(&host, &config),
        None => text(&host, &config),
    };
    match &args.textfile {
        Some(path) => output::write_whole(path, text.as_bytes())?,
        None => output::print(&text)?,
    }
    Ok(Outcome::Done)
}

/// What somebody else may read: an endpoint asks nobody who he is, and a textfile is
/// read by another user. Whether a page had a twin is told only where the
/// configuration says so.
pub fn text_for_others(host: &Host, config: &Config) -> String {
    let mut now = Observation::read(host, page_size());
    if !config.metrics.melding {
        now.devices.iter_mut().for_each(Device::hide_melding);
    }
    rendered(host, config, &now)
}

/// What this user may read.
fn text(host: &Host, config: &Config) -> String {
    rendered(host, config, &Observation::read(host, page_size()))
}

fn rendered(host: &Host, config: &Config, now: &Observation) -> String {
    // A journal that cannot be read is the business of `zmeld status`.
    let applied = Applied::read(host).ok().flatten();
    metrics::render(now, &findings(now, config, applied.as_ref()))
}

/// An endpoint that answers until it is dropped.
pub struct Endpoint {
    server: Arc<tiny_http::Server>,
    over: Arc<AtomicBool>,
    worker: Option<JoinHandle<()>>,
    /// Where it listens, with the port that the system chose for port 0.
    pub address: SocketAddr,
}

impl Endpoint {
    /// Answers GET /metrics with what the host's memory is like at that moment.
    pub fn open(address: SocketAddr, host: Host, config: Config) -> anyhow::Result<Endpoint> {
        let server = tiny_http::Server::http(address)
            .map_err(|err| anyhow!("{err}"))
            .with_context(|| format!("cannot listen on {address}"))?;
        let server = Arc::new(server);
        let address = server.server_addr().to_ip().unwrap_or(address);
        let over = Arc::new(AtomicBool::new(false));
        let worker = std::thread::spawn({
            let (server, over) = (Arc::clone(&server), Arc::clone(&over));
            move || {
                while !over.load(Ordering::SeqCst) {
                    // A client that goes away early is its own business.
                    if let Ok(Some(request)) = server.recv_timeout(Duration::from_millis(500)) {
                        let _ = answer(request, &host, &config);
                    }
                }
            }
        });
        Ok(Endpoint {
            server,
            over,
            worker: Some(worker),
            address,
        })
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        self.over.store(true, Ordering::SeqCst);
        self.server.unblock();
        if let Some(worker) = self.worker.take() {
            let _ = worker.join();
        }
    }
}

fn answer(request: tiny_http::Request, host: &Host, config: &Config) -> std::io::Result<()> {
    use tiny_http::{Header, Method, Response};
    let kind = |value: &str| {
        Header::from_bytes("Content-Type", value).expect("a header of plain characters")
    };
    let is_read = matches!(request.method(), Method::Get | Method::Head);
    let path = request.url().split('?').next().unwrap_or_default();
    match path {
        _ if !is_read => {
            request.respond(Response::from_string("only GET is answered\n").with_status_code(405))
        }
        "/metrics" => request.respond(
            Response::from_string(text_for_others(host, config))
                .with_header(kind(metrics::CONTENT_TYPE)),
        ),
        "/" => request.respond(
            Response::from_string("zmeld: see /metrics\n").with_header(kind("text/plain")),
        ),
        _ => request.respond(Response::from_string("see /metrics\n").with_status_code(404)),
    }
}
