//! The built command, run as its users run it.

mod bench;
mod cases;
mod errors;
mod full_disk;
mod interrupt;
mod json;
mod live;
#[path = "../../../zmeld-setup/tests/machine/mod.rs"]
mod machine;
#[path = "../../../zmeld-memory/tests/common/mod.rs"]
mod memory;
mod own_run;
mod predictions;
mod run;
#[path = "../../../zmeld-setup/tests/script/mod.rs"]
mod script;
mod setup;
mod size;
mod survey;
mod terminal;
mod top;
#[path = "../../../zmeld-linux/tests/support/turn.rs"]
mod turn;
