// What the tests of the Node.js clients share: cases in TAP, servers, and the comparison of answers with the interfaces that the clients declare.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";

export const require = createRequire(join(process.env.INFER_CLIENTS, "node_modules", "x.js"));
export const URLS = JSON.parse(process.env.INFER_URLS);
export const NAME = process.env.INFER_NAME;
export const KEY = process.env.INFER_KEY;
export const LONG = 60000; // milliseconds: against hangs, never to measure

// ---- Cases ----

const cases = [];

export function test(name, run) {
    cases.push({ name, run });
}

export async function main() {
    const chosen = cases.filter((one) => !process.argv[2] || one.name.includes(process.argv[2]));
    let failed = 0;
    console.log(`1..${chosen.length}`);
    for (const [i, one] of chosen.entries()) {
        try {
            await one.run();
            console.log(`ok ${i + 1} - ${one.name}`);
        } catch (error) {
            failed++;
            console.log(`not ok ${i + 1} - ${one.name}`);
            for (const line of String(error.stack ?? error).split("\n")) console.log(`# ${line}`);
        }
    }
    process.exit(failed || !chosen.length ? 1 : 0);
}

// ---- Servers ----

async function active(kind) {
    const text = await (await fetch(`${URLS[kind]}/metrics`)).text();
    const value = (name) => Number(text.match(new RegExp(`^${name} (\\S+)$`, "m"))?.[1] ?? NaN);
    return value("infer_sessions_active") + value("infer_requests_waiting");
}

export async function untilIdle(kind) {
    for (const end = Date.now() + LONG; await active(kind); await new Promise((go) => setTimeout(go, 20)))
        assert(Date.now() < end, "answers go on although their client has gone");
}

// The client's own error, of exactly this class, whose text or param has all words.
export async function rejects(kind, promise, ...words) {
    let error;
    try {
        await promise;
    } catch (caught) {
        error = caught;
    }
    assert(error, `no ${kind.name}`);
    assert.equal(error.constructor, kind, `${error.constructor.name}, not ${kind.name}: ${error.message}`);
    for (const word of words) assert(`${error.message} ${error.param}`.includes(word), `${word} is not in ${error.message}`);
    return error;
}

// ---- Shapes ----

const DOCS = readFileSync(join(process.env.INFER_ROOT, "docs", "server.md"), "utf8");
const NOT_OURS = new Set(["store" /* the APIs' own servers send it, although the clients' types lack it */,
    "max_tool_calls" /* the Python client's type has it */, "_request_id", "parsed", "parsed_output" /* the clients add these */]);
const declarations = new Map();

function documented(name) {
    return NOT_OURS.has(name) || new RegExp(`[\`".]${name}[\`".\\[]`).test(DOCS);
}

// The keys of an interface in a package's .d.ts file, or of one in a namespace ("ChatCompletion.Choice"): a map from name to whether it may be absent.
function declared(file, path) {
    const key = `${file} ${path}`;
    if (declarations.has(key)) return declarations.get(key);
    let text = readFileSync(join(process.env.INFER_CLIENTS, "node_modules", file), "utf8").replace(/\/\*[^]*?\*\//g, "");
    const names = path.split("."), last = names.pop();
    for (const name of names) text = block(text, new RegExp(`^ *(export declare )?namespace ${name} \\{$`, "m"));
    const body = block(text, new RegExp(`^ *(export )?interface ${last} \\{$`, "m"));
    const found = new Map();
    let depth = 0;
    for (const line of body.split("\n")) {
        const match = depth === 0 && line.match(/^\s*(\w+)(\??):/);
        if (match) found.set(match[1], match[2] === "?");
        depth += (line.match(/\{/g) ?? []).length - (line.match(/\}/g) ?? []).length;
    }
    assert(found.size, `${path} is not declared in ${file}`);
    declarations.set(key, found);
    return found;
}

// What stands between the braces of the first match.
function block(text, pattern) {
    const start = text.match(pattern);
    assert(start, `${pattern} is not there`);
    let depth = 0;
    const from = start.index + start[0].length;
    for (let i = from - 1; i < text.length; i++) {
        if (text[i] === "{") depth++;
        if (text[i] === "}" && --depth === 0) return text.slice(from, i);
    }
    throw new Error(`${pattern} does not end`);
}

// value has every key that the interface demands, and no other but documented extensions.
export function check(value, file, path) {
    const keys = declared(file, path);
    for (const [name, optional] of keys) assert(optional || name in value, `${path} lacks ${name}: ${JSON.stringify(value)}`);
    for (const name of Object.keys(value)) assert(keys.has(name) || documented(name), `${path} has ${name}, which is documented nowhere`);
    return value;
}
