//! What isolating a slot needs of its supervisor's order.

use crate::cgroup::Group;
use crate::env::Env;
use muster_model::spec::Volume;
use std::path::Path;

/// What a slot's ranks are to find inside, besides what [`super::IsolationView`] says.
pub(crate) struct SlotPlan<'a> {
    /// The attempt's directory.
    pub(crate) dir: &'a Path,
    pub(crate) workdir: Option<&'a str>,
    /// The numbers of the ranks.
    pub(crate) ranks: Vec<u32>,
    pub(crate) volumes: &'a [Volume],
    /// Secrets as files, by name.
    pub(crate) secrets: &'a Env,
    pub(crate) secrets_dir: &'a Path,
    pub(crate) group: Option<&'a Group>,
}
