//! Calls of functions as structures: a text in which a model calls what it may, in the form it writes calls in.

use std::borrow::Cow;
use std::fmt::Write;

use serde_json::Value;
use tidegate_contract::Structure;

use crate::GrammarError;
use crate::compile::{WHITE_SPACE, with_white_space};

/// Text that is not looked at.
const ANY: &str = "/(.|\\n)*/";
/// White space in arguments. Models write them on one line; a weak one given room fills its answer with it.
const IN_ARGUMENTS: &str = r"[\x20]";

/// What stands at a place: a text, or a special token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mark<'a> {
    /// A text.
    Text(&'a str),
    /// A token by its number.
    Token(u32),
}

impl Mark<'_> {
    fn written(&self) -> String {
        match self {
            Mark::Text(text) => literal(text),
            Mark::Token(token) => format!("<[{token}]>"),
        }
    }
}

/// How calls are written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallShape<'a> {
    /// Each between two marks: `{"name": ..., "arguments": {...}}`.
    Tagged {
        /// Before each.
        begins: Mark<'a>,
        /// Behind each.
        ends: Mark<'a>,
    },
    /// Without a mark: `{"name": ..., "parameters": {...}}`.
    Bare,
    /// A list behind a mark: `[{"name": ..., "arguments": {...}}]`.
    List {
        /// Before the list.
        begins: Mark<'a>,
    },
    /// A mark, a name, a mark and the arguments.
    Named {
        /// Before the name.
        begins: Mark<'a>,
        /// Behind it.
        arguments: Mark<'a>,
    },
    /// A message for the function, in a channel; what is said besides is in messages as well. It ends the answer.
    Channels {
        /// Before the name of a channel.
        channel: Mark<'a>,
        /// Before the kind of what is in the body.
        constrain: Mark<'a>,
        /// Before the body.
        message: Mark<'a>,
        /// Behind it.
        end: Mark<'a>,
        /// Before the name of who says the next message.
        start: Mark<'a>,
    },
}

impl CallShape<'_> {
    /// The head of a message for the user in this channel; nothing where there are no channels.
    fn head_of(&self, name: &str) -> String {
        match self {
            CallShape::Channels {
                channel, message, ..
            } => format!(
                "{} {} {}",
                channel.written(),
                literal(name),
                message.written()
            ),
            _ => String::new(),
        }
    }
}

/// What may stand there instead of calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Otherwise<'a> {
    /// Nothing.
    Calls,
    /// Any text, also before calls where they have a mark.
    Text,
    /// A JSON value that the schema accepts.
    JsonSchema(&'a str),
}

/// A text with calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallGrammar<'a> {
    /// What may be called: a name, and the JSON Schema of its arguments; any object where there is none.
    pub functions: Vec<(&'a str, Option<&'a str>)>,
    /// How.
    pub shape: CallShape<'a>,
    /// Whether there may be more than one.
    pub several: bool,
    /// What may stand there instead.
    pub otherwise: Otherwise<'a>,
}

impl CallGrammar<'_> {
    /// As a structure.
    ///
    /// # Errors
    /// A schema is no JSON, or no schema.
    pub fn structure(&self) -> Result<Structure, GrammarError> {
        let mut lark = String::from("%llguidance {}\n");
        let mut rule = |name: &str, body: &str| {
            // Writing to a string does not fail.
            let _ = writeln!(lark, "{name}: {body}");
        };
        rule("start", "body");
        let mut bodies = Vec::new();
        if !self.functions.is_empty() {
            self.calls(&mut rule, &mut bodies)?;
        }
        match &self.otherwise {
            Otherwise::JsonSchema(schema) => {
                rule("answer", &json(schema, WHITE_SPACE)?);
                bodies.push(format!("{} answer", self.shape.head_of("final")));
            }
            Otherwise::Text if self.functions.is_empty() => bodies.push(ANY.to_owned()),
            Otherwise::Calls | Otherwise::Text => {}
        }
        rule("body", &bodies.join(" | "));
        Ok(Structure::Grammar(lark))
    }

    /// Rules for the calls; what a body may be with them.
    fn calls(
        &self,
        rule: &mut impl FnMut(&str, &str),
        bodies: &mut Vec<String>,
    ) -> Result<(), GrammarError> {
        let mut each = Vec::with_capacity(self.functions.len());
        for (index, (name, schema)) in self.functions.iter().enumerate() {
            let schema = schema.unwrap_or(r#"{"type": "object"}"#);
            let schema = closed(schema);
            rule(&format!("arguments{index}"), &json(&schema, IN_ARGUMENTS)?);
            let text = Value::from(*name).to_string();
            let (before, behind) = match &self.shape {
                CallShape::Named { arguments, .. } => {
                    (format!("{} {}", literal(name), arguments.written()), "")
                }
                CallShape::Bare => {
                    let before = format!(r#"{{"name": {text}, "parameters": "#);
                    (literal(&before), r#" "}""#)
                }
                CallShape::Channels {
                    channel,
                    constrain,
                    message,
                    ..
                } => {
                    let (channel, to) = (channel.written(), format!(" to=functions.{name}"));
                    let behind = literal(&format!("commentary{to}"));
                    // Both are written, by models and by their templates.
                    let before = format!(
                        r#"({channel} {behind} | {} {channel} "commentary")"#,
                        literal(&to)
                    );
                    let kind = format!(r#"(" "? {} "json" | " json")"#, constrain.written());
                    (format!("{before} {kind} {}", message.written()), "")
                }
                CallShape::Tagged { .. } | CallShape::List { .. } => {
                    let before = format!(r#"{{"name": {text}, "arguments": "#);
                    (literal(&before), r#" "}""#)
                }
            };
            rule(
                &format!("call{index}"),
                &format!("{before} arguments{index}{behind}"),
            );
            each.push(format!("call{index}"));
        }
        rule("call", &each.join(" | "));
        if let CallShape::Channels { end, start, .. } = &self.shape {
            bodies.push("call".to_owned());
            if self.otherwise == Otherwise::Text {
                let said = text_before("said", end, &mut *rule);
                let (head, start) = (self.shape.head_of("commentary"), start.written());
                bodies.push(format!(r#"{head} {said} {start} "assistant" call"#));
                rule("rest", ANY);
                bodies.push(format!("{} rest", self.shape.head_of("final")));
            }
            return Ok(());
        }
        let text = self.otherwise == Otherwise::Text;
        // What comes behind the mark of a call.
        let (mark, behind, between) = match &self.shape {
            CallShape::Tagged { begins, ends } => (
                Some(begins),
                format!(r#""\n" call "\n" {}"#, ends.written()),
                r#""\n""#,
            ),
            CallShape::List { begins } => {
                let more = if self.several { r#" (", " call)*"# } else { "" };
                (Some(begins), format!(r#""[" call{more} "]""#), "")
            }
            CallShape::Named { begins, .. } => (Some(begins), "call".to_owned(), ""),
            CallShape::Channels { .. } => (None, String::new(), ""),
            CallShape::Bare => {
                let more = if self.several { r#" ("; " call)*"# } else { "" };
                bodies.push(format!("call{more}"));
                if text {
                    bodies.push("/[^{<\\s](.|\\n)*/".to_owned());
                    bodies.push(r#""""#.to_owned());
                }
                return Ok(());
            }
        };
        let Some(mark) = mark else {
            return Ok(());
        };
        rule("behind", &behind);
        // A list has all calls in it.
        let again = self.several && !matches!(self.shape, CallShape::List { .. });
        if text {
            let one = format!("{} behind", text_before("before", mark, &mut *rule));
            rule("rest", ANY);
            bodies.push(match again {
                true => format!("({one})* rest"),
                false => one,
            });
            if !again {
                bodies.push("rest".to_owned());
            }
        } else {
            let one = format!("{} behind", mark.written());
            bodies.push(match (again, between) {
                (false, _) => one,
                (true, "") => format!("({one})+"),
                (true, between) => format!("{one} ({between} {one})*"),
            });
        }
        Ok(())
    }
}

/// Any text up to a mark, and the mark; adds a rule of this name for it.
fn text_before(name: &str, mark: &Mark<'_>, rule: &mut impl FnMut(&str, &str)) -> String {
    match mark {
        Mark::Text(mark) => {
            rule(
                &format!("{name}[lazy]"),
                &format!("{ANY} {}", literal(mark)),
            );
            name.to_owned()
        }
        Mark::Token(token) => {
            rule(name, ANY);
            format!("{name} <[{token}]>")
        }
    }
}

/// A text in a grammar.
fn literal(text: &str) -> String {
    Value::from(text).to_string()
}

/// A schema that says which arguments there are has no others, unless it says that too: a function that is given what it
/// does not know fails.
fn closed(schema: &str) -> Cow<'_, str> {
    match serde_json::from_str(schema) {
        Ok(Value::Object(mut fields)) if fields.contains_key("properties") => {
            let more = fields.entry("additionalProperties");
            more.or_insert(Value::Bool(false));
            Cow::Owned(Value::Object(fields).to_string())
        }
        // What is wrong with it is said where it is compiled.
        _ => Cow::Borrowed(schema),
    }
}

fn json(schema: &str, white_space: &str) -> Result<String, GrammarError> {
    match with_white_space(schema, white_space) {
        Ok(schema) => Ok(format!("%json {schema}")),
        Err(reason) => Err(GrammarError::Structure {
            kind: "JSON Schema",
            reason,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Compiler, Vocabulary};

    /// The number of the special token.
    const TAG: u32 = 256;
    const END: u32 = 257;

    fn compiler() -> Compiler {
        let bytes = (0..=255u8).map(|byte| Some(vec![byte]));
        let tokens = bytes.chain([None, None]).collect();
        Compiler::new(Vocabulary::new(tokens, &[END]).unwrap())
    }

    /// Tokens of a text in which `@` is the special one.
    fn tokens(text: &str) -> Vec<u32> {
        let token = |byte: u8| if byte == b'@' { TAG } else { u32::from(byte) };
        text.bytes().map(token).collect()
    }

    /// Whether a text is taken to its end, and may end there.
    fn takes(grammar: &CallGrammar<'_>, text: &str) -> bool {
        let mut matcher = compiler().matcher(&grammar.structure().unwrap()).unwrap();
        let all = tokens(text);
        all.iter().all(|token| matcher.accept(*token).is_ok()) && matcher.may_end().unwrap()
    }

    const SCHEMA: &str = r#"{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"],
        "additionalProperties":false}"#;

    fn grammar<'a>(shape: CallShape<'a>, otherwise: Otherwise<'a>) -> CallGrammar<'a> {
        CallGrammar {
            functions: vec![("add", Some(SCHEMA)), ("any", None)],
            shape,
            several: true,
            otherwise,
        }
    }

    fn tagged<'a>() -> CallShape<'a> {
        CallShape::Tagged {
            begins: Mark::Text("<tool_call>"),
            ends: Mark::Text("</tool_call>"),
        }
    }

    const ADD: &str = "<tool_call>\n{\"name\": \"add\", \"arguments\": {\"n\": 1}}\n</tool_call>";
    const ANY_CALL: &str =
        "<tool_call>\n{\"name\": \"any\", \"arguments\": {\"x\": [\"}\"]}}\n</tool_call>";

    #[test]
    fn a_call_that_must_come_keeps_to_its_form_and_schema() {
        let forced = grammar(tagged(), Otherwise::Calls);
        assert!(takes(&forced, ADD) && takes(&forced, ANY_CALL));
        assert!(takes(&forced, &format!("{ADD}\n{ANY_CALL}")));
        assert!(!takes(&forced, "") && !takes(&forced, "No.") && !takes(&forced, &ADD[..30]));
        assert!(!takes(&forced, &ADD.replace("1", "\"1\"")));
        assert!(!takes(&forced, &ADD.replace("add", "sub")));
        assert!(!takes(&forced, &ANY_CALL.replace("{\"x\": [\"}\"]}", "7")));
        let one = CallGrammar {
            several: false,
            ..forced
        };
        assert!(takes(&one, ADD) && !takes(&one, &format!("{ADD}\n{ADD}")));
    }

    #[test]
    fn each_form_is_written_as_its_models_do() {
        let bare = grammar(CallShape::Bare, Otherwise::Calls);
        let call = r#"{"name": "add", "parameters": {"n": -5}}"#;
        assert!(takes(&bare, call) && takes(&bare, &format!("{call}; {call}")));
        assert!(!takes(&bare, "Hello"));
        let begins = Mark::Token(TAG);
        let list = grammar(CallShape::List { begins }, Otherwise::Calls);
        let call = r#"{"name": "add", "arguments": {"n": 5}}"#;
        assert!(takes(&list, &format!("@[{call}]")) && takes(&list, &format!("@[{call}, {call}]")));
        assert!(!takes(&list, &format!("[{call}]")) && !takes(&list, "@[]"));
        let named = CallShape::Named {
            begins: Mark::Token(TAG),
            arguments: Mark::Text("[ARGS]"),
        };
        let named = grammar(named, Otherwise::Calls);
        assert!(
            takes(&named, "@add[ARGS]{\"n\": 5}@any[ARGS]{}") && !takes(&named, "@sub[ARGS]{}")
        );
    }

    #[test]
    fn calls_in_channels_are_messages_and_so_is_what_is_said_besides() {
        // `@` stands before the channel.
        let shape = || CallShape::Channels {
            channel: Mark::Token(TAG),
            constrain: Mark::Text("<c>"),
            message: Mark::Text("<m>"),
            end: Mark::Text("<e>"),
            start: Mark::Text("<s>"),
        };
        let calls = [
            r#"@commentary to=functions.add <c>json<m>{"n": 1}"#,
            r#"@commentary to=functions.add<c>json<m>{"n": 1}"#,
            r#" to=functions.add@commentary json<m>{"n": 1}"#,
        ];
        let (said, spoken) = ("@final<m>I am.", "@commentary<m>I look.<e><s>assistant");
        let forced = grammar(shape(), Otherwise::Calls);
        let free = grammar(shape(), Otherwise::Text);
        for call in calls {
            assert!(takes(&forced, call), "{call}");
            assert!(takes(&free, call), "{call}");
            assert!(takes(&free, &format!("{spoken}{call}")), "{call}");
            let broken = call.replace('1', "true");
            assert!(!takes(&forced, &broken) && !takes(&free, &broken));
            assert!(!takes(&free, &format!("{spoken}{broken}")) && !takes(&free, &call[..20]));
            assert!(!takes(&free, &call.replace("add", "sub")));
            assert!(!takes(&forced, &format!("{spoken}{call}")));
        }
        assert!(takes(&free, said) && !takes(&forced, said) && !takes(&free, "I am."));
        let either = grammar(shape(), Otherwise::JsonSchema(r#"{"type":"boolean"}"#));
        assert!(takes(&either, "@final<m>true") && takes(&either, calls[0]));
        assert!(!takes(&either, "true") && !takes(&either, "@final<m>7"));
    }

    #[test]
    fn text_may_come_where_no_call_must_and_a_call_still_keeps_to_its_schema() {
        for (shape, add) in [
            (tagged(), ADD.to_owned()),
            (
                CallShape::Tagged {
                    begins: Mark::Token(TAG),
                    ends: Mark::Text("</tool_call>"),
                },
                ADD.replace("<tool_call>", "@"),
            ),
        ] {
            for several in [true, false] {
                let free = CallGrammar {
                    several,
                    ..grammar(shape.clone(), Otherwise::Text)
                };
                assert!(takes(&free, "") && takes(&free, "A < b, \n{\"name\": 1}"));
                assert!(takes(&free, &add) && takes(&free, &format!("I add.\n{add}")));
                assert_eq!(takes(&free, &format!("{add}\n{add} Done.")), several);
                assert!(!takes(
                    &free,
                    &format!("I add. {}", add.replace("1", "true"))
                ));
            }
        }
        let bare = grammar(CallShape::Bare, Otherwise::Text);
        assert!(takes(&bare, "") && takes(&bare, "Hello {\"name\""));
        assert!(takes(&bare, r#"{"name": "add", "parameters": {"n": 5}}"#));
        assert!(!takes(
            &bare,
            r#"{"name": "add", "parameters": {"n": true}}"#
        ));
    }

    #[test]
    fn arguments_are_those_that_the_schema_names() {
        let open = r#"{"type": "object", "properties": {"city": {"type": "string"}}}"#;
        assert!(closed(open).contains(r#""additionalProperties":false"#));
        let said = r#"{"properties": {}, "additionalProperties": {"type": "string"}}"#;
        assert!(!closed(said).contains("false"));
        assert_eq!(closed(r#"{"type": "object"}"#), r#"{"type": "object"}"#);
    }

    #[test]
    fn a_json_answer_or_calls() {
        let either = grammar(tagged(), Otherwise::JsonSchema(r#"{"type":"boolean"}"#));
        assert!(takes(&either, "true") && takes(&either, ADD));
        assert!(!takes(&either, "7") && !takes(&either, "true true"));
        let answer = CallGrammar {
            functions: Vec::new(),
            ..either
        };
        assert!(takes(&answer, "true") && !takes(&answer, ADD));
    }

    #[test]
    fn a_schema_that_is_none_is_named() {
        let mut broken = grammar(tagged(), Otherwise::Calls);
        broken.functions[0].1 = Some("{");
        assert!(
            broken
                .structure()
                .unwrap_err()
                .to_string()
                .starts_with("JSON Schema: ")
        );
        broken.functions[0].1 = Some(r#"{"type": "nonsense"}"#);
        assert!(compiler().matcher(&broken.structure().unwrap()).is_err());
        let mut odd = grammar(tagged(), Otherwise::Calls);
        odd.functions[0].0 = "a\"\\\n\u{1}é%";
        let call = format!(
            "<tool_call>\n{{\"name\": {}, \"arguments\": {{\"n\": 1}}}}\n</tool_call>",
            Value::from(odd.functions[0].0)
        );
        assert!(takes(&odd, &call));
    }
}
