//! Bank conflicts of workgroup memory: which words the lanes of a subgroup ask for at once; and which lines of a buffer.
//!
//! A kernel's text is followed for each of 32 lanes as far as whole numbers go that depend on the lane alone: indices into
//! workgroup memory mostly do. Loops are gone through once; where it depends on data whether a branch is taken, it is. What stays
//! unknown is left out.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use naga::{
    AddressSpace, BinaryOperator, Binding, Block, BuiltIn, EntryPoint, Expression, Function,
    GlobalVariable, Handle, Literal, LocalVariable, Module, ScalarKind, Statement,
    SwizzleComponent, Type, TypeInner,
};

/// Lanes that ask at once, banks, and bytes of a bank's word: NVIDIA's and AMD's.
const LANES: i64 = 32;
const BANKS: i64 = 32;
const WORD: i64 = 4;

/// What buffers of a kernel hold, word by word, by the names that they have in its text: enough to follow where it reads.
type Held = HashMap<&'static str, Vec<u32>>;

/// Reads of a buffer by the lanes of a subgroup.
#[cfg(test)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Lines {
    /// Lines of 128 bytes that they ask for.
    pub(super) asked: usize,
    /// As many as would do for as many bytes.
    pub(super) least: usize,
}

/// The lines of buffer `of` that the first 32 lanes of the first workgroup ask for, each read of its text counted once.
#[cfg(test)]
pub(super) fn lines(module: &Module, held: &Held, of: &str) -> Lines {
    const LINE: i64 = 128;
    let Some(main) = module.entry_points.first() else {
        return Lines::default();
    };
    let mut reads: HashMap<(Place, usize), Vec<Access>> = HashMap::new();
    for lane in 0..LANES {
        let walk = walk_of(module, main, lane, held);
        let mut turns: HashMap<Place, usize> = HashMap::new();
        for (name, place, access) in walk.read {
            if name == of {
                let turn = turns.entry(place).or_default();
                reads.entry((place, *turn)).or_default().push(access);
                *turn += 1;
            }
        }
    }
    let mut all = Lines::default();
    for accesses in reads.values() {
        let of_access = |of: &Access| of.at / LINE..=(of.at + of.bytes - 1) / LINE;
        let lines: HashSet<i64> = accesses.iter().flat_map(of_access).collect();
        let bytes: HashSet<i64> = accesses
            .iter()
            .flat_map(|of| of.at..of.at + of.bytes)
            .collect();
        all.asked += lines.len();
        all.least += bytes.len().div_ceil(LINE as usize);
    }
    all
}

/// The way of a lane.
fn walk_of<'a>(module: &'a Module, main: &'a EntryPoint, lane: i64, held: &'a Held) -> Walk<'a> {
    let all: u32 = main.workgroup_size.iter().product();
    let mut walk = Walk {
        module,
        private: HashMap::new(),
        calls: 0,
        accesses: Vec::new(),
        held,
        read: Vec::new(),
    };
    let arguments = main.function.arguments.iter();
    let arguments = arguments.map(|argument| {
        let binding = argument.binding.as_ref();
        builtin(module, binding, argument.ty, lane, i64::from(all))
    });
    walk.function(&main.function, 0, arguments.collect());
    walk
}

/// The most words of one bank that lanes ask for at once anywhere in a kernel: 1 where there is no conflict or no workgroup memory.
/// Lanes that ask for 8 or 16 bytes do so half or a quarter of them at a time.
pub(super) fn conflicts(module: &Module) -> u32 {
    let Some(main) = module.entry_points.first() else {
        return 1;
    };
    let held = Held::new();
    let mut accesses: HashMap<Place, Vec<(i64, Access)>> = HashMap::new();
    let all: u32 = main.workgroup_size.iter().product();
    for lane in 0..LANES.min(i64::from(all)) {
        for (key, access) in walk_of(module, main, lane, &held).accesses {
            accesses.entry(key).or_default().push((lane, access));
        }
    }
    accesses.values().map(|of| ways(of)).max().unwrap_or(1)
}

/// Bytes of workgroup memory that a lane asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Access {
    at: i64,
    bytes: i64,
}

/// The most different words of one bank among lanes that ask at once.
fn ways(accesses: &[(i64, Access)]) -> u32 {
    let bytes = accesses.iter().map(|of| of.1.bytes).max().unwrap_or(WORD);
    // A bank gives a word at a time: of 16 bytes each, 8 lanes fill them all.
    let together = (LANES * WORD / bytes.max(WORD)).max(1);
    let mut phases: HashMap<i64, HashMap<i64, HashSet<i64>>> = HashMap::new();
    for (lane, access) in accesses {
        let banks = phases.entry(lane / together).or_default();
        for word in access.at / WORD..(access.at + access.bytes + WORD - 1) / WORD {
            banks
                .entry(word.rem_euclid(BANKS))
                .or_default()
                .insert(word);
        }
    }
    let banks = phases.values().flat_map(HashMap::values);
    banks.map(HashSet::len).max().unwrap_or(1) as u32
}

/// What an entry point is given.
fn builtin(
    module: &Module,
    binding: Option<&Binding>,
    ty: Handle<Type>,
    lane: i64,
    lanes: i64,
) -> Value {
    if let TypeInner::Struct { members, .. } = &module.types[ty].inner {
        let members = members.iter().map(|member| {
            let binding = member.binding.as_ref();
            builtin(module, binding, member.ty, lane, lanes)
        });
        return Value::Many(members.collect());
    }
    match binding {
        Some(Binding::BuiltIn(builtin)) => match builtin {
            BuiltIn::LocalInvocationIndex | BuiltIn::SubgroupInvocationId => Value::Int(lane),
            BuiltIn::LocalInvocationId => {
                Value::Many(vec![Value::Int(lane), Value::Int(0), Value::Int(0)])
            }
            BuiltIn::WorkGroupId => Value::Many(vec![Value::Int(0); 3]),
            BuiltIn::SubgroupId => Value::Int(0),
            BuiltIn::SubgroupSize => Value::Int(LANES),
            BuiltIn::NumSubgroups => Value::Int((lanes + LANES - 1) / LANES),
            _ => Value::Unknown,
        },
        _ => Value::Unknown,
    }
}

/// What is known of an expression.
#[derive(Clone, Debug, PartialEq)]
enum Value {
    Unknown,
    /// A whole number, or whether something is so.
    Int(i64),
    /// Of a vector or a structure, each part.
    Many(Vec<Value>),
    /// Of a call of a function, a variable.
    Local(usize, Handle<LocalVariable>),
    Private(Handle<GlobalVariable>),
    /// A place in workgroup memory, if it is known, and what lies there.
    Shared(Option<i64>, Inner),
    /// The same in a buffer.
    Buffer(Handle<GlobalVariable>, Option<i64>, Inner),
}

/// What lies somewhere: a type, or a part of a vector.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Inner {
    Type(Handle<Type>),
    Scalar(i64),
}

impl Value {
    fn int(&self) -> Option<i64> {
        match self {
            Value::Int(value) => Some(*value),
            _ => None,
        }
    }
}

/// Whether what follows a statement is come to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Flow {
    On,
    Away,
}

/// The way of one lane.
struct Walk<'a> {
    module: &'a Module,
    private: HashMap<Handle<GlobalVariable>, Value>,
    calls: usize,
    accesses: Vec<(Place, Access)>,
    /// What buffers hold.
    held: &'a Held,
    /// What is read of other buffers, by their names.
    read: Vec<(&'a str, Place, Access)>,
}

/// Where memory is asked for: the calls that led there, and the expression or statement.
type Place = (u64, usize);

/// A function while it is gone through.
struct Frame<'a> {
    function: &'a Function,
    /// Of the calls that led here.
    path: u64,
    /// Which call this is.
    call: usize,
    arguments: Vec<Value>,
    locals: HashMap<Handle<LocalVariable>, Value>,
    values: HashMap<Handle<Expression>, Value>,
    /// What it gives back, as far as it is known.
    returned: Option<Value>,
}

impl<'a> Walk<'a> {
    /// Goes through a function, and says what it gives back.
    fn function(&mut self, function: &'a Function, path: u64, arguments: Vec<Value>) -> Value {
        self.calls += 1;
        let mut frame = Frame {
            function,
            path,
            call: self.calls,
            arguments,
            locals: HashMap::new(),
            values: HashMap::new(),
            returned: None,
        };
        for (local, variable) in function.local_variables.iter() {
            if let Some(init) = variable.init {
                let value = self.value(&mut frame, init);
                frame.locals.insert(local, value);
            }
        }
        self.block(&mut frame, &function.body);
        frame.returned.unwrap_or(Value::Unknown)
    }

    fn block(&mut self, frame: &mut Frame<'a>, block: &'a Block) -> Flow {
        for statement in block {
            if self.statement(frame, statement) == Flow::Away {
                return Flow::Away;
            }
        }
        Flow::On
    }

    fn statement(&mut self, frame: &mut Frame<'a>, statement: &'a Statement) -> Flow {
        match statement {
            Statement::Emit(range) => {
                for expression in range.clone() {
                    // What was computed before, in a loop or by a branch, is computed anew.
                    frame.values.remove(&expression);
                    self.value(frame, expression);
                }
            }
            Statement::Block(block) => return self.block(frame, block),
            Statement::If {
                condition,
                accept,
                reject,
            } => match self.value(frame, *condition).int() {
                Some(0) => return self.block(frame, reject),
                Some(_) => return self.block(frame, accept),
                None => {
                    // A way out that data decides on is not taken.
                    let accepted = self.block(frame, accept);
                    let rejected = self.block(frame, reject);
                    if accepted == Flow::Away && rejected == Flow::Away {
                        return Flow::Away;
                    }
                }
            },
            Statement::Switch { cases, .. } => {
                for case in cases {
                    self.block(frame, &case.body);
                }
            }
            Statement::Loop {
                body, continuing, ..
            } => {
                self.block(frame, body);
                self.block(frame, continuing);
            }
            Statement::Return { value } => {
                let value = match value {
                    Some(value) => self.value(frame, *value),
                    None => Value::Unknown,
                };
                // Where data decides which of several it is, none is known.
                let same = frame.returned.as_ref().is_none_or(|known| *known == value);
                frame.returned = Some(if same { value } else { Value::Unknown });
                return Flow::Away;
            }
            Statement::Break | Statement::Continue | Statement::Kill => {
                return Flow::Away;
            }
            Statement::Store { pointer, value } => {
                let value = self.value(frame, *value);
                match self.value(frame, *pointer) {
                    Value::Local(call, local) if call == frame.call => {
                        frame.locals.insert(local, value);
                    }
                    Value::Private(global) => {
                        self.private.insert(global, value);
                    }
                    Value::Shared(at, inner) => {
                        self.access(frame, usize::MAX - pointer.index(), at, inner);
                    }
                    _ => {}
                }
            }
            Statement::Call {
                function,
                arguments,
                result,
            } => {
                let arguments = arguments.iter().map(|of| self.value(frame, *of)).collect();
                let called = &self.module.functions[*function];
                // Two calls of a function do not ask at once.
                let mut hasher = DefaultHasher::new();
                (frame.path, std::ptr::from_ref(statement).addr()).hash(&mut hasher);
                let returned = self.function(called, hasher.finish(), arguments);
                if let Some(result) = result {
                    frame.values.insert(*result, returned);
                }
            }
            _ => {}
        }
        Flow::On
    }

    fn access(&mut self, frame: &Frame<'_>, place: usize, at: Option<i64>, inner: Inner) {
        let bytes = match inner {
            Inner::Scalar(bytes) => bytes,
            Inner::Type(ty) => i64::from(self.module.types[ty].inner.size(self.module.to_ctx())),
        };
        if let Some(at) = at {
            self.accesses
                .push(((frame.path, place), Access { at, bytes }));
        }
    }

    /// What is read of a buffer, where it is known; else it is noted.
    fn read(
        &mut self,
        frame: &Frame<'_>,
        place: usize,
        (global, at, inner): (Handle<GlobalVariable>, i64, Inner),
    ) -> Value {
        let variable = &self.module.global_variables[global];
        let name = variable.name.as_deref().unwrap_or_default();
        let bytes = match inner {
            Inner::Scalar(bytes) => bytes,
            Inner::Type(ty) => i64::from(self.module.types[ty].inner.size(self.module.to_ctx())),
        };
        let Some(words) = self.held.get(name) else {
            self.read
                .push((name, (frame.path, place), Access { at, bytes }));
            return Value::Unknown;
        };
        let word = |at: i64| {
            let word = words.get(usize::try_from(at / WORD).ok()?)?;
            Some(Value::Int(i64::from(*word)))
        };
        if bytes == WORD {
            return word(at).unwrap_or(Value::Unknown);
        }
        let parts = (0..bytes / WORD).map(|part| word(at + part * WORD));
        Value::Many(parts.map(|part| part.unwrap_or(Value::Unknown)).collect())
    }

    fn value(&mut self, frame: &mut Frame<'a>, expression: Handle<Expression>) -> Value {
        if let Some(value) = frame.values.get(&expression) {
            return value.clone();
        }
        let value = self.compute(frame, expression);
        frame.values.insert(expression, value.clone());
        value
    }

    fn compute(&mut self, frame: &mut Frame<'a>, expression: Handle<Expression>) -> Value {
        match &frame.function.expressions[expression] {
            Expression::Literal(literal) => of_literal(*literal),
            Expression::Constant(constant) => {
                let init = self.module.constants[*constant].init;
                match &self.module.global_expressions[init] {
                    Expression::Literal(literal) => of_literal(*literal),
                    _ => Value::Unknown,
                }
            }
            Expression::ZeroValue(ty) => match &self.module.types[*ty].inner {
                TypeInner::Scalar(_) => Value::Int(0),
                TypeInner::Vector { size, .. } => Value::Many(vec![Value::Int(0); *size as usize]),
                _ => Value::Unknown,
            },
            Expression::Compose { components, .. } => {
                let parts = components.iter().map(|part| self.value(frame, *part));
                Value::Many(parts.collect())
            }
            Expression::FunctionArgument(index) => {
                let argument = frame.arguments.get(*index as usize);
                argument.cloned().unwrap_or(Value::Unknown)
            }
            Expression::LocalVariable(local) => Value::Local(frame.call, *local),
            Expression::GlobalVariable(global) => {
                let variable = &self.module.global_variables[*global];
                match variable.space {
                    AddressSpace::WorkGroup => {
                        // Each variable is taken to begin where the banks do.
                        Value::Shared(Some(0), Inner::Type(variable.ty))
                    }
                    AddressSpace::Private => Value::Private(*global),
                    AddressSpace::Storage { .. } | AddressSpace::Uniform => {
                        Value::Buffer(*global, Some(0), Inner::Type(variable.ty))
                    }
                    _ => Value::Unknown,
                }
            }
            Expression::Access { base, index } => {
                let index = self.value(frame, *index).int();
                let base = self.value(frame, *base);
                self.part(base, index)
            }
            Expression::AccessIndex { base, index } => {
                let base = self.value(frame, *base);
                self.part(base, Some(i64::from(*index)))
            }
            Expression::Swizzle {
                size,
                vector,
                pattern,
            } => {
                let vector = self.value(frame, *vector);
                let part = |component: &SwizzleComponent| match &vector {
                    Value::Many(parts) => parts
                        .get(*component as usize)
                        .cloned()
                        .unwrap_or(Value::Unknown),
                    _ => Value::Unknown,
                };
                Value::Many(pattern.iter().take(*size as usize).map(part).collect())
            }
            Expression::Load { pointer } => match self.value(frame, *pointer) {
                Value::Local(call, local) if call == frame.call => {
                    frame.locals.get(&local).cloned().unwrap_or(Value::Unknown)
                }
                Value::Private(global) => {
                    let known = self.private.get(&global);
                    known.cloned().unwrap_or(Value::Unknown)
                }
                Value::Shared(at, inner) => {
                    self.access(frame, expression.index(), at, inner);
                    Value::Unknown
                }
                Value::Buffer(global, Some(at), inner) => {
                    self.read(frame, expression.index(), (global, at, inner))
                }
                _ => Value::Unknown,
            },
            Expression::Binary { op, left, right } => {
                let (left, right) = (self.value(frame, *left), self.value(frame, *right));
                match (left.int(), right.int()) {
                    (Some(left), Some(right)) => {
                        binary(*op, left, right).map_or(Value::Unknown, Value::Int)
                    }
                    _ => Value::Unknown,
                }
            }
            Expression::Select {
                condition,
                accept,
                reject,
            } => match self.value(frame, *condition).int() {
                Some(0) => self.value(frame, *reject),
                Some(_) => self.value(frame, *accept),
                None => Value::Unknown,
            },
            Expression::Math {
                fun: naga::MathFunction::CountLeadingZeros,
                arg,
                ..
            } => match self
                .value(frame, *arg)
                .int()
                .and_then(|x| u32::try_from(x).ok())
            {
                Some(x) => Value::Int(i64::from(x.leading_zeros())),
                None => Value::Unknown,
            },
            Expression::Math {
                fun,
                arg,
                arg1,
                arg2,
                ..
            } => {
                let first = self.value(frame, *arg).int();
                let second = arg1.and_then(|second| self.value(frame, second).int());
                let third = arg2.and_then(|third| self.value(frame, third).int());
                match (fun, first, second) {
                    (naga::MathFunction::Min, Some(a), Some(b)) => Value::Int(a.min(b)),
                    (naga::MathFunction::Max, Some(a), Some(b)) => Value::Int(a.max(b)),
                    (naga::MathFunction::Clamp, Some(x), Some(low)) => {
                        third.map_or(Value::Unknown, |high| Value::Int(x.max(low).min(high)))
                    }
                    _ => Value::Unknown,
                }
            }
            Expression::As {
                expr,
                kind: ScalarKind::Uint | ScalarKind::Sint,
                ..
            } => self.value(frame, *expr),
            _ => Value::Unknown,
        }
    }

    /// Part `index` of something.
    fn part(&self, base: Value, index: Option<i64>) -> Value {
        if let Value::Buffer(global, at, Inner::Type(ty)) = base {
            // Members of a structure lie where it says, and else are found as in workgroup memory.
            if let TypeInner::Struct { members, .. } = &self.module.types[ty].inner {
                let member = index.and_then(|index| members.get(usize::try_from(index).ok()?));
                return match (at, member) {
                    (Some(at), Some(member)) => {
                        let at = at + i64::from(member.offset);
                        Value::Buffer(global, Some(at), Inner::Type(member.ty))
                    }
                    _ => Value::Unknown,
                };
            }
            return match self.part(Value::Shared(at, Inner::Type(ty)), index) {
                Value::Shared(at, inner) => Value::Buffer(global, at, inner),
                _ => Value::Unknown,
            };
        }
        match base {
            Value::Many(parts) => {
                let part =
                    index.and_then(|index| parts.into_iter().nth(usize::try_from(index).ok()?));
                part.unwrap_or(Value::Unknown)
            }
            Value::Shared(at, Inner::Type(ty)) => {
                let at = |each: u32| Some(at? + index? * i64::from(each));
                match &self.module.types[ty].inner {
                    TypeInner::Array { base, stride, .. } => {
                        Value::Shared(at(*stride), Inner::Type(*base))
                    }
                    TypeInner::Vector { scalar, .. } => {
                        let width = u32::from(scalar.width);
                        Value::Shared(at(width), Inner::Scalar(i64::from(width)))
                    }
                    _ => Value::Unknown,
                }
            }
            _ => Value::Unknown,
        }
    }
}

fn of_literal(literal: Literal) -> Value {
    match literal {
        Literal::U32(value) => Value::Int(i64::from(value)),
        Literal::I32(value) => Value::Int(i64::from(value)),
        Literal::Bool(value) => Value::Int(i64::from(value)),
        _ => Value::Unknown,
    }
}

fn binary(op: BinaryOperator, left: i64, right: i64) -> Option<i64> {
    use BinaryOperator as Op;
    let so = |so: bool| Some(i64::from(so));
    match op {
        Op::Add => left.checked_add(right),
        Op::Subtract => left.checked_sub(right),
        Op::Multiply => left.checked_mul(right),
        Op::Divide => left.checked_div(right),
        Op::Modulo => left.checked_rem(right),
        Op::And | Op::LogicalAnd => Some(left & right),
        Op::InclusiveOr | Op::LogicalOr => Some(left | right),
        Op::ExclusiveOr => Some(left ^ right),
        Op::ShiftLeft => left.checked_shl(u32::try_from(right).ok()?),
        Op::ShiftRight => left.checked_shr(u32::try_from(right).ok()?),
        Op::Equal => so(left == right),
        Op::NotEqual => so(left != right),
        Op::Less => so(left < right),
        Op::LessEqual => so(left <= right),
        Op::Greater => so(left > right),
        Op::GreaterEqual => so(left >= right),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::{AttentionKernel, Base, KvPrecision};

    const IN_BLOCKS: &str = include_str!("../../../../shaders/attention/kv_in_blocks.wgsl");

    /// A kernel of 64 lanes over an array of such elements.
    fn of(element: &str, body: &str) -> u32 {
        let source = format!(
            "@group(0) @binding(0) var<storage, read_write> data: array<u32>;
             var<workgroup> words: array<{element}, 4096>;
             fn stored(at: u32) {{ words[at] = {element}(); }}
             fn times(at: u32, by: u32) -> u32 {{ return at * by; }}
             @compute @workgroup_size(64)
             fn main(@builtin(local_invocation_index) lane: u32) {{ {body} }}"
        );
        conflicts(&naga::front::wgsl::parse_str(&source).unwrap())
    }

    #[test]
    fn lanes_that_ask_for_words_of_one_bank_are_counted() {
        for (stride, ways) in [(1, 1), (2, 2), (8, 8), (32, 32), (33, 1)] {
            assert_eq!(of("f32", &format!("words[lane * {stride}u] = 0.0;")), ways);
            assert_eq!(of("f32", &format!("stored(lane * {stride}u);")), ways);
        }
        // All the same word, and words that follow each other.
        assert_eq!(of("f32", "data[lane] = u32(words[7u]);"), 1);
        assert_eq!(of("vec4<f32>", "words[lane] = vec4<f32>();"), 1);
        assert_eq!(of("vec4<f32>", "words[lane * 2u] = vec4<f32>();"), 2);
        assert_eq!(of("vec4<f32>", "data[lane] = u32(words[lane * 8u].y);"), 32);
    }

    /// Of a kernel of attention over a row, or eight of them, with 8 key heads of 16 elements, in blocks in no order.
    fn lines_of_keys(source: &str, is_tile: bool) -> Lines {
        let (rows, alone) = if is_tile { (8, 0) } else { (1, 1) };
        let mut step = vec![rows, 0, 512, alone];
        step.extend((0..rows).flat_map(|row| [0, 0, 500 + row, 0]));
        step.extend([0, rows, 0, 0]);
        let held = Held::from([
            ("step", step),
            ("tables", (0..32).map(|block| block * 7 % 32).collect()),
            ("params", vec![32, 8, 4, u32::MAX, 0, 0, 32, 0]),
        ]);
        lines(
            &naga::front::wgsl::parse_str(source).unwrap(),
            &held,
            "keys",
        )
    }

    #[test]
    fn lanes_beside_each_other_read_keys_that_lie_beside_each_other() {
        for kv in KvPrecision::ALL {
            let (unit, lanes, merges) = (4, 16, true);
            let base = Base::Portable;
            let split = AttentionKernel::Split {
                base,
                unit,
                kv,
                merges,
            };
            let tile = AttentionKernel::Tile {
                unit,
                lanes,
                kv,
                merges,
            };
            for (kernel, is_tile) in [(split, false), (tile, true)] {
                let source = kernel.source();
                let keys = lines_of_keys(&source, is_tile);
                assert!(keys.least > 0, "{kernel:?}: {keys:?}");
                // Scales of 32 positions lie in two blocks, half a line in each.
                assert!(keys.asked <= keys.least + 1, "{kernel:?}: {keys:?}");
                // Laid out by position as values are: a line for each lane.
                let (before, _) = IN_BLOCKS.split_once("fn key_at").unwrap();
                let by_position = format!(
                    "{before}fn key_at(place: u32, head: u32, i: u32) -> u32 {{ return head_at(place, head) + i; }}\n"
                );
                let by_position = source
                    .replace(IN_BLOCKS, &by_position)
                    .replace(" * BLOCK]", "]");
                let keys = lines_of_keys(&by_position, is_tile);
                assert!(keys.asked >= 6 * keys.least, "{kernel:?}: {keys:?}");
            }
        }
    }

    #[test]
    fn what_depends_on_the_lane_alone_is_followed() {
        let body = "var i = lane; for (var k = 0u; k < 4u; k++) { words[i * 4u + k] = 1.0; }";
        assert_eq!(of("f32", body), 4);
        assert_eq!(of("f32", "if (lane < 4u) { words[lane * 32u] = 0.0; }"), 4);
        assert_eq!(
            of("f32", "if (data[0] < 4u) { words[lane * 16u] = 0.0; }"),
            16
        );
        assert_eq!(
            of("f32", "let x = min(lane / 8u, 2u); words[x * 32u] = 0.0;"),
            3
        );
        assert_eq!(of("f32", "words[times(lane, 4u)] = 0.0;"), 4);
        assert_eq!(of("f32", "stored(lane); stored(lane + 32u);"), 1);
        assert_eq!(of("f32", "words[data[lane]] = 0.0;"), 1);
        assert_eq!(of("f32", "data[lane] = lane;"), 1);
    }
}
