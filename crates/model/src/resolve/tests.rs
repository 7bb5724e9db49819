//! What is resolved, and what is refused with which field and hint.

use super::*;
use crate::spec::{
    CheckpointSpec, Elastic, GangSpec, GpuPart, GroupSpec, MAX_ARRAY, MAX_NODES, MAX_RANKS,
    RunSpec, Simulate, Spread, Tier, Volume,
};
use crate::topology::Level;
use crate::units::Bytes;
use proptest::prelude::*;

fn spec(edit: impl FnOnce(&mut JobSpec)) -> JobSpec {
    let mut s = JobSpec::default();
    edit(&mut s);
    s
}

fn refused(edit: impl FnOnce(&mut JobSpec)) -> SpecProblem {
    let e = resolve(&spec(edit)).unwrap_err();
    assert!(e.hint.is_some(), "every problem says how to fix it: {e}");
    e
}

#[test]
fn an_empty_spec_is_one_rank_on_one_node() {
    let r = resolve(&JobSpec::default()).unwrap();
    let g = &r.groups[0];
    assert_eq!((g.name.as_str(), g.nodes, g.gpus, g.ranks, g.cpus), ("main", 1, 0, 1, 1));
    assert_eq!(g.memory, Bytes(0));
    assert!(r.array.is_empty() && r.after.is_empty());
}

#[test]
fn ranks_follow_gpus_and_cpus_follow_ranks() {
    let r = resolve(&spec(|s| {
        s.gang.nodes = Some(2);
        s.gang.gpus_per_node = Some(8);
        s.gang.sku = Some("h100-sxm".into());
    }))
    .unwrap();
    assert_eq!((r.groups[0].nodes, r.groups[0].ranks, r.groups[0].cpus), (2, 8, 8));
    let r = resolve(&spec(|s| s.gang.gpus = Some(4))).unwrap();
    assert_eq!((r.groups[0].nodes, r.groups[0].gpus), (1, 4));
}

#[test]
fn impossible_gangs_are_refused_with_the_field() {
    type Edit = fn(&mut JobSpec);
    let cases: [(&str, Edit); 15] = [
        ("gang.gpus", |s| {
            s.gang.gpus = Some(1);
            s.gang.nodes = Some(2);
        }),
        ("gang.nodes", |s| s.gang.nodes = Some(0)),
        ("gang.nodes", |s| s.gang.nodes = Some(MAX_NODES + 1)),
        ("gang.gpus_per_node", |s| s.gang.gpus_per_node = Some(65)),
        ("gang.gpus", |s| s.gang.gpus = Some(65)),
        ("gang.ranks_per_node", |s| s.gang.ranks_per_node = Some(0)),
        ("gang.ranks_per_node", |s| s.gang.ranks_per_node = Some(4097)),
        ("gang.ranks_per_node", |s| {
            s.gang.nodes = Some(MAX_NODES);
            s.gang.ranks_per_node = Some(64);
        }),
        ("gang.cpus_per_node", |s| s.gang.cpus_per_node = Some(0)),
        ("gang.memory_per_node", |s| s.gang.memory_per_node = Some(Bytes(u64::MAX))),
        ("gang.memory_per_node", |s| s.gang.memory_per_node = Some(Bytes(4096))),
        ("gang.sku", |s| {
            s.gang.gpus = Some(1);
            s.gang.sku = Some("H100".into());
        }),
        ("gang.sku", |s| s.gang.sku = Some("h100".into())),
        ("topology.required", |s| {
            s.gang.nodes = Some(2);
            s.topology.required = Some(Level::Node);
        }),
        ("topology.preferred", |s| {
            s.topology.required = Some(Level::Leaf);
            s.topology.preferred = Some(Level::Spine);
        }),
    ];
    for (field, edit) in cases {
        assert_eq!(refused(edit).field, field);
    }
}

#[test]
fn groups_need_names_of_their_own_and_exclude_the_flat_fields() {
    let named = |n: &str| GroupSpec { name: n.into(), nodes: Some(2), ..GroupSpec::default() };
    let ok = spec(|s| s.gang.groups = vec![named("learners"), named("actors")]);
    assert_eq!(resolve(&ok).unwrap().groups.len(), 2);
    assert_eq!(
        refused(|s| s.gang.groups = vec![named("a"), named("a")]).field,
        "gang.groups[1].name"
    );
    assert_eq!(refused(|s| s.gang.groups = vec![named("")]).field, "gang.groups[0].name");
    let e = refused(|s| {
        s.gang.groups = vec![named("a")];
        s.gang.sku = Some("h100".into());
    });
    assert_eq!(e.field, "gang.sku");
    let e = refused(|s| {
        let huge = |n: &str| GroupSpec { nodes: Some(MAX_NODES), ..named(n) };
        s.gang.groups = vec![huge("a"), huge("b")];
    });
    assert!(e.message.contains("400000 nodes in all"), "{e}");
}

#[test]
fn a_part_of_a_gpu_is_one_gpu_with_one_rank() {
    let r = resolve(&spec(|s| s.gang.mig = Some("3g.40gb".into()))).unwrap();
    let g = &r.groups[0];
    assert_eq!((g.nodes, g.gpus, g.ranks), (1, 1, 1));
    assert_eq!(g.part, Some(GpuPart::Mig("3g.40gb".into())));
    let r = resolve(&spec(|s| {
        s.gang.nodes = Some(4);
        s.gang.gpu_milli = Some(250);
        s.gang.sku = Some("h100-sxm|h200-sxm".into());
    }))
    .unwrap();
    let g = &r.groups[0];
    assert_eq!((g.nodes, g.gpus, g.part.clone()), (4, 1, Some(GpuPart::Milli(250))));
    assert_eq!(g.sku.as_deref(), Some("h100-sxm|h200-sxm"));
    let r = resolve(&spec(|s| s.gang.gpus = Some(1))).unwrap();
    assert_eq!(r.groups[0].part, None);
}

#[test]
fn parts_that_cannot_be_are_refused_with_the_field() {
    type Edit = fn(&mut JobSpec);
    let cases: [(&str, &str, Edit); 9] = [
        ("gang.mig", "leave `gpus` out", |s| {
            s.gang.mig = Some("3g.40gb".into());
            s.gang.gpus = Some(1);
        }),
        ("gang.gpu_milli", "leave `gpus_per_node` out", |s| {
            s.gang.gpu_milli = Some(100);
            s.gang.gpus_per_node = Some(1);
        }),
        ("gang.gpu_milli", "keep one", |s| {
            s.gang.gpu_milli = Some(100);
            s.gang.mig = Some("1g.10gb".into());
        }),
        ("gang.gpu_milli", "1 to 999", |s| s.gang.gpu_milli = Some(0)),
        ("gang.gpu_milli", "`gpus: 1`", |s| s.gang.gpu_milli = Some(1000)),
        ("gang.gpu_milli", "whole GPUs", |s| s.gang.gpu_milli = Some(1001)),
        ("gang.mig", "job of its own", |s| {
            s.gang.mig = Some("1g.10gb".into());
            s.gang.groups = vec![GroupSpec { name: "a".into(), ..GroupSpec::default() }];
        }),
        ("gang.sku", "once", |s| {
            s.gang.gpus = Some(1);
            s.gang.sku = Some("b200|h100|b200".into());
        }),
        ("gang.sku", "any GPU will do", |s| {
            s.gang.gpus = Some(1);
            let many: Vec<String> = (0..=MAX_SKUS).map(|i| format!("k{i}")).collect();
            s.gang.sku = Some(many.join("|"));
        }),
    ];
    for (field, hint, edit) in cases {
        let e = refused(edit);
        assert_eq!(e.field, field);
        assert!(e.hint.as_deref().unwrap_or_default().contains(hint), "{e:?}");
    }
    for bad in
        ["", "3g", "40gb", "0g.10gb", "8g.80gb", "3g.gb", "3g.040gb", "3G.40GB", "1c.3g.40gb"]
    {
        assert_eq!(refused(|s| s.gang.mig = Some(bad.into())).field, "gang.mig", "{bad:?}");
    }
    for bad in ["a||b", "|a", "a|", "A|b"] {
        let e = refused(|s| {
            s.gang.gpus = Some(1);
            s.gang.sku = Some(bad.into());
        });
        assert_eq!(e.field, "gang.sku", "{bad:?}");
    }
}

fn with_elastic(min_nodes: u32, max_nodes: u32) -> JobSpec {
    spec(|s| {
        s.elastic = Some(Elastic { min_nodes, max_nodes });
        s.checkpoint = Some(CheckpointSpec { dir: "/ckpt".into(), ..CheckpointSpec::default() });
    })
}

#[test]
fn an_elastic_gang_starts_with_its_written_size_or_the_largest() {
    assert_eq!(resolve(&with_elastic(2, 8)).unwrap().groups[0].nodes, 8);
    let mut written = with_elastic(2, 8);
    written.gang.nodes = Some(4);
    written.gang.gpus_per_node = Some(8);
    assert_eq!(resolve(&written).unwrap().groups[0].nodes, 4);
    let simulated = spec(|s| {
        s.elastic = Some(Elastic { min_nodes: 1, max_nodes: 1 });
        let run = Span::secs(5);
        s.simulate = Some(Simulate {
            run,
            step: None,
            checkpoint: None,
            exit_code: 0,
            idle: false,
            ..Simulate::default()
        });
    });
    assert_eq!(resolve(&simulated).unwrap().groups[0].nodes, 1);
}

#[test]
fn sizes_that_cannot_be_are_refused_with_the_field() {
    type Edit = fn(&mut JobSpec);
    let cases: [(&str, &str, Edit); 9] = [
        ("elastic.min_nodes", "at least 1", |s| *s = with_elastic(0, 2)),
        ("elastic.min_nodes", "at most max_nodes", |s| *s = with_elastic(3, 2)),
        ("elastic.max_nodes", "at most 200000", |s| *s = with_elastic(1, MAX_NODES + 1)),
        ("gang.nodes", "use 2 to 4", |s| {
            *s = with_elastic(2, 4);
            s.gang.nodes = Some(5);
        }),
        ("gang.gpus", "gpus_per_node", |s| {
            *s = with_elastic(1, 4);
            s.gang.gpus = Some(8);
        }),
        ("elastic", "checkpoint", |s| {
            *s = with_elastic(1, 4);
            s.checkpoint = None;
        }),
        ("elastic", "one group", |s| {
            *s = with_elastic(1, 4);
            let named = |n: &str| GroupSpec { name: n.into(), ..GroupSpec::default() };
            s.gang.groups = vec![named("a"), named("b")];
        }),
        ("topology.required", "one node", |s| {
            *s = with_elastic(1, 2);
            s.gang.nodes = Some(1);
            s.topology.required = Some(Level::Node);
        }),
        ("gang.ranks_per_node", "fewer", |s| {
            *s = with_elastic(1, MAX_NODES);
            s.gang.nodes = Some(1);
            s.gang.ranks_per_node = Some(64);
        }),
    ];
    for (field, hint, edit) in cases {
        let e = refused(edit);
        assert_eq!(e.field, field, "{e}");
        assert!(e.hint.as_deref().unwrap_or_default().contains(hint), "{e:?}");
    }
}

#[test]
fn segments_divide_the_gang_and_spreads_need_room_to_spread() {
    let with = |nodes: u32, segment: Option<u32>, spread: Option<Spread>, req: Option<Level>| {
        resolve(&spec(|s| {
            s.gang.nodes = Some(nodes);
            s.topology.segment = segment;
            s.topology.spread = spread;
            s.topology.required = req;
        }))
    };
    assert!(with(32, Some(16), None, None).is_ok());
    assert!(with(32, Some(1), Some(Spread::Leaf), None).is_ok());
    assert!(with(4, None, Some(Spread::Feed), Some(Level::Leaf)).is_ok());
    assert!(with(4, None, Some(Spread::Rack), Some(Level::Leaf)).is_ok());
    for (nodes, size, hint) in [(32, 0, "1 to 32"), (32, 33, "1 to 32"), (32, 5, "or 35 nodes")] {
        let e = with(nodes, Some(size), None, None).unwrap_err();
        assert_eq!(e.field, "topology.segment");
        assert!(e.hint.as_deref().unwrap_or_default().contains(hint), "{e:?}");
    }
    for (over, inside) in [
        (Spread::Leaf, Level::Leaf),
        (Spread::Leaf, Level::Rack),
        (Spread::Rack, Level::Rack),
        (Spread::Rack, Level::Nvlink),
        (Spread::Feed, Level::Rack),
    ] {
        let e = with(4, None, Some(over), Some(inside)).unwrap_err();
        assert_eq!(e.field, "topology.spread", "{over:?} inside {inside}");
    }
    assert_eq!(with(4, Some(2), Some(Spread::Leaf), None).unwrap_err().field, "topology.spread");
    let e = refused(|s| {
        *s = with_elastic(2, 4);
        s.topology.segment = Some(2);
    });
    assert_eq!(e.field, "topology.segment");
    let e = refused(|s| {
        let named = |n: &str| GroupSpec { name: n.into(), ..GroupSpec::default() };
        s.gang.groups = vec![named("a"), named("b")];
        s.topology.segment = Some(1);
    });
    assert_eq!(e.field, "topology.segment");
}

#[test]
fn reserved_work_is_accepted() {
    assert!(resolve(&spec(|s| s.tier = Tier::Reserved)).is_ok());
}

#[test]
fn what_is_not_there_yet_says_so_plainly() {
    let e = refused(|s| s.array = Some("0-9%2".into()));
    assert!(e.message.ends_with("is not supported yet"), "{e}");
}

#[test]
fn what_a_terminal_would_obey_is_refused_with_the_field() {
    let volume =
        |from: &str, at: &str| Volume { from: from.into(), at: at.into(), read_only: false };
    for bad in ["\x1b[2J", "\n", "\t", "\r", "\0", "\x7f", "\u{9b}2J", "\u{202e}", "\u{200f}"] {
        let path = format!("/mnt/{bad}x");
        let fields = [
            refused(|s| s.tags = [("team".into(), format!("a{bad}"))].into()).field,
            refused(|s| s.volumes = vec![volume(&path, "/data")]).field,
            refused(|s| s.volumes = vec![volume("/data", &path)]).field,
            refused(|s| s.checkpoint.get_or_insert_default().dir = path.clone()).field,
        ];
        let want = ["tags.team", "volumes[0].from", "volumes[0].at", "checkpoint.dir"];
        assert_eq!(fields, want, "{bad:?}");
        let e = refused(|s| s.tags = [(format!("a{bad}"), String::new())].into());
        assert!(!e.to_string().contains(char::is_control), "{e:?}");
        let command = vec!["true".to_owned(), format!("a{}", bad.replace('\0', " "))];
        let mut run = RunSpec { command, workdir: Some(path), ..RunSpec::default() };
        assert_eq!(check_run(&run, false).unwrap_err().field, "run.workdir");
        run.workdir = None;
        check_run(&run, false).expect("arguments are data");
        run.command[0] = format!("/bin/{bad}true");
        assert_eq!(check_run(&run, false).unwrap_err().field, "run.command[0]");
    }
    let lines = "replaced:\n\tthe fan";
    assert!(some_lines("reason", lines).is_ok() && one_line("reason", lines).is_err());
    assert!(some_lines("reason", "a\x1bb").unwrap_err().message.contains("U+001B"));
    assert!(one_line("reason", "zażółć 火").is_ok());
}

#[test]
fn what_is_the_nodes_own_is_no_volume() {
    let volume = |from: &str| Volume { from: from.into(), at: "/mnt/x".into(), read_only: false };
    for from in ["/", "/./", "/proc/self/fd/5", "/proc/self/root", "//proc", "/sys", "/dev", "/run"]
    {
        let e = refused(|s| s.volumes = vec![volume("/data"), volume(from)]);
        assert_eq!(e.field, "volumes[1].from", "{from}");
        assert!(e.message.contains("cannot be a volume"), "{e}");
    }
    assert!(resolve(&spec(|s| s.volumes = vec![volume("/data/proc")])).is_ok());
}

#[test]
fn a_path_that_a_container_runtime_would_split_is_refused_with_its_field() {
    let in_image = |change: &dyn Fn(&mut JobSpec)| {
        refused(|s| {
            s.run.image = Some("local/x:1".into());
            change(s);
        })
    };
    let volume =
        |from: &str, at: &str| Volume { from: from.into(), at: at.into(), read_only: false };
    for bad in ["/ckpt,src=/etc,dst=/host", "/a:/b", "/a\"", "/a\\"] {
        let e = in_image(&|s| s.checkpoint.get_or_insert_default().dir = bad.into());
        assert_eq!(e.field, "checkpoint.dir", "{bad}");
        assert!(e.message.contains("cannot be bound into a container"), "{e}");
        let e = in_image(&|s| s.volumes = vec![volume("/data", "/data"), volume(bad, "/x")]);
        assert_eq!(e.field, "volumes[1].from", "{bad}");
        assert_eq!(in_image(&|s| s.volumes = vec![volume("/x", bad)]).field, "volumes[0].at");
        let plain = spec(|s| s.checkpoint.get_or_insert_default().dir = bad.into());
        assert!(resolve(&plain).is_ok(), "no container, no such argument: {bad}");
    }
}

#[test]
fn an_image_is_a_name_and_not_an_option() {
    let with = |image: &str| {
        let command = vec!["true".to_owned()];
        check_run(&RunSpec { image: Some(image.into()), command, ..RunSpec::default() }, false)
    };
    assert!(with("docker.io/library/python:3.12@sha256:00ff").is_ok());
    let archive = "oci-archive:/data/x.tar";
    for bad in ["", "--privileged", "a b", "a\nb", "a\u{202e}b", archive, &"x".repeat(600)] {
        assert!(with(bad).unwrap_err().message.ends_with("is not the name of an image"), "{bad}");
    }
}

#[test]
fn arrays_are_sorted_and_unique() {
    let read = |t: &str| resolve(&spec(|s| s.array = Some(t.into()))).map(|r| r.array);
    assert_eq!(read("0-3").unwrap(), [0, 1, 2, 3]);
    assert_eq!(read("5-7,1,3,6").unwrap(), [1, 3, 5, 6, 7]);
    assert_eq!(read("0-30:10").unwrap(), [0, 10, 20, 30]);
    assert_eq!(read("0-9999").unwrap().len(), MAX_ARRAY);
    let bad = ["", "a", "3-1", "0-9:0", "1:2", "-1", "+1", "1-", "0-10000", "0-4294967295", "1,,2"];
    for bad in bad {
        let e = read(bad).unwrap_err();
        assert_eq!(e.field, "array", "{bad:?}");
    }
}

#[test]
fn an_array_costs_what_it_names_however_it_is_written() {
    let read = |t: &str| resolve(&spec(|s| s.array = Some(t.into()))).map(|r| r.array);
    // As many parts as fit into a body, each of them all the tasks there may be.
    let e = read(&vec!["0-9999"; 40_000].join(",")).unwrap_err();
    assert!(e.message.contains("40000 parts") && e.hint.is_some(), "{e}");
    let e = read("0-9999,0-9999").unwrap_err();
    assert!(e.message.contains("those named twice counted twice"), "{e}");
    let e = read(&" ".repeat(MAX_ARRAY_TEXT + 1)).unwrap_err();
    assert!(e.message.contains("1 parts in 16385 bytes"), "{e}");
    assert_eq!(read("0-4999,2500-7498").unwrap().len(), 7499, "some may overlap");
    let all: Vec<String> = (0..MAX_ARRAY_PARTS).map(|n| (n * 2).to_string()).collect();
    assert_eq!(read(&all.join(",")).unwrap().len(), MAX_ARRAY_PARTS);
}

#[test]
fn an_array_may_not_wait_for_too_much_in_all() {
    let with = |tasks: &str, jobs: usize| {
        resolve(&spec(|s| {
            s.array = Some(tasks.into());
            s.after = (0..jobs).map(|n| format!("j{n}")).collect();
        }))
    };
    assert!(with("0-9999", 10).is_ok() && with("0-99", MAX_ENTRIES).is_ok());
    let e = with("0-9999", 11).unwrap_err();
    assert_eq!(e.field, "after");
    assert!(e.message.contains("110000 waits"), "{e}");
}

#[test]
fn all_lists_together_have_a_limit() {
    let path = |n: usize| format!("/{n:02}{}", "x".repeat(1000));
    let volumes = |n: usize| {
        (0..n).map(|n| Volume { from: path(n), at: path(n), read_only: true }).collect::<Vec<_>>()
    };
    assert!(resolve(&spec(|s| s.volumes = volumes(32))).is_ok());
    let e = refused(|s| s.volumes = volumes(MAX_ENTRIES));
    assert_eq!(e.field, "spec");
    assert!(e.message.contains("more than 65536"), "{e}");
    let e = refused(|s| {
        s.volumes = volumes(8);
        s.array = Some("0-9999".into());
    });
    assert!(e.message.starts_with("10000 tasks with 16048 bytes"), "{e}");
}

#[test]
fn dependencies_name_a_job_and_an_end() {
    let r = resolve(&spec(|s| {
        s.after = ["prep", "12:any", "x:fail", "y:ok"].map(String::from).to_vec();
    }))
    .unwrap();
    let got: Vec<_> = r.after.iter().map(|a| (a.job.as_str(), a.condition)).collect();
    assert_eq!(
        got,
        [
            ("prep", Condition::Ok),
            ("12", Condition::Any),
            ("x", Condition::Fail),
            ("y", Condition::Ok)
        ]
    );
    for bad in ["", ":ok", "a:later", "a:ok:ok", "a b"] {
        assert_eq!(refused(|s| s.after = vec!["x".into(), bad.into()]).field, "after[1]");
    }
}

fn maybe(max: u32) -> impl Strategy<Value = Option<u32>> {
    prop_oneof![Just(None), (0..max).prop_map(Some), any::<u32>().prop_map(Some)]
}

proptest! {
    #[test]
    fn resolved_gangs_are_always_within_limits(
        nodes in maybe(300_000), per in maybe(80), gpus in maybe(80), ranks in maybe(5000),
        cpus in maybe(5000), memory in any::<Option<u64>>(), grouped in any::<bool>(),
    ) {
        let g = GroupSpec {
            name: "a".into(), nodes, gpus_per_node: per, ranks_per_node: ranks,
            cpus_per_node: cpus, memory_per_node: memory.map(Bytes), sku: None,
        };
        let mut s = JobSpec::default();
        if grouped {
            s.gang.groups = vec![g.clone(), GroupSpec { name: "b".into(), ..g }];
        } else {
            s.gang = GangSpec {
                nodes, gpus_per_node: per, gpus: gpus.filter(|_| nodes.is_none()),
                ranks_per_node: ranks, cpus_per_node: cpus, memory_per_node: memory.map(Bytes),
                ..GangSpec::default()
            };
        }
        if let Ok(r) = resolve(&s) {
            prop_assert!(!r.groups.is_empty());
            let mut total = (0u64, 0u64);
            for g in &r.groups {
                prop_assert!((1..=MAX_NODES).contains(&g.nodes));
                prop_assert!(g.gpus <= MAX_GPUS_PER_NODE);
                prop_assert!((1..=MAX_RANKS_PER_NODE).contains(&g.ranks));
                prop_assert!((1..=MAX_CPUS_PER_NODE).contains(&g.cpus));
                total.0 += u64::from(g.nodes);
                total.1 += u64::from(g.nodes) * u64::from(g.ranks);
            }
            prop_assert!(total.0 <= u64::from(MAX_NODES) && total.1 <= MAX_RANKS);
        }
    }

    #[test]
    fn no_text_panics(a in "\\PC{0,40}", b in "[0-9,:%-]{0,20}", k in "\\PC{0,10}") {
        for array in [&a, &b] {
            let _ = resolve(&spec(|s| s.array = Some(array.clone()))).map(|r| {
                assert!(r.array.is_sorted() && r.array.len() <= MAX_ARRAY);
            });
        }
        let _ = resolve(&spec(|s| s.after = vec![a.clone()]));
        let _ = resolve(&spec(|s| s.tags = [(k.clone(), a.clone())].into()));
        let volume = Volume { from: a.clone(), at: k.clone(), read_only: true };
        let _ = resolve(&spec(|s| s.volumes = vec![volume]));
        let env = [(k.clone(), a.clone())].into();
        let _ = check_run(&RunSpec { command: vec![a, k], env, ..RunSpec::default() }, false);
    }
}
