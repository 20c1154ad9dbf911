// infer-server as the official Node.js client of OpenAI sees it: chat, completions, embeddings, models, responses over HTTP and WebSocket, errors. Run by
// run_node.py.
import assert from "node:assert/strict";
import { KEY, LONG, NAME, URLS, check, main, rejects, require, test, untilIdle } from "./common.mjs";

const { OpenAI } = require("openai");
const CHAT = "openai/resources/chat/completions/completions.d.ts", TEXT = "openai/resources/completions.d.ts";
const RESPONSES = "openai/resources/responses/responses.d.ts";
const HELLO = [{ role: "user", content: "Once upon a time" }];

function client(kind = "plain", apiKey = "any") {
    return new OpenAI({ baseURL: `${URLS[kind]}/v1`, apiKey, maxRetries: 0, timeout: LONG });
}

const wanted = (more = {}) => ({ model: NAME, messages: HELLO, max_tokens: 16, temperature: 0, ...more });
const said = (answer, i = 0) => answer.choices[i].message.content;

async function chat(more, kind) {
    const answer = check(await client(kind).chat.completions.create(wanted(more)), CHAT, "ChatCompletion");
    for (const choice of answer.choices) check(check(choice, CHAT, "ChatCompletion.Choice").message, CHAT, "ChatCompletionMessage");
    check(answer.usage, TEXT, "CompletionUsage");
    check(answer.usage.prompt_tokens_details, TEXT, "CompletionUsage.PromptTokensDetails");
    return answer;
}

async function chunks(more) {
    const pieces = [];
    for await (const piece of await client().chat.completions.create(wanted({ stream: true, ...more }))) {
        check(piece, CHAT, "ChatCompletionChunk");
        for (const choice of piece.choices) check(check(choice, CHAT, "ChatCompletionChunk.Choice").delta, CHAT, "ChatCompletionChunk.Choice.Delta");
        pieces.push(piece);
    }
    return pieces;
}

const joined = (pieces, index = 0) => pieces.flatMap((piece) => piece.choices).filter((choice) => choice.index === index)
    .map((choice) => choice.delta.content ?? "").join("");

// ---- Chat and completions ----

test("chat", async () => {
    const answer = await chat();
    assert.equal(answer.object, "chat.completion");
    assert.equal(answer.choices[0].finish_reason, "length");
    assert.equal(answer.usage.completion_tokens, 16);
    assert(said(answer));
    assert.equal(said(await chat({ messages: [{ role: "user", content: [{ type: "text", text: "Once upon a time" }] }] })), said(answer));
});

test("chat_stream", async () => {
    const whole = await chat(), pieces = await chunks({ stream_options: { include_usage: true } });
    assert.equal(joined(pieces), said(whole));
    assert.deepEqual(pieces.at(-1).choices, []);
    assert.equal(pieces.at(-1).usage.total_tokens, whole.usage.total_tokens);
    assert(pieces.slice(0, -1).every((piece) => !piece.usage));
});

test("chat_stream_helper", async () => {
    const word = said(await chat()).split(" ")[3];
    const runner = client().chat.completions.stream(wanted({ stop: [word] }));
    let text = "";
    runner.on("content", (piece) => (text += piece));
    const final = await runner.finalChatCompletion();
    assert.equal(final.choices[0].message.content, text);
    assert.equal(text, said(await chat({ stop: word })));
    assert.equal(final.choices[0].finish_reason, "stop");
});

test("chat_n_and_seed", async () => {
    const answer = await chat({ n: 3, seed: 5, temperature: 1 });
    const alone = [];
    for (let i = 0; i < 3; i++) alone.push(said(await chat({ seed: 5 + i, temperature: 1 })));
    assert.deepEqual(answer.choices.map((choice) => choice.message.content), alone);
    const pieces = await chunks({ n: 3, seed: 5, temperature: 1 });
    assert.deepEqual([0, 1, 2].map((i) => joined(pieces, i)), alone);
});

test("chat_logprobs", async () => {
    const answer = await chat({ logprobs: true, top_logprobs: 3 });
    const tokens = answer.choices[0].logprobs.content;
    for (const token of tokens) {
        check(token, CHAT, "ChatCompletionTokenLogprob");
        for (const top of token.top_logprobs) check(top, CHAT, "ChatCompletionTokenLogprob.TopLogprob");
        assert.equal(token.top_logprobs.length, 3);
    }
    assert.equal(tokens.map((token) => token.token).join(""), said(answer));
});

test("chat_bias_and_penalties", async () => {
    const forced = await chat({ logit_bias: { 1: 100 } });
    assert.equal(said(forced), "");
    assert.equal(forced.choices[0].finish_reason, "stop");
    assert.notEqual(said(await chat({ max_tokens: 32, frequency_penalty: 2 })), said(await chat({ max_tokens: 32 })));
});

test("completions", async () => {
    const ask = (more) => client().completions.create({ model: NAME, prompt: "Once upon a time", max_tokens: 8, temperature: 0, ...more });
    const answer = check(await ask(), TEXT, "Completion");
    check(answer.choices[0], TEXT, "CompletionChoice");
    let text = "";
    for await (const piece of await ask({ stream: true })) text += piece.choices[0]?.text ?? "";
    assert.equal(text, answer.choices[0].text);
    const echo = await ask({ echo: true, logprobs: 2 });
    check(echo.choices[0].logprobs, TEXT, "CompletionChoice.Logprobs");
    assert.equal(echo.choices[0].text, "Once upon a time" + text);
    const { tokens } = echo.choices[0].logprobs;
    assert.equal(tokens.slice(tokens[0] === "<s>" ? 1 : 0).join(""), echo.choices[0].text); // "<s>" before it has no text
});

// ---- Embeddings and models ----

test("embeddings", async () => {
    const ask = (more) => client().embeddings.create({ model: NAME, input: ["The cat sat", "A ship"], ...more });
    const floats = check(await ask({ encoding_format: "float" }), "openai/resources/embeddings.d.ts", "CreateEmbeddingResponse");
    const packed = await ask(); // the client asks for base64 by itself, and unpacks it
    assert.equal(floats.data.length, 2);
    check(floats.data[0], "openai/resources/embeddings.d.ts", "Embedding");
    assert.deepEqual(Array.from(packed.data[1].embedding), Array.from(Float32Array.from(floats.data[1].embedding)));
    const raw = await ask({ encoding_format: "base64" });
    assert.equal(typeof raw.data[0].embedding, "string");
});

test("models", async () => {
    const ids = [];
    for await (const model of client().models.list()) ids.push(check(model, "openai/resources/models.d.ts", "Model").id);
    assert.deepEqual(ids, [NAME]);
    assert.equal((await client().models.retrieve(NAME)).object, "model");
    await rejects(OpenAI.NotFoundError, client().models.retrieve("nothing"), "nothing");
});

// ---- Responses ----

const asked = (more = {}) => ({ model: NAME, input: "Once upon a time", max_output_tokens: 16, temperature: 0, ...more });

function checkResponse(response) {
    check(response, RESPONSES, "Response");
    if (response.usage) check(response.usage, RESPONSES, "ResponseUsage");
    for (const item of response.output) {
        if (item.type !== "message") continue;
        for (const part of check(item, RESPONSES, "ResponseOutputMessage").content) check(part, RESPONSES, "ResponseOutputText");
    }
    return response;
}

const respond = async (more, kind) => checkResponse(await client(kind).responses.create(asked(more)));

test("responses", async () => {
    const first = await respond();
    assert.equal(first.status, "incomplete");
    assert(first.output_text);
    const got = await client().responses.retrieve(first.id);
    assert.equal(got.output_text, first.output_text);
    const second = await respond({ input: "And then?", previous_response_id: first.id });
    assert.equal(second.previous_response_id, first.id);
    assert(second.usage.input_tokens_details.cached_tokens >= first.usage.input_tokens);
    await client().responses.delete(first.id);
    await rejects(OpenAI.NotFoundError, client().responses.retrieve(first.id), first.id);
    await rejects(OpenAI.BadRequestError, respond({ previous_response_id: first.id }), "previous_response_id");
});

test("responses_stream", async () => {
    const kinds = [];
    let text = "", number = 0, last;
    for await (const event of await client().responses.create(asked({ stream: true }))) {
        assert.equal(event.sequence_number, number++);
        if (event.type === "response.output_text.delta") text += check(event, RESPONSES, "ResponseTextDeltaEvent").delta;
        if (kinds.at(-1) !== event.type) kinds.push(event.type);
        last = event;
    }
    assert.deepEqual(kinds, ["response.created", "response.in_progress", "response.output_item.added", "response.content_part.added",
        "response.output_text.delta", "response.output_text.done", "response.content_part.done", "response.output_item.done", "response.incomplete"]);
    assert.equal(text, (await respond()).output_text);
    assert.equal(last.response.status, "incomplete");
});

test("responses_stream_helper", async () => {
    const more = { max_output_tokens: 200, temperature: 1, seed: 1, logit_bias: { 1: 8 } };
    const final = await client().responses.stream(asked(more)).finalResponse();
    assert.equal(final.status, "completed");
    assert.equal(final.output_text, (await respond(more)).output_text);
});

test("responses_cancel", async () => {
    const stream = await client("narrow").responses.create(asked({ max_output_tokens: 50000, logit_bias: { 1: -100 }, stream: true, background: true }));
    for await (const event of stream) {
        if (event.type !== "response.created") continue;
        assert.equal((await client("narrow").responses.cancel(event.response.id)).status, "cancelled");
        break;
    }
    await untilIdle("narrow");
});

test("responses_websocket", async () => {
    const { ResponsesWS } = require("openai/resources/responses/ws");
    const socket = new ResponsesWS(client());
    const turn = (more) => new Promise((done, failed) => {
        const kinds = [];
        const listen = (event) => {
            kinds.push(event.type);
            if (!["response.completed", "response.incomplete", "response.failed"].includes(event.type)) return;
            socket.off("event", listen);
            done({ kinds, response: event.response });
        };
        socket.on("event", listen);
        socket.on("error", failed);
        socket.send({ type: "response.create", ...asked(more) });
    });
    try {
        const first = await turn();
        assert.equal(first.kinds[0], "response.created");
        const text = first.response.output[0].content[0].text;
        assert.equal(text, (await respond()).output_text);
        const second = await turn({ input: "And then?", previous_response_id: first.response.id });
        assert.equal(second.response.previous_response_id, first.response.id);
    } finally {
        socket.close();
    }
});

// ---- Errors ----

test("errors", async () => {
    for (const [param, more] of [["temperature", { temperature: 3 }], ["max_tokens", { max_tokens: -1 }], ["messages", { messages: [] }],
        ["tools", { tools: [{ type: "function", function: { name: "f" } }] }], ["nonsense", { nonsense: 1 }],
        ["response_format", { response_format: { type: "json_object" } }]]) {
        const error = await rejects(OpenAI.BadRequestError, chat(more), param);
        assert.equal(error.type, "invalid_request_error");
        assert(error.param?.startsWith(param), error.param);
    }
    assert.equal((await rejects(OpenAI.NotFoundError, chat({ model: "gpt-of-elsewhere" }))).code, "model_not_found");
    assert.equal((await rejects(OpenAI.AuthenticationError, client("keys", "wrong").chat.completions.create(wanted()))).code, "invalid_api_key");
    assert((await client("keys", KEY).chat.completions.create(wanted())).choices.length);
});

test("rate_limit", async () => {
    const one = client("limited");
    await one.chat.completions.create(wanted({ max_tokens: 1 }));
    const error = await rejects(OpenAI.RateLimitError, one.chat.completions.create(wanted({ max_tokens: 1 })));
    assert(Number(error.headers.get("retry-after")) >= 1);
});

test("overload", async () => {
    const stream = await client("narrow").chat.completions.create(wanted({ max_tokens: 50000, logit_bias: { 1: -100 }, stream: true }));
    for await (const piece of stream) {
        if (!piece.choices[0]?.delta.content) continue;
        assert.equal((await rejects(OpenAI.InternalServerError, client("narrow").chat.completions.create(wanted()))).status, 503);
        break;
    }
    await untilIdle("narrow");
});

test("abort_and_timeout", async () => {
    const runner = client("narrow").chat.completions.stream(wanted({ max_tokens: 50000, logit_bias: { 1: -100 } }));
    runner.on("content", () => runner.abort());
    await rejects(OpenAI.APIUserAbortError, runner.finalChatCompletion());
    await untilIdle("narrow");
    await rejects(OpenAI.APIConnectionTimeoutError, client("narrow").chat.completions.create(wanted({ max_tokens: 50000, logit_bias: { 1: -100 } }), { timeout: 500 }));
    await untilIdle("narrow");
});

await main();
