//! Lives that once ended badly, in their shortest form, as `system` prints them.

use crate::system::{acts, agent, shrink, spec, test_site};
use acts::Act::*;
use acts::{SiteScript, Step};
use agent::{Agent, Order, ServerMessage};
use muster_model::ids::{AttemptKey, JobId};
use muster_model::placement::{GpuSet, Slot};
use muster_model::spec::OnPartition;
use muster_model::units::{Bytes, Time};
use spec::Ask;
use test_site::TestSite;

/// The site of a life: seed, nodes, GPUs of each, spares, lateness, messages that come twice.
type Site = (u64, u8, u8, u8, u16, u8);

fn check((seed, nodes, gpus, spares, late, twice): Site, acts: &[Step]) {
    let acts = acts.to_vec();
    let life = SiteScript { seed, nodes, gpus, spares, late, twice, acts };
    if let Some(why) = shrink::run_script(&life) {
        panic!("{why}");
    }
}

// Jobs that wait for one another were given up one tick at a time.
#[test]
#[rustfmt::skip]
fn a_row_of_jobs_that_can_never_start_is_over_at_once() {
    check((28, 5, 8, 0, 1, 0), &[
        (907, Submit(Ask { nodes: 3, gpus: 4, shape: 4, limit: 0, class: 0, tier: 4, saves: 0, owner: 3, after: None })),
        (11947, Submit(Ask { nodes: 1, gpus: 6, shape: 9, limit: 0, class: 2, tier: 1, saves: 3, owner: 2, after: Some(218) })),
        (0, Submit(Ask { nodes: 1, gpus: 2, shape: 0, limit: 0, class: 2, tier: 2, saves: 5, owner: 2, after: Some(123) })),
    ]);
}

// The port of an attempt that outlived a retired node was never free again on its host.
#[test]
#[rustfmt::skip]
fn ports_are_free_again_where_a_node_was_retired_and_enrolled_anew() {
    check((24, 9, 8, 0, 1, 0), &[
        (900, Submit(Ask { nodes: 2, gpus: 2, shape: 9, limit: 2, class: 3, tier: 4, saves: 3, owner: 0, after: None })),
        (174, Submit(Ask { nodes: 3, gpus: 5, shape: 5, limit: 0, class: 3, tier: 0, saves: 1, owner: 3, after: Some(130) })),
        (244056, Crash(109, 695)),
        (47323, Retire(190)),
    ]);
}

// Cancelled while its node was cut off, and queued anew: the ranks behind the cut may still write.
#[test]
#[rustfmt::skip]
fn a_job_queued_anew_waits_for_the_ranks_that_a_lost_node_may_still_run() {
    let one = Ask { nodes: 1, gpus: 8, shape: 9, limit: 0, class: 0, tier: 0, saves: 3, owner: 0, after: None };
    for node in 0..3 {
        check((1, 3, 8, 0, 1, 0), &[
            (900, Submit(one)),
            (30_000, Cut(node, 900)),
            (50_000, Cancel(1)),
            (1000, Requeue(1)),
            (60_000, Snapshot),
        ]);
    }
}

// The lease of a job that says nothing, to the second: cut off for less than it, until its ranks are
// killed, until the next attempt starts, and for longer.
#[test]
#[rustfmt::skip]
fn ranks_on_a_node_that_is_cut_off_never_run_beside_the_next_attempt_by_the_default_lease() {
    let one = Ask { nodes: 1, gpus: 8, shape: 9, limit: 0, class: 0, tier: 0, saves: 3, owner: 0, after: None };
    for away in [119, 120, 129, 130, 131, 139, 140, 141, 600] {
        for node in 0..3 {
            check((1, 3, 8, 0, 300, 0), &[
                (900, Submit(one)),
                (30_000, Cut(node, away)),
                (700_000, Snapshot),
            ]);
        }
    }
}

// A gang that was swapped kept a reserved start that rested on a node retired since.
#[test]
#[rustfmt::skip]
fn a_reserved_start_on_a_node_that_is_retired_meanwhile_is_taken_back() {
    check((979, 7, 4, 0, 1, 0), &[
        (4385, Cut(162, 836)),
        (27927, Submit(Ask { nodes: 4, gpus: 3, shape: 9, limit: 1, class: 1, tier: 3, saves: 1, owner: 2, after: None })),
        (0, Submit(Ask { nodes: 1, gpus: 4, shape: 0, limit: 4, class: 2, tier: 3, saves: 5, owner: 1, after: None })),
        (304858, Cut(198, 2812)),
        (8657, Cut(113, 356)),
        (154511, Retire(51)),
        (15447, Submit(Ask { nodes: 4, gpus: 3, shape: 8, limit: 3, class: 1, tier: 2, saves: 1, owner: 5, after: None })),
        (186646, Submit(Ask { nodes: 3, gpus: 4, shape: 9, limit: 0, class: 3, tier: 0, saves: 2, owner: 4, after: None })),
    ]);
}

// A reservation that begins at once gave a notice that was over when it was given.
#[test]
#[rustfmt::skip]
fn where_no_time_is_left_for_a_checkpoint_an_attempt_is_stopped_at_once() {
    check((1_000_359, 3, 8, 0, 1, 0), &[
        (9446, Submit(Ask { nodes: 1, gpus: 2, shape: 5, limit: 4, class: 0, tier: 2, saves: 5, owner: 0, after: None })),
        (0, Requeue(81)),
        (107_647, Reserve(85, 165, 0, 158, 60)),
    ]);
}

/// A spare that could not carry the gang's share stepped in for a node that could: the gang waited
/// for ever.
#[test]
fn seed_1794740481() {
    check(
        (1_794_740_481, 7, 8, 2, 1, 0),
        &[
            (17933, Crash(93, 190)),
            (0, Topology(67)),
            (
                7651,
                Submit(Ask {
                    nodes: 4,
                    gpus: 7,
                    shape: 5,
                    limit: 2,
                    class: 1,
                    tier: 3,
                    saves: 3,
                    owner: 2,
                    after: None,
                }),
            ),
            (31088, Topology(32)),
            (107541, Cut(98, 606)),
            (
                45038,
                Submit(Ask {
                    nodes: 1,
                    gpus: 5,
                    shape: 3,
                    limit: 1,
                    class: 2,
                    tier: 3,
                    saves: 5,
                    owner: 2,
                    after: None,
                }),
            ),
        ],
    );
}

// A spare stepped in for a node that was not back yet when the world repaired everything, and left it
// its role: one node of the repaired world was kept out of service for ever.
#[test]
#[rustfmt::skip]
fn a_repaired_world_has_no_spares_although_one_stepped_in_when_roles_were_set() {
    check((704_000_000, 3, 8, 2, 1, 0), &[
        (16250, Submit(Ask { nodes: 3, gpus: 6, shape: 2, limit: 4, class: 0, tier: 0, saves: 3, owner: 0, after: None })),
        (0, Crash(225, 395)),
        (24539, Submit(Ask { nodes: 1, gpus: 0, shape: 8, limit: 0, class: 2, tier: 3, saves: 5, owner: 2, after: Some(225) })),
        (8742, Drain(158, true)),
        (28440, Submit(Ask { nodes: 2, gpus: 3, shape: 2, limit: 3, class: 4, tier: 2, saves: 0, owner: 4, after: None })),
    ]);
}

// The same, by a spare that was drained until then.
#[test]
#[rustfmt::skip]
fn a_repaired_world_has_no_spares_although_one_stepped_in_when_it_was_undrained() {
    check((712_000_228, 4, 8, 2, 1, 0), &[
        (13997, Drain(49, false)),
        (0, Submit(Ask { nodes: 2, gpus: 3, shape: 5, limit: 2, class: 0, tier: 1, saves: 4, owner: 2, after: None })),
        (49743, Submit(Ask { nodes: 3, gpus: 6, shape: 7, limit: 4, class: 2, tier: 0, saves: 3, owner: 0, after: Some(97) })),
        (0, Crash(71, 998)),
        (20666, Crash(76, 879)),
        (357_470, Requeue(231)),
    ]);
}

// A gang whose node failed was kept nodes that somebody else had reserved before it would be over:
// neither started.
#[test]
#[rustfmt::skip]
fn a_gang_that_was_swapped_gives_way_to_a_reserved_start_on_its_nodes() {
    check((710_000_264, 7, 4, 0, 1, 0), &[
        (229, Submit(Ask { nodes: 4, gpus: 4, shape: 4, limit: 4, class: 0, tier: 3, saves: 0, owner: 0, after: Some(6) })),
        (12463, Submit(Ask { nodes: 3, gpus: 3, shape: 9, limit: 1, class: 1, tier: 0, saves: 3, owner: 4, after: None })),
        (37002, Cut(175, 476)),
        (75443, StopShort),
    ]);
}

// Quotas changed while an interrupted gang and another job had reserved the same nodes: each waited
// for the other's reserved start.
#[test]
#[rustfmt::skip]
fn reserved_starts_by_limits_that_meet_are_made_anew() {
    check((97_008_387, 4, 8, 0, 3000, 0), &[
        (2953, Submit(Ask { nodes: 1, gpus: 1, shape: 5, limit: 0, class: 4, tier: 4, saves: 2, owner: 3, after: None })),
        (144_470, Submit(Ask { nodes: 2, gpus: 6, shape: 7, limit: 0, class: 1, tier: 1, saves: 4, owner: 4, after: None })),
        (10603, Submit(Ask { nodes: 4, gpus: 3, shape: 7, limit: 4, class: 0, tier: 1, saves: 4, owner: 3, after: None })),
        (45550, Submit(Ask { nodes: 3, gpus: 8, shape: 9, limit: 1, class: 4, tier: 2, saves: 0, owner: 0, after: None })),
        (72939, Crash(61, 6)),
        (12603, Quotas(178)),
        (77530, Flap(87)),
    ]);
}

// A job that was held because its nodes failed late waited for ever: nobody in this world looked.
#[test]
#[rustfmt::skip]
fn what_is_held_after_the_world_was_repaired_is_released_too() {
    check((93_003_931, 9, 4, 0, 1, 0), &[
        (351, Drain(234, false)),
        (138_346, Submit(Ask { nodes: 2, gpus: 2, shape: 9, limit: 4, class: 4, tier: 2, saves: 4, owner: 0, after: Some(10) })),
        (133_959, Crash(119, 815)),
        (635_879, Cut(246, 78)),
        (147_291, Cut(188, 68)),
        (73836, Submit(Ask { nodes: 1, gpus: 4, shape: 3, limit: 2, class: 1, tier: 0, saves: 5, owner: 3, after: None })),
    ]);
}

// A fleet without nodes took a gang that the repaired one is too small for. What waits for that gang
// waits with it, and the answer says so.
#[test]
#[rustfmt::skip]
fn what_waits_for_a_job_that_can_never_start_waits_with_it() {
    let acts = [
        (954, Drain(55, true)),
        (163_551, Drain(83, true)),
        (0, Drain(177, false)),
        (0, Retire(82)),
        (6888, Retire(11)),
        (26985, Retire(108)),
        (5548, Submit(Ask { nodes: 4, gpus: 2, shape: 4, limit: 2, class: 0, tier: 2, saves: 4, owner: 1, after: None })),
        (0, Submit(Ask { nodes: 1, gpus: 0, shape: 5, limit: 0, class: 1, tier: 2, saves: 3, owner: 0, after: Some(239) })),
    ];
    let acts = acts.to_vec();
    let mut w = TestSite::new(SiteScript { seed: 801_202_482, nodes: 3, gpus: 8, spares: 0, late: 1, twice: 0, acts });
    assert_eq!(w.run(), None);
    let why = |id| w.engine.state().explain(JobId(id), w.now).unwrap();
    assert!(why(1).impossible, "{}", why(1).summary);
    assert_eq!(why(2).summary, "waits for job 1, which is queued");
}

// The end of an attempt was reported twice. The second answer overtook the list that named the next
// attempt on the node; the agent took that list for old, and nobody sends a list twice.
#[test]
#[rustfmt::skip]
fn an_agent_that_hears_of_a_kept_end_still_obeys_a_list_from_before() {
    check((801_402_397, 6, 8, 1, 3000, 30), &[
        (844, Submit(Ask { nodes: 2, gpus: 2, shape: 3, limit: 0, class: 3, tier: 2, saves: 1, owner: 2, after: None })),
        (60408, Flap(79)),
        (40344, Submit(Ask { nodes: 1, gpus: 6, shape: 5, limit: 1, class: 2, tier: 0, saves: 5, owner: 0, after: None })),
        (7145, StopShort),
        (391, Uncordon(233)),
        (9944, Crash(103, 269)),
        (42108, Requeue(133)),
        (17990, Requeue(230)),
        (0, Submit(Ask { nodes: 4, gpus: 1, shape: 3, limit: 2, class: 4, tier: 4, saves: 3, owner: 4, after: None })),
        (122_370, Crash(144, 213)),
        (282_018, Drain(103, true)),
        (41808, Submit(Ask { nodes: 3, gpus: 8, shape: 7, limit: 2, class: 2, tier: 0, saves: 2, owner: 4, after: None })),
        (0, Crash(15, 20)),
        (1068, Submit(Ask { nodes: 2, gpus: 3, shape: 4, limit: 4, class: 3, tier: 2, saves: 2, owner: 2, after: None })),
        (23403, StopShort),
        (44123, Replay),
        (595, Crash(55, 8)),
        (954, Submit(Ask { nodes: 4, gpus: 0, shape: 8, limit: 1, class: 4, tier: 4, saves: 4, owner: 3, after: None })),
        (6109, Submit(Ask { nodes: 1, gpus: 7, shape: 8, limit: 3, class: 2, tier: 2, saves: 5, owner: 4, after: None })),
        (236_957, Cut(87, 686)),
        (28109, Restart),
        (25715, Policy(122)),
        (83408, Cordon(66)),
        (858, Crash(133, 1857)),
        (4182, Topology(176)),
    ]);
}

// A job waited for ever for the node that was reserved for one that waits for it.
#[test]
#[rustfmt::skip]
fn a_requeued_job_gets_what_was_reserved_for_one_that_waits_for_it() {
    check((195_002_605, 6, 8, 1, 1, 0), &[
        (747, Submit(Ask { nodes: 2, gpus: 3, shape: 6, limit: 2, class: 0, tier: 0, saves: 1, owner: 1, after: None })),
        (12962, Submit(Ask { nodes: 3, gpus: 8, shape: 2, limit: 0, class: 1, tier: 2, saves: 4, owner: 0, after: Some(105) })),
        (613_351, Crash(183, 1924)),
        (745, Requeue(73)),
        (53787, Enrol(173)),
    ]);
}

// Others were to leave for a job. What it needs was free before them, but reserved for somebody else
// from a moment before they would be gone: it gave their room up and asked for it again, without end.
#[test]
#[rustfmt::skip]
fn room_that_others_make_is_not_given_up_and_claimed_again_for_ever() {
    check((3_510_422, 3, 8, 2, 3000, 8), &[
        (259_548, Submit(Ask { nodes: 1, gpus: 6, shape: 9, limit: 0, class: 0, tier: 2, saves: 4, owner: 0, after: None })),
        (64433, Submit(Ask { nodes: 2, gpus: 2, shape: 4, limit: 3, class: 4, tier: 3, saves: 2, owner: 1, after: None })),
        (3198, Submit(Ask { nodes: 3, gpus: 7, shape: 3, limit: 0, class: 4, tier: 3, saves: 4, owner: 3, after: None })),
        (835, Drain(255, true)),
        (6772, Submit(Ask { nodes: 1, gpus: 5, shape: 9, limit: 2, class: 3, tier: 4, saves: 1, owner: 3, after: Some(232) })),
        (80409, Crash(149, 357)),
        (85840, Submit(Ask { nodes: 4, gpus: 3, shape: 2, limit: 1, class: 3, tier: 1, saves: 2, owner: 1, after: None })),
        (76371, Submit(Ask { nodes: 1, gpus: 2, shape: 3, limit: 3, class: 0, tier: 1, saves: 3, owner: 2, after: Some(234) })),
        (0, Submit(Ask { nodes: 2, gpus: 3, shape: 8, limit: 0, class: 1, tier: 2, saves: 2, owner: 1, after: None })),
        (19099, Cordon(167)),
        (1790, Hold(38)),
        (13875, Submit(Ask { nodes: 1, gpus: 1, shape: 5, limit: 4, class: 3, tier: 3, saves: 1, owner: 3, after: Some(40) })),
        (3869, Cancel(216)),
        (17674, Retire(45)),
        (0, Submit(Ask { nodes: 1, gpus: 7, shape: 3, limit: 1, class: 0, tier: 0, saves: 2, owner: 2, after: None })),
        (0, Submit(Ask { nodes: 1, gpus: 5, shape: 2, limit: 3, class: 3, tier: 0, saves: 4, owner: 1, after: None })),
        (597, Policy(14)),
        (56413, Submit(Ask { nodes: 1, gpus: 5, shape: 4, limit: 2, class: 0, tier: 2, saves: 1, owner: 4, after: Some(93) })),
        (0, Update(176, 54, 88)),
        (79, Submit(Ask { nodes: 2, gpus: 5, shape: 0, limit: 3, class: 1, tier: 2, saves: 3, owner: 3, after: Some(244) })),
        (18164, Enrol(111)),
        (9828, Submit(Ask { nodes: 1, gpus: 7, shape: 5, limit: 3, class: 0, tier: 1, saves: 5, owner: 3, after: None })),
        (51471, Requeue(44)),
        (37341, Cut(11, 2133)),
        (14760, Fail(165, 29, true)),
        (59471, Drain(174, false)),
        (222_794, StopShort),
    ]);
}

// Quotas count by SKU: what is still counted on a node was booked under that of the machine before.
#[test]
#[rustfmt::skip]
fn quotas_count_what_is_left_on_a_node_whose_machine_is_another() {
    check((295_013_957, 3, 8, 0, 1, 0), &[
        (119_505, Submit(Ask { nodes: 3, gpus: 4, shape: 7, limit: 0, class: 1, tier: 1, saves: 1, owner: 2, after: None })),
        (29270, Cut(48, 1070)),
        (586, Crash(181, 3012)),
        (237_678, Retire(252)),
        (7024, Quotas(83)),
        (2431, Enrol(75)),
    ]);
}

// The same without a site.
#[test]
fn a_list_from_before_a_kept_end_starts_what_is_new_and_not_what_is_over() {
    let key = |job| AttemptKey { job: JobId(job), attempt: 1 };
    let order = |job| Order {
        key: key(job),
        stop: None,
        slot: Slot {
            node: spec::name(0),
            group: 0,
            node_rank: 0,
            first_rank: 0,
            ranks: 1,
            gpus: GpuSet(0),
            cpus: 1,
            memory: Bytes(0),
            part: None,
        },
        partition: OnPartition::Continue,
        saves: false,
        asked: None,
    };
    let now = Time(0);
    let mut a = Agent::new(1, spec::name(0).to_string(), now);
    a.hello(1);
    a.receive(ServerMessage::Orders { seq: 1, list: vec![order(1)] }, now);
    a.fail(0, false, now);
    a.receive(ServerMessage::Kept { key: key(1) }, now);
    a.receive(ServerMessage::Orders { seq: 2, list: vec![order(1), order(2)] }, now);
    let alive: Vec<AttemptKey> = a.alive().map(|(k, _)| k).collect();
    assert_eq!(alive, [key(2)]);
}
