//! Where a client is, in the few bytes that are kept of it.
//!
//! ```text
//! IPv4   0 0 4 ·  its address (4)  ours that it asked (4)  ····  its port (2)
//! IPv6   its address (16)                                        its port (2)
//! ```
//!
//! What is pushed over IPv4 leaves from the address that was asked. Over IPv6 the system chooses, which is the same on
//! machines with one address for each network; the key vouches for a push from wherever it comes.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use evenkeel_core::server::PeerAddress;

/// `None` for the few IPv6 addresses that begin as ours of IPv4 do: such a client is answered, and not remembered.
pub(crate) fn written(from: SocketAddr, to: Option<IpAddr>) -> Option<PeerAddress> {
    let mut bytes = [0; 18];
    bytes[16..].copy_from_slice(&from.port().to_be_bytes());
    match from.ip().to_canonical() {
        IpAddr::V4(ip) => {
            bytes[2] = 4;
            bytes[4..8].copy_from_slice(&ip.octets());
            if let Some(IpAddr::V4(asked)) = to.map(|to| to.to_canonical()) {
                bytes[8..12].copy_from_slice(&asked.octets());
            }
        }
        IpAddr::V6(Ipv6Addr::LOCALHOST) => bytes[2] = 6,
        IpAddr::V6(ip) if ip.octets()[..2] != [0, 0] => bytes[..16].copy_from_slice(&ip.octets()),
        IpAddr::V6(_) => return None,
    }
    Some(PeerAddress(bytes))
}

/// Where to send to, and from which address of ours, on a socket of IPv6 or not.
pub(crate) fn read(address: &PeerAddress, socket_is_v6: bool) -> (SocketAddr, Option<IpAddr>) {
    let bytes = &address.0;
    let port = u16::from_be_bytes([bytes[16], bytes[17]]);
    let four = |at: usize| Ipv4Addr::new(bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]);
    let on_socket = |ip: Ipv4Addr| if socket_is_v6 { IpAddr::V6(ip.to_ipv6_mapped()) } else { IpAddr::V4(ip) };
    match bytes[..3] {
        [0, 0, 4] => {
            let asked = Some(four(8)).filter(|asked| !asked.is_unspecified());
            (SocketAddr::new(on_socket(four(4)), port), asked.map(on_socket))
        }
        [0, 0, _] => (SocketAddr::new(Ipv6Addr::LOCALHOST.into(), port), None),
        _ => {
            let mut octets = [0; 16];
            octets.copy_from_slice(&bytes[..16]);
            (SocketAddr::new(Ipv6Addr::from(octets).into(), port), None)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn an_address_reads_back_on_either_kind_of_socket() {
        for (from, to, is_v6, expected) in [
            ("10.1.2.3:7", Some("10.0.0.1"), false, ("10.1.2.3:7", Some("10.0.0.1"))),
            ("[::ffff:10.1.2.3]:7", Some("::ffff:10.0.0.1"), true, ("[::ffff:10.1.2.3]:7", Some("::ffff:10.0.0.1"))),
            ("10.1.2.3:65535", None, false, ("10.1.2.3:65535", None)),
            ("[::1]:9", Some("::1"), true, ("[::1]:9", None)),
            ("[2001:db8::7]:9", Some("2001:db8::1"), true, ("[2001:db8::7]:9", None)),
            ("[64:ff9b::a00:1]:9", None, true, ("[64:ff9b::a00:1]:9", None)),
        ] {
            let kept = written(from.parse().unwrap(), to.map(ip)).unwrap();

            assert_eq!(read(&kept, is_v6), (expected.0.parse().unwrap(), expected.1.map(ip)), "{from}");
        }
        assert_eq!(written("[::2]:9".parse().unwrap(), None), None);
    }
}
