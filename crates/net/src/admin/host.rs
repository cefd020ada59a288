//! Whether a request names this machine itself.
//!
//! A page on the web may point a name of its own at 127.0.0.1 and then read what is served there as if it were its own
//! (DNS rebinding). Its requests carry that name.

use std::net::IpAddr;

use http::header::HOST;
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

fn names_this_machine(authority: &Authority) -> bool {
    let host = authority.host();
    let address = host.strip_prefix('[').and_then(|inner| inner.strip_suffix(']')).unwrap_or(host);
    // Whoever is named before an @ is not the host.
    !authority.as_str().contains('@')
        && (host.eq_ignore_ascii_case("localhost")
            || address.parse().is_ok_and(|ip: IpAddr| ip.to_canonical().is_loopback()))
}

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
}
