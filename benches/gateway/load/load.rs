//! What is asked, how much of it at once, and for how long.

use std::time::{Duration, Instant};

use clap::Args;

/// Longest wait for anything: a load that gets no further ends with an error.
pub(crate) const PATIENCE: Duration = Duration::from_secs(300);

/// For how long.
#[derive(Args)]
pub(crate) struct Period {
    /// Seconds before anything counts.
    #[arg(long, default_value_t = 2.0)]
    warm: f64,
    /// Seconds that count.
    #[arg(long, default_value_t = 10.0)]
    seconds: f64,
}

impl Period {
    /// The time that counts, beginning after the warm-up from now on.
    pub(crate) fn window(&self) -> anyhow::Result<Window> {
        let begin = Instant::now() + Duration::try_from_secs_f64(self.warm)?;
        let end = begin + Duration::try_from_secs_f64(self.seconds)?;
        anyhow::ensure!(
            begin < end,
            "--seconds is {}, must be above 0",
            self.seconds
        );
        Ok(Window { begin, end })
    }
}

/// The time that counts.
#[derive(Clone, Copy)]
pub(crate) struct Window {
    /// Its beginning.
    pub(crate) begin: Instant,
    /// Nothing is asked from here on.
    pub(crate) end: Instant,
}

impl Window {
    /// Whether something that happens then counts.
    pub(crate) fn has(&self, moment: Instant) -> bool {
        (self.begin..self.end).contains(&moment)
    }

    /// Whether it is over.
    pub(crate) fn is_over(&self) -> bool {
        Instant::now() >= self.end
    }

    /// Seconds of it.
    pub(crate) fn seconds(&self) -> f64 {
        (self.end - self.begin).as_secs_f64()
    }
}

/// What is asked, and how much of it at once.
#[derive(Args)]
pub(crate) struct Load {
    /// Requests at once.
    #[arg(long, default_value_t = 1)]
    pub(crate) streams: usize,
    /// Most tokens of an answer.
    #[arg(long, default_value_t = 64)]
    pub(crate) max_tokens: u32,
    /// The user message; {n} is the request's number.
    #[arg(
        long,
        default_value = "Customer: number {n}\nProduct: kettle\n\nMy order has not arrived yet. What can I do?"
    )]
    prompt: String,
    /// Number of the first request: another in each run, so that none finds what an earlier one left in a cache.
    #[arg(long, default_value_t = 0)]
    pub(crate) first: u64,
    #[command(flatten)]
    pub(crate) period: Period,
}

impl Load {
    /// The user message of a request.
    pub(crate) fn prompt(&self, number: u64) -> String {
        self.prompt.replace("{n}", &number.to_string())
    }
}
