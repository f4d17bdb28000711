//! Results of the simulator at one point of the study.

use serde::Serialize;

use super::claims::Measure;
use super::points::StudyPoint;
use crate::policy::PolicyName;
use crate::replicate::Replications;
use crate::scenario::ScenarioText;
use crate::Error;
use zmeld_report::statistics::mean::Interval;

/// Ours at one point.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, schemars::JsonSchema)]
pub struct MeasuredPoint {
    /// The load.
    pub point: StudyPoint,
    /// Total time under no-balancing, seconds.
    pub no_balancing_s: Interval,
    /// Time that on-demand saves over no-balancing, percent.
    pub on_demand_gain: Interval,
    /// The smallest such saving in any replication, percent.
    pub on_demand_worst: f64,
    /// Time that full takes beyond no-balancing's, percent.
    pub full_loss: Interval,
    /// Moves of processes to another node under no-balancing.
    pub node_moves: f64,
    /// Share of accesses under no-balancing that were local.
    pub local_share: f64,
}

impl MeasuredPoint {
    /// Runs it. The points differ in a few settings of one scenario.
    pub(super) fn run(
        source: &ScenarioText,
        point: StudyPoint,
        seed: u64,
        replications: u64,
    ) -> Result<Self, Error> {
        let scenario = source.with(&point.settings())?;
        let runs = Replications::run(&scenario.case, &POLICIES, seed, replications);
        let gain = |policy| {
            runs.gain(policy, PolicyName::NoBalancing)
                .expect("the study runs this policy")
                .scaled(100.0)
        };
        let mean = |name| {
            runs.mean(PolicyName::NoBalancing, name)
                .expect("the study runs no-balancing")
        };
        let full = gain(PolicyName::Full);
        Ok(Self {
            point,
            no_balancing_s: mean("total_ms").scaled(0.001),
            on_demand_gain: gain(PolicyName::OnDemand),
            on_demand_worst: 100.0
                * runs
                    .worst_gain(PolicyName::OnDemand, PolicyName::NoBalancing)
                    .unwrap_or(0.0),
            full_loss: Interval {
                value: -full.value,
                ..full
            },
            node_moves: mean("node_moves").value,
            local_share: mean("local_share").value,
        })
    }

    /// One of its two compared numbers.
    pub fn get_measure(&self, measure: Measure) -> Interval {
        match measure {
            Measure::OnDemandGain => self.on_demand_gain,
            Measure::FullLoss => self.full_loss,
        }
    }
}

const POLICIES: [PolicyName; 3] = [
    PolicyName::NoBalancing,
    PolicyName::Full,
    PolicyName::OnDemand,
];
