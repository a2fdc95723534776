//! The one wasm engine of a process: its settings, its pool, its epochs, and what it has compiled.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;

use tidegate_contract::OperatorError;
use wasmtime::component::Linker;
use wasmtime::{Config, InstanceAllocationStrategy, PoolingAllocationConfig};

use crate::cache::Cache;
use crate::host::Host;
use crate::ticker::Ticker;

/// Memory of an instance that stays in RAM when its place in the pool is given back, bytes.
const KEEP_RESIDENT: usize = 1 << 20;
/// Places in the pool that keep that memory while they wait for the next instance.
const WARM_PLACES: u32 = 16;
/// Most elements of one table in the pool.
const POOL_TABLE_ELEMENTS: usize = 100_000;

/// Frames in the backtrace of a trap.
const BACKTRACE_FRAMES: usize = 32;

/// How an [`Engine`] is set up.
#[derive(Clone, Debug)]
pub struct EngineOptions {
    /// Where compiled components are kept; none to compile at every start. Must be private to this user (mode 0700):
    /// it holds machine code. Default none.
    pub cache_dir: Option<PathBuf>,
    /// Operator instances that can live at a time, over all slots and tasks. Address space is reserved for each, about
    /// 12 GiB; memory is not. Default 256.
    pub instances: u32,
}

impl Default for EngineOptions {
    fn default() -> EngineOptions {
        EngineOptions {
            cache_dir: None,
            instances: 256,
        }
    }
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
    pub(crate) ticker: Ticker,
    pooled: bool,
}

impl Engine {
    /// Sets up the engine. Where the address space for the pool cannot be had, instances are allocated on demand; where
    /// the cache cannot be used, every start compiles: both are logged.
    pub fn new(options: EngineOptions) -> Result<Engine, OperatorError> {
        let failed = |error: wasmtime::Error| OperatorError::Engine(format!("{error:#}"));
        let mut config = settings();
        config.allocation_strategy(pool(options.instances));
        let (wasm, pooled) = match wasmtime::Engine::new(&config) {
            Ok(engine) => (engine, true),
            Err(error) => {
                tracing::warn!(target: "tidegate::operator", "no pool for operator instances, they are allocated on demand: {error:#}");
                let mut config = settings();
                config.allocation_strategy(InstanceAllocationStrategy::OnDemand);
                // Where address space is scarce, memories are small and checked instead of guarded.
                config.memory_reservation(0).memory_guard_size(0);
                (wasmtime::Engine::new(&config).map_err(failed)?, false)
            }
        };
        let cache = options.cache_dir.and_then(|directory| {
            Cache::open(&directory, &wasm)
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
                ticker,
                pooled,
            }),
        })
    }

    /// Whether instances come from the pool, rather than being allocated on demand.
    pub fn is_pooled(&self) -> bool {
        self.inner.pooled
    }

    /// Whether compiled components are kept on disk.
    pub fn keeps_compiled(&self) -> bool {
        self.inner.cache.is_some()
    }
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine")
            .field("pooled", &self.inner.pooled)
            .field("cache", &self.inner.cache)
            .finish_non_exhaustive()
    }
}

fn settings() -> Config {
    let mut config = Config::new();
    config
        .concurrency_support(false)
        .epoch_interruption(true)
        .wasm_backtrace_max_frames(NonZeroUsize::new(BACKTRACE_FRAMES))
        .wasm_backtrace_details(wasmtime::WasmBacktraceDetails::Disable)
        .wasm_simd(true)
        // The same answer on every CPU, so that a replay is one.
        .relaxed_simd_deterministic(true)
        // Not needed by operators, so not there to be attacked.
        .wasm_multi_memory(false)
        .wasm_memory64(false)
        .shared_memory(false);
    config
}

fn pool(instances: u32) -> PoolingAllocationConfig {
    let mut pool = PoolingAllocationConfig::new();
    // Components of interpreters have several modules, memories and tables to an instance.
    pool.total_component_instances(instances)
        .total_core_instances(instances.saturating_mul(8))
        .total_memories(instances.saturating_mul(2))
        .total_tables(instances.saturating_mul(4))
        .max_tables_per_module(8)
        .table_elements(POOL_TABLE_ELEMENTS)
        .max_core_instance_size(4 << 20)
        .max_component_instance_size(8 << 20)
        .linear_memory_keep_resident(KEEP_RESIDENT)
        .table_keep_resident(64 << 10)
        .max_unused_warm_slots(WARM_PLACES);
    pool
}
