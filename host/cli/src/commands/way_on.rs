//! What is said of a run that failed.

use tidegate_contract::Level;
use tidegate_control::config::{Pipeline, SourceKind};

/// What a run that failed does when it is started again: it depends on what its sources can give once more, and on what
/// its sinks can take back.
pub(super) fn way_on(pipeline: &Pipeline) -> String {
    let named = |is: fn(&SourceKind) -> bool| {
        let of = pipeline.sources.iter().filter(|source| is(&source.kind));
        of.map(|source| format!("{:?}", source.name))
            .collect::<Vec<_>>()
            .join(", ")
    };
    let read = named(|kind| !matches!(kind, SourceKind::Stdin | SourceKind::Gateway(_)));
    let gone = named(|kind| matches!(kind, SourceKind::Stdin));
    let mut text = "the run failed".to_owned();
    if !read.is_empty() {
        text += &format!(
            "; once the cause is mended and it is started again, it reads {read} on from its last cut"
        );
        let commit_point = pipeline.commit_point();
        let repeats = pipeline.sinks.iter().filter(|sink| {
            let (level, _) = commit_point.sink(&sink.kind.class());
            level < Level::ExactlyOnce
        });
        let repeats: Vec<String> = repeats.map(|sink| format!("{:?}", sink.name)).collect();
        if !repeats.is_empty() {
            text += &format!(
                ", and may write again what {} got since",
                repeats.join(", ")
            );
        }
    }
    if !gone.is_empty() {
        text +=
            &format!("; what it had read of {gone} (standard input) after its last cut is gone");
    }
    text
}
