//! One shape for everything that goes wrong.

use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use muster_api::error::{code_status, code_word};
use muster_api::{ErrorBody, ErrorInfo};
use muster_model::Refusal;
use muster_model::text::is_odd;
use muster_server::brain::{BrainError, CannotWrite};
use std::time::Duration;

/// An answer that is not what was asked for. Says what, where and how to fix it.
#[derive(Debug, Clone)]
pub(crate) struct Failure(Box<ErrorParts>);

#[derive(Debug, Clone)]
struct ErrorParts {
    status: StatusCode,
    code: &'static str,
    message: String,
    field: Option<String>,
    hint: Option<String>,
    header: Option<(HeaderName, HeaderValue)>,
}

/// What a handler gives.
pub(crate) type Reply<T = Response> = Result<T, Failure>;

impl Failure {
    pub(crate) fn new(
        status: StatusCode,
        code: &'static str,
        message: impl Into<String>,
    ) -> Failure {
        Failure(Box::new(ErrorParts {
            status,
            code,
            message: message.into(),
            field: None,
            hint: None,
            header: None,
        }))
    }
    /// The request cannot be understood.
    pub(crate) fn bad(message: impl Into<String>) -> Failure {
        Failure::new(StatusCode::BAD_REQUEST, "invalid", message)
    }
    /// The request is understood and makes no sense.
    pub(crate) fn senseless(message: impl Into<String>) -> Failure {
        Failure::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid", message)
    }
    pub(crate) fn not_found(message: impl Into<String>) -> Failure {
        Failure::new(StatusCode::NOT_FOUND, "not_found", message)
    }
    pub(crate) fn not_allowed(message: impl Into<String>) -> Failure {
        Failure::new(StatusCode::FORBIDDEN, "not_allowed", message)
    }
    pub(crate) fn conflict(message: impl Into<String>) -> Failure {
        Failure::new(StatusCode::CONFLICT, "conflict", message)
    }
    pub(crate) fn unauthenticated(message: impl Into<String>) -> Failure {
        Failure::new(StatusCode::UNAUTHORIZED, "unauthenticated", message)
            .hint(
                "send `Authorization: Bearer TOKEN` with a token that is valid; an administrator \
                 makes one with `muster token create`, and the first start of a server",
            )
            .header(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"muster\""))
    }
    pub(crate) fn not_acceptable(message: impl Into<String>) -> Failure {
        Failure::new(StatusCode::NOT_ACCEPTABLE, "not_acceptable", message)
    }
    pub(crate) fn too_large(limit: usize) -> Failure {
        Failure::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "too_large",
            format!("the body is larger than {limit} bytes"),
        )
        .hint("keep data in a volume and name it in the spec")
        .header(header::CONNECTION, HeaderValue::from_static("close"))
    }
    pub(crate) fn rate_limited(wait: Duration) -> Failure {
        Failure::new(StatusCode::TOO_MANY_REQUESTS, "rate_limited", "too many requests")
            .hint("wait as long as Retry-After says")
            .retry_after(wait)
    }
    /// The caller changed too many tasks of arrays lately.
    pub(crate) fn too_many_tasks(tasks: usize, wait: Duration) -> Failure {
        let message = format!("{tasks} tasks are more than this token may change now");
        Failure::new(StatusCode::TOO_MANY_REQUESTS, "rate_limited", message)
            .hint("nothing was changed; wait as long as Retry-After says")
            .retry_after(wait)
    }
    /// The caller has too much under way at once.
    pub(crate) fn too_many(message: impl Into<String>) -> Failure {
        Failure::new(StatusCode::TOO_MANY_REQUESTS, "rate_limited", message)
            .hint("let some of them end first")
            .retry_after(Duration::from_secs(1))
    }
    /// The log cannot be written now.
    pub(crate) fn cannot_write(why: &CannotWrite) -> Failure {
        Failure::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", why.reason.clone())
            .retry_after(Duration::from_secs(2))
    }
    pub(crate) fn unavailable(message: impl Into<String>) -> Failure {
        Failure::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", message)
            .retry_after(Duration::from_secs(1))
    }
    pub(crate) fn internal() -> Failure {
        Failure::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "internal",
            "the server failed to handle this request; its log says why",
        )
    }

    #[must_use]
    pub(crate) fn field(mut self, field: impl Into<String>) -> Failure {
        self.0.field = Some(field.into());
        self
    }
    #[must_use]
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Failure {
        self.0.hint = Some(hint.into());
        self
    }
    #[must_use]
    pub(crate) fn header(mut self, name: HeaderName, value: HeaderValue) -> Failure {
        self.0.header = Some((name, value));
        self
    }
    fn retry_after(self, wait: Duration) -> Failure {
        let seconds = wait.as_millis().div_ceil(1000).max(1);
        let value =
            HeaderValue::try_from(seconds.to_string()).unwrap_or(HeaderValue::from_static("1"));
        self.header(header::RETRY_AFTER, value)
    }
    #[cfg(test)]
    pub(crate) fn status(&self) -> StatusCode {
        self.0.status
    }
}

impl From<Refusal> for Failure {
    fn from(r: Refusal) -> Failure {
        let status = StatusCode::from_u16(code_status(r.code)).unwrap_or(StatusCode::CONFLICT);
        let Refusal { code, message, field, hint } = r;
        let code = code_word(code);
        Failure(Box::new(ErrorParts { status, code, message, field, hint, header: None }))
    }
}

impl From<BrainError> for Failure {
    fn from(e: BrainError) -> Failure {
        match e {
            BrainError::Refused(r) => r.into(),
            BrainError::Archived { .. } => {
                Failure::new(StatusCode::GONE, "gone", "this part of the log is archived")
            }
            BrainError::Unavailable(why) => Failure::unavailable(why)
                .hint("try again; with the same Idempotency-Key a repeated write is done once"),
        }
    }
}

/// What a caller wrote may be in it: nothing of it moves a cursor or turns the text around it.
fn plain(text: String) -> String {
    let odd = |c: char| c != '\n' && is_odd(c);
    if !text.contains(odd) {
        return text;
    }
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if odd(c) {
            out.extend(c.escape_unicode());
        } else {
            out.push(c);
        }
    }
    out
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let ErrorParts { status, code, message, field, hint, header } = *self.0;
        let (message, field, hint) = (plain(message), field.map(plain), hint.map(plain));
        let body = ErrorBody { error: ErrorInfo { code: code.into(), message, field, hint } };
        let mut response = (status, axum::Json(body)).into_response();
        if let Some((name, value)) = header {
            response.headers_mut().insert(name, value);
        }
        response
    }
}
