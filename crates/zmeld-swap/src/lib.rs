//! Swap of a machine: what there is ([`observe`]), what follows from a configuration and how it is set
//! up ([`setup`]), what is done by rules from then on ([`watch`]), what is wrong ([`status`]), and the
//! ways from and to other tools' files ([`migrate`]). [`run_folder`] has what root acts on.

pub mod migrate;
pub mod observe;
pub mod run_folder;
pub mod setup;
pub mod status;
pub mod watch;
