//! What operators may take of the machine's memory.

use tidegate_control::config::{Pipeline, StageKind};

use super::Tasks;
use crate::models::whole_memory;

/// Bytes of all operators together: what the pipeline file says, or half of what the machine has.
pub(crate) fn of_operators(pipeline: &Pipeline) -> u64 {
    pipeline
        .operators
        .memory
        .or_else(|| Some(whole_memory()? / 2))
        .unwrap_or(u64::MAX)
}

/// What may go wrong: instances that are each within their own limit may be too much together.
pub(crate) fn warning(pipeline: &Pipeline, tasks: Tasks) -> Option<String> {
    let operators = pipeline
        .stages
        .iter()
        .filter_map(|stage| match &stage.kind {
            StageKind::Operator(operator) => Some(operator.limits),
            StageKind::Model(_) => None,
        });
    let most = operators.map(|limits| {
        let each = limits.memory as u64;
        let total = limits.total_memory.unwrap_or(u64::MAX);
        let all = each.saturating_mul(tasks.warm as u64);
        // One record is tried at a time, in an instance of its own beside these.
        all.min(total).saturating_add(each.min(total))
    });
    let most = most.fold(0, u64::saturating_add);
    let limit = of_operators(pipeline);
    let machine = whole_memory().unwrap_or(u64::MAX);
    let (limit, whose) = match pipeline.operators.memory {
        Some(limit) if limit <= machine => (limit, "operators.memory is"),
        Some(_) => (machine, "the machine has"),
        None => (
            limit,
            "half of the machine, which they have without operators.memory, is",
        ),
    };
    let mebibytes = |bytes: u64| format!("{} MiB", bytes >> 20);
    (most > limit).then(|| {
        format!(
            "operators of {} tasks and of one record that is tried may need {} within limits.memory, and {whose} {}; what goes \
             beyond is refused to them",
            tasks.warm,
            mebibytes(most),
            mebibytes(limit)
        )
    })
}
