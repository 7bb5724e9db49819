//! Sessions of browsers.

use super::{Got, Site, held, id_of, patient, site, site_with};
use crate::HttpConfig;
use serde_json::Value;

const CONSOLE: (&str, &str) = ("muster-console", "1");
const OWN: (&str, &str) = ("sec-fetch-site", "same-origin");
const HOST: (&str, &str) = ("host", "muster.example:7070");

/// Logs in; the cookie as a browser sends it back.
async fn login(s: &Site, token: &str) -> (String, Got) {
    let got = s.post(token, "/v1/session", &Value::Null).await;
    assert_eq!(got.status, 200, "{:?}", got.body);
    let cookie = got.header("set-cookie").split(';').next().unwrap().to_owned();
    (cookie, got)
}

async fn by_cookie(s: &Site, cookie: &str, method: &str, path: &str, more: &[(&str, &str)]) -> Got {
    let headers = [&[("cookie", cookie), HOST][..], more].concat();
    let body = if path == "/v1/jobs" && method == "POST" { held("a") } else { Value::Null };
    s.call("", method, path, &body, &headers).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cookie_stands_for_its_token_and_ends_with_it() {
    let s = site().await;
    let (cookie, got) = login(&s, &s.user).await;
    assert_eq!(got.json()["name"], "user:ann");
    let set = got.header("set-cookie");
    assert!(set.contains("HttpOnly") && set.contains("SameSite=Strict"), "{set}");
    assert!(!set.contains("Secure"), "without TLS it would never come back: {set}");
    let secret = s.user.rsplit('_').next().unwrap();
    assert!(!set.contains(secret), "the cookie is not the token");

    let me = by_cookie(&s, &cookie, "GET", "/v1/whoami", &[]).await;
    assert_eq!((me.status.as_u16(), &me.json()["name"]), (200, &"user:ann".into()));
    let nobody = s.call("", "GET", "/v1/whoami", &Value::Null, &[("cookie", "other=1")]).await;
    assert_eq!(nobody.status, 401);

    let path = format!("/v1/tokens/{}", id_of(&s.user));
    assert_eq!(s.call(&s.admin, "DELETE", &path, &Value::Null, &[]).await.status, 204);
    let over = by_cookie(&s, &cookie, "GET", "/v1/whoami", &[]).await;
    assert_eq!((over.status.as_u16(), over.error().as_str()), (401, "unauthenticated"));
    assert!(String::from_utf8_lossy(&over.body).contains("log in again"), "{:?}", over.body);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_by_cookie_must_come_from_the_console() {
    let s = site().await;
    let (cookie, _) = login(&s, &s.user).await;
    let evil = ("origin", "https://evil.example");
    let own = ("origin", "http://muster.example:7070");
    for (more, status) in [
        (vec![], 403_u16),
        (vec![own], 403),
        (vec![CONSOLE, evil], 403),
        (vec![CONSOLE, ("sec-fetch-site", "cross-site")], 403),
        (vec![CONSOLE, own], 201),
        (vec![CONSOLE, OWN], 201),
        (vec![CONSOLE], 403),
    ] {
        let got = by_cookie(&s, &cookie, "POST", "/v1/jobs", &more).await;
        assert_eq!(got.status, status, "{more:?}: {:?}", got.body);
    }
    let jobs = s.get(&s.user, "/v1/jobs").await.json();
    assert_eq!(jobs["items"].as_array().unwrap().len(), 2, "what was refused did nothing");
    // A token needs none of it, and goes before a cookie.
    let both = [("cookie", cookie.as_str()), evil];
    let got = s.call(&s.other, "POST", "/v1/jobs", &held("b"), &both).await;
    assert_eq!((got.status.as_u16(), &got.json()["project"]), (201, &"beta".into()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cookie_that_was_changed_is_of_no_use() {
    let s = site().await;
    let (cookie, _) = login(&s, &s.user).await;
    let (name, value) = cookie.split_once('=').unwrap();
    let parts: Vec<&str> = value.splitn(3, '.').collect();
    let later = parts[1].parse::<i64>().unwrap() + 1;
    for forged in [
        format!("{name}={}.{later}.{}", parts[0], parts[2]),
        format!("{name}={}.{}.{}", id_of(&s.admin), parts[1], parts[2]),
        format!("{name}={}.{}.", parts[0], parts[1]),
        format!("{name}={}", s.user),
        format!("{name}="),
    ] {
        let got = by_cookie(&s, &forged, "GET", "/v1/whoami", &[]).await;
        assert_eq!(got.status, 401, "{forged}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_is_ended_and_under_tls_never_shown_without() {
    let s = site_with(HttpConfig { https: true, ..patient() }).await;
    let (cookie, got) = login(&s, &s.user).await;
    let set = got.header("set-cookie");
    assert!(set.contains("; Secure") && set.contains("; Path=/;"), "{set}");
    assert!(set.starts_with("__Host-muster_session_") && !set.contains("Domain"), "{set}");
    assert_eq!(by_cookie(&s, &cookie, "GET", "/v1/whoami", &[]).await.status, 200);
    let refused = by_cookie(&s, &cookie, "DELETE", "/v1/session", &[]).await;
    assert_eq!(refused.status, 403, "another page cannot log anybody out");
    let ended = by_cookie(&s, &cookie, "DELETE", "/v1/session", &[CONSOLE, OWN]).await;
    assert_eq!(ended.status, 204);
    assert!(ended.header("set-cookie").contains("Max-Age=0"));
    assert_eq!(s.post("", "/v1/session", &Value::Null).await.status, 401);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_does_not_renew_itself() {
    let s = site().await;
    let (cookie, _) = login(&s, &s.user).await;
    let refused = by_cookie(&s, &cookie, "POST", "/v1/session", &[CONSOLE, OWN]).await;
    assert_eq!((refused.status.as_u16(), refused.error().as_str()), (401, "unauthenticated"));
    assert_eq!(refused.header("set-cookie"), "");
    assert!(String::from_utf8_lossy(&refused.body).contains("Authorization"), "{:?}", refused.body);
    // Who has the token begins another one, whatever cookie comes with it.
    let both = [("cookie", cookie.as_str())];
    let again = s.call(&s.user, "POST", "/v1/session", &Value::Null, &both).await;
    assert_eq!(again.status, 200, "{:?}", again.body);
}
