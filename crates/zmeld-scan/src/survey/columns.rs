//! A survey as Parquet: one table of columns, five kinds of rows. `docs/survey.md` says
//! what each column means.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use parquet::basic::{Compression, Type, ZstdLevel};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DoubleType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::ColumnPath;
use zmeld_linux::pressure::Stall;

use crate::survey::objects::{class, class_sums, rounded, ClassSums, PoolBytes, CODECS};
use crate::survey::run::{OwnerResult, Survey};
use crate::survey::sketch::{Estimate, SketchRow};
use crate::survey::Error;

/// The schema's name and version, as it stands in each row.
pub const SCHEMA: &str = "zmeld.survey/2";

/// Contents in a row group: a reader of a small bound needs the first one only.
const GROUP_ROWS: usize = 8192;

/// Bytes before the first column: `PAR1`.
const MAGIC: usize = 4;

/// The key in the file's metadata: the CRC-32 of all columns' bytes, from behind `PAR1`
/// to the end of the last row group, and how many they are. It is against damage and not against forgery.
const DIGEST: &str = "zmeld.columns_crc32";

/// The columns in their order, by type; those with C are there for each codec.
const COLUMNS: &str = "\
BYTE_ARRAY NAME (STRING): schema record machine survey
INT64 NAME (TIMESTAMP(MICROS,true)): time
BYTE_ARRAY NAME (STRING): key_id host zmeld_version kernel architecture distribution
INT64 NAME: page_size ram_bytes swap_bytes swap_used_bytes
BYTE_ARRAY NAME (STRING): compressed_swap
INT64 NAME: ksm_pages_shared ksm_pages_sharing
DOUBLE NAME: memory_some_avg300 memory_full_avg300 uptime_seconds seconds cpu_seconds
BOOLEAN NAME: interrupted
BYTE_ARRAY NAME (STRING): selection
INT64 NAME: processes_refused sketch_size rows
BYTE_ARRAY NAME (STRING): zram_codecs
BOOLEAN NAME: modules
BYTE_ARRAY NAME (STRING): label_name label_value owner kind name namespace pod image
INT64 NAME: processes pages pages_zero pages_same
DOUBLE NAME: pages_distinct pages_distinct_low pages_distinct_high
INT64 NAME: pages_anonymous pages_shared_memory pages_file pages_swapped pages_ksm pages_huge
INT64 NAME: pages_locked pages_skipped idle_1m idle_10m idle_1h theta
DOUBLE NAME: pool_C pool_C_low pool_C_high melded_C melded_C_low melded_C_high
INT64 NAME: hash_high hash_low count
INT32 NAME: object_class
INT64 NAME: bytes_C squares_C";

/// Columns that every row has.
const REQUIRED: usize = 5;

/// Columns whose values hardly repeat.
const CHANCE: [&str; 2] = ["hash_high", "hash_low"];

enum Cell<'a> {
    Null,
    Text(&'a str),
    Int(i64),
    Small(i32),
    Real(f64),
    Flag(bool),
}

fn text<'a>(value: impl Into<Option<&'a str>>) -> Cell<'a> {
    value.into().map_or(Cell::Null, Cell::Text)
}

fn int(value: impl Into<Option<u64>>) -> Cell<'static> {
    let value = value.into();
    value.map_or(Cell::Null, |it| {
        Cell::Int(i64::try_from(it).unwrap_or(i64::MAX))
    })
}

fn real(value: impl Into<Option<f64>>) -> Cell<'static> {
    let value = value.into().filter(|it| it.is_finite());
    value.map_or(Cell::Null, Cell::Real)
}

fn stall(found: Option<Stall>) -> Cell<'static> {
    real(found.map(|it| it.avg300_percent))
}

/// A row: what it has in the columns that are not NULL, by their names.
struct Row<'a>(HashMap<Cow<'static, str>, Cell<'a>>);

impl<'a> Row<'a> {
    fn new<const N: usize>(
        survey: &'a Survey,
        record: &'a str,
        cells: [(&'static str, Cell<'a>); N],
    ) -> Row<'a> {
        let time = DateTime::<Utc>::from(survey.time).timestamp_micros();
        let common = [
            ("schema", text(SCHEMA)),
            ("record", text(record)),
            ("machine", text(&*survey.machine)),
            ("survey", text(&*survey.id)),
            ("time", Cell::Int(time)),
        ];
        let cells = common.into_iter().chain(cells);
        Row(cells.map(|(name, cell)| (name.into(), cell)).collect())
    }

    /// An estimate in three columns.
    fn estimate(&mut self, name: &str, found: &Estimate) {
        for (suffix, value) in [
            ("", found.value),
            ("_low", found.low),
            ("_high", found.high),
        ] {
            self.0.insert(format!("{name}{suffix}").into(), real(value));
        }
    }
}

fn machine(survey: &Survey, rows: usize) -> Row<'_> {
    let facts = &survey.facts;
    let cells = [
        ("key_id", text(&*survey.key_id)),
        ("host", text(facts.host.as_deref())),
        ("zmeld_version", text(&*survey.version)),
        ("kernel", text(facts.kernel.as_deref())),
        ("architecture", text(facts.architecture.as_deref())),
        ("distribution", text(facts.distribution.as_deref())),
        ("page_size", int(survey.page_size)),
        ("ram_bytes", int(facts.ram_bytes)),
        ("swap_bytes", int(facts.swap_bytes)),
        ("swap_used_bytes", int(facts.swap_used_bytes)),
        ("compressed_swap", text(&*facts.compressed_swap)),
        ("ksm_pages_shared", int(facts.ksm_pages_shared)),
        ("ksm_pages_sharing", int(facts.ksm_pages_sharing)),
        ("memory_some_avg300", stall(facts.stalls.map(|it| it.some))),
        ("memory_full_avg300", stall(facts.stalls.map(|it| it.full))),
        ("uptime_seconds", real(facts.uptime_seconds)),
        ("seconds", real(survey.elapsed.as_secs_f64())),
        ("cpu_seconds", real(survey.cpu.as_secs_f64())),
        ("interrupted", Cell::Flag(survey.interrupted)),
        ("selection", text(survey.selection.as_deref())),
        ("processes_refused", int(survey.refused)),
        ("sketch_size", int(survey.sketch_size)),
        ("rows", int(rows as u64)),
        ("zram_codecs", text(facts.zram_codecs.as_deref())),
        ("modules", Cell::Flag(facts.modules)),
    ];
    Row::new(survey, "machine", cells)
}

fn owner<'a>(survey: &'a Survey, found: &'a OwnerResult) -> Row<'a> {
    let (owner, pages, counted) = (&found.owner, &found.pages, &found.counted);
    let pod = owner.pod.as_ref();
    let idle = |at: usize| int(found.idle.map(|idle| idle[at]));
    let cells = [
        ("owner", text(&*owner.id)),
        ("kind", text(owner.kind.as_str())),
        ("name", text(&*owner.name)),
        ("namespace", text(pod.map(|pod| &*pod.namespace))),
        ("pod", text(pod.map(|pod| &*pod.pod))),
        ("image", text(pod.and_then(|pod| pod.image.as_deref()))),
        ("processes", int(counted.processes)),
        ("pages", int(pages.all)),
        ("pages_zero", int(pages.zero)),
        ("pages_same", int(pages.same)),
        ("pages_anonymous", int(counted.anon_present)),
        ("pages_shared_memory", int(counted.shmem_present)),
        ("pages_file", int(counted.file_present)),
        (
            "pages_swapped",
            int(counted.anon_swapped + counted.shmem_swapped),
        ),
        ("pages_ksm", int(counted.ksm)),
        ("pages_huge", int(counted.huge)),
        ("pages_locked", int(counted.locked)),
        ("pages_skipped", int(pages.skipped)),
        ("idle_1m", idle(0)),
        ("idle_10m", idle(1)),
        ("idle_1h", idle(2)),
        ("theta", Cell::Int(found.sketch.theta)),
    ];
    let mut row = Row::new(survey, "owner", cells);
    row.estimate("pages_distinct", &found.distinct);
    for (at, (codec, _)) in CODECS.iter().enumerate() {
        row.estimate(&format!("pool_{codec}"), &coarse(&found.pool[at]));
        row.estimate(&format!("melded_{codec}"), &coarse(&found.melded[at]));
    }
    row
}

/// Rounds an owner's estimate, so that no page can be told by it.
fn coarse(found: &Estimate) -> Estimate {
    Estimate {
        value: rounded(found.value),
        low: rounded(found.low),
        high: rounded(found.high),
    }
}

fn size<'a>(survey: &'a Survey, class: usize, sums: &ClassSums) -> Row<'a> {
    let cells = [
        ("count", int(sums.contents)),
        ("object_class", Cell::Small(class as i32)),
    ];
    let mut row = Row::new(survey, "size", cells);
    for (at, (codec, _)) in CODECS.iter().enumerate() {
        let (bytes, squares) = (int(sums.bytes[at]), int(sums.squares[at]));
        row.0.insert(format!("bytes_{codec}").into(), bytes);
        row.0.insert(format!("squares_{codec}").into(), squares);
    }
    row
}

fn content<'a>(survey: &'a Survey, owner: &'a OwnerResult, row: &SketchRow<PoolBytes>) -> Row<'a> {
    let class = class(&row.content, survey.page_size);
    let cells = [
        ("owner", text(&*owner.owner.id)),
        ("hash_high", Cell::Int(row.hash.high)),
        ("hash_low", Cell::Int(row.hash.low)),
        ("count", int(row.count)),
        ("object_class", Cell::Small(class as i32)),
    ];
    Row::new(survey, "content", cells)
}

/// The survey as a file.
///
/// # Errors
/// When a column and its values do not fit, which must never happen.
pub fn parquet(survey: &Survey) -> Result<Vec<u8>, Error> {
    let mut contents: Vec<(&OwnerResult, &SketchRow<PoolBytes>)> = survey
        .owners
        .iter()
        .flat_map(|owner| owner.sketch.rows.iter().map(move |row| (owner, row)))
        .collect();
    contents.sort_by_key(|(_, row)| row.hash);
    let sizes = class_sums(
        contents.iter().map(|(_, row)| &row.content),
        survey.page_size,
    );
    let rows = 1 + survey.labels.len() + survey.owners.len() + sizes.len() + contents.len();
    let schema = Arc::new(parse_message_type(&message())?);
    let mut writer = SerializedFileWriter::new(Vec::new(), schema, Arc::new(properties()))?;

    let mut head = vec![machine(survey, rows)];
    head.extend(survey.labels.iter().map(|(name, value)| {
        let cells = [
            ("label_name", text(&**name)),
            ("label_value", text(&**value)),
        ];
        Row::new(survey, "label", cells)
    }));
    head.extend(survey.owners.iter().map(|found| owner(survey, found)));
    head.extend(sizes.iter().map(|(class, sums)| size(survey, *class, sums)));
    write_group(&mut writer, &head)?;
    for some in contents.chunks(GROUP_ROWS) {
        let rows = some.iter().map(|(owner, row)| content(survey, owner, row));
        write_group(&mut writer, &rows.collect::<Vec<_>>())?;
    }
    writer.flush().map_err(ParquetError::from)?;
    let written = &writer.inner()[MAGIC..];
    let digest = format!("{:08x} {}", crc32fast::hash(written), written.len());
    writer.append_key_value_metadata(KeyValue::new(DIGEST.to_owned(), digest));
    Ok(writer.into_inner()?)
}

fn properties() -> WriterProperties {
    let zstd = Compression::ZSTD(ZstdLevel::default());
    let plain = |builder: parquet::file::properties::WriterPropertiesBuilder, name: &str| {
        builder.set_column_dictionary_enabled(ColumnPath::from(name), false)
    };
    CHANCE
        .into_iter()
        .fold(WriterProperties::builder().set_compression(zstd), plain)
        .build()
}

fn message() -> String {
    let mut fields: Vec<String> = Vec::new();
    let mut add = |kind: &str, names: &str| {
        for name in names.split(' ') {
            let repetition = match fields.len() < REQUIRED {
                true => "REQUIRED",
                false => "OPTIONAL",
            };
            fields.push(format!("{repetition} {};", kind.replace("NAME", name)));
        }
    };
    for line in COLUMNS.lines() {
        let (kind, names) = line.split_once(": ").expect("a type and its columns");
        match names.contains("_C") {
            true => CODECS.iter().for_each(|(codec, _)| {
                add(kind, &names.replace("_C", &format!("_{codec}")));
            }),
            false => add(kind, names),
        }
    }
    format!("message survey {{ {} }}", fields.join(" "))
}

fn write_group(
    writer: &mut SerializedFileWriter<Vec<u8>>,
    rows: &[Row<'_>],
) -> Result<(), ParquetError> {
    let columns = writer.schema_descr().columns().to_vec();
    let is_known = |name: &Cow<'_, str>| columns.iter().any(|it| it.name() == *name);
    debug_assert!(rows.iter().all(|row| row.0.keys().all(is_known)));
    let mut group = writer.next_row_group()?;
    for column in &columns {
        let name = column.name();
        let cells = || {
            rows.iter()
                .map(|row| row.0.get(name).unwrap_or(&Cell::Null))
        };
        // 1 where there is a value.
        let levels = cells().map(|cell| i16::from(!matches!(cell, Cell::Null)));
        let levels: Vec<i16> = levels.collect();
        let levels = (column.max_def_level() > 0).then_some(&levels[..]);
        let missing = || ParquetError::General(format!("there is no column {name}"));
        let mut writer = group.next_column()?.ok_or_else(missing)?;
        macro_rules! put {
            ($kind:ty, $cell:pat => $value:expr) => {{
                let values: Vec<_> = cells()
                    .filter_map(|cell| match cell {
                        $cell => Some($value),
                        _ => None,
                    })
                    .collect();
                writer.typed::<$kind>().write_batch(&values, levels, None)?
            }};
        }
        match column.physical_type() {
            Type::INT64 => put!(Int64Type, Cell::Int(it) => *it),
            Type::INT32 => put!(Int32Type, Cell::Small(it) => *it),
            Type::DOUBLE => put!(DoubleType, Cell::Real(it) => *it),
            Type::BOOLEAN => put!(BoolType, Cell::Flag(it) => *it),
            _ => put!(ByteArrayType, Cell::Text(it) => ByteArray::from(*it)),
        };
        writer.close()?;
    }
    group.close()?;
    Ok(())
}
