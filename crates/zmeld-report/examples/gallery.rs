//! Writes every element once, on data like that of a real machine: `gallery DIRECTORY` leaves `gallery.html`,
//! `gallery.md`, `gallery.txt` and one SVG file per plot there. Without a directory, the text goes to standard output.

use std::error::Error;
use std::path::Path;
use std::{env, fs};

use zmeld_report::{
    cells, units, Axis, Bars, Cell, Column, Document, Estimate, Frame, HeatMap, Lines, Plot,
    Scatter, Section, Stack, Style, Table, Tone, Unit,
};

const GIB: f64 = 1024.0 * 1024.0 * 1024.0;

fn main() -> Result<(), Box<dyn Error>> {
    let document = gallery();
    let Some(directory) = env::args_os().nth(1) else {
        print!("{}", document.to_text(&Style::plain(80)));
        return Ok(());
    };
    let directory = Path::new(&directory);
    fs::create_dir_all(directory)?;
    fs::write(directory.join("gallery.html"), document.to_html())?;
    fs::write(directory.join("gallery.md"), document.to_markdown())?;
    fs::write(
        directory.join("gallery.txt"),
        document.to_text(&Style::plain(80)),
    )?;
    for (at, plot) in plots().iter().enumerate() {
        fs::write(
            directory.join(format!("plot-{at}.svg")),
            plot.to_svg(Frame::Wide),
        )?;
    }
    Ok(())
}

fn plots() -> Vec<Plot> {
    vec![
        composition().into(),
        ratio_and_speed().into(),
        memory_used().into(),
        arms().into(),
        published().into(),
        swap_over_time().into(),
        migration().into(),
        distances(4).into(),
    ]
}

fn gallery() -> Document {
    Document::new("zmeld scan: what this machine's memory would gain")
        .lead("With zstd and melding, 4.21 GiB of memory would fit into 1.18 GiB: 3.57x, and 3.03 GiB more to use.")
        .provenance("machine", "4 processors, 7.7 GiB RAM")
        .provenance("kernel", "6.12.48-amd64")
        .provenance("command", "zmeld scan --all --codecs lz4,lzo-rle,zstd --html report.html")
        .provenance("time", "2025-11-21 10:42 UTC")
        .section(
            Section::new("What memory consists of")
                .paragraph("Anonymous memory of 214 processes was read; 37 could not be, because this is not root.")
                .plot(composition())
                .values([
                    ("pages", units::count(1_103_626)),
                    ("zero", units::percent(0.113)),
                    ("cold for 60 s", format!("{} ({})", units::bytes(2_576_980_378), units::percent(0.57))),
                    ("longest mapping", "/usr/lib/x86_64-linux-gnu/firefox-esr/a-very-long-name-of-a-library.so.128.0".into()),
                ]),
        )
        .section(
            Section::new("Codecs")
                .table(codecs())
                .plot(ratio_and_speed())
                .plot(memory_used())
                .advice(Tone::Good, "Use zstd with a disk of 8 GiB and a limit of 2.5 GiB: run `zmeld up --codec zstd`.")
                .advice(Tone::Warning, "lz4 would run out of memory at 214 MB: its ratio of 2.31 ± 0.02 is too low for this load.")
                .advice(Tone::Neutral, "842 is measured through a kernel device only."),
        )
        .section(
            Section::new("Duplicates")
                .paragraph("The largest groups of identical pages, and who holds them. Names are shown as found.")
                .table(groups()),
        )
        .section(
            Section::new("Does it help? Arms side by side")
                .table(arm_table())
                .plot(arms())
                .plot(published())
                .plot(swap_over_time()),
        )
        .section(
            Section::new("Page migration")
                .plot(migration())
                .plot(distances(4))
                .plot(distances(64))
                .list(["on-demand is never worse than linux", "full is worst with few or short processes"])
                .code("sudo zmeld up --codec zstd --size 8G\nzmeld status"),
        )
}

fn composition() -> Stack {
    Stack::new("Memory by what a store would do with it", Unit::Bytes)
        .part("compresses well (under half a page)", 1.94 * GIB)
        .part("compresses a little", 0.82 * GIB)
        .part("does not compress", 0.21 * GIB)
        .part("identical to another page", 0.71 * GIB)
        .part("same-filled", 0.05 * GIB)
        .part("zero", 0.48 * GIB)
}

const CODECS: [(&str, f64, f64, f64); 12] = [
    ("lz4", 2.31, 612.0, 2890.0),
    ("lz4hc -1", 2.44, 148.0, 2950.0),
    ("lz4hc -9", 2.52, 61.0, 3010.0),
    ("lzo", 2.37, 540.0, 890.0),
    ("lzo-rle", 2.39, 596.0, 948.0),
    ("zstd -1", 3.11, 312.0, 1010.0),
    ("zstd -3", 3.26, 187.0, 1004.0),
    ("zstd -9", 3.37, 64.0, 1032.0),
    ("zstd -19", 3.41, 9.2, 981.0),
    ("deflate -1", 2.95, 121.0, 420.0),
    ("deflate -6", 3.12, 55.0, 436.0),
    ("deflate -9", 3.13, 38.0, 437.0),
];

fn codecs() -> Table {
    let total = 4.21 * GIB;
    let mut table = Table::new("Codecs on these pages, a sample of 65 536")
        .column(Column::text("codec"))
        .column(Column::bytes("compressed"))
        .column(Column::bytes("memory used"))
        .column(Column::bytes("melded memory used"))
        .column(Column::ratio("ratio"))
        .column(Column::percent("incompressible").key("incompressible_fraction"))
        .column(Column::mb_per_s("compress"))
        .column(Column::mb_per_s("decompress"));
    for (name, ratio, compress, decompress) in CODECS {
        let size = (total / ratio) as u64;
        let row = table.row(cells![
            name,
            size,
            size + size / 40,
            size - size / 6,
            Estimate::around(ratio, ratio * 0.008),
            0.11 / ratio,
            compress,
            decompress
        ]);
        if name == "zstd -3" {
            row.strong();
        }
    }
    table.row(cells![
        "842",
        None::<u64>,
        None::<u64>,
        None::<u64>,
        None::<f64>,
        None::<f64>,
        None::<f64>,
        None::<f64>
    ]);
    table.note("Ratio with its 95 % interval. Speeds are of one processor, one page at a time.");
    table
}

fn ratio_and_speed() -> Scatter {
    let mut plot = Scatter::new(
        "Ratio against speed, one page at a time",
        Axis::new("compress", Unit::MbPerSecond).log(),
        Axis::new("ratio", Unit::Ratio),
    );
    let mut family = "";
    for (name, ratio, compress, _) in CODECS {
        let this = name.split([' ', '-']).next().unwrap_or(name);
        if this != family {
            plot = plot.series(this);
            family = this;
        }
        plot = plot.point(name, compress, ratio);
    }
    plot
}

fn memory_used() -> Bars {
    let mut plot = Bars::new(
        "Memory used, as it is and melded",
        "memory used",
        Unit::Bytes,
    )
    .series("as it is")
    .series("melded");
    for (name, ratio, ..) in CODECS.iter().step_by(3) {
        let size = 4.21 * GIB / ratio;
        plot = plot.group(name, [Estimate::exact(size), Estimate::exact(size * 0.83)]);
    }
    plot
}

fn groups() -> Table {
    let mut table = Table::new("Largest groups of identical pages")
        .column(Column::text("held by"))
        .column(Column::path("mapping"))
        .column(Column::count("pages"))
        .column(Column::count("processes"))
        .column(Column::bytes("saved"));
    let rows: [(&str, &str, u64, u64); 4] = [
        (
            "firefox-esr, Web Content, Isolated Web Co",
            "[heap]",
            48_211,
            14,
        ),
        (
            "postgres",
            "/dev/shm/PostgreSQL.1804289383/with/a/path/that/is/too/long/for/the/line",
            12_004,
            9,
        ),
        (
            "<script>alert('x')</script>\x1b[31m",
            "/tmp/a|b \"c\" & d",
            812,
            2,
        ),
        ("名前の長いプロセス", "[anon:スタック]", 64, 2),
    ];
    for (name, mapping, pages, processes) in rows {
        table.row(cells![name, mapping, pages, processes, pages * 4096]);
    }
    table
}

const ARMS: [(&str, f64, f64, f64); 4] = [
    ("no swap", f64::NAN, f64::NAN, f64::NAN),
    ("disk, 60 MB/s", 187.2, 171.0, 212.4),
    ("zram, lz4", 64.1, 62.7, 65.5),
    ("zmeld, zstd, inline", 52.4, 51.6, 53.3),
];

fn arm_table() -> Table {
    let mut table = Table::new("bt, limit 60 % of its footprint, 15 runs each")
        .column(Column::text("arm"))
        .column(Column::seconds("elapsed"))
        .column(Column::ratio("against disk"))
        .column(Column::count("major faults"))
        .column(Column::bytes("swapped"))
        .column(Column::text("verdict"));
    for (name, value, low, high) in ARMS {
        let killed = value.is_nan();
        let elapsed = if killed {
            Cell::Empty
        } else {
            Estimate::new(value, low, high).into()
        };
        table.row([
            name.into(),
            elapsed,
            if killed {
                Cell::Empty
            } else {
                Cell::Real(187.2 / value)
            },
            if killed {
                Cell::Empty
            } else {
                1_204_311u64.into()
            },
            if killed {
                Cell::Empty
            } else {
                912_344_064u64.into()
            },
            if killed {
                "killed for want of memory, 15 of 15"
            } else {
                "finished, verified"
            }
            .into(),
        ]);
    }
    table
}

fn arms() -> Bars {
    ARMS.into_iter().fold(
        Bars::new(
            "Elapsed time, median with 95 % interval",
            "elapsed",
            Unit::Seconds,
        ),
        |plot, arm| plot.estimate(arm.0, Estimate::new(arm.1, arm.2, arm.3)),
    )
}

fn published() -> Bars {
    [
        ("a 20 %, r 20 %", 0.0194, 0.021),
        ("a 20 %, r 60 %", 0.0518, 0.048),
        ("a 80 %, r 60 %", 0.175, 0.182),
        ("full, few processes", -0.06, -0.052),
    ]
    .into_iter()
    .fold(
        Bars::new(
            "Gain of on-demand over linux: published beside ours",
            "gain",
            Unit::Fraction,
        )
        .series("published")
        .series("ours"),
        |plot, (name, published, ours)| {
            plot.group(
                name,
                [Estimate::exact(published), Estimate::around(ours, 0.006)],
            )
        },
    )
}

fn swap_over_time() -> Lines {
    let curve = |factor: f64, delay: f64| {
        (0..120).map(move |at| {
            let t = f64::from(at) * 1.5;
            let value = factor
                * GIB
                * (1.0 - (-((t - delay).max(0.0)) / 30.0).exp())
                * (1.0 + 0.05 * (t / 5.0).sin());
            let half = value * 0.06;
            (
                t,
                if (60..66).contains(&at) && factor < 1.0 {
                    Estimate::exact(f64::NAN)
                } else {
                    Estimate::around(value, half)
                },
            )
        })
    };
    Lines::new(
        "Swap used over time",
        Axis::new("since the start", Unit::Seconds),
        Axis::new("swap used", Unit::Bytes).from_zero(),
    )
    .band("disk", curve(1.9, 4.0))
    .band("zram, lz4", curve(1.2, 8.0))
    .band("zmeld, zstd", curve(0.7, 8.0))
}

fn migration() -> Lines {
    let times = [
        500.0, 1000.0, 2000.0, 3000.0, 5000.0, 10_000.0, 15_000.0, 100_000.0,
    ];
    let full = [1.95, 1.46, 0.74, 0.48, 0.33, 0.24, 0.12, 0.01];
    let demand = [0.108, 0.115, 0.122, 0.127, 0.118, 0.093, 0.08, 0.03];
    let with = |values: [f64; 8], half: f64| {
        times
            .into_iter()
            .zip(values)
            .map(move |(time, value)| (time / 1000.0, Estimate::around(value, value * half)))
    };
    Lines::new(
        "Change of total time by policy",
        Axis::new("mean run time", Unit::Seconds).log(),
        Axis::new("difference to linux", Unit::Fraction).log(),
    )
    .band("full, slower", with(full, 0.1))
    .band("on-demand, faster", with(demand, 0.04))
}

fn distances(nodes: u32) -> HeatMap {
    let names = |word: &'static str| (0..nodes).map(move |node| format!("{word}{node}"));
    names("node ").enumerate().fold(
        HeatMap::new(
            &format!("Distances between {nodes} nodes (SLIT)"),
            Unit::Count,
            "from",
            "to",
        )
        .columns(names("")),
        |plot, (from, name)| {
            plot.row(
                &name,
                (0..nodes).map(move |to| match (from as u32) ^ to {
                    0 => 10.0,
                    other => 10.0 + 10.0 * f64::from(32 - other.leading_zeros()),
                }),
            )
        },
    )
}
