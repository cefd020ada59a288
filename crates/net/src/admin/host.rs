//! Whether a request names this machine itself, and whether a page of somebody else sent it.
//!
//! A page on the web may point a name of its own at 127.0.0.1 and then read what is served there as if it were its own
//! (DNS rebinding). Its requests carry that name. It may also send requests without reading what they are answered with
//! (cross-site request forgery); browsers tell where those come from.

use std::net::IpAddr;

use http::HeaderName;
use http::header::{HOST, ORIGIN};
use http::uri::Authority;

/// Whether every name in the request is a loopback address or `localhost`, with any port: a tunnel has its own.
pub(crate) fn is_local<B>(request: &http::Request<B>) -> bool {
    let mut hosts = request.headers().get_all(HOST).iter();
    let (Some(host), None) = (hosts.next(), hosts.next()) else {
        return false;
    };
    let Ok(host) = Authority::try_from(host.as_bytes()) else {
        return false;
    };
    names_this_machine(&host) && request.uri().authority().is_none_or(names_this_machine)
}

/// Whether no page of another address sent it: one that this address served itself says so, and programs say nothing.
///
/// A name in both proves nothing, since it may have been pointed here; an address cannot be.
pub(crate) fn is_of_own_page<B>(request: &http::Request<B>) -> bool {
    let headers = request.headers();
    let mut sites = headers.get_all(SEC_FETCH_SITE).iter();
    if !sites.all(|site| site == "same-origin" || site == "none") {
        return false;
    }
    let mut origins = headers.get_all(ORIGIN).iter();
    let origin = match (origins.next(), origins.next()) {
        (None, _) => return true,
        (Some(origin), None) => origin.to_str().unwrap_or_default(),
        (Some(_), Some(_)) => return false,
    };
    let mut hosts = headers.get_all(HOST).iter();
    let (Some(host), None) = (hosts.next().and_then(|host| host.to_str().ok()), hosts.next()) else {
        return false;
    };
    let origin = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
    origin.is_some_and(|origin| origin.eq_ignore_ascii_case(host))
        && Authority::try_from(host).is_ok_and(|host| is_localhost(&host) || ip_of(&host).is_some())
}

fn names_this_machine(authority: &Authority) -> bool {
    is_localhost(authority) || ip_of(authority).is_some_and(|ip| ip.to_canonical().is_loopback())
}

fn is_localhost(authority: &Authority) -> bool {
    !has_user(authority) && authority.host().eq_ignore_ascii_case("localhost")
}

fn ip_of(authority: &Authority) -> Option<IpAddr> {
    let host = authority.host();
    let address = host.strip_prefix('[').and_then(|inner| inner.strip_suffix(']')).unwrap_or(host);
    address.parse().ok().filter(|_| !has_user(authority))
}

/// Whoever is named before an @ is not the host.
fn has_user(authority: &Authority) -> bool {
    authority.as_str().contains('@')
}

/// What browsers say of the page that sent a request.
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

#[cfg(test)]
mod tests {
    use super::*;

    fn request(uri: &str, hosts: &[&str]) -> http::Request<()> {
        hosts.iter().fold(http::Request::get(uri), |builder, host| builder.header(HOST, *host)).body(()).unwrap()
    }

    #[test]
    fn the_machine_itself_may_be_named_in_any_way() {
        for host in
            ["localhost", "LocalHost:9090", "127.0.0.1:80", "127.0.0.2", "[::1]", "[::1]:9090", "[::ffff:127.0.0.1]"]
        {
            assert!(is_local(&request("/state", &[host])), "{host}");
        }
        assert!(is_local(&request("http://localhost:1/state", &["localhost:1"])));
    }

    #[test]
    fn any_other_name_none_and_two_are_refused() {
        let others =
            ["evil.example", "localhost.evil.example", "10.0.0.1", "localhost@evil.example", "", "[::2]", ":80"];
        for host in others {
            assert!(!is_local(&request("/state", &[host])), "{host}");
        }
        assert!(!is_local(&request("/state", &[])));
        assert!(!is_local(&request("/state", &["localhost", "evil.example"])));
        assert!(!is_local(&request("http://evil.example/state", &["localhost"])));
    }

    fn sent(headers: &[(&str, &str)]) -> http::Request<()> {
        headers
            .iter()
            .fold(http::Request::post("/admission"), |built, (name, value)| built.header(*name, *value))
            .body(())
            .unwrap()
    }

    #[test]
    fn programs_and_the_page_itself_may_switch() {
        assert!(is_of_own_page(&sent(&[("host", "127.0.0.1:9901")])));
        assert!(is_of_own_page(&sent(&[("host", "admin.example:9901")])), "no browser sent it");
        for host in ["127.0.0.1:9901", "localhost:9901", "LOCALHOST:9901", "[::1]:9901", "10.0.0.7:9901"] {
            for scheme in ["http", "https"] {
                let origin = format!("{scheme}://{host}").to_lowercase();
                let own = sent(&[("host", host), ("origin", &origin), ("sec-fetch-site", "same-origin")]);
                assert!(is_of_own_page(&own), "{origin}");
            }
        }
    }

    #[test]
    fn pages_of_others_may_not_however_they_are_named() {
        let host = ("host", "127.0.0.1:9901");
        for origin in [
            "http://evil.example",
            "null",
            "",
            "http://127.0.0.1:8080",
            "http://localhost:9901",
            "http://127.0.0.1:9901.evil.example",
            "ftp://127.0.0.1:9901",
            "127.0.0.1:9901",
        ] {
            assert!(!is_of_own_page(&sent(&[host, ("origin", origin)])), "{origin}");
        }
        assert!(!is_of_own_page(&sent(&[host, ("sec-fetch-site", "cross-site")])));
        assert!(!is_of_own_page(&sent(&[host, ("sec-fetch-site", "same-site")])));
        let own = ("origin", "http://127.0.0.1:9901");
        assert!(!is_of_own_page(&sent(&[host, own, ("origin", "http://evil.example")])), "two origins");
        assert!(!is_of_own_page(&sent(&[host, ("host", "evil.example"), own])), "two hosts");
        let rebound = [("host", "evil.example:9901"), ("origin", "http://evil.example:9901")];
        assert!(!is_of_own_page(&sent(&rebound)), "a name that was pointed here");
    }
}
