//! A survey as Parquet: one table of columns, four kinds of rows. `docs/survey.md` says
//! what each column means.

use std::borrow::Cow;
use std::sync::Arc;

use parquet::basic::{Compression, ZstdLevel};
use parquet::data_type::{
    BoolType, ByteArray, ByteArrayType, DataType, DoubleType, Int32Type, Int64Type,
};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::ColumnPath;

use crate::objects::{class, class_sums, ClassSums, PoolBytes, CODECS};
use crate::owners::Pod;
use crate::sketch::{Estimate, SketchRow};
use crate::survey::{microseconds, OwnerResult, Survey};
use crate::{Error, SCHEMA};

/// Contents in a row group: a reader of a small bound needs the first one only.
const GROUP_ROWS: usize = 8192;

/// Bytes before the first column: `PAR1`.
const MAGIC: usize = 4;

/// The key in the file's metadata: the CRC-32 of all columns' bytes, from behind `PAR1`
/// to the end of the last row group, and how many they are. It is against damage and not against forgery.
const DIGEST: &str = "zmeld.columns_crc32";

/// Columns that every row has.
const REQUIRED: usize = 5;

/// Columns whose values hardly repeat.
const CHANCE: [&str; 2] = ["hash_high", "hash_low"];

/// A row.
enum Row<'a> {
    Machine { rows: usize },
    Label(&'a (String, String)),
    Owner(&'a OwnerResult),
    Size(usize, ClassSums),
    Content(&'a OwnerResult, &'a SketchRow<PoolBytes>),
}

/// What stands in a column; none is NULL.
enum Cell<'a> {
    Text(Option<Cow<'a, str>>),
    Int(Option<i64>),
    Time(i64),
    Small(Option<i32>),
    Real(Option<f64>),
    Flag(Option<bool>),
}

impl Cell<'_> {
    /// The column's type, as Parquet writes it.
    fn physical(&self, name: &str) -> String {
        match self {
            Cell::Text(_) => format!("BYTE_ARRAY {name} (STRING)"),
            Cell::Int(_) => format!("INT64 {name}"),
            Cell::Time(_) => format!("INT64 {name} (TIMESTAMP(MICROS,true))"),
            Cell::Small(_) => format!("INT32 {name}"),
            Cell::Real(_) => format!("DOUBLE {name}"),
            Cell::Flag(_) => format!("BOOLEAN {name}"),
        }
    }
}

type Get<'a> = Box<dyn Fn(&Row<'a>) -> Cell<'a> + 'a>;

/// A column: its name, and what a row has in it.
struct Column<'a> {
    name: String,
    get: Get<'a>,
}

fn text(value: &str) -> Cell<'_> {
    Cell::Text(Some(Cow::Borrowed(value)))
}

fn optional(value: &Option<String>) -> Cell<'_> {
    Cell::Text(value.as_deref().map(Cow::Borrowed))
}

fn count(value: u64) -> Option<i64> {
    Some(i64::try_from(value).unwrap_or(i64::MAX))
}

/// The columns of a survey, in their order.
struct Columns<'a>(Vec<Column<'a>>);

impl<'a> Columns<'a> {
    fn add(&mut self, name: impl Into<String>, get: impl Fn(&Row<'a>) -> Cell<'a> + 'a) {
        self.0.push(Column {
            name: name.into(),
            get: Box::new(get),
        });
    }

    /// Of machine rows alone.
    fn machine(&mut self, name: &str, none: fn() -> Cell<'a>, get: impl Fn() -> Cell<'a> + 'a) {
        self.add(name, move |row| match row {
            Row::Machine { .. } => get(),
            _ => none(),
        });
    }

    fn machine_text(&mut self, name: &str, get: impl Fn() -> Cell<'a> + 'a) {
        self.machine(name, || Cell::Text(None), get);
    }

    fn machine_int(&mut self, name: &str, value: Option<u64>) {
        self.machine(
            name,
            || Cell::Int(None),
            move || Cell::Int(value.and_then(count)),
        );
    }

    fn machine_real(&mut self, name: &str, value: Option<f64>) {
        self.machine(name, || Cell::Real(None), move || Cell::Real(value));
    }

    /// Of owner rows alone.
    fn owner_int(&mut self, name: &str, get: impl Fn(&OwnerResult) -> Option<u64> + 'a) {
        self.add(name, move |row| match row {
            Row::Owner(owner) => Cell::Int(get(owner).and_then(count)),
            _ => Cell::Int(None),
        });
    }

    /// Of rows about containers in Kubernetes alone.
    fn pod(&mut self, name: &str, get: impl Fn(&'a Pod) -> Option<&'a String> + 'a) {
        self.add(name, move |row| match row {
            Row::Owner(owner) => {
                let found = owner.owner.pod.as_ref().and_then(&get);
                Cell::Text(found.map(|text| Cow::Borrowed(text.as_str())))
            }
            _ => Cell::Text(None),
        });
    }

    /// Of rows about a class of sizes alone.
    fn size(&mut self, name: &str, get: impl Fn(&ClassSums) -> u64 + 'a) {
        self.add(name, move |row| match row {
            Row::Size(_, sums) => Cell::Int(count(get(sums))),
            _ => Cell::Int(None),
        });
    }

    /// An estimate of owners in three columns.
    fn estimate(&mut self, name: &str, get: impl Fn(&OwnerResult) -> Estimate + Copy + 'a) {
        type Part = fn(&Estimate) -> f64;
        let parts: [(&str, Part); 3] = [
            ("", |it| it.value),
            ("_low", |it| it.low),
            ("_high", |it| it.high),
        ];
        for (suffix, part) in parts {
            self.add(format!("{name}{suffix}"), move |row| match row {
                Row::Owner(owner) => Cell::Real(Some(part(&get(owner)))),
                _ => Cell::Real(None),
            });
        }
    }
}

fn columns(survey: &Survey) -> Vec<Column<'_>> {
    let mut columns = Columns(Vec::new());
    common(&mut columns, survey);
    machine(&mut columns, survey);
    owner(&mut columns);
    content(&mut columns, survey.page_size);
    columns.0
}

fn common<'a>(columns: &mut Columns<'a>, survey: &'a Survey) {
    let time = microseconds(survey.time);
    columns.add("schema", |_| text(SCHEMA));
    columns.add("record", |row| {
        text(match row {
            Row::Machine { .. } => "machine",
            Row::Label(_) => "label",
            Row::Owner(_) => "owner",
            Row::Size(..) => "size",
            Row::Content(..) => "content",
        })
    });
    columns.add("machine", |_| text(&survey.machine));
    columns.add("survey", |_| text(&survey.id));
    columns.add("time", move |_| Cell::Time(time));
}

fn machine<'a>(columns: &mut Columns<'a>, survey: &'a Survey) {
    let facts = &survey.facts;
    columns.machine_text("key_id", || text(&survey.key_id));
    columns.machine_text("host", || optional(&facts.host));
    columns.machine_text("zmeld_version", || text(&survey.version));
    columns.machine_text("kernel", || optional(&facts.kernel));
    columns.machine_text("architecture", || optional(&facts.architecture));
    columns.machine_text("distribution", || optional(&facts.distribution));
    columns.machine_int("page_size", Some(survey.page_size));
    columns.machine_int("ram_bytes", facts.ram_bytes);
    columns.machine_int("swap_bytes", facts.swap_bytes);
    columns.machine_int("swap_used_bytes", facts.swap_used_bytes);
    columns.machine_text("compressed_swap", || text(&facts.compressed_swap));
    columns.machine_int("ksm_pages_shared", facts.ksm_pages_shared);
    columns.machine_int("ksm_pages_sharing", facts.ksm_pages_sharing);
    let stalls = facts.stalls;
    columns.add("memory_some_avg300", move |row| match row {
        Row::Machine { .. } => Cell::Real(stalls.some_avg300),
        Row::Owner(owner) => Cell::Real(owner.stalls.some_avg300),
        _ => Cell::Real(None),
    });
    columns.add("memory_full_avg300", move |row| match row {
        Row::Machine { .. } => Cell::Real(stalls.full_avg300),
        Row::Owner(owner) => Cell::Real(owner.stalls.full_avg300),
        _ => Cell::Real(None),
    });
    columns.machine_real("uptime_seconds", facts.uptime_seconds);
    columns.machine_real("seconds", Some(survey.elapsed.as_secs_f64()));
    columns.machine_real("cpu_seconds", Some(survey.cpu.as_secs_f64()));
    columns.machine(
        "interrupted",
        || Cell::Flag(None),
        || Cell::Flag(Some(survey.interrupted)),
    );
    columns.machine_text("selection", || optional(&survey.selection));
    columns.machine_int("processes_refused", Some(survey.refused));
    columns.machine_int("sketch_size", Some(survey.sketch_size));
    columns.add("rows", |row| match row {
        Row::Machine { rows } => Cell::Int(count(*rows as u64)),
        _ => Cell::Int(None),
    });
    columns.add("label_name", |row| match row {
        Row::Label((name, _)) => text(name),
        _ => Cell::Text(None),
    });
    columns.add("label_value", |row| match row {
        Row::Label((_, value)) => text(value),
        _ => Cell::Text(None),
    });
}

fn owner(columns: &mut Columns<'_>) {
    columns.add("owner", |row| match row {
        Row::Owner(owner) | Row::Content(owner, _) => text(&owner.owner.id),
        _ => Cell::Text(None),
    });
    columns.add("kind", |row| match row {
        Row::Owner(owner) => text(owner.owner.kind.as_str()),
        _ => Cell::Text(None),
    });
    columns.add("name", |row| match row {
        Row::Owner(owner) => text(&owner.owner.name),
        _ => Cell::Text(None),
    });
    columns.pod("namespace", |pod| Some(&pod.namespace));
    columns.pod("pod", |pod| Some(&pod.pod));
    columns.pod("image", |pod| pod.image.as_ref());
    columns.owner_int("processes", |owner| Some(owner.processes));
    columns.owner_int("pages", |owner| Some(owner.pages.pages));
    columns.owner_int("pages_zero", |owner| Some(owner.pages.zero));
    columns.owner_int("pages_same", |owner| Some(owner.pages.same));
    columns.estimate("pages_distinct", |owner| owner.distinct);
    columns.owner_int("pages_anonymous", |owner| Some(owner.pages.anonymous));
    columns.owner_int("pages_shared_memory", |owner| {
        Some(owner.pages.shared_memory)
    });
    columns.owner_int("pages_file", |owner| Some(owner.pages.file));
    columns.owner_int("pages_swapped", |owner| Some(owner.pages.swapped));
    columns.owner_int("pages_ksm", |owner| Some(owner.pages.ksm));
    columns.owner_int("pages_huge", |owner| Some(owner.pages.huge));
    columns.owner_int("pages_locked", |owner| Some(owner.pages.locked));
    columns.owner_int("pages_skipped", |owner| Some(owner.pages.skipped));
    for (at, name) in ["idle_1m", "idle_10m", "idle_1h"].into_iter().enumerate() {
        columns.owner_int(name, move |owner| owner.idle.map(|idle| idle[at]));
    }
    columns.add("theta", |row| match row {
        Row::Owner(owner) => Cell::Int(Some(owner.sketch.theta)),
        _ => Cell::Int(None),
    });
    for (at, (codec, _)) in CODECS.iter().enumerate() {
        columns.estimate(&format!("pool_{codec}"), move |owner| owner.pool[at]);
        columns.estimate(&format!("melded_{codec}"), move |owner| owner.melded[at]);
    }
}

fn content(columns: &mut Columns<'_>, page_size: u64) {
    columns.add("hash_high", |row| match row {
        Row::Content(_, content) => Cell::Int(Some(content.hash.high)),
        _ => Cell::Int(None),
    });
    columns.add("hash_low", |row| match row {
        Row::Content(_, content) => Cell::Int(Some(content.hash.low)),
        _ => Cell::Int(None),
    });
    columns.add("count", |row| match row {
        Row::Content(_, content) => Cell::Int(count(content.count)),
        Row::Size(_, sums) => Cell::Int(count(sums.contents)),
        _ => Cell::Int(None),
    });
    columns.add("object_class", move |row| match row {
        Row::Content(_, row) => Cell::Small(Some(class(&row.content, page_size) as i32)),
        Row::Size(class, _) => Cell::Small(Some(*class as i32)),
        _ => Cell::Small(None),
    });
    for (at, (codec, _)) in CODECS.iter().enumerate() {
        columns.size(&format!("bytes_{codec}"), move |sums| sums.bytes[at]);
        columns.size(&format!("squares_{codec}"), move |sums| sums.squares[at]);
    }
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
    let columns = columns(survey);
    let message = message(&columns);
    let schema = Arc::new(parse_message_type(&message)?);
    let mut writer = SerializedFileWriter::new(Vec::new(), schema, Arc::new(properties()))?;

    let head = std::iter::once(Row::Machine { rows });
    let labels = survey.labels.iter().map(Row::Label);
    let owners = survey.owners.iter().map(Row::Owner);
    let sizes = sizes
        .into_iter()
        .map(|(class, sums)| Row::Size(class, sums));
    let head: Vec<Row<'_>> = head.chain(labels).chain(owners).chain(sizes).collect();
    write_group(writer.next_row_group()?, &columns, &head)?;
    for some in contents.chunks(GROUP_ROWS) {
        let rows: Vec<_> = some
            .iter()
            .map(|(owner, row)| Row::Content(owner, row))
            .collect();
        write_group(writer.next_row_group()?, &columns, &rows)?;
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

fn message(columns: &[Column<'_>]) -> String {
    let row = Row::Machine { rows: 0 };
    let field = |(at, column): (usize, &Column<'_>)| {
        let repetition = if at < REQUIRED {
            "REQUIRED"
        } else {
            "OPTIONAL"
        };
        format!(
            "{repetition} {};",
            (column.get)(&row).physical(&column.name)
        )
    };
    let fields: Vec<String> = columns.iter().enumerate().map(field).collect();
    format!("message survey {{ {} }}", fields.join(" "))
}

/// Values of one column, with one level a row: 1 where there is a value.
struct Values<T> {
    values: Vec<T>,
    levels: Vec<i16>,
}

fn gather<'a, T>(
    column: &Column<'a>,
    rows: &[Row<'a>],
    value: impl Fn(Cell<'a>) -> Option<T>,
) -> Values<T> {
    let mut found = Values {
        values: Vec::new(),
        levels: Vec::with_capacity(rows.len()),
    };
    for row in rows {
        let value = value((column.get)(row));
        found.levels.push(i16::from(value.is_some()));
        found.values.extend(value);
    }
    found
}

fn write_group<'a>(
    mut group: SerializedRowGroupWriter<'_, Vec<u8>>,
    columns: &[Column<'a>],
    rows: &[Row<'a>],
) -> Result<(), Error> {
    for (at, column) in columns.iter().enumerate() {
        let mut writer = group.next_column()?.ok_or_else(|| missing(&column.name))?;
        let is_required = at < REQUIRED;
        macro_rules! put {
            ($kind:ty, $value:expr) => {{
                let found = gather(column, rows, $value);
                put::<$kind>(&mut writer, &found, is_required)?
            }};
        }
        match rows.first().map(|row| (column.get)(row)) {
            None => {}
            Some(Cell::Text(_)) => put!(ByteArrayType, |cell| match cell {
                Cell::Text(text) => text.map(|text| ByteArray::from(text.as_ref())),
                _ => None,
            }),
            Some(Cell::Int(_) | Cell::Time(_)) => put!(Int64Type, |cell| match cell {
                Cell::Int(value) => value,
                Cell::Time(value) => Some(value),
                _ => None,
            }),
            Some(Cell::Small(_)) => put!(Int32Type, |cell| match cell {
                Cell::Small(value) => value,
                _ => None,
            }),
            Some(Cell::Real(_)) => put!(DoubleType, |cell| match cell {
                Cell::Real(value) => value.filter(|value| value.is_finite()),
                _ => None,
            }),
            Some(Cell::Flag(_)) => put!(BoolType, |cell| match cell {
                Cell::Flag(value) => value,
                _ => None,
            }),
        }
        writer.close()?;
    }
    group.close()?;
    Ok(())
}

fn missing(name: &str) -> ParquetError {
    ParquetError::General(format!("there is no column {name}"))
}

fn put<T: DataType>(
    writer: &mut parquet::file::writer::SerializedColumnWriter<'_>,
    found: &Values<T::T>,
    is_required: bool,
) -> Result<(), ParquetError> {
    let levels = (!is_required).then_some(&found.levels[..]);
    let written = writer
        .typed::<T>()
        .write_batch(&found.values, levels, None)?;
    debug_assert_eq!(written, found.values.len());
    Ok(())
}
