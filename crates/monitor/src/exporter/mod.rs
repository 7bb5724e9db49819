//! A page of figures for Prometheus, in the words of dcgm-exporter, so that dashboards and alerts
//! made for it work as they are; and what it does not have, in words of our own.

mod host;
mod labels;
mod names;
mod page;
mod serve;

#[cfg(test)]
mod tests;

pub use labels::JobLabels;
pub use page::Page;
pub use serve::{Exporter, ExporterError};

use crate::kmsg::OwnerOf;
use std::sync::Arc;

/// What the label with the host's name is called. dcgm-exporter wrote `Hostname` until 4.8 and
/// writes `hostname` after it; most dashboards know the first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum HostnameLabel {
    /// `Hostname`
    #[default]
    Upper,
    /// `hostname`
    Lower,
}

impl std::str::FromStr for HostnameLabel {
    type Err = String;
    fn from_str(s: &str) -> Result<Self, String> {
        match s {
            "Hostname" => Ok(HostnameLabel::Upper),
            "hostname" => Ok(HostnameLabel::Lower),
            _ => Err(format!("`{s}` is not Hostname or hostname")),
        }
    }
}

/// Whose names the figures have: DCGM renamed many in 4.6.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Names {
    /// As DCGM up to 4.5 has them, which dashboards know.
    #[default]
    Dcgm4,
    /// As DCGM 4.6 and later have them.
    Dcgm46,
}

impl std::str::FromStr for Names {
    type Err = String;
    fn from_str(s: &str) -> Result<Self, String> {
        match s {
            "dcgm4" => Ok(Names::Dcgm4),
            "dcgm46" => Ok(Names::Dcgm46),
            _ => Err(format!("`{s}` is not dcgm4 or dcgm46")),
        }
    }
}

/// Which job a GPU works for; none when it is free.
pub type LabelsOf = Arc<dyn Fn(u32) -> Option<JobLabels> + Send + Sync>;

/// How the page is written.
#[derive(Clone)]
pub struct PageConfig {
    /// Value of the label with the host's name.
    pub hostname: String,
    /// What that label is called.
    pub hostname_label: HostnameLabel,
    /// Whose names the figures have.
    pub names: Names,
    /// Put before the names of the labels that say which job a GPU works for.
    pub job_prefix: String,
    /// Which job a GPU works for.
    pub labels_of: LabelsOf,
    /// Whose process it is.
    pub owner_of: OwnerOf,
}

impl PageConfig {
    /// The usual page of this host.
    #[must_use]
    pub fn new(hostname: impl Into<String>) -> PageConfig {
        PageConfig {
            hostname: hostname.into(),
            hostname_label: HostnameLabel::default(),
            names: Names::default(),
            job_prefix: String::new(),
            labels_of: Arc::new(|_| None),
            owner_of: Arc::new(|_| None),
        }
    }
}

impl std::fmt::Debug for PageConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PageConfig")
            .field("hostname", &self.hostname)
            .field("names", &self.names)
            .finish_non_exhaustive()
    }
}
