//! One instance of a component in its store. A failed call leaves it unusable: it is dropped and another one made.

use std::time::Duration;

use wasmtime::Store;
use wasmtime::component::{ComponentExportIndex, ComponentNamedList, Func, Instance, Lift, Lower};

use crate::failure::Failure;
use crate::host::{Host, WitDescription, arm, store};
use crate::plan::Plan;
use crate::ticker::Ticker;

type Answer = (Result<Vec<u8>, String>,);

pub(crate) struct Guest {
    store: Store<Host>,
    instance: Instance,
    process: Func,
    output: usize,
}

impl Guest {
    /// Instantiates; nothing of the operator's interface has been called yet.
    pub(crate) fn open(plan: &Plan) -> Result<Guest, Failure> {
        let (engine, limits) = (&plan.component.engine.inner, &plan.place.limits);
        let mut store = store(&engine.wasm, plan.host(), limits);
        arm(&mut store, limits.init_deadline);
        let made = {
            let _running = engine.ticker.running();
            plan.pre.instantiate(&mut store)
        };
        let opened = made.and_then(|instance| {
            let process = plan.component.exports.process;
            let typed = instance.get_typed_func::<(&[u8],), Answer>(&mut store, process)?;
            Ok((instance, *typed.func()))
        });
        match opened {
            Ok((instance, process)) => Ok(Guest {
                store,
                instance,
                process,
                output: limits.output,
            }),
            Err(error) => Err(Failure::start(&error, store.data().limiter.refused)),
        }
    }

    pub(crate) fn describe(&mut self, plan: &Plan) -> Result<WitDescription, Failure> {
        let (description,) = self.call(plan, plan.component.exports.describe, ())?;
        Ok(description)
    }

    pub(crate) fn init(&mut self, plan: &Plan) -> Result<(), Failure> {
        let config: &str = &plan.config;
        let (result,): (Result<(), String>,) =
            self.call(plan, plan.component.exports.init, (config,))?;
        result.map_err(Failure::answer)
    }

    /// Answers for a batch arena. `clock` and `mark` are what a WASI guest's clocks and randomness are made of.
    pub(crate) fn process(
        &mut self,
        ticker: &Ticker,
        arena: &[u8],
        (clock, mark): (i64, u64),
        allowed: Duration,
    ) -> Result<Vec<u8>, Failure> {
        self.store.data_mut().begin(clock, mark);
        arm(&mut self.store, allowed);
        let _running = ticker.running();
        let answer = self
            .process
            .typed::<(&[u8],), Answer>(&self.store)
            .and_then(|process| process.call(&mut self.store, (arena,)));
        match answer {
            Ok((Ok(outcomes),)) => Ok(outcomes),
            Ok((Err(text),)) => Err(Failure::answer(format!("operator error: {text}"))),
            Err(error) => Err(self.failure(&error)),
        }
    }

    /// What the last call has counted counts now.
    pub(crate) fn settle(&mut self) {
        let host = self.store.data_mut();
        if !host.pending.is_empty() {
            host.shared.count(&mut host.pending);
        }
    }

    fn call<Params, Return>(
        &mut self,
        plan: &Plan,
        function: ComponentExportIndex,
        params: Params,
    ) -> Result<Return, Failure>
    where
        Params: ComponentNamedList + Lower,
        Return: ComponentNamedList + Lift + 'static,
    {
        self.store.data_mut().begin(0, 0);
        arm(&mut self.store, plan.place.limits.init_deadline);
        let _running = plan.component.engine.inner.ticker.running();
        self.instance
            .get_typed_func::<Params, Return>(&mut self.store, function)
            .and_then(|function| function.call(&mut self.store, params))
            .map_err(|error| self.failure(&error))
    }

    fn failure(&self, error: &wasmtime::Error) -> Failure {
        Failure::call(error, self.store.data().limiter.refused, self.output)
    }
}
