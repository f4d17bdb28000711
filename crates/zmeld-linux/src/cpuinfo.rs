//! `/proc/cpuinfo`.

/// Model name of the first processor; not every architecture has one.
pub fn model_name(text: &str) -> Option<&str> {
    let rest = text
        .lines()
        .find_map(|line| line.strip_prefix("model name"))?;
    Some(rest.split_once(':')?.1.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_name_counts() {
        let text = "processor\t: 0\nmodel name\t: A 1\nprocessor\t: 1\nmodel name\t: B\n";
        assert_eq!(model_name(text), Some("A 1"));
        assert_eq!(model_name("processor : 0\n"), None);
    }
}
