//! From an address to a connection's settings.

use postgres::Config;
use postgres::config::{Host, SslMode};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

/// How to connect.
pub(crate) struct Settings {
    pub(crate) config: Config,
    /// TLS is used, with the server's certificate and name verified, when the address demands it.
    pub(crate) tls: bool,
    /// Certificates to trust instead of the system's.
    pub(crate) root: Option<PathBuf>,
}

/// Understands an address; the error says what is wrong with it and never repeats a password.
pub(crate) fn parse(url: &str) -> Result<Settings, String> {
    let (main, query) = url.split_once('?').unwrap_or((url, ""));
    let (mut kept, mut tls, mut root) = (Vec::new(), false, None);
    for pair in query.split('&').filter(|p| !p.is_empty()) {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        match (key, value) {
            ("sslmode", "disable" | "prefer" | "allow") => {}
            ("sslmode", "require" | "verify-ca" | "verify-full") => tls = true,
            ("sslmode", other) => {
                return Err(format!(
                    "sslmode `{other}` is not known: disable, prefer, require, verify-ca or verify-full"
                ));
            }
            ("sslrootcert", "system") => root = None,
            ("sslrootcert", path) => root = Some(PathBuf::from(path.replace("%2F", "/"))),
            ("application_name", _) => {}
            _ => kept.push(pair),
        }
    }
    let text = match kept.is_empty() {
        true => main.to_owned(),
        false => format!("{main}?{}", kept.join("&")),
    };
    let mut config = Config::from_str(&text).map_err(|e| {
        use std::error::Error;
        let why = e.source().map(ToString::to_string).unwrap_or_default();
        if why.is_empty() { e.to_string() } else { why }
    })?;
    if config.get_hosts().is_empty() {
        return Err("the host is missing".into());
    }
    let local = config.get_hosts().iter().all(|h| matches!(h, Host::Unix(_)));
    if tls && local {
        return Err("sslmode asks for TLS and the host is a local socket: leave sslmode out".into());
    }
    config.ssl_mode(if tls { SslMode::Require } else { SslMode::Disable });
    config.application_name("muster");
    // A dead network must become an error while the lease still matters.
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(Duration::from_secs(5));
    }
    if config.get_tcp_user_timeout().is_none() {
        config.tcp_user_timeout(Duration::from_secs(10));
    }
    config.keepalives_idle(Duration::from_secs(10));
    config.keepalives_interval(Duration::from_secs(5));
    config.keepalives_retries(3);
    Ok(Settings { config, tls, root })
}
