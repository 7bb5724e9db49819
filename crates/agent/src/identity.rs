//! Who a node is: its key and certificate, its site, and how much of the log it has seen.

use crate::error::AgentError;
use crate::process;
use crate::run_dir::{RunDir, write_private};
use muster_link::LinkError;
use muster_link::pki::{self, Identity};
use muster_model::ids::{Epoch, Seq, SiteId};
use muster_model::names::NodeName;
use muster_model::units::Time;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::UNIX_EPOCH;

/// How far the node has followed its site.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SiteState {
    #[serde(default)]
    pub(crate) site: Option<SiteId>,
    #[serde(default)]
    pub(crate) epoch: Epoch,
    #[serde(default)]
    pub(crate) seq: Seq,
    /// When the certificate was given.
    #[serde(default)]
    pub(crate) certified: Option<Time>,
}

/// What a node keeps of who it is.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Stored {
    pub(crate) cert: String,
    pub(crate) key: String,
    pub(crate) ca: String,
    pub(crate) site: SiteState,
}

impl Stored {
    pub(crate) fn identity(&self) -> Identity {
        Identity { cert_pem: self.cert.clone(), key_pem: self.key.clone() }
    }
}

/// Where identities are kept.
#[derive(Clone)]
pub(crate) enum Store {
    /// A directory of the node's own.
    Dir(PathBuf),
    /// One file for a whole simulated fleet.
    Shared(Arc<SharedStore>, NodeName),
}

impl Store {
    pub(crate) fn load(&self) -> Result<Option<Stored>, AgentError> {
        match self {
            Store::Dir(dir) => load_dir(dir),
            Store::Shared(shared, node) => Ok(shared.get(node)),
        }
    }

    /// The node's key, made and written down at the first call: before the node joins, because
    /// its enrolment is bound to the key, and a join whose answer was lost is asked for again.
    pub(crate) fn key(&self) -> Result<String, AgentError> {
        match self {
            Store::Dir(dir) => {
                let path = dir.join("node.key");
                match fs::read_to_string(&path) {
                    Ok(key) if !key.trim().is_empty() => return Ok(key),
                    Ok(_) => {}
                    Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
                    Err(e) => return Err(AgentError::file("read", path)(e)),
                }
                let (key, tmp) =
                    (pki::new_node_key().map_err(AgentError::Link)?, dir.join("node.key.tmp"));
                write_private(&tmp, key.as_bytes())
                    .and_then(|()| fs::rename(&tmp, &path))
                    .map_err(AgentError::file("write", path))?;
                Ok(key)
            }
            Store::Shared(shared, node) => shared.key(node).map_err(AgentError::Link),
        }
    }

    pub(crate) fn save(&self, stored: &Stored) -> Result<(), AgentError> {
        match self {
            Store::Dir(dir) => {
                // The key first: a certificate without its key is worth nothing.
                for (name, text) in
                    [("node.key", &stored.key), ("ca.pem", &stored.ca), ("node.pem", &stored.cert)]
                {
                    let (path, tmp) = (dir.join(name), dir.join(format!("{name}.tmp")));
                    write_private(&tmp, text.as_bytes())
                        .and_then(|()| fs::rename(&tmp, &path))
                        .map_err(AgentError::file("write", path))?;
                }
                self.save_site(&stored.site)
            }
            Store::Shared(shared, node) => {
                shared.put(node, stored.clone());
                Ok(())
            }
        }
    }

    pub(crate) fn save_site(&self, site: &SiteState) -> Result<(), AgentError> {
        match self {
            Store::Dir(dir) => RunDir(dir.clone())
                .write("site.json", site)
                .map_err(AgentError::file("write", dir.join("site.json"))),
            Store::Shared(shared, node) => {
                shared.note(node, site);
                Ok(())
            }
        }
    }
}

fn load_dir(dir: &Path) -> Result<Option<Stored>, AgentError> {
    let read = |name: &str| match fs::read_to_string(dir.join(name)) {
        Ok(text) => Ok(Some(text)),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(AgentError::file("read", dir.join(name))(e)),
    };
    let (Some(cert), Some(key), Some(ca)) = (read("node.pem")?, read("node.key")?, read("ca.pem")?)
    else {
        return Ok(None);
    };
    let site = RunDir(dir.to_path_buf()).read("site.json").unwrap_or_default();
    Ok(Some(Stored { cert, key, ca, site }))
}

/// Identities of a whole fleet in one file.
pub(crate) struct SharedStore {
    path: PathBuf,
    inner: Mutex<(BTreeMap<NodeName, Stored>, bool)>,
}

impl SharedStore {
    pub(crate) fn open(path: PathBuf) -> Arc<SharedStore> {
        let known = fs::read(&path).ok().and_then(|t| serde_json::from_slice(&t).ok());
        Arc::new(SharedStore { path, inner: Mutex::new((known.unwrap_or_default(), false)) })
    }

    fn get(&self, node: &NodeName) -> Option<Stored> {
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        // One that has its key, but has not joined yet.
        inner.0.get(node).filter(|s| !s.cert.is_empty()).cloned()
    }

    /// Whether the file has a key of this node.
    pub(crate) fn knows(&self, node: &NodeName) -> bool {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner).0.contains_key(node)
    }

    /// The key of a node; a new one is in the file after the next [`SharedStore::flush`].
    fn key(&self, node: &NodeName) -> Result<String, LinkError> {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(stored) = inner.0.get(node) {
            return Ok(stored.key.clone());
        }
        let key = pki::new_node_key()?;
        let (cert, ca, site) = (String::new(), String::new(), SiteState::default());
        inner.0.insert(node.clone(), Stored { cert, key: key.clone(), ca, site });
        inner.1 = true;
        Ok(key)
    }

    fn put(&self, node: &NodeName, stored: Stored) {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.0.insert(node.clone(), stored);
        inner.1 = true;
    }

    fn note(&self, node: &NodeName, site: &SiteState) {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(stored) = inner.0.get_mut(node) else { return };
        // An earlier end of the log counts after a reconcile: that is written down with the next
        // flush. All else of it may lag.
        let earlier = site.seq < stored.site.seq;
        stored.site = site.clone();
        inner.1 |= earlier;
    }

    /// Writes the file when an identity is new, or when asked to.
    pub(crate) fn flush(&self, always: bool) {
        let text = {
            let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
            if !(std::mem::take(&mut inner.1) || always) {
                return;
            }
            serde_json::to_vec(&inner.0)
        };
        let tmp = self.path.with_extension("tmp");
        let done = text
            .map_err(std::io::Error::from)
            .and_then(|t| write_private(&tmp, &t))
            .and_then(|()| fs::rename(&tmp, &self.path));
        if let Err(e) = done {
            tracing::warn!(path = %self.path.display(), error = %e, "cannot write identities");
        }
    }
}

/// Takes the state directory for this process, until the file is dropped.
pub(crate) fn lock(dir: &Path) -> Result<File, AgentError> {
    muster_link::private::data_dir(dir).map_err(AgentError::file("use", dir))?;
    let path = dir.join("lock");
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&path)
        .map_err(AgentError::file("open", &path))?;
    let taken = rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive);
    match taken {
        Ok(()) => Ok(file),
        Err(rustix::io::Errno::WOULDBLOCK) => Err(AgentError::InUse { path: dir.to_path_buf() }),
        Err(e) => Err(AgentError::file("lock", path)(e.into())),
    }
}

/// A random id kept in `dir`, made at the first call.
fn kept_id(dir: &Path) -> Result<String, AgentError> {
    let path = dir.join("id");
    if let Some(id) = crate::inventory::read(&path) {
        return Ok(id);
    }
    let id = process::random_id();
    write_private(&path, id.as_bytes()).map_err(AgentError::file("write", path))?;
    Ok(id)
}

/// Identity of the machine together with the state directory: a copied directory on another
/// machine is not the same node.
pub(crate) fn machine(dir: &Path) -> Result<String, AgentError> {
    Ok(format!("{}-{}", machine_id(), kept_id(dir)?))
}

/// Which directory of this machine it is, for as long as the machine is up. One that was only renamed
/// is the same; a copy, or one that was made anew at its path, is another one.
pub(crate) fn place(dir: &Path) -> Result<String, AgentError> {
    let about = dir.metadata().map_err(AgentError::file("read", dir))?;
    // Numbers of removed directories are used again. Not every file system knows when one was made.
    let made = about.created().ok().and_then(|t| t.duration_since(UNIX_EPOCH).ok());
    let made = made.map_or(0, |t| t.as_nanos());
    Ok(format!("{:x}-{:x}-{made:x}", about.dev(), about.ino()))
}

fn machine_id() -> String {
    crate::inventory::read("/etc/machine-id").unwrap_or_else(|| "unnamed".into())
}

/// The operating-system instance: nodes that share it share ports.
pub(crate) fn host() -> String {
    format!("{}/{}", machine_id(), process::boot_id())
}
