//! Sessions of browsers: a cookie stands for a token, and ends with it. The cookie is not the token: no page
//! can read it, it means something to this site only, and a write with it must come from the console.

use super::App;
use super::error::Failure;
use axum::http::{HeaderMap, HeaderName, Uri, header};
use muster_link::token;
use muster_model::Time;

/// The console sends it with every request. A page of another origin cannot without being asked first,
/// and nobody here says yes to that.
const CONSOLE: HeaderName = HeaderName::from_static("muster-console");
/// What browsers themselves say about where a request comes from.
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// What a cookie says.
pub(crate) struct SessionCookie<'a> {
    /// Public part of the token that it stands for.
    pub(crate) token: &'a str,
    pub(crate) until: Time,
    proof: &'a str,
}

impl<'a> SessionCookie<'a> {
    /// `TOKEN.UNTIL.PROOF`.
    fn parse(value: &'a str) -> Option<SessionCookie<'a>> {
        let (token, rest) = value.split_once('.')?;
        let (until, proof) = rest.split_once('.')?;
        Some(SessionCookie { token, until: Time(until.parse().ok()?), proof })
    }

    /// Was it made here for the token of this hash, and is it not over?
    pub(crate) fn is_good(&self, app: &App, hash: &str, now: Time) -> bool {
        let right = app.sealer().session_proof(self.token, self.until.0, hash);
        token::same(self.proof, &right) && now < self.until
    }
}

/// The session that a request shows.
pub(crate) fn shown<'a>(app: &App, headers: &'a HeaderMap) -> Option<SessionCookie<'a>> {
    if !headers.contains_key(header::COOKIE) {
        return None;
    }
    cookie(headers, &session_name(app)).and_then(SessionCookie::parse)
}

/// What the cookie of this site is called.
pub(crate) fn session_name(app: &App) -> String {
    app.sealer().session_name(app.config().https)
}

/// The value of the cookie of this name.
fn cookie<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let all = headers.get_all(header::COOKIE).iter().filter_map(|v| v.to_str().ok());
    let mut pairs = all.flat_map(|v| v.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(n, _)| *n == name).map(|(_, value)| value)
}

/// Does a request with a session come from the console, and from no other page? `https`: browsers
/// reach this site over TLS, so a page without it is not its own, whatever its name.
pub(crate) fn is_own(headers: &HeaderMap, uri: &Uri, https: bool) -> bool {
    let text = |name: HeaderName| headers.get(name).map(|v| v.to_str().unwrap_or_default());
    if headers.get(CONSOLE).is_none_or(|v| v.as_bytes() != b"1") {
        return false;
    }
    let origin = text(header::ORIGIN);
    let is_plain = |o: &str| o.get(..7).is_some_and(|s| s.eq_ignore_ascii_case("http://"));
    if https && origin.is_some_and(is_plain) {
        return false;
    }
    // Also right behind a proxy that asks under another name.
    if let Some(from) = text(SEC_FETCH_SITE) {
        return from == "same-origin";
    }
    // Every browser gives one of the two with what is not a GET.
    let Some(origin) = origin else { return false };
    let host = text(header::HOST).or_else(|| uri.authority().map(|a| a.as_str()));
    let at = origin.split_once("://").map(|(_, at)| at);
    at.zip(host).is_some_and(|(at, host)| at.eq_ignore_ascii_case(host))
}

/// What a write with a session from elsewhere gets as its answer.
pub(crate) fn not_own() -> Failure {
    Failure::not_allowed("a session writes from the console's own pages only")
        .hint("send the header `Muster-Console: 1` from the same origin, or a token")
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    fn headers(all: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut out = HeaderMap::new();
        for (name, value) in all {
            out.append(*name, HeaderValue::from_static(value));
        }
        out
    }

    #[test]
    fn a_cookie_is_found_among_others() {
        let h = headers(&[("cookie", "a=1; muster_x=t.5.p=q"), ("cookie", "b=2")]);
        assert_eq!(cookie(&h, "muster_x"), Some("t.5.p=q"));
        assert_eq!(cookie(&h, "b"), Some("2"));
        assert_eq!(cookie(&h, "muster"), None);
        let shown = SessionCookie::parse("t.5.p").unwrap();
        assert_eq!((shown.token, shown.until, shown.proof), ("t", Time(5), "p"));
        for bad in ["", "t", "t.5", "t.x.p"] {
            assert!(SessionCookie::parse(bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn only_the_consoles_own_pages_write_with_a_session() {
        let uri: Uri = "/v1/jobs".parse().unwrap();
        let own = |all: &[(&'static str, &'static str)]| is_own(&headers(all), &uri, false);
        let (mark, host) = (("muster-console", "1"), ("host", "m.example:7070"));
        assert!(!own(&[host]), "a form of another page cannot send the header");
        assert!(!own(&[mark, host]), "nobody says where it comes from");
        assert!(own(&[mark, host, ("origin", "https://m.example:7070")]));
        for other in ["2", "", "11", "true"] {
            let all = [("muster-console", other), host, ("origin", "https://m.example:7070")];
            assert!(!own(&all), "{other}");
        }
        assert!(!own(&[mark, host, ("origin", "https://evil.example")]));
        assert!(!own(&[mark, host, ("origin", "null")]));
        assert!(!own(&[mark, ("origin", "https://m.example:7070")]), "nobody knows its own name");
        assert!(!own(&[mark, host, ("sec-fetch-site", "cross-site")]));
        assert!(!own(&[mark, host, ("sec-fetch-site", "same-site")]));
        let proxied = ("origin", "https://public.example");
        assert!(own(&[mark, host, proxied, ("sec-fetch-site", "same-origin")]));
        let secure = |all: &[(&'static str, &'static str)]| is_own(&headers(all), &uri, true);
        assert!(secure(&[mark, host, ("origin", "https://m.example:7070")]));
        let plain = ("origin", "http://m.example:7070");
        assert!(own(&[mark, host, plain]) && !secure(&[mark, host, plain]));
        assert!(!secure(&[mark, host, plain, ("sec-fetch-site", "same-origin")]));
    }
}
