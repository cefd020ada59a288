//! Whose word on the customer is believed: a front end that has authenticated it (B4, DESIGN §6.14).

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// Peers whose `evenkeel-customer` is believed. Default: those on this machine.
///
/// No packet from elsewhere can have an address of the loopback interface, so what comes from there is a front end or a
/// sidecar of this machine, which are set up by whoever set up the server; whatever comes over a network may say
/// anything. A server behind front ends elsewhere lists their networks.
///
/// ```
/// use evenkeel::Server;
/// use evenkeel::server::Trusted;
///
/// let front_ends = Trusted::networks(["10.1.0.0/16", "fd00:1::/32"])?;
/// let server = Server::new().trust_customers_of(front_ends);
/// # Ok::<(), evenkeel::server::BadNetwork>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Trusted {
    /// The customer is known by [identity](super::Identity) only.
    Nobody,
    /// Peers on this machine, by the loopback interface.
    #[default]
    Loopback,
    /// Peers with an address in one of these; those of this machine only if they are listed.
    Networks(Vec<Network>),
    /// Everybody who can connect: where something else keeps strangers out.
    Everyone,
}

impl Trusted {
    /// Peers in these networks, as `10.0.0.0/8`, `fd00::/8`, or a single address; `loopback` is this machine.
    pub fn networks<'a>(texts: impl IntoIterator<Item = &'a str>) -> Result<Self, BadNetwork> {
        let mut networks = Vec::new();
        for text in texts {
            let one = [text];
            let spelled: &[&str] = if text.eq_ignore_ascii_case("loopback") { &LOOPBACK } else { &one };
            for text in spelled {
                networks.push(text.parse()?);
            }
        }
        Ok(Trusted::Networks(networks))
    }

    /// Whether a peer is among them; one without an address only if everybody is.
    pub(crate) fn includes(&self, address: Option<IpAddr>) -> bool {
        // A socket for both protocols gives addresses of the older one in the form of the newer.
        let address = address.map(|address| address.to_canonical());
        match self {
            Trusted::Nobody => false,
            Trusted::Everyone => true,
            Trusted::Loopback => address.is_some_and(|address| address.is_loopback()),
            Trusted::Networks(networks) => {
                address.is_some_and(|address| networks.iter().any(|network| network.contains(address)))
            }
        }
    }
}

/// Addresses that begin alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    first: IpAddr,
    prefix: u8,
}

impl Network {
    /// Whether the address is one of them.
    pub fn contains(&self, address: IpAddr) -> bool {
        address.is_ipv4() == self.first.is_ipv4() && begin(address, self.prefix) == self.first
    }
}

/// What [`Trusted::Loopback`] is as networks.
const LOOPBACK: [&str; 2] = ["127.0.0.0/8", "::1"];

/// The address with everything after the prefix taken away.
fn begin(address: IpAddr, prefix: u8) -> IpAddr {
    let prefix = u32::from(prefix);
    match address {
        IpAddr::V4(address) => {
            let mask = u32::MAX.checked_shl(32 - prefix).unwrap_or(0);
            Ipv4Addr::from(u32::from(address) & mask).into()
        }
        IpAddr::V6(address) => {
            let mask = u128::MAX.checked_shl(128 - prefix).unwrap_or(0);
            Ipv6Addr::from(u128::from(address) & mask).into()
        }
    }
}

impl FromStr for Network {
    type Err = BadNetwork;

    fn from_str(text: &str) -> Result<Self, BadNetwork> {
        let bad = |fault| BadNetwork { text: text.to_owned(), fault };
        let (address, prefix) = text.split_once('/').map_or((text, None), |(address, prefix)| (address, Some(prefix)));
        let first: IpAddr = address.parse().map_err(|_| bad(Fault::Address))?;
        let most = if first.is_ipv4() { 32 } else { 128 };
        let prefix = match prefix {
            None => most,
            Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
                digits.parse().ok().filter(|prefix| *prefix <= most).ok_or_else(|| bad(Fault::Prefix(most)))?
            }
            Some(_) => return Err(bad(Fault::Prefix(most))),
        };
        let network = Network { first: begin(first, prefix), prefix };
        if network.first != first {
            return Err(bad(Fault::Beyond(network)));
        }
        Ok(network)
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.first, self.prefix)
    }
}

/// The text is no network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadNetwork {
    text: String,
    fault: Fault,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Fault {
    Address,
    /// With the longest there is.
    Prefix(u8),
    /// With what was probably meant.
    Beyond(Network),
}

impl fmt::Display for BadNetwork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "network {:?}: ", self.text)?;
        match &self.fault {
            Fault::Address => f.write_str("not an IP address; write 10.0.0.0/8, fd00::/8 or 10.1.2.3"),
            Fault::Prefix(most) => write!(f, "the prefix must be a number from 0 to {most}"),
            Fault::Beyond(meant) => write!(f, "the address goes on after its prefix; write {meant}"),
        }
    }
}

impl std::error::Error for BadNetwork {}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn networks_contain_what_begins_like_them() {
        let trusted = Trusted::networks(["10.0.0.0/8", "192.168.4.0/22", "fd00:1::/32", "1.2.3.4", "::1"]).unwrap();
        for inside in ["10.255.0.1", "::ffff:10.0.0.1", "192.168.7.255", "fd00:1:ffff::9", "1.2.3.4", "::1"] {
            assert!(trusted.includes(Some(address(inside))), "{inside}");
        }
        for outside in ["11.0.0.1", "192.168.8.0", "fd00:2::1", "1.2.3.5", "127.0.0.1", "::a00:1"] {
            assert!(!trusted.includes(Some(address(outside))), "{outside}");
        }
        assert!(!trusted.includes(None));
        let with_this_machine = Trusted::networks(["Loopback", "10.0.0.0/8"]).unwrap();
        for inside in ["127.0.0.1", "::1", "10.1.2.3"] {
            assert!(with_this_machine.includes(Some(address(inside))), "{inside}");
        }
        assert!(!with_this_machine.includes(Some(address("11.1.2.3"))));
        let all = Trusted::networks(["0.0.0.0/0", "::/0"]).unwrap();
        assert!(all.includes(Some(address("8.8.8.8"))) && all.includes(Some(address("2001::1"))));
    }

    #[test]
    fn this_machine_is_its_loopback_interface() {
        let known = ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1", "10.0.0.1", "0.0.0.0"];
        let trusted: Vec<_> = known.into_iter().map(|text| Trusted::default().includes(Some(address(text)))).collect();
        assert_eq!(trusted, [true, true, true, true, false, false]);
        assert!(!Trusted::default().includes(None) && !Trusted::Nobody.includes(Some(address("::1"))));
        assert!(Trusted::Everyone.includes(None));
    }

    #[test]
    fn what_is_no_network_is_refused_with_what_to_write() {
        let table = [
            ("", "network \"\": not an IP address; write 10.0.0.0/8, fd00::/8 or 10.1.2.3"),
            ("10.0.0/8", "network \"10.0.0/8\": not an IP address; write 10.0.0.0/8, fd00::/8 or 10.1.2.3"),
            ("10.0.0.0/33", "network \"10.0.0.0/33\": the prefix must be a number from 0 to 32"),
            ("10.0.0.0/", "network \"10.0.0.0/\": the prefix must be a number from 0 to 32"),
            ("10.0.0.0/+8", "network \"10.0.0.0/+8\": the prefix must be a number from 0 to 32"),
            ("fd00::/129", "network \"fd00::/129\": the prefix must be a number from 0 to 128"),
            ("10.0.0.1/8", "network \"10.0.0.1/8\": the address goes on after its prefix; write 10.0.0.0/8"),
        ];
        for (text, expected) in table {
            assert_eq!(text.parse::<Network>().unwrap_err().to_string(), expected);
        }
    }
}
