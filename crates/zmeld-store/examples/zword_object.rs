//! What zword makes of the page on standard input, on standard output: `cargo xtask kernel-patch`
//! has a kernel's test vectors of it.

use std::io::{self, Read, Write};

use zmeld_store::zword::{trained_lengths, Level, Zword};

fn main() -> io::Result<()> {
    let mut page = Vec::new();
    io::stdin().read_to_end(&mut page)?;
    let mut object = vec![0; 2 * page.len()];
    let mut zword = Zword::new(trained_lengths()).ok_or(io::ErrorKind::InvalidData)?;
    let size = zword
        .compress(Level::Glance, &page, &mut object)
        .ok_or(io::ErrorKind::InvalidInput)?;
    io::stdout().write_all(&object[..size])
}
