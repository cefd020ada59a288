//! Where a client is, in the few bytes that are kept of it: its address, the one of ours that it asked, scope and port.
//!
//! Addresses of IPv4 are kept as IPv6 maps them. What is pushed leaves from the address that was asked, since clients
//! believe nobody else.

use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6};

use evenkeel_core::server::PeerAddress;

/// As it is kept.
pub(crate) fn written(from: SocketAddr, to: Option<IpAddr>) -> PeerAddress {
    let mut bytes = [0; PeerAddress::LENGTH];
    let scope = if let SocketAddr::V6(from) = from { from.scope_id() } else { 0 };
    bytes[..16].copy_from_slice(&mapped(from.ip()).octets());
    bytes[16..32].copy_from_slice(&to.map_or(Ipv6Addr::UNSPECIFIED, mapped).octets());
    bytes[32..36].copy_from_slice(&scope.to_be_bytes());
    bytes[36..].copy_from_slice(&from.port().to_be_bytes());
    PeerAddress(bytes)
}

/// Where to send to, and from which address of ours, on a socket of IPv6 or not.
pub(crate) fn read(address: &PeerAddress, socket_is_v6: bool) -> (SocketAddr, Option<IpAddr>) {
    let bytes = &address.0;
    let ip = |at: usize| Ipv6Addr::from(*bytes[at..].first_chunk().unwrap_or(&[0; 16]));
    let scope = u32::from_be_bytes(*bytes[32..].first_chunk().unwrap_or(&[0; 4]));
    let port = u16::from_be_bytes([bytes[36], bytes[37]]);
    let on_socket = |ip: Ipv6Addr| if socket_is_v6 { IpAddr::V6(ip) } else { IpAddr::V6(ip).to_canonical() };
    let to = match on_socket(ip(0)) {
        IpAddr::V4(ip) => SocketAddr::new(ip.into(), port),
        IpAddr::V6(ip) => SocketAddrV6::new(ip, port, 0, scope).into(),
    };
    (to, Some(ip(16)).filter(|asked| !asked.is_unspecified()).map(on_socket))
}

fn mapped(ip: IpAddr) -> Ipv6Addr {
    match ip {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_reads_back_on_either_kind_of_socket() {
        for (from, to, is_v6) in [
            ("10.1.2.3:7", Some("10.0.0.1"), false),
            ("[::ffff:10.1.2.3]:7", Some("::ffff:10.0.0.1"), true),
            ("10.1.2.3:65535", None, false),
            ("[::1]:9", Some("::1"), true),
            ("[2001:db8::7]:9", Some("2001:db8::1"), true),
            ("[fe80::1%3]:9", None, true),
        ] {
            let (from, to): (SocketAddr, Option<IpAddr>) = (from.parse().unwrap(), to.map(|to| to.parse().unwrap()));

            assert_eq!(read(&written(from, to), is_v6), (from, to), "{from}");
        }
    }
}
