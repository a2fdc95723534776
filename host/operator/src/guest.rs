//! One instance of a component in its store. A failed call leaves it unusable: it is dropped and another one made.

use tidegate_contract::Effects;
use tidegate_record::{BatchView, Excerpt, Layout, OutcomesView};
use wasmtime::Store;
use wasmtime::component::{ComponentExportIndex, ComponentNamedList, Func, Instance, Lift, Lower};

use crate::failure::Failure;
use crate::host::{Allowed, Host, arm, store};
use crate::limits::DESCRIPTION_BYTES;
use crate::meters::OUTCOMES;
use crate::metrics::{Measured, check_samples};
use crate::panics::caught;
use crate::revision::Revision;
use crate::world::arena::Arena;
use crate::world::plain::{WitAnswer, WitBatch};
use crate::world::version1::WitFailure;
use crate::world::{Handler, Said, version0_1, version1};

mod tokens;

use tokens::TokenFunctions;

type Answer0 = (Result<Vec<u8>, String>,);
type Answer1 = (Result<Vec<u8>, WitFailure>,);
type AnswerPlain = (Result<WitAnswer, WitFailure>,);

/// What a guest answered: outcomes that are checked, and what they cause beside.
pub(crate) struct Answered {
    pub(crate) outcomes: Vec<u8>,
    pub(crate) effects: Option<Box<dyn Effects>>,
}

pub(crate) struct Guest {
    store: Store<Host>,
    instance: Instance,
    process: Func,
    /// Those of its handler of tokens, if it exports one.
    tokens: Option<TokenFunctions>,
    output: usize,
    /// Outcomes of the last answer, by kind.
    kinds: [u64; OUTCOMES.len()],
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
            let exports = &revision.component.exports;
            let process = instance
                .get_func(&mut store, exports.process)
                .ok_or_else(|| wasmtime::format_err!("`process` is no function"))?;
            // Looked at once, so that a function of another type is known before it is called.
            match exports.handler {
                Handler::Packed => process.typed::<(Arena<'_>,), Answer1>(&store).map(drop),
                Handler::Plain => process
                    .typed::<(WitBatch<'_>,), AnswerPlain>(&store)
                    .map(drop),
                Handler::Version0_1 => process.typed::<(Arena<'_>,), Answer0>(&store).map(drop),
            }?;
            let tokens = exports
                .tokens
                .map(|exports| TokenFunctions::of(&mut store, &instance, exports))
                .transpose()?;
            Ok((instance, process, tokens))
        });
        let opened = opened.and_then(|opened| {
            store.data().in_time()?;
            Ok(opened)
        });
        match opened {
            Ok((instance, process, tokens)) => Ok(Guest {
                store,
                instance,
                process,
                tokens,
                output: limits.output,
                kinds: [0; OUTCOMES.len()],
            }),
            Err(error) => Err(Failure::start(&error, store.data().limiter.refused)
                .with_last_words(store.data().last_words())),
        }
    }

    /// Asks what the operator is. Strings and lists are measured before they are copied; this guest is of no other use.
    pub(crate) fn describe(
        &mut self,
        revision: &Revision,
    ) -> Result<Result<Said, String>, Failure> {
        self.output = DESCRIPTION_BYTES;
        self.store.set_hostcall_fuel(self.output);
        let (config, exports): (&str, _) = (&revision.config, &revision.component.exports);
        match exports.handler {
            Handler::Version0_1 => {
                let (said,): (version0_1::WitDescription,) =
                    self.prepare(revision, exports.describe, ())?;
                Ok(said.said())
            }
            Handler::Packed | Handler::Plain => {
                let (said,): (Result<version1::WitDescription, WitFailure>,) =
                    self.prepare(revision, exports.describe, (config,))?;
                said.map(|said| Ok(said.said()))
                    .map_err(|failure| self.said(failure.failure()))
            }
        }
    }

    pub(crate) fn init(&mut self, revision: &Revision) -> Result<(), Failure> {
        let (config, exports): (&str, _) = (&revision.config, &revision.component.exports);
        match exports.handler {
            Handler::Version0_1 => {
                let (result,): (Result<(), String>,) =
                    self.prepare(revision, exports.init, (config,))?;
                result.map_err(|text| self.said(Failure::answer(&text)))
            }
            Handler::Packed | Handler::Plain => {
                let (result,): (Result<(), WitFailure>,) =
                    self.prepare(revision, exports.init, (config,))?;
                result.map_err(|failure| self.said(failure.failure()))
            }
        }
    }

    /// Answers for a batch, of which it is given the fields that it reads; the answer is checked, within the deadline as
    /// well. `mark` is what a WASI guest's randomness is made of beside the clock.
    pub(crate) fn process(
        &mut self,
        revision: &Revision,
        batch: BatchView<'_>,
        mark: u64,
    ) -> Result<Answered, Failure> {
        self.store.data_mut().begin(batch.clock(), mark);
        arm(
            &mut self.store,
            Allowed::Batch(revision.context.limits.deadline),
        );
        let _running = revision.component.engine.inner.ticker.running();
        let reads = revision.description.version.reads;
        let (seed, handler) = (revision.batch_seed, revision.component.exports.handler);
        let arena = |layout| (Arena(Excerpt::new(batch, reads, layout, seed)),);
        let outcomes = match handler {
            Handler::Version0_1 => {
                let (answer,): Answer0 = self.invoke(self.process, arena(Layout::Version1))?;
                answer.map_err(|text| self.said(Failure::text_of(&text)))?
            }
            Handler::Packed => {
                let (answer,): Answer1 = self.invoke(self.process, arena(Layout::Version2))?;
                answer.map_err(|failure| self.said(failure.failure()))?
            }
            Handler::Plain => {
                let (answer,): AnswerPlain =
                    self.invoke(self.process, (WitBatch::of(batch, reads, seed),))?;
                let answer = answer.map_err(|failure| self.said(failure.failure()))?;
                let description = &revision.description;
                answer
                    .pack(&description.version.outputs, &description.metrics)
                    .map_err(|(record, why)| bad_answer(why, record, batch))?
            }
        };
        // What follows is linear in an answer whose length is bounded: it is enough to look at the clock before and after.
        self.in_time()?;
        let view = OutcomesView::parse(&outcomes, batch.len(), revision.outputs)
            .map_err(|error| bad_answer(error.to_string(), error.record(), batch))?;
        check_samples(&view, revision.metrics.declared())
            .map_err(|(record, why)| bad_answer(why, Some(record), batch))?;
        let effects = Measured::of(&revision.metrics, &view);
        self.kinds = view.kinds();
        self.in_time()?;
        Ok(Answered { outcomes, effects })
    }

    /// Calls a function of the guest. What a call may take is said before.
    fn invoke<Params, Return>(&mut self, function: Func, params: Params) -> Result<Return, Failure>
    where
        Params: ComponentNamedList + Lower,
        Return: ComponentNamedList + Lift + 'static,
    {
        caught(|| {
            function
                .typed::<Params, Return>(&self.store)
                .and_then(|function| function.call(&mut self.store, params))
        })
        .map_err(|panic| Failure::answer(&panic))?
        .map_err(|error| self.failure(&error))
    }

    /// A call that has no batch, within its time: there is no clock in it, and its chance is the same each time.
    fn call<Params, Return>(
        &mut self,
        revision: &Revision,
        allowed: Allowed,
        function: Func,
        params: Params,
    ) -> Result<Return, Failure>
    where
        Params: ComponentNamedList + Lower,
        Return: ComponentNamedList + Lift + 'static,
    {
        self.store.data_mut().begin(0, 0);
        arm(&mut self.store, allowed);
        let _running = revision.component.engine.inner.ticker.running();
        let answer = self.invoke(function, params)?;
        self.in_time()?;
        Ok(answer)
    }

    /// A call before any batch, of one of its exports.
    fn prepare<Params, Return>(
        &mut self,
        revision: &Revision,
        export: ComponentExportIndex,
        params: Params,
    ) -> Result<Return, Failure>
    where
        Params: ComponentNamedList + Lower,
        Return: ComponentNamedList + Lift + 'static,
    {
        let function = self.instance.get_func(&mut self.store, export);
        let function = function.ok_or_else(|| Failure::answer("an export is no function"))?;
        let allowed = Allowed::Start(revision.context.limits.init_deadline);
        self.call(revision, allowed, function, params)
    }

    /// Outcomes of the last answer, by kind.
    pub(crate) fn kinds(&self) -> [u64; OUTCOMES.len()] {
        self.kinds
    }

    /// Bytes of its linear memories.
    pub(crate) fn memory(&self) -> usize {
        self.store.data().limiter.memory()
    }

    /// What the last call has counted counts now: in the contract 0.1.0 that belongs to no record.
    pub(crate) fn settle(&mut self, revision: &Revision) {
        let pending = &mut self.store.data_mut().pending;
        if !pending.is_empty() {
            revision.metrics.count(std::mem::take(pending));
        }
    }

    /// Whether what the host has done for the running call is done in time, lifting its answer included.
    fn in_time(&self) -> Result<(), Failure> {
        self.store.data().in_time().map_err(Failure::late)
    }

    /// What the guest said of its failure, with what it logged and wrote to stderr before.
    fn said(&self, failure: Failure) -> Failure {
        failure.with_last_words(self.store.data().last_words())
    }

    fn failure(&self, error: &wasmtime::Error) -> Failure {
        let host = self.store.data();
        Failure::call(error, host.limiter.refused, self.output).with_last_words(host.last_words())
    }
}

/// An answer that is wrong, in the outcome of this record or as a whole. The record is named by its id: after a batch was
/// given in pieces its index says little.
fn bad_answer(why: String, record: Option<usize>, batch: BatchView<'_>) -> Failure {
    match record.and_then(|record| batch.get(record)) {
        Some(record) => Failure::answer(&format!("bad answer: {why} (record {})", record.id())),
        None => Failure::answer(&format!("bad answer: {why}")),
    }
}

#[cfg(test)]
mod tests;
