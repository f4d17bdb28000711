//! The URL of an object store: a bucket and a prefix, and no secret.

use std::fmt;

/// A text that names no object store.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("\"{text}\": {problem}")]
pub struct BadStoreUrl {
    /// What may be shown of it: no secret.
    pub text: String,
    /// What is wrong with it, and what to write.
    pub problem: &'static str,
}

/// Who speaks what with an object store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    /// Amazon's S3, and the many that speak like it.
    S3,
    /// Google Cloud Storage.
    Gs,
    /// Azure Blob Storage.
    Az,
}

impl Scheme {
    const ALL: [(&'static str, Scheme); 3] =
        [("s3", Scheme::S3), ("gs", Scheme::Gs), ("az", Scheme::Az)];

    fn name(self) -> &'static str {
        let named = Scheme::ALL.iter().find(|(_, scheme)| *scheme == self);
        named.expect("all are named").0
    }
}

/// A bucket or container, and what all names in it begin with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreUrl {
    /// Who is spoken to.
    pub scheme: Scheme,
    /// The bucket; Azure calls it a container.
    pub bucket: String,
    /// Names begin with this, without slashes around it; it may be empty.
    pub prefix: String,
}

impl StoreUrl {
    /// The store that a URL names.
    ///
    /// # Errors
    /// When it names none. What may be a secret is not repeated.
    pub fn parse(text: &str) -> Result<StoreUrl, BadStoreUrl> {
        let (scheme, rest) = text.split_once("://").unwrap_or(("", text));
        let bad = |problem| BadStoreUrl {
            // Of what follows, an ordinary mistake is a secret.
            text: format!("{scheme}://..."),
            problem,
        };
        let known = Scheme::ALL.iter().find(|(name, _)| *name == scheme);
        let Some(&(_, known)) = known else {
            return Err(bad("name a folder, s3://, gs:// or az://"));
        };
        if rest.contains(['@', '?', '#']) {
            return Err(bad(
                "credentials and options are no part of it: they stand in the environment \
                 (docs/survey.md)",
            ));
        }
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let is_bucket = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
        if bucket.is_empty() || !bucket.chars().all(is_bucket) {
            return Err(bad("behind :// stands the name of a bucket"));
        }
        let prefix = prefix.trim_end_matches('/');
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-._=+~".contains(c);
        let is_part = |part: &str| !["", ".", ".."].contains(&part) && part.chars().all(is_plain);
        if !prefix.is_empty() && !prefix.split('/').all(is_part) {
            return Err(bad(
                "behind the bucket stand names of letters, digits and -._=+~ with / between them",
            ));
        }
        Ok(StoreUrl {
            scheme: known,
            bucket: bucket.to_owned(),
            prefix: prefix.to_owned(),
        })
    }

    /// The key of an object below it.
    pub fn key(&self, name: &str) -> String {
        match self.prefix.as_str() {
            "" => name.to_owned(),
            prefix => format!("{prefix}/{name}"),
        }
    }

    /// The URL of an object below it.
    pub fn object(&self, name: &str) -> String {
        format!(
            "{}://{}/{}",
            self.scheme.name(),
            self.bucket,
            self.key(name)
        )
    }
}

impl fmt::Display for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.scheme.name(), self.bucket)?;
        match self.prefix.as_str() {
            "" => Ok(()),
            prefix => write!(f, "/{prefix}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_a_bucket_and_a_prefix() {
        for (text, shown, object) in [
            ("s3://fleet", "s3://fleet", "s3://fleet/x"),
            ("gs://fleet/", "gs://fleet", "gs://fleet/x"),
            ("az://a-b/c/d=1/", "az://a-b/c/d=1", "az://a-b/c/d=1/x"),
        ] {
            let url = StoreUrl::parse(text).unwrap();
            assert_eq!(
                (url.to_string().as_str(), url.object("x").as_str()),
                (shown, object)
            );
        }
    }

    #[test]
    fn what_is_none_is_refused_and_no_secret_repeated() {
        for text in [
            "ftp://secret/x",
            "s3://",
            "s3:///secret",
            "s3://KEY:secret@bucket/x",
            "az://bucket/x?sig=secret",
            "s3://bucket/secret/../x",
            "s3://bucket//secret",
            "s3://bucket/secret x",
            "s3://bu%63ket/secret",
        ] {
            let said = StoreUrl::parse(text).unwrap_err().to_string();
            assert!(!said.contains("secret"), "{said}");
        }
    }
}
