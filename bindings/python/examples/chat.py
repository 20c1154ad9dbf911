#!/usr/bin/env python3
"""A conversation: chat.py MODEL.gguf [--system TEXT] [--max-tokens N]

Ctrl-C ends an answer, and the conversation goes on. An empty line, or the end of input, ends it. Each turn renders the whole conversation anew and rolls back
to where it differs from what the session holds, so that little is computed twice."""
from __future__ import annotations

import argparse
import sys
from typing import Any

import libinfer


def say(session: libinfer.Session, messages: list[tuple[str, str]], max_tokens: int) -> str:
    """The answer to a conversation; as far as it came when Ctrl-C ends it."""
    model = session.model
    special = model.tokenizer.info
    texts: dict[str, Any] = {name: model.tokenizer.decode([id], show_special=True) for name, id in (("bos_token", special.bos), ("eos_token", special.eos)) if id >= 0}
    ids = model.tokenizer.encode(model.template.render(messages, **texts), parse_special=True)
    if special.add_bos and ids[:1] != [special.bos]:
        ids.insert(0, special.bos)
    held = session.tokens()
    common = next((i for i, (a, b) in enumerate(zip(held, ids)) if a != b), min(len(held), len(ids)))
    session.truncate(common)
    session.append(ids[common:])
    answer = ""
    try:
        for text in session.stream(max_tokens):
            print(text, end="", flush=True)
            answer += text
    except KeyboardInterrupt:
        print(" [...]", end="")
    print()
    return answer


def main() -> int:
    parser = argparse.ArgumentParser(description="A conversation.")
    parser.add_argument("model")
    parser.add_argument("--system")
    parser.add_argument("--max-tokens", type=int, default=0)
    options = parser.parse_args()
    messages = [("system", options.system)] if options.system else []
    try:
        with libinfer.Model.open(options.model) as model, model.session() as session:
            while True:
                print("> ", end="", flush=True)
                line = sys.stdin.readline().strip()
                if not line:
                    return 0
                messages.append(("user", line))
                messages.append(("assistant", say(session, messages, options.max_tokens)))
    except libinfer.Error as error:
        print(f"{error.name}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print()
        return 0


if __name__ == "__main__":
    sys.exit(main())
