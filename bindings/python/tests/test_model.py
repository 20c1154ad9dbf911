"""Opening: from everywhere, and what goes wrong; files as data; engines and their log."""
import gzip
import logging
import mmap
import os
import pickle
import shutil
from pathlib import Path

import pytest
from conftest import DATA, PROMPT, TINY

import libinfer
from libinfer import _sources

BYTES = Path(TINY).read_bytes()


def text_of(model):
    with model.session() as session:
        session.append_text(PROMPT)
        return session.generate(24).text()


def test_info(model):
    info = model.info
    assert (info.architecture, info.vocab_size, info.n_layer, info.n_embd, info.encoder) == ("llama", 1536, 6, 160, False)
    assert info.name == "libinfer tiny" and info.pooling == libinfer.Pooling.LAST
    memory = model.memory()
    assert memory.weight_bytes == info.weight_bytes and 0 <= memory.resident_bytes <= memory.weight_bytes
    assert model.engine.info.threads >= 1


def _gzipped(folder):
    path = folder / "m.gz"
    path.write_bytes(gzip.compress(BYTES, 1))
    return gzip.open(path)


def _mapped():
    with open(TINY, "rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


@pytest.mark.parametrize("kind", ["path", "pathlike", "bytes", "bytearray", "memoryview", "mmap", "descriptor", "file", "gzip", "function", "function-file"])
def test_sources(kind, answer, tmp_path):
    with open(TINY, "rb") as file:
        made = {
            "path": lambda: TINY, "pathlike": lambda: Path(TINY), "bytes": lambda: BYTES, "bytearray": lambda: bytearray(BYTES),
            "memoryview": lambda: memoryview(BYTES), "mmap": _mapped, "descriptor": file.fileno, "file": lambda: file, "gzip": lambda: _gzipped(tmp_path),
            "function": lambda: {"m.gguf": BYTES}.__getitem__, "function-file": lambda: lambda name: open(TINY, "rb"),
        }[kind]()
        with libinfer.Model.open(made, name="m.gguf") as model:
            del made
            assert text_of(model) == answer


def test_bytes_live_as_long_as_the_library_needs_them(answer):
    """The session outlives the model object; nothing of the host's holds the bytes."""
    model = libinfer.Model.open(bytearray(BYTES))
    session = model.session()
    model.close()
    del model
    session.append_text(PROMPT)
    assert session.generate(24).text() == answer
    session.close()


def test_bytes_are_given_back():
    data = bytearray(BYTES)
    before = len(_sources._streams)
    with libinfer.Model.open(data), pytest.raises(BufferError):
        data.append(0) # in use: it cannot move
    data.append(0)
    assert len(_sources._streams) == before


def test_map_can_be_chosen(model):
    with libinfer.Model.open(TINY, map=libinfer.Map.READ) as read:
        assert read.info == model.info


def test_missing_file():
    with pytest.raises(FileNotFoundError) as caught:
        libinfer.Model.open("/nowhere/model.gguf")
    error = caught.value
    assert isinstance(error, libinfer.NotFoundError) and isinstance(error, libinfer.FileError)
    assert error.code == libinfer.Status.ERROR_NOT_FOUND and error.name == "INFER_ERROR_NOT_FOUND"
    assert error.file == "/nowhere/model.gguf" and "/nowhere/model.gguf" in str(error)


def test_damaged_file_tells_the_place():
    data = bytearray(BYTES)
    data[4] = 99 # the version
    with pytest.raises(libinfer.UnsupportedError) as unsupported:
        libinfer.Model.open(bytes(data), name="bad.gguf")
    assert unsupported.value.file == "bad.gguf" and "bad.gguf" in str(unsupported.value)
    with pytest.raises(libinfer.TruncatedError) as truncated:
        libinfer.Model.open(BYTES[:5000], name="short.gguf")
    assert isinstance(truncated.value, ValueError) and truncated.value.offset is not None and "byte" in str(truncated.value)
    for wrong in (b"", b"no model at all"):
        with pytest.raises(libinfer.FileError):
            libinfer.Model.open(wrong)


def test_unknown_architecture_tells_the_key():
    at = BYTES.index(b"llama")
    with pytest.raises(libinfer.ArchitectureError) as caught:
        libinfer.Model.open(BYTES[:at] + b"lmaal" + BYTES[at + 5:])
    assert isinstance(caught.value, libinfer.ModelError) and caught.value.place == "lmaal" and "lmaal: " in str(caught.value)


def test_errors_can_be_pickled():
    with pytest.raises(libinfer.Error) as caught:
        libinfer.Model.open("/nowhere/model.gguf")
    copy = pickle.loads(pickle.dumps(caught.value))
    assert type(copy) is libinfer.NotFoundError and str(copy) == str(caught.value) and copy.code == caught.value.code and copy.file == caught.value.file


def test_wrong_kinds_of_source():
    for source in (None, 1.5, object()):
        with pytest.raises(TypeError):
            libinfer.Model.open(source)
    with pytest.raises(libinfer.FileError):
        libinfer.Model.open(10**6) # no such descriptor
    for number in (2**64, -2**65): # ctypes would take it for 0
        with pytest.raises(OverflowError):
            libinfer.Model.open(number)


class Raises(Exception):
    pass


def test_an_opener_that_raises():
    def opener(name):
        raise Raises(name)

    with pytest.raises(Raises, match=r"m\.gguf"):
        libinfer.Model.open(opener, name="m.gguf")
    with pytest.raises(libinfer.NotFoundError):
        libinfer.Model.open({}.__getitem__, name="m.gguf")
    asked = []

    def locked(name):
        asked.append(name)
        raise PermissionError(name)

    with pytest.raises(PermissionError, match=r"^m\.gguf$"):
        libinfer.Model.open(locked, name="m.gguf")
    assert asked == ["m.gguf"] # a failure ends the call
    with pytest.raises(TypeError):
        libinfer.Model.open(lambda name: 5)


def test_an_opener_of_a_folder():
    folder = DATA / "fixtures" / "llama"
    with libinfer.Model.open(lambda name: open(name, "rb"), name=str(folder)) as opened, libinfer.Model.open(folder) as model:
        assert opened.fingerprint() == model.fingerprint()


class Broken:
    """A file whose reads fail after some; error None: that ends."""

    def __init__(self, error, reads=1):
        self.at, self.error, self.reads = 0, error, reads

    def seek(self, offset, whence=0):
        self.at = len(BYTES) if whence else offset

    def tell(self):
        return self.at

    def read(self, count):
        self.reads -= 1
        if self.reads < 0:
            if self.error is None:
                return b""
            raise self.error
        self.at += count
        return BYTES[self.at - count: self.at]


@pytest.mark.parametrize("error", [Raises("disk"), OSError(5, "disk"), KeyboardInterrupt()])
def test_a_file_that_raises(error):
    with pytest.raises(type(error)):
        libinfer.Model.open(Broken(error))
    assert not _sources._openers


def test_a_file_that_ends_early():
    with pytest.raises(libinfer.TruncatedError):
        libinfer.Model.open(Broken(None))


def test_cancelled_before_it_begins():
    cancel = libinfer.Cancel()
    cancel.set()
    with pytest.raises(libinfer.CancelledError):
        libinfer.Model.open(TINY, cancel=cancel)
    assert cancel.is_set
    cancel.clear()
    libinfer.Model.open(TINY, cancel=cancel).close()


def test_closed_objects_say_so():
    model = libinfer.Model.open(TINY)
    tokenizer = model.tokenizer
    model.close()
    model.close()
    assert model.closed and "closed" in repr(model)
    with pytest.raises(libinfer.StateError, match="the model is closed"):
        model.session()
    assert tokenizer.decode(tokenizer.encode("still here")) == "still here"


def test_objects_are_made_by_the_library(model):
    for kind in (libinfer.Model, libinfer.Session, libinfer.Checkpoint, libinfer.File, libinfer.Adapter):
        with pytest.raises(TypeError):
            kind()
    with pytest.raises(TypeError):
        pickle.dumps(model)


def test_engine_options(tmp_path):
    with libinfer.Engine(threads=1, cpu="scalar", kv_budget=1 << 20) as engine:
        info = engine.info
        assert (info.cpu, info.threads, info.kv_budget) == (libinfer.Cpu.SCALAR, 1, 1 << 20)
        with libinfer.Model.open(TINY, engine=engine) as model:
            assert model.engine is engine
    with pytest.raises(ValueError, match="quantum"):
        libinfer.Engine(cpu="quantum")
    with pytest.raises(OverflowError):
        libinfer.Engine(threads=-1)
    with pytest.raises(libinfer.ArgumentError):
        libinfer.Engine(threads=100000)
    with pytest.raises(libinfer.ArgumentError):
        libinfer.Engine(cache_dir=str(tmp_path)) # needs cache_bytes


def test_kv_budget():
    with libinfer.Engine(kv_budget=1 << 16) as engine, libinfer.Model.open(TINY, engine=engine) as model, model.session() as session:
        session.append([1] * 500)
        with pytest.raises(libinfer.LimitError):
            session.step()
        assert len(session) == 500


def test_quantise_and_context(model):
    path = DATA / "fixtures" / "llama.gguf"
    with libinfer.Model.open(path, quantise=libinfer.TensorType.Q8_0, n_ctx=16) as small, small.session() as session:
        assert session.info.n_ctx == 16
    with model.session(n_ctx=10) as session:
        assert session.info.n_ctx == 10


def test_fingerprint(model):
    quick, full = model.fingerprint(), model.fingerprint(libinfer.Fingerprint.FULL)
    assert len(quick) == len(full) == 32 and quick != full
    with libinfer.Model.open(BYTES) as copy:
        assert copy.fingerprint() == quick


def test_file_as_data(model):
    for file in (libinfer.File.open(TINY), model.file):
        assert file.metadata["general.architecture"] == "llama"
        assert "general.architecture" in file.metadata and "no.key" not in file.metadata
        assert dict(file.metadata)["llama.block_count"] == 6
        assert len(file.metadata["tokenizer.ggml.tokens"]) == 1536
        with pytest.raises(KeyError):
            file.metadata["no.key"] # pylint: disable=pointless-statement,expression-not-assigned
        tensor = file.tensors["token_embd.weight"]
        assert tensor.type == libinfer.TensorType.Q8_0 and tensor.shape == (160, 1536) and tensor.name in list(file.tensors)
        assert len(tensor.data) == 160 * 1536 // 32 * 34
        with pytest.raises(TypeError):
            tensor.data[0] = 1
        row = tensor.f32(160, 160)
        assert len(row) == 160 and row.format == "f"
        for first, count in ((1, 5), (0, len(tensor) + 32), (-32, 32)):
            with pytest.raises(libinfer.ArgumentError):
                tensor.f32(first, count)
    data = tensor.data
    first = bytes(data[:34])
    file.close()
    del file, tensor
    assert bytes(data[:34]) == first  # the view keeps the file


def test_descriptor_is_left_as_it_was():
    descriptor = os.open(TINY, os.O_RDONLY)
    try:
        os.lseek(descriptor, 7, os.SEEK_SET)
        libinfer.Model.open(descriptor).close()
        assert os.lseek(descriptor, 0, os.SEEK_CUR) == 7
    finally:
        os.close(descriptor)


def cache_without_folder(folder, log):
    """An engine that has something to log: state that it evicts cannot be written, as the folder is no more."""
    cache = folder / "cache"
    engine = libinfer.Engine(cache_bytes=1 << 18, cache_dir=cache, log=log, log_level=libinfer.LogLevel.DEBUG)
    model = libinfer.Model.open(TINY, engine=engine)
    del engine # the model keeps what logs
    shutil.rmtree(cache)
    cache.write_text("in the way")
    with model:
        for first in range(2, 8):
            with model.session() as session:
                session.append([first] * 300)
                session.step()
        assert model.engine.cache_stats().evictions


def test_log(tmp_path):
    lines = []
    cache_without_folder(tmp_path, lambda level, text: lines.append((level, text)))
    assert lines and all(isinstance(text, str) and text and 1 <= level <= 4 for level, text in lines)


def test_log_to_logging(tmp_path, caplog):
    with caplog.at_level(logging.DEBUG):
        cache_without_folder(tmp_path, logging.getLogger("models"))
    assert [record for record in caplog.records if record.name == "models"]


def test_a_log_that_raises_is_told_and_changes_nothing(tmp_path, monkeypatch):
    told = []
    monkeypatch.setattr("sys.unraisablehook", told.append)

    def log(level, text):
        raise Raises(text)

    cache_without_folder(tmp_path, log)
    assert told and isinstance(told[0].exc_value, Raises)


def test_estimate():
    told = libinfer.Model.estimate(TINY, sessions=2)
    assert told.n_ctx == 512 and told.total_bytes >= told.kv_bytes > 0
    assert libinfer.Model.estimate(BYTES, sessions=2).kv_bytes == told.kv_bytes
    budget = libinfer.Model.estimate(TINY, n_ctx=200).total_bytes
    some = libinfer.Model.estimate(TINY, budget=budget)
    assert 64 <= some.n_ctx < 512 and some.total_bytes <= budget
    with pytest.raises(libinfer.LimitError):
        libinfer.Model.estimate(TINY, budget=1000)
    with pytest.raises(FileNotFoundError):
        libinfer.Model.estimate("/nowhere/model.gguf")


def test_memory_limit():
    """What was told is enough; much less is refused, and all stays usable."""
    told = libinfer.Model.estimate(TINY)
    with libinfer.Engine(memory_limit=told.memory_bytes) as engine, libinfer.Model.open(TINY, engine=engine) as model, model.session() as session:
        session.append([1] * 512)
        session.step()
        assert 0 < engine.info.memory_bytes <= engine.info.memory_peak <= told.memory_bytes == engine.info.memory_limit
    session_bytes = told.kv_bytes + told.scratch_bytes
    with libinfer.Engine(memory_limit=told.memory_bytes - session_bytes // 2) as engine, libinfer.Model.open(TINY, engine=engine) as model:
        sessions = []
        with pytest.raises(MemoryError) as caught:
            for _ in range(8):
                sessions.append(model.session())
                sessions[-1].append([1] * 512)
                sessions[-1].step()
        assert isinstance(caught.value, libinfer.OutOfMemoryError)
        del sessions[:]
        with model.session() as session:
            session.append([1, 2, 3])
            session.step()
