#!/usr/bin/env python3
"""infer-server's checkpoints: save, load, fork, graft, delete; names; tenants; a restart with --kv-dir. test_server_checkpoints.py INFER-SERVER"""
import json
import os
import shutil
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import tap  # noqa: E402
from server_host import ROOT, Server, read_events, until  # noqa: E402

SERVER = os.path.abspath(sys.argv[1])
STORY = "Once upon a time the little Red Hen lived in a house by the wood, and she had a cat and a mouse and a dog. " * 6
SYSTEM = [{"role": "system", "content": "You tell of the little Red Hen. " * 8}]
FIRST = SYSTEM + [{"role": "user", "content": "Who is she?"}]


def ask(server, path, body, status=200, headers=None):
    answer = server.post(path, body, headers)
    assert answer.status == status, (path, body, answer.status, answer.text)
    return answer.json()


def refused(server, path, body, said, status=400, headers=None):
    error = ask(server, path, body, status, headers)["error"]
    assert said in error["message"], (path, body, error)
    return error


def names(server, headers=None):
    return [c["name"] for c in server.request("GET", "/checkpoints", headers=headers).json()["data"]]


def go_on(server, **body):
    """A greedy continuation, with its log-probabilities: equal numbers are equal bits."""
    got = ask(server, "/complete", {"max_tokens": 12, "temperature": 0, "logprobs": True, "top_logprobs": 3, **body})
    return got["text"], got["tokens"], got


def test_save_and_go_on():
    with Server(SERVER, "--cache-bytes", "0") as server:
        more = ask(server, "/tokenize", {"text": "Then she said", "add_special": False})["tokens"]
        whole = go_on(server, prompt=ask(server, "/tokenize", {"text": STORY})["tokens"] + more)
        saved = ask(server, "/checkpoints/save", {"name": "story", "prompt": STORY})
        checkpoint = saved["checkpoint"]
        assert checkpoint["name"] == "story" and checkpoint["approximate"] is False and checkpoint["kv_type"] == "f16"
        assert checkpoint["length"] == saved["usage"]["prompt_tokens"] > 64 and saved["usage"]["completion_tokens"] == 0
        listed = server.get("/checkpoints").json()["data"]
        assert [c["name"] for c in listed] == ["story"] and listed[0]["length"] == checkpoint["length"] and listed[0]["bytes"] > 0
        text, tokens, got = go_on(server, checkpoint="story", prompt="Then she said")
        assert (text, tokens) == whole[:2]
        assert got["usage"]["cached_tokens"] >= checkpoint["length"] - 1 and got["usage"]["prompt_tokens"] == whole[2]["usage"]["prompt_tokens"]
        # Twice the same; and what went on did not change it.
        assert go_on(server, checkpoint="story", prompt="Then she said")[:2] == whole[:2]
        # Without a prompt the answer goes on where the checkpoint stands.
        assert go_on(server, checkpoint="story")[:2] == go_on(server, prompt=STORY)[:2]
        refused(server, "/checkpoints/save", {"name": "story", "prompt": "a"}, "story", 409)
        assert ask(server, "/checkpoints/save", {"name": "story", "prompt": "Other", "replace": True})["checkpoint"]["length"] < 10
        # On top of another one.
        ask(server, "/checkpoints/save", {"name": "a", "prompt": STORY})
        assert ask(server, "/checkpoints/save", {"name": "b", "checkpoint": "a", "prompt": "Then she said"})["checkpoint"]["length"] == whole[2]["usage"]["prompt_tokens"]
        assert go_on(server, checkpoint="b")[:2] == whole[:2]


def test_chat_saves_its_answers():
    with Server(SERVER, "--cache-bytes", "0") as server:
        one = ask(server, "/chat", {"messages": FIRST, "max_tokens": 10, "temperature": 0, "save": "turn1"})
        assert one["checkpoint"]["name"] == "turn1" and names(server) == ["turn1"]
        assert one["checkpoint"]["length"] >= one["usage"]["prompt_tokens"] + 9
        second = FIRST + [{"role": "assistant", "content": one["text"]}, {"role": "user", "content": "And then?"}]
        body = {"messages": second, "max_tokens": 10, "temperature": 0, "logprobs": True}
        fresh = ask(server, "/chat", body)
        again = ask(server, "/chat", dict(body, checkpoint="turn1"))
        assert again["text"] == fresh["text"] and again["tokens"] == fresh["tokens"]
        assert fresh["usage"]["cached_tokens"] == 0 and again["usage"]["cached_tokens"] >= one["usage"]["prompt_tokens"]
        events = list(server.events("/chat/stream", dict(body, checkpoint="turn1", save="turn2")))
        done = json.loads(events[-1][1])
        assert events[-1][0] == "done" and done["text"] == fresh["text"] and done["checkpoint"]["name"] == "turn2" and names(server) == ["turn1", "turn2"]
        refused(server, "/chat", dict(body, save="turn1"), "turn1", 409)
        assert ask(server, "/chat", dict(body, save="turn1", replace=True))["checkpoint"]["name"] == "turn1"
        assert ask(server, "/complete", {"prompt": "a", "max_tokens": 1, "save": "raw"})["checkpoint"]["length"] >= 2
        # A saved conversation without an answer, for all that begin with it.
        ask(server, "/checkpoints/save", {"name": "system", "messages": SYSTEM})
        begun = ask(server, "/chat", {"messages": FIRST, "checkpoint": "system", "max_tokens": 10, "temperature": 0})
        assert begun["text"] == one["text"] and begun["usage"]["cached_tokens"] > 64


def test_infer_and_score_from_a_checkpoint():
    with Server(SERVER, "--cache-bytes", "0") as server:
        ids = ask(server, "/tokenize", {"text": STORY})["tokens"]
        whole = ask(server, "/infer", {"input": ids})["logits"]["data"]
        ask(server, "/infer", {"input": ids[:100], "logits": "none", "save": "half"})
        got = ask(server, "/infer", {"input": ids[100:], "checkpoint": "half"})
        assert got["logits"]["data"] == whole and got["usage"]["prompt_tokens"] == len(ids) and got["cache"]["reused"] == 0 or got["cache"]["reused"] >= 99
        ask(server, "/complete", {"prompt": STORY, "max_tokens": 3, "temperature": 0, "save": "answered"})  # its last token is not computed yet
        length = next(c for c in server.get("/checkpoints").json()["data"] if c["name"] == "answered")["length"]
        got = ask(server, "/infer", {"input": [5], "checkpoint": "answered"})
        assert got["usage"]["prompt_tokens"] == length + 1
        refused(server, "/infer", {"input": [5], "save": "half"}, "half", 409)


def test_fork_load_delete():
    with Server(SERVER) as server:
        ask(server, "/checkpoints/save", {"name": "a", "prompt": STORY})
        want = go_on(server, checkpoint="a")[:2]
        assert ask(server, "/checkpoints/fork", {"from": "a", "to": "b"}) == {"object": "checkpoint", "from": "a", "name": "b"}
        refused(server, "/checkpoints/fork", {"from": "a", "to": "b"}, "b", 409)
        assert ask(server, "/checkpoints/fork", {"from": "a", "to": "b", "replace": True})
        refused(server, "/checkpoints/fork", {"from": "none", "to": "c"}, "none", 404)
        assert ask(server, "/checkpoints/delete", {"name": "a"}) == {"object": "checkpoint", "name": "a", "deleted": True}
        refused(server, "/checkpoints/delete", {"name": "a"}, "a", 404)
        refused(server, "/complete", {"checkpoint": "a", "max_tokens": 1}, "a", 404)
        assert go_on(server, checkpoint="b")[:2] == want and names(server) == ["b"]
        loaded = ask(server, "/checkpoints/load", {"name": "b"})["checkpoint"]
        assert loaded["name"] == "b" and loaded["computed"] == loaded["length"]
        refused(server, "/checkpoints/load", {"name": "a"}, "a", 404)
        refused(server, "/checkpoints/load", {}, "name")
        refused(server, "/checkpoints/load", {"name": "b", "path": "/etc/passwd"}, "path")
        refused(server, "/checkpoints/fork", {"from": "b"}, "to")
        refused(server, "/checkpoints/delete", {"name": 5}, "name")
        refused(server, "/checkpoints/save", {"name": "x"}, "prompt")
        refused(server, "/checkpoints/save", {"prompt": "x"}, "name")
        refused(server, "/checkpoints/save", {"name": "x", "prompt": "a", "messages": FIRST}, "prompt")
        refused(server, "/checkpoints/save", {"name": "x", "prompt": []}, "prompt")
        refused(server, "/checkpoints/save", {"name": "x", "prompt": "a", "temperature": 1}, "temperature")
        refused(server, "/checkpoints/save", {"name": "x", "prompt": [5] * 600}, "context")
        assert names(server) == ["b"]


def test_graft():
    with Server(SERVER, "--cache-bytes", "0") as server:
        ids = ask(server, "/tokenize", {"text": STORY})["tokens"]
        ask(server, "/checkpoints/save", {"name": "whole", "prompt": ids})
        ask(server, "/checkpoints/save", {"name": "begin", "prompt": ids[:70]})
        # What lies before it in the source is what the base holds: exact, nothing is computed.
        exact = ask(server, "/checkpoints/graft", {"name": "begin", "checkpoint": "whole", "first": 70, "to": "exact"})
        assert exact["checkpoint"]["approximate"] is False and exact["checkpoint"]["length"] == len(ids)
        assert go_on(server, checkpoint="exact", prompt="She")[:2] == go_on(server, checkpoint="whole", prompt="She")[:2]
        # Elsewhere it is approximate; 8 elements mend the seam.
        moved = ask(server, "/checkpoints/graft", {"name": "begin", "checkpoint": "whole", "first": 100, "count": 40, "recompute": 8, "to": "moved"})
        assert moved["checkpoint"]["approximate"] is True and moved["checkpoint"]["length"] == 110 and moved["rerun"] >= 8
        listed = {c["name"]: c for c in server.get("/checkpoints").json()["data"]}
        assert listed["moved"]["approximate"] is True and listed["exact"]["approximate"] is False
        assert len(go_on(server, checkpoint="moved")[1]) == 12
        alone = ask(server, "/checkpoints/graft", {"checkpoint": "whole", "first": 10, "count": 30, "to": "alone"})
        assert alone["checkpoint"]["length"] == 30
        assert ask(server, "/checkpoints/graft", {"name": "begin", "checkpoint": "whole", "first": 70})["checkpoint"]["length"] == len(ids)  # in place
        # Behind an answer, whose last token is not computed yet.
        ask(server, "/complete", {"prompt": ids[:70], "max_tokens": 3, "temperature": 0, "save": "answered", "ignore_eos": True})
        assert ask(server, "/checkpoints/graft", {"name": "answered", "checkpoint": "whole", "first": 10, "count": 5})["checkpoint"]["length"] >= 77
        for body, said, status in [({"checkpoint": "whole"}, "to", 400), ({"name": "begin"}, "checkpoint", 400), ({"name": "none", "checkpoint": "whole"}, "none", 404),
                                   ({"name": "begin", "checkpoint": "none"}, "none", 404), ({"name": "begin", "checkpoint": "whole", "first": 10000}, "", 400),
                                   ({"name": "begin", "checkpoint": "whole", "count": 10000}, "", 400),
                                   ({"name": "begin", "checkpoint": "whole", "count": 5, "recompute": 6}, "", 400),
                                   ({"name": "begin", "checkpoint": "whole", "first": -1}, "first", 400), ({"name": "moved", "checkpoint": "whole", "count": 220, "to": "long"}, "", 200),
                                   ({"name": "long", "checkpoint": "whole"}, "context", 400),
                                   ({"name": "begin", "checkpoint": "whole", "to": "moved"}, "moved", 409)]:
            if status == 200:
                ask(server, "/checkpoints/graft", body)
            else:
                refused(server, "/checkpoints/graft", body, said, status)


BAD_NAMES = ("..", ".", "", "/", "/etc/passwd", "../../etc/passwd", "a/b", "a\\b", ".hidden", "a" * 65, "a b", "a\nb", "\u00e9", "%2e%2e", "a:b", "~", "-\x01")


def test_names_lead_nowhere():
    top = tempfile.mkdtemp(prefix="infer-kv-")
    try:
        with Server(SERVER, "--kv-dir", os.path.join(top, "kv")) as server:
            ask(server, "/checkpoints/save", {"name": "real", "prompt": STORY})
            before = sorted(os.path.join(d, f) for d, _, files in os.walk(top) for f in files)
            for bad in BAD_NAMES:
                for path, body in [("/checkpoints/save", {"name": bad, "prompt": "a"}), ("/checkpoints/load", {"name": bad}), ("/checkpoints/delete", {"name": bad}),
                                   ("/checkpoints/fork", {"from": bad, "to": "x"}), ("/checkpoints/fork", {"from": "real", "to": bad}),
                                   ("/checkpoints/graft", {"name": bad, "checkpoint": "real", "to": "x"}), ("/checkpoints/graft", {"name": "real", "checkpoint": bad}),
                                   ("/checkpoints/graft", {"name": "real", "checkpoint": "real", "to": bad}), ("/complete", {"checkpoint": bad, "prompt": "a"}),
                                   ("/complete", {"prompt": "a", "save": bad}), ("/chat", {"messages": FIRST, "checkpoint": bad})]:
                    error = refused(server, path, body, "a name has 1 to 64")
                    assert "passwd" not in error["message"]
            answer = server.post("/checkpoints/load", b'{"name": "real\\u0000"}')
            assert answer.status == 400, answer.text
            # A link, a device and a pipe in the folder are no checkpoints.
            folder = os.path.join(top, "kv", "checkpoints")
            (file,) = [f for f in os.listdir(folder) if "real" in f]
            os.mkfifo(os.path.join(folder, file.replace("real", "pipe")))
            os.symlink("/dev/zero", os.path.join(folder, file.replace("real", "device")))
            os.symlink("/etc/passwd", os.path.join(folder, file.replace("real", "text")))
            for name in ("pipe", "device", "text"):
                answer = server.post("/checkpoints/load", {"name": name})
                assert answer.status in (400, 404, 500) and "root:" not in answer.text, (name, answer.status, answer.text)
            assert before == sorted(p for d, _, files in os.walk(top) for f in files if not os.path.islink(p := os.path.join(d, f)) and os.path.isfile(p))
            assert ask(server, "/checkpoints/load", {"name": "real"})
    finally:
        shutil.rmtree(top)


def test_tenants_are_apart():
    top = tempfile.mkdtemp(prefix="infer-keys-")
    keys = os.path.join(top, "keys")
    with open(keys, "w", encoding="ascii") as f:
        f.write("key-a a salt-a\nkey-a2 a2 salt-a\nkey-b b salt-b\nkey-c\n")
    a, a2, b, c = ({"Authorization": "Bearer " + k} for k in ("key-a", "key-a2", "key-b", "key-c"))
    try:
        for more in [], ["--kv-dir", os.path.join(top, "kv")]:
            with Server(SERVER, "--api-key-file", keys, *more) as server:
                ask(server, "/checkpoints/save", {"name": "mine", "prompt": STORY}, headers=a)
                assert names(server, a) == names(server, a2) == ["mine"] and names(server, b) == names(server, c) == []
                for other in (b, c):
                    mine = refused(server, "/checkpoints/load", {"name": "mine"}, "mine", 404, other)
                    none = refused(server, "/checkpoints/load", {"name": "nope"}, "nope", 404, other)
                    assert mine["message"].replace("mine", "nope") == none["message"]  # the same answer whether somebody has it or not
                    for path, body in [("/checkpoints/delete", {"name": "mine"}), ("/checkpoints/fork", {"from": "mine", "to": "x"}),
                                       ("/complete", {"checkpoint": "mine", "max_tokens": 1}), ("/checkpoints/graft", {"checkpoint": "mine", "to": "x"}),
                                       ("/infer", {"input": [1], "checkpoint": "mine"}), ("/chat", {"messages": FIRST, "checkpoint": "mine"})]:
                        refused(server, path, body, "mine", 404, other)
                ask(server, "/checkpoints/save", {"name": "mine", "prompt": "Other"}, headers=b)  # the name is free for them
                assert names(server, b) == ["mine"] and ask(server, "/checkpoints/load", {"name": "mine"}, headers=a)["checkpoint"]["length"] > 64
                assert ask(server, "/complete", {"checkpoint": "mine", "max_tokens": 1}, headers=a2)["usage"]["prompt_tokens"] > 64
                # What another tenant computed is not told: nothing of it is in the reason.
                assert ask(server, "/chat", {"messages": FIRST, "max_tokens": 1}, headers=a)["cache"]["reused"] < 5
                for other in (b, c):
                    got = ask(server, "/chat", {"messages": FIRST, "max_tokens": 1}, headers=other)["cache"]
                    assert got["reused"] < 5 and got["reason"] in ("empty", "ends", "differs") and "salt" not in got["text"], got
                assert ask(server, "/chat", {"messages": FIRST, "max_tokens": 1}, headers=a)["cache"]["reused"] > 64
    finally:
        shutil.rmtree(top)


def test_reasons_tell_nothing_of_other_tenants():
    top = tempfile.mkdtemp(prefix="infer-keys-")
    keys = os.path.join(top, "keys")
    with open(keys, "w", encoding="ascii") as f:
        f.write("key-a a salt-a\nkey-b b salt-b\n")
    mine, other = ({"Authorization": "Bearer " + k} for k in ("key-b", "key-a"))
    prompts = [list(range(5, 205)), list(range(5, 105)) + list(range(300, 400)), list(range(5, 255)), list(range(700, 900)), list(range(5, 205))]
    told = []
    try:
        for busy in (False, True):
            with Server(SERVER, "--api-key-file", keys) as server:
                if busy:
                    for prompt in prompts:
                        ask(server, "/complete", {"prompt": prompt + list(range(400, 500)), "max_tokens": 1}, headers=other)
                caches = []
                for prompt in prompts:
                    answer = server.post("/complete", {"prompt": prompt, "max_tokens": 1}, mine)
                    assert answer.status == 200 and answer.headers["x-cache-reason"] == answer.json()["cache"]["text"]
                    caches.append(answer.json()["cache"])
                told.append(caches)
        assert told[0] == told[1], told
        assert [c["reason"] for c in told[0]] == ["empty", "differs", "ends", "differs", "hit"], told[0]
    finally:
        shutil.rmtree(top)


def test_a_requests_own_salt():
    with Server(SERVER) as server:
        first = ask(server, "/chat", {"messages": FIRST, "max_tokens": 1, "salt": "x"})
        other = ask(server, "/chat", {"messages": FIRST, "max_tokens": 1, "salt": "y"})
        again = ask(server, "/chat", {"messages": FIRST, "max_tokens": 1, "salt": "x"})
        assert first["cache"]["reused"] == other["cache"]["reused"] == 0 and "salt" not in other["cache"]["text"]
        assert again["cache"]["reused"] == again["cache"]["prompt"] - 1 and again["cache"]["reason"] == "hit"
        refused(server, "/chat", {"messages": FIRST, "salt": "x" * 100}, "salt")


def test_restart():
    top = tempfile.mkdtemp(prefix="infer-kv-")
    kv = os.path.join(top, "kv")
    try:
        with Server(SERVER, "--kv-dir", kv) as server:
            ask(server, "/checkpoints/save", {"name": "story", "prompt": STORY})
            one = ask(server, "/chat", {"messages": FIRST, "max_tokens": 10, "temperature": 0, "save": "turn1"})
            story = go_on(server, checkpoint="story", prompt="Then she said")
            second = FIRST + [{"role": "assistant", "content": one["text"]}, {"role": "user", "content": "And then?"}]
            body = {"messages": second, "max_tokens": 10, "temperature": 0, "logprobs": True, "checkpoint": "turn1"}
            turn = ask(server, "/chat", body)
        with Server(SERVER, "--kv-dir", kv, "--cache-bytes", "1M") as server:
            assert names(server) == ["story", "turn1"]
            assert ask(server, "/checkpoints/load", {"name": "story"})["checkpoint"]["length"] > 64
            text, tokens, got = go_on(server, checkpoint="story", prompt="Then she said")
            assert (text, tokens) == story[:2] and got["usage"]["cached_tokens"] >= 64
            again = ask(server, "/chat", body)
            assert again["text"] == turn["text"] and again["tokens"] == turn["tokens"] and again["usage"]["cached_tokens"] >= one["usage"]["prompt_tokens"]
            assert ask(server, "/checkpoints/delete", {"name": "turn1"})
        with Server(SERVER, "--kv-dir", kv) as server:
            assert names(server) == ["story"]
    finally:
        shutil.rmtree(top)


def at_once(*jobs):
    """Runs jobs on threads of their own; the first failure is raised."""
    failures = []

    def run(job):
        try:
            job()
        except BaseException as e:  # pylint: disable=broad-except
            failures.append(e)
    threads = [threading.Thread(target=run, args=(job,)) for job in jobs]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if failures:
        raise failures[0]


def test_races_on_one_name():
    """Whatever comes at once: each answer is one that could be, each answer that goes on from the name is one of two, and the server stays whole."""
    top = tempfile.mkdtemp(prefix="infer-kv-")
    try:
        for more in [], ["--kv-dir", os.path.join(top, "kv")]:
            with Server(SERVER, *more) as server:
                prompts = [STORY, STORY.replace("cat", "cow")]
                wanted = set()
                for prompt in prompts:
                    ask(server, "/checkpoints/save", {"name": "x", "prompt": prompt, "replace": True})
                    wanted.add(go_on(server, checkpoint="x")[0])

                def calls(path, body, allowed, count=12):
                    def run():
                        for _ in range(count):
                            answer = server.post(path, body)
                            assert answer.status in allowed, (path, answer.status, answer.text)
                            if path == "/complete" and answer.status == 200:
                                assert answer.json()["text"] in wanted, answer.text
                    return run
                at_once(calls("/checkpoints/save", {"name": "x", "prompt": prompts[0], "replace": True}, {200}),
                        calls("/checkpoints/save", {"name": "x", "prompt": prompts[1], "replace": True}, {200}),
                        calls("/checkpoints/save", {"name": "x", "prompt": prompts[1]}, {200, 409}),
                        calls("/checkpoints/load", {"name": "x"}, {200, 404}),
                        calls("/checkpoints/fork", {"from": "x", "to": "y", "replace": True}, {200, 404}),
                        calls("/checkpoints/delete", {"name": "x"}, {200, 404}),
                        calls("/checkpoints/graft", {"checkpoint": "x", "count": 5, "to": "z", "replace": True}, {200, 404}),
                        calls("/complete", {"checkpoint": "x", "max_tokens": 12, "temperature": 0}, {200, 404}),
                        calls("/complete", {"checkpoint": "x", "max_tokens": 12, "temperature": 0}, {200, 404}))
                ask(server, "/checkpoints/save", {"name": "x", "prompt": STORY, "replace": True})
                assert go_on(server, checkpoint="x")[0] in wanted
    finally:
        shutil.rmtree(top)


def test_what_is_deleted_while_in_use():
    with Server(SERVER) as server:
        ask(server, "/checkpoints/save", {"name": "x", "prompt": STORY})
        want = ask(server, "/complete", {"checkpoint": "x", "max_tokens": 60, "temperature": 0, "ignore_eos": True})["text"]
        connection, response = server.begin("POST", "/complete", {"checkpoint": "x", "max_tokens": 60, "temperature": 0, "ignore_eos": True, "stream": True})
        assert ask(server, "/checkpoints/delete", {"name": "x"})
        events = list(read_events(response))
        connection.close()
        assert json.loads(events[-1][1])["text"] == want
        refused(server, "/complete", {"checkpoint": "x", "max_tokens": 1}, "x", 404)


def test_clients_that_go_in_the_middle():
    """During prompts, answers and savings: nothing is left running, and nothing is left half."""
    with Server(SERVER, "--cache-bytes", "0") as server:
        ids = (ask(server, "/tokenize", {"text": STORY * 2})["tokens"] * 2)[:480]
        for path, body in [("/checkpoints/save", {"name": "a", "prompt": ids}), ("/complete", {"prompt": ids, "max_tokens": 20, "save": "b", "ignore_eos": True}),
                           ("/infer", {"input": ids, "logits": "all", "encoding_format": "base64", "save": "c"}), ("/score", {"text": ids}),
                           ("/chat/stream", {"messages": FIRST, "save": "d", "max_tokens": 100, "ignore_eos": True}),
                           ("/checkpoints/graft", {"checkpoint": "base", "to": "e"}), ("/checkpoints/load", {"name": "base"})]:
            ask(server, "/checkpoints/save", {"name": "base", "prompt": ids[:300], "replace": True})
            data = json.dumps(body).encode()
            for wait in (0, 0.002, 0.01, 0.03):  # at different places of the work; which, does not matter
                with server.socket() as s:
                    s.sendall(f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n".encode() + data)
                    time.sleep(wait)
        until(lambda: server.get("/v1/system").json()["scheduler"]["active"] == 0, "nothing runs any more")
        for name in names(server):  # what was saved is whole
            assert ask(server, "/checkpoints/load", {"name": name})["checkpoint"]["length"] > 64
        assert ask(server, "/complete", {"prompt": "a", "max_tokens": 2})["usage"]["completion_tokens"] == 2


def test_room_for_checkpoints():
    top = tempfile.mkdtemp(prefix="infer-kv-")
    try:
        for more in [], ["--kv-dir", os.path.join(top, "kv")]:
            with Server(SERVER, "--checkpoint-bytes", "1M", *more) as server:
                statuses = []
                while len(statuses) < 20 and statuses[-1:] != [507]:
                    answer = server.post("/checkpoints/save", {"name": f"n{len(statuses)}", "prompt": STORY})
                    statuses.append(answer.status)
                assert statuses[-1] == 507 and len(statuses) > 1 and answer.json()["error"]["code"] == "checkpoints_full", statuses
                # An answer is not lost for that.
                got = ask(server, "/complete", {"prompt": STORY, "max_tokens": 5, "save": "more"})
                assert got["text"] and got["checkpoint"] is None and got["checkpoint_error"]["status"] == "INFER_ERROR_LIMIT"
                done = json.loads(list(server.events("/complete", {"prompt": STORY, "max_tokens": 5, "save": "more", "stream": True}))[-1][1])
                assert done["text"] and done["checkpoint"] is None and done["checkpoint_error"]["message"]
                assert len(names(server)) == len(statuses) - 1
                assert ask(server, "/checkpoints/delete", {"name": "n0"})
                assert ask(server, "/complete", {"prompt": STORY, "max_tokens": 5, "save": "more"})["checkpoint"]["name"] == "more"
    finally:
        shutil.rmtree(top)


def test_a_damaged_file_is_told():
    top = tempfile.mkdtemp(prefix="infer-kv-")
    kv = os.path.join(top, "kv")
    try:
        with Server(SERVER, "--kv-dir", kv) as server:
            ask(server, "/checkpoints/save", {"name": "a", "prompt": STORY})
            ask(server, "/checkpoints/save", {"name": "b", "prompt": STORY})
        folder = os.path.join(kv, "checkpoints")
        files = sorted(os.listdir(folder))
        assert len(files) == 2
        with open(os.path.join(folder, files[0]), "r+b") as f:  # somewhere in the pages
            f.seek(os.path.getsize(f.name) * 3 // 4)
            byte = f.read(1)
            f.seek(-1, 1)
            f.write(bytes([byte[0] ^ 0x40]))
        with open(os.path.join(folder, files[1]), "r+b") as f:
            f.truncate(100)
        with Server(SERVER, "--kv-dir", kv) as server:
            for name in ("a", "b"):
                answer = server.post("/checkpoints/load", {"name": name})
                assert answer.status in (400, 500) and answer.json()["error"]["message"], (name, answer.status, answer.text)
            assert names(server) == ["a", "b"]
            assert ask(server, "/checkpoints/save", {"name": "a", "prompt": STORY, "replace": True})
            assert ask(server, "/checkpoints/load", {"name": "a"})["checkpoint"]["length"] > 64
            assert ask(server, "/checkpoints/delete", {"name": "b"}) and names(server) == ["a"]
    finally:
        shutil.rmtree(top)


if __name__ == "__main__":
    assert ROOT
    tap.main(globals())
