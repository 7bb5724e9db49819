//! What can go wrong on the link.

use std::io;
use std::path::PathBuf;

/// What can go wrong on the link.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LinkError {
    /// The connection broke.
    #[error("the connection failed")]
    Io(#[source] io::Error),
    /// The other side took too long.
    #[error("{what} took longer than {seconds} s")]
    Slow {
        /// What was waited for.
        what: &'static str,
        /// How long it was waited for, in seconds.
        seconds: u64,
    },
    /// The connection ended inside a frame.
    #[error("the connection ended inside a frame")]
    Cut,
    /// A frame is larger than this side accepts.
    #[error("a frame of {len} bytes is larger than the {max} that are allowed")]
    TooLarge {
        /// Its size in bytes.
        len: usize,
        /// The most that is accepted, in bytes.
        max: usize,
    },
    /// A frame is not what it should be.
    #[error("a frame cannot be read: {0}")]
    Garbled(String),
    /// A message could not be written as JSON.
    #[error("a message cannot be written")]
    Unwritable(#[source] serde_json::Error),
    /// A file of the authority could not be read or written.
    #[error("cannot {what} {}", path.display())]
    File {
        /// What was tried.
        what: &'static str,
        /// The file that was meant.
        path: PathBuf,
        /// Why the system refused it.
        #[source]
        source: io::Error,
    },
    /// A certificate, key or certificate request is not usable.
    #[error("{0}")]
    Certificate(String),
    /// TLS said no.
    #[error("the secure connection failed")]
    Tls(#[source] rustls::Error),
}

impl From<io::Error> for LinkError {
    fn from(e: io::Error) -> LinkError {
        // tokio-rustls hides its errors in I/O errors; unpack them so that a wrong certificate
        // is not mistaken for a broken cable.
        match e.downcast::<rustls::Error>() {
            Ok(tls) => LinkError::Tls(tls),
            Err(io) => LinkError::Io(io),
        }
    }
}

impl From<rustls::Error> for LinkError {
    fn from(e: rustls::Error) -> LinkError {
        LinkError::Tls(e)
    }
}
