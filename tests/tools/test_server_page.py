#!/usr/bin/env python3
"""The chat page at "/": how it is served, and what it does in headless Chromium, driven by the DevTools protocol over a pipe. Without Chromium that part
is skipped. test_server_page.py INFER-SERVER [--screenshot FILE [MODEL]]"""
import base64
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import tap  # noqa: E402
from server_host import PATIENCE, ROOT, Server, until  # noqa: E402

SERVER = os.path.abspath(sys.argv[1])
PAGE = os.path.join(ROOT, "tools", "infer-server", "page")
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome-headless-shell")


class Browser:
    """One page in headless Chromium. eval() runs an expression in it and returns its value."""

    def __init__(self, url, width=1000, height=700, mobile=False, dark=False):
        program = next((p for p in map(shutil.which, NAMES) if p), None)
        if not program:
            raise tap.Skip("no Chromium")
        self.folder = tempfile.mkdtemp(prefix="infer-chromium-")
        to_browser, self.write_end = os.pipe()
        self.read_end, from_browser = os.pipe()
        # The protocol wants descriptors 3 and 4.
        move = (f"import fcntl, os, sys; a, b = (fcntl.fcntl(d, fcntl.F_DUPFD, 10) for d in ({to_browser}, {from_browser})); os.dup2(a, 3); os.dup2(b, 4); "
                "os.execv(sys.argv[1], sys.argv[1:])")
        self.process = subprocess.Popen(
            [sys.executable, "-c", move, program, "--headless=new", "--no-sandbox", "--disable-gpu",
             "--disable-dev-shm-usage", "--no-first-run", "--disable-extensions", "--disable-background-networking", "--disable-component-update",
             "--disable-sync", "--hide-scrollbars", "--proxy-server=direct://", "--remote-debugging-pipe", f"--user-data-dir={self.folder}", f"--window-size={width},{height}", "about:blank"],
            pass_fds=(to_browser, from_browser), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**os.environ, "HOME": self.folder})
        os.close(to_browser)
        os.close(from_browser)
        self.buffer, self.number, self.session, self.events = b"", 0, None, []
        try:
            target = next(t for t in self.call("Target.getTargets")["targetInfos"] if t["type"] == "page")
            self.session = self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)["sessionId"]
            for domain in ("Page", "Runtime", "Log", "Network"):
                self.call(domain + ".enable")
            self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=2 if mobile else 1, mobile=mobile)
            self.call("Emulation.setTouchEmulationEnabled", enabled=mobile)
            self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
            self.open(url)
        except BaseException:
            self.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        os.close(self.write_end)
        os.close(self.read_end)
        try:
            self.process.wait(timeout=10)  # it ends when its pipe does
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def receive(self):
        end = time.monotonic() + PATIENCE
        while b"\0" not in self.buffer:
            ready, _, _ = select.select([self.read_end], [], [], max(0, end - time.monotonic()))
            data = os.read(self.read_end, 1 << 16) if ready else b""
            assert data, "Chromium says nothing more"
            self.buffer += data
        message, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, **params):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self.write_end, data):]
        while True:
            answer = self.receive()
            if answer.get("id") == self.number:
                assert "error" not in answer, (method, answer)
                return answer["result"]
            self.events.append(answer)

    def open(self, url):
        self.call("Page.navigate", url=url)
        self.wait("document.body && document.body.dataset.ready === '1'", "the page is ready")

    def eval(self, expression):
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, (expression, result)
        return result["result"].get("value")

    def wait(self, expression, what):
        try:
            until(lambda: self.eval(f"!!({expression})"), what)
        except AssertionError as e:
            raise AssertionError(f"{e}; the page: {self.eval('document.body.innerText')[-1500:]!r}") from e

    def key(self, key, code=None, text="", modifiers=0, number=0):
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=code or key, text=text if kind == "keyDown" else "", modifiers=modifiers, windowsVirtualKeyCode=number)

    def type(self, text):
        self.call("Input.insertText", text=text)

    def send(self, text):
        """As a person does: focus, type, Enter; then waits for the answer's end."""
        count = self.eval("document.querySelectorAll('article').length")
        self.eval("document.getElementById('input').focus()")
        self.type(text)
        self.key("Enter", text="\r", number=13)
        self.wait(f"document.querySelectorAll('article').length >= {count + 2} && document.getElementById('stop').hidden", "the answer has ended")

    def articles(self):
        return self.eval("[...document.querySelectorAll('article')].map(a => [a.className, a.querySelector('.body').textContent])")

    def click(self, selector, text=None):
        self.eval(f"[...document.querySelectorAll({json.dumps(selector)})].filter(b => {json.dumps(text)} === null || b.textContent === {json.dumps(text)}).at(-1).click()")

    def complaints(self):
        """What the page's console has against it: errors of scripts, of the policy, of loading."""
        self.eval("1")
        return [e for e in self.events if e.get("method") == "Runtime.exceptionThrown" or
                (e.get("method") == "Log.entryAdded" and e["params"]["entry"]["level"] in ("error", "warning"))]

    def hosts(self):
        """Where it asked for anything."""
        urls = [e["params"]["request"]["url"] for e in self.events if e.get("method") == "Network.requestWillBeSent"]
        return {u.split("/")[2] for u in urls if "//" in u}


def short(browser):
    """Answers of a few tokens, always the same."""
    browser.eval("""for (const [id, value] of [["max_tokens", 12], ["temperature", 0]]) { document.getElementById(id).value = value; }
                    document.getElementById("settings").dispatchEvent(new Event("input", { bubbles: true }))""")


# ---- How it is served ----

def test_files_and_headers():
    with Server(SERVER) as server:
        for path, name, kind in [("/", "index.html", "text/html"), ("/page.css", "page.css", "text/css"), ("/page.js", "page.js", "text/javascript")]:
            answer = server.get(path)
            with open(os.path.join(PAGE, name), "rb") as f:
                assert answer.status == 200 and answer.body == f.read() and answer.headers["content-type"].startswith(kind)
            policy = answer.headers["content-security-policy"]
            assert "default-src 'none'" in policy and "script-src 'self'" in policy and "unsafe" not in policy and "frame-ancestors 'none'" in policy
            assert answer.headers["x-content-type-options"] == "nosniff"
            again = server.get(path, **{"If-None-Match": answer.headers["etag"]})
            assert again.status == 304 and again.body == b"" and again.headers["etag"] == answer.headers["etag"]
            assert server.get(path, **{"If-None-Match": '"other"'}).status == 200
        etags = {server.get(p).headers["etag"] for p in ("/", "/page.css", "/page.js")}
        assert len(etags) == 3


def test_nothing_becomes_html():
    """The page's script has no way to make HTML of text, and its files name no other place."""
    with open(os.path.join(PAGE, "page.js"), encoding="utf-8") as f:
        script = f.read()
    for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function", "DOMParser", "createContextualFragment", "srcdoc"):
        assert word not in script, word
    for name in ("index.html", "page.css", "page.js"):
        with open(os.path.join(PAGE, name), encoding="utf-8") as f:
            text = f.read()
        assert "http://" not in text and "https://" not in text and "onclick" not in text and "style=" not in text, name


# ---- In a browser ----

def test_a_conversation_in_chromium():
    with Server(SERVER) as server, Browser(server.url) as b:
        assert b.eval("document.title") == "tiny"
        short(b)
        b.send("Who is the little Red Hen?")
        first = b.articles()
        assert [c for c, _ in first] == ["user", "assistant"] and first[0][1] == "Who is the little Red Hen?" and first[1][1]
        want = server.post("/chat", {"messages": [{"role": "user", "content": "Who is the little Red Hen?"}], "max_tokens": 12, "temperature": 0}).json()
        assert first[1][1] == want["text"]
        figures = b.eval("document.querySelector('.figures').textContent")
        assert "12 tokens" in figures and "reused" in figures and "max_tokens" in figures
        b.send("And then?")
        assert len(b.articles()) == 4
        names = [c["name"] for c in server.get("/checkpoints").json()["data"]]
        assert len(names) == 2 and all(n.startswith("page-") for n in names)
        # The second question went on from the first answer's checkpoint.
        reused = b.eval("Number([...document.querySelectorAll('.figures')].at(-1).textContent.match(/([0-9]+) reused/)[1])")
        assert reused >= want["usage"]["prompt_tokens"]
        assert b.hosts() == {server.url.split("/")[2]} and not b.complaints(), b.complaints()
        # A new conversation takes its checkpoints off the server.
        b.click("#new")
        assert b.articles() == []
        until(lambda: server.get("/checkpoints").json()["data"] == [], "the checkpoints are deleted")


def test_undo_branch_and_again_in_chromium():
    with Server(SERVER) as server, Browser(server.url) as b:
        short(b)
        b.send("One")
        b.send("Two")
        four = b.articles()
        b.key("z", "KeyZ", modifiers=1, number=90)  # Alt+Z
        assert b.articles() == four[:2] and b.eval("document.getElementById('input').value") == "Two"
        b.click("#redo")
        assert b.articles() == four and b.eval("document.getElementById('input').value") == ""
        b.click("#undo")
        b.eval("document.getElementById('input').value = ''")
        b.send("Three")
        branch = b.articles()
        assert branch[:2] == four[:2] and branch[2] == ["user", "Three"] and b.eval("document.querySelector('article:nth-child(3) .branches').textContent") == "2/2"
        b.click("article:nth-child(3) button", "\u2039")
        assert b.articles() == four
        b.click("article:nth-child(3) button", "\u203a")
        assert b.articles() == branch
        # Another answer to the same question: greedy, so the same text, in a branch of its own.
        b.click("article:nth-child(4) button", "Again")
        b.wait("document.getElementById('stop').hidden && document.querySelector('article:nth-child(4) .branches')", "the second answer")
        assert b.articles() == branch and b.eval("document.querySelector('article:nth-child(4) .branches').textContent") == "2/2"
        # What a branch answers is what the conversation alone would get.
        messages = [{"role": "user" if c == "user" else "assistant", "content": t} for c, t in branch[:3]]
        assert server.post("/chat", {"messages": messages, "max_tokens": 12, "temperature": 0}).json()["text"] == branch[3][1]
        b.call("Page.reload")
        b.wait("document.body && document.body.dataset.ready === '1' && document.querySelectorAll('article').length === 4", "the conversation is there again")
        assert b.articles() == branch and not b.complaints(), b.complaints()


def test_stop_and_errors_in_chromium():
    with Server(SERVER, "--ctx", "1024") as server, Browser(server.url) as b: # room for all of it, even when the first answer is not stopped in time
        b.eval("document.getElementById('max_tokens').value = '300'")
        b.eval("document.getElementById('input').focus()")
        b.type("Tell me everything.")
        b.key("Enter", text="\r", number=13)
        b.wait("(document.querySelector('article.assistant .body') || {}).textContent", "it answers")
        b.key("Escape", number=27)
        b.wait("document.getElementById('stop').hidden", "it has stopped")
        until(lambda: server.get("/v1/system").json()["scheduler"]["active"] == 0, "the server has stopped too")
        # It may have ended by itself before Escape came; then there are figures.
        assert b.eval("document.getElementById('status').textContent") in ("stopped", "") and b.articles()[1][1]
        short(b)
        b.send("And now?")
        assert len(b.articles()) == 4
        # A question too long for the context is refused with the server's words, and nothing is lost.
        b.eval("document.getElementById('input').focus()")
        b.type("word " * 3000)
        b.key("Enter", text="\r", number=13)
        b.wait("!document.getElementById('error').hidden", "an error is shown")
        assert "context" in b.eval("document.getElementById('error').textContent")
        assert b.articles()[-1][0] == "user" and len(b.articles()) == 5
        b.click("#undo")
        assert len(b.articles()) == 4 and b.eval("document.getElementById('input').value").startswith("word word")
        # A checkpoint that went away on the server is no loss.
        for c in server.get("/checkpoints").json()["data"]:
            assert server.post("/checkpoints/delete", {"name": c["name"]}).status == 200
        b.eval("document.getElementById('input').value = ''")
        b.send("Still there?")
        assert len(b.articles()) == 6 and b.eval("document.getElementById('error').hidden")


def test_text_stays_text_in_chromium():
    evil = "<img src=x onerror=\"document.title='bad'\"><script>document.title='bad'</script>\n```html\n<b>code</b>\n```\nafter"
    with Server(SERVER) as server, Browser(server.url) as b:
        short(b)
        b.send("<b>hi</b><img src=x onerror=\"document.title='bad'\">")
        # As if the model had written it.
        b.eval(f"const n = nodes.at(-1); n.text = {json.dumps(evil)}; n.reasoning = '<i>thought</i>'; show()")
        assert b.eval("document.querySelectorAll('#log b, #log img, #log i, #log script').length") == 0 and b.eval("document.title") == "tiny"
        got = b.articles()[1][1]
        assert "<img src=x" in got and "<b>code</b>" in got and "after" in got and "```" not in got
        assert b.eval("document.querySelector('#log pre').textContent") == "<b>code</b>"
        assert b.eval("document.querySelector('details').textContent") == "Reasoning<i>thought</i>"
        # The policy holds even if a script should come in.
        b.eval("{ const s = document.createElement('script'); s.textContent = \"document.title = 'bad'\"; document.body.append(s); }")
        assert b.eval("document.title") == "tiny"


def test_key_and_adapters_in_chromium():
    data = os.path.join(ROOT, "tests", "data")
    with Server(SERVER, "--api-key", "secret") as server, Browser(server.url) as b:
        assert not b.eval("document.getElementById('key-label').hidden")
        short(b)
        b.eval("document.getElementById('input').focus()")
        b.type("Hello")
        b.key("Enter", text="\r", number=13)
        b.wait("!document.getElementById('error').hidden", "the key is missed")
        assert "API key" in b.eval("document.getElementById('error').textContent")
        b.eval("document.getElementById('key').value = 'secret'; document.getElementById('settings').dispatchEvent(new Event('input'))")
        b.click("#undo")
        b.eval("document.getElementById('input').value = ''")
        b.send("Hello")
        assert b.articles()[1][1] and b.eval("document.getElementById('error').hidden")
        assert b.eval("Object.keys(localStorage).length") == 0 and "secret" not in b.eval("document.cookie")
    steering = os.path.join(data, "adapters", "steering.gguf")
    llama = os.path.join(data, "fixtures", "llama.gguf")
    with Server(SERVER, "--steer", "mood=" + steering, model=llama) as server, Browser(server.url) as b:
        assert b.eval("document.querySelector('.adapter').textContent") == "mood (steering)" and not b.eval("document.getElementById('adapters').hidden")
        b.eval("document.querySelector('.adapter [type=checkbox]').checked = true; document.querySelector('.adapter [type=number]').value = 0.5")
        assert b.eval("JSON.stringify(settings().adapters)") == '[{"name":"mood","scale":0.5}]'


def test_phone_and_colours_in_chromium():
    with Server(SERVER) as server:
        with Browser(server.url, 360, 640, mobile=True, dark=True) as b:
            short(b)
            b.eval("document.getElementById('input').value = 'A long word: ' + 'x'.repeat(200); document.getElementById('send').click()")
            b.wait("document.querySelectorAll('article').length === 2 && document.getElementById('stop').hidden", "the answer has ended")
            assert b.eval("document.documentElement.scrollWidth") <= 360
            assert b.eval("document.getElementById('send').getBoundingClientRect().bottom") <= 640
            dark = b.eval("getComputedStyle(document.body).backgroundColor")
            b.click("#settings-button")
            assert b.eval("document.documentElement.scrollWidth") <= 360 and b.eval("document.activeElement.id") == "system"
            b.key("Escape", number=27)
            assert b.eval("document.getElementById('settings').hidden")
        with Browser(server.url) as b:
            assert b.eval("getComputedStyle(document.body).backgroundColor") != dark
            # By keyboard alone: everything that can be pressed can be reached, and has a name.
            assert b.eval("[...document.querySelectorAll('button, input, textarea')].every(e => e.tabIndex >= 0 && (e.textContent || e.labels?.length || e.ariaLabel))")


def screenshot(path, *model):
    with Server(SERVER, "--alias", "smollm2-135m" if model else "tiny", **({"model": model[0]} if model else {})) as server, Browser(server.url, 760, 560) as b:
        b.eval("for (const [id, v] of [['max_tokens', 80], ['temperature', 0]]) document.getElementById(id).value = v")
        b.send("Write two lines about the sea." if model else "Once upon a time")
        b.send("And two about the wind." if model else "Who is there?")
        with open(path, "wb") as f:
            f.write(base64.b64decode(b.call("Page.captureScreenshot", format="png")["data"]))


if __name__ == "__main__":
    if sys.argv[2:3] == ["--screenshot"]:
        screenshot(*sys.argv[3:])
    else:
        tap.main(globals())
