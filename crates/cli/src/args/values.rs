//! How single values are read. What cannot be is refused with what would do.

use std::fmt::Display;
use std::net::SocketAddr;
use std::str::FromStr;

use evenkeel_core::{Criticality, InvalidConfig, PolicyName};

pub(super) fn whole_number<N>(text: &str, least: N, most: N) -> Result<N, String>
where
    N: Copy + Display + FromStr + PartialOrd,
{
    let number = text.parse().ok().filter(|number| (least..=most).contains(number));
    number.ok_or_else(|| format!("write a whole number from {least} to {most}"))
}

pub(super) fn number(text: &str, least: f64, most: f64) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number| (least..=most).contains(number));
    number.ok_or_else(|| format!("write a number from {least} to {most}"))
}

pub(super) fn seed(text: &str) -> Result<u64, String> {
    whole_number(text, 0, u64::MAX)
}

/// A share of one.
pub(super) fn ratio(text: &str) -> Result<f64, String> {
    number(text, 0.0, 1.0)
}

/// Where to listen.
pub(super) fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| "write an IP address and a port, as in 127.0.0.1:50051 or [::1]:50051".to_owned())
}

/// Whom to call: a name will do.
pub(super) fn peer(text: &str) -> Result<String, String> {
    let is_peer = text.rsplit_once(':').is_some_and(|(host, port)| {
        !host.is_empty() && !host.contains(['/', ' ']) && port.parse::<u16>().is_ok_and(|port| port > 0)
    });
    if is_peer { Ok(text.to_owned()) } else { Err("write a host and a port, as in 127.0.0.1:50051".to_owned()) }
}

pub(super) fn policy(text: &str) -> Result<PolicyName, String> {
    let named: Result<PolicyName, InvalidConfig> = text.parse();
    named.and_then(|name| name.build().map(|_| name)).map_err(|error| error.allowed)
}

/// In any case, since nobody likes to type capitals: `sheddable_plus` will do.
pub(super) fn criticality(text: &str) -> Result<Criticality, String> {
    let named = text.to_ascii_uppercase().replace('-', "_").parse();
    named.map_err(|_| format!("use one of {}", Criticality::ALL.map(Criticality::as_str).join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absurd_numbers_are_refused_with_what_would_do() {
        for text in ["-1", "", "NaN", "18446744073709551616"] {
            assert!(seed(text).is_err(), "{text:?}");
        }
        for text in ["-0.1", "1.1", "", "NaN", "inf"] {
            assert_eq!(ratio(text).unwrap_err(), "write a number from 0 to 1", "{text:?}");
        }
    }

    #[test]
    fn addresses_have_a_port() {
        assert!(address("127.0.0.1:0").is_ok() && address("[::1]:80").is_ok());
        assert!(address("127.0.0.1").is_err() && address("localhost:80").is_err());
        assert!(peer("localhost:80").is_ok() && peer("[::1]:80").is_ok());
        for text in ["localhost", ":80", "localhost:0", "http://localhost:80", "localhost:80/work", ""] {
            assert!(peer(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn names_are_read_as_people_type_them() {
        assert_eq!(criticality("sheddable-plus"), Ok(Criticality::SheddablePlus));
        assert!(criticality("urgent").unwrap_err().contains("CRITICAL_PLUS"));
        assert_eq!(policy("p2c"), Ok(PolicyName::P2c));
        assert!(policy("fastest").unwrap_err().contains("least_loaded"));
    }
}
