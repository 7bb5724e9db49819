//! `muster node inject`: make a simulated node fail.

use clap::Args;
use muster_api::Inject as Fault;
use muster_model::ids::AttemptKey;
use muster_model::units::Span;
use muster_specs::error::closest;
use muster_terminal::ctx::Ctx;
use muster_terminal::fail::Fail;
use muster_terminal::pick;

/// Every fault and what it takes.
const KINDS: &[(&str, &str)] = &[
    ("crash", "--for"),
    ("partition", "--for"),
    ("kill-ranks", "JOB.ATTEMPT"),
    ("lose-gpu", "--gpu"),
    ("slow-gpu", "--gpu --percent"),
    ("xid", "--gpu --code"),
    ("thermal", "--gpu"),
    ("power-brake", ""),
    ("low-clocks", "--gpu --percent"),
    ("ecc-rate", "--gpu --rate (a second)"),
    ("ecc-uncorrectable", "--gpu"),
    ("remap-pending", "--gpu"),
    ("remap-failed", "--gpu"),
    ("replay", "--gpu --rate (a minute)"),
    ("pcie-downgrade", "--gpu"),
    ("nvlink-errors", "--gpu --rate (a second)"),
    ("port-down", "--port --for"),
    ("port-flap", "--port"),
    ("symbol-errors", "--port --rate (a second)"),
    ("lose-port", "--port"),
    ("storage-stall", "--mount --for"),
    ("storage-slow", "--mount --factor"),
    ("stuck-processes", "--count"),
    ("agent-hang", "--for"),
    ("slow-work", "JOB.ATTEMPT --percent"),
    ("starve-loader", "JOB.ATTEMPT"),
    ("hang-work", "JOB.ATTEMPT"),
    ("kernel-line", "--text"),
    ("wrong-results", "--gpu"),
    ("version", "--text COMPONENT=VERSION"),
    ("repair", ""),
];

/// Make a simulated node fail
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  muster node inject crash hgx-0003 --for 30s\n  muster node inject xid hgx-0003 --gpu 2 --code 79\n  \
muster node inject slow-gpu hgx-0003 --gpu 3 --percent 20\n  muster node inject port-down hgx-0003 --port mlx5_1 --for 1m\n  \
muster node inject slow-work hgx-0003 42.1 --percent 30\n  muster node inject repair hgx-0003\n\n\
Faults, and what each takes:\n  crash, partition, agent-hang             --for\n  \
lose-gpu, thermal, pcie-downgrade,\n  ecc-uncorrectable, remap-pending,\n  remap-failed, wrong-results              --gpu\n  \
slow-gpu, low-clocks                     --gpu --percent\n  xid                                      --gpu --code\n  \
ecc-rate, nvlink-errors, replay          --gpu --rate\n  port-down                                --port --for\n  \
port-flap, lose-port                     --port\n  symbol-errors                            --port --rate\n  \
storage-stall                            --mount --for\n  storage-slow                             --mount --factor\n  \
stuck-processes                          --count\n  kill-ranks, starve-loader, hang-work     JOB.ATTEMPT\n  \
slow-work                                JOB.ATTEMPT --percent\n  kernel-line                              --text\n  \
version                                  --text COMPONENT=VERSION\n  \
power-brake, repair                      nothing\n\nThe node may also stand before the fault."
)]
pub(crate) struct Inject {
    /// The fault
    #[arg(value_name = "KIND")]
    kind: String,
    /// The node
    #[arg(value_name = "NODE")]
    node: String,
    /// The attempt, or the GPU
    #[arg(value_name = "WHICH")]
    which: Option<String>,
    /// The GPU's index
    #[arg(long, value_name = "G")]
    gpu: Option<u32>,
    /// The network port: its name or number
    #[arg(long, value_name = "P")]
    port: Option<String>,
    /// Where the file system is mounted
    #[arg(long, default_value = "/data", value_name = "M")]
    mount: String,
    /// By so many percent; 0 ends it
    #[arg(long, default_value_t = 20, value_name = "N",
        value_parser = clap::value_parser!(u32).range(0..=99))]
    percent: u32,
    /// So many times as slow; 1 ends it
    #[arg(long, default_value_t = 10, value_name = "N")]
    factor: u32,
    /// So many a second, or a minute; 0 ends it
    #[arg(long, default_value_t = 10, value_name = "N")]
    rate: u32,
    /// How many; 0 ends it
    #[arg(long, default_value_t = 4, value_name = "N")]
    count: u32,
    /// How long
    #[arg(long = "for", visible_aliases = ["down", "length"], default_value = "30s", value_name = "SPAN")]
    length: Span,
    /// The driver's number for an error, such as 79
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=9999))]
    code: Option<u32>,
    /// A line of the kernel's log, or `driver=590.1`
    #[arg(long, value_name = "LINE")]
    text: Option<String>,
}

impl Inject {
    pub(crate) async fn run(self, ctx: &Ctx) -> Result<u8, Fail> {
        let (node, fault) = self.fault()?;
        let client = ctx.client()?;
        let done = match client.inject(&node, &fault).await {
            Ok(done) => done,
            Err(e) => return Err(pick::with_node_hint(&client, &node, e).await),
        };
        ctx.show(&done, |d| format!("node {}: {}\n", d.node, d.message))?;
        Ok(if done.ok { 0 } else { muster_terminal::fail::FAILED })
    }

    /// The node and what is to befall it.
    fn fault(self) -> Result<(String, Fault), Fail> {
        let known = |word: &str| KINDS.iter().any(|(k, _)| *k == word);
        let Inject { kind, node, which, gpu, port, mount, percent, factor, rate, count, .. } = self;
        let (kind, node) = if known(&kind) || !known(&node) { (kind, node) } else { (node, kind) };
        let (length, code, text) = (self.length, self.code, self.text);
        if let Some((_, wanted)) = KINDS.iter().find(|(k, _)| *k == kind) {
            let given = [
                ("--gpu", gpu.is_some()),
                ("--port", port.is_some()),
                ("--code", code.is_some()),
                ("--text", text.is_some()),
            ];
            // What is left aside would be a fault on more than was meant.
            if let Some((flag, _)) = given.iter().find(|(f, so)| *so && !wanted.contains(f)) {
                return Err(Fail::usage(format!("`{kind}` takes no {flag}")).hint(takes(&kind)));
            }
            if let Some(w) = &which
                && !wanted.contains("JOB.ATTEMPT")
                && !wanted.contains("--gpu")
            {
                return Err(Fail::usage(format!("`{kind}` takes no `{w}`")).hint(takes(&kind)));
            }
        }
        let lacks = |what: &str| Fail::usage(format!("`{kind}` needs {what}")).hint(takes(&kind));
        let gpu = || match (gpu, which.as_deref().map(str::parse::<u32>)) {
            (Some(g), _) | (None, Some(Ok(g))) => Ok(g),
            _ => Err(lacks("--gpu")),
        };
        let port = || port.clone().ok_or_else(|| lacks("--port"));
        let key = || {
            let given = which.as_deref().ok_or_else(|| lacks("JOB.ATTEMPT, such as 42.1"))?;
            let key: Result<AttemptKey, _> = given.parse();
            key.map_err(|_| lacks("JOB.ATTEMPT, such as 42.1"))
        };
        let fault = match kind.as_str() {
            "crash" => Fault::Crash { down: length },
            "partition" => Fault::Partition { length },
            "kill-ranks" => Fault::KillRanks { key: key()? },
            "lose-gpu" => Fault::LoseGpu { gpu: gpu()? },
            "slow-gpu" => Fault::SlowGpu { gpu: gpu()?, percent },
            "xid" => Fault::Xid { gpu: gpu()?, code: code.ok_or_else(|| lacks("--code"))? },
            "thermal" => Fault::Thermal { gpu: gpu()? },
            "power-brake" => Fault::PowerBrake,
            "low-clocks" => Fault::LowClocks { gpu: gpu()?, percent },
            "ecc-rate" => Fault::EccRate { gpu: gpu()?, per_s: rate },
            "ecc-uncorrectable" => Fault::EccUncorrectable { gpu: gpu()? },
            "remap-pending" => Fault::Remap { gpu: gpu()?, pending: true, failed: false },
            "remap-failed" => Fault::Remap { gpu: gpu()?, pending: false, failed: true },
            "replay" => Fault::Replay { gpu: gpu()?, per_min: rate },
            "pcie-downgrade" => Fault::PcieDowngrade { gpu: gpu()? },
            "nvlink-errors" => Fault::NvlinkErrors { gpu: gpu()?, per_s: rate },
            "port-down" => Fault::PortDown { port: port()?, length },
            "port-flap" => Fault::PortFlap { port: port()? },
            "symbol-errors" => Fault::SymbolErrors { port: port()?, per_s: rate },
            "lose-port" => Fault::LosePort { port: port()? },
            "storage-stall" => Fault::StorageStall { mount, length },
            "storage-slow" => Fault::StorageSlow { mount, factor },
            "stuck-processes" => Fault::StuckProcesses { count },
            "agent-hang" => Fault::AgentHang { length },
            "slow-work" => Fault::SlowWork { key: key()?, percent },
            "starve-loader" => Fault::StarveLoader { key: key()? },
            "hang-work" => Fault::HangWork { key: key()? },
            "kernel-line" => Fault::KernelLine { text: text.ok_or_else(|| lacks("--text"))? },
            "wrong-results" => Fault::WrongResults { gpu: gpu()? },
            "version" => {
                let text = text.ok_or_else(|| lacks("--text"))?;
                let (component, version) =
                    text.split_once('=').ok_or_else(|| lacks("--text driver=590.1"))?;
                Fault::Version { component: component.into(), version: version.into() }
            }
            "repair" => Fault::Repair,
            other => {
                let kinds: Vec<&str> = KINDS.iter().map(|(k, _)| *k).collect();
                let near = closest(other, &kinds).or_else(|| closest(&node, &kinds));
                let near = near.map(|n| format!("did you mean `{n}`? ")).unwrap_or_default();
                // Which of the two is a node is not known here: the order is reported.
                return Err(Fail::usage(format!("neither `{other}` nor `{node}` is a fault"))
                    .hint(format!(
                        "{near}the order is `muster node inject KIND NODE`; --help lists the kinds"
                    )));
            }
        };
        Ok((node, fault))
    }
}

/// What a fault takes, for a hint.
fn takes(kind: &str) -> String {
    let what = KINDS.iter().find(|(k, _)| *k == kind).map_or("", |(_, takes)| takes);
    format!("write `muster node inject {kind} NODE {what}`")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Cli;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Bare {
        #[command(flatten)]
        inject: Inject,
    }

    fn read(more: &[&str]) -> Result<(String, Fault), String> {
        let all = ["inject"].iter().chain(more).copied();
        let bare = Bare::try_parse_from(all).map_err(|e| e.to_string())?;
        bare.inject.fault().map_err(|f| f.render(false))
    }

    #[test]
    fn the_fault_may_stand_before_or_behind_the_node() {
        let xid = Ok(("n1".to_owned(), Fault::Xid { gpu: 2, code: 79 }));
        assert_eq!(read(&["xid", "n1", "--gpu", "2", "--code", "79"]), xid);
        assert_eq!(read(&["n1", "xid", "--gpu", "2", "--code", "79"]), xid);
        let down = Ok(("n1".to_owned(), Fault::Crash { down: Span::secs(5) }));
        for flag in ["--for", "--down", "--length"] {
            assert_eq!(read(&["n1", "crash", flag, "5s"]), down);
        }
        assert_eq!(read(&["n1", "lose-gpu", "2"]), Ok(("n1".into(), Fault::LoseGpu { gpu: 2 })));
        let key = "42.1".parse().expect("an attempt");
        assert_eq!(
            read(&["n1", "kill-ranks", "42.1"]),
            Ok(("n1".into(), Fault::KillRanks { key }))
        );
        let slow = Fault::SlowWork { key, percent: 30 };
        assert_eq!(read(&["slow-work", "n1", "42.1", "--percent", "30"]), Ok(("n1".into(), slow)));
    }

    #[test]
    fn every_fault_can_be_typed() {
        let options: [(&str, &[&str]); 5] = [
            ("JOB.ATTEMPT", &["42.1"]),
            ("--gpu", &["--gpu", "1"]),
            ("--port", &["--port", "1"]),
            ("--code", &["--code", "79"]),
            ("--text", &["--text", "x=1"]),
        ];
        for (kind, wanted) in KINDS {
            let rest = options.iter().filter(|(o, _)| wanted.contains(o)).flat_map(|(_, all)| *all);
            let all: Vec<&str> = [*kind, "n1"].into_iter().chain(rest.copied()).collect();
            let (_, fault) = read(&all).unwrap_or_else(|e| panic!("{kind}: {e}"));
            let word = serde_json::to_value(&fault).expect("plain data")["fault"].clone();
            let word = word.as_str().unwrap_or_default().replace('_', "-");
            // The API's word for it is older.
            assert!(kind.starts_with(&word), "{kind} {word}");
            assert!(takes(kind).contains(kind));
        }
    }

    #[test]
    fn what_a_fault_does_not_take_is_refused() {
        for (args, no) in [
            (&["crash", "n1", "--gpu", "3"][..], "`crash` takes no --gpu"),
            (&["n1", "crash", "--port", "1"][..], "`crash` takes no --port"),
            (&["thermal", "n1", "--gpu", "3", "--code", "79"][..], "`thermal` takes no --code"),
            (&["repair", "n1", "42.1"][..], "`repair` takes no `42.1`"),
        ] {
            assert!(read(args).is_err_and(|e| e.contains(no)), "{args:?}");
        }
    }

    #[test]
    fn what_lacks_is_reported() {
        assert!(read(&["thermal", "n1"]).is_err_and(|e| e.contains("needs --gpu")));
        assert!(read(&["hang-work", "n1"]).is_err_and(|e| e.contains("42.1")));
        assert!(read(&["thermals", "n1"]).is_err_and(|e| e.contains("did you mean `thermal`")));
        // A node's name alone is not taken for a fault.
        let e = read(&["hgx-0014", "nosuch"]).expect_err("no fault");
        assert!(e.contains("neither `hgx-0014` nor `nosuch`") && e.contains("KIND NODE"), "{e}");
        assert!(read(&["n1", "thermals"]).is_err_and(|e| e.contains("did you mean `thermal`")));
        assert!(read(&["crash"]).is_err());
        let help = Cli::try_parse_from(["muster", "node", "inject", "--help"]);
        let help = help.expect_err("help is no command").to_string();
        for (kind, _) in KINDS {
            assert!(help.contains(kind), "{kind} in\n{help}");
        }
    }
}
