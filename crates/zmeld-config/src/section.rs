//! How a table of the configuration is described: once, by [`section!`], a row a key.
//!
//! ```text
//! /// How often it looks.
//! interval: Span = Span::seconds(60), OPTION(...), OPTION(...);
//! ```
//!
//! From its rows come the struct, its `Default` (a type's own where a row gives none), the
//! rows of [`KEYS`](super::keys::KEYS), and how the table is read and written. The options
//! are those methods of [`Row`] that return one. How a type is read and written is told by
//! its [`Value`]; what is several keys at once, as a tier's place, is a [`Setting`] of its
//! own.

use super::keys::Section;
use super::read::{OpenTable, Reader};
use super::value::{Limits, Value};

type Parse<T> = fn(&str) -> Result<T, String>;

/// Facts about a key, whatever its value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct KeyInfo {
    pub section: Section,
    pub name: &'static str,
    /// Its default, in words.
    pub without: &'static str,
    pub is_always_written: bool,
    kernel: Option<(&'static str, &'static str)>,
}

/// A key that stands in a section, for a value of that type.
pub(super) struct Row<T> {
    pub key: KeyInfo,
    limits: Limits,
    needed: Option<&'static str>,
    parse: Option<Parse<T>>,
}

impl<T> Row<T> {
    pub const fn new(section: Section, name: &'static str) -> Self {
        let key = KeyInfo {
            section,
            name,
            without: "",
            is_always_written: false,
            kernel: None,
        };
        Row {
            key,
            limits: (0, i64::MAX),
            needed: None,
            parse: None,
        }
    }

    /// It stands in another section than the rows beside it.
    pub const fn of(mut self, section: Section) -> Self {
        self.key.section = section;
        self
    }

    /// The lowest and the highest number.
    pub const fn range(self, lowest: i64, highest: i64) -> Self {
        let limits = (lowest, highest);
        Row { limits, ..self }
    }

    /// Sets the documented default, in words.
    pub const fn without(mut self, without: &'static str) -> Self {
        self.key.without = without;
        self
    }

    /// It has to be given, as in this example.
    pub const fn needed(mut self, example: &'static str) -> Self {
        self.needed = Some(example);
        self.without("has to be given")
    }

    /// A text that is understood by `parse`.
    pub const fn by(mut self, parse: Parse<T>) -> Self {
        self.parse = Some(parse);
        self
    }

    /// It is written where it is its default, too.
    pub const fn always(mut self) -> Self {
        self.key.is_always_written = true;
        self
    }

    /// The kernel's name for it, and what it is for.
    pub const fn kernel(mut self, name: &'static str, purpose: &'static str) -> Self {
        self.key.kernel = Some((name, purpose));
        self
    }
}

impl<T: Setting> Row<T> {
    pub fn lines(&self, value: &T) -> Vec<KeyValue> {
        value.lines(self)
    }

    /// Takes what the table says, where it says something.
    pub fn take(&self, reader: &mut Reader, open: &OpenTable<'_>, value: &mut T) {
        if let Some(said) = T::read(self, reader, open) {
            *value = said;
        }
    }
}

/// Value of one or more keys of a table.
pub(super) trait Setting: Sized {
    /// The table's value; none where it says nothing, or something wrong.
    fn read(row: &Row<Self>, reader: &mut Reader, open: &OpenTable<'_>) -> Option<Self>;

    /// Its keys with their values.
    fn lines(&self, row: &Row<Self>) -> Vec<KeyValue>;
}

impl<T: Value> Setting for T {
    fn read(row: &Row<T>, reader: &mut Reader, open: &OpenTable<'_>) -> Option<T> {
        let Some(node) = open.node(row.key.name) else {
            if let Some(example) = row.needed {
                let what = format!("has no {}; write {example}", row.key.name);
                reader.wrong(&open.place, &open.path, what);
            }
            return None;
        };
        let key = open.key(row.key.name);
        match row.parse {
            Some(parse) => reader.text(node, &key, parse),
            None => T::read(reader, node, &key, row.limits),
        }
    }

    fn lines(&self, row: &Row<T>) -> Vec<KeyValue> {
        vec![KeyValue {
            key: row.key,
            written: self.written(),
            is_default: false,
            told: self.told(),
        }]
    }
}

/// A key with its value.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct KeyValue {
    pub key: KeyInfo,
    pub written: WrittenValue,
    /// Whether the value is the default.
    pub is_default: bool,
    /// The kernel's value of it.
    told: Option<String>,
}

/// A value as a file has it.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum WrittenValue {
    Nothing,
    Value(toml::Value),
    Table(Vec<KeyValue>),
}

/// Type described by rows.
pub(super) trait Keys: Default {
    /// Section of its keys.
    const SECTION: Section;

    /// Its keys with their values, of which none is known to be its default.
    fn rows(&self) -> Vec<KeyValue>;

    /// Takes what a table says.
    fn take(&mut self, reader: &mut Reader, open: &OpenTable<'_>);

    /// Its keys with their values.
    fn lines(&self) -> Vec<KeyValue> {
        let standard = Self::default().rows();
        let mut lines = self.rows();
        for line in &mut lines {
            line.is_default = standard.contains(line);
        }
        lines
    }
}

/// A type described by rows, in a table under a key of its own. A rule of `zmeld watch` is one that
/// a drop-in can switch off.
pub(super) trait Table: Keys {}

/// A value that the kernel takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelValue {
    /// The kernel's name for it.
    pub name: &'static str,
    /// Its value.
    pub value: String,
    /// Its purpose.
    pub purpose: &'static str,
}

/// Given values that the kernel takes, in the order of the rows.
pub(super) fn kernel_values(keys: &impl Keys) -> Vec<KernelValue> {
    let given = keys.rows().into_iter().filter_map(|line| {
        let (name, purpose) = line.key.kernel?;
        let value = line.told?;
        Some(KernelValue {
            name,
            value,
            purpose,
        })
    });
    given.collect()
}

/// A struct whose fields are keys.
macro_rules! section {
    (
        $(#[$meta:meta])*
        $vis:vis struct $type:ident in $section:ident {$(
            $(#[$doc:meta])*
            $field:ident: $of:ty $(= $default:expr)? $(, $option:ident($($argument:expr),*))*;
        )*}
    ) => {
        #[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
        $(#[$meta])*
        $vis struct $type {
            $($(#[$doc])* pub $field: $of,)*
        }

        impl Default for $type {
            fn default() -> Self {
                $type { $($field: $crate::section::section!(@default $($default)?),)* }
            }
        }

        $crate::section::keys_of! { $type in $section { $($field $(, $option($($argument),*))*;)* } }
    };
    (@default $default:expr) => { $default };
    (@default) => { Default::default() };
}

/// The keys of a struct that is described elsewhere.
macro_rules! keys_of {
    ($type:ident in $section:ident {$(
        $field:ident $(, $option:ident($($argument:expr),*))*;
    )*}) => {
        impl $crate::section::Keys for $type {
            const SECTION: $crate::keys::Section = $crate::keys::Section::$section;

            fn rows(&self) -> Vec<$crate::section::KeyValue> {
                let mut lines = Vec::new();
                $(lines.extend(
                    $crate::section::Row::new($crate::keys::Section::$section, stringify!($field))
                        $(.$option($($argument),*))*
                        .lines(&self.$field)
                );)*
                lines
            }

            fn take(
                &mut self,
                reader: &mut $crate::read::Reader,
                open: &$crate::read::OpenTable<'_>,
            ) {
                $(
                    $crate::section::Row::new($crate::keys::Section::$section, stringify!($field))
                        $(.$option($($argument),*))*
                        .take(reader, open, &mut self.$field);
                )*
            }
        }
    };
}

pub(super) use {keys_of, section};
