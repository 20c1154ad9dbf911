"""What the tests share: models, and the package from the tree."""
import gc
import os
import signal
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "bindings" / "python" / "src"))

import libinfer

signal.signal(signal.SIGINT, signal.default_int_handler) # what a shell starts in the background would ignore it, and its children too

TINY = str(ROOT / "models" / "tiny.gguf")
DATA = ROOT / "tests" / "data"
PROMPT = "Once upon a time"


@pytest.fixture(scope="session", name="model")
def _model():
    with libinfer.Model.open(TINY) as opened:
        yield opened


@pytest.fixture(name="session")
def _session(model):
    with model.session() as made:
        yield made


@pytest.fixture(name="prompted")
def _prompted(session):
    session.append_text(PROMPT)
    return session


@pytest.fixture(scope="session", name="answer")
def _answer(model):
    """The greedy answer of 24 tokens."""
    with model.session() as made:
        made.append_text(PROMPT)
        return made.generate(24).text()


def kv_bytes(engine):
    """KV memory after whatever is garbage has gone."""
    gc.collect()
    return engine.info.kv_bytes


def child_environment(**more):
    """For processes that import the package from the tree."""
    return dict(os.environ, PYTHONPATH=str(ROOT / "bindings" / "python" / "src"), **more)
