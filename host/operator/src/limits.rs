//! What a slot's operator may use, and the limiter that refuses the rest.

use std::sync::Arc;
use std::time::Duration;

use wasmtime::ResourceLimiter;

use crate::budget::Exceeded;
use crate::shared::Shared;

/// Bytes of all that `describe` answers, as they lie in the guest and with what they take in the host: more is not
/// copied out.
pub(crate) const DESCRIPTION_BYTES: usize = 512 << 10;
/// Bytes of the name of an operator, of its version and of each of its outputs.
pub(crate) const NAME_BYTES: usize = 128;
/// Bytes of the JSON Schema of its configuration.
pub(crate) const SCHEMA_BYTES: usize = 256 << 10;
/// Fields that it may say it reads: there are four, and naming one again is no mistake.
pub(crate) const READS: usize = 16;
/// Named outputs.
pub(crate) const OUTPUTS: usize = 256;

/// Most core instances that one instance of a component may be made of.
pub(crate) const CORE_INSTANCES: u64 = 256;
/// Most component instances within one.
pub(crate) const COMPONENT_INSTANCES: u64 = 1000;
/// Most linear memories of all its core instances together: address space is reserved for each, about 4 GiB.
pub(crate) const MEMORIES: u64 = 16;
/// Most tables of all its core instances together.
pub(crate) const TABLES: u64 = 256;
/// Most functions, globals, imports and the like of all its instances together: the host keeps up to 32 bytes for each
/// of them in every instance, beside the limits of a slot.
pub(crate) const DEFINITIONS: u64 = 1_000_000;

/// Limits of one slot. They hold for each instance by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of all linear memories of an instance together. Default 64 MiB.
    pub memory: usize,
    /// Bytes of all linear memories and tables of all instances of the slot together, whatever they are for. Default
    /// none: there is only the limit of all slots of the engine.
    pub total_memory: Option<u64>,
    /// Elements of all tables of an instance together. Default 100,000.
    pub table_elements: usize,
    /// Bytes of one answer. A longer one is refused before it is copied out. The same bound holds for what one host
    /// call passes. Default 16 MiB.
    pub output: usize,
    /// Wall-clock time for one call, from giving the guest its records to having checked its answer. A batch that takes
    /// longer is given in smaller pieces, each with the whole of this time. Default 1 s.
    pub deadline: Duration,
    /// Wall-clock time for starting an instance: instantiation, `describe` and `init` each. Default 5 s.
    pub init_deadline: Duration,
    /// Wall-clock time to find the record that fails a batch, from the first call that fails on. Instances that are
    /// started meanwhile take of it, and cost no record: the rest of the batch is then given one record a call.
    /// Default 2 s.
    pub bisect: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            memory: 64 << 20,
            total_memory: None,
            table_elements: 100_000,
            output: 16 << 20,
            deadline: Duration::from_secs(1),
            init_deadline: Duration::from_secs(5),
            bisect: Duration::from_secs(2),
        }
    }
}

/// A growth that was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    Memory {
        needed: usize,
        limit: usize,
    },
    Table {
        needed: usize,
        limit: usize,
    },
    /// There would be room in the instance, and is none in what it shares with others.
    Shared(Exceeded),
    /// The same where there would be room for it if it were the only instance of all operators.
    Crowded(Exceeded),
}

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match *self {
            Refused::Memory { needed, limit } => {
                write!(f, "memory: needed {}, limit {}", size(needed), size(limit))
            }
            Refused::Table { needed, limit } => {
                write!(f, "table: needed {needed} elements, limit {limit}")
            }
            Refused::Shared(exceeded) | Refused::Crowded(exceeded) => {
                let Exceeded {
                    names: (whose, name),
                    needed,
                    limit,
                    ..
                } = exceeded;
                write!(
                    f,
                    "memory of {whose}: needed {}, limit {} ({name})",
                    size(needed as usize),
                    size(limit as usize)
                )
            }
        }
    }
}

/// Bytes that the host keeps for an element of a table, at most.
const ELEMENT: usize = 16;

/// Counts what an instance holds and refuses what goes beyond its limits, or beyond what it shares with others.
#[derive(Debug)]
pub(crate) struct Limiter {
    memory: (usize, usize),
    table: (usize, usize),
    /// Where the slot counts, and what this instance has taken of it.
    shared: Arc<Shared>,
    taken: u64,
    /// What was granted last, until it is known whether the growth succeeded.
    last: Growth,
    /// The last refusal since the call began: the reason of what comes after it, also if the guest makes a trap of it.
    pub(crate) refused: Option<Refused>,
}

/// A growth that was granted.
#[derive(Clone, Copy, Debug)]
enum Growth {
    None,
    Memory(usize),
    Table(usize),
}

impl Limiter {
    pub(crate) fn new(limits: &Limits, shared: Arc<Shared>) -> Limiter {
        Limiter {
            memory: (0, limits.memory),
            table: (0, limits.table_elements),
            shared,
            taken: 0,
            last: Growth::None,
            refused: None,
        }
    }

    /// Bytes of all linear memories.
    pub(crate) fn memory(&self) -> usize {
        self.memory.0
    }

    fn grow(&mut self, growth: Growth) -> Result<(), Refused> {
        self.last = Growth::None;
        let (bytes, held) = match growth {
            Growth::None => return Ok(()),
            Growth::Memory(more) => {
                let (held, limit) = self.memory;
                let needed = held.saturating_add(more);
                if needed > limit {
                    return Err(Refused::Memory { needed, limit });
                }
                (more, needed)
            }
            Growth::Table(more) => {
                let (held, limit) = self.table;
                let needed = held.saturating_add(more);
                if needed > limit {
                    return Err(Refused::Table { needed, limit });
                }
                (more.saturating_mul(ELEMENT), needed)
            }
        };
        self.shared.memory.take(bytes as u64).map_err(|exceeded| {
            let alone = self.taken.saturating_add(bytes as u64);
            match exceeded.of_all && alone <= exceeded.limit {
                true => Refused::Crowded(exceeded),
                false => Refused::Shared(exceeded),
            }
        })?;
        self.taken += bytes as u64;
        match growth {
            Growth::Table(_) => self.table.0 = held,
            _ => self.memory.0 = held,
        }
        self.last = growth;
        Ok(())
    }

    fn may_grow(&mut self, growth: Growth) -> bool {
        match self.grow(growth) {
            Ok(()) => true,
            Err(refused) => {
                self.refused = Some(refused);
                false
            }
        }
    }

    /// The last growth has failed after all.
    fn take_back(&mut self) {
        let bytes = match std::mem::replace(&mut self.last, Growth::None) {
            Growth::None => 0,
            Growth::Memory(more) => {
                self.memory.0 -= more;
                more
            }
            Growth::Table(more) => {
                self.table.0 -= more;
                more.saturating_mul(ELEMENT)
            }
        };
        self.taken -= bytes as u64;
        self.shared.memory.give(bytes as u64);
    }
}

impl Drop for Limiter {
    fn drop(&mut self) {
        self.shared.memory.give(self.taken);
    }
}

impl ResourceLimiter for Limiter {
    // What the component makes was counted before it was compiled; these hold for what the engine adds to it as well.
    fn instances(&self) -> usize {
        CORE_INSTANCES as usize
    }

    fn memories(&self) -> usize {
        MEMORIES as usize
    }

    fn tables(&self) -> usize {
        TABLES as usize
    }

    fn memory_growing(
        &mut self,
        current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        if maximum.is_some_and(|maximum| desired > maximum) {
            self.last = Growth::None;
            return Ok(false);
        }
        Ok(self.may_grow(Growth::Memory(desired.saturating_sub(current))))
    }

    fn memory_grow_failed(&mut self, _error: wasmtime::Error) -> wasmtime::Result<()> {
        self.take_back();
        Ok(())
    }

    fn table_growing(
        &mut self,
        current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        if maximum.is_some_and(|maximum| desired > maximum) {
            self.last = Growth::None;
            return Ok(false);
        }
        Ok(self.may_grow(Growth::Table(desired.saturating_sub(current))))
    }

    fn table_grow_failed(&mut self, _error: wasmtime::Error) -> wasmtime::Result<()> {
        self.take_back();
        Ok(())
    }
}

/// A number of bytes for people: `64 MiB`, `9.1 MiB`, `512 B`.
pub(crate) fn size(bytes: usize) -> String {
    const UNITS: [(&str, usize); 3] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    for (unit, factor) in UNITS {
        if bytes >= factor {
            return if bytes.is_multiple_of(factor) {
                format!("{} {unit}", bytes / factor)
            } else {
                format!("{:.1} {unit}", bytes as f64 / factor as f64)
            };
        }
    }
    format!("{bytes} B")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::Budget;

    fn limiter(limits: &Limits, shared: &Arc<Shared>) -> Limiter {
        Limiter::new(limits, Arc::clone(shared))
    }

    #[test]
    fn memories_of_an_instance_are_counted_together() {
        let limits = Limits {
            memory: 1 << 20,
            ..Limits::default()
        };
        let mut limiter = limiter(&limits, &Arc::new(Shared::new("s".into())));
        assert!(limiter.memory_growing(0, 512 << 10, None).unwrap());
        assert!(limiter.memory_growing(0, 512 << 10, None).unwrap());
        assert!(limiter.refused.is_none());
        assert!(!limiter.memory_growing(512 << 10, 576 << 10, None).unwrap());
        let refused = limiter.refused.unwrap().to_string();
        assert_eq!(refused, "memory: needed 1.1 MiB, limit 1 MiB");
    }

    #[test]
    fn a_growth_beyond_the_memorys_own_maximum_is_not_the_slots_refusal() {
        let shared = Arc::new(Shared::new("s".into()));
        let mut limiter = limiter(&Limits::default(), &shared);
        assert!(!limiter.memory_growing(0, 2 << 20, Some(1 << 20)).unwrap());
        assert!(limiter.refused.is_none());
    }

    #[test]
    fn instances_share_the_memory_of_their_slot_and_give_it_back() {
        let engine = Arc::new(Budget::of_engine(2 << 20));
        let shared = Arc::new(Shared::within(
            "s".into(),
            Budget::of_slot(Some(1 << 20), &engine),
        ));
        let mut one = limiter(&Limits::default(), &shared);
        let mut other = limiter(&Limits::default(), &shared);
        assert!(one.memory_growing(0, 768 << 10, None).unwrap());
        assert!(!other.memory_growing(0, 512 << 10, None).unwrap());
        assert_eq!(
            other.refused.unwrap().to_string(),
            "memory of all instances of the stage: needed 1.2 MiB, limit 1 MiB (limits.total-memory)"
        );
        // One that failed by itself takes nothing, nor does it give back what it did not take.
        other
            .memory_grow_failed(wasmtime::Error::msg("no address space"))
            .unwrap();
        assert!(one.table_growing(0, 1024, None).unwrap());
        assert_eq!(shared.memory.used(), (768 << 10) + 1024 * 16);
        one.table_grow_failed(wasmtime::Error::msg("no memory"))
            .unwrap();
        assert_eq!(shared.memory.used(), 768 << 10);
        drop(one);
        assert!(other.memory_growing(0, 512 << 10, None).unwrap());
        drop(other);
        assert_eq!((shared.memory.used(), engine.used()), (0, 0));
    }

    #[test]
    fn what_all_operators_have_is_named_where_it_is_not_enough() {
        let engine = Arc::new(Budget::of_engine(1 << 20));
        let shared =
            |name: &str| Arc::new(Shared::within(name.into(), Budget::of_slot(None, &engine)));
        let mut one = limiter(&Limits::default(), &shared("one"));
        let mut other = limiter(&Limits::default(), &shared("other"));
        assert!(one.memory_growing(0, 1 << 20, None).unwrap());
        assert!(!other.memory_growing(0, 64 << 10, None).unwrap());
        assert_eq!(
            other.refused.unwrap().to_string(),
            "memory of all operators: needed 1.1 MiB, limit 1 MiB (operators.memory)"
        );
    }

    #[test]
    fn sizes_are_for_people() {
        assert_eq!(size(16 << 20), "16 MiB");
        assert_eq!(size(9_542_041), "9.1 MiB");
        assert_eq!(size(512), "512 B");
    }
}
