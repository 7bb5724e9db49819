use super::*;
use muster_model::spec::Group;
use muster_model::units::Bytes;

fn project(n: u64) -> ProjectName {
    format!("p{n}").parse().unwrap()
}

/// Job `n` of a user, who asks for so many nodes.
fn work(n: u64, (p, u): (u64, u64), nodes: u32) -> Arc<Work> {
    let group = Group {
        name: "main".into(),
        nodes,
        gpus: 8,
        ranks: 8,
        cpus: 1,
        memory: Bytes(0),
        sku: None,
        part: None,
    };
    let demand = Demand {
        groups: [group].into(),
        required: None,
        preferred: None,
        segment: None,
        spread: None,
        simulated: false,
    };
    Arc::new(Work {
        job: JobId(n),
        demand: Arc::new(demand),
        priority: if n.is_multiple_of(3) { Priority::High } else { Priority::Normal },
        tier: Tier::OnDemand,
        project: project(p),
        user: format!("u{u}").into(),
        since: Time(0),
        limit: None,
        checkpoints: false,
        elastic: None,
    })
}

/// Every bucket is one of its account's, and no account has others.
fn check(q: &Queue) {
    let mut want = vec![BTreeSet::new(); q.of_account.len()];
    for (id, b) in q.buckets() {
        want[b.account].insert(id);
    }
    assert_eq!(q.of_account, want);
}

#[test]
fn what_is_learnt_of_a_user_changes_what_is_believed_of_that_user_alone() {
    let mut q = Queue::default();
    let who = |n: u64| (n % 2, n / 2 % 3);
    for n in 0..60 {
        q.insert(work(n, who(n), 1 + u32::try_from(n % 4).unwrap()));
        check(&q);
    }
    // Numbers of buckets are used again.
    for n in (0..60).filter(|n| n % 7 < 4) {
        q.remove(JobId(n));
        check(&q);
    }
    for n in 60..90 {
        q.insert(work(n, who(n / 2), 1 + u32::try_from(n % 5).unwrap()));
        check(&q);
    }
    let learnt = RuntimeEstimate { run_ms: 7, urgency: 7 };
    let before: Vec<RuntimeEstimate> = q.buckets().map(|(_, b)| b.belief).collect();
    q.update_estimates(&project(1), "u2", |_| learnt);
    let mut changed = 0;
    for ((_, b), was) in q.buckets().zip(before) {
        let mine = b.key.project == project(1) && &*b.key.user == "u2";
        assert_eq!(b.belief, if mine { learnt } else { was });
        changed += u32::from(mine);
    }
    assert!(changed > 1, "{changed}");
    let of = |p: u64, u: &str| {
        let mine = q.jobs.values().filter(|(_, w)| w.project == project(p) && &*w.user == u);
        (mine.count(), q.waiting(&project(p), u))
    };
    for (p, u) in [(0, "u0"), (0, "u1"), (0, "u2"), (1, "u0"), (1, "u1"), (1, "u2")] {
        let (listed, counted) = of(p, u);
        assert_eq!(listed, counted, "{p} {u}");
    }
    assert_eq!(of(7, "u0"), (0, 0));
    q.update_estimates(&project(7), "u0", |_| learnt);
}

#[test]
fn the_beginning_of_a_queue_has_the_order_of_the_whole() {
    let mut q = Queue::default();
    for n in 0..60 {
        q.insert(work(n, (n % 2, n / 2 % 3), 1 + u32::try_from(n % 4).unwrap()));
    }
    // As they were set, and others.
    for ranks in [Vec::new(), vec![3, 1, 2, 0, 5, 4]] {
        let mut whole = q.clone();
        whole.set_ranks(ranks.clone());
        let order: Vec<JobId> = whole.iter().map(|t| t.job).collect();
        let far = order[50];
        let cut = q.cut(20, ranks, [far, order[3]].into_iter());
        check(&cut);
        let got: Vec<JobId> = cut.iter().map(|t| t.job).collect();
        assert_eq!(got, [&order[..20], &[far]].concat());
        assert_eq!((cut.len(), cut.len_in_all(), cut.is_cut()), (21, 60, true));
        assert!(cut.has_all_before(order[0]) && cut.has_all_before(order[19]));
        assert!(!cut.has_all_before(far));
        for (_, b) in cut.buckets() {
            assert_eq!(b.shape, q.shapes[&b.key.demand].0, "demands have the numbers they had");
        }
    }
    let all = q.cut(60, Vec::new(), std::iter::empty());
    assert!(!all.is_cut() && all.has_all_before(JobId(59)));
    assert!(all.iter().map(|t| t.job).eq(q.iter().map(|t| t.job)));
}
