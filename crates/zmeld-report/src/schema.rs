//! Versioned JSON: every result says which schema it follows, and a reader refuses what it does not know.
//!
//! Keys come out in the order in which the fields are declared, so that the same result is the same text. Bodies
//! should hold `Vec` and `BTreeMap`, not `HashMap`. Numbers that are not finite become `null`.

use std::borrow::Cow;
use std::ops::RangeInclusive;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use zmeld_linux::text;

/// A result with its schema and the program's version in front.
///
/// ```
/// use serde::Serialize;
/// use zmeld_report::schema::Envelope;
///
/// #[derive(Serialize)]
/// struct Scan { page_size: u64, ratio: f64 }
///
/// let envelope = Envelope::new("zmeld.scan", 1, "0.1.0", Scan { page_size: 4096, ratio: f64::NAN });
/// assert!(envelope.to_text().ends_with("\"page_size\": 4096,\n  \"ratio\": null\n}\n"));
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Envelope<T> {
    /// Name and major version, `zmeld.scan/1`.
    pub schema: String,
    /// The version of the program that wrote it.
    pub zmeld_version: String,
    /// The result itself; its fields stand beside these.
    #[serde(flatten)]
    pub body: T,
}

/// Why a text is not the result that was asked for.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SchemaError {
    /// Not JSON, or a field is missing or of another type.
    #[error("not a {schema} result: {source}")]
    Json {
        schema: String,
        source: serde_json::Error,
    },
    /// JSON of another kind, or of a version that this program does not read.
    #[error("schema is \"{found}\"; this version reads \"{wanted}\"")]
    Other { found: String, wanted: String },
}

#[derive(Deserialize)]
struct SchemaOnly {
    schema: String,
}

impl<T> Envelope<T> {
    /// Puts a body in its envelope. The version changes when a field changes its meaning or goes away.
    pub fn new(name: &str, version: u32, zmeld_version: &str, body: T) -> Self {
        Envelope {
            schema: format!("{name}/{version}"),
            zmeld_version: zmeld_version.into(),
            body,
        }
    }
}

impl<T: Serialize> Envelope<T> {
    /// The JSON with indentation and a line feed at the end.
    ///
    /// # Panics
    /// If the body is one that JSON cannot hold (a map whose keys are not text).
    pub fn to_text(&self) -> String {
        let text = serde_json::to_string_pretty(self).expect("the body is JSON");
        inert(&text).into_owned() + "\n"
    }
}

/// The same JSON with every character that acts on a terminal escaped. JSON escapes those below the blank by itself;
/// the others stand in texts only, where `\u` says the same.
fn inert(json: &str) -> Cow<'_, str> {
    let acts = |c: char| c != '\n' && text::acts(c);
    if !json.contains(acts) {
        return Cow::Borrowed(json);
    }
    let mut escaped = String::with_capacity(json.len() + 16);
    for c in json.chars() {
        if acts(c) {
            for unit in c.encode_utf16(&mut [0; 2]) {
                escaped.push_str(&format!("\\u{unit:04x}"));
            }
        } else {
            escaped.push(c);
        }
    }
    Cow::Owned(escaped)
}

impl<T: DeserializeOwned> Envelope<T> {
    /// Reads a result of this name and of one of these versions.
    ///
    /// # Errors
    /// [`SchemaError`], which tells a wrong kind of file from a damaged one.
    pub fn read(text: &str, name: &str, mut of: RangeInclusive<u32>) -> Result<Self, SchemaError> {
        let wanted = format!("{name}/{}", of.end());
        let json = |source| SchemaError::Json {
            schema: wanted.clone(),
            source,
        };
        let SchemaOnly { schema: found } = serde_json::from_str(text).map_err(json)?;
        if !of.any(|version| found == format!("{name}/{version}")) {
            return Err(SchemaError::Other { found, wanted });
        }
        serde_json::from_str(text).map_err(json)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct SampleBody {
        zeta: u64,
        alpha: f64,
        list: Vec<f64>,
    }

    fn envelope(alpha: f64) -> Envelope<SampleBody> {
        Envelope::new(
            "zmeld.scan",
            1,
            "0.1.0",
            SampleBody {
                zeta: u64::MAX,
                alpha,
                list: vec![1.5],
            },
        )
    }

    #[test]
    fn json_on_a_terminal_steers_nothing_and_says_the_same() {
        let name = "a\u{1b}[31m\u{9b}2J\u{7f}\u{202e}\u{e0041}é";
        let envelope = Envelope::new(
            "zmeld.test",
            1,
            "0",
            std::collections::BTreeMap::from([("name", name)]),
        );
        let json = envelope.to_text();
        assert!(
            !json.chars().any(|c| c != '\n' && text::acts(c)),
            "{json:?}"
        );
        let back: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(back["name"], name);
    }

    #[test]
    fn keys_keep_their_order() {
        let expected = "{\n  \"schema\": \"zmeld.scan/1\",\n  \"zmeld_version\": \"0.1.0\",\n  \
                        \"zeta\": 18446744073709551615,\n  \"alpha\": 0.5,\n  \"list\": [\n    1.5\n  ]\n}\n";
        assert_eq!(envelope(0.5).to_text(), expected);
    }

    #[test]
    fn what_is_not_finite_is_null() {
        for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            let text = envelope(value).to_text();
            assert!(text.contains("\"alpha\": null"), "{text}");
        }
    }

    #[test]
    fn reading_checks_the_schema_first() {
        let text = envelope(0.5).to_text();
        assert_eq!(
            Envelope::<SampleBody>::read(&text, "zmeld.scan", 1..=2).unwrap(),
            envelope(0.5)
        );
        let error = Envelope::<SampleBody>::read(&text, "zmeld.scan", 2..=3).unwrap_err();
        assert_eq!(
            error.to_string(),
            "schema is \"zmeld.scan/1\"; this version reads \"zmeld.scan/3\""
        );
        let error = Envelope::<SampleBody>::read("{", "zmeld.scan", 1..=1).unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("not a zmeld.scan/1 result: EOF"),
            "{error}"
        );
    }
}
