//! Every integration test of the crate in one program: it is linked once.

mod documents;
mod job_files;
mod objectives;
mod resolve;
mod sbatch;
mod topology_files;
mod topology_yaml;
