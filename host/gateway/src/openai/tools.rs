//! Functions that a model may call.

use serde_json::{Value, json};
use tidegate_contract::{Function, FunctionChoice};

use super::error::ApiError;
use super::fields::{Fields, Known, wrong_type};

type Read<T> = Result<T, ApiError>;

/// Longest name of a function.
const LONGEST_NAME: usize = 64;
/// Most functions of a request.
const MOST: usize = 128;

/// Where a tool has its function: a chat's in a member of its own, that of a response in itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Nested,
    Flat,
}

/// `tools`, `tool_choice` and `parallel_tool_calls`.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Tools {
    pub(crate) functions: Vec<Function>,
    pub(crate) choice: FunctionChoice,
    pub(crate) parallel: bool,
}

pub(crate) fn tools(body: &mut Fields, form: Form) -> Read<Tools> {
    let list = body.list("tools")?.unwrap_or_default();
    if list.len() > MOST {
        let why = format!("has {} tools, must have at most {MOST}", list.len());
        return Err(body.wrong("tools", why));
    }
    let mut functions: Vec<Function> = Vec::with_capacity(list.len());
    for (index, value) in list.into_iter().enumerate() {
        let mut tool = Fields::object(format!("tools[{index}]"), value)?;
        only_function(&mut tool)?;
        let function = match form {
            Form::Flat => function(tool)?,
            Form::Nested => {
                let inner = tool.inner("function")?;
                let read = function(inner.ok_or_else(|| tool.missing("function"))?)?;
                tool.end(&NONE)?;
                read
            }
        };
        if functions.iter().any(|other| other.name == function.name) {
            let at = format!("tools[{index}]");
            let why = format!("{at} has the name {:?} of another one", function.name);
            return Err(ApiError::invalid(&at, "invalid_value", why));
        }
        functions.push(function);
    }
    let choice = choice(body, form, &functions)?;
    Ok(Tools {
        choice,
        parallel: body.flag("parallel_tool_calls")?.unwrap_or(true) && !functions.is_empty(),
        functions,
    })
}

const NONE: Known = Known {
    idle: &[],
    refused: &[],
};

fn only_function(tool: &mut Fields) -> Read<()> {
    match tool.needed_text("type")?.as_str() {
        "function" => Ok(()),
        other => {
            let at = tool.at("type");
            let why = format!("{at} is {other:?}, only \"function\" is supported");
            Err(ApiError::invalid(&at, "unsupported_parameter", why))
        }
    }
}

fn function(mut fields: Fields) -> Read<Function> {
    let name = fields.needed_text("name")?;
    let letter = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if name.is_empty() || name.len() > LONGEST_NAME || !name.chars().all(letter) {
        let why = format!("is {name:?}, must be 1 to {LONGEST_NAME} letters, digits, _ and -");
        return Err(fields.wrong("name", why));
    }
    let parameters = match fields.any("parameters") {
        None => json!({"type": "object", "properties": {}}),
        Some(schema) if schema.is_object() => schema,
        Some(other) => return Err(wrong_type(&fields.at("parameters"), &other, "an object")),
    };
    let function = Function {
        name,
        description: fields.text("description")?,
        parameters: parameters.to_string(),
        strict: fields.flag("strict")?.unwrap_or(false),
    };
    fields.end(&NONE)?;
    Ok(function)
}

fn choice(body: &mut Fields, form: Form, functions: &[Function]) -> Read<FunctionChoice> {
    let choice = match body.any("tool_choice") {
        None => return Ok(FunctionChoice::Auto),
        Some(Value::String(word)) => match word.as_str() {
            "auto" => FunctionChoice::Auto,
            "none" => FunctionChoice::None,
            "required" => FunctionChoice::Required,
            other => {
                let why =
                    format!("is {other:?}, must be \"auto\", \"none\", \"required\" or a function");
                return Err(body.wrong("tool_choice", why));
            }
        },
        Some(value) => {
            let mut choice = Fields::object("tool_choice".to_owned(), value)?;
            only_function(&mut choice)?;
            FunctionChoice::Named(match form {
                Form::Flat => choice.needed_text("name")?,
                Form::Nested => {
                    let inner = choice.inner("function")?;
                    inner
                        .ok_or_else(|| choice.missing("function"))?
                        .needed_text("name")?
                }
            })
        }
    };
    let known = match &choice {
        FunctionChoice::Named(name) => functions.iter().any(|function| function.name == *name),
        FunctionChoice::Required => !functions.is_empty(),
        FunctionChoice::Auto | FunctionChoice::None => true,
    };
    if known {
        Ok(choice)
    } else {
        Err(body.wrong("tool_choice", "asks for a function that is not among tools"))
    }
}
