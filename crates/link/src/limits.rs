//! What the operating system allows one process, and who counts as one caller.

use rustix::process::{Resource, getrlimit, setrlimit};
use std::net::{IpAddr, Ipv6Addr};

/// Raises the number of files this process may have open as far as it may, and says how far.
/// Each connection is one: the usual 1024 would end a site at a thousand nodes.
#[must_use]
pub fn raise_open_files() -> u64 {
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current == limit.maximum {
        return limit.current.unwrap_or(u64::MAX);
    }
    let before = limit.current;
    limit.current = limit.maximum;
    match setrlimit(Resource::Nofile, limit) {
        Ok(()) => limit.current.unwrap_or(u64::MAX),
        Err(e) => {
            tracing::warn!(error = %e, "cannot raise the limit of open files");
            before.unwrap_or(u64::MAX)
        }
    }
}

/// Addresses that one caller can choose among are one: all of a /64 of IPv6.
#[must_use]
pub fn caller(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => {
            let [a, b, c, d, ..] = v6.segments();
            IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
        }
        v4 => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::caller;

    #[test]
    fn addresses_of_one_network_are_one_caller() {
        let at = |s: &str| caller(s.parse().unwrap());
        assert_eq!(at("2001:db8:1:2::1"), at("2001:db8:1:2:ffff::9"));
        assert_ne!(at("2001:db8:1:2::1"), at("2001:db8:1:3::1"));
        assert_eq!(at("::ffff:10.0.0.1"), at("10.0.0.1"));
        assert_ne!(at("10.0.0.1"), at("10.0.0.2"));
    }

    #[test]
    fn the_limit_only_grows() {
        let first = super::raise_open_files();
        assert!(first >= 256);
        assert_eq!(super::raise_open_files(), first);
    }
}
