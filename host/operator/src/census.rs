//! What a component would make, counted before any of it is compiled: instances within instances multiply, so that a
//! kilobyte can ask for more than any machine has.

use wasmparser::{
    ComponentAlias, ComponentExternalKind, ComponentInstance, ComponentOuterAliasKind,
    ComponentTypeRef, Encoding, Instance, Parser, Payload,
};

use crate::limits::{COMPONENT_INSTANCES, CORE_INSTANCES, DEFINITIONS, MEMORIES, TABLES};

/// What one instance of a component, or of a core module, makes. Sums stop at the largest number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Census {
    core_instances: u64,
    component_instances: u64,
    memories: u64,
    tables: u64,
    /// Functions, globals, imports and the like: the host keeps a few bytes for each of them in every instance.
    definitions: u64,
}

impl Census {
    fn add(&mut self, other: Census) {
        let sum = |own: &mut u64, more: u64| *own = own.saturating_add(more);
        sum(&mut self.core_instances, other.core_instances);
        sum(&mut self.component_instances, other.component_instances);
        sum(&mut self.memories, other.memories);
        sum(&mut self.tables, other.tables);
        sum(&mut self.definitions, other.definitions);
    }

    fn define(&mut self, definitions: u32) {
        self.definitions = self.definitions.saturating_add(u64::from(definitions));
    }

    /// The first limit that is passed, with what was counted.
    fn check(&self) -> Result<(), String> {
        let counted = [
            ("core instances", self.core_instances, CORE_INSTANCES),
            (
                "component instances",
                self.component_instances,
                COMPONENT_INSTANCES,
            ),
            ("memories", self.memories, MEMORIES),
            ("tables", self.tables, TABLES),
            (
                "functions, globals and imports",
                self.definitions,
                DEFINITIONS,
            ),
        ];
        match counted.into_iter().find(|(_, count, limit)| count > limit) {
            Some((what, u64::MAX, limit)) => Err(format!(
                "an instance of it makes more {what} than can be counted, limit {limit}"
            )),
            Some((what, count, limit)) => Err(format!(
                "an instance of it makes {count} {what}, limit {limit}"
            )),
            None => Ok(()),
        }
    }
}

/// A component or core module that is being read. None in an index space is what only whoever instantiates it knows.
struct Scope {
    encoding: Encoding,
    makes: Census,
    modules: Vec<Option<Census>>,
    components: Vec<Option<Census>>,
}

/// Refuses a component that makes more than its limits. What is malformed passes: the compiler says it better.
pub(crate) fn check(component: &[u8]) -> Result<(), String> {
    let mut scopes: Vec<Scope> = Vec::new();
    for payload in Parser::new(0).parse_all(component) {
        let Ok(payload) = payload else { return Ok(()) };
        match payload {
            Payload::Version { encoding, .. } => scopes.push(Scope {
                encoding,
                makes: Census::default(),
                modules: Vec::new(),
                components: Vec::new(),
            }),
            Payload::End(_) => {
                let Some(done) = scopes.pop() else {
                    return Ok(());
                };
                let Some(around) = scopes.last_mut() else {
                    return done.makes.check();
                };
                match done.encoding {
                    Encoding::Component => around.components.push(Some(done.makes)),
                    Encoding::Module => around.modules.push(Some(Census {
                        core_instances: 1,
                        ..done.makes
                    })),
                }
            }
            other => {
                let read = count(&mut scopes, other);
                match read {
                    Ok(()) => {}
                    Err(Stop::Malformed) => return Ok(()),
                    Err(Stop::Refused(why)) => return Err(why),
                }
            }
        }
    }
    Ok(())
}

/// Why counting ends before the component does.
enum Stop {
    Malformed,
    Refused(String),
}

impl From<wasmparser::BinaryReaderError> for Stop {
    fn from(_: wasmparser::BinaryReaderError) -> Stop {
        Stop::Malformed
    }
}

fn count(scopes: &mut [Scope], payload: Payload<'_>) -> Result<(), Stop> {
    let Some((scope, around)) = scopes.split_last_mut() else {
        return Err(Stop::Malformed);
    };
    match payload {
        Payload::ImportSection(section) => scope.makes.define(section.count()),
        Payload::FunctionSection(section) => scope.makes.define(section.count()),
        Payload::GlobalSection(section) => scope.makes.define(section.count()),
        Payload::TagSection(section) => scope.makes.define(section.count()),
        Payload::ElementSection(section) => scope.makes.define(section.count()),
        Payload::DataSection(section) => scope.makes.define(section.count()),
        Payload::MemorySection(section) => scope.makes.memories += u64::from(section.count()),
        Payload::TableSection(section) => scope.makes.tables += u64::from(section.count()),
        Payload::ComponentCanonicalSection(section) => scope.makes.define(section.count()),
        Payload::InstanceSection(section) => {
            scope.makes.define(section.count());
            for instance in section {
                if let Instance::Instantiate { module_index, .. } = instance? {
                    let module = known(&scope.modules, module_index, "core module")?;
                    scope.makes.add(module);
                }
            }
        }
        Payload::ComponentInstanceSection(section) => {
            scope.makes.define(section.count());
            for instance in section {
                if let ComponentInstance::Instantiate {
                    component_index, ..
                } = instance?
                {
                    let component = known(&scope.components, component_index, "component")?;
                    scope.makes.add(component);
                    scope.makes.component_instances =
                        scope.makes.component_instances.saturating_add(1);
                }
            }
        }
        Payload::ComponentAliasSection(section) => {
            scope.makes.define(section.count());
            for alias in section {
                take_alias(scope, around, &alias?)?;
            }
        }
        Payload::ComponentImportSection(section) => {
            scope.makes.define(section.count());
            for import in section {
                match import?.ty {
                    ComponentTypeRef::Module(_) => scope.modules.push(None),
                    ComponentTypeRef::Component(_) => scope.components.push(None),
                    _ => {}
                }
            }
        }
        Payload::ComponentExportSection(section) => {
            scope.makes.define(section.count());
            for export in section {
                let export = export?;
                // An export is one more name of what it exports.
                match export.kind {
                    ComponentExternalKind::Module => {
                        let again = at(&scope.modules, export.index)?;
                        scope.modules.push(again);
                    }
                    ComponentExternalKind::Component => {
                        let again = at(&scope.components, export.index)?;
                        scope.components.push(again);
                    }
                    _ => {}
                }
            }
        }
        _ => {}
    }
    Ok(())
}

fn take_alias(scope: &mut Scope, around: &[Scope], alias: &ComponentAlias<'_>) -> Result<(), Stop> {
    match *alias {
        ComponentAlias::InstanceExport { kind, .. } => match kind {
            ComponentExternalKind::Module => scope.modules.push(None),
            ComponentExternalKind::Component => scope.components.push(None),
            _ => {}
        },
        ComponentAlias::Outer { kind, count, index } => {
            let outer = match count {
                0 => &*scope,
                _ => around
                    .len()
                    .checked_sub(count as usize)
                    .and_then(|index| around.get(index))
                    .ok_or(Stop::Malformed)?,
            };
            match kind {
                ComponentOuterAliasKind::CoreModule => {
                    let module = at(&outer.modules, index)?;
                    scope.modules.push(module);
                }
                ComponentOuterAliasKind::Component => {
                    let component = at(&outer.components, index)?;
                    scope.components.push(component);
                }
                _ => {}
            }
        }
        ComponentAlias::CoreInstanceExport { .. } => {}
    }
    Ok(())
}

fn at(space: &[Option<Census>], index: u32) -> Result<Option<Census>, Stop> {
    space.get(index as usize).copied().ok_or(Stop::Malformed)
}

fn known(space: &[Option<Census>], index: u32, what: &str) -> Result<Census, Stop> {
    at(space, index)?.ok_or_else(|| {
        Stop::Refused(format!(
            "it instantiates a {what} that it is given, so what an instance of it makes cannot be counted"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(text: &str) -> Result<(), String> {
        check(&wat::parse_str(text).unwrap())
    }

    #[test]
    fn what_nested_instances_make_is_multiplied() {
        let eight = |memories: usize| {
            let memories = "(memory 1)".repeat(memories);
            let instances = "(core instance (instantiate $m))".repeat(4);
            format!(
                "(component (component $c (core module $m {memories}) {instances})
                   (instance (instantiate $c)) (instance (instantiate $c)))"
            )
        };
        assert_eq!(checked(&eight(2)), Ok(()));
        assert_eq!(
            checked(&eight(3)).unwrap_err(),
            "an instance of it makes 24 memories, limit 16"
        );
    }

    #[test]
    fn a_kilobyte_that_doubles_at_each_level_is_refused_before_it_is_compiled() {
        let mut text =
            "(component (component $c0 (core module $m) (core instance (instantiate $m)))"
                .to_owned();
        for level in 1..70 {
            let below = level - 1;
            text += &format!(
                "(component $c{level} (alias outer 1 $c{below} (component $c))
                   (instance (instantiate $c)) (instance (instantiate $c)))"
            );
        }
        text += "(instance (instantiate $c69)))";
        let why = checked(&text).unwrap_err();
        assert_eq!(
            why,
            "an instance of it makes more core instances than can be counted, limit 256"
        );
    }

    #[test]
    fn a_module_that_is_given_and_instantiated_cannot_be_counted() {
        let why = checked(
            "(component
               (component $c (import \"m\" (core module $m)) (core instance (instantiate $m)))
               (core module $m)
               (instance (instantiate $c (with \"m\" (core module $m)))))",
        )
        .unwrap_err();
        assert!(
            why.contains("instantiates a core module that it is given"),
            "{why}"
        );
    }

    #[test]
    fn aliases_and_exports_name_what_they_stand_for() {
        let text = "(component
            (core module $one (memory 1))
            (core module $many (memory 9) )
            (component $c
              (alias outer 1 $many (core module $m))
              (export $again \"m\" (core module $m))
              (core instance (instantiate $again))
              (core instance (instantiate $m)))
            (instance (instantiate $c)))"
            .replace("(memory 9)", &"(memory 1)".repeat(9));
        assert_eq!(
            checked(&text).unwrap_err(),
            "an instance of it makes 18 memories, limit 16"
        );
    }

    #[test]
    fn what_is_malformed_is_left_to_the_compiler() {
        assert_eq!(check(b"\0asm\x0d\0\x01\0\x04"), Ok(()));
        assert_eq!(check(b""), Ok(()));
    }
}
