//! Builds the web console with npm, where npm is there, and puts it into the binary. Nothing that
//! goes wrong here fails the build: the plain page takes the console's place and says how to
//! build it.

use std::error::Error;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// What the console is made of. What is not here (tests, tools) does not make it stale.
const SOURCES: [&str; 6] =
    ["src", "public", "index.html", "package.json", "package-lock.json", "vite.config.ts"];
/// A registry that does not answer must not hold up the build for longer.
const CAP: Duration = Duration::from_secs(300);

fn main() {
    let here = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    let out = PathBuf::from(std::env::var_os("OUT_DIR").unwrap_or_default());
    let web = here.join("../../web");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=assets");
    println!("cargo::rerun-if-env-changed=MUSTER_CONSOLE");
    if web.is_dir() {
        for source in SOURCES {
            println!("cargo::rerun-if-changed={}", web.join(source).display());
        }
    }
    let built = out.join("console");
    let plain = here.join("assets");
    let dir = match console(&web, &built) {
        Ok(()) => built,
        Err(why) => {
            println!("cargo::warning=the web console is not in this build: {why}");
            plain.clone()
        }
    };
    let table = table(&dir).or_else(|_| table(&plain));
    let text = table.unwrap_or_else(|_| {
        "/// Every file of the console.\npub static FILES: [File; 0] = [];\n".into()
    });
    if let Err(why) = fs::write(out.join("console.rs"), text) {
        println!("cargo::warning=the table of the console's files cannot be written: {why}");
    }
}

/// Builds the console into `out`.
fn console(web: &Path, out: &Path) -> Result<(), Box<dyn Error>> {
    if std::env::var("MUSTER_CONSOLE").is_ok_and(|v| v == "off") {
        return Err("MUSTER_CONSOLE=off".into());
    }
    if !web.join("package-lock.json").is_file() {
        return Err("web/ is not there".into());
    }
    let npm = |args: &[&str]| {
        let mut command = Command::new("npm");
        command.args(args).current_dir(web);
        command.env("NODE_ENV", "production").env("MUSTER_CONSOLE_OUT", out);
        command
    };
    // Two builds at once (debug and release) share the installed packages.
    let lock = File::open(web.join("package-lock.json"))?;
    lock.lock()?;
    if stale(web) {
        let quiet = ["--no-audit", "--no-fund", "--loglevel=error"];
        let patience = ["--fetch-retries=1", "--fetch-timeout=30000"];
        let args = [&["ci", "--omit=dev"][..], &quiet, &patience].concat();
        run(&mut npm(&args), out)?;
    }
    run(&mut npm(&["run", "--silent", "bundle"]), out)
}

/// Are the packages another set than the lock file names?
fn stale(web: &Path) -> bool {
    let changed = |p: &str| fs::metadata(web.join(p)).and_then(|m| m.modified()).ok();
    match (changed("node_modules/.package-lock.json"), changed("package-lock.json")) {
        (Some(installed), Some(wanted)) => installed < wanted,
        _ => true,
    }
}

/// Runs a command to its end; what it said is reported when it fails.
fn run(command: &mut Command, out: &Path) -> Result<(), Box<dyn Error>> {
    let what = format!("{:?}", command.get_args().collect::<Vec<_>>());
    let log = out.with_extension("log");
    let file = File::create(&log)?;
    command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
    let mut child = command.spawn().map_err(|e| format!("npm cannot be run ({e})"))?;
    let began = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if began.elapsed() > CAP {
            child.kill()?;
            child.wait()?;
            return Err(format!("npm {what} took too long").into());
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    if status.success() {
        return Ok(());
    }
    let said = fs::read_to_string(&log).unwrap_or_default();
    let lines: Vec<&str> = said.lines().filter(|l| !l.trim().is_empty()).take(6).collect();
    Err(format!("npm {what} failed: {}", lines.join(" | ")).into())
}

/// The files of a directory as Rust: address, contents, and the compressed form beside them.
fn table(dir: &Path) -> Result<String, Box<dyn Error>> {
    let mut files = Vec::new();
    let mut todo = vec![dir.to_path_buf()];
    while let Some(dir) = todo.pop() {
        for entry in fs::read_dir(&dir)? {
            let path = entry?.path();
            if path.is_dir() {
                todo.push(path);
            } else {
                files.push(path);
            }
        }
    }
    files.sort();
    let compressed = |p: &Path| p.extension().is_some_and(|e| e == "gz");
    files.retain(|p| !compressed(p));
    let count = files.len();
    let mut out =
        format!("/// Every file of the console.\npub static FILES: [File; {count}] = [\n");
    for file in &files {
        let name = file.strip_prefix(dir)?.to_string_lossy().replace('\\', "/");
        let mut packed = file.clone().into_os_string();
        packed.push(".gz");
        let packed = PathBuf::from(packed);
        let gzip = match packed.is_file() {
            true => format!("Some(include_bytes!({packed:?}))"),
            false => "None".into(),
        };
        // The plain form is unpacked from the other: a megabyte less in the binary.
        let plain = if gzip == "None" { format!("include_bytes!({file:?})") } else { "&[]".into() };
        let path = format!("/{name}");
        writeln!(out, "    File::new({path:?}, {gzip}, {plain}),")?;
    }
    out.push_str("];\n");
    if !out.contains("\"/index.html\"") {
        return Err("there is no index.html".into());
    }
    Ok(out)
}
