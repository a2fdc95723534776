//! One instance of a component in its store. A failed call leaves it unusable: it is dropped and another one made.

use tidegate_record::OutcomesView;
use wasmtime::Store;
use wasmtime::component::{ComponentExportIndex, ComponentNamedList, Func, Instance, Lift, Lower};

use crate::failure::Failure;
use crate::host::{Allowed, Host, WitDescription, arm, store};
use crate::limits::DESCRIPTION_BYTES;
use crate::panics::caught;
use crate::revision::Revision;

type Answer = (Result<Vec<u8>, String>,);

pub(crate) struct Guest {
    store: Store<Host>,
    instance: Instance,
    process: Func,
    output: usize,
}

impl Guest {
    /// Instantiates; nothing of the operator's interface has been called yet.
    pub(crate) fn open(revision: &Revision) -> Result<Guest, Failure> {
        let (engine, limits) = (&revision.component.engine.inner, &revision.context.limits);
        let mut store = store(&engine.wasm, revision.host(), limits);
        arm(&mut store, Allowed::Start(limits.init_deadline));
        let made = {
            let _running = engine.ticker.running();
            caught(|| revision.pre.instantiate(&mut store))
                .map_err(|panic| Failure::answer(&panic))?
        };
        let opened = made.and_then(|instance| {
            let process = revision.component.exports.process;
            let typed = instance.get_typed_func::<(&[u8],), Answer>(&mut store, process)?;
            Ok((instance, *typed.func()))
        });
        let opened = opened.and_then(|opened| {
            store.data().in_time()?;
            Ok(opened)
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

    /// Asks what the operator is. Strings and lists are measured before they are copied; this guest is of no other use.
    pub(crate) fn describe(&mut self, revision: &Revision) -> Result<WitDescription, Failure> {
        self.output = DESCRIPTION_BYTES;
        self.store.set_hostcall_fuel(self.output);
        let (description,) = self.call(revision, revision.component.exports.describe, ())?;
        Ok(description)
    }

    pub(crate) fn init(&mut self, revision: &Revision) -> Result<(), Failure> {
        let config: &str = &revision.config;
        let (result,): (Result<(), String>,) =
            self.call(revision, revision.component.exports.init, (config,))?;
        result.map_err(|text| Failure::answer(&text))
    }

    /// Answers for a batch arena of so many records; the answer is checked, within the deadline as well. `clock` and
    /// `mark` are what a WASI guest's clocks and randomness are made of.
    pub(crate) fn process(
        &mut self,
        revision: &Revision,
        arena: &[u8],
        records: usize,
        (clock, mark): (i64, u64),
    ) -> Result<Vec<u8>, Failure> {
        self.store.data_mut().begin(clock, mark);
        arm(
            &mut self.store,
            Allowed::Batch(revision.context.limits.deadline),
        );
        let _running = revision.component.engine.inner.ticker.running();
        let answer = caught(|| {
            self.process
                .typed::<(&[u8],), Answer>(&self.store)
                .and_then(|process| process.call(&mut self.store, (arena,)))
        })
        .map_err(|panic| Failure::answer(&panic))?;
        let outcomes = match answer {
            Ok((Ok(outcomes),)) => outcomes,
            Ok((Err(text),)) => return Err(Failure::said(&text)),
            Err(error) => return Err(self.failure(&error)),
        };
        // What follows is linear in an answer whose length is bounded: it is enough to look at the clock before and after.
        self.in_time()?;
        OutcomesView::parse(&outcomes, records, revision.outputs)
            .map_err(|error| Failure::answer(&format!("bad answer: {error}")))?;
        self.in_time()?;
        Ok(outcomes)
    }

    /// What the last call has counted counts now.
    pub(crate) fn settle(&mut self) {
        let host = self.store.data_mut();
        if !host.pending.is_empty() {
            host.shared.count(std::mem::take(&mut host.pending));
        }
    }

    fn call<Params, Return>(
        &mut self,
        revision: &Revision,
        function: ComponentExportIndex,
        params: Params,
    ) -> Result<Return, Failure>
    where
        Params: ComponentNamedList + Lower,
        Return: ComponentNamedList + Lift + 'static,
    {
        self.store.data_mut().begin(0, 0);
        arm(
            &mut self.store,
            Allowed::Start(revision.context.limits.init_deadline),
        );
        let _running = revision.component.engine.inner.ticker.running();
        let answer = caught(|| {
            self.instance
                .get_typed_func::<Params, Return>(&mut self.store, function)
                .and_then(|function| function.call(&mut self.store, params))
        })
        .map_err(|panic| Failure::answer(&panic))?
        .map_err(|error| self.failure(&error))?;
        self.in_time()?;
        Ok(answer)
    }

    /// Whether what the host has done for the running call is done in time, lifting its answer included.
    fn in_time(&self) -> Result<(), Failure> {
        self.store.data().in_time().map_err(Failure::late)
    }

    fn failure(&self, error: &wasmtime::Error) -> Failure {
        Failure::call(error, self.store.data().limiter.refused, self.output)
    }
}
