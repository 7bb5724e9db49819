//! Typed API client for the CLI, tests and tools.
