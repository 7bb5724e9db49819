use super::socket::{Count, HELLO, Hello, Kind, ListenerReport};
use super::*;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::mpsc;

fn here(id: u64, length: Duration) -> (u16, std::thread::JoinHandle<()>) {
    let order = Listen { id, bind: vec!["127.0.0.1".into()], length };
    let (port, serve) = Tcp.listen(&order).unwrap();
    (port, std::thread::spawn(serve))
}

fn order(id: u64, port: u16) -> Dial {
    let to = format!("127.0.0.1:{port}");
    Dial { id, to, from: None, streams: 2, length: Duration::from_millis(400), one_way: false }
}

/// Measures again while nothing came through: a machine that does other things may not let the
/// streams run at all in so short a time.
fn until_something_came(mut measure: impl FnMut() -> FabricMeasurement) -> FabricMeasurement {
    for _ in 0..100 {
        let f = measure();
        assert!(f.error.is_none(), "{f:?}");
        if f.mbps > 0.0 {
            return f;
        }
    }
    panic!("nothing ever comes through");
}

#[test]
fn a_path_is_measured_and_the_port_given_back() {
    let mut last = 0;
    let f = until_something_came(|| {
        let (port, served) = here(7, Duration::from_secs(60));
        let f = Tcp.dial(&order(7, port)).unwrap();
        served.join().unwrap();
        last = port;
        f
    });
    assert!(f.rtt_us <= f.rtt_p99_us, "{f:?}");
    // Somebody else may have got the port meanwhile, but nobody who knows the id.
    assert!(Tcp.dial(&order(7, last)).is_err(), "nobody listens any more");
}

#[test]
fn it_can_be_dialled_from_a_given_address() {
    let (port, served) = here(8, Duration::from_secs(60));
    let mut order = order(8, port);
    (order.from, order.one_way) = (Some("127.0.0.2".into()), true);
    Tcp.dial(&order).unwrap();
    served.join().unwrap();
}

#[test]
fn who_does_not_know_the_id_gets_nothing() {
    let (port, served) = here(9, Duration::from_secs(60));
    let e = Tcp.dial(&order(10, port)).unwrap_err();
    assert!(matches!(e, FabricError::Silent | FabricError::Broken(_)), "{e}");
    let mut s = TcpStream::connect(("127.0.0.1", port)).unwrap();
    s.write_all(b"GET / HTTP/1.1\r\nHost: somebody\r\n\r\n").unwrap();
    let mut said = Vec::new();
    // A reset is as good an answer as none.
    let _ = s.read_to_end(&mut said);
    assert!(said.is_empty());
    Tcp.dial(&order(9, port)).unwrap();
    served.join().unwrap();
}

#[test]
fn what_is_wrong_is_said() {
    let text = |o: &Dial| Tcp.dial(o).unwrap_err().to_string();
    let mut nowhere = order(1, 1);
    assert!(text(&nowhere).starts_with("127.0.0.1:1 does not answer"));
    nowhere.from = Some("here".into());
    assert_eq!(text(&nowhere), "here is not an address");
    let bind = |b: &str| Listen { id: 1, bind: vec![b.into()], length: LISTEN_MAX };
    assert!(Tcp.listen(&bind("192.0.2.1")).err().unwrap().to_string().starts_with("cannot listen"));
}

#[test]
fn both_ends_are_reported_over_the_wire() {
    until_something_came(|| {
        let (tx, rx) = mpsc::channel();
        let sender = tx.clone();
        // Somebody else's address: all of the machine are listened on instead.
        serve(3, None, "192.0.2.1", Span::secs(60), move |m| sender.send(m).unwrap());
        let Ok(FromAgent::FabricReady { id: 3, port, error: None }) = rx.recv() else { panic!() };
        let to = format!("127.0.0.1:{port}");
        dial(3, to, None, 1, Span(300), false, move |m| tx.send(m).unwrap());
        let Ok(FromAgent::FabricDone { id: 3, result }) = rx.recv() else { panic!() };
        result
    });
}

#[test]
fn greetings_and_counts_are_read_back() {
    for kind in [Kind::Control, Kind::Push, Kind::Pull] {
        let h = Hello { id: u64::MAX - 3, kind, length: Duration::from_millis(1500) };
        assert_eq!(Hello::read(&h.bytes()), Some(h));
    }
    assert_eq!(Hello::read(&[0; HELLO]), None);
    let long = Hello { id: 1, kind: Kind::Pull, length: LENGTH_MAX * 2 };
    assert_eq!(Hello::read(&long.bytes()), None, "nobody is made to send for hours");
    let c = Count { bytes: 125_000_000, nanos: 1_000_000_000 };
    assert_eq!(Count::read(&c.words()), c);
    assert!((c.mbps() - 1000.0).abs() < 1e-9);
    assert!(Count::default().mbps().abs() < 1e-9);
    let t = ListenerReport { resent: 3, held: u64::MAX, shares: [12, 1000] };
    assert_eq!(ListenerReport::read(&t.bytes()), t);
}
