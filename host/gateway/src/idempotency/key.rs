//! Keys of answers.

use ring::digest::{Context, SHA256};

/// A digest of parts, each with its length before it, so that no two lists of parts have one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest([u8; 32]);

impl Digest {
    /// That of these parts.
    pub fn of<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> Digest {
        let mut context = Context::new(&SHA256);
        for part in parts {
            context.update(&(part.len() as u64).to_le_bytes());
            context.update(part);
        }
        let mut bytes = [0; 32];
        bytes.copy_from_slice(context.finish().as_ref());
        Digest(bytes)
    }

    /// The digest itself.
    pub(crate) fn bytes(&self) -> [u8; 32] {
        self.0
    }

    /// A number that follows from it.
    pub(crate) fn number(&self) -> u64 {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&self.0[..8]);
        u64::from_le_bytes(bytes)
    }
}

impl From<[u8; 32]> for Digest {
    fn from(bytes: [u8; 32]) -> Digest {
        Digest(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_do_not_run_together() {
        let digest = |parts: &[&str]| Digest::of(parts.iter().map(|part| part.as_bytes()));
        assert_eq!(digest(&["a", "b"]), digest(&["a", "b"]));
        assert_ne!(digest(&["a", "b"]), digest(&["ab", ""]));
        assert_ne!(digest(&["a", "b"]), digest(&["a", "b", ""]));
    }
}
