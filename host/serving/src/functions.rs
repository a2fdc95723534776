//! Functions that an answer may call, as they were asked for, checked.

use std::collections::HashSet;

use serde_json::Value;
use tidegate_contract::{Conversation, Function, FunctionChoice, ModelError, Structure};
use tidegate_grammar::{CallGrammar, CallShape, Mark, Matcher, Otherwise};
use tidegate_text::{AnswerForm, CallForm, Tag};

/// Most functions of a conversation.
const MOST_FUNCTIONS: usize = 128;

/// The functions that the model is shown: none where none is to be called.
pub(crate) fn callable(conversation: &Conversation) -> &[Function] {
    match conversation.function_choice {
        FunctionChoice::None => &[],
        _ => &conversation.functions,
    }
}

/// Checks the functions and the choice among them.
pub(crate) fn check(conversation: &Conversation) -> Result<(), ModelError> {
    let functions = &conversation.functions;
    if functions.len() > MOST_FUNCTIONS {
        let value = format!("{} functions", functions.len());
        return Err(ModelError::parameter(
            "functions",
            value,
            format!("at most {MOST_FUNCTIONS}"),
        ));
    }
    let mut names = HashSet::with_capacity(functions.len());
    for function in functions {
        let name = function.name.as_str();
        if name.is_empty() {
            return Err(ModelError::parameter(
                "functions",
                "one without a name",
                "of names that are not empty",
            ));
        }
        if !names.insert(name) {
            return Err(ModelError::parameter(
                "functions",
                format!("{name:?} twice"),
                "of each name once",
            ));
        }
        match serde_json::from_str::<Value>(&function.parameters) {
            Ok(Value::Object(_)) => {}
            Ok(_) => {
                let value = format!("{name:?} with parameters that are no object");
                return Err(ModelError::parameter(
                    "functions",
                    value,
                    "of JSON Schemas that are objects",
                ));
            }
            Err(error) => {
                let value = format!("{name:?} with parameters that are no JSON ({error})");
                return Err(ModelError::parameter(
                    "functions",
                    value,
                    "of JSON Schemas that are objects",
                ));
            }
        }
    }
    match &conversation.function_choice {
        FunctionChoice::Required if functions.is_empty() => Err(ModelError::parameter(
            "function_choice",
            "required",
            "auto or none where there are no functions",
        )),
        FunctionChoice::Named(name) if !names.contains(name.as_str()) => {
            Err(ModelError::parameter(
                "function_choice",
                format!("{name:?}"),
                "the name of one of the functions",
            ))
        }
        _ => Ok(()),
    }
}

fn must_call(conversation: &Conversation) -> bool {
    matches!(
        conversation.function_choice,
        FunctionChoice::Required | FunctionChoice::Named(_)
    )
}

/// What keeps an answer to the calls that it must have, or to their schemas where it may have some; none where there is
/// nothing to keep to beyond the structure.
///
/// Where a call must come, the structure is that of another kind of answer, and has no effect. Where one may come, it may
/// come instead of a JSON value; instead of another structure none can.
pub(crate) fn matcher(
    conversation: &Conversation,
    structure: Option<&Structure>,
    form: &AnswerForm,
    compile: impl Fn(&Structure) -> Result<Matcher, ModelError>,
) -> Result<Option<Matcher>, ModelError> {
    let functions = callable(conversation);
    let must = must_call(conversation);
    let strict = functions.iter().any(|function| function.strict);
    let otherwise = match (must, structure) {
        (true, _) => Otherwise::Calls,
        (false, None) if strict => Otherwise::Text,
        (false, Some(Structure::JsonSchema(schema))) if !functions.is_empty() => {
            Otherwise::JsonSchema(schema)
        }
        _ => return Ok(None),
    };
    let wanted = |function: &&Function| match &conversation.function_choice {
        FunctionChoice::Named(name) => function.name == *name,
        _ => true,
    };
    let called: Vec<&Function> = functions.iter().filter(wanted).collect();
    let build = |all: bool| {
        let grammar = CallGrammar {
            functions: called
                .iter()
                .map(|function| schema(function, must && all))
                .collect(),
            shape: shape(form),
            several: conversation.parallel_calls,
            otherwise: otherwise.clone(),
        };
        let structure = grammar
            .structure()
            .map_err(|error| ModelError::parameter("functions", "given", error.to_string()))?;
        compile(&structure)
    };
    let named = |error: ModelError| match error {
        ModelError::Parameter { limit, .. } => {
            let names: Vec<&str> = called
                .iter()
                .map(|function| function.name.as_str())
                .collect();
            ModelError::parameter("functions", names.join(", "), limit)
        }
        error => error,
    };
    // A schema that is not understood does not matter where nobody asked to keep to it.
    let loose = must && called.iter().any(|function| !function.strict);
    match build(true) {
        Err(ModelError::Parameter { .. }) if loose => build(false).map_err(named).map(Some),
        built => built.map_err(named).map(Some),
    }
}

/// A function's name, and the schema that arguments keep to: where it is strict, or it is wanted.
fn schema(function: &Function, wanted: bool) -> (&str, Option<&str>) {
    let keeps = function.strict || wanted;
    (&function.name, keeps.then_some(&function.parameters))
}

fn mark(tag: &Tag) -> Mark<'_> {
    match tag.token() {
        Some(token) => Mark::Token(token),
        None => Mark::Text(tag.text()),
    }
}

fn shape(form: &AnswerForm) -> CallShape<'_> {
    let begins = mark(&form.call.0);
    if let Some(channels) = &form.channels {
        return CallShape::Channels {
            channel: mark(&channels.channel),
            constrain: mark(&channels.constrain),
            message: mark(&channels.message),
            end: mark(&channels.end),
            start: mark(&channels.start),
        };
    }
    match (form.calls, &form.named) {
        // A form in channels has them.
        (CallForm::Tagged | CallForm::Channels, _) => CallShape::Tagged {
            begins,
            ends: mark(&form.call.1),
        },
        (CallForm::Bare, _) => CallShape::Bare,
        (CallForm::List, None) => CallShape::List { begins },
        (CallForm::List, Some(arguments)) => CallShape::Named {
            begins,
            arguments: mark(arguments),
        },
    }
}
