//! The operator of the boundary's benches: `{"mode": "filter"}` drops a record by a byte of its value, `{"mode": "echo"}`
//! replaces the value by a copy of itself. It is written like any operator.

use tidegate_sdk::{Changes, Configuration, Failure, Operator, Outcome, Record, operator};

/// The configuration.
#[derive(Clone, Copy, Debug, Configuration)]
pub struct Config {
    /// What it does.
    pub mode: Mode,
}

/// What it does.
#[derive(Clone, Copy, Debug, Configuration)]
pub enum Mode {
    /// Drops a record whose value has an odd tenth byte.
    Filter,
    /// Replaces the value by itself.
    Echo,
}

/// See the crate.
#[derive(Debug)]
pub struct BenchOperator {
    mode: Mode,
}

#[operator(name = "measure-boundary", reads = "value")]
impl Operator for BenchOperator {
    type Config = Config;

    fn new(config: Config) -> Result<BenchOperator, Failure> {
        Ok(BenchOperator { mode: config.mode })
    }

    fn process(&mut self, record: &Record<'_>) -> Outcome {
        let Some(value) = record.value() else {
            return Outcome::Pass;
        };
        match self.mode {
            Mode::Filter if value.get(10).is_some_and(|byte| byte % 2 == 1) => Outcome::Drop,
            Mode::Filter => Outcome::Pass,
            Mode::Echo => Outcome::replace(Changes::new().value(value)),
        }
    }
}
