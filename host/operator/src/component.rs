//! From bytes to a component of the operator world: what it imports and exports is checked before anything of it runs.

use std::borrow::Cow;
use std::collections::HashSet;
use std::path::Path;
use std::time::Instant;

use tidegate_contract::OperatorError;
use tidegate_telemetry::plain;
use wasmtime::component::{InstancePre, Linker};

use crate::cache::Owner;
use crate::compiler::{Job, Refused, Task, most, parts, renewed};
use crate::engine::Engine;
use crate::failure::TEXT_BYTES;
use crate::given::Given;
use crate::grants::{Grants, Ungranted};
use crate::host::Host;
use crate::panics::caught;
use crate::ungranted;
use crate::world::{Exports, Import, exports, import};

const COMPONENT_VERSION: [u8; 4] = [0x0d, 0, 1, 0];
const MODULE_VERSION: [u8; 4] = [1, 0, 0, 0];
/// Longest name of an import that is kept, in bytes; all that can be granted are shorter.
const IMPORT_BYTES: usize = 256;

/// A compiled component that exports an operator. Nothing of it has run yet.
#[derive(Clone)]
pub struct Component {
    pub(crate) engine: Engine,
    pub(crate) compiled: wasmtime::component::Component,
    pub(crate) exports: Exports,
    label: String,
    digest: String,
    imports: Vec<String>,
    from_disk: bool,
}

/// A component that somebody wants to have compiled.
#[derive(Clone, Copy)]
pub(crate) struct Wanted<'a> {
    pub(crate) given: &'a Given<'a>,
    /// Names it in errors: usually its path.
    pub(crate) label: &'a str,
    /// What it will be granted: an import beyond that refuses it before it is compiled. None where that comes later.
    pub(crate) grants: Option<Grants>,
    /// The slot that it is for.
    pub(crate) slot: Option<&'a str>,
    /// Whether a stream runs beside it.
    pub(crate) beside: bool,
    /// When nobody waits for it any more.
    pub(crate) until: Option<Instant>,
}

impl<'a> Wanted<'a> {
    pub(crate) fn new(given: &'a Given<'a>, label: &'a str) -> Wanted<'a> {
        Wanted {
            given,
            label,
            grants: None,
            slot: None,
            beside: false,
            until: None,
        }
    }
}

impl Engine {
    /// Compiles a component, or takes it from disk if it was compiled before. A core module that carries its world
    /// (what `cargo build --target wasm32-unknown-unknown` makes with an SDK) is made a component first. `label` names
    /// it in errors: usually its path.
    ///
    /// What an instance of it would make (instances, memories, tables) is counted before it is compiled, and a
    /// component that makes more than its limits is refused.
    pub fn compile<'a>(
        &self,
        component: impl Into<Given<'a>>,
        label: &str,
    ) -> Result<Component, OperatorError> {
        self.compile_for(Wanted::new(&component.into(), label))
    }

    pub(crate) fn compile_for(&self, wanted: Wanted<'_>) -> Result<Component, OperatorError> {
        caught(|| self.compile_inner(wanted))
            .unwrap_or_else(|why| Err(does_not_compile(wanted.label, why)))
    }

    fn compile_inner(&self, wanted: Wanted<'_>) -> Result<Component, OperatorError> {
        let label = wanted.label;
        let digest = wanted.given.digest().to_owned();
        let owner = self.owner(wanted.slot);
        let (compiled, from_disk) = match self.load(&digest, owner.as_ref()) {
            Some(compiled) => (compiled, true),
            None => (self.build(wanted, &digest, owner.as_ref())?, false),
        };
        let exports =
            exports(&compiled, &self.inner.wasm).map_err(|why| not_an_operator(label, why))?;
        let imports = compiled
            .component_type()
            .imports(&self.inner.wasm)
            // A name that has to be escaped is none that could be granted.
            .map(|(name, _)| plain(name, IMPORT_BYTES).into_owned())
            // Types are no permission.
            .filter(|name| import(name) != Import::Own("types"))
            .collect();
        Ok(Component {
            engine: self.clone(),
            compiled,
            exports,
            label: label.to_owned(),
            digest,
            imports,
            from_disk,
        })
    }

    /// The component of a file: itself, or one made of a core module that carries its component type (as wit-bindgen
    /// leaves it in a custom section).
    pub fn componentize<'a>(
        &self,
        bytes: &'a [u8],
        label: &str,
    ) -> Result<Cow<'a, [u8]>, OperatorError> {
        self.encode_for(Wanted::new(&Given::from(bytes), label), bytes)
    }

    fn encode_for<'a>(
        &self,
        wanted: Wanted<'_>,
        bytes: &'a [u8],
    ) -> Result<Cow<'a, [u8]>, OperatorError> {
        if is_component(bytes, wanted.label)? {
            return Ok(Cow::Borrowed(bytes));
        }
        self.run(Job::Encode, wanted, bytes, b"").map(Cow::Owned)
    }

    fn load(&self, digest: &str, owner: Option<&Owner>) -> Option<wasmtime::component::Component> {
        let path = self.inner.cache.as_ref()?.find(digest, owner)?;
        self.map(&path)
            .inspect_err(|error| tracing::warn!(target: "tidegate::operator", digest, "a compiled component on disk is of no use: {error:#}"))
            .ok()
    }

    #[allow(unsafe_code)]
    fn map(&self, path: &Path) -> wasmtime::Result<wasmtime::component::Component> {
        // SAFETY: the file is an entry of a directory that only this user can write (checked when it was opened) and is,
        // by its mark or its checksum, what `Cache::store` was given: the output of a compiler with the same settings
        // for this digest. Entries are never written in place, only replaced, so what is mapped does not change.
        unsafe { wasmtime::component::Component::deserialize_file(&self.inner.wasm, path) }
    }

    #[allow(unsafe_code)]
    fn build(
        &self,
        wanted: Wanted<'_>,
        digest: &str,
        owner: Option<&Owner>,
    ) -> Result<wasmtime::component::Component, OperatorError> {
        let bytes = wanted.given.bytes(wanted.label)?;
        let component = self.encode_for(wanted, &bytes)?;
        crate::census::check(&component).map_err(|why| too_large(wanted.label, why))?;
        if let Some(grants) = wanted.grants {
            let imports: Vec<String> = tidegate_component::imports(&component)
                .map(|name| plain(name, IMPORT_BYTES).into_owned())
                .filter(|name| import(name) != Import::Own("types"))
                .collect();
            ungranted_of(&imports, grants, wanted.label)?;
        }
        let (artifact, knowing) = self.artifact(wanted, &component, owner)?;
        let stored = self.inner.cache.as_ref();
        let stored = stored.and_then(|cache| cache.store(digest, knowing, &artifact));
        // Where what was stored cannot be mapped (a file system without execution, an entry that another process took
        // away), what is at hand is as good.
        let mapped = stored.and_then(|path| {
            let mapped = self.map(&path);
            mapped
                .inspect_err(|error| tracing::warn!(target: "tidegate::operator", digest, "a compiled component on disk is of no use: {error:#}"))
                .ok()
        });
        let loaded = match mapped {
            Some(mapped) => Ok(mapped),
            // SAFETY: this is what the compiler has just written, for an engine with the same settings: `Engine::run`
            // gives them to it, and wasmtime compares them with its own.
            None => unsafe {
                wasmtime::component::Component::deserialize(&self.inner.wasm, &artifact)
            },
        };
        loaded.map_err(|error| does_not_compile(wanted.label, format!("{error:#}")))
    }

    /// The machine code of a component, and whose functions are in it: those that the owner has are not compiled again,
    /// and others are kept for the next time.
    fn artifact<'a>(
        &self,
        wanted: Wanted<'_>,
        component: &[u8],
        owner: Option<&'a Owner>,
    ) -> Result<(Vec<u8>, Option<&'a Owner>), OperatorError> {
        let alone = || self.run(Job::Compile, wanted, component, b"");
        let (Some(cache), Some(owner)) = (&self.inner.cache, owner) else {
            return Ok((alone()?, None));
        };
        let most = most(self.inner.compile);
        let known = cache.functions(owner, most);
        let other = || does_not_compile(wanted.label, "its compiler left something else".into());
        let made = self.run(Job::CompileKnowing, wanted, component, &known);
        let (artifact, report) = match made.and_then(|made| parts(made).ok_or_else(other)) {
            Ok(parts) => parts,
            Err(error) if known.is_empty() => return Err(error),
            Err(error) => {
                // If it compiles without, what is known is to blame.
                let artifact = alone()?;
                tracing::warn!(target: "tidegate::operator", component = wanted.label, "known functions are of no use and are forgotten: {error}");
                cache.forget_functions(owner);
                return Ok((artifact, None));
            }
        };
        if let Some(next) = renewed(&known, &report, most) {
            cache.keep_functions(owner, &next);
        }
        Ok((artifact, Some(owner).filter(|_| !known.is_empty())))
    }

    /// Has the bytes encoded or compiled.
    fn run(
        &self,
        job: Job,
        wanted: Wanted<'_>,
        bytes: &[u8],
        known: &[u8],
    ) -> Result<Vec<u8>, OperatorError> {
        let inner = &self.inner;
        let task = Task {
            bytes,
            known,
            label: wanted.label,
            beside: wanted.beside,
            gives_way: wanted.beside || inner.gives_way,
            until: wanted.until,
            works: &inner.works,
        };
        let engine = (&inner.wasm, inner.guarded);
        let made = inner
            .compiler
            .run(job, engine, inner.compile, &inner.turns, &task);
        made.map_err(|refused| match (refused, job) {
            (Refused::Said(why), Job::Encode) => not_an_operator(wanted.label, why),
            (Refused::Said(why), Job::Compile | Job::CompileKnowing) => {
                does_not_compile(wanted.label, why)
            }
            (Refused::Limit(why), _) => too_large(wanted.label, why),
            (Refused::Unable(why), _) => OperatorError::Engine(why),
        })
    }
}

impl Component {
    /// The name it was given: usually its path.
    pub fn label(&self) -> &str {
        &self.label
    }

    /// `sha256:` and 64 hexadecimal digits, of the file as it was given.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// Names of its imports: its permission list.
    pub fn imports(&self) -> &[String] {
        &self.imports
    }

    /// Whether it came from disk, compiled before.
    pub fn is_from_disk(&self) -> bool {
        self.from_disk
    }

    /// Links it with what it is granted.
    pub(crate) fn link(&self, grants: Grants) -> Result<InstancePre<Host>, OperatorError> {
        let ungranted = ungranted_of(&self.imports, grants, &self.label)?;
        let linked = || match ungranted.is_empty() {
            true => self.engine.inner.linker.instantiate_pre(&self.compiled),
            false => self.trapping(&ungranted)?.instantiate_pre(&self.compiled),
        };
        caught(linked)
            .and_then(|linked| linked.map_err(|error| format!("{error:#}")))
            .map_err(|why| not_an_operator(&self.label, format!("an import does not fit: {why}")))
    }

    /// A linker in which these imports trap.
    fn trapping(&self, ungranted: &HashSet<&str>) -> wasmtime::Result<Linker<Host>> {
        let mut linker = self.engine.inner.linker.clone();
        ungranted::link(
            &mut linker,
            &self.engine.inner.wasm,
            &self.compiled,
            ungranted,
        )?;
        Ok(linker)
    }
}

impl std::fmt::Debug for Component {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Component")
            .field("label", &self.label)
            .field("digest", &self.digest)
            .field("imports", &self.imports)
            .finish_non_exhaustive()
    }
}

/// Which imports are not granted and may trap instead; any other that is not granted is refused, by name.
fn ungranted_of<'a>(
    imports: &'a [String],
    grants: Grants,
    label: &str,
) -> Result<HashSet<&'a str>, OperatorError> {
    let mut ungranted = HashSet::new();
    for name in imports {
        let (granted, may_trap) = match import(name) {
            Import::Own(interface) => (grants.contains(interface), true),
            Import::Unknown(why) => return Err(not_an_operator(label, why)),
            Import::Other => (crate::wasi::is_inert(name), name.starts_with("wasi:")),
        };
        if granted {
            continue;
        }
        if !may_trap || grants.ungranted == Ungranted::Refuse {
            return Err(OperatorError::NotGranted {
                component: label.to_owned(),
                import: name.clone(),
                may_trap,
            });
        }
        ungranted.insert(name.as_str());
    }
    Ok(ungranted)
}

fn does_not_compile(label: &str, why: String) -> OperatorError {
    OperatorError::Compile {
        component: label.to_owned(),
        // Names of the component are in it.
        why: plain(&why, TEXT_BYTES).into_owned(),
    }
}

fn too_large(label: &str, why: String) -> OperatorError {
    OperatorError::TooLarge {
        component: label.to_owned(),
        why,
    }
}

fn not_an_operator(label: &str, why: String) -> OperatorError {
    OperatorError::NotAnOperator {
        component: label.to_owned(),
        // Names of the component are in it.
        why: plain(&why, TEXT_BYTES).into_owned(),
    }
}

/// Whether these are the bytes of a component, and not of a core module.
fn is_component(bytes: &[u8], label: &str) -> Result<bool, OperatorError> {
    match bytes.get(4..8).filter(|_| bytes.starts_with(b"\0asm")) {
        Some(version) if version == COMPONENT_VERSION => Ok(true),
        Some(version) if version == MODULE_VERSION => Ok(false),
        Some(version) => Err(not_an_operator(
            label,
            format!("unknown version of WebAssembly {version:02x?}"),
        )),
        None => Err(not_an_operator(
            label,
            "it does not begin like WebAssembly".into(),
        )),
    }
}
