//! `tokens` of the contract 1.0.0: the text of an answer as it is made.

use tidegate_contract::{AnswerEnd, AnswerLane, Lane, Through};
use tidegate_record::Fields;
use wasmtime::component::{ComponentExportIndex, ComponentType, Lift, Lower};

use super::version1::WitFailure;

/// The interface that an operator exports.
pub(crate) const INTERFACE: &str = "tidegate:operator/tokens@1.0.0";
/// What `description.handlers` calls it.
pub(crate) const HANDLER: &str = "tokens";

/// Where its functions are among the exports of a component.
#[derive(Clone, Copy)]
pub(crate) struct TokenExports {
    pub(crate) open: ComponentExportIndex,
    pub(crate) step: ComponentExportIndex,
    pub(crate) close: ComponentExportIndex,
}

/// `lane-kind` of the WIT.
#[derive(Clone, Copy, ComponentType, Lower)]
#[component(variant)]
pub(crate) enum WitLaneKind {
    #[component(name = "content")]
    Content,
    #[component(name = "reasoning")]
    Reasoning,
    #[component(name = "arguments")]
    Arguments(u32),
}

impl From<Lane> for WitLaneKind {
    fn from(lane: Lane) -> WitLaneKind {
        match lane {
            Lane::Content => WitLaneKind::Content,
            Lane::Reasoning => WitLaneKind::Reasoning,
            Lane::Arguments(call) => WitLaneKind::Arguments(call),
        }
    }
}

/// `attribute` of the WIT.
#[derive(Clone, Copy, ComponentType, Lower)]
#[component(record)]
pub(crate) struct WitAttribute<'a> {
    name: &'a str,
    value: &'a [u8],
}

/// `lane` of the WIT.
#[derive(Clone, ComponentType, Lower)]
#[component(record)]
pub(crate) struct WitLane<'a> {
    identity: &'a str,
    model: &'a str,
    choice: u32,
    kind: WitLaneKind,
    attributes: Vec<WitAttribute<'a>>,
}

impl<'a> WitLane<'a> {
    /// What an operator that reads these fields is told of a lane.
    pub(crate) fn of(lane: &AnswerLane<'a>, reads: Fields) -> WitLane<'a> {
        let attributes = lane.attributes.iter();
        WitLane {
            identity: lane.record,
            model: lane.model,
            choice: lane.choice,
            kind: lane.lane.into(),
            attributes: attributes
                .filter(|_| reads.contains(Fields::ATTRIBUTES))
                .map(|(name, value)| WitAttribute { name, value })
                .collect(),
        }
    }
}

/// `piece` of the WIT.
#[derive(Clone, Copy, ComponentType, Lower)]
#[component(record)]
pub(crate) struct WitPiece<'a> {
    pub(crate) lane: u64,
    pub(crate) text: &'a str,
    pub(crate) last: bool,
}

/// `ending` of the WIT.
#[derive(Clone, Copy, Debug, ComponentType, Lift)]
#[component(enum)]
#[repr(u8)]
#[allow(dead_code, reason = "lifted from the guest's number, never named here")]
pub(crate) enum WitEnding {
    #[component(name = "stop")]
    Stop,
    #[component(name = "filtered")]
    Filtered,
}

/// `verdict` of the WIT.
#[derive(Clone, Debug, ComponentType, Lift)]
#[component(record)]
pub(crate) struct WitVerdict {
    text: String,
    end: Option<WitEnding>,
}

impl From<WitVerdict> for Through {
    fn from(verdict: WitVerdict) -> Through {
        Through {
            text: verdict.text,
            end: verdict.end.map(|end| match end {
                WitEnding::Stop => AnswerEnd::Stop,
                WitEnding::Filtered => AnswerEnd::Filtered,
            }),
        }
    }
}

/// What `open` takes and answers.
pub(crate) type OpenParams<'a> = (u64, WitLane<'a>);
/// See there.
pub(crate) type Opened = (Result<(), WitFailure>,);
/// What `step` takes and answers.
pub(crate) type StepParams<'a> = (&'a [WitPiece<'a>],);
/// See there.
pub(crate) type Stepped = (Result<Vec<WitVerdict>, WitFailure>,);
