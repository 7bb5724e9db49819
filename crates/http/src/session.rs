//! Sessions of browsers: begun with a token, ended by the browser, by time or with the token.

use super::auth::Caller;
use super::cookie::session_name;
use super::error::{Failure, Reply};
use super::extract::{idempotency_key, if_match};
use super::{App, mark, site};
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use muster_model::Span;

/// A session ends after this at the latest.
const LONGEST: Span = Span::hours(7 * 24);

/// Begin a session: a browser shows the cookie of this answer instead of the token.
///
/// It ends when the browser is closed, after 7 days, or with the token.
#[cfg_attr(feature = "openapi", utoipa::path(post, path = "/v1/session", tag = "site",
    responses((status = 200, description = "Who logged in, with the cookie.", body = muster_api::WhoAmI))))]
pub(crate) async fn begin(State(app): State<App>, caller: Caller, headers: HeaderMap) -> Reply {
    check_write(&headers)?;
    // Whoever has a copy of a cookie would otherwise be let in for ever.
    if caller.session_until.is_some() {
        return Err(Failure::unauthenticated("a session begins with a token, not with a session")
            .hint("send the token as `Authorization: Bearer TOKEN`"));
    }
    let hash = app.brain().read(|s| s.tokens.get(&caller.token).map(|t| t.hash.clone()));
    let hash = hash.ok_or_else(|| Failure::unauthenticated("this token was revoked"))?;
    let until = app.brain().now() + LONGEST;
    let proof = app.sealer().session_proof(&caller.token, until.0, &hash);
    let value = format!("{}.{}.{proof}", caller.token, until.0);
    with_cookie(&app, site::who(&app, &caller), &value, "")
}

/// End the session of this browser.
#[cfg_attr(feature = "openapi", utoipa::path(delete, path = "/v1/session", tag = "site",
    responses((status = 204, description = "The cookie is deleted."))))]
pub(crate) async fn end(State(app): State<App>, caller: Caller, headers: HeaderMap) -> Reply {
    check_write(&headers)?;
    let mut response = StatusCode::NO_CONTENT.into_response();
    mark(response.headers_mut(), &app, &caller, app.brain().durable());
    with_cookie(&app, response, "", "; Max-Age=0")
}

/// What every write may carry means nothing here, and is refused where it is malformed as elsewhere.
fn check_write(headers: &HeaderMap) -> Reply<()> {
    if_match(headers)?;
    idempotency_key(headers)?;
    Ok(())
}

/// The answer with the cookie. No script can read it, and no other site makes a browser send it.
fn with_cookie(app: &App, mut response: Response, value: &str, more: &str) -> Reply {
    let name = session_name(app);
    // The prefix of its name takes `Secure`, `Path=/` and no `Domain`.
    let secure = if app.config().https { "; Secure" } else { "" };
    let text = format!("{name}={value}; Path=/; HttpOnly; SameSite=Strict{secure}{more}");
    let text = HeaderValue::try_from(text).map_err(|_| Failure::internal())?;
    response.headers_mut().insert(header::SET_COOKIE, text);
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}
