#!/usr/bin/env python3
"""Answers a question: generate.py MODEL.gguf "QUESTION" [--max-tokens N] [--seed N]

A model without a chat template continues the text instead. Ctrl-C ends the answer."""
from __future__ import annotations

import argparse
import sys

import libinfer


def main() -> int:
    parser = argparse.ArgumentParser(description="Answers a question.")
    parser.add_argument("model")
    parser.add_argument("question")
    parser.add_argument("--max-tokens", type=int, default=300)
    parser.add_argument("--seed", type=int, help="draw; without it the most likely token is taken")
    options = parser.parse_args()
    sampling = libinfer.Sampling() if options.seed is None else libinfer.Sampling.default(seed=options.seed)
    try:
        with libinfer.Model.open(options.model) as model, model.session() as session:
            if model.template.is_fallback:
                session.append_text(options.question)
            else:
                session.append_chat([("user", options.question)])
            for text in session.stream(options.max_tokens, sampling=sampling):
                print(text, end="", flush=True)
            print()
    except libinfer.Error as error:
        print(f"{error.name}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print()
    return 0


if __name__ == "__main__":
    sys.exit(main())
