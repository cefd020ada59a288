//! Balancers of others, as proxies in front of the backends.

use std::env;
use std::fmt::Write as _;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;

/// A proxy and the policy it is set to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proxy {
    EnvoyRoundRobin,
    EnvoyLeastRequest,
    NginxLeastConn,
    HaproxyLeastconn,
}

/// Where the programs are, as `./bench` installed them.
#[derive(Clone, Debug)]
pub struct Programs {
    pub(super) evenkeel: PathBuf,
    envoy: Option<PathBuf>,
    nginx: Option<PathBuf>,
    haproxy: Option<PathBuf>,
}

/// One that runs; ends when this is dropped.
pub(super) struct Running {
    pub(super) address: SocketAddr,
    child: Child,
    config: PathBuf,
}

impl Proxy {
    pub(super) const ALL: [Proxy; 4] =
        [Proxy::EnvoyRoundRobin, Proxy::EnvoyLeastRequest, Proxy::NginxLeastConn, Proxy::HaproxyLeastconn];

    pub(super) fn name(self) -> &'static str {
        match self {
            Proxy::EnvoyRoundRobin => "envoy_round_robin",
            Proxy::EnvoyLeastRequest => "envoy_least_request",
            Proxy::NginxLeastConn => "nginx_least_conn",
            Proxy::HaproxyLeastconn => "haproxy_leastconn",
        }
    }
}

impl Programs {
    /// # Errors
    /// Our own is missing.
    pub fn find() -> Result<Programs, String> {
        let path = |name: &str| env::var_os(name).filter(|path| !path.is_empty()).map(PathBuf::from);
        let evenkeel = path("EVENKEEL_PROGRAM").ok_or("EVENKEEL_PROGRAM does not name our own program: run ./bench")?;
        let [envoy, nginx, haproxy] = ["EVENKEEL_ENVOY", "EVENKEEL_NGINX", "EVENKEEL_HAPROXY"].map(path);
        for (name, program) in [("Envoy", &envoy), ("nginx", &nginx), ("HAProxy", &haproxy)] {
            if program.is_none() {
                eprintln!("{name} is not there: its rows are missing");
            }
        }
        Ok(Programs { evenkeel, envoy, nginx, haproxy })
    }

    fn program(&self, proxy: Proxy) -> Option<&PathBuf> {
        match proxy {
            Proxy::EnvoyRoundRobin | Proxy::EnvoyLeastRequest => self.envoy.as_ref(),
            Proxy::NginxLeastConn => self.nginx.as_ref(),
            Proxy::HaproxyLeastconn => self.haproxy.as_ref(),
        }
    }

    pub(super) fn has(&self, proxy: Proxy) -> bool {
        self.program(proxy).is_some()
    }

    pub(super) fn start(&self, proxy: Proxy, backends: &[SocketAddr]) -> io::Result<Running> {
        let program = self.program(proxy).ok_or_else(|| io::Error::other(format!("no {}", proxy.name())))?;
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let config = env::temp_dir().join(format!("evenkeel-{}-{}.conf", proxy.name(), address.port()));
        let (text, options): (String, &[&str]) = match proxy {
            Proxy::EnvoyRoundRobin => (envoy("ROUND_ROBIN", address, backends), ENVOY),
            Proxy::EnvoyLeastRequest => (envoy("LEAST_REQUEST", address, backends), ENVOY),
            Proxy::NginxLeastConn => (nginx(address, backends), &["-c"]),
            Proxy::HaproxyLeastconn => (haproxy(address, backends), &["-db", "-f"]),
        };
        std::fs::write(&config, text)?;
        let mut command = Command::new(program);
        let child = command.args(options).arg(&config).stdin(Stdio::null()).stdout(Stdio::null()).spawn()?;
        let mut running = Running { address, child, config };
        let give_up = Instant::now() + Duration::from_secs(30);
        while TcpStream::connect(address).is_err() {
            if Instant::now() > give_up || running.child.try_wait()?.is_some() {
                return Err(io::Error::other(format!("{} does not listen; it says why above", proxy.name())));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(running)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // One that has ended already needs no killing.
        drop(self.child.kill());
        drop(self.child.wait());
        drop(std::fs::remove_file(&self.config));
    }
}

fn envoy(policy: &str, address: SocketAddr, backends: &[SocketAddr]) -> String {
    let socket = |of: &SocketAddr| json!({ "socket_address": { "address": of.ip(), "port_value": of.port() } });
    let endpoints: Vec<_> = backends.iter().map(|one| json!({ "endpoint": { "address": socket(one) } })).collect();
    let kind = |name: &str| format!("type.googleapis.com/envoy.extensions.{name}");
    let router = json!({ "@type": kind("filters.http.router.v3.Router") });
    let manager = json!({
        "@type": kind("filters.network.http_connection_manager.v3.HttpConnectionManager"),
        "stat_prefix": "in",
        "route_config": { "virtual_hosts": [{ "name": "all", "domains": ["*"], "routes": [{
            "match": { "prefix": "/" }, "route": { "cluster": "backends", "timeout": "20s" }
        }] }] },
        "http_filters": [{ "name": "envoy.filters.http.router", "typed_config": router }]
    });
    let http2 = json!({
        "@type": kind("upstreams.http.v3.HttpProtocolOptions"),
        "explicit_http_config": { "http2_protocol_options": {} }
    });
    let most = json!({ "max_connections": MOST, "max_pending_requests": MOST, "max_requests": MOST });
    json!({ "static_resources": {
        "listeners": [{ "name": "in", "address": socket(&address), "filter_chains": [{ "filters": [
            { "name": "envoy.filters.network.http_connection_manager", "typed_config": manager }
        ] }] }],
        "clusters": [{
            "name": "backends", "type": "STATIC", "connect_timeout": "1s", "lb_policy": policy,
            "typed_extension_protocol_options": { "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": http2 },
            "circuit_breakers": { "thresholds": [most] },
            "load_assignment": { "cluster_name": "backends", "endpoints": [{ "lb_endpoints": endpoints }] }
        }]
    } })
    .to_string()
}

fn nginx(address: SocketAddr, backends: &[SocketAddr]) -> String {
    let servers = backends.iter().fold(String::new(), |mut text, one| {
        // Writing to a string does not fail.
        let _ = write!(text, "server {one} max_fails=0; ");
        text
    });
    format!(
        "daemon off; master_process off; worker_processes 1; pid /dev/null; error_log stderr error;\n\
         events {{ worker_connections 8192; }}\n\
         http {{ access_log off; client_body_temp_path /tmp; proxy_temp_path /tmp; fastcgi_temp_path /tmp; \
         uwsgi_temp_path /tmp; scgi_temp_path /tmp;\n\
         upstream backends {{ least_conn; {servers} keepalive 1024; keepalive_requests {MOST}; }}\n\
         server {{ listen {address} http2; http2_max_concurrent_streams 1024; keepalive_requests {MOST};\n\
         location / {{ proxy_pass http://backends; proxy_http_version 1.1; proxy_set_header Connection \"\"; \
         proxy_buffering on; }} }} }}\n"
    )
}

fn haproxy(address: SocketAddr, backends: &[SocketAddr]) -> String {
    let servers = backends.iter().enumerate().fold(String::new(), |mut text, (number, one)| {
        // Writing to a string does not fail.
        let _ = writeln!(text, "  server b{number} {one} proto h2");
        text
    });
    format!(
        "global\n  nbthread 1\n  maxconn 4096\n\
         defaults\n  mode http\n  timeout connect 1s\n  timeout client 60s\n  timeout server 60s\n\
         frontend in\n  bind {address} proto h2\n  default_backend backends\n\
         backend backends\n  balance leastconn\n{servers}"
    )
}

const ENVOY: &[&str] = &["--concurrency", "1", "--use-dynamic-base-id", "--log-level", "error", "-c"];
const MOST: u32 = 1_000_000;
