//! Envoy in front of the server, on the core of those who ask.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::clock::cores;

/// Which of Envoy's answers to overload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filter {
    /// Refuses by the share of answers that succeeded, as its documentation has it.
    AdmissionControl,
    /// Limits requests in flight by how long answers take, as its documentation has it.
    AdaptiveConcurrency,
}

/// Where its program is.
#[derive(Clone, Debug)]
pub struct Envoy(PathBuf);

/// One that runs; ends when this is dropped.
pub struct Proxy {
    pub address: SocketAddr,
    child: Child,
}

impl Envoy {
    /// The one `./bench` installed, if it could.
    pub fn find() -> Option<Envoy> {
        std::env::var_os("EVENKEEL_ENVOY").filter(|path| !path.is_empty()).map(|path| Envoy(path.into()))
    }

    pub(super) fn start(&self, filter: Filter, backend: &str) -> io::Result<Proxy> {
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let backend: SocketAddr = backend.parse().map_err(io::Error::other)?;
        let child = Command::new("taskset")
            .args(["-c", &cores()[0].to_string()])
            .arg(&self.0)
            .args(["--concurrency", "1", "--use-dynamic-base-id", "--log-level", "error"])
            .args(["--config-yaml", &config(filter, address, backend).to_string()])
            .stdin(Stdio::null())
            .spawn()?;
        let mut proxy = Proxy { address, child };
        let give_up = Instant::now() + Duration::from_secs(30);
        while TcpStream::connect(address).is_err() {
            if Instant::now() > give_up || proxy.child.try_wait()?.is_some() {
                return Err(io::Error::other("Envoy does not listen; it says why above"));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(proxy)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        // Nothing of it is needed any more, and one that has ended already needs no killing.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

impl Filter {
    /// Its name and its settings.
    fn config(self) -> (&'static str, Value) {
        match self {
            Filter::AdmissionControl => (
                "envoy.filters.http.admission_control",
                any(
                    "filters.http.admission_control.v3.AdmissionControl",
                    json!({
                        "enabled": { "default_value": true, "runtime_key": "admission_control.enabled" },
                        "success_criteria": { "http_criteria": {
                            "http_success_status": [{ "start": 100, "end": 500 }]
                        } }
                    }),
                ),
            ),
            Filter::AdaptiveConcurrency => (
                "envoy.filters.http.adaptive_concurrency",
                any(
                    "filters.http.adaptive_concurrency.v3.AdaptiveConcurrency",
                    json!({
                        "enabled": { "default_value": true, "runtime_key": "adaptive_concurrency.enabled" },
                        "gradient_controller_config": {
                            "sample_aggregate_percentile": { "value": 90 },
                            "concurrency_limit_params": { "concurrency_update_interval": "0.1s" },
                            "min_rtt_calc_params": { "jitter": { "value": 10 }, "interval": "60s", "request_count": 50 }
                        }
                    }),
                ),
            ),
        }
    }
}

/// An object of this type.
fn any(name: &str, more: Value) -> Value {
    let mut any = json!({ "@type": format!("type.googleapis.com/envoy.extensions.{name}") });
    if let (Some(any), Value::Object(more)) = (any.as_object_mut(), more) {
        any.extend(more);
    }
    any
}

fn config(filter: Filter, address: SocketAddr, backend: SocketAddr) -> Value {
    let socket = |of: SocketAddr| json!({ "socket_address": { "address": of.ip(), "port_value": of.port() } });
    let (name, of_filter) = filter.config();
    let router = any("filters.http.router.v3.Router", json!({ "suppress_envoy_headers": true }));
    let manager = any(
        "filters.network.http_connection_manager.v3.HttpConnectionManager",
        json!({
            "stat_prefix": "in",
            "route_config": { "virtual_hosts": [{ "name": "all", "domains": ["*"], "routes": [{
                "match": { "prefix": "/" }, "route": { "cluster": "server", "timeout": "0.5s" }
            }] }] },
            "http_filters": [
                { "name": name, "typed_config": of_filter },
                { "name": "envoy.filters.http.router", "typed_config": router }
            ]
        }),
    );
    let http2 = any(
        "upstreams.http.v3.HttpProtocolOptions",
        json!({ "explicit_http_config": { "http2_protocol_options": {} } }),
    );
    // So many that only the filter limits anything.
    let most = json!({ "max_connections": MOST, "max_pending_requests": MOST, "max_requests": MOST });
    json!({ "static_resources": {
        "listeners": [{ "name": "in", "address": socket(address), "filter_chains": [{ "filters": [
            { "name": "envoy.filters.network.http_connection_manager", "typed_config": manager }
        ] }] }],
        "clusters": [{
            "name": "server", "type": "STATIC", "connect_timeout": "1s",
            "typed_extension_protocol_options": { "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": http2 },
            "circuit_breakers": { "thresholds": [most] },
            "load_assignment": { "cluster_name": "server", "endpoints": [{ "lb_endpoints": [
                { "endpoint": { "address": socket(backend) } }
            ] }] }
        }]
    } })
}

const MOST: u32 = 1_000_000;
