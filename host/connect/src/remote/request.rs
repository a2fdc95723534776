//! A request in OpenAI's protocol.
//!
//! What that protocol cannot say is refused by name, never left out. Without effect are: guessing tokens ahead, which
//! changes no answer; tokens of an answer that were made before, for no server goes on after tokens: the answer begins
//! anew; and, for a server that knows no more than OpenAI's own, what an assistant thought in earlier turns.

use tidegate_contract::{
    Call, Conversation, Function, FunctionChoice, Message, ModelError, Parameters, Prompt, Role,
    Structure,
};

use super::estimate;
use super::json::{Object, array, is_json};
use super::options::{Dialect, LimitName, OpenAi};

/// Most answers of a request.
const MOST_CHOICES: u32 = 128;

/// A request that is ready to be sent.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    /// The body.
    pub body: String,
    /// Answers that are asked for.
    pub choices: u32,
    /// Most tokens of each.
    pub max_tokens: u32,
    /// Whether reasoning has a lane.
    pub lanes: bool,
    /// Tokens of the prompt, estimated.
    pub prompt_tokens: usize,
}

/// The request for an answer.
pub(crate) fn generate(
    server: &OpenAi,
    most_tokens: u32,
    seed: u64,
    prompt: &Prompt,
    parameters: &Parameters,
) -> Result<Asked, ModelError> {
    check(parameters, most_tokens)?;
    let mut object = Object::new();
    object.member("model", &server.model);
    let chat = matches!(prompt, Prompt::Chat(_));
    let (lanes, prompt_tokens) = match prompt {
        Prompt::Chat(conversation) => {
            let tokens = self::chat(&mut object, server, conversation)?;
            (conversation.lanes || conversation.reasoning_apart, tokens)
        }
        Prompt::Raw(text) if text.is_empty() => return Err(ModelError::EmptyPrompt),
        Prompt::Raw(text) => {
            object.member("prompt", text);
            (false, estimate::tokens(text))
        }
    };
    object.member("stream", &true);
    object.raw("stream_options", r#"{"include_usage":true}"#);
    let limit = match (chat, server.limit_name) {
        (true, LimitName::MaxCompletionTokens) => "max_completion_tokens",
        _ => "max_tokens",
    };
    object.member(limit, &parameters.max_tokens);
    sampling(&mut object, server.dialect, seed, parameters)?;
    if let Some(structure) = &parameters.structure {
        self::structure(&mut object, server.dialect, chat, structure)?;
    }
    Ok(Asked {
        body: object.end(),
        choices: parameters.n,
        max_tokens: parameters.max_tokens,
        lanes,
        prompt_tokens,
    })
}

fn check(parameters: &Parameters, most_tokens: u32) -> Result<(), ModelError> {
    parameters.check_ranges(MOST_CHOICES)?;
    let tokens = parameters.max_tokens;
    if !(1..=most_tokens).contains(&tokens) {
        let limit = format!("between 1 and {most_tokens}");
        return Err(ModelError::parameter("max_tokens", tokens, limit));
    }
    if let Some(most) = parameters.reasoning_tokens {
        let limit = "none of a remote model: its server bounds what it thinks";
        return Err(ModelError::parameter("reasoning_tokens", most, limit));
    }
    // Its tokens have numbers here, and a remote answer's have none.
    match parameters.logprobs {
        Some(likeliest) => Err(ModelError::parameter(
            "logprobs",
            likeliest,
            "none of a remote model",
        )),
        None => Ok(()),
    }
}

fn sampling(
    object: &mut Object,
    dialect: Dialect,
    seed: u64,
    p: &Parameters,
) -> Result<(), ModelError> {
    object.member("temperature", &p.temperature);
    if p.top_p < 1.0 {
        object.member("top_p", &p.top_p);
    }
    for (name, value) in [
        ("presence_penalty", p.presence_penalty),
        ("frequency_penalty", p.frequency_penalty),
    ] {
        if value != 0.0 {
            object.member(name, &value);
        }
    }
    let more = dialect == Dialect::Vllm;
    if p.top_k > 0 {
        if !more {
            return Err(ModelError::parameter(
                "top_k",
                p.top_k,
                "0 of a remote model",
            ));
        }
        object.member("top_k", &p.top_k);
    }
    if p.min_p > 0.0 {
        if !more {
            return Err(ModelError::parameter(
                "min_p",
                p.min_p,
                "0 of a remote model",
            ));
        }
        object.member("min_p", &p.min_p);
    }
    if p.repetition_penalty != 1.0 {
        if !more {
            return Err(ModelError::parameter(
                "repetition_penalty",
                p.repetition_penalty,
                "1 of a remote model",
            ));
        }
        object.member("repetition_penalty", &p.repetition_penalty);
    }
    if !p.logit_bias.is_empty() {
        let mut biases = Object::new();
        for (token, bias) in &p.logit_bias {
            biases.member(&token.to_string(), bias);
        }
        object.raw("logit_bias", &biases.end());
    }
    if p.n > 1 {
        object.member("n", &p.n);
    }
    if !p.stop.is_empty() {
        object.member("stop", &p.stop);
    }
    // Servers read it as integers of 32, 53 and 64 bits, with a sign or without: all have these.
    object.member("seed", &((seed ^ (seed >> 32)) & 0x7fff_ffff));
    Ok(())
}

fn structure(
    object: &mut Object,
    dialect: Dialect,
    chat: bool,
    structure: &Structure,
) -> Result<(), ModelError> {
    let more = dialect == Dialect::Vllm;
    let mut outputs = Object::new();
    match structure {
        Structure::JsonSchema(schema) if !is_json(schema) => {
            return Err(ModelError::parameter("structure", "a schema", "JSON"));
        }
        Structure::JsonSchema(schema) if chat => {
            let mut named = Object::new();
            named.member("name", "answer");
            named.raw("schema", schema).member("strict", &true);
            let mut format = Object::new();
            format.member("type", "json_schema");
            format.raw("json_schema", &named.end());
            object.raw("response_format", &format.end());
            return Ok(());
        }
        _ if !more => {
            let value = match structure {
                Structure::JsonSchema(_) => "a JSON Schema without a chat",
                Structure::Regex(_) => "a regular expression",
                Structure::Choice(_) => "a choice of texts",
                Structure::Grammar(_) => "a grammar",
            };
            return Err(ModelError::parameter(
                "structure",
                value,
                "a JSON Schema in a chat, of a remote model",
            ));
        }
        Structure::JsonSchema(schema) => outputs.raw("json", schema),
        Structure::Regex(regex) => outputs.member("regex", regex),
        Structure::Choice(texts) => outputs.member("choice", texts),
        Structure::Grammar(grammar) => outputs.member("grammar", grammar),
    };
    object.raw("structured_outputs", &outputs.end());
    Ok(())
}

/// Writes a chat; tokens of its texts, estimated.
fn chat(
    object: &mut Object,
    server: &OpenAi,
    conversation: &Conversation,
) -> Result<usize, ModelError> {
    if conversation.messages.is_empty() {
        return Err(ModelError::EmptyPrompt);
    }
    let mut tokens = 0;
    let messages = conversation.messages.iter().map(|message| {
        tokens += estimate::tokens(&message.content);
        self::message(message, server.dialect)
    });
    let messages = array(messages.collect::<Vec<_>>());
    object.raw("messages", &messages);
    if conversation.continues {
        // Others would answer the message instead of going on with it.
        if server.dialect != Dialect::Vllm {
            let why =
                "the server cannot be told to go on with the last message: it needs dialect vllm";
            return Err(ModelError::Prompt(why.to_owned()));
        }
        object.member("add_generation_prompt", &false);
        object.member("continue_final_message", &true);
    }
    let arguments = &conversation.template_arguments;
    if !arguments.is_empty() {
        // Under the name that vLLM and SGLang have for them.
        if server.dialect != Dialect::Vllm {
            let limit = "none of a remote model, unless its server has dialect vllm";
            return Err(ModelError::parameter(
                "template_arguments",
                arguments.text(),
                limit,
            ));
        }
        object.raw("chat_template_kwargs", &arguments.text());
    }
    if conversation.functions.is_empty() {
        return Ok(tokens);
    }
    let mut functions = Vec::new();
    for function in &conversation.functions {
        tokens += estimate::tokens(&function.parameters);
        functions.push(self::function(function)?);
    }
    object.raw("tools", &array(functions));
    match &conversation.function_choice {
        FunctionChoice::Auto => object.member("tool_choice", "auto"),
        FunctionChoice::None => object.member("tool_choice", "none"),
        FunctionChoice::Required => object.member("tool_choice", "required"),
        FunctionChoice::Named(name) => {
            let function = Object::new().member("name", name).end();
            let choice = Object::new()
                .member("type", "function")
                .raw("function", &function)
                .end();
            object.raw("tool_choice", &choice)
        }
    };
    if !conversation.parallel_calls {
        object.member("parallel_tool_calls", &false);
    }
    Ok(tokens)
}

fn message(message: &Message, dialect: Dialect) -> String {
    let mut object = Object::new();
    object.member(
        "role",
        match message.role {
            Role::System => "system",
            Role::User => "user",
            Role::Assistant => "assistant",
            Role::Tool => "tool",
        },
    );
    match message.content.is_empty() && !message.calls.is_empty() {
        true => object.raw("content", "null"),
        false => object.member("content", &message.content),
    };
    if let Some(name) = &message.name {
        object.member("name", name);
    }
    if let (Some(reasoning), Dialect::Vllm) = (&message.reasoning, dialect) {
        object.member("reasoning_content", reasoning);
    }
    if !message.calls.is_empty() {
        object.raw("tool_calls", &array(message.calls.iter().map(call)));
    }
    if let Some(call) = &message.answers {
        object.member("tool_call_id", call);
    }
    object.end()
}

fn call(call: &Call) -> String {
    let function = Object::new()
        .member("name", &call.name)
        .member("arguments", &call.arguments)
        .end();
    Object::new()
        .member("id", &call.id)
        .member("type", "function")
        .raw("function", &function)
        .end()
}

fn function(function: &Function) -> Result<String, ModelError> {
    let mut object = Object::new();
    object.member("name", &function.name);
    if let Some(description) = &function.description {
        object.member("description", description);
    }
    if !is_json(&function.parameters) {
        let value = format!("a schema of {:?}", function.name);
        return Err(ModelError::parameter("functions", value, "JSON"));
    }
    object.raw("parameters", &function.parameters);
    if function.strict {
        object.member("strict", &true);
    }
    Ok(Object::new()
        .member("type", "function")
        .raw("function", &object.end())
        .end())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn ask(dialect: Dialect, prompt: Prompt, parameters: Parameters) -> Result<Value, ModelError> {
        let server = OpenAi {
            dialect,
            ..OpenAi::new("http://localhost", "there")
        };
        let asked = generate(&server, 1000, 1 << 32 | 5, &prompt, &parameters)?;
        Ok(serde_json::from_str(&asked.body).unwrap())
    }

    fn hello() -> Prompt {
        Prompt::Chat(vec![Message::new(Role::User, "hello")].into())
    }

    fn refused(prompt: Prompt, parameters: Parameters) -> &'static str {
        match ask(Dialect::OpenAi, prompt, parameters) {
            Err(ModelError::Parameter { name, .. }) => name,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_least_request_says_no_more_than_it_must() {
        let body = ask(Dialect::OpenAi, hello(), Parameters::default()).unwrap();
        let expected = json!({
            "model": "there", "messages": [{"role": "user", "content": "hello"}], "stream": true,
            "stream_options": {"include_usage": true}, "max_tokens": 256, "temperature": 0.0, "seed": 4,
        });
        assert_eq!(body, expected);
    }

    #[test]
    fn a_whole_conversation_is_said_with_its_functions_calls_and_answers() {
        let called = Call {
            id: "call_1".into(),
            name: "weather".into(),
            arguments: r#"{"place":"Bonn"}"#.into(),
        };
        let conversation = Conversation {
            messages: vec![
                Message::new(Role::System, "be kind"),
                Message {
                    calls: vec![called],
                    reasoning: Some("thought".into()),
                    ..Message::new(Role::Assistant, "")
                },
                Message {
                    answers: Some("call_1".into()),
                    ..Message::new(Role::Tool, "rain")
                },
            ],
            functions: vec![Function {
                name: "weather".into(),
                description: Some("tells it".into()),
                parameters: r#"{"z":1,"a":2}"#.into(),
                strict: true,
            }],
            function_choice: FunctionChoice::Named("weather".into()),
            parallel_calls: false,
            lanes: true,
            continues: false,
            ..Conversation::default()
        };
        let prompt = Prompt::Chat(conversation);
        let body = ask(Dialect::OpenAi, prompt.clone(), Parameters::default()).unwrap();
        assert_eq!(
            body["messages"][1],
            json!({"role": "assistant", "content": null, "tool_calls": [{"id": "call_1", "type": "function",
                "function": {"name": "weather", "arguments": "{\"place\":\"Bonn\"}"}}]})
        );
        assert_eq!(body["messages"][2]["tool_call_id"], "call_1");
        assert_eq!(body["tools"][0]["function"]["strict"], true);
        assert_eq!(
            body["tool_choice"],
            json!({"type": "function", "function": {"name": "weather"}})
        );
        assert_eq!(body["parallel_tool_calls"], false);
        let body = ask(Dialect::Vllm, prompt.clone(), Parameters::default()).unwrap();
        assert_eq!(body["messages"][1]["reasoning_content"], "thought");
        // A schema keeps its order: models follow it.
        let server = OpenAi::new("http://localhost", "there");
        let asked = generate(&server, 1000, 0, &prompt, &Parameters::default()).unwrap();
        assert!(asked.body.contains(r#"{"z":1,"a":2}"#));
    }

    #[test]
    fn the_beginning_of_an_answer_is_given_to_servers_that_go_on_with_it() {
        let messages = vec![
            Message::new(Role::User, "hello"),
            Message::new(Role::Assistant, "Hel"),
        ];
        let prompt = Prompt::Chat(Conversation {
            continues: true,
            ..messages.into()
        });
        let body = ask(Dialect::Vllm, prompt.clone(), Parameters::default()).unwrap();
        assert_eq!(body["continue_final_message"], true);
        assert_eq!(body["add_generation_prompt"], false);
        let refused = ask(Dialect::OpenAi, prompt, Parameters::default());
        assert!(matches!(refused, Err(ModelError::Prompt(_))), "{refused:?}");
    }

    #[test]
    fn arguments_of_the_template_are_given_to_servers_that_have_one() {
        let prompt = |arguments: &str| {
            let messages = vec![Message::new(Role::User, "hello")];
            Prompt::Chat(Conversation {
                template_arguments: serde_json::from_str(arguments).unwrap(),
                ..messages.into()
            })
        };
        let given = prompt(r#"{"enable_thinking":false}"#);
        let body = ask(Dialect::Vllm, given.clone(), Parameters::default()).unwrap();
        assert_eq!(
            body["chat_template_kwargs"],
            json!({"enable_thinking": false})
        );
        let refused = ask(Dialect::OpenAi, given, Parameters::default()).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "template_arguments is {\"enable_thinking\":false}, must be none of a remote model, unless its server has dialect vllm"
        );
        let body = ask(Dialect::Vllm, prompt("{}"), Parameters::default()).unwrap();
        assert!(body.get("chat_template_kwargs").is_none());
    }

    #[test]
    fn every_parameter_that_can_be_said_is() {
        let parameters = Parameters {
            max_tokens: 7,
            temperature: 0.5,
            top_p: 0.25,
            presence_penalty: 1.0,
            frequency_penalty: -1.0,
            logit_bias: vec![(5, -100.0)],
            n: 2,
            stop: vec!["\n".into()],
            structure: Some(Structure::JsonSchema(r#"{"type":"object"}"#.into())),
            ..Parameters::default()
        };
        let body = ask(Dialect::OpenAi, hello(), parameters).unwrap();
        for (name, value) in [
            ("max_tokens", json!(7)),
            ("temperature", json!(0.5)),
            ("top_p", json!(0.25)),
            ("presence_penalty", json!(1.0)),
            ("frequency_penalty", json!(-1.0)),
            ("logit_bias", json!({"5": -100.0})),
            ("n", json!(2)),
            ("stop", json!(["\n"])),
            (
                "response_format",
                json!({"type": "json_schema", "json_schema":
                    {"name": "answer", "schema": {"type": "object"}, "strict": true}}),
            ),
        ] {
            assert_eq!(body[name], value, "{name}");
        }
    }

    #[test]
    fn what_cannot_be_said_is_refused_by_name_unless_the_server_knows_more() {
        let base = Parameters::default;
        let cases = [
            ("top_k", Parameters { top_k: 5, ..base() }, "top_k"),
            (
                "min_p",
                Parameters {
                    min_p: 0.25,
                    ..base()
                },
                "min_p",
            ),
            (
                "repetition_penalty",
                Parameters {
                    repetition_penalty: 2.0,
                    ..base()
                },
                "repetition_penalty",
            ),
            (
                "structure",
                Parameters {
                    structure: Some(Structure::Regex("a+".into())),
                    ..base()
                },
                "structured_outputs",
            ),
            (
                "structure",
                Parameters {
                    structure: Some(Structure::Choice(vec!["a".into()])),
                    ..base()
                },
                "structured_outputs",
            ),
            (
                "structure",
                Parameters {
                    structure: Some(Structure::Grammar("start: \"a\"".into())),
                    ..base()
                },
                "structured_outputs",
            ),
        ];
        for (name, parameters, member) in cases {
            assert_eq!(refused(hello(), parameters.clone()), name);
            let body = ask(Dialect::Vllm, hello(), parameters).unwrap();
            assert!(!body[member].is_null(), "{member}");
        }
        let schema = Parameters {
            structure: Some(Structure::JsonSchema("{}".into())),
            ..base()
        };
        assert_eq!(refused(Prompt::Raw("a".into()), schema), "structure");
        assert_eq!(
            refused(
                hello(),
                Parameters {
                    logprobs: Some(0),
                    ..base()
                }
            ),
            "logprobs"
        );
        assert_eq!(
            refused(
                hello(),
                Parameters {
                    max_tokens: 1001,
                    ..base()
                }
            ),
            "max_tokens"
        );
        assert_eq!(refused(hello(), Parameters { n: 0, ..base() }), "n");
        let bounded = Parameters {
            reasoning_tokens: Some(5),
            ..base()
        };
        assert_eq!(refused(hello(), bounded.clone()), "reasoning_tokens");
        assert!(ask(Dialect::Vllm, hello(), bounded).is_err());
        let nan = Parameters {
            temperature: f32::NAN,
            ..base()
        };
        assert_eq!(refused(hello(), nan), "temperature");
    }

    #[test]
    fn a_raw_prompt_is_a_completion_and_an_empty_one_is_none() {
        let server = OpenAi::new("http://localhost", "there");
        let raw = |text: &str| {
            generate(
                &server,
                9,
                0,
                &Prompt::Raw(text.into()),
                &Parameters {
                    max_tokens: 9,
                    ..Parameters::default()
                },
            )
        };
        let asked = raw("Once").unwrap();
        let body: Value = serde_json::from_str(&asked.body).unwrap();
        assert_eq!(body["prompt"], "Once");
        assert_eq!(raw("").unwrap_err(), ModelError::EmptyPrompt);
        let empty = Prompt::Chat(Conversation::default());
        assert!(matches!(
            ask(Dialect::OpenAi, empty, Parameters::default()),
            Err(ModelError::EmptyPrompt)
        ));
    }
}
