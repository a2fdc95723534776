//! What loading says of weights that are held otherwise than they are stored.

use tidegate_weights::{Checkpoint, Tensor};
use tracing::{info, warn};

use crate::load_error::LoadError;

/// What rows that are encoded anew for the kernels may lose without a warning, as a share of their root mean square: int8 keeps
/// weights to about a half of a hundredth.
const USUAL_LOSS: f64 = 0.02;

/// The tensors that are widened to f32 because their rows share vectors of four with those of another format, or because heads of
/// their input are padded: by what they are handed on in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Widened(Vec<WidenedFormat>);

/// Those of one format.
#[derive(Clone, Debug, PartialEq, Eq)]
struct WidenedFormat {
    /// What they are handed on in.
    format: &'static str,
    /// How many.
    tensors: usize,
    /// The first of them.
    first: String,
    /// Bytes that they take more for it, together.
    more_bytes: u64,
}

impl Widened {
    /// Counts tensors, each with the bytes that it takes more.
    pub(crate) fn extend<'t, 'a: 't>(
        &mut self,
        tensors: impl IntoIterator<Item = (&'t Tensor<'a>, u64)>,
    ) {
        for (tensor, more_bytes) in tensors {
            let format = tensor.format().name();
            match self.0.iter_mut().find(|of| of.format == format) {
                Some(of) => {
                    of.tensors += 1;
                    of.more_bytes += more_bytes;
                }
                None => self.0.push(WidenedFormat {
                    format,
                    tensors: 1,
                    first: tensor.name().to_owned(),
                    more_bytes,
                }),
            }
        }
    }

    /// Warns of each format.
    pub(crate) fn tell(&self) {
        for of in &self.0 {
            warn!(
                tensor = of.first,
                format = of.format,
                tensors = of.tensors,
                more_bytes = of.more_bytes,
                "weights are held as f32, since kernels cannot read them beside others of another format or padded"
            );
        }
    }
}

/// Says of each format that no kernel reads what its tensors became, and what that costs.
pub(crate) fn tell_reencoded(checkpoint: &Checkpoint) -> Result<(), LoadError> {
    for of in checkpoint.reencoded()? {
        let Some(loss) = of.loss else { continue };
        let (stored, held) = (of.stored.makers_name(), of.held.name());
        let (rms, largest) = (
            format!("{:.3} %", 100.0 * loss.rms),
            format!("{:.3} %", 100.0 * loss.largest),
        );
        let (tensor, worst) = &loss.worst;
        if *worst > USUAL_LOSS {
            warn!(
                stored,
                tensor,
                rms_loss = format!("{:.3} %", 100.0 * worst),
                "weights are too small or too large for {held}, which no longer says what they were"
            );
        }
        info!(
            stored,
            tensors = of.tensors,
            stored_bytes = of.stored_bytes,
            held_bytes = of.handed_on_bytes,
            rms_loss = rms,
            largest_loss = largest,
            "no kernel reads this format, it is held as {held}"
        );
    }
    Ok(())
}
