//! What can go wrong between a caller and the server.

use muster_api::ErrorInfo;

/// What can go wrong between a caller and the server.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The server answered that it will not do it.
    #[error("{}", error.message)]
    Api {
        /// HTTP status.
        status: u16,
        /// What the server says.
        error: ErrorInfo,
    },
    /// No answer came.
    #[error("the server at {server} cannot be reached")]
    Unreachable {
        /// The address that was tried.
        server: String,
        /// Why the connection or the request failed.
        #[source]
        source: reqwest::Error,
    },
    /// An answer came, but not one that this client understands.
    #[error("the server at {server} gave an answer that makes no sense: {what}")]
    Garbled {
        /// The address that answered.
        server: String,
        /// What is wrong with it.
        what: String,
    },
    /// The client was set up wrongly.
    #[error("{what}")]
    Setup {
        /// What is wrong.
        what: String,
        /// How to fix it.
        hint: Option<String>,
    },
}

impl ClientError {
    /// The exit code of a command that ends with this error.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            ClientError::Api { status, error } => match (*status, error.code.as_str()) {
                (_, "policy" | "conflict" | "unsupported") | (409 | 412 | 429, _) => 5,
                (404, _) => 3,
                (401 | 403, _) => 4,
                (502..=504, _) => 6,
                (400..=499, _) => 2,
                _ => 1,
            },
            ClientError::Unreachable { .. } => 6,
            ClientError::Garbled { .. } => 1,
            ClientError::Setup { .. } => 2,
        }
    }

    /// How to fix it, where that is known.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            // The server's own hint is for those who speak HTTP.
            ClientError::Api { status: 401, .. } => {
                Some(
                    "set MUSTER_TOKEN or pass --token with a token that is valid; an administrator \
                     makes one with `muster token create`. Is there none? A server that starts \
                     without DATA_DIR/admin.token makes a new one there"
                        .into(),
                )
            }
            ClientError::Api { error, .. } => error.hint.clone(),
            ClientError::Unreachable { source, .. } if lacks_algorithm(source) => Some(
                "its certificate, and that of its authority, must be of RSA, Ed25519, or ECDSA with \
                 P-256 or P-384; P-521 is not supported"
                    .into(),
            ),
            ClientError::Unreachable { .. } => Some(
                "is it running? `muster up` starts one here; --server or MUSTER_SERVER names another"
                    .into(),
            ),
            ClientError::Garbled { .. } => {
                Some("is --server the address of a Muster server, and of a like version?".into())
            }
            ClientError::Setup { hint, .. } => hint.clone(),
        }
    }

    /// No such thing?
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        matches!(self, ClientError::Api { status: 404, .. })
    }

    /// Whether trying again later makes sense.
    #[must_use]
    pub fn is_passing(&self) -> bool {
        match self {
            ClientError::Api { status, .. } => matches!(status, 429 | 502..=504),
            ClientError::Unreachable { .. } => true,
            ClientError::Garbled { .. } | ClientError::Setup { .. } => false,
        }
    }
}

/// Did TLS fail because the two have no algorithm of certificates in common?
fn lacks_algorithm(e: &dyn std::error::Error) -> bool {
    let mut here = e;
    while let Some(next) = here.source() {
        here = next;
    }
    names_algorithm(&here.to_string())
}

/// The same, by the words of rustls: its error is inside those of others.
fn names_algorithm(said: &str) -> bool {
    said.contains("UnsupportedSignatureAlgorithm") || said.contains("HandshakeFailure")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_algorithm_that_is_not_supported_is_known_by_the_words_of_rustls() {
        use rustls::{AlertDescription, CertificateError, Error};
        let signed = CertificateError::UnsupportedSignatureAlgorithmContext {
            signature_algorithm_id: Vec::new(),
            supported_algorithms: Vec::new(),
        };
        let alert = Error::AlertReceived(AlertDescription::HandshakeFailure);
        for e in [Error::InvalidCertificate(signed), alert] {
            assert!(names_algorithm(&e.to_string()), "{e}");
        }
        let expired = Error::InvalidCertificate(CertificateError::Expired);
        assert!(!names_algorithm(&expired.to_string()));
    }

    fn api(status: u16, code: &str) -> u8 {
        let error =
            ErrorInfo { code: code.into(), message: String::new(), field: None, hint: None };
        ClientError::Api { status, error }.exit_code()
    }

    #[test]
    fn exit_codes_follow_the_kind_of_error() {
        assert_eq!(api(422, "invalid"), 2);
        assert_eq!(api(404, "not_found"), 3);
        assert_eq!(api(401, "unauthenticated"), 4);
        assert_eq!(api(403, "not_allowed"), 4);
        assert_eq!(api(403, "policy"), 5);
        assert_eq!(api(409, "conflict"), 5);
        assert_eq!(api(422, "unsupported"), 5);
        assert_eq!(api(503, "unavailable"), 6);
        assert_eq!(api(500, "internal"), 1);
    }

    #[test]
    fn whoever_types_is_not_asked_for_a_header() {
        let hint = Some("send `Authorization: Bearer TOKEN`".into());
        let (code, message) = ("unauthenticated".into(), String::new());
        let error = ErrorInfo { code, message, field: None, hint };
        let said = ClientError::Api { status: 401, error }.hint().unwrap_or_default();
        assert!(said.contains("MUSTER_TOKEN") && !said.contains("Bearer"), "{said}");
    }
}
