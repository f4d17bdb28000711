//! A configuration in the words of other systems, so that a machine is set up
//! the same way at each boot.
//!
//! | module | for whom |
//! |---|---|
//! | [`nixos`] | NixOS, in its own options as far as it has them |
//! | [`units`] | systemd: what the generator writes, and what `zmeld export systemd` shows |

pub mod nixos;
pub mod units;
