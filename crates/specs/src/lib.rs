//! Files that people write: job specs, scripts with directives, topology files.
