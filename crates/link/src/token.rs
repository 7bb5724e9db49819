//! Tokens as people copy them: `mjt_ID_SECRET_PIN` lets agents join, `mst_ID_SECRET` calls the API.

use crate::error::LinkError;
use crate::messages::JoinSecret;
use sha2::{Digest, Sha256};
use std::fmt;
use std::str::FromStr;
use subtle::ConstantTimeEq as _;

const JOIN: &str = "mjt_";
const API: &str = "mst_";
/// No letters that are mistaken for digits.
const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
const ID_CHARS: usize = 10;
const SECRET_CHARS: usize = 32;

/// Why a text is not a token. Never repeats the text: it may be most of a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// A join token was wanted.
    #[error(
        "this is not a join token: it must look like mjt_ID_SECRET_PIN; make one with `muster token create --join`"
    )]
    NotJoin,
    /// An API token was wanted.
    #[error("this is not an API token: it must look like mst_ID_SECRET")]
    NotApi,
    /// An API token was given where a join token belongs.
    #[error(
        "this is an API token; joining needs a join token (mjt_…): make one with `muster token create --join`"
    )]
    ApiForJoin,
    /// A join token was given where an API token belongs.
    #[error(
        "this is a join token, which only lets agents join; the API needs an API token (mst_…)"
    )]
    JoinForApi,
    /// The last part is no certificate hash.
    #[error(
        "the last part of the join token must be the 64 hex digits of the authority's hash; copy the token again, whole"
    )]
    Pin,
}

/// Hex SHA-256 of the secret part of a token: what the log keeps.
#[must_use]
pub fn hash(secret: &str) -> String {
    hex(&Sha256::digest(secret.as_bytes()))
}

/// Compares two hashes in a time that does not depend on where they differ.
#[must_use]
pub fn same(a: &str, b: &str) -> bool {
    a.as_bytes().ct_eq(b.as_bytes()).into()
}

/// Lower-case hex. Digit by digit: every request has its token's hash written so.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    let digit = |n: u8| char::from(b"0123456789abcdef"[usize::from(n & 15)]);
    let mut text = String::with_capacity(bytes.len() * 2);
    for b in bytes {
        text.push(digit(b >> 4));
        text.push(digit(*b));
    }
    text
}

fn word(chars: usize) -> Result<String, LinkError> {
    let mut bytes = vec![0u8; chars];
    getrandom::fill(&mut bytes)
        .map_err(|_| LinkError::Certificate("the system gives no random numbers".into()))?;
    Ok(bytes.iter().map(|b| char::from(ALPHABET[usize::from(b & 31)])).collect())
}

fn is_word(s: &str) -> bool {
    !s.is_empty() && s.len() <= 64 && s.bytes().all(|b| b.is_ascii_alphanumeric())
}

/// Lets agents join the site whose authority has this hash.
#[derive(Clone, PartialEq, Eq)]
pub struct JoinToken {
    /// Public part.
    pub id: String,
    /// Secret part.
    pub secret: String,
    /// Hex SHA-256 of the authority's certificate: the agent trusts no other server.
    pub pin: String,
}

impl JoinToken {
    /// A new one.
    ///
    /// # Errors
    /// When the system gives no random numbers.
    pub fn generate(pin: impl Into<String>) -> Result<JoinToken, LinkError> {
        Ok(JoinToken { id: word(ID_CHARS)?, secret: word(SECRET_CHARS)?, pin: pin.into() })
    }

    /// What is shown to the server: `ID_SECRET`.
    #[must_use]
    pub fn presented(&self) -> JoinSecret {
        JoinSecret(format!("{}_{}", self.id, self.secret))
    }
}

impl JoinSecret {
    /// Id and secret, when it has that form.
    #[must_use]
    pub fn parts(&self) -> Option<(&str, &str)> {
        self.0.split_once('_').filter(|(id, secret)| is_word(id) && is_word(secret))
    }
}

impl fmt::Display for JoinToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{JOIN}{}_{}_{}", self.id, self.secret, self.pin)
    }
}

impl fmt::Debug for JoinToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "JoinToken({}, …)", self.id)
    }
}

impl FromStr for JoinToken {
    type Err = TokenError;
    fn from_str(s: &str) -> Result<JoinToken, TokenError> {
        let s = s.trim();
        if s.starts_with(API) {
            return Err(TokenError::ApiForJoin);
        }
        let rest = s.strip_prefix(JOIN).ok_or(TokenError::NotJoin)?;
        let parts: Vec<&str> = rest.split('_').collect();
        let [id, secret, pin] = parts[..] else { return Err(TokenError::NotJoin) };
        if !is_word(id) || !is_word(secret) {
            return Err(TokenError::NotJoin);
        }
        if pin.len() != 64 || !pin.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(TokenError::Pin);
        }
        Ok(JoinToken { id: id.into(), secret: secret.into(), pin: pin.to_ascii_lowercase() })
    }
}

/// Calls the API.
#[derive(Clone, PartialEq, Eq)]
pub struct ApiToken {
    /// Public part.
    pub id: String,
    /// Secret part.
    pub secret: String,
}

impl ApiToken {
    /// A new one.
    ///
    /// # Errors
    /// When the system gives no random numbers.
    pub fn generate() -> Result<ApiToken, LinkError> {
        Ok(ApiToken { id: word(ID_CHARS)?, secret: word(SECRET_CHARS)? })
    }
}

impl fmt::Display for ApiToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{API}{}_{}", self.id, self.secret)
    }
}

impl fmt::Debug for ApiToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ApiToken({}, …)", self.id)
    }
}

impl FromStr for ApiToken {
    type Err = TokenError;
    fn from_str(s: &str) -> Result<ApiToken, TokenError> {
        let s = s.trim();
        if s.starts_with(JOIN) {
            return Err(TokenError::JoinForApi);
        }
        match s.strip_prefix(API).and_then(|r| r.split_once('_')) {
            Some((id, secret)) if is_word(id) && is_word(secret) => {
                Ok(ApiToken { id: id.into(), secret: secret.into() })
            }
            _ => Err(TokenError::NotApi),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_survive_text_and_never_print_their_secret() {
        let join = JoinToken::generate("ab".repeat(32)).unwrap();
        assert_eq!(format!(" {join}\n").parse::<JoinToken>(), Ok(join.clone()));
        assert!(!format!("{join:?} {:?}", join.presented()).contains(&join.secret));
        assert_eq!(join.presented().parts(), Some((&join.id[..], &join.secret[..])));
        let api = ApiToken::generate().unwrap();
        assert_eq!(api.to_string().parse::<ApiToken>(), Ok(api.clone()));
        assert!(!format!("{api:?}").contains(&api.secret));
        assert_ne!(api.secret, ApiToken::generate().unwrap().secret);
    }

    #[test]
    fn what_is_no_token_says_so_without_repeating_it() {
        let pin = "ab".repeat(32);
        for (text, want) in [
            ("", TokenError::NotJoin),
            ("mjt_a_b", TokenError::NotJoin),
            ("mjt_a_b_c", TokenError::Pin),
            ("mjt_a__c", TokenError::NotJoin),
            ("mst_a_b", TokenError::ApiForJoin),
            (&format!("mjt_a_b_{pin}_x"), TokenError::NotJoin),
            (&format!("mjt_a_é_{pin}"), TokenError::NotJoin),
        ] {
            assert_eq!(text.parse::<JoinToken>(), Err(want), "{text}");
        }
        assert_eq!("mjt_a_b_c".parse::<ApiToken>(), Err(TokenError::JoinForApi));
        assert_eq!("mst_a".parse::<ApiToken>(), Err(TokenError::NotApi));
        assert_eq!(JoinSecret("nothing".into()).parts(), None);
    }

    #[test]
    fn hashes_are_hex_sha256_and_compared_whole() {
        assert!(hash("abc").starts_with("ba7816bf8f01cfea414140de5dae2223"));
        assert!(same(&hash("a"), &hash("a")));
        assert!(!same(&hash("a"), &hash("b")));
        assert!(!same(&hash("a"), ""));
    }
}
