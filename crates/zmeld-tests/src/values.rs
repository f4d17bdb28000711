//! Results held against what they were: each value of one on a line of its own.

use rustix::param::page_size;
use serde_json::Value;

use crate::shown::shown;

/// Holds a text against the file of that name here. With ZMELD_SHOW=1 it is written.
pub fn show(name: &str, told: &str) {
    // Figures of pages depend on their size.
    if page_size() == 4096 {
        shown(&format!("shown/{name}"), told);
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

/// Values behind their places.
pub type Values = Vec<(String, String)>;

/// A line for each value.
pub fn lines(values: &Values) -> String {
    let line = |(place, value): &(String, String)| format!("{place} = {value}\n");
    values.iter().map(line).collect()
}

/// Values of JSON; of the items of a list, what differs from the item before.
pub fn values(value: &Value) -> Values {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            let below = fields.iter().map(|(name, field)| at(name, values(field)));
            below.flatten().collect()
        }
        Value::Array(items) if items.iter().any(|it| it.is_object()) => {
            let (mut all, mut before) = (Values::new(), Values::new());
            for (number, item) in items.iter().enumerate() {
                let now = values(item);
                all.extend(at(&format!("[{number}]"), changed(&before, &now)));
                before = now;
            }
            all
        }
        // Sums of fractions are added in any order.
        Value::Number(number) if number.is_f64() => {
            vec![(String::new(), format!("{:.6}", number.as_f64().unwrap()))]
        }
        _ => vec![(String::new(), masked(&value.to_string()))],
    }
}

/// What differs from the values before. Without any difference there is one line, too.
pub fn changed(before: &Values, now: &Values) -> Values {
    let is_new = |value: &&(String, String)| !before.contains(value);
    let mut all: Values = now.iter().filter(is_new).cloned().collect();
    let is_gone = |place: &&String| !now.iter().any(|(other, _)| other == *place);
    let gone = before.iter().map(|(place, _)| place).filter(is_gone);
    all.extend(gone.map(|place| (place.clone(), "not there".to_owned())));
    if all.is_empty() {
        all.push((String::new(), "the same".to_owned()));
    }
    all
}

/// The same values, further below.
fn at(above: &str, values: Values) -> Values {
    let below = |(place, value): (String, String)| match place.is_empty() || place.starts_with('[')
    {
        true => (format!("{above}{place}"), value),
        false => (format!("{above}.{place}"), value),
    };
    values.into_iter().map(below).collect()
}
