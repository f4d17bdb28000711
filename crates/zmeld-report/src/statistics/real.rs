//! Real numbers in JSON, which has no infinities: a run that never ended takes
//! infinitely long, and a file has to say so and be read again.

use serde::{Deserialize, Deserializer, Serializer};

/// How such a number is described in a JSON Schema.
pub struct Real;

impl schemars::JsonSchema for Real {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Real".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "description": "A number; \"inf\" and \"-inf\" are infinite.",
            "type": ["number", "string", "null"],
        })
    }
}

/// Finite numbers as they are, infinite ones as `"inf"` and `"-inf"`, NaN as null.
pub fn serialize<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    if value.is_finite() {
        serializer.serialize_f64(*value)
    } else if value.is_nan() {
        serializer.serialize_none()
    } else {
        serializer.serialize_str(if *value > 0.0 { "inf" } else { "-inf" })
    }
}

/// The counterpart of [`serialize`].
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Real {
        Finite(f64),
        Infinite(Infinite),
        Missing(()),
    }
    #[derive(Deserialize)]
    enum Infinite {
        #[serde(rename = "inf")]
        Above,
        #[serde(rename = "-inf")]
        Below,
    }
    Ok(match Real::deserialize(deserializer)? {
        Real::Finite(value) => value,
        Real::Infinite(Infinite::Above) => f64::INFINITY,
        Real::Infinite(Infinite::Below) => f64::NEG_INFINITY,
        Real::Missing(()) => f64::NAN,
    })
}
