#!/usr/bin/env python3
"""Runs a test of the Node.js clients against servers that it starts: run_node.py INFER-SERVER SCRIPT [CASE]. Where Node.js or the packages are
missing, every case of the script is skipped."""
import json
import os
import re
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import common  # noqa: E402


def missing():
    if not shutil.which("node"):
        return "there is no node"
    for package in ("openai", "@anthropic-ai/sdk", "ws"):
        if not os.path.isdir(os.path.join(common.CLIENTS, "node_modules", package)):
            return f"the npm package {package} is not installed (scripts/client-env)"
    return None


def main():
    script, why = os.path.abspath(sys.argv[2]), missing()
    if why:
        with open(script, encoding="utf-8") as text:
            names = re.findall(r'^test\("(\w+)"', text.read(), re.MULTILINE)
        print(f"1..{len(names)}")
        for number, name in enumerate(names, 1):
            print(f"ok {number} - {name} # SKIP {why}")
        return 0
    urls = {kind: common.server(kind) for kind in common.KINDS}
    env = dict(os.environ, INFER_URLS=json.dumps(urls), INFER_CLIENTS=common.CLIENTS, INFER_ROOT=common.ROOT, INFER_NAME=common.NAME, INFER_KEY=common.KEY)
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_BASE_URL", "ANTHROPIC_AUTH_TOKEN"):
        env.pop(name, None)
    try:
        return subprocess.run(["node", script, *sys.argv[3:]], env=env, check=False).returncode
    finally:
        common.stop_all()


if __name__ == "__main__":
    sys.exit(main())
