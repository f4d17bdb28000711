//! Prints gains at the study's points for one parameter set, for calibration by hand.
use rayon::prelude::*;
use zmeld_numa::engine::{simulate, Detail, Setup};
use zmeld_numa::machine::Machine;
use zmeld_numa::policy::{PolicyName, PolicySettings};
use zmeld_numa::scheduler::Scheduler;
use zmeld_numa::workload::*;

#[derive(Clone)]
struct P { m: Machine, s: Scheduler, w: Workload, p: PolicySettings, reps: u64 }

fn point(p: &P, n: usize, t: f64, kb: f64, a: f64, r: f64) -> (f64, f64, f64, f64, f64, f64) {
    let mut w = p.w.clone();
    w.processes = n; w.run_time_ms = w.run_time_ms.with_mean(t); w.size_kb = Quantity::Same(kb); w.access_share = a; w.reuse_share = r;
    let sums = (0..p.reps).into_par_iter().map(|rep| {
        let plans = w.plans(&p.m, 1, rep);
        let setup = Setup { machine: &p.m, scheduler: &p.s, plans: &plans, detail: Detail::TOTALS };
        let go = |n: PolicyName| { let mut pol = n.build(&p.p, &p.m); simulate(setup, &mut *pol) };
        let (l, o, f) = (go(PolicyName::Linux), go(PolicyName::OnDemand), go(PolicyName::Full));
        let x = l.remote_refs as f64 / l.refs as f64;
        [l.total_ms(), o.total_ms(), f.total_ms(), x, l.counters.node_moves as f64, f.counters.whole_copies as f64]
    }).reduce(|| [0.0; 6], |a, b| std::array::from_fn(|i| a[i] + b[i]));
    let k = p.reps as f64;
    (sums[0] / k, 100.0 * (1.0 - sums[1] / sums[0]), 100.0 * (sums[2] / sums[0] - 1.0), sums[3] / k, sums[4] / k, sums[5] / k)
}

fn main() {
    let text = std::fs::read_to_string(std::env::args().nth(1).unwrap()).unwrap();
    #[derive(serde::Deserialize)]
    struct F { slit: Vec<Vec<u32>>, scheduler: Scheduler, workload: Workload, policy: PolicySettings, #[serde(default)] page: Option<u64> }
    let f: F = toml::from_str(&text).unwrap();
    let reps: u64 = std::env::args().nth(2).and_then(|x| x.parse().ok()).unwrap_or(60);
    let mut m = Machine::preset("altix-4x2").unwrap();
    m.slit = zmeld_numa::machine::Slit::new(f.slit, "x").unwrap();
    if let Some(p) = f.page { m.page_bytes = p; }
    let p = P { m, s: f.scheduler, w: f.workload, p: f.policy, reps };
    let show = |label: String, v: (f64, f64, f64, f64, f64, f64), want: &str| println!("{label:28} T={:9.1} gain={:6.2} full={:7.1} x={:.3} moves={:6.1} copies={:6.1}   want {want}", v.0, v.1, v.2, v.3, v.4, v.5);
    for (t, w) in [(500., "10.8 / 200"), (1000., "/146"), (2000., "/74"), (3000., "12.7 /48"), (4000., "/33"), (5000., "/24"), (10000., "9.3 or 3"), (15000., ""), (100000., "full 0")] { show(format!("t={t}"), point(&p, 50, t, 50., 0.6, 0.4), w); }
    for (kb, w) in [(50., "9.3"), (100., ""), (200., ""), (300., "13.6"), (500., "13.6")] { show(format!("kb={kb}"), point(&p, 50, 10000., kb, 0.6, 0.4), w); }
    for (a, r, w) in [(0.2, 0.2, 1.94), (0.2, 0.4, 3.69), (0.2, 0.6, 5.18), (0.8, 0.2, 7.12), (0.8, 0.4, 12.83), (0.8, 0.6, 17.5)] { show(format!("200 a={a} r={r}"), point(&p, 200, 500., 50., a, r), &w.to_string()); }
    show("400 a=.8 r=.6".into(), point(&p, 400, 500., 50., 0.8, 0.6), "<17.5, step 30%");
    show("400 a=.6 r=.6".into(), point(&p, 400, 500., 50., 0.6, 0.6), "");
    for (n, w) in [(10, ">60 / 800"), (20, ""), (60, ""), (100, ""), (200, ""), (400, ""), (750, "")] { show(format!("n={n}"), point(&p, n, 500., 50., 0.6, 0.4), w); }
}
