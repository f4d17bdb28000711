//! Which run comes next: within a block every arm of every case once, in an
//! order drawn from the seed and the block's number alone, so that an experiment
//! that is carried on goes on in the same order.

use rand::seq::SliceRandom;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use super::result::Experiment;

/// The runs of a block: indexes of cases and arms.
pub(super) fn of_block(experiment: &Experiment, block: usize) -> Vec<(usize, usize)> {
    let recipe = &experiment.recipe;
    let mut all: Vec<(usize, usize)> = (0..recipe.cases.len())
        .flat_map(|case| (0..recipe.arms.len()).map(move |arm| (case, arm)))
        .collect();
    let mut random = ChaCha8Rng::seed_from_u64(experiment.seed);
    random.set_stream(block as u64);
    all.shuffle(&mut random);
    all.retain(|&(case, arm)| experiment.takes_part(case, arm));
    all
}
