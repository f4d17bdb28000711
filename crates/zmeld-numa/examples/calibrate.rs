//! Hill climb over the study's free parameters.
fn main() {
    let arg = |i: usize, d: u64| std::env::args().nth(i).and_then(|s| s.parse().ok()).unwrap_or(d);
    let text = std::fs::read_to_string("crates/zmeld-numa/scenarios/study.toml").unwrap();
    let source = zmeld_numa::scenario::Source::new(text, "study.toml".into()).unwrap();
    zmeld_numa::study::calibrate(&source, arg(1, 10) as usize, arg(2, 1), arg(3, 40), &mut |s| println!("{:7.2} {:2} {} {:?}", s.misfit, s.agree, if s.best { "*" } else { " " }, s.settings)).unwrap();
}
