// OpenAI's client for Node.js, unmodified, through every endpoint of a gateway. Each check prints one line.
import OpenAI from "openai";
import assert from "node:assert/strict";

const { GATEWAY, GATEWAY_KEY = "none", GATEWAY_MODEL: model, GATEWAY_EMBEDDINGS } = process.env;
const client = new OpenAI({ baseURL: GATEWAY, apiKey: GATEWAY_KEY, timeout: 300_000 });
const messages = [{ role: "user", content: "My order came incomplete." }];
const chat = (more = {}) => client.chat.completions.create({ model, messages, max_tokens: 24, ...more });
const weather = {
  type: "function",
  function: {
    name: "get_weather",
    parameters: {
      type: "object",
      properties: { city: { enum: ["Oslo", "Rome"] } },
      required: ["city"],
      additionalProperties: false,
    },
    strict: true,
  },
};

const checks = {
  async models_are_listed() {
    const listed = [];
    for await (const one of client.models.list()) listed.push(one.id);
    assert.ok(listed.includes(model), listed);
  },
  async hello_world_of_the_readme_has_an_answer() {
    const response = await client.responses.create({ model, input: "My order came incomplete." });
    assert.ok(response.output_text);
  },
  async responses_stream_to_the_text_they_have_whole() {
    const asked = { model, input: "My order came incomplete.", max_output_tokens: 24 };
    const whole = await client.responses.create(asked);
    let text = "";
    const stream = client.responses.stream(asked).on("response.output_text.delta", (event) => (text += event.delta));
    const final = await stream.finalResponse();
    assert.equal(text, whole.output_text);
    assert.equal(final.output_text ?? text, whole.output_text);
  },
  async a_chat_streams_to_the_text_it_has_whole() {
    const whole = await chat();
    let text = "";
    let usage;
    for await (const chunk of await chat({ stream: true, stream_options: { include_usage: true } })) {
      text += chunk.choices[0]?.delta?.content ?? "";
      usage = chunk.usage ?? usage;
    }
    assert.equal(text, whole.choices[0].message.content);
    assert.equal(usage.completion_tokens, whole.usage.completion_tokens);
    assert.ok(whole._request_id);
  },
  async the_stream_helper_ends_with_the_whole_answer() {
    const runner = client.chat.completions.stream({ model, messages, max_tokens: 24 });
    let text = "";
    runner.on("content", (delta) => (text += delta));
    assert.equal(await runner.finalContent(), text);
  },
  async functions_are_called_in_a_stream() {
    const runner = client.chat.completions.stream({
      model,
      messages,
      tools: [weather],
      tool_choice: "required",
      max_tokens: 200,
    });
    const final = await runner.finalChatCompletion();
    const [call] = final.choices[0].message.tool_calls;
    assert.equal(call.function.name, "get_weather");
    assert.ok(["Oslo", "Rome"].includes(JSON.parse(call.function.arguments).city));
  },
  async functions_are_run_by_the_helper() {
    let asked = 0;
    const runner = client.chat.completions.runTools({
      model,
      messages,
      max_tokens: 200,
      tool_choice: { type: "function", function: { name: "get_weather" } },
      tools: [{ ...weather, function: { ...weather.function, parse: JSON.parse, function: () => (asked++, "Sun.") } }],
    });
    await runner.done();
    assert.ok(asked > 0);
  },
  async a_structured_answer_has_its_form() {
    const answer = await chat({
      max_tokens: 200,
      response_format: {
        type: "json_schema",
        json_schema: {
          name: "verdict",
          strict: true,
          schema: {
            type: "object",
            properties: { urgent: { type: "boolean" } },
            required: ["urgent"],
            additionalProperties: false,
          },
        },
      },
    });
    assert.equal(typeof JSON.parse(answer.choices[0].message.content).urgent, "boolean");
  },
  async completions_go_on_with_a_text() {
    const whole = await client.completions.create({ model, prompt: "The order", max_tokens: 8 });
    let text = "";
    for await (const chunk of await client.completions.create({ model, prompt: "The order", max_tokens: 8, stream: true }))
      text += chunk.choices[0]?.text ?? "";
    assert.equal(text, whole.choices[0].text);
  },
  async embeddings_are_no_empty_vectors() {
    const answer = await client.embeddings.create({ model: GATEWAY_EMBEDDINGS, input: ["one", "two"] });
    const floats = await client.embeddings.create({
      model: GATEWAY_EMBEDDINGS,
      input: ["one", "two"],
      encoding_format: "float",
    });
    assert.ok(answer.data[0].embedding.length > 8);
    assert.equal(answer.data[1].embedding.length, floats.data[1].embedding.length);
    assert.ok(Math.abs(answer.data[0].embedding[0] - floats.data[0].embedding[0]) < 1e-6);
  },
  async errors_are_those_of_the_client() {
    await assert.rejects(chat({ model: "nothing" }), OpenAI.NotFoundError);
    await assert.rejects(chat({ temperature: 9 }), (error) => {
      assert.ok(error instanceof OpenAI.BadRequestError);
      assert.equal(error.param, "temperature");
      return true;
    });
  },
  async an_aborted_stream_leaves_the_others_their_answers() {
    const stream = await chat({ stream: true });
    for await (const _ of stream) break;
    stream.controller.abort();
    assert.ok((await chat()).choices[0].message.content);
  },
};

const wanted = process.argv.slice(2);
let failed = 0;
for (const [name, run] of Object.entries(checks)) {
  if (wanted.length > 0 && !wanted.includes(name)) continue;
  try {
    await run();
    console.log(`ok ${name}`);
  } catch (error) {
    failed += 1;
    console.log(`FAILED ${name}\n${error.stack ?? error}`);
  }
}
console.log(`${Object.keys(checks).length} checks, ${failed} failed`);
process.exit(Math.min(failed, 100));
