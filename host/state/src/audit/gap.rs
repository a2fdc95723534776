//! Cuts of which a chain has nothing: those of runs without the audit, or with another.
//!
//! The commit log is told when a chain stops being the one that is written, and the chain says it when that goes on.

use std::path::Path;

use tidegate_contract::SinkPosition;

use super::files::number_of;
use super::log::NAME;

/// The sink that the commit log knows while an audit has a gap: the last file of the chain, and as its length the cut after
/// which that began; 0 once the chain has said it. Of older logs, which knew of one chain, it has no name.
const GAP: &str = "audit gap";

/// The gap of the chain whose first file this is.
fn of_chain<'k>(known: &'k [SinkPosition], first: &Path) -> Option<&'k SinkPosition> {
    let gaps = known.iter().rev().filter(|known| known.sink == GAP);
    let mut own =
        gaps.filter(|gap| gap.identity.is_empty() || number_of(first, &gap.identity).is_some());
    own.find(|gap| gap.length > 0)
}

/// The cut of the commit log after which the pipeline ran without the audit whose first file this is, if it did.
pub fn gap(known: &[SinkPosition], first: &Path) -> Option<u64> {
    of_chain(known, first).map(|gap| gap.length)
}

/// What the commit log is to have where a pipeline runs without the audit that it had, or with the one whose first file
/// this is: a gap of the other after this cut. None where it had no other, or where the log says so already.
pub fn left(known: &[SinkPosition], goes_on: Option<&Path>, cut: u64) -> Option<SinkPosition> {
    let last = known.iter().rev().find(|known| known.sink == NAME)?;
    let file = last.identity.as_str();
    let is_left = goes_on.is_none_or(|first| number_of(first, file).is_none());
    let is_told = known.iter().any(|known| {
        known.sink == GAP
            && known.length > 0
            && (known.identity.is_empty() || known.identity == file)
    });
    (is_left && !is_told).then(|| position(file, cut.max(1)))
}

/// What the commit log is to have once the chain says its gap.
pub fn told(known: &[SinkPosition], first: &Path) -> Option<SinkPosition> {
    of_chain(known, first).map(|gap| position(&gap.identity, 0))
}

fn position(file: &str, cut: u64) -> SinkPosition {
    SinkPosition {
        sink: GAP.to_owned(),
        identity: file.to_owned(),
        length: cut,
        head: String::new(),
        ended: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grew(known: &mut Vec<SinkPosition>, new: SinkPosition) {
        let same = |one: &SinkPosition| one.sink == new.sink && one.identity == new.identity;
        known.retain(|one| !same(one));
        known.push(new);
    }

    #[test]
    fn a_chain_has_a_gap_while_there_is_none_or_another_is_written_and_says_it_once() {
        let (one, other) = (Path::new("/audit/one"), Path::new("/tmp/other"));
        let mut known = Vec::new();
        assert_eq!((left(&known, None, 7), gap(&known, one)), (None, None));
        let file = |name: &str| SinkPosition {
            sink: NAME.to_owned(),
            ..position(name, 100)
        };
        grew(&mut known, file("/audit/one"));
        grew(&mut known, file("/audit/one.2"));
        assert_eq!(left(&known, Some(one), 8), None);
        for goes_on in [None, Some(other)] {
            let mut known = known.clone();
            let from = left(&known, goes_on, 9).unwrap();
            grew(&mut known, from);
            assert_eq!((gap(&known, one), gap(&known, other)), (Some(9), None));
            assert_eq!(left(&known, goes_on, 10), None, "it began before");
            if goes_on.is_some() {
                grew(&mut known, file("/tmp/other"));
                let from = left(&known, Some(one), 11).unwrap();
                grew(&mut known, from);
                assert_eq!((gap(&known, one), gap(&known, other)), (Some(9), Some(11)));
            }
            let told = told(&known, one).unwrap();
            grew(&mut known, told);
            assert_eq!(gap(&known, one), None);
        }
        // As an older log has it.
        grew(&mut known, position("", 5));
        assert_eq!((left(&known, None, 9), gap(&known, one)), (None, Some(5)));
        let told = told(&known, one).unwrap();
        grew(&mut known, told);
        assert_eq!(gap(&known, one), None);
    }
}
