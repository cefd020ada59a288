//! How single values are read. What cannot be is refused with what would do.

use std::fmt::Display;
use std::net::SocketAddr;
use std::str::FromStr;

use evenkeel::server::Trusted;
use evenkeel::wire::headers::is_customer;
use evenkeel_core::server::{Modes, Quota};
use evenkeel_core::{Criticality, InvalidConfig, Mode, PolicyName};

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
    text.parse().map_err(|error: InvalidConfig| error.allowed)
}

/// In any case, since nobody likes to type capitals: `sheddable_plus` will do.
pub(super) fn criticality(text: &str) -> Result<Criticality, String> {
    let named = text.to_ascii_uppercase().replace('-', "_").parse();
    named.map_err(|_| format!("use one of {}", Criticality::ALL.map(Criticality::as_str).join(", ")))
}

pub(super) fn mode(text: &str) -> Result<Mode, String> {
    let named = text.to_ascii_lowercase().parse();
    named.map_err(|_| format!("use one of {}", Mode::ALL.map(Mode::as_str).join(", ")))
}

/// One mechanism of overload control and how far it may go. The switch for all is an option of its own.
pub(super) fn mechanism(text: &str) -> Result<(&'static str, Mode), String> {
    let (name, said) = text.split_once('=').unwrap_or((text, ""));
    let known = Modes::default().each().map(|(known, _)| known).into_iter().filter(|known| *known != ALL);
    let Some(found) = known.clone().find(|known| *known == name.to_ascii_lowercase()) else {
        let hint = if name.eq_ignore_ascii_case(ALL) { "; --admission is for all" } else { "" };
        let names = known.collect::<Vec<_>>().join(", ");
        return Err(format!("{name:?} is no mechanism: use one of {names}, as in limit=on{hint}"));
    };
    Ok((found, mode(said).map_err(|fault| format!("{fault} after {found}="))?))
}

/// What a customer without a quota of its own may use.
pub(super) fn default_quota(text: &str) -> Result<Quota, String> {
    let (cpu, parts) = text.split_once(',').map_or((text, None), |(cpu, parts)| (cpu, Some(parts)));
    quota_of(number(cpu, QUOTA_LEAST, QUOTA_MOST)?, parts, "each", "0.5")
}

/// Of a customer: all it may use, then ceilings of criticalities, and whether it is hard.
pub(super) fn quota(text: &str) -> Result<(String, Quota), String> {
    let (first, parts) = text.split_once(',').map_or((text, None), |(first, parts)| (first, Some(parts)));
    // A name may have the sign in it, a number cannot.
    let (name, cpu) = first.rsplit_once('=').unwrap_or_default();
    if name.is_empty() {
        return Err("write a customer, = and CPU seconds in a second, as in mail=0.5".to_owned());
    }
    let name = customer(name)?;
    let cpu = number(cpu, QUOTA_LEAST, QUOTA_MOST).map_err(|fault| format!("{fault} after {name}="))?;
    let quota = quota_of(cpu, parts, &name, "mail=0.5")?;
    Ok((name, quota))
}

/// What follows the first comma, if one does.
fn quota_of(cpu: f64, parts: Option<&str>, whose: &str, example: &str) -> Result<Quota, String> {
    let mut quota = Quota::of_cpu(cpu);
    for part in parts.into_iter().flat_map(|parts| parts.split(',')) {
        if part.is_empty() {
            return Err(format!(
                "after a comma write a criticality and its part, or hard, as in {example},sheddable=0.1,hard"
            ));
        }
        let (class, cpu) = part.split_once('=').unwrap_or((part, ""));
        let is_twice = if part.eq_ignore_ascii_case(HARD) {
            std::mem::replace(&mut quota.hard, true)
        } else {
            let level =
                criticality(class).map_err(|fault| format!("{class:?} is no criticality: {fault}; or {HARD}"))?;
            let ceiling = number(cpu, QUOTA_LEAST, quota.cpu)
                .map_err(|fault| format!("{fault} after {class}=: it is part of what {whose} may use"))?;
            quota.by_criticality[level.index()].replace(ceiling).is_some()
        };
        if is_twice {
            return Err(format!("{class} is given twice: keep one of them"));
        }
    }
    Ok(quota)
}

/// A name that fits a header.
pub(super) fn customer(text: &str) -> Result<String, String> {
    if !is_customer(text) {
        return Err("a customer is named by printable ASCII without blanks around it".to_owned());
    }
    Ok(text.to_owned())
}

/// Whose word on the customer is believed.
pub(super) fn trusted(text: &str) -> Result<Trusted, String> {
    match text.to_ascii_lowercase().as_str() {
        "nobody" => Ok(Trusted::Nobody),
        "loopback" => Ok(Trusted::Loopback),
        "everyone" => Ok(Trusted::Everyone),
        _ => Trusted::networks(text.split(','))
            .map_err(|error| format!("{error}; or use one of nobody, loopback, everyone")),
    }
}

const QUOTA_LEAST: f64 = 0.001;
const QUOTA_MOST: f64 = 1024.0;
const HARD: &str = "hard";
const ALL: &str = "all";

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

    #[test]
    fn quotas_are_a_name_and_a_number() {
        assert_eq!(quota("mail=0.5"), Ok(("mail".to_owned(), Quota::of_cpu(0.5))));
        assert_eq!(quota("a=b=2"), Ok(("a=b".to_owned(), Quota::of_cpu(2.0))));
        for text in [" =1", "mail =1", " mail=1", "größe=1", "a\tb=1"] {
            assert_eq!(quota(text).unwrap_err(), "a customer is named by printable ASCII without blanks around it");
        }
        for text in ["", "mail", "=1"] {
            assert!(quota(text).unwrap_err().ends_with("as in mail=0.5"), "{text:?}");
        }
        for text in ["mail=", "mail=-1", "mail=NaN", "mail=0"] {
            assert_eq!(quota(text).unwrap_err(), "write a number from 0.001 to 1024 after mail=", "{text:?}");
        }
    }

    #[test]
    fn quotas_may_have_ceilings_for_criticalities() {
        let by_criticality = [Some(0.1), Some(0.25), None, None];
        let expected = Quota { by_criticality, ..Quota::of_cpu(0.5) };
        assert_eq!(quota("mail=0.5,sheddable=0.1,SHEDDABLE-PLUS=0.25"), Ok(("mail".to_owned(), expected)));
        for (text, fault) in [
            ("mail=0.5,urgent=0.1", "\"urgent\" is no criticality: use one of SHEDDABLE, "),
            ("mail=0.5,", "after a comma write a criticality and its part, or hard, as in mail=0.5,sheddable=0.1,hard"),
            ("mail=0.5,hard,hard", "hard is given twice: keep one of them"),
            ("mail=0.5,hard=1", "\"hard\" is no criticality: use one of SHEDDABLE, "),
            (
                "mail=0.5,soft",
                "\"soft\" is no criticality: use one of SHEDDABLE, SHEDDABLE_PLUS, CRITICAL, CRITICAL_PLUS; or hard",
            ),
            ("mail=0.5,,sheddable=0.1", "after a comma write a criticality and its part, or hard, "),
            ("mail=0.5,=0.1", "\"\" is no criticality: use one of SHEDDABLE, "),
            ("mail=0.5, sheddable=0.1", "\" sheddable\" is no criticality: "),
            (
                "mail=0.5,sheddable",
                "write a number from 0.001 to 0.5 after sheddable=: it is part of what mail may use",
            ),
            ("mail=0.5,sheddable=0.6", "write a number from 0.001 to 0.5 after sheddable=: "),
            ("mail=0.5,sheddable=0.1,sheddable=0.2", "sheddable is given twice: keep one of them"),
        ] {
            let told = quota(text).unwrap_err();
            assert!(told.starts_with(fault), "{text}: {told}");
        }
    }

    #[test]
    fn quotas_may_be_hard_also_for_whoever_has_none_of_its_own() {
        let hard = |cpu, by_criticality| Quota { by_criticality, hard: true, ..Quota::of_cpu(cpu) };
        assert_eq!(quota("mail=0.5,hard"), Ok(("mail".to_owned(), hard(0.5, [None; 4]))));
        assert_eq!(default_quota("0.4,sheddable=0.1,Hard"), Ok(hard(0.4, [Some(0.1), None, None, None])));
        assert_eq!(default_quota("0.4"), Ok(Quota::of_cpu(0.4)));
        for (text, fault) in [
            ("", "write a number from 0.001 to 1024"),
            ("mail=0.5", "write a number from 0.001 to 1024"),
            ("0.4,", "after a comma write a criticality and its part, or hard, as in 0.5,sheddable=0.1,hard"),
            ("0.4,critical=1", "write a number from 0.001 to 0.4 after critical=: it is part of what each may use"),
        ] {
            assert_eq!(default_quota(text).unwrap_err(), fault, "{text:?}");
        }
    }

    #[test]
    fn a_mechanism_has_a_mode() {
        assert_eq!(mechanism("limit=on"), Ok(("limit", Mode::On)));
        assert_eq!(mechanism("Quota=Observe"), Ok(("quota", Mode::Observe)));
        let names = "deadline, quota, cutoff, limit, queue, attempts, degrade, hints";
        for (text, name) in [("", ""), ("speed=on", "speed"), ("=on", "")] {
            let fault = format!("{name:?} is no mechanism: use one of {names}, as in limit=on");
            assert_eq!(mechanism(text).unwrap_err(), fault, "{text:?}");
        }
        assert!(mechanism("all=off").unwrap_err().ends_with("as in limit=on; --admission is for all"));
        for text in ["limit", "limit=", "limit=maybe"] {
            assert_eq!(mechanism(text).unwrap_err(), "use one of off, observe, on after limit=", "{text:?}");
        }
    }

    #[test]
    fn whoever_is_trusted_has_a_name_or_a_network() {
        assert_eq!(trusted("everyone"), Ok(Trusted::Everyone));
        assert_eq!(trusted("10.0.0.0/8,::1"), Ok(Trusted::networks(["10.0.0.0/8", "::1"]).unwrap()));
        assert!(trusted("Loopback,10.0.0.0/8").is_ok());
        for text in ["all", "", "10.0.0.0/8,", "everyone,10.0.0.0/8"] {
            assert!(trusted(text).unwrap_err().ends_with("nobody, loopback, everyone"), "{text:?}");
        }
        assert_eq!(mode("Observe"), Ok(Mode::Observe));
        assert_eq!(mode("maybe").unwrap_err(), "use one of off, observe, on");
    }
}
