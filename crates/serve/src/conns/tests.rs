//! Who has a place, and who makes room.

use super::*;

#[test]
fn few_files_mean_few_connections_and_probes_keep_theirs() {
    let all = ConnectionLimits::default();
    assert_eq!(all.within(usize::MAX), all);
    let few = all.within(256);
    assert!(few.total + few.probes <= 128 && few.probes >= 4, "{few:?}");
    assert!(few.per_address < few.total, "{few:?}");
    assert!(all.within(0).total >= 1);
}

fn ended(seats: &[ConnectionGuard]) -> Vec<usize> {
    let is_ended = |i: &usize| seats[*i].connection.evicted.is_cancelled();
    (0..seats.len()).filter(is_ended).collect()
}

#[test]
fn in_a_flood_each_new_one_takes_the_place_of_the_one_that_did_nothing_for_longest() {
    let limits = ConnectionLimits { total: 256, per_address: 256, ..Default::default() };
    let table = Table::new(limits);
    let here: IpAddr = "10.0.0.1".parse().unwrap();
    let seats: Vec<ConnectionGuard> = (0..256).map(|_| table.admit(here).unwrap()).collect();
    // Of the first three one does something, and one has done something since.
    let _busy = seats[0].connection.request(false);
    drop(seats[1].connection.request(false));
    let _new = table.admit(here).unwrap();
    assert_eq!(ended(&seats), [2]);
    let _next: Vec<ConnectionGuard> = (0..3).map(|_| table.admit(here).unwrap()).collect();
    assert_eq!(ended(&seats), [2, 3, 4, 5], "one for each");
    // One whose session has just been made is new, however long that took.
    seats[6].connection.opened();
    table.evict_idle();
    assert_eq!(ended(&seats), [2, 3, 4, 5, 7], "a file is needed, whoever comes");
}

#[test]
fn of_a_full_address_one_of_its_own_is_ended_and_of_a_full_table_the_oldest_of_all() {
    let limits = ConnectionLimits { total: 4, per_address: 2, ..Default::default() };
    let table = Table::new(limits);
    let [here, there]: [IpAddr; 2] =
        ["10.0.0.1", "10.0.0.2"].map(|address| address.parse().unwrap());
    let mut seats: Vec<ConnectionGuard> =
        [here, there, there].into_iter().map(|from| table.admit(from).unwrap()).collect();
    seats.push(table.admit(there).unwrap());
    assert_eq!(ended(&seats), [1], "the first is older, and of another address");
    seats.push(table.admit(here).unwrap());
    let elsewhere: IpAddr = "10.0.0.3".parse().unwrap();
    seats.push(table.admit(elsewhere).unwrap());
    assert_eq!(ended(&seats), [0, 1], "now all places are taken");
    drop(seats);
    let seats = table.seats();
    assert!(seats.idle.is_empty() && seats.by_address.is_empty());
}

#[test]
fn where_files_run_out_several_are_ended() {
    let table = Table::new(ConnectionLimits::default());
    let here: IpAddr = "10.0.0.1".parse().unwrap();
    let count = 2 * EVICTED_OF;
    let seats: Vec<ConnectionGuard> = (0..count).map(|_| table.admit(here).unwrap()).collect();
    table.evict_idle();
    assert_eq!(ended(&seats), [0, 1]);
}

#[test]
fn an_answer_that_is_not_taken_has_a_time_and_one_that_is_made_has_none() {
    let limits = ConnectionLimits::default();
    let table = Table::new(limits);
    let seat = table.admit("10.0.0.1".parse().unwrap()).unwrap();
    let deadline = || seat.connection.deadline(&limits);
    let first = seat.connection.request(true);
    assert_eq!(deadline(), None, "its answer is not there yet");
    first.offered();
    let at = deadline().unwrap();
    assert!(at > Instant::now() + limits.write_stall, "a slow reader has more time");
    let second = seat.connection.request(true);
    second.offered();
    second.taken();
    assert_eq!(deadline(), Some(at), "the oldest counts");
    first.taken();
    assert_eq!(deadline(), None, "it waits for the next piece");
    second.offered();
    drop(second);
    assert_eq!(deadline(), None);
    drop(first);
    assert!(deadline().is_some(), "there is no request left");
}

#[test]
fn who_does_nothing_makes_room_and_who_does_something_does_not() {
    let table = Table::new(ConnectionLimits {
        total: 2,
        per_address: 2,
        probes: 1,
        ..ConnectionLimits::default()
    });
    let here: IpAddr = "10.0.0.1".parse().unwrap();
    let first = table.admit(here).unwrap();
    let second = table.admit(here).unwrap();
    let third = table.admit(here).unwrap();
    assert!(first.connection.evicted.is_cancelled(), "the oldest goes");
    assert!(!second.connection.evicted.is_cancelled() && !third.connection.probes_only);
    let _busy = (second.connection.request(false), third.connection.request(false));
    let probe = table.admit(here).unwrap();
    assert!(probe.connection.probes_only);
    let other = table.admit(here).unwrap();
    assert!(probe.connection.evicted.is_cancelled() && other.connection.probes_only);
    let _asks = other.connection.request(false);
    assert!(table.admit(here).is_none(), "everybody does something");
    drop((first, second));
    assert!(!table.admit(here).unwrap().connection.probes_only, "there is a place again");
    drop((third, probe, other));
    let seats = table.seats();
    assert!(seats.taken.is_empty() && seats.by_address.is_empty() && seats.ordinary == 0);
    assert!(seats.idle.is_empty() && seats.idle_probes.is_empty());
}

#[test]
fn one_that_was_passed_over_while_it_did_something_makes_room_again_once_it_rests() {
    let limits = ConnectionLimits { total: 2, per_address: 2, ..Default::default() };
    let table = Table::new(limits);
    let here: IpAddr = "10.0.0.1".parse().unwrap();
    let mut seats: Vec<ConnectionGuard> = (0..2).map(|_| table.admit(here).unwrap()).collect();
    let busy = seats[0].connection.request(false);
    seats.push(table.admit(here).unwrap());
    assert_eq!(ended(&seats), [1], "the first does something");
    drop(busy);
    seats.push(table.admit(here).unwrap());
    assert_eq!(ended(&seats), [1, 2], "the first has rested only since then");
    seats.push(table.admit(here).unwrap());
    assert_eq!(ended(&seats), [0, 1, 2], "longer than the one that came after");
}
