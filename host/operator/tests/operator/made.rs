//! Operators of both worlds of 1.0.0 in text, of which a test replaces what it wants to be hostile.

use std::fmt::Write as _;

use crate::support::guest;

/// Where things are in the memory of such an operator: what `describe` answers, what `init` and `process` answer, the
/// schema, and 1 MiB of zeros after it.
pub(crate) const SCHEMA_AT: u32 = 4096;
pub(crate) const ZEROS_AT: u32 = 1 << 20;

/// A description in memory, as lists and strings that lie elsewhere.
pub(crate) struct Made {
    pub(crate) world: World,
    pub(crate) schema: String,
    /// Data segments beside the usual ones: place and bytes.
    pub(crate) data: Vec<(u32, Vec<u8>)>,
    /// Name, version, outputs, metrics, handlers, extensions: places and lengths in place of the usual ones.
    pub(crate) spans: Vec<(&'static str, u32, u32)>,
    /// Instructions at the beginning of a function.
    pub(crate) code: Vec<(&'static str, String)>,
    /// Beside the functions.
    pub(crate) fields: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum World {
    Packed,
    Plain,
}

pub(crate) const WORLDS: [World; 2] = [World::Packed, World::Plain];

impl Made {
    pub(crate) fn new(world: World) -> Made {
        Made {
            world,
            schema: "{}".into(),
            data: Vec::new(),
            spans: Vec::new(),
            code: Vec::new(),
            fields: String::new(),
        }
    }

    pub(crate) fn schema(mut self, schema: impl Into<String>) -> Made {
        self.schema = schema.into();
        self
    }

    pub(crate) fn data(mut self, at: u32, bytes: impl Into<Vec<u8>>) -> Made {
        self.data.push((at, bytes.into()));
        self
    }

    pub(crate) fn span(mut self, part: &'static str, at: u32, length: u32) -> Made {
        self.spans.push((part, at, length));
        self
    }

    pub(crate) fn code(mut self, function: &'static str, code: impl Into<String>) -> Made {
        self.code.push((function, code.into()));
        self
    }

    pub(crate) fn fields(mut self, fields: &str) -> Made {
        self.fields += fields;
        self
    }

    /// The core module with the component type of its world, which the host makes a component.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut module = wat::parse_str(self.text()).unwrap();
        module.extend(component_type(self.world));
        module
    }

    fn text(&self) -> String {
        let code = |function: &str| -> String {
            let parts = self.code.iter().filter(|(name, _)| *name == function);
            parts.map(|(_, code)| code.as_str()).collect()
        };
        let (interface, process) = match self.world {
            World::Packed => ("tidegate:operator/packed@1.0.0", PACKED),
            World::Plain => ("tidegate:operator/plain@1.0.0", PLAIN),
        };
        let mut data = String::new();
        let mut segment = |at: u32, bytes: &[u8]| {
            write!(data, "(data (i32.const {at}) \"").unwrap();
            for byte in bytes {
                write!(data, "\\{byte:02x}").unwrap();
            }
            data.push_str("\")\n");
        };
        segment(64, b"pass");
        segment(72, b"1.0.0");
        segment(128, &self.description());
        segment(SCHEMA_AT, self.schema.as_bytes());
        for (at, bytes) in &self.data {
            segment(*at, bytes);
        }
        format!(
            r#"(module
  (memory (export "memory") 64)
  (global $free (mut i32) (i32.const 2097152))
  (global $calls (mut i32) (i32.const 0))
  {data}
  {fields}
  (func $realloc (export "cabi_realloc") (param $old i32) (param $had i32) (param $align i32) (param $size i32)
    (result i32) (local $at i32)
    {realloc}
    (local.set $at (i32.and (i32.add (global.get $free) (i32.const 15)) (i32.const -16)))
    (global.set $free (i32.add (local.get $at) (local.get $size)))
    (local.get $at))
  (func (export "{interface}#describe") (param i32 i32) (result i32)
    {describe}
    (global.set $free (i32.const 2097152))
    (i32.const 128))
  (func (export "cabi_post_{interface}#describe") (param i32) {post_describe})
  (func (export "{interface}#init") (param i32 i32) (result i32)
    {init}
    (global.set $calls (i32.const 1))
    (global.set $free (i32.const 2097152))
    (i32.const 512))
  (func (export "cabi_post_{interface}#init") (param i32) {post_init})
  {process}
  (func (export "cabi_post_{interface}#process") (param i32) {post_process})
)"#,
            fields = self.fields,
            realloc = code("realloc"),
            describe = code("describe"),
            init = code("init"),
            process = process.replace(";; CODE", &code("process")),
            post_describe = code("post-describe"),
            post_init = code("post-init"),
            post_process = code("post-process"),
        )
    }

    /// `result<description, failure>` as it lies in memory.
    fn description(&self) -> Vec<u8> {
        let span = |part: &str, at: u32, length: u32| -> Vec<u8> {
            let other = self.spans.iter().find(|(name, _, _)| *name == part);
            let (at, length) = other.map_or((at, length), |(_, at, length)| (*at, *length));
            [at.to_le_bytes(), length.to_le_bytes()].concat()
        };
        [
            vec![0; 4],
            span("name", 64, 4),
            span("version", 72, 5),
            span("schema", SCHEMA_AT, self.schema.len() as u32),
            vec![15, 0, 0, 0],
            span("outputs", 0, 0),
            span("metrics", 0, 0),
            span("handlers", 0, 0),
            span("extensions", 0, 0),
        ]
        .concat()
    }
}

/// Every record passes.
const PACKED: &str = r#"
  (func (export "tidegate:operator/packed@1.0.0#process") (param $batch i32) (param $length i32) (result i32)
    (local $count i32) (local $at i32)
    (local.set $count (i32.load offset=16 (local.get $batch)))
    (local.set $at (i32.const 1048576))
    (i32.store (local.get $at) (i32.const 0x024f4754))
    (i32.store offset=4 (local.get $at) (i32.add (i32.const 40) (local.get $count)))
    (i32.store offset=8 (local.get $at) (i32.const 40))
    (i32.store offset=16 (local.get $at) (local.get $count))
    (i32.store offset=20 (local.get $at) (i32.const 40))
    (i32.store offset=24 (local.get $at) (i32.add (i32.const 40) (local.get $count)))
    (i32.store (i32.const 516) (local.get $at))
    (i32.store (i32.const 520) (i32.add (i32.const 40) (local.get $count)))
    ;; CODE
    (global.set $free (i32.const 2097152))
    (i32.const 512))"#;

/// An outcome has 80 bytes, which are zero for one that passes.
const PLAIN: &str = r#"
  (func (export "tidegate:operator/plain@1.0.0#process")
    (param $clock i64) (param $seed i64) (param $more i64) (param $batch i32) (param $count i32) (result i32)
    (i32.store (i32.const 516) (i32.const 1048576))
    (i32.store (i32.const 520) (local.get $count))
    ;; CODE
    (global.set $free (i32.const 2097152))
    (i32.const 512))"#;

/// The custom section that tells the world of a core module, from a guest of that world.
fn component_type(world: World) -> Vec<u8> {
    let module = guest(match world {
        World::Packed => "hostile",
        World::Plain => "plain",
    });
    let number = |at: &mut usize| -> usize {
        let (mut value, mut shift) = (0, 0);
        loop {
            let byte = module[*at];
            *at += 1;
            value |= usize::from(byte & 127) << shift;
            shift += 7;
            if byte < 128 {
                return value;
            }
        }
    };
    let mut at = 8;
    while at < module.len() {
        let start = at;
        let kind = module[at];
        at += 1;
        let length = number(&mut at);
        let end = at + length;
        let name_length = number(&mut at);
        if kind == 0 && module[at..at + name_length].starts_with(b"component-type") {
            return module[start..end].to_vec();
        }
        at = end;
    }
    panic!("a guest without a component type");
}
