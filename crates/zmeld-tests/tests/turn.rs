//! Leftovers of a killed test go with the next one's turn.

use zmeld_tests::turn::{self, Swap};

#[test]
fn swap_of_a_killed_test_is_taken_back_with_the_next_turn() {
    let Ok(ours) = turn::turn() else {
        println!("SKIP: the lock is another user's");
        return;
    };
    let swap = match Swap::zram(16 << 20, 0) {
        Ok(swap) => swap,
        Err(reason) => {
            println!("SKIP: {reason}");
            return;
        }
    };
    let name = swap.path().to_str().unwrap().to_owned();
    let areas = || std::fs::read_to_string("/proc/swaps").unwrap();
    assert!(areas().contains(&name));
    // As a signal does it: nothing is dropped, and the lock goes.
    std::mem::forget(swap);
    drop(ours);
    let _ours = turn::turn().unwrap();
    assert!(!areas().contains(&name));
    let device = name.replace("/dev/", "/sys/block/");
    assert!(!std::path::Path::new(&device).exists());
}
