//! Colours for light and dark, as CSS variables: one place.
//!
//! The series colours start from Okabe and Ito's set ("Color Universal Design", 2008), darkened
//! for light pages and lightened for dark ones until each has at least 3:1 against the page,
//! which WCAG 2.1 asks of graphics (1.4.11), and moved apart until no two look alike to anyone:
//! at least 18 apart in CIELAB, also as protanopes and deuteranopes see them (Machado, Oliveira
//! and Fernandes 2009, severity 1). Text has 4.5:1 against the page and against boxes.

/// How many series have a colour of their own; further ones start again.
pub const SERIES: usize = 8;

/// For light pages and for print.
pub const LIGHT: &str = "\
--page:#ffffff;--raised:#f4f6f8;--text:#1b2127;--quiet:#56616c;--line:#d5dbe1;\
--good:#00735a;--warning:#a54a00;\
--c0:#0065a4;--c1:#e96f00;--c2:#036d58;--c3:#bc6e95;--c4:#6d5600;--c5:#418de9;--c6:#597846;--c7:#5a2bb0";

/// For dark pages.
pub const DARK: &str = "\
--page:#12161b;--raised:#1b2128;--text:#e6eaee;--quiet:#a0abb6;--line:#343d47;\
--good:#35c79f;--warning:#f0a04b;\
--c0:#47b8fa;--c1:#ff8f40;--c2:#38c080;--c3:#e682bd;--c4:#f0e341;--c5:#3f73c1;--c6:#dce4c0;--c7:#9f69ff";
