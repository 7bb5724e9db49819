//! Lives a scenario and prints its figures: `cargo run --release --example live -- FILE`.
use std::io::Write;
use std::path::Path;
fn main() {
    let file = std::env::args().nth(1).unwrap();
    let text = std::fs::read_to_string(&file).unwrap();
    let s = match muster_sim::scenario::read(&text, &file) {
        Ok(s) => s,
        Err(all) => {
            for e in all {
                eprintln!("{e}");
            }
            std::process::exit(2);
        }
    };
    let dir = Path::new(&file).parent().unwrap();
    let t = std::time::Instant::now();
    let mut log =
        std::env::args().nth(2).map(|f| std::io::BufWriter::new(std::fs::File::create(f).unwrap()));
    let (mut o, _) = muster_sim::run(&s, dir, Default::default(), |l| {
        if let Some(f) = &mut log {
            f.write_all(l).unwrap();
            f.write_all(b"\n").unwrap();
        }
    })
    .unwrap();
    o.wall_s = t.elapsed().as_secs_f64();
    println!("{}", serde_json::to_string_pretty(&o).unwrap());
}
