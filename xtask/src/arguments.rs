//! Arguments of a task, read one after the other.

use std::fmt::Display;
use std::slice::Iter;
use std::str::FromStr;

use anyhow::{Context, Result};

/// Arguments that are still to be read.
pub struct Arguments<'a> {
    rest: Iter<'a, String>,
    /// The one that was read last.
    last: &'a str,
}

impl<'a> Arguments<'a> {
    /// All of them.
    pub fn new(arguments: &'a [String]) -> Arguments<'a> {
        Arguments {
            rest: arguments.iter(),
            last: "",
        }
    }

    /// The value of the option that was read last.
    pub fn value(&mut self) -> Result<&'a str> {
        let value = self.rest.next();
        value
            .map(String::as_str)
            .with_context(|| format!("{} takes a value", self.last))
    }

    /// The same as a number, where that is one.
    pub fn number<T: FromStr>(&mut self) -> Result<T>
    where
        T::Err: Display,
    {
        let value = self.value()?;
        let number = value.parse().ok();
        number.with_context(|| format!("{} {value}: not a number", self.last))
    }
}

impl<'a> Iterator for Arguments<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        self.last = self.rest.next()?;
        Some(self.last)
    }
}

/// A line as a shell would part it, for tests.
#[cfg(test)]
pub fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}
