/* The chat page. A conversation is a tree of turns: undoing, editing and asking again make branches of it, and each answer leaves a checkpoint on the
 * server from which the next question goes on. What a model or a user wrote enters the page as text nodes only, never as HTML. */
"use strict";

const $ = id => document.getElementById(id);
const NUMBERS = ["temperature", "top_p", "top_k", "min_p", "repetition_penalty", "max_tokens", "seed"];
const MAX_CHECKPOINTS = 24; /* of one conversation; older ones are deleted: going back there computes the prompt again */

let nodes, tip, abort = null;
let saved = []; /* names of checkpoints, oldest first */
let conversation, count = 0;
let adapters = [];
let canSave = false;

/* ---- The server ---- */

function headers() {
  const h = { "content-type": "application/json" };
  if ($("key").value)
    h.authorization = "Bearer " + $("key").value;
  return h;
}

async function problem(response) {
  let text = response.status + " " + response.statusText;
  try {
    text = (await response.json()).error.message;
  } catch { /* no JSON: the status has to do */ }
  const e = new Error(response.status === 401 ? text + " (Settings: API key)" : text);
  e.status = response.status;
  return e;
}

async function post(path, body, options) {
  const response = await fetch(path, { method: "POST", headers: headers(), body: JSON.stringify(body), ...options });
  if (!response.ok)
    throw await problem(response);
  return response;
}

/* Server-sent events of a response, one after the other. */
async function* events(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done)
      return;
    text += value;
    for (let end; (end = text.indexOf("\n\n")) >= 0; text = text.slice(end + 2)) {
      const event = { name: "message", data: "" };
      for (const line of text.slice(0, end).split("\n")) {
        if (line.startsWith("event:"))
          event.name = line.slice(6).trim();
        else if (line.startsWith("data:"))
          event.data += line.slice(5).trim();
      }
      if (event.data)
        yield { name: event.name, data: JSON.parse(event.data) };
    }
  }
}

/* ---- The tree ---- */

function clear() {
  nodes = [{ id: 0, parent: -1, role: "root", children: [], last: 0 }];
  tip = 0;
  conversation = "page-" + Array.from(crypto.getRandomValues(new Uint8Array(9)), b => b.toString(36).padStart(2, "0")).join("");
}

function add(parent, role, text) {
  const node = { id: nodes.length, parent, role, text, reasoning: "", note: "", checkpoint: null, children: [], last: 0 };
  nodes.push(node);
  nodes[parent].children.push(node.id);
  nodes[parent].last = node.id;
  return node;
}

function path(to) {
  const out = [];
  for (let at = to; at > 0; at = nodes[at].parent)
    out.unshift(nodes[at]);
  return out;
}

/* The end of the branch that was seen last below a node. */
function end(id) {
  while (nodes[id].last)
    id = nodes[id].last;
  return id;
}

function lastQuestion(id) {
  while (id > 0 && nodes[id].role !== "user")
    id = nodes[id].parent;
  return id;
}

function keep() {
  try {
    sessionStorage.setItem("tree", JSON.stringify({ nodes: nodes.map(n => ({ ...n, checkpoint: null })), tip }));
  } catch { /* full, or forbidden: the page works without */ }
}

function restore() {
  clear();
  try {
    const old = JSON.parse(sessionStorage.getItem("tree"));
    if (old && Array.isArray(old.nodes) && old.nodes.length) {
      nodes = old.nodes;
      tip = old.tip;
    }
  } catch { /* as if there was nothing */ }
}

/* ---- Showing ---- */

function element(name, className, text) {
  const e = document.createElement(name);
  if (className)
    e.className = className;
  if (text !== undefined)
    e.textContent = text;
  return e;
}

function button(text, title, action) {
  const b = element("button", "", text);
  b.type = "button";
  b.title = title;
  b.addEventListener("click", action);
  b.disabled = abort !== null;
  return b;
}

/* Text with its fenced blocks set apart. */
function fill(body, text) {
  const parts = text.split(/^```[^\n]*\n?/m);
  body.replaceChildren();
  parts.forEach((part, i) => {
    if (i % 2)
      body.append(element("pre", "", part.replace(/\n$/, "")));
    else if (part)
      body.append(document.createTextNode(part));
  });
}

function reasoning(node) {
  const details = element("details");
  details.append(element("summary", "", "Reasoning"), element("div", "", node.reasoning));
  details.open = !node.text;
  return details;
}

function siblings(node, tools) {
  const all = nodes[node.parent].children, at = all.indexOf(node.id);
  if (all.length < 2)
    return;
  const go = to => () => {
    nodes[node.parent].last = all[to];
    tip = end(all[to]);
    show();
    keep();
  };
  const back = button("\u2039", "Branch before", go(at - 1)), on = button("\u203a", "Branch behind", go(at + 1));
  back.disabled ||= at === 0;
  on.disabled ||= at === all.length - 1;
  tools.append(back, element("span", "quiet branches", `${at + 1}/${all.length}`), on);
}

function view(node) {
  const article = element("article", node.role), tools = element("div", "tools"), body = element("div", "body");
  article.dataset.id = node.id;
  if (node.reasoning)
    article.append(reasoning(node));
  fill(body, node.text);
  article.append(body);
  siblings(node, tools);
  if (node.role === "user")
    tools.append(button("Edit", "Ask this differently, in a branch of its own", () => edit(node)));
  else
    tools.append(button("Again", "Another answer, in a branch of its own", () => again(node)), button("Copy", "Copy this answer", () => copy(node)),
      element("span", "quiet figures", node.note));
  article.append(tools);
  return article;
}

function show() {
  $("log").replaceChildren(...path(tip).map(view));
  $("undo").disabled = abort !== null || !lastQuestion(tip);
  $("redo").disabled = abort !== null || !nodes[tip].last;
  $("send").hidden = abort !== null;
  $("stop").hidden = abort === null;
  $("new").disabled = abort !== null;
  $("log").scrollTop = $("log").scrollHeight;
}

function fail(text) {
  $("error").textContent = text;
  $("error").hidden = !text;
}

/* ---- Asking ---- */

function settings() {
  const out = {};
  for (const name of NUMBERS)
    if ($(name).value !== "" && $(name).checkValidity())
      out[name] = Number($(name).value);
  const used = [...$("adapters").querySelectorAll(".adapter")].filter(a => a.querySelector("[type=checkbox]").checked);
  if (used.length)
    out.adapters = used.map(a => ({ name: a.dataset.name, scale: Number(a.querySelector("[type=number]").value) }));
  return out;
}

function messages(id) {
  const list = path(id).map(n => ({ role: n.role, content: n.text }));
  return $("system").value.trim() ? [{ role: "system", content: $("system").value }, ...list] : list;
}

/* The checkpoint of the nearest answer before a node. */
function checkpointBefore(id) {
  for (let at = id; at > 0; at = nodes[at].parent)
    if (nodes[at].checkpoint)
      return nodes[at].checkpoint;
  return null;
}

function forget(name) {
  for (const node of nodes)
    if (node.checkpoint === name)
      node.checkpoint = null;
  saved = saved.filter(s => s !== name);
}

function drop(name, options) {
  forget(name);
  post("checkpoints/delete", { name }, options).catch(() => { /* it is gone already */ });
}

function figures(done) {
  const u = done.usage, t = done.timings, c = done.cache, parts = [`${u.completion_tokens} tokens`];
  if (t.tokens_per_second)
    parts.push(`${t.tokens_per_second.toFixed(1)}/s`);
  if (t.first_token_ms)
    parts.push(`first after ${Math.round(t.first_token_ms)} ms`);
  parts.push(`prompt ${u.prompt_tokens}, ${u.cached_tokens} reused` + (c ? ` (${c.reason})` : ""));
  if (done.finish_reason !== "end_token")
    parts.push(done.finish_reason);
  return parts.join(" \u00b7 ");
}

function finished(node, done) {
  node.text = done.text;
  node.reasoning = done.reasoning || "";
  node.note = figures(done);
  $("context").textContent = `${done.usage.total_tokens} of ${$("context").dataset.size} tokens`;
  if (!done.checkpoint)
    return;
  node.checkpoint = done.checkpoint.name;
  saved.push(node.checkpoint);
  while (saved.length > MAX_CHECKPOINTS)
    drop(saved[0]);
}

/* Streams an answer into a node whose parent is the question. */
async function stream(node, checkpoint) {
  const body = { messages: messages(node.parent), ...settings() };
  if (canSave)
    body.save = `${conversation}-${++count}`;
  if (checkpoint)
    body.checkpoint = checkpoint;
  const response = await post("chat/stream", body, { signal: abort.signal });
  const article = $("log").lastElementChild, log = $("log");
  for await (const event of events(response)) {
    if (event.name === "error")
      throw new Error(event.data.error.message);
    if (event.name === "done") {
      finished(node, event.data);
      return;
    }
    const atEnd = log.scrollHeight - log.scrollTop - log.clientHeight < 40;
    node.text += event.data.text || "";
    if (event.data.reasoning) {
      node.reasoning += event.data.reasoning;
      const old = article.querySelector("details");
      if (old)
        old.replaceWith(reasoning(node));
      else
        article.prepend(reasoning(node));
    }
    fill(article.querySelector(".body"), node.text);
    if (atEnd)
      log.scrollTop = log.scrollHeight;
  }
  throw new Error("the connection ended before the answer did");
}

async function answer(question) {
  const node = add(question, "assistant", "");
  tip = node.id;
  abort = new AbortController();
  fail("");
  show();
  $("log").lastElementChild.classList.add("waiting");
  $("status").textContent = "answering";
  const checkpoint = checkpointBefore(question);
  try {
    try {
      await stream(node, checkpoint);
    } catch (e) {
      if (e.status !== 404 || !checkpoint)
        throw e;
      forget(checkpoint); /* it went away on the server: the messages say everything too */
      await stream(node, null);
    }
    $("status").textContent = "";
  } catch (e) {
    const stopped = e.name === "AbortError";
    node.note = stopped ? "stopped" : "";
    $("status").textContent = stopped ? "stopped" : "";
    if (!stopped)
      fail(e.message);
    if (!node.text && !node.reasoning) { /* nothing came: the question stands without an answer */
      nodes[question].children = nodes[question].children.filter(c => c !== node.id);
      nodes[question].last = nodes[question].children.at(-1) || 0;
      tip = question;
    }
  }
  abort = null;
  show();
  keep();
}

function send() {
  const text = $("input").value.trim();
  if (abort || !text)
    return;
  $("input").value = "";
  grow();
  answer(add(nodes[tip].role === "user" ? nodes[tip].parent : tip, "user", text).id);
}

function edit(node) {
  tip = node.parent;
  $("input").value = node.text;
  show();
  grow();
  $("input").focus();
  keep();
}

function again(node) {
  answer(node.parent);
}

async function copy(node) {
  try {
    await navigator.clipboard.writeText(node.text);
    $("status").textContent = "copied";
  } catch {
    fail("this browser does not let the page copy");
  }
}

function undo() {
  const question = lastQuestion(tip);
  if (!abort && question)
    edit(nodes[question]);
}

function redo() {
  if (abort || !nodes[tip].last)
    return;
  tip = nodes[tip].last;
  if (nodes[tip].role === "user" && nodes[tip].last)
    tip = nodes[tip].last;
  $("input").value = "";
  grow();
  show();
  keep();
}

function startAnew() {
  if (abort)
    return;
  saved.slice().forEach(name => drop(name));
  clear();
  fail("");
  $("status").textContent = "";
  $("context").textContent = "";
  show();
  keep();
  $("input").focus();
}

/* ---- Beginning ---- */

function grow() {
  const input = $("input");
  input.style.height = "auto";
  input.style.height = Math.min(input.scrollHeight + 2, innerHeight * 0.4) + "px";
}

function showAdapters(old) {
  for (const a of adapters) {
    const label = element("label", "adapter"), on = element("input"), scale = element("input"), before = old.find(o => o.name === a.name);
    on.type = "checkbox";
    on.checked = before !== undefined;
    scale.type = "number";
    scale.step = "0.1";
    scale.value = before ? before.scale : 1;
    scale.setAttribute("aria-label", "scale of " + a.name);
    label.dataset.name = a.name;
    label.append(on, element("span", "", `${a.name} (${a.kind})`), scale);
    $("adapters").append(label);
  }
  $("adapters").hidden = !adapters.length;
}

function readSettings() {
  try {
    return JSON.parse(sessionStorage.getItem("settings")) || {};
  } catch {
    return {};
  }
}

function keepSettings() {
  const all = { key: $("key").value, system: $("system").value, adapters: settings().adapters || [], numbers: {} };
  for (const name of NUMBERS)
    all.numbers[name] = $(name).value;
  try {
    sessionStorage.setItem("settings", JSON.stringify(all));
  } catch { /* the page works without */ }
}

function toggleSettings() {
  const hidden = !$("settings").hidden;
  $("settings").hidden = hidden;
  $("settings-button").setAttribute("aria-expanded", String(!hidden));
  if (!hidden)
    $("system").focus();
  else
    $("input").focus();
}

function keys(e) {
  const alt = { n: startAnew, s: toggleSettings, z: undo, y: redo }[e.altKey && !e.ctrlKey && !e.metaKey ? e.key.toLowerCase() : ""];
  if (e.key === "Escape" && abort) {
    abort.abort();
  } else if (e.key === "Escape" && !$("settings").hidden) {
    toggleSettings();
  } else if (alt) {
    alt();
  } else {
    return;
  }
  e.preventDefault();
}

async function begin() {
  const old = readSettings();
  restore();
  $("key").value = old.key || "";
  $("system").value = old.system || "";
  try {
    const response = await fetch("props");
    if (!response.ok)
      throw await problem(response);
    const props = await response.json();
    $("model").textContent = document.title = props.model;
    $("context").dataset.size = props.context;
    $("key-label").hidden = !props.keys;
    for (const name of NUMBERS)
      $(name).value = old.numbers ? old.numbers[name] : props.defaults[name] ?? "";
    adapters = props.adapters;
    canSave = props.checkpoints;
    showAdapters(old.adapters || []);
    if (!props.chat)
      fail("This model is no chat model: it makes embeddings only.");
    $("send").disabled = !props.chat;
  } catch (e) {
    fail("The server does not answer: " + e.message);
  }
  show();
  document.body.dataset.ready = "1";
}

addEventListener("DOMContentLoaded", () => {
  $("compose").addEventListener("submit", e => { e.preventDefault(); send(); });
  $("input").addEventListener("keydown", e => {
    /* On a phone the key for a new line must make one; composing (Japanese, accents) must not send. */
    if (e.key === "Enter" && !e.shiftKey && !e.isComposing && !matchMedia("(pointer: coarse)").matches) {
      e.preventDefault();
      send();
    }
  });
  $("input").addEventListener("input", grow);
  $("stop").addEventListener("click", () => abort && abort.abort());
  $("undo").addEventListener("click", undo);
  $("redo").addEventListener("click", redo);
  $("new").addEventListener("click", startAnew);
  $("settings-button").addEventListener("click", toggleSettings);
  $("settings").addEventListener("input", keepSettings);
  addEventListener("keydown", keys);
  /* The conversation stays in the tab; the server's memory of it need not. */
  addEventListener("pagehide", () => saved.slice().forEach(name => drop(name, { keepalive: true })));
  begin();
});
