//! Named outputs are known only when a component has described itself; then they are held against the file.

use super::findings::Findings;
use super::mistake::{Mistake, Mistakes};
use super::nearest::nearest;
use super::pipeline::{Node, Pipeline};

/// Checks that every output taken from an operator stage is one its component has, and warns of those that nobody
/// takes. `outputs` are the named outputs of stage `stage`, as the component describes them.
pub fn check_outputs(
    pipeline: &Pipeline,
    stage: usize,
    outputs: &[String],
) -> Result<Vec<Mistake>, Mistakes> {
    let Some(this) = pipeline.stages.get(stage) else {
        return Ok(Vec::new());
    };
    let found = Findings::new(pipeline.text.clone());
    let taken = check_taken(&found, pipeline, stage, outputs, &|output, near| {
        format!(
            "the component of stage {:?} has no output {output:?}; {near}",
            this.name
        )
    });
    for output in outputs {
        if !taken.contains(&output) {
            found.warning(
                &this.place,
                &format!("stage.{}", this.name),
                format!("nothing takes its output {output:?}; records sent there are dropped"),
            );
        }
    }
    match found.into_parts() {
        (mistakes, warnings) if mistakes.is_empty() => Ok(warnings),
        (mistakes, warnings) => Err(Mistakes { mistakes, warnings }),
    }
}

/// Checks that every output taken from a `classify` stage is a label of its model.
pub fn check_labels(
    pipeline: &Pipeline,
    stage: usize,
    labels: &[String],
) -> Result<(), Vec<Mistake>> {
    let Some(this) = pipeline.stages.get(stage) else {
        return Ok(());
    };
    let found = Findings::new(pipeline.text.clone());
    check_taken(&found, pipeline, stage, labels, &|label, near| {
        format!(
            "the model of stage {:?} has no label {label:?}; {near}",
            this.name
        )
    });
    match found.into_parts().0 {
        mistakes if mistakes.is_empty() => Ok(()),
        mistakes => Err(mistakes),
    }
}

/// The outputs that are taken from a stage; a mistake for each that it does not have.
fn check_taken<'p>(
    found: &Findings,
    pipeline: &'p Pipeline,
    stage: usize,
    outputs: &[String],
    wrong: &dyn Fn(&str, &str) -> String,
) -> Vec<&'p String> {
    let Some(this) = pipeline.stages.get(stage) else {
        return Vec::new();
    };
    let stages = pipeline
        .stages
        .iter()
        .map(|stage| (format!("stage.{}.inputs", stage.name), &stage.inputs));
    let sinks = pipeline
        .sinks
        .iter()
        .map(|sink| (format!("sink.{}.inputs", sink.name), &sink.inputs));
    let mut taken = Vec::new();
    for (key, inputs) in stages.chain(sinks) {
        for input in inputs
            .iter()
            .filter(|input| input.from == Node::Stage(stage))
        {
            let Some(output) = &input.output else {
                continue;
            };
            taken.push(output);
            if !outputs.contains(output) {
                let known = outputs.iter().map(String::as_str);
                let near = match nearest(output, known) {
                    Some(near) => format!("did you mean \"{}.{near}\"?", this.name),
                    None if outputs.is_empty() => "it has none".into(),
                    None => format!("it has {}", outputs.join(", ")),
                };
                found.mistake(&input.place, &key, wrong(output, &near));
            }
        }
    }
    taken
}
