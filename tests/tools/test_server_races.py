#!/usr/bin/env python3
"""Lifecycle races against infer-server (hostile inputs N29): things are released, replaced and cancelled while they are in use. What is answered is right or refused;
in the end nothing is left running, and nothing is lost. test_server_races.py INFER-SERVER"""
import http.client
import json
import os
import random
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import tap  # noqa: E402
from server_host import ROOT, TINY, Server, until  # noqa: E402

SERVER = os.path.abspath(sys.argv[1])
LLAMA = os.path.join(ROOT, "tests", "data", "fixtures", "llama.gguf")
ADAPTERS = os.path.join(ROOT, "tests", "data", "adapters")
with open(os.path.join(ROOT, "tests", "data", "english.txt"), encoding="utf-8") as text:
    ENGLISH = text.read()
HOME = tempfile.TemporaryDirectory(prefix="infer-races-")


class Crew:
    """Threads whose failures are raised when they are joined. `over` tells helpers that loop to end."""

    def __init__(self):
        self.threads, self.failures, self.over = [], [], threading.Event()

    def start(self, work, *args):
        def run():
            try:
                work(*args)
            except Exception as e:  # pylint: disable=broad-except
                self.failures.append(e)
                self.over.set()
        thread = threading.Thread(target=run)
        thread.start()
        self.threads.append(thread)
        return thread

    def loop(self, work, *args):
        def go_round():
            while not self.over.is_set():
                work(*args)
        return self.start(go_round)

    def join(self, workers):
        for t in workers:
            t.join()
        self.over.set()
        for t in self.threads:
            t.join()
        if self.failures:
            raise self.failures[0]


def post(server, path, body, *allowed):
    answer = server.post(path, body)
    assert answer.status in allowed, (path, body, answer.status, answer.text)
    return answer


def settle(server, generated=True):
    """Nothing runs any more, and nobody waits."""
    until(lambda: server.metric("infer_sessions_active") == 0 and server.metric("infer_requests_waiting") == 0, "all requests have ended")
    assert server.metric("infer_requests_failed_total") == 0
    if generated:
        assert server.metric("infer_session_kv_bytes") == 0


def give_up(server, path, body, after):
    """Sends a request, and closes the connection after some bytes of the answer or seconds: with a reset, as when a process dies."""
    data = json.dumps(body).encode()
    s = server.socket()
    s.sendall(f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {len(data)}\r\n\r\n".encode() + data)
    s.settimeout(after)
    try:
        s.recv(1)
        s.recv(64)
    except OSError:
        pass
    s.setsockopt(1, 13, struct.pack("ii", 1, 0))  # SOL_SOCKET, SO_LINGER
    s.close()


# ---- Adapters ----


def test_adapters_unloaded_while_in_use():
    """Requests that have begun go on with their adapter; later ones do not find it, or find it loaded again. Never another one's answer."""
    loras = os.path.join(HOME.name, "loras")
    os.makedirs(loras)
    shutil.copy(os.path.join(ADAPTERS, "lora-r4.gguf"), os.path.join(loras, "a.gguf"))
    ask = {"prompt": [5, 9, 14, 3, 7], "max_tokens": 40, "temperature": 0, "ignore_eos": True, "logprobs": True}
    with Server(SERVER, "--lora-dir", loras, "--parallel", "8", model=LLAMA) as server:
        post(server, "/lora/load", {"name": "a", "path": "a.gguf"}, 200)
        with_it = dict(ask, adapters=[{"name": "a", "scale": 1}])
        want = {True: post(server, "/complete", with_it, 200).json()["tokens"], False: post(server, "/complete", ask, 200).json()["tokens"]}
        assert want[True] != want[False]
        crew, seen = Crew(), {200: 0, 404: 0}

        def use(adapted):
            for _ in range(60):
                answer = post(server, "/complete", with_it if adapted else ask, 200, 404 if adapted else 200)
                seen[answer.status] += adapted
                if answer.status == 200:
                    assert answer.json()["tokens"] == want[adapted]

        def swap():
            post(server, "/lora/unload", {"name": "a"}, 200)
            post(server, "/lora/load", {"name": "a", "path": "a.gguf"}, 200)

        workers = [crew.start(use, i % 3 != 0) for i in range(6)]
        crew.loop(swap)
        crew.loop(lambda: server.get("/lora").json())
        crew.join(workers)
        assert seen[200] > 0, seen
        settle(server)
        assert len(server.get("/lora").json()["data"]) <= 1


# ---- Cancelling ----


def test_clients_that_go_at_any_moment():
    """In the queue, in the prompt, between tokens, at the end: the others' answers are what they are alone."""
    rng = random.Random(3)
    good = [{"prompt": ENGLISH[i * 50:i * 50 + 200], "max_tokens": 20, "seed": i, "logprobs": True} for i in range(4)]
    with Server(SERVER, "--parallel", "4", "--cache-bytes", "0") as server:
        want = [post(server, "/complete", body, 200).json()["tokens"] for body in good]
        crew = Crew()

        def leave():
            at = rng.randrange(3000)
            body = {"prompt": ENGLISH[at:at + rng.randrange(20, 900)], "max_tokens": 300, "n": rng.choice((1, 1, 3)), "ignore_eos": True}
            path = rng.choice(("/complete", "/chat/stream", "/v1/completions", "/infer", "/score"))
            if path == "/chat/stream":
                body = {"messages": [{"role": "user", "content": body["prompt"][:600]}], "max_tokens": 300}
            elif path == "/v1/completions":
                body = {"prompt": body["prompt"], "stream": True, "max_tokens": 300}
            elif path in ("/infer", "/score"):
                ids = [rng.randrange(300) for _ in range(rng.randrange(5, 400))]
                body = {"input": ids, "logits": "last"} if path == "/infer" else {"context": ids[:5], "text": ids[5:] + [7]}
            give_up(server, path, body, rng.random() * 0.02 + 0.0005)

        def check():
            for _ in range(8):
                for body, tokens in zip(good, want):
                    assert post(server, "/complete", body, 200).json()["tokens"] == tokens

        workers = [crew.start(check) for _ in range(2)]
        for _ in range(3):
            crew.loop(leave)
        crew.join(workers)
        assert server.metric("infer_requests_cancelled_total") > 5
        assert 'status="400"' not in server.get("/metrics").text  # it was the going away that ended them
        settle(server)


def test_clients_that_go_while_a_checkpoint_is_saved():
    """A checkpoint is there whole or not at all, and no half file is left."""
    rng = random.Random(4)
    kv = os.path.join(HOME.name, "kv-saves")
    prompt = ENGLISH[:600]
    with Server(SERVER, "--kv-dir", kv) as server:
        want = post(server, "/complete", {"prompt": prompt, "max_tokens": 10, "temperature": 0, "logprobs": True}, 200).json()["tokens"]
        for i in range(60):
            body = {"name": f"c{i % 20}", "prompt": prompt, "replace": True}
            path = "/checkpoints/save"
            if i % 3 == 0:
                path, body = "/complete", {"prompt": prompt, "max_tokens": 3, "temperature": 0, "save": f"c{i % 20}", "replace": True}
            give_up(server, path, body, rng.random() * 0.03 + 0.0005)
        settle(server, generated=False)
        until(lambda: not [n for n in os.listdir(os.path.join(kv, "checkpoints")) if n.startswith(".")], "no temporary file is left")
        listed = [c["name"] for c in server.get("/checkpoints").json()["data"]]
        right = 0
        for name in listed:
            length = post(server, "/checkpoints/load", {"name": name}, 200).json()["checkpoint"]["length"]
            got = post(server, "/complete", {"checkpoint": name, "max_tokens": 10, "temperature": 0, "logprobs": True}, 200).json()["tokens"]
            if length == server_length(server, prompt):
                assert got == want, name
                right += 1
        assert right > 0, listed
        post(server, "/checkpoints/save", {"name": "last", "prompt": prompt}, 200)


def server_length(server, prompt):
    return len(post(server, "/tokenize", {"text": prompt}, 200).json()["tokens"])


# ---- Checkpoints ----


def test_many_restores_of_one_checkpoint():
    """At once, while it is replaced by another one, given a second name, and deleted: each answer is the one's or the other's."""
    texts = {"a": ENGLISH[:500], "b": ENGLISH[700:1200]}
    go = {"checkpoint": "x", "max_tokens": 12, "temperature": 0, "logprobs": True}
    for kv in (None, os.path.join(HOME.name, "kv-restores")):
        with Server(SERVER, *(["--kv-dir", kv] if kv else []), "--parallel", "8") as server:
            want = []
            for name, prompt in texts.items():
                post(server, "/checkpoints/save", {"name": name, "prompt": prompt}, 200)
                want.append(post(server, "/complete", dict(go, checkpoint=name), 200).json()["tokens"])
            assert want[0] != want[1]
            post(server, "/checkpoints/fork", {"from": "a", "to": "x"}, 200)
            crew, seen = Crew(), []

            def restore(server=server, want=want, seen=seen):
                for _ in range(40):
                    answer = post(server, "/complete", go, 200, 404)
                    if answer.status == 200:
                        seen.append(want.index(answer.json()["tokens"]))

            def change(server=server):
                for name in ("b", "a"):
                    post(server, "/checkpoints/fork", {"from": name, "to": "x", "replace": True}, 200)
                post(server, "/checkpoints/delete", {"name": "x"}, 200, 404)

            def look(server=server):
                for c in server.get("/checkpoints").json()["data"]:
                    post(server, "/checkpoints/load", {"name": c["name"]}, 200, 404)

            workers = [crew.start(restore) for _ in range(5)]
            crew.loop(change)
            crew.loop(look)
            crew.join(workers)
            assert seen
            settle(server)
            assert {c["name"] for c in server.get("/checkpoints").json()["data"]} - {"x"} == {"a", "b"}


def test_two_saves_of_one_name():
    """Without replace exactly one of them wins."""
    with Server(SERVER) as server:
        for i in range(8):
            crew, statuses = Crew(), []

            def save(which, i=i, statuses=statuses):
                statuses.append(post(server, "/checkpoints/save", {"name": f"n{i}", "prompt": ENGLISH[which * 100:which * 100 + 300]}, 200, 409).status)

            crew.join([crew.start(save, which) for which in range(4)])
            assert sorted(statuses) == [200, 409, 409, 409], statuses


def test_grafts_in_place_while_in_use():
    with Server(SERVER, "--parallel", "8") as server:
        post(server, "/checkpoints/save", {"name": "from", "prompt": ENGLISH[:400]}, 200)
        post(server, "/checkpoints/save", {"name": "base", "prompt": "Once upon a time"}, 200)
        crew = Crew()

        def graft():
            post(server, "/checkpoints/fork", {"from": "base", "to": "g", "replace": True}, 200)
            for _ in range(3):
                post(server, "/checkpoints/graft", {"name": "g", "checkpoint": "from", "first": 0, "count": 20, "recompute": 4}, 200, 404)

        def use():
            for _ in range(30):
                post(server, "/complete", {"checkpoint": "g", "max_tokens": 5}, 200, 404)

        workers = [crew.start(use) for _ in range(3)]
        crew.loop(graft)
        crew.loop(lambda: post(server, "/checkpoints/delete", {"name": "g"}, 200, 404))
        crew.join(workers)
        settle(server)
        assert {c["name"] for c in server.get("/checkpoints").json()["data"]} >= {"from", "base"}


# ---- Responses ----


def test_responses_deleted_and_cancelled_while_they_run():
    rng = random.Random(5)
    with Server(SERVER, "--parallel", "4", "--kv-dir", os.path.join(HOME.name, "kv-responses")) as server:
        for _ in range(12):
            made = post(server, "/v1/responses", {"input": ENGLISH[:200], "background": True, "max_output_tokens": 200}, 200).json()["id"]
            crew, results = Crew(), []

            def act(how, made=made, results=results):
                if how == "delete":
                    results.append(server.request("DELETE", f"/v1/responses/{made}").status)
                elif how == "cancel":
                    results.append(server.post(f"/v1/responses/{made}/cancel", {}).status)
                elif how == "follow":
                    give_up(server, "/v1/responses", {"input": "And?", "previous_response_id": made, "stream": True}, rng.random() * 0.02)
                else:
                    results.append(server.get(f"/v1/responses/{made}").status)

            crew.join([crew.start(act, how) for how in rng.choices(("delete", "cancel", "get", "follow"), k=5) + ["delete"]])
            assert all(status in (200, 400, 404, 409) for status in results), results
            assert server.get(f"/v1/responses/{made}").status == 404
        settle(server, generated=False)


# ---- The process ----


def test_the_end_comes_in_the_middle_of_everything():
    """SIGTERM at any moment, with --drain 0 too: status 0, and what was saved is there after a restart."""
    rng = random.Random(6)
    kv = os.path.join(HOME.name, "kv-ends")
    for i in range(6):
        server = Server(SERVER, "--kv-dir", kv, "--parallel", "4", "--drain", str(rng.choice((0, 1))))
        kept = f"kept{i}"
        post(server, "/checkpoints/save", {"name": kept, "prompt": ENGLISH[:300]}, 200)
        crew = Crew()

        def use(server=server, i=i, crew=crew):
            body = rng.choice((("/complete", {"prompt": ENGLISH[:500], "max_tokens": 100, "save": f"x{i}", "replace": True}),
                               ("/v1/chat/completions", {"messages": [{"role": "user", "content": "Hi"}], "stream": True, "max_tokens": 300}),
                               ("/checkpoints/save", {"name": f"y{i}", "prompt": ENGLISH[:800], "replace": True}),
                               ("/v1/responses", {"input": "Hello", "background": True, "max_output_tokens": 300})))
            try:
                server.post(*body)
            except (OSError, http.client.HTTPException):
                crew.over.set()  # it has gone

        for _ in range(4):
            crew.loop(use)
        threading.Event().wait(rng.random() * 0.3)
        code = server.stop()
        crew.join([])
        assert code == 0, (code, server.stderr())
        server.close()
        with Server(SERVER, "--kv-dir", kv) as again:
            listed = [c["name"] for c in again.get("/checkpoints").json()["data"]]
            assert kept in listed, listed
            for name in listed:
                post(again, "/checkpoints/load", {"name": name}, 200)


def test_signals_while_it_loads():
    """Ended at any moment of the start: by the signal or in order, and never with a crash."""
    rng = random.Random(7)
    for _ in range(25):
        process = subprocess.Popen([SERVER, "-m", TINY, "--port", "0", "--kv-dir", os.path.join(HOME.name, "kv-start")], stdout=subprocess.DEVNULL,
                                   stderr=subprocess.PIPE)
        threading.Event().wait(rng.random() * 0.05)
        process.send_signal(signal.SIGTERM)
        said = process.communicate()[1]
        assert process.returncode in (0, -signal.SIGTERM), (process.returncode, said)


if __name__ == "__main__":
    tap.main(globals())
