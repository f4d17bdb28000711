//! The steps, one file each.

mod add_device;
mod create_file;
mod crypt;
mod header;
mod load_module;
mod make_swap;
mod pin;
mod set_attribute;
mod set_value;
mod swap_off;
mod swap_on;

pub use crate::setup::step::{
    AddDevice, CreateFile, FormatLuks, LoadModule, MakeSwap, Mode, OpenCrypt, SetAttribute,
    SetValue, SwapOff, SwapOn,
};
pub(crate) use create_file::is_unwritten;
pub use create_file::{check_file, check_place};
pub(crate) use header::carries;
pub use header::signatures;
pub(crate) use make_swap::{refuse_cut, swap_signatures};
pub use pin::{check_device, check_dictionary, check_key_file, check_owner};
pub(crate) use set_attribute::{CODEC, LIMIT, PARAMETERS, SIZE};
pub(crate) use swap_on::{areas, Area};
