//! From bytes to a component of the operator world: what it imports and exports is checked before anything of it runs.

use std::borrow::Cow;
use std::collections::HashSet;

use sha2::{Digest, Sha256};
use tidegate_contract::OperatorError;
use tidegate_telemetry::plain;
use wasi_preview1_component_adapter_provider::{
    WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME, WASI_SNAPSHOT_PREVIEW1_REACTOR_ADAPTER,
};
use wasmtime::component::{InstancePre, Linker};

use crate::cache::hex;
use crate::engine::Engine;
use crate::failure::TEXT_BYTES;
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

impl Engine {
    /// Compiles a component, or takes it from disk if it was compiled before. A core module that carries its world
    /// (what `cargo build --target wasm32-unknown-unknown` makes with an SDK) is made a component first. `label` names
    /// it in errors: usually its path.
    ///
    /// What an instance of it would make (instances, memories, tables) is counted before it is compiled, and a
    /// component that makes more than its limits is refused.
    pub fn compile(&self, bytes: &[u8], label: &str) -> Result<Component, OperatorError> {
        caught(|| self.compile_inner(bytes, label))
            .unwrap_or_else(|why| Err(does_not_compile(label, why)))
    }

    fn compile_inner(&self, bytes: &[u8], label: &str) -> Result<Component, OperatorError> {
        let digest = digest(bytes);
        // Also of one that is on disk: it may have been compiled when it was allowed more.
        let component = componentize(bytes, label)?;
        crate::census::check(&component).map_err(|why| OperatorError::TooLarge {
            component: label.to_owned(),
            why,
        })?;
        let (compiled, from_disk) = match self.load(&digest) {
            Some(compiled) => (compiled, true),
            None => (self.build(&component, label, &digest)?, false),
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

    #[allow(unsafe_code)]
    fn load(&self, digest: &str) -> Option<wasmtime::component::Component> {
        let artifact = self.inner.cache.as_ref()?.load(digest)?;
        // SAFETY: the artifact comes from a directory that only this user can write (checked when it was opened) and
        // is, by its checksum, what `Cache::store` was given: the output of `Component::serialize` for this digest by
        // an engine with the same compatibility hash.
        let compiled =
            unsafe { wasmtime::component::Component::deserialize(&self.inner.wasm, artifact) };
        compiled
            .inspect_err(|error| tracing::warn!(target: "tidegate::operator", digest, "a compiled component on disk is of no use: {error:#}"))
            .ok()
    }

    fn build(
        &self,
        component: &[u8],
        label: &str,
        digest: &str,
    ) -> Result<wasmtime::component::Component, OperatorError> {
        let compiled = wasmtime::component::Component::from_binary(&self.inner.wasm, component)
            .map_err(|error| {
                does_not_compile(label, plain(&format!("{error:#}"), TEXT_BYTES).into_owned())
            })?;
        if let Some(cache) = &self.inner.cache {
            match compiled.serialize() {
                Ok(artifact) => cache.store(digest, &artifact),
                Err(error) => {
                    tracing::warn!(target: "tidegate::operator", digest, "a compiled component was not kept: {error:#}")
                }
            }
        }
        Ok(compiled)
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
        let mut ungranted = HashSet::new();
        for name in &self.imports {
            let (granted, may_trap) = match import(name) {
                Import::Own(interface) => (grants.contains(interface), true),
                Import::Unknown(why) => return Err(not_an_operator(&self.label, why)),
                Import::Other => (crate::wasi::is_inert(name), name.starts_with("wasi:")),
            };
            if granted {
                continue;
            }
            if !may_trap || grants.ungranted == Ungranted::Refuse {
                return Err(OperatorError::NotGranted {
                    component: self.label.clone(),
                    import: name.clone(),
                    may_trap,
                });
            }
            ungranted.insert(name.as_str());
        }
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

fn does_not_compile(label: &str, why: String) -> OperatorError {
    OperatorError::Compile {
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

/// The digest by which a component is known: `sha256:` and 64 hexadecimal digits, of the file as it is.
pub fn digest(bytes: &[u8]) -> String {
    format!("sha256:{}", hex(&Sha256::digest(bytes)))
}

/// The component of a file: itself, or one made of a core module that carries its component type (as wit-bindgen leaves
/// it in a custom section). What the module imports of WASI preview 1 is taken to WASI 0.2 by an adapter within it.
pub fn componentize<'a>(bytes: &'a [u8], label: &str) -> Result<Cow<'a, [u8]>, OperatorError> {
    match bytes.get(4..8).filter(|_| bytes.starts_with(b"\0asm")) {
        Some(version) if version == COMPONENT_VERSION => Ok(Cow::Borrowed(bytes)),
        Some(version) if version == MODULE_VERSION => caught(|| encode(bytes))
            .and_then(|encoded| encoded)
            .map(Cow::Owned)
            .map_err(|why| not_an_operator(label, why)),
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

fn encode(module: &[u8]) -> Result<Vec<u8>, String> {
    // The encoder takes a well-formed module for granted and panics on one that is cut short.
    wasmparser::Validator::new_with_features(wasmparser::WasmFeatures::all())
        .validate_all(module)
        .map_err(|error| format!("the core module is malformed: {error}"))?;
    let made = || {
        let mut encoder = wit_component::ComponentEncoder::default()
            .validate(true)
            .module(module)?;
        if imports_preview1(module) {
            encoder = encoder.adapter(
                WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME,
                WASI_SNAPSHOT_PREVIEW1_REACTOR_ADAPTER,
            )?;
        }
        encoder.encode()
    };
    made().map_err(|error| format!("the core module cannot be made a component: {error:#}"))
}

/// Whether a well-formed module is one for WASI preview 1.
fn imports_preview1(module: &[u8]) -> bool {
    let is_preview1 = |import: wasmparser::Result<wasmparser::Import<'_>>| {
        import.is_ok_and(|import| import.module == WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME)
    };
    let mut payloads = wasmparser::Parser::new(0).parse_all(module);
    payloads.any(|payload| match payload {
        Ok(wasmparser::Payload::ImportSection(section)) => section.into_imports().any(is_preview1),
        _ => false,
    })
}
