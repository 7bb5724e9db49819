//! Why an agent cannot go on.

use std::io;
use std::path::PathBuf;

/// Why an agent cannot go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AgentError {
    /// A file or directory of the agent's state cannot be used.
    #[error("cannot {what} {}", path.display())]
    File {
        /// What was tried.
        what: &'static str,
        /// The file or directory that was meant.
        path: PathBuf,
        /// Why the system refused it.
        #[source]
        source: io::Error,
    },
    /// The server's address is none.
    #[error(
        "`{given}` is no address of a server: {why}; write HOST:PORT, or several of them separated by commas"
    )]
    Server {
        /// What was given.
        given: String,
        /// What is wrong with it.
        why: String,
    },
    /// Another agent uses the directory.
    #[error("another agent already uses {}: stop it first, or give this one its own state directory", path.display())]
    InUse {
        /// The state directory that is locked.
        path: PathBuf,
    },
    /// Never joined, and no token to join with.
    #[error(
        "node {node} has not joined yet: make a token with `muster token create --join` and start the agent with it"
    )]
    NotJoined {
        /// The node's name.
        node: String,
    },
    /// The server will not have this node.
    #[error("the server refused node {node} ({code}): {message}")]
    Refused {
        /// The node's name.
        node: String,
        /// Why, in a word.
        code: String,
        /// In words, with what to do.
        message: String,
    },
    /// The server belongs to another site.
    #[error(
        "the server is of site {found}, but this node serves site {own}: point it at its own server, or give it a new state directory to join the other site"
    )]
    WrongSite {
        /// The node's site.
        own: String,
        /// The server's.
        found: String,
    },
    /// A part panicked that the agent cannot do without: it ends, to be started again. Ranks go on
    /// under their supervisors meanwhile.
    #[error("{part} panicked: {said}; the agent must be started again, ranks continue until then")]
    Panicked {
        /// Which one.
        part: &'static str,
        /// What the panic said.
        said: String,
    },
    /// Certificates, keys or the connection.
    #[error("the link to the server cannot be used")]
    Link(#[source] muster_link::LinkError),
}

impl AgentError {
    pub(crate) fn file(
        what: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(io::Error) -> AgentError {
        let path = path.into();
        move |source| AgentError::File { what, path, source }
    }
}
