#!/usr/bin/env python3
"""infer-server --isolate fork: a process for each connection. Children are killed under load, and nobody else notices; limits of a child; what children share.
test_server_isolate.py INFER-SERVER"""
import http.client
import json
import os
import random
import re
import signal
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import tap  # noqa: E402
from server_host import ROOT, Server, until  # noqa: E402

SERVER = os.path.abspath(sys.argv[1])
with open(SERVER, "rb") as program:
    SANITIZED = b"__asan_init" in program.read()
with open(os.path.join(ROOT, "tests", "data", "english.txt"), encoding="utf-8") as text:
    ENGLISH = text.read()


def isolated(*args, **more):
    return Server(SERVER, "--isolate", "fork", *args, **more)


def body(seed, max_tokens=40, stream=False):
    return {"messages": [{"role": "user", "content": f"Question number {seed}: {ENGLISH[seed * 7:seed * 7 + 60]}"}], "max_tokens": max_tokens, "seed": seed,
            "temperature": 1, "stream": stream}


def ask(server, seed, **more):
    answer = server.post("/v1/chat/completions", body(seed, **more))
    assert answer.status == 200, answer.text
    return answer.json()["choices"][0]["message"]["content"]


def children(server):
    with open(f"/proc/{server.process.pid}/task/{server.process.pid}/children", encoding="ascii") as f:
        return [int(pid) for pid in f.read().split()]


def anonymous_kib(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as f:
        return int(re.search(r"^RssAnon:\s+(\d+) kB", f.read(), re.MULTILINE).group(1))


# ---- Answers ----


def test_answers_are_those_of_one_process():
    with Server(SERVER) as server:
        want = [ask(server, seed) for seed in range(6)]
    with isolated() as server:
        assert [ask(server, seed) for seed in range(6)] == want
        got = "".join(e["choices"][0]["delta"].get("content") or "" for e in server.json_events("/v1/chat/completions", body(3, stream=True)))
        assert got == want[3]
        until(lambda: not children(server), "the children end with their connections")


def test_keep_alive_is_one_child():
    with isolated() as server:
        connection = server.connection()
        for _ in range(5):
            connection.request("POST", "/tokenize", json.dumps({"text": "a b c"}))
            response = connection.getresponse()
            assert response.status == 200 and response.read()
            assert len(children(server)) == 1
        connection.close()
        until(lambda: not children(server), "the child ends with its connection")
        assert server.metric("infer_children_started_total") == 2  # this one too
        assert server.metric("infer_children_lost_total") == 0


# ---- Kills ----


def stream_all(server, seed, result):
    """Streams an answer: result[seed] is (text, whole)."""
    parts, whole = [], False
    try:
        for _, data in server.events("/v1/chat/completions", body(seed, 120, True)):
            if data == "[DONE]":
                whole = True
            else:
                parts.append(json.loads(data)["choices"][0]["delta"].get("content") or "")
    except (OSError, http.client.HTTPException, AssertionError) as e:
        parts.append(f"[{type(e).__name__}]")
    result[seed] = ("".join(parts), whole)


def round_of_kills(server, want, seeds, rng):
    """Streams of all seeds at once; half of the children are killed at some point. Returns how many answers were lost."""
    result = {}
    threads = [threading.Thread(target=stream_all, args=(server, seed, result)) for seed in seeds]
    for t in threads:
        t.start()
    killed = set()
    while any(t.is_alive() for t in threads):
        alive = [pid for pid in children(server) if pid not in killed]
        if alive and len(killed) < len(seeds) // 2:
            pid = rng.choice(alive)
            killed.add(pid)
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        threads[0].join(rng.random() * 0.02)
        for t in threads:
            t.join(0)
    for t in threads:
        t.join()
    lost = 0
    for seed in seeds:
        got, whole = result[seed]
        if whole:
            assert got == want[seed], f"seed {seed}: {got!r} is not {want[seed]!r}"
        lost += not whole
    assert lost <= len(killed), (lost, killed)
    return lost


def test_kills_under_load():
    """kill -9 of children: the others' answers are whole and right, the parent goes on, and its memory does not grow."""
    seeds = list(range(12))
    rng = random.Random(9)
    with isolated("--max-children", "16") as server:
        want = {seed: ask(server, seed, max_tokens=120) for seed in seeds}
        lost = sum(round_of_kills(server, want, seeds, rng) for _ in range(3))
        before = anonymous_kib(server.process.pid)
        lost += sum(round_of_kills(server, want, seeds, rng) for _ in range(7))
        assert lost >= 10, f"only {lost} answers were lost: nothing was tested"
        after = anonymous_kib(server.process.pid)
        assert after <= before + 256, f"{before} KiB have become {after}"
        assert server.process.poll() is None
        assert {seed: ask(server, seed, max_tokens=120) for seed in seeds} == want
        assert server.metric("infer_children_lost_total") >= lost
        assert "was ended by signal 9" in server.stderr()


def test_memory_of_the_parent_is_flat():
    with isolated() as server:
        for _ in range(40):
            server.get("/health")
        before = anonymous_kib(server.process.pid)
        for _ in range(400):
            assert server.get("/health").status == 200
        after = anonymous_kib(server.process.pid)
        assert after <= before + 64, f"{before} KiB have become {after}"
        with open(f"/proc/{server.process.pid}/status", encoding="ascii") as f:
            assert re.search(r"^Threads:\s+1$", f.read(), re.MULTILINE)
        until(lambda: not children(server), "no child is left behind")


# ---- Limits ----


def test_most_children():
    """As many as may be: those that wait get their turn; idle connections make room."""
    with isolated("--max-children", "2") as server:
        idle = [server.connection() for _ in range(2)]
        for c in idle:
            c.request("GET", "/health")
            assert c.getresponse().read()
        assert len(children(server)) == 2
        assert server.get("/health").status == 200  # the one that was idle for longest has gone
        results = {}
        threads = [threading.Thread(target=stream_all, args=(server, seed, results)) for seed in range(6)]
        for t in threads:
            t.start()
        most = 0
        while any(t.is_alive() for t in threads):
            most = max(most, len(children(server)))
            threads[-1].join(0.005)
        assert all(whole for _, whole in results.values()) and len(results) == 6
        assert most <= 2
        for c in idle:
            c.close()


def test_child_time():
    with isolated("--child-time", "1") as server:
        lost = None
        for _ in range(40):  # until one computes for a second
            try:
                answer = server.post("/v1/chat/completions", dict(body(1, 400), n=64))
                assert answer.status in (200, 400), answer.text
            except (OSError, http.client.HTTPException) as e:
                lost = e
                break
        if lost is None:  # a fast machine: keep one child busy on a connection that stays
            connection = server.connection()
            try:
                for _ in range(2000):
                    connection.request("POST", "/v1/chat/completions", json.dumps(dict(body(1, 400), n=64)))
                    connection.getresponse().read()
            except (OSError, http.client.HTTPException) as e:
                lost = e
        assert lost is not None, "no child reached its limit"
        until(lambda: "--child-time" in server.stderr(), "the parent says why")
        assert server.get("/health").status == 200


def test_child_memory():
    if SANITIZED:
        raise tap.Skip("sanitizers take memory of their own")
    long_prompt = {"prompt": ENGLISH[:900], "max_tokens": 100, "n": 100, "seed": 1}
    with isolated("--child-memory", "1M", "--parallel", "128") as server:
        answer = server.post("/v1/completions", long_prompt)
        assert answer.status in (500, 503), f"{answer.status}: {answer.text[:300]}"
        assert server.get("/health").status == 200
    with isolated("--child-memory", "500M", "--parallel", "128") as server:
        assert server.post("/v1/completions", long_prompt).status == 200


# ---- What is shared ----


def test_warm_prompts():
    words = ENGLISH[:900]
    with Server(SERVER) as plain:
        want = plain.post("/v1/completions", {"prompt": words, "max_tokens": 8, "seed": 1}).json()["choices"][0]["text"]
        path = os.path.join(plain.folder, "warm.txt")
        chat = os.path.join(plain.folder, "warm.json")
        with open(path, "w", encoding="utf-8") as f:
            f.write(words)
        messages = [{"role": "system", "content": ENGLISH[900:1300]}]
        with open(chat, "w", encoding="utf-8") as f:
            json.dump({"messages": messages}, f)
        for mode in (["--isolate", "fork"], []):
            with Server(SERVER, "--warm", path, "--warm", chat, *mode) as server:
                for _ in range(2):  # each in a child of its own
                    answer = server.post("/v1/completions", {"prompt": words, "max_tokens": 8, "seed": 1}).json()
                    assert answer["choices"][0]["text"] == want
                    usage = answer["usage"]
                    assert usage["prompt_tokens_details"]["cached_tokens"] == usage["prompt_tokens"] - 1, usage
                    usage = server.post("/v1/chat/completions", {"messages": messages + [{"role": "user", "content": "So?"}], "max_tokens": 2}).json()["usage"]
                    assert usage["prompt_tokens_details"]["cached_tokens"] >= 64, usage


def test_bad_warm_files():
    with isolated() as server:
        folder = server.folder
        for name, content, says in (("a.json", "[", "line 1"), ("b.json", "{}", "messages"), ("c.json", '[{"role": 1, "content": ""}]', "messages"),
                                    ("d.txt", "word " * 5000, "do not fit")):
            with open(os.path.join(folder, name), "w", encoding="utf-8") as f:
                f.write(content)
            try:
                Server(SERVER, "--warm", os.path.join(folder, name)).close()
            except AssertionError as e:
                assert says in str(e) and name in str(e), e
            else:
                raise AssertionError(f"{name} was taken")


def test_rate_limit_counts_all_children():
    with isolated("--rate-limit", "2") as server:
        statuses = [server.post("/tokenize", {"text": "a"}).status for _ in range(8)]
        assert 429 in statuses and statuses[0] == 200, statuses


def test_metrics_count_all_children():
    with isolated() as server:
        for seed in range(3):
            ask(server, seed, max_tokens=5)
        until(lambda: not children(server), "all have ended")
        text = server.get("/metrics").text
        assert 'infer_http_requests_total{route="/v1/chat/completions",status="200"} 3' in text, text
        assert "infer_generated_tokens_total 15\n" in text and "infer_children 1\n" in text and "infer_children_started_total 4\n" in text, text


def test_access_log_has_all_children():
    with isolated("--access-log", "/dev/null") as server:
        log = os.path.join(server.folder, "log")
        with isolated("--access-log", log) as logged:
            ids = [logged.get("/health").headers["x-request-id"] for _ in range(20)]
            assert len(set(ids)) == 20
            until(lambda: not children(logged), "all have ended")
            with open(log, encoding="utf-8") as f:
                assert sorted(json.loads(line)["id"] for line in f) == sorted(ids)


def test_responses_across_children():
    """With --kv-dir what one child keeps another one finds."""
    with isolated() as other:
        with isolated("--kv-dir", os.path.join(other.folder, "kv")) as server:
            first = server.post("/v1/responses", {"input": "Hello there", "max_output_tokens": 8, "temperature": 0})
            assert first.status == 200, first.text
            name = first.json()["id"]
            assert server.get(f"/v1/responses/{name}").json()["id"] == name
            second = server.post("/v1/responses", {"input": "And then?", "previous_response_id": name, "max_output_tokens": 8})
            assert second.status == 200 and second.json()["previous_response_id"] == name, second.text
            slow = server.post("/v1/responses", {"input": "Tell me more", "background": True, "max_output_tokens": 200})
            assert slow.status == 200, slow.text  # its child goes on although the connection has ended
            until(lambda: server.get("/v1/responses/" + slow.json()["id"]).json()["status"] in ("completed", "incomplete"), "the answer in the background ends")


# ---- Ends ----


def test_stop_lets_answers_finish():
    with isolated() as server:
        connection, response = server.begin("POST", "/v1/chat/completions", body(1, 300, True))
        assert response.status == 200
        response.readline()
        idle = server.connection()
        idle.request("GET", "/health")
        assert idle.getresponse().read()
        server.process.send_signal(signal.SIGTERM)
        assert response.read().endswith(b"data: [DONE]\n\n")
        connection.close()
        assert server.wait() == 0
        idle.close()


def test_second_signal_ends_at_once():
    with isolated("--drain", "600") as server:
        connection, response = server.begin("POST", "/v1/chat/completions", dict(body(1, 400, True), n=64))
        response.readline()
        server.process.send_signal(signal.SIGTERM)
        until(lambda: not listens(server), "it takes no more connections")
        server.process.send_signal(signal.SIGTERM)
        assert server.wait() == 0
        connection.close()


def listens(server):
    try:
        server.socket().close()
        return True
    except ConnectionError:
        return False


def test_children_go_with_a_killed_parent():
    server = isolated()
    connection = server.connection()
    connection.request("GET", "/health")
    assert connection.getresponse().read()
    [pid] = children(server)
    server.process.kill()
    server.process.wait()
    until(lambda: not os.path.exists(f"/proc/{pid}") or is_zombie(pid), "the child has ended")
    connection.close()
    server.close()


def is_zombie(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as f:
            return f.read().rsplit(")", 1)[1].split()[0] == "Z"
    except FileNotFoundError:
        return True


def test_unix_socket():
    with isolated("--unix", os.path.join("/tmp", f"infer-isolate-{os.getpid()}")) as server:
        assert server.get("/health").status == 200
        assert server.get("/health").status == 200
    assert not os.path.exists(server.path)


if __name__ == "__main__":
    tap.main(globals())
