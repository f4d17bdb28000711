//! The built command, run as its users run it.

mod bench;
mod cases;
mod errors;
mod full_disk;
mod held;
mod interrupt;
mod json;
mod live;
#[path = "../../../zmeld-swap/tests/machine/mod.rs"]
mod machine;
#[path = "../../../zmeld-scan/tests/common/mod.rs"]
mod memory;
mod own_run;
mod predictions;
mod run;
#[path = "../../../zmeld-swap/tests/script/mod.rs"]
mod script;
mod setup;
mod size;
mod survey;
mod terminal;
mod top;
#[path = "../../../zmeld-linux/tests/support/turn.rs"]
mod turn;
