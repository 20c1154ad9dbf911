// infer-server as the official Node.js client of Anthropic sees it. Run by run_node.py.
import assert from "node:assert/strict";
import { KEY, LONG, NAME, URLS, check, main, rejects, require, test, untilIdle } from "./common.mjs";

const { default: Anthropic } = require("@anthropic-ai/sdk");
const TYPES = "@anthropic-ai/sdk/resources/messages/messages.d.ts";
const HELLO = [{ role: "user", content: "Once upon a time" }];
const LONG_TEXT = "It was told by those who were there, and by some who were not. ".repeat(5);

function client(kind = "plain", apiKey = "any") {
    return new Anthropic({ baseURL: URLS[kind], apiKey, maxRetries: 0, timeout: LONG });
}

const wanted = (more = {}) => ({ model: NAME, max_tokens: 16, temperature: 0, messages: HELLO, ...more });
const textOf = (message) => message.content.map((block) => block.text ?? "").join("");
const promptTokens = (usage) => usage.input_tokens + usage.cache_creation_input_tokens + usage.cache_read_input_tokens;

function checkMessage(message) {
    check(message, TYPES, "Message");
    check(message.usage, TYPES, "Usage");
    for (const block of message.content) check(block, TYPES, block.type === "text" ? "TextBlock" : "ThinkingBlock");
    return message;
}

async function create(more, kind) {
    return checkMessage(await client(kind).messages.create(wanted(more)));
}

test("message", async () => {
    const message = await create();
    assert.equal(message.type, "message");
    assert.equal(message.stop_reason, "max_tokens");
    assert.equal(message.usage.output_tokens, 16);
    assert.match(message._request_id, /^req_/);
    assert(textOf(message));
    assert.equal(textOf(await create({ messages: [{ role: "user", content: [{ type: "text", text: "Once upon a time" }] }] })), textOf(message));
});

test("stop_sequence", async () => {
    const whole = textOf(await create()), word = whole.split(" ")[3];
    const message = await create({ stop_sequences: [word] });
    assert.equal(message.stop_reason, "stop_sequence");
    assert.equal(message.stop_sequence, word);
    assert.equal(textOf(message), whole.slice(0, whole.indexOf(word)));
});

test("stream_events", async () => {
    const types = {
        message_start: "RawMessageStartEvent", message_delta: "RawMessageDeltaEvent", message_stop: "RawMessageStopEvent",
        content_block_start: "RawContentBlockStartEvent", content_block_delta: "RawContentBlockDeltaEvent", content_block_stop: "RawContentBlockStopEvent",
    };
    const kinds = [];
    let text = "";
    for await (const event of await client().messages.create(wanted({ stream: true }))) {
        check(event, TYPES, types[event.type]);
        if (event.type === "message_start") checkMessage(event.message);
        if (event.type === "message_delta") check(event.usage, TYPES, "MessageDeltaUsage");
        if (event.type === "content_block_delta") text += check(event.delta, TYPES, "TextDelta").text;
        if (kinds.at(-1) !== event.type) kinds.push(event.type);
    }
    assert.deepEqual(kinds, ["message_start", "content_block_start", "content_block_delta", "content_block_stop", "message_delta", "message_stop"]);
    assert.equal(text, textOf(await create()));
});

test("stream_helper", async () => {
    const stream = client().messages.stream(wanted());
    let text = "";
    stream.on("text", (piece) => (text += piece));
    const final = checkMessage(await stream.finalMessage());
    assert.equal(text, textOf(final));
    assert.equal(text, textOf(await create()));
    assert.equal(final.usage.output_tokens, 16);
});

test("count_tokens", async () => {
    const prompt = { system: "Be kind.", messages: [...HELLO, { role: "assistant", content: "there was" }, { role: "user", content: "Go on ☃" }] };
    const count = check(await client().messages.countTokens({ model: NAME, ...prompt }), TYPES, "MessageTokensCount");
    assert.equal(promptTokens((await create(prompt)).usage), count.input_tokens);
});

test("cache_control", async () => {
    const system = [{ type: "text", text: "From Node.js. " + LONG_TEXT, cache_control: { type: "ephemeral", ttl: "1h" } }];
    const first = (await create({ system })).usage, second = (await create({ system })).usage;
    assert(first.cache_creation_input_tokens > 64 && first.cache_creation.ephemeral_1h_input_tokens === first.cache_creation_input_tokens);
    assert.equal(second.cache_read_input_tokens, promptTokens(first) - 1);
});

test("thinking", async () => {
    const more = { max_tokens: 1064, thinking: { type: "enabled", budget_tokens: 1024 }, temperature: 1, seed: 3, logit_bias: { 1: -100 } };
    const message = await create(more, "thinking");
    assert.deepEqual(message.content.map((block) => block.type), ["thinking", "text"]);
    const thoughts = [];
    const stream = client("thinking").messages.stream(wanted(more)).on("thinking", (piece) => thoughts.push(piece));
    assert.deepEqual((await stream.finalMessage()).content, message.content);
    assert.equal(thoughts.join(""), message.content[0].thinking);
    await rejects(Anthropic.BadRequestError, create(more), "thinking.type");
});

test("models", async () => {
    const ids = [];
    for await (const model of client().models.list()) ids.push(check(model, "@anthropic-ai/sdk/resources/models.d.ts", "ModelInfo").id);
    assert.deepEqual(ids, [NAME]);
    assert.equal((await client().models.retrieve(NAME)).type, "model");
    await rejects(Anthropic.NotFoundError, client().models.retrieve("nothing"), "nothing");
});

test("errors", async () => {
    const bad = (more, ...words) => rejects(Anthropic.BadRequestError, create(more), ...words);
    const error = await bad({ max_tokens: -1 }, "max_tokens");
    assert.equal(error.error.error.type, "invalid_request_error");
    assert.match(error.requestID, /^req_/);
    await bad({ messages: [{ role: "user", content: [{ type: "image", source: { type: "url", url: "x" } }] }] }, "messages.0.content.0", "image");
    await bad({ tools: [{ name: "x", input_schema: { type: "object" } }] }, "tools");
    await bad({ nonsense: 1 }, "nonsense");
    await rejects(Anthropic.NotFoundError, create({ model: "claude-of-elsewhere" }), "claude-of-elsewhere");
    await rejects(Anthropic.AuthenticationError, client("keys", "wrong").messages.create(wanted()));
    assert((await client("keys", KEY).messages.create(wanted())).content.length);
});

test("rate_limit", async () => {
    const one = client("limited");
    await one.messages.create(wanted({ max_tokens: 1 }));
    const error = await rejects(Anthropic.RateLimitError, one.messages.create(wanted({ max_tokens: 1 })));
    assert(Number(error.headers.get("retry-after")) >= 1);
});

test("overload", async () => {
    const stream = await client("narrow").messages.create(wanted({ max_tokens: 50000, logit_bias: { 1: -100 }, stream: true }));
    for await (const event of stream) {
        if (event.type !== "content_block_start") continue;
        const error = await rejects(Anthropic.ServiceUnavailableError ?? Anthropic.InternalServerError, client("narrow").messages.create(wanted()));
        assert.equal(error.error.error.type, "overloaded_error");
        break; // aborts the stream
    }
    await untilIdle("narrow");
});

test("abort_and_timeout", async () => {
    const stream = client("narrow").messages.stream(wanted({ max_tokens: 50000, logit_bias: { 1: -100 } }));
    stream.on("text", () => stream.abort());
    await rejects(Anthropic.APIUserAbortError, stream.finalMessage());
    await untilIdle("narrow");
    await rejects(Anthropic.APIConnectionTimeoutError, client("narrow").messages.create(wanted({ max_tokens: 50000, logit_bias: { 1: -100 } }), { timeout: 500 }));
    await untilIdle("narrow");
});

await main();
