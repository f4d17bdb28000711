//! Choices that have a name in the configuration.

/// A choice among few, each with its name.
pub trait Named: Copy + PartialEq + 'static {
    /// All of them.
    const ALL: &'static [(&'static str, Self)];

    /// The one with that name, or what there is.
    fn named(text: &str) -> Result<Self, String> {
        let found = Self::ALL.iter().find(|(name, _)| *name == text);
        found.map(|(_, value)| *value).ok_or_else(|| {
            let names: Vec<_> = Self::ALL.iter().map(|(name, _)| *name).collect();
            format!(
                "{text:?} is none of its values; {}",
                super::choices(text, &names)
            )
        })
    }

    /// How the file has it.
    fn name(self) -> &'static str {
        let found = Self::ALL.iter().find(|(_, value)| *value == self);
        found.map_or("", |(name, _)| name)
    }
}

/// An enum whose variants have names, in files and in JSON alike.
macro_rules! named {
    ($(
        $(#[$meta:meta])*
        $vis:vis enum $type:ident {
            $($(#[$doc:meta])* $variant:ident = $name:literal,)*
        }
    )*) => {$(
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
        $vis enum $type {
            $($(#[$doc])* #[serde(rename = $name)] $variant,)*
        }

        impl $crate::Named for $type {
            const ALL: &'static [(&'static str, Self)] = &[$(($name, $type::$variant),)*];
        }

        impl $crate::value::Value for $type {
            fn read(
                reader: &mut $crate::read::Reader,
                node: &$crate::tree::Node,
                key: &str,
                _: $crate::value::Limits,
            ) -> Option<Self> {
                reader.text(node, key, <Self as $crate::Named>::named)
            }

            fn written(&self) -> $crate::section::WrittenValue {
                $crate::value::text($crate::Named::name(*self))
            }
        }
    )*};
}

pub(super) use named;
