//! What chats and responses have in common, once their own members are read.

use tidegate_contract::{AskingRecord, Message, Wishes};

use super::asking::{Asking, Question};
use super::error::ApiError;
use super::fields::Fields;
use super::route::Endpoint;
use super::tools::Tools;
use super::{messages, parameters};

/// One conversation. The second says whether a stream ends with its usage.
pub(super) fn asking(
    body: &mut Fields,
    endpoint: Endpoint,
    model: String,
    messages: Vec<Message>,
    tools: Tools,
    wishes: Wishes,
) -> Result<(Asking, bool), ApiError> {
    let (stream, usage) = parameters::stream(body)?;
    parameters::service_tier(body)?;
    let mut asking = AskingRecord {
        messages,
        functions: tools.functions,
        function_choice: tools.choice,
        parallel_calls: tools.parallel,
        lanes: true,
        parameters: wishes,
        ..AskingRecord::default()
    };
    let told_to_continue;
    (asking.continues, told_to_continue) = messages::continues(body, &asking)?;
    let asking = Asking {
        endpoint,
        model,
        user: parameters::user(body)?,
        metadata: parameters::metadata(body)?,
        stream,
        told_to_continue,
        questions: vec![Question {
            asking,
            input: None,
            documents: Vec::new(),
        }],
    };
    Ok((asking, usage))
}
