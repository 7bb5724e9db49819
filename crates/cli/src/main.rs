//! The `muster` binary. Everything is in the library: a binary waits for all code that it is
//! linked from, a library only for its types.

fn main() -> std::process::ExitCode {
    muster_cli::main()
}
