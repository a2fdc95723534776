//! The one wasm engine of a process: its settings, its epochs, and what it has compiled.
//!
//! Instances are allocated on demand, each by itself. A pool would save some ten microseconds a start, and its places
//! would be a limit that operators share: one that takes them all would keep the others from starting again.

use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use tidegate_contract::OperatorError;
use tidegate_telemetry::Works;
use wasmtime::component::Linker;
use wasmtime::{Config, InstanceAllocationStrategy, Memory, MemoryType, Store};

use crate::budget::Budget;
use crate::cache::{Cache, Owner};
use crate::compiler::{CompileLimits, Compiler, Learning, Turns};
use crate::host::Host;
use crate::names::Names;
use crate::shared::lock;
use crate::ticker::Ticker;

/// Most memories whose address space is tried for at the start.
const TRIED_MEMORIES: u32 = 4096;

/// Address space of a guarded memory, in bytes: what it may grow to, and the guards.
const GUARDED: u64 = (4 << 30) + (64 << 20);

/// Address space beyond a checked memory, in bytes: it grows as far without being moved.
const GROWTH: u64 = 1 << 20;

/// Frames in the backtrace of a trap.
const BACKTRACE_FRAMES: usize = 32;

/// How an [`Engine`] is set up.
#[derive(Clone, Debug)]
pub struct EngineOptions {
    /// Where compiled components are kept; none to compile at every start. Must be private to this user (mode 0700):
    /// it holds machine code. Default none.
    pub cache_dir: Option<PathBuf>,
    /// Most bytes that are kept there, of which those go first that were not used for longest; none where
    /// [`Engine::forget_compiled`] takes away what is not needed. Default none.
    pub cache_bytes: Option<u64>,
    /// Whose compiled functions are kept there too. Default nobody's.
    pub functions: KeptFunctions,
    /// Who compiles. Default this process.
    pub compiler: Compiler,
    /// What compiling one component may take, where a child does it.
    pub compile: CompileLimits,
    /// Whether a child gives way to all other programs: beside a stream it always does. Default true.
    pub gives_way: bool,
    /// Where it is listed what a child compiles. Default a list that nobody looks at.
    pub works: Works,
    /// Most bytes of memories and tables of all instances of all slots together. Default no limit.
    pub memory: u64,
    /// Operator instances that are expected at a time, over all slots and tasks. More may live; where address space for
    /// so many cannot be had, about 4 GiB for each of their memories, memories are small and checked instead of guarded.
    /// Default 256.
    pub instances: u32,
}

impl Default for EngineOptions {
    fn default() -> EngineOptions {
        EngineOptions {
            cache_dir: None,
            cache_bytes: None,
            functions: KeptFunctions::default(),
            compiler: Compiler::default(),
            compile: CompileLimits::default(),
            gives_way: true,
            works: Works::default(),
            memory: u64::MAX,
            instances: 256,
        }
    }
}

/// Whose compiled functions are kept, so that what their next component has in common with the last is not compiled again.
///
/// A component that breaks its compiler can leave functions of its own there. So they are never shared: they get into
/// later components of the same owner, and into nothing that another is given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum KeptFunctions {
    /// Nobody's.
    #[default]
    Nobodys,
    /// Those of each slot by its name, where the directory belongs to one pipeline.
    OfSlots,
    /// Those of the project in this directory, which has all that is compiled.
    OfProject(PathBuf),
}

/// Compiles components and runs their instances. Cheap to clone; the ticker thread ends with the last clone.
#[derive(Clone)]
pub struct Engine {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) wasm: wasmtime::Engine,
    pub(crate) linker: Linker<Host>,
    pub(crate) cache: Option<Cache>,
    functions: KeptFunctions,
    /// Those who have had something compiled.
    owners: Mutex<BTreeSet<Owner>>,
    pub(crate) ticker: Ticker,
    pub(crate) compiler: Compiler,
    pub(crate) compile: CompileLimits,
    pub(crate) gives_way: bool,
    pub(crate) works: Works,
    pub(crate) turns: Turns,
    pub(crate) guarded: bool,
    /// What all slots have together.
    pub(crate) memory: Arc<Budget>,
    /// What all that operators measure is called.
    pub(crate) names: Arc<Names>,
}

impl Engine {
    /// Sets up the engine. Where the address space for guarded memories cannot be had, memories are checked; where the
    /// cache cannot be used, every start compiles: both are logged.
    pub fn new(options: EngineOptions) -> Result<Engine, OperatorError> {
        let failed = |error: wasmtime::Error| OperatorError::Engine(format!("{error:#}"));
        let engine = wasm(true).map_err(failed)?;
        match reserve(options.instances) {
            Ok(()) => Engine::with(options, engine, true),
            Err(why) => {
                tracing::warn!(
                    target: "tidegate::operator",
                    "operators run slower: there is no address space to guard the memories of {} instances: {why:#}",
                    options.instances
                );
                Engine::with(options, wasm(false).map_err(failed)?, false)
            }
        }
    }

    fn with(
        options: EngineOptions,
        wasm: wasmtime::Engine,
        guarded: bool,
    ) -> Result<Engine, OperatorError> {
        let failed = |error: wasmtime::Error| OperatorError::Engine(format!("{error:#}"));
        let cache = options.cache_dir.and_then(|directory| {
            Cache::open(&directory, options.cache_bytes, &wasm)
                .inspect_err(|why| tracing::warn!(target: "tidegate::operator", "compiled components are not kept: {why}"))
                .ok()
        });
        let linker = crate::host::linker(&wasm).map_err(failed)?;
        let ticker = Ticker::start(wasm.clone())
            .map_err(|error| OperatorError::Engine(format!("no thread for epochs: {error}")))?;
        Ok(Engine {
            inner: Arc::new(Inner {
                wasm,
                linker,
                cache,
                functions: options.functions,
                owners: Mutex::default(),
                ticker,
                compiler: options.compiler,
                compile: options.compile,
                gives_way: options.gives_way,
                works: options.works,
                turns: Turns::default(),
                guarded,
                memory: Arc::new(Budget::of_engine(options.memory)),
                names: Arc::default(),
            }),
        })
    }

    /// Whether memories are guarded by address space around them, rather than checked at each access.
    pub fn is_guarded(&self) -> bool {
        self.inner.guarded
    }

    /// Takes compiled components away from disk that are none of these digests, or that another version of the engine
    /// made, and functions of those for whom this engine has compiled nothing. One that is needed after all is compiled anew.
    pub fn forget_compiled(&self, but: &BTreeSet<String>) {
        if let Some(cache) = &self.inner.cache {
            cache.retain(but, &lock(&self.inner.owners));
        }
    }

    /// Who has the functions of what is compiled for this slot, or for none.
    pub(crate) fn owner(&self, slot: Option<&str>) -> Option<Owner> {
        let owner = match &self.inner.functions {
            KeptFunctions::Nobodys => return None,
            KeptFunctions::OfSlots => Owner::slot(slot?),
            KeptFunctions::OfProject(directory) => Owner::project(directory),
        };
        lock(&self.inner.owners).insert(owner.clone());
        Some(owner)
    }

    /// Whether compiled components are kept on disk.
    pub fn keeps_compiled(&self) -> bool {
        self.inner.cache.is_some()
    }
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine")
            .field("guarded", &self.inner.guarded)
            .field("cache", &self.inner.cache)
            .finish_non_exhaustive()
    }
}

/// The engine of wasmtime, with memories that are guarded by address space or checked.
pub(crate) fn wasm(guarded: bool) -> wasmtime::Result<wasmtime::Engine> {
    wasmtime::Engine::new(&of(guarded))
}

/// The same with functions that are known: what it compiles is the same, byte for byte.
pub(crate) fn wasm_with(guarded: bool, known: Arc<Learning>) -> wasmtime::Result<wasmtime::Engine> {
    wasmtime::Engine::new(of(guarded).enable_incremental_compilation(known)?)
}

fn of(guarded: bool) -> Config {
    if guarded { settings() } else { checked() }
}

fn settings() -> Config {
    let mut config = Config::new();
    config
        .allocation_strategy(InstanceAllocationStrategy::OnDemand)
        .concurrency_support(false)
        .epoch_interruption(true)
        .wasm_backtrace_max_frames(NonZeroUsize::new(BACKTRACE_FRAMES))
        .wasm_backtrace_details(wasmtime::WasmBacktraceDetails::Disable)
        .wasm_simd(true)
        // The same answer on every CPU, so that a replay is one.
        .relaxed_simd_deterministic(true)
        // What passes from one component to another within an operator goes through code with two memories.
        .wasm_multi_memory(true)
        // Not needed by operators, so not there to be attacked.
        .wasm_memory64(false)
        .shared_memory(false);
    config
}

/// The same with memories that take little more address space than they have bytes, and are checked at each access.
fn checked() -> Config {
    let mut config = settings();
    config
        .memory_reservation(0)
        .memory_guard_size(0)
        .memory_reservation_for_growth(GROWTH);
    config
}

/// Reserves the address space of so many memories once, in one piece, and lets it go again.
fn reserve(memories: u32) -> wasmtime::Result<()> {
    let memories = memories.clamp(1, TRIED_MEMORIES);
    let mut config = settings();
    config.memory_reservation(GUARDED * u64::from(memories));
    let engine = wasmtime::Engine::new(&config)?;
    Memory::new(&mut Store::new(&engine, ()), MemoryType::new(1, None))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use tidegate_contract::Slot as _;
    use tidegate_record::{BatchBuilder, NewRecord};

    use super::*;
    use crate::slot::{ComponentSlot, SlotOptions};

    #[test]
    fn address_space_is_tried_for_all_memories_at_once() {
        reserve(1).unwrap();
        reserve(TRIED_MEMORIES).unwrap();
        let mut config = settings();
        // More than any machine of today has.
        config.memory_reservation(1 << 60);
        let more = wasmtime::Engine::new(&config)
            .and_then(|engine| Memory::new(&mut Store::new(&engine, ()), MemoryType::new(1, None)));
        assert!(more.is_err(), "nothing is reserved");
    }

    #[test]
    fn memories_that_are_checked_take_little_address_space() {
        let wasm = wasmtime::Engine::new(&checked()).unwrap();
        let mut store = Store::new(&wasm, ());
        let mut places: Vec<usize> = (0..32)
            .map(|_| {
                let memory = Memory::new(&mut store, MemoryType::new(1, None)).unwrap();
                memory.data_ptr(&store) as usize
            })
            .collect();
        places.sort_unstable();
        let nearest = places.windows(2).map(|pair| pair[1] - pair[0]).min();
        assert!(nearest.unwrap() < 256 << 20, "{nearest:?}");
    }

    #[test]
    fn operators_run_where_there_is_no_address_space_for_guards() {
        let wasm = wasmtime::Engine::new(&checked()).unwrap();
        let engine = Engine::with(EngineOptions::default(), wasm, false).unwrap();
        assert!(!engine.is_guarded());
        let bytes = include_bytes!("../tests/fixtures/released/0.1.0/pass.wasm");
        let slot = ComponentSlot::new(&engine, SlotOptions::new("s"), bytes, "pass").unwrap();
        let (_, mut operator) = slot.instance().unwrap();
        // Longer than its first memory, so that it grows and is moved.
        let value = vec![b'v'; 4 << 20];
        let record = NewRecord {
            value: Some(&value),
            ..NewRecord::default()
        };
        for _ in 0..3 {
            let mut builder = BatchBuilder::default();
            builder.push(&record).unwrap();
            let done = operator.process(&builder.finish(0)).unwrap();
            assert!(matches!(
                done[..],
                [tidegate_contract::Processed::Answer { count: 1, .. }]
            ));
        }
    }
}
