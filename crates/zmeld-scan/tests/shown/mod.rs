//! Results held against what they were: each value of one on a line of its own.

#![allow(dead_code)] // Each test uses its part.

use std::fmt::Write;

use serde_json::Value;
use zmeld_store::page_size;

#[path = "../../../zmeld-swap/tests/script/mod.rs"]
mod script;

/// Holds a text against the file of that name here. With ZMELD_SHOW=1 it is written.
pub fn show(name: &str, told: &str) {
    // Figures of pages depend on their size.
    if page_size() == 4096 {
        script::shown(&format!("shown/{name}"), told);
    }
}

/// Shares of a core depend on the speed of codecs: they are told as N.
pub fn masked(text: &str) -> String {
    let mut parts: Vec<&str> = text.split(" % of a core").collect();
    let last = parts.pop().unwrap_or_default();
    let part = |it: &str| {
        let before = it.trim_end_matches(|c: char| c.is_ascii_digit());
        format!("{before}N % of a core")
    };
    parts.into_iter().map(part).collect::<String>() + last
}

/// Each value behind its place.
pub fn values(value: &Value) -> String {
    let mut told = String::new();
    add(value, "", &mut told);
    told
}

fn add(value: &Value, at: &str, told: &mut String) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            for (name, it) in fields {
                let below = [at, name].join(".");
                add(it, below.trim_start_matches('.'), told);
            }
        }
        Value::Array(items) if items.iter().any(|it| it.is_object()) => {
            for (number, it) in items.iter().enumerate() {
                add(it, &format!("{at}[{number}]"), told);
            }
        }
        // Sums of fractions are added in any order.
        Value::Number(number) if number.is_f64() => {
            writeln!(told, "{at} = {:.6}", number.as_f64().unwrap()).unwrap();
        }
        _ => writeln!(told, "{at} = {}", masked(&value.to_string())).unwrap(),
    }
}
