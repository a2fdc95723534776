//! How a task begins: the one place that decides it.
//!
//! What is known of a task is in up to three places: the position that its source keeps, with a mark beside it; the commit
//! log of this process; a changelog, where cuts are transactions. Only one of them is right: which, the marks say, and of
//! sources that keep no positions the log. Where going on would lose or repeat something that exactly one place has, it is
//! refused by name.

use tidegate_contract::{
    Assignment, Keeper, KeptPosition, Mark, MoveState, Moved, Store, TaskCut, TaskId, TaskImage,
};

use crate::counts::Counts;
use crate::topology::{Source, Topology};

/// What to do where something waits elsewhere.
const FINISH: &str =
    "let the pipeline finish as it was (stop it when nothing is in flight), then change it";

/// What a store has of a task, and how many records wait in it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stored<'a> {
    pub(crate) image: &'a TaskImage,
    pub(crate) records: u64,
}

/// What is known of a task that is to begin.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known<'a> {
    pub(crate) task: &'a TaskId,
    /// What the partition is now.
    pub(crate) identity: &'a str,
    /// Whether the partitions of its source are there from the beginning and stay.
    pub(crate) fixed: bool,
    /// Who keeps its state from now on.
    pub(crate) keeper: &'a Keeper,
    /// What its source knows of its position.
    pub(crate) kept: Option<&'a KeptPosition>,
    /// What the commit log of this process has of it.
    pub(crate) log: Option<Stored<'a>>,
    /// What the changelog has of it, if there is one.
    pub(crate) changelog: Option<Stored<'a>>,
    /// What the commit log has of the partition under the other source's name that the mark has, if it has one.
    pub(crate) former: Option<Stored<'a>>,
}

/// How a task begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Begin {
    /// What its partition is, for its cuts, its letters and its traces: an input that was once known with its id keeps
    /// this text, whether its source knows the id now or not.
    pub(crate) identity: String,
    /// Where reading goes on; none where nothing is known.
    pub(crate) position: Option<u64>,
    /// What of the entries that its store has waits on; the others are to be taken away with the next cut.
    pub(crate) keeps: Keeps,
    /// Its counts. Where not all entries are kept, what is in flight in them is another's.
    pub(crate) counts: Counts,
}

/// Which entries of a store a task begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keeps {
    All,
    Nothing,
    /// Those of records before this offset: the others are read again.
    Before(u64),
}

/// What stands beside a position.
enum Beside {
    /// The source keeps no position.
    NoPosition,
    /// The group has begun there, and no cut was taken.
    Begun,
    /// A cut.
    Cut(Mark),
    /// Nothing of ours: somebody set the position.
    SomebodysWill,
}

/// Decides how a task begins. The error says why it cannot, and what to do.
pub(crate) fn begin(known: &Known<'_>) -> Result<Begin, String> {
    let begin = match known.kept {
        Some(kept) => of_group(known, kept),
        None => match (&known.keeper.store, known.changelog) {
            (Store::Log, _) => of_log(known),
            (Store::Changelog(topic), Some(changelog)) => of_changelog(known, topic, changelog),
            (Store::Changelog(topic), None) => Err(format!("{topic} was not read")),
        },
    }?;
    let identity = with_known_id(known).unwrap_or_else(|| known.identity.to_owned());
    Ok(Begin { identity, ..begin })
}

/// The input with the id that it had at the last cut, where its source does not know one now.
fn with_known_id(known: &Known<'_>) -> Option<String> {
    if known.identity.contains(ID) {
        return None;
    }
    let metadata = known.kept.and_then(|kept| kept.metadata.as_deref());
    let mark = metadata.map(|text| Mark::read(text).ok().flatten());
    let of_log = known.log.map(|log| log.image.identity.clone());
    let of_mark = match mark {
        // Somebody has set the position, perhaps since the topic is another one.
        Some(None) => return None,
        Some(Some(mark)) => Some(mark.identity),
        None => None,
    };
    let mut inputs = of_mark.into_iter().chain(of_log);
    inputs.find(|was| was.contains(ID) && is_same(was, known.identity))
}

/// The name of the source in a mark, where that is another one and the log is to be asked after it.
pub(crate) fn former_source(task: &TaskId, kept: Option<&KeptPosition>) -> Option<String> {
    let text = kept?.metadata.as_deref()?;
    let mark = Mark::read(text).ok().flatten()?;
    (mark.keeper.is_some() && mark.source != task.source).then_some(mark.source)
}

impl Begin {
    fn new(position: Option<u64>, keeps: Keeps, counters: &[(String, u64)]) -> Begin {
        let counts = Counts::from_log(counters);
        let counts = match keeps {
            Keeps::All => counts,
            Keeps::Nothing | Keeps::Before(_) => counts.without_in_flight(),
        };
        Begin {
            identity: String::new(),
            position,
            keeps,
            counts,
        }
    }

    /// At a position, with nothing that waits.
    fn at(position: u64, counters: &[(String, u64)]) -> Begin {
        Begin::new(Some(position), Keeps::Nothing, counters)
    }
}

/// A source that keeps no positions, cuts into the log.
fn of_log(known: &Known<'_>) -> Result<Begin, String> {
    let Some(log) = known.log else {
        return Ok(Begin::new(None, Keeps::All, &[]));
    };
    let image = log.image;
    if let Some(Moved { topic, state }) = &image.moved
        && *state != MoveState::Ended
    {
        return Err(format!(
            "the position of {} and what waits of it are in changelog topic {topic}, and the pipeline now commits to the \
             commit log; {FINISH}",
            known.task
        ));
    }
    if is_same(&image.identity, known.identity) {
        return Ok(Begin::new(image.position, Keeps::All, &image.counters));
    }
    if known.fixed || log.records > 0 {
        refuse_other_input(known, &image.identity, log.records)?;
    }
    Ok(Begin::new(None, Keeps::Nothing, &image.counters))
}

/// A source that keeps no positions, cuts into a changelog. The log says where its state is.
fn of_changelog(known: &Known<'_>, topic: &str, has: Stored<'_>) -> Result<Begin, String> {
    let task = known.task;
    let mark = has.image.mark.as_ref();
    if let Some(keeper) = mark.and_then(|mark| mark.keeper.as_ref())
        && keeper.instance != known.keeper.instance
    {
        return Err(format!(
            "changelog topic {topic} has {task} of another state directory ({}, and this one is {}); one process reads a \
             file: go on with that directory, or give this pipeline another name",
            keeper.instance, known.keeper.instance
        ));
    }
    let image = known.log.map(|log| log.image);
    let moved = image.and_then(|image| image.moved.as_ref());
    match (known.log, moved, mark) {
        // The log had it last.
        (Some(log), None, _) => {
            refuse_other_input(known, &log.image.identity, log.records)?;
            if log.records > 0 {
                return Err(format!(
                    "{} wait in the commit log for {task}, and the pipeline now commits to changelog topic {topic}; \
                     {FINISH}",
                    records(log.records)
                ));
            }
            Ok(Begin::new(
                log.image.position,
                Keeps::Nothing,
                &log.image.counters,
            ))
        }
        (Some(log), Some(moved), _) if moved.topic != *topic => {
            refuse_other_input(known, &log.image.identity, log.records)?;
            if moved.state != MoveState::Ended {
                return Err(format!(
                    "the position of {task} and what waits of it are in changelog topic {}, and the pipeline now has \
                     changelog topic {topic}; give pipeline and source their old names, or {FINISH}",
                    moved.topic
                ));
            }
            Ok(Begin::new(
                log.image.position,
                Keeps::Nothing,
                &log.image.counters,
            ))
        }
        (log, _, Some(mark)) => {
            if let Some(log) = log {
                refuse_other_input(known, &log.image.identity, log.records)?;
            }
            refuse_other_input(known, &mark.identity, mark.waits)?;
            refuse_hole(known, topic, mark, has.records)?;
            Ok(Begin::new(mark.position, Keeps::All, &mark.counters))
        }
        (log, moved, None) => {
            let there = moved.is_some_and(|moved| moved.state == MoveState::There);
            if there || has.records > 0 {
                return Err(format!(
                    "changelog topic {topic} has no position of {task}, which was there: something was removed from it; \
                     begin anew with another state directory, another pipeline name and new output"
                ));
            }
            let position = log.and_then(|log| log.image.position);
            let counters = log.map_or(&[][..], |log| &log.image.counters);
            Ok(Begin::new(position, Keeps::Nothing, counters))
        }
    }
}

/// A source whose positions a group keeps.
fn of_group(known: &Known<'_>, kept: &KeptPosition) -> Result<Begin, String> {
    let beside = match kept.metadata.as_deref().map(Mark::read) {
        None => Beside::NoPosition,
        Some(Ok(None)) => Beside::SomebodysWill,
        Some(Ok(Some(mark))) if mark.keeper.is_none() => Beside::Begun,
        Some(Ok(Some(mark))) => Beside::Cut(mark),
        Some(Err(unknown)) => {
            return Err(format!(
                "the position of {} was committed by another version of Tidegate (its mark has version {}); let that one \
                 finish, or set the group's position anew",
                known.task, unknown.version
            ));
        }
    };
    let log = match known.log {
        Some(log) if !is_same(&log.image.identity, known.identity) => {
            waits_of_another(known.task, known.identity, log)?;
            None
        }
        log => log,
    };
    let counters = log.map_or(&[][..], |log| &log.image.counters);
    match (beside, &known.keeper.store) {
        (Beside::Cut(mark), store) => {
            refuse_other_input(known, &mark.identity, mark.waits)
                .map_err(|why| format!("{why}; or set the group's position anew"))?;
            let was = mark.keeper.clone().unwrap_or_default();
            match (&was.store, store) {
                (Store::Log, Store::Log) => after_log(known, kept.position, &mark, &was, log),
                (Store::Log, Store::Changelog(_)) => {
                    from_log(known, kept.position, &mark, &was, log)
                }
                (Store::Changelog(topic), _) if topic_of(store) != Some(topic) => {
                    if mark.waits > 0 {
                        return Err(format!(
                            "{} wait in {} for {}, and the pipeline now commits to {store}; {FINISH}",
                            records(mark.waits),
                            was.store,
                            known.task
                        ));
                    }
                    Ok(Begin::at(kept.position, &mark.counters))
                }
                (Store::Changelog(topic), _) => {
                    if mark.source != known.task.source && mark.waits > 0 {
                        return Err(renamed(known, &mark, mark.waits, &was.store));
                    }
                    let found = known.changelog.map_or(0, |changelog| changelog.records);
                    if mark.source == known.task.source {
                        refuse_hole(known, topic, &mark, found)?;
                        let position = Some(kept.position);
                        return Ok(Begin::new(position, Keeps::All, &mark.counters));
                    }
                    Ok(Begin::at(kept.position, &mark.counters))
                }
            }
        }
        // Before there were marks the log was right, unless another member had gone on.
        (Beside::SomebodysWill, Store::Log) => match log {
            Some(log) if !log.image.marked => Ok(newer(kept.position, log)),
            _ => Ok(Begin::at(kept.position, counters)),
        },
        // The group has begun and heard of no cut, or has forgotten all it was told.
        (Beside::NoPosition | Beside::Begun, Store::Log) => match log {
            Some(log) => Ok(newer(0, log)).map(|begin| Begin {
                position: begin.position.or(Some(kept.position)),
                ..begin
            }),
            None => Ok(Begin::at(kept.position, counters)),
        },
        (beside, Store::Changelog(topic)) => {
            let will = matches!(beside, Beside::SomebodysWill);
            let log = log.filter(|log| !will || !log.image.marked);
            if let Some(log) = log.filter(|log| log.records > 0) {
                return Err(format!(
                    "{} wait in the commit log for {}, and the pipeline now commits to changelog topic {topic}; {FINISH}",
                    records(log.records),
                    known.task
                ));
            }
            let position = log.and_then(|log| log.image.position).unwrap_or(0);
            let position = kept.position.max(position);
            // What waits was read before the position. If somebody has set that back, it is read again.
            let keeps = Keeps::Before(position);
            Ok(Begin::new(Some(position), keeps, counters))
        }
    }
}

/// The group's position was committed after a cut of a log, and cuts go on into this one's. It is that of the oldest
/// record that was not done: what the log has beyond it is newer, unless another member has gone on from there.
fn after_log(
    known: &Known<'_>,
    position: u64,
    mark: &Mark,
    was: &Keeper,
    log: Option<Stored<'_>>,
) -> Result<Begin, String> {
    if mark.source != known.task.source {
        if was.instance == known.keeper.instance
            && let Some(former) = known.former
            && (former.records > 0 || former.image.position.is_some_and(|at| at > position))
        {
            return Err(renamed(known, mark, former.records, &was.store));
        }
        return Ok(Begin::at(position, &[]));
    }
    Ok(match log {
        Some(log) => newer(position, log),
        None => Begin::at(position, &[]),
    })
}

/// What the log has, unless the group is further.
fn newer(position: u64, log: Stored<'_>) -> Begin {
    let image = log.image;
    let unfinished = image.unfinished.or(image.position).unwrap_or(0);
    if position > unfinished {
        return Begin::at(position, &image.counters);
    }
    Begin::new(
        image.position.or(Some(position)),
        Keeps::All,
        &image.counters,
    )
}

/// The group's position was committed after a cut of a log, and cuts go to a changelog from now on.
fn from_log(
    known: &Known<'_>,
    position: u64,
    mark: &Mark,
    was: &Keeper,
    log: Option<Stored<'_>>,
) -> Result<Begin, String> {
    let now = &known.keeper.store;
    let own = was.instance == known.keeper.instance;
    let last = match mark.source == known.task.source {
        true => log,
        false => known.former,
    };
    let last = last.filter(|_| own);
    let waits = last.map_or(mark.waits, |last| last.records);
    if waits > 0 {
        let whose = match own {
            true => "of this state directory".to_owned(),
            false => format!("of state directory {}", was.instance),
        };
        return Err(format!(
            "{} wait in the commit log {whose} for {}, and the pipeline now commits to {now}; {FINISH}",
            records(waits),
            known.task
        ));
    }
    let at = last.and_then(|last| last.image.position).unwrap_or(0);
    let counters = log.map_or(&mark.counters, |log| &log.image.counters);
    Ok(Begin::at(position.max(at), counters))
}

/// Counters and entries of a transaction were committed together: where they disagree, something is missing.
fn refuse_hole(known: &Known<'_>, topic: &str, mark: &Mark, found: u64) -> Result<(), String> {
    if mark.waits == found {
        return Ok(());
    }
    Err(format!(
        "{} waited for {} at its last cut, and changelog topic {topic} has {found}: something was removed from it, or not \
         all of it can be read; bring the topic back, or set the group's position to where the records are to be read \
         again",
        records(mark.waits),
        known.task
    ))
}

/// Refuses a task whose partition was something else.
fn refuse_other_input(known: &Known<'_>, was: &str, records: u64) -> Result<(), String> {
    match is_same(was, known.identity) {
        true => Ok(()),
        false => Err(other_input(known.task, known.identity, was, records)),
    }
}

fn other_input(task: &TaskId, now: &str, was: &str, waits: u64) -> String {
    match waits {
        0 => format!(
            "{task} was {was} at the last cut and is now {now}; give the source its old input, or begin with a new state \
             directory"
        ),
        _ => format!(
            "records of {task} wait in flight that were read from {was}, and it now reads {now}; bring its old input \
             back, let the pipeline finish, then change it"
        ),
    }
}

/// Refuses what waits of another input than the pipeline now has there, whatever its source knows.
pub(crate) fn waits_of_another(
    task: &TaskId,
    identity: &str,
    has: Stored<'_>,
) -> Result<(), String> {
    let was = &has.image.identity;
    match has.records == 0 || is_same(was, identity) {
        true => Ok(()),
        false => Err(other_input(task, identity, was, has.records)),
    }
}

fn renamed(known: &Known<'_>, mark: &Mark, waits: u64, store: &Store) -> String {
    let what = match waits {
        0 => "what was done last is".to_owned(),
        waits => format!("{} wait", records(waits)),
    };
    format!(
        "{} was read as source {}, and {what} in {store} under that name; give the source its old name, or {FINISH}",
        known.task, mark.source
    )
}

fn records(count: u64) -> String {
    match count {
        1 => "1 record".to_owned(),
        count => format!("{count} records"),
    }
}

fn topic_of(store: &Store) -> Option<&String> {
    match store {
        Store::Log => None,
        Store::Changelog(topic) => Some(topic),
    }
}

/// What the commit log is told of a task whose state goes to a changelog: of sources that keep no positions it is the log
/// that says where it is.
pub(crate) fn moved(
    assignment: &Assignment,
    begin: &Begin,
    keeper: &Keeper,
) -> Option<(TaskId, TaskCut)> {
    let topic = topic_of(&keeper.store)?.clone();
    let state = match begin.keeps {
        Keeps::All => MoveState::There,
        Keeps::Nothing | Keeps::Before(_) => MoveState::Begun,
    };
    let cut = TaskCut {
        identity: begin.identity.clone(),
        position: begin.position,
        unfinished: begin.position,
        counters: begin.counts.to_log(),
        moved: Some(Moved { topic, state }),
        ..TaskCut::default()
    };
    Some((assignment.task.clone(), cut))
}

/// What begins an id, behind the name of an input.
const ID: &str = " (id ";

/// What an input is: its name, and what tells it from another one of that name, if that is known.
pub(crate) fn identity(name: &str, id: &str) -> String {
    match id {
        "" => name.to_owned(),
        id => format!("{name}{ID}{id})"),
    }
}

/// Whether two inputs are the same. One that was nothing, or has no id, may be.
fn is_same(was: &str, now: &str) -> bool {
    let name = |identity: &'_ str| identity.split(ID).next().unwrap_or_default().to_owned();
    let without_id = !was.contains(ID) || !now.contains(ID);
    was.is_empty() || was == now || (without_id && name(was) == name(now))
}

/// Refuses what a commit log has of a task that the pipeline does not have, if somebody would miss it.
pub(crate) fn left_over(topology: &Topology, task: &TaskId, has: Stored<'_>) -> Result<(), String> {
    let TaskId { source, partition } = task;
    let image = has.image;
    let index = topology.source(source);
    let described = index.and_then(|index| topology.sources.get(index));
    let gone = |source: &Source| source.fixed && *partition as usize >= source.identities.len();
    if described.is_some_and(|source| !gone(source)) {
        return Ok(());
    }
    let mut sources = topology.sources.iter();
    let renamed = sources.find(|now| now.fixed && now.identities.contains(&image.identity));
    if let (None, Some(now)) = (described, renamed) {
        return Err(format!(
            "{} was read as source {source} and would be read again from its beginning as {}; give the source its old \
             name, or begin with a new state directory and new output",
            image.identity, now.name
        ));
    }
    if let Some(Moved { topic, state }) = &image.moved
        && *state == MoveState::There
    {
        return Err(format!(
            "what waits of {task} is in changelog topic {topic}, and the pipeline no longer has it; bring it back, let \
             the pipeline finish, then remove it"
        ));
    }
    if has.records == 0 {
        return Ok(());
    }
    Err(match described {
        Some(_) => format!(
            "records of partition {partition} of source {source} wait in flight, and the source no longer has it; bring \
             its file back, let the pipeline finish, then remove it"
        ),
        None => {
            let stage = image.entries.keys().next().map(|key| key.stage.as_str());
            format!(
                "records of source {source} wait in flight for stage {}, and the pipeline no longer has both; bring them \
                 back, let the pipeline finish, then remove them",
                stage.unwrap_or_default()
            )
        }
    })
}

/// Refuses what a changelog has beside the tasks that it was read for, if the pipeline does not have it.
pub(crate) fn beside(topology: &Topology, store: &Store, image: &TaskImage) -> Result<(), String> {
    for (task, entries) in &image.beside {
        let source = topology.source(&task.source);
        let source = source.and_then(|index| topology.sources.get(index));
        let known = source.is_some_and(|source| {
            !source.fixed || (task.partition as usize) < source.identities.len()
        });
        if !known {
            return Err(format!(
                "{store} has {entries} entries of {task}, which the pipeline does not have; bring it back under this \
                 name, let the pipeline finish, then remove it"
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
