//! What a family of metrics is.

/// What the samples of a family are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Numbers that only grow.
    Counter,
    /// Numbers that go up and down.
    Gauge,
    /// How measured values are spread.
    Histogram,
}

impl Kind {
    /// As Prometheus calls it.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        }
    }
}

/// What a family is measured in. Those with a name of their own stand in the family's name as Prometheus wants it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Seconds.
    Seconds,
    /// Seconds since 1970.
    Timestamp,
    /// Bytes.
    Bytes,
    /// From 0 to 1.
    Ratio,
    /// A number of these.
    Of(&'static str),
    /// 1 for yes, 0 for no.
    Truth,
}

impl Unit {
    /// As it is called for people.
    pub const fn name(self) -> &'static str {
        match self {
            Unit::Seconds => "seconds",
            Unit::Timestamp => "seconds since 1970",
            Unit::Bytes => "bytes",
            Unit::Ratio => "0 to 1",
            Unit::Of(things) => things,
            Unit::Truth => "0 or 1",
        }
    }
}

/// When a metric begins at zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Since {
    /// It says what is now.
    Now,
    /// With the process.
    Process,
    /// With the model that is loaded under the name.
    Load,
    /// With the revision: when it was deployed first, of the times that are still known.
    Revision,
    /// With the state directory: it goes on over restarts and kills.
    State,
}

impl Since {
    /// For people.
    pub const fn name(self) -> &'static str {
        match self {
            Since::Now => "now",
            Since::Process => "process",
            Since::Load => "load of the model",
            Since::Revision => "revision",
            Since::State => "state directory",
        }
    }
}

/// A label of a family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label {
    /// Its name.
    pub name: &'static str,
    /// What bounds the number of its values, in a few words.
    pub bound: &'static str,
}

/// A family of metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Family {
    /// Its whole name, as Prometheus has it.
    pub name: &'static str,
    /// What its samples are.
    pub kind: Kind,
    /// What they are measured in.
    pub unit: Unit,
    /// Its labels, in the order in which values are handed in.
    pub labels: &'static [Label],
    /// When it begins at zero.
    pub since: Since,
    /// One line for people.
    pub help: &'static str,
}
