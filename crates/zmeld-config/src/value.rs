//! How the values of keys are read and written, by their type.

use std::fmt::Display;
use std::path::PathBuf;
use std::str::FromStr;

use toml::Value as Toml;

use super::read::{OpenTable, Reader};
use super::section::{Keys, Table, WrittenValue};
use super::tree::{self, Node};
use super::*;

/// The lowest and the highest of numbers.
pub(super) type Limits = (i64, i64);

/// Value of one key.
pub(super) trait Value: Sized {
    /// The value there; none, and a problem, where it is wrong.
    fn read(reader: &mut Reader, node: &Node, key: &str, limits: Limits) -> Option<Self>;

    /// Its written form.
    fn written(&self) -> WrittenValue;

    /// The text for the kernel.
    fn told(&self) -> Option<String> {
        match self.written() {
            WrittenValue::Value(Toml::String(text)) => Some(text),
            WrittenValue::Value(Toml::Boolean(value)) => {
                Some(if value { "Y" } else { "N" }.to_owned())
            }
            WrittenValue::Value(value) => Some(value.to_string()),
            WrittenValue::Nothing | WrittenValue::Table(_) => None,
        }
    }
}

impl<T: Value> Value for Option<T> {
    fn read(reader: &mut Reader, node: &Node, key: &str, limits: Limits) -> Option<Self> {
        T::read(reader, node, key, limits).map(Some)
    }

    fn written(&self) -> WrittenValue {
        self.as_ref().map_or(WrittenValue::Nothing, T::written)
    }

    fn told(&self) -> Option<String> {
        self.as_ref()?.told()
    }
}

impl<T: Table> Value for T {
    /// A rule that is switched off is checked all the same.
    fn read(reader: &mut Reader, node: &Node, key: &str, _: Limits) -> Option<Self> {
        let open = OpenTable::value(reader, node, key, &[T::SECTION])?;
        let mut table = T::default();
        table.take(reader, &open);
        open.is_enabled(reader).then_some(table)
    }

    fn written(&self) -> WrittenValue {
        WrittenValue::Table(Keys::lines(self))
    }
}

macro_rules! numbers {
    ($($type:ty),*) => {$(
        impl Value for $type {
            fn read(reader: &mut Reader, node: &Node, key: &str, limits: Limits) -> Option<Self> {
                let number = reader.number(node, key, limits)?;
                <$type>::try_from(number).ok()
            }

            fn written(&self) -> WrittenValue {
                let number = i128::from(*self).min(i64::MAX.into());
                WrittenValue::Value(Toml::Integer(number as i64))
            }
        }
    )*};
}

numbers!(u8, u16, u32, u64, i16);

pub(super) fn text(value: impl Display) -> WrittenValue {
    WrittenValue::Value(Toml::String(value.to_string()))
}

/// A whole number needs no quotes: `size = 4294967296` is a size in bytes. Any other value that is
/// no text is refused in the words of the type, which show what one looks like.
fn parsed<T: FromStr<Err = String>>(reader: &mut Reader, node: &Node, key: &str) -> Option<T> {
    let written = match &node.value {
        tree::Value::Integer(number) => number.to_string(),
        tree::Value::Boolean(value) => value.to_string(),
        tree::Value::Other("number", number) => number.clone(),
        tree::Value::Other(..) => node.value.is(),
        _ => return reader.text(node, key, str::parse),
    };
    let parsed = written.parse();
    parsed
        .map_err(|why| reader.wrong(&node.place, key, why))
        .ok()
}

/// Types, and how they are read and written.
macro_rules! values {
    ($($type:ty: $read:expr, $written:expr;)*) => {$(
        impl Value for $type {
            fn read(reader: &mut Reader, node: &Node, key: &str, _: Limits) -> Option<Self> {
                $read(reader, node, key)
            }

            fn written(&self) -> WrittenValue {
                $written(self)
            }
        }
    )*};
}

values! {
    bool: boolean, |value: &bool| WrittenValue::Value(Toml::Boolean(*value));
    Size: parsed, text;
    Span: parsed, text;
    Location: parsed, text;
    Codec: parsed, text;
    Percent: share, text;
    PathBuf: absolute, |path: &PathBuf| text(path.display());
    String: words, text;
    Vec<GroupPattern>: texts, list;
    Vec<FindingId>: texts, list;
    Vec<String>: |reader: &mut Reader, node, key: &str| reader.list(node, key, words), list;
    Vec<Codec>: codecs, |codecs: &Vec<Codec>| match codecs.as_slice() {
        [] => WrittenValue::Nothing,
        [codec] => text(codec),
        codecs => list(codecs),
    };
    Vec<Recompression>: recompressions, recompressed;
}

fn boolean(reader: &mut Reader, node: &Node, key: &str) -> Option<bool> {
    if let tree::Value::Boolean(value) = node.value {
        return Some(value);
    }
    reader.mistyped(node, key, "write true or false, without quotes");
    None
}

/// A share of something, of at most all of it.
fn share(reader: &mut Reader, node: &Node, key: &str) -> Option<Percent> {
    reader.text(node, key, |text| match text.parse()? {
        share if share > Percent::whole(100) => {
            Err(format!("{text:?} is more than all of it; write 0% to 100%"))
        }
        share => Ok(share),
    })
}

fn absolute(reader: &mut Reader, node: &Node, key: &str) -> Option<PathBuf> {
    reader.text(node, key, |text| {
        if text.starts_with('/') && !text.contains(|c: char| c.is_control()) {
            Ok(PathBuf::from(text))
        } else {
            Err(format!("{text:?} is no absolute path; start it with /"))
        }
    })
}

fn words(reader: &mut Reader, node: &Node, key: &str) -> Option<String> {
    reader.text(node, key, |text| Ok(text.to_owned()))
}

fn texts<T: FromStr<Err = String>>(reader: &mut Reader, node: &Node, key: &str) -> Option<Vec<T>> {
    reader.list(node, key, |reader, node, key| {
        reader.text(node, key, str::parse)
    })
}

fn list<T: Display>(values: &(impl AsRef<[T]> + ?Sized)) -> WrittenValue {
    let texts = values.as_ref().iter().map(|value| value.to_string().into());
    WrittenValue::Value(Toml::Array(texts.collect()))
}

fn codecs(reader: &mut Reader, node: &Node, key: &str) -> Option<Vec<Codec>> {
    match node.value {
        tree::Value::Array(_) => texts(reader, node, key),
        _ => parsed(reader, node, key).map(|codec| vec![codec]),
    }
}

/// Each is a codec, whose priority is its turn, or a table with both.
fn recompressions(reader: &mut Reader, node: &Node, key: &str) -> Option<Vec<Recompression>> {
    let mut turn = 0;
    let mut list = reader.list(node, key, |reader, node, key| {
        turn += 1;
        let mut item = Recompression {
            priority: turn,
            ..Recompression::default()
        };
        match node.value {
            tree::Value::Table(_) => {
                let open = OpenTable::value(reader, node, key, &[Recompression::SECTION])?;
                item.take(reader, &open);
            }
            _ => item.codec = reader.text(node, key, str::parse)?,
        }
        Some(item)
    })?;
    list.sort_by_key(|item| item.priority);
    Some(list)
}

/// Priorities that follow from the order are left out.
fn recompressed(items: &[Recompression]) -> WrittenValue {
    if items
        .iter()
        .zip(1..)
        .all(|(item, turn)| item.priority == turn)
    {
        let codecs: Vec<_> = items.iter().map(|item| &item.codec).collect();
        return list(&codecs);
    }
    let tables = items.iter().map(|item| {
        let table = item
            .rows()
            .into_iter()
            .filter_map(|line| match line.written {
                WrittenValue::Value(value) => Some((line.key.name.to_owned(), value)),
                WrittenValue::Nothing | WrittenValue::Table(_) => None,
            });
        Toml::Table(table.collect())
    });
    WrittenValue::Value(Toml::Array(tables.collect()))
}

impl Value for Bytes {
    fn read(reader: &mut Reader, node: &Node, key: &str, _: Limits) -> Option<Self> {
        parsed(reader, node, key)
    }

    fn written(&self) -> WrittenValue {
        text(self)
    }

    /// In KiB, as `min_free_kbytes` is.
    fn told(&self) -> Option<String> {
        Some((self.0 / 1024).to_string())
    }
}

impl Value for Swappiness {
    fn read(reader: &mut Reader, node: &Node, key: &str, _: Limits) -> Option<Self> {
        let tree::Value::String(_) = node.value else {
            return u8::read(reader, node, key, (0, 200)).map(Swappiness::Value);
        };
        reader.text(node, key, |text| match text {
            "auto" => Ok(Swappiness::Auto),
            _ => Err(format!(
                "{text:?} is no value; write \"auto\", or 0 to 200 without quotes"
            )),
        })
    }

    fn written(&self) -> WrittenValue {
        match self {
            Swappiness::Auto => text("auto"),
            Swappiness::Value(value) => value.written(),
        }
    }

    /// One that is to be measured is not known yet.
    fn told(&self) -> Option<String> {
        match self {
            Swappiness::Auto => None,
            Swappiness::Value(value) => value.told(),
        }
    }
}
