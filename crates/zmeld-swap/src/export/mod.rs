//! A configuration in the words of other systems, so that a machine is set up
//! the same way at each boot.
//!
//! | module | for whom |
//! |---|---|
//! | [`script`] | any system with a POSIX shell, without zmeld |
//! | [`nixos`] | NixOS, in its own options as far as it has them |
//! | `left` | what these cannot say |
//! | [`units`] | systemd: what the generator writes, and what `zmeld export systemd` shows |

mod left;
pub mod nixos;
pub mod script;
pub mod units;
