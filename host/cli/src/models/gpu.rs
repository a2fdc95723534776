//! Adapters in use: each is opened once for each replica that a model has there, has an engine for each opening, and is opened
//! anew when its device is lost.

use std::sync::{Arc, Mutex, PoisonError};

use tidegate_control::config::{AdapterChoice, Engine as EngineLimits, Mistake, Pipeline};
use tidegate_infer::{Adapter, AdapterError, AdapterInfo, DeviceOptions, Gpu, LoadError};
use tidegate_serving::{Engine, EngineOptions, MissingReplica};

use super::fit::is_loaded;
use super::memory::available_memory;

/// The adapters that models run on.
pub(crate) struct Adapters {
    limits: EngineLimits,
    used: Mutex<Vec<Arc<UsedAdapter>>>,
}

/// An adapter, its device and its engine.
pub(crate) struct UsedAdapter {
    adapter: Adapter,
    device: Mutex<Device>,
    /// Runs every model of the adapter.
    pub(crate) engine: Engine,
}

#[derive(Default)]
struct Device {
    open: Option<Gpu>,
    /// Counts openings.
    opened: u64,
}

/// A selector as the command line takes it.
pub(crate) fn selector(choice: &AdapterChoice) -> Option<String> {
    match choice {
        AdapterChoice::Any => None,
        AdapterChoice::Cpu => Some("cpu".to_owned()),
        AdapterChoice::Index(index) => Some(index.to_string()),
        AdapterChoice::Named(name) => Some(name.clone()),
    }
}

/// The adapters that the pipeline file names and this machine does not have, at the place of each. None is opened.
pub(crate) fn missing_adapters(pipeline: &Pipeline) -> Vec<Mistake> {
    let models = pipeline.models.iter().enumerate();
    let loaded = models.filter(|(index, _)| is_loaded(pipeline, *index));
    let named = loaded.flat_map(|(_, model)| {
        let named = model.adapters.iter().enumerate();
        named.filter_map(move |(number, choice)| Some((model, number, selector(choice)?)))
    });
    let missing = named.filter_map(|(model, number, named)| {
        let error = Adapter::choose(Some(&named)).err()?;
        Some(pipeline.mistake_of_adapter(model, number, error))
    });
    missing.collect()
}

impl Adapters {
    pub(crate) fn new(limits: EngineLimits) -> Adapters {
        Adapters {
            limits,
            used: Mutex::default(),
        }
    }

    /// What all models of an adapter share.
    pub(crate) fn limits(&self) -> EngineLimits {
        self.limits
    }

    /// The adapter that a selector means; models that mean the same share it.
    #[cfg(test)]
    pub(crate) fn get(&self, selector: Option<&str>) -> Result<Arc<UsedAdapter>, AdapterError> {
        let mut all = self.get_all(&[selector])?;
        Ok(all.there.remove(0))
    }

    /// The adapters that these selectors mean. One that several of them mean is open several times, with an engine for each:
    /// replicas run side by side, and a device that is lost is one's alone.
    ///
    /// # Errors
    /// None of them is there.
    pub(crate) fn get_all(&self, selectors: &[Option<&str>]) -> Result<Used, AdapterError> {
        let mut all = Used::default();
        let mut first = None;
        for (place, selector) in selectors.iter().enumerate() {
            match Adapter::choose(*selector) {
                Ok(adapter) => {
                    let index = adapter.info().index;
                    let same = all.there.iter().filter(|one| one.info().index == index);
                    let before = same.count();
                    all.there.push(self.nth(adapter, before));
                }
                Err(error) => {
                    all.missing.push(MissingReplica {
                        place,
                        adapter: selector.unwrap_or_default().to_owned(),
                        reason: error.to_string(),
                    });
                    first.get_or_insert(error);
                }
            }
        }
        match first {
            Some(error) if all.there.is_empty() => Err(error),
            _ => Ok(all),
        }
    }

    /// An adapter, open as often before.
    fn nth(&self, adapter: Adapter, before: usize) -> Arc<UsedAdapter> {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        let index = adapter.info().index;
        let mut same = used.iter().filter(|used| used.info().index == index);
        let first = same.clone().next().cloned();
        if let Some(used) = same.nth(before) {
            return used.clone();
        }
        let available = || available_memory(adapter.info());
        let engine = match &first {
            // What its memory holds is of one budget.
            Some(first) => first.engine.start_beside(),
            None => Engine::start(EngineOptions {
                memory_budget: self.limits.memory.or_else(available).unwrap_or(u64::MAX),
                ..EngineOptions::default()
            }),
        };
        let new = Arc::new(UsedAdapter {
            adapter,
            device: Mutex::default(),
            engine,
        });
        used.push(new.clone());
        new
    }
}

/// What the replicas of a model run on.
#[derive(Clone, Default)]
pub(crate) struct Used {
    /// Those that are there, at least one.
    pub(crate) there: Vec<Arc<UsedAdapter>>,
    /// Those that are not.
    pub(crate) missing: Vec<MissingReplica>,
}

impl UsedAdapter {
    pub(crate) fn info(&self) -> &AdapterInfo {
        self.adapter.info()
    }

    /// The open device, and not one that was lost while nobody used it. `seen` is the opening that the caller used before:
    /// if that is still the newest, its device has failed the caller, and another is opened; whoever comes next takes the
    /// new one.
    pub(crate) fn device(&self, seen: &mut Option<u64>) -> Result<Gpu, LoadError> {
        let mut device = self.device.lock().unwrap_or_else(PoisonError::into_inner);
        if *seen == Some(device.opened) {
            device.open = None;
        }
        if let Some(reason) = device.open.as_ref().and_then(|gpu| gpu.loss()) {
            let adapter = self.info().name.as_str();
            tracing::warn!(adapter, reason, "device lost, it is opened again");
            device.open = None;
        }
        let gpu = match &device.open {
            Some(gpu) => gpu.clone(),
            None => {
                let gpu = Gpu::open(&self.adapter, DeviceOptions::default())?;
                device.open = Some(gpu.clone());
                device.opened += 1;
                gpu
            }
        };
        *seen = Some(device.opened);
        Ok(gpu)
    }
}
