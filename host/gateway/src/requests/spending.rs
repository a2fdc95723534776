//! What a request costs: counted where it arises, and settled once nobody can add to it.
//!
//! Whoever makes an answer holds the spending of its request: the request, the attempts that are heard, and the models that
//! are asked for them. A client that leaves pays what was made until the last of them has let go.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use super::lock;

/// Told once what was used.
type Settle = Box<dyn FnOnce(u64) + Send>;

/// What the records of a request have used. Dropped by its last holder, it is settled.
pub struct Spending {
    costs: Mutex<Vec<Cost>>,
    attempts: AtomicU64,
    settle: Mutex<Option<Settle>>,
    /// Name of the key that pays.
    name: Mutex<Arc<str>>,
}

/// What a record has used.
#[derive(Debug, Default)]
struct Cost {
    /// Tokens of the prompt as it came; those that the model has told, once it has.
    prompt: u64,
    /// Whether a model has the prompt, or has had it.
    asked: bool,
    /// Tokens of each answer of each attempt.
    made: BTreeMap<(u64, u32), u64>,
}

impl Cost {
    fn sum(&self) -> u64 {
        let prompt = if self.asked { self.prompt } else { 0 };
        prompt + self.made.values().sum::<u64>()
    }
}

impl Spending {
    /// Of records with prompts of so many tokens, as far as that is known.
    pub fn new(prompts: &[u64], settle: impl FnOnce(u64) + Send + 'static) -> Arc<Spending> {
        let costs = prompts.iter().map(|prompt| Cost {
            prompt: *prompt,
            ..Cost::default()
        });
        Arc::new(Spending {
            costs: Mutex::new(costs.collect()),
            attempts: AtomicU64::new(0),
            settle: Mutex::new(Some(Box::new(settle))),
            name: Mutex::new(Arc::from("")),
        })
    }

    /// Who pays, by the name of the key.
    pub fn is_of(&self, name: &Arc<str>) {
        *lock(&self.name) = Arc::clone(name);
    }

    /// Name of the key that pays; empty where nobody needs one.
    pub(super) fn name(&self) -> Arc<str> {
        lock(&self.name).clone()
    }

    /// Whoever asks with a record that was left pays for it from now on, with what was counted before.
    pub(super) fn paid_by(&self, settle: impl FnOnce(u64) + Send + 'static) {
        *lock(&self.settle) = Some(Box::new(settle));
    }

    /// The request is over, and has used what was counted.
    pub fn settle(&self) {
        let used = lock(&self.costs).iter().map(Cost::sum).sum();
        self.settle_at(used);
    }

    /// It is over, and has used so much.
    pub fn settle_at(&self, used: u64) {
        let settle = lock(&self.settle).take();
        if let Some(settle) = settle {
            settle(used);
        }
    }

    /// A number for one more attempt.
    pub(super) fn attempt(&self) -> u64 {
        self.attempts.fetch_add(1, Ordering::Relaxed)
    }

    pub(super) fn asked(&self, record: usize) {
        if let Some(cost) = lock(&self.costs).get_mut(record) {
            cost.asked = true;
        }
    }

    /// An answer of an attempt has so many tokens. Attempts that failed were made all the same.
    pub(super) fn made(&self, record: usize, attempt: u64, choice: u32, tokens: u64) {
        if let Some(cost) = lock(&self.costs).get_mut(record) {
            let made = cost.made.entry((attempt, choice)).or_default();
            *made = tokens.max(*made);
        }
    }

    /// The model has told the tokens of the prompt.
    pub(super) fn prompt(&self, record: usize, tokens: u64) {
        if let Some(cost) = lock(&self.costs).get_mut(record) {
            cost.asked = true;
            // None is said of an answer that was ended before the model was done with it.
            if tokens > 0 {
                cost.prompt = tokens;
            }
        }
    }
}

impl Drop for Spending {
    fn drop(&mut self) {
        self.settle();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told() -> (Arc<Mutex<Vec<u64>>>, impl FnOnce(u64) + Send + 'static) {
        let told: Arc<Mutex<Vec<u64>>> = Arc::default();
        let kept = told.clone();
        (told, move |used| lock(&kept).push(used))
    }

    #[test]
    fn what_was_made_is_paid_and_a_prompt_only_where_a_model_has_it() {
        let (told, settle) = told();
        let spending = Spending::new(&[10, 20, 30], settle);
        spending.asked(1);
        for tokens in [1, 2, 5, 4] {
            spending.made(1, 1, 0, tokens);
        }
        spending.made(1, 2, 1, 3);
        spending.prompt(2, 33);
        spending.prompt(2, 0);
        drop(spending);
        assert_eq!(*lock(&told), [20 + 5 + 3 + 33]);
    }

    #[test]
    fn it_is_settled_once_and_after_that_costs_nothing() {
        let (told, settle) = told();
        let spending = Spending::new(&[10], settle);
        spending.settle_at(7);
        spending.asked(0);
        spending.settle();
        drop(spending);
        assert_eq!(*lock(&told), [7]);
    }
}
