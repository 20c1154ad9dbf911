"""Checkpoints, files, stores, the prefix cache; adapters; texts and embeddings."""
import gc
import os
import weakref

import pytest
from conftest import DATA, PROMPT, TINY

import libinfer


def test_fork(model, prompted, answer):
    prompted.step()
    fork = prompted.fork()
    assert fork.model is model and fork.tokens() == prompted.tokens() and bytes(fork.logits()) == bytes(prompted.logits())
    prompted.append([5, 6])
    assert fork.generate(24).text() == answer


def test_checkpoint_and_restore(model, prompted, answer):
    generation = prompted.generate(24)
    begun = "".join(next(generation).text for _ in range(6))
    checkpoint = prompted.checkpoint()
    info = checkpoint.info
    assert info.generating and info.length == len(prompted) == len(checkpoint) and checkpoint.tokens() == prompted.tokens()
    generation.text()
    for session in (checkpoint.session(), prompted):
        if session is prompted:
            session.restore(checkpoint)
        assert begun + session.resume().text() == answer
    with pytest.raises(libinfer.StateError, match="another answer"):
        next(prompted.generate(2), prompted.resume()) and next(generation)
    with libinfer.Model.open(DATA / "fixtures" / "llama.gguf") as other, other.session() as session, pytest.raises(libinfer.ArgumentError):
        session.restore(checkpoint)


def test_checkpoint_files(model, prompted, tmp_path, answer):
    prompted.step()
    whole, delta, copy = tmp_path / "whole", str(tmp_path / "delta"), tmp_path / "copy"
    prompted.checkpoint().save(whole)
    prompted.append(model.tokenizer.encode(", the little"))
    prompted.step()
    prompted.checkpoint().save(delta, parent=whole, full_model=True)
    assert os.path.getsize(delta) < os.path.getsize(whole) * 2
    libinfer.clone_file(whole, copy)
    for path in (whole, copy):
        for options in ({}, {"map": libinfer.Map.READ, "verify": libinfer.Verify.LOAD}):
            with model.open_checkpoint(path, **options) as opened, opened.session() as session:
                assert session.generate(24).text() == answer
    with model.open_checkpoint(delta) as opened:
        assert opened.tokens() == prompted.tokens()
    with pytest.raises(FileNotFoundError):
        model.open_checkpoint(tmp_path / "none")
    with pytest.raises(libinfer.ArgumentError):
        prompted.checkpoint().save(whole, level=99)
    data = bytearray(whole.read_bytes())
    data[100] ^= 1
    whole.write_bytes(data)
    with pytest.raises(libinfer.FormatError) as caught:
        model.open_checkpoint(whole)
    assert str(whole) in caught.value.file
    with libinfer.Model.open(DATA / "fixtures" / "llama.gguf") as other, pytest.raises(libinfer.ModelValueError):
        other.open_checkpoint(copy)
    cancel = libinfer.Cancel()
    cancel.set()
    with pytest.raises(libinfer.CancelledError):
        prompted.checkpoint().save(tmp_path / "never", cancel=cancel)
    assert not (tmp_path / "never").exists()


@pytest.mark.parametrize("where", ["memory", "directory"])
def test_store(model, prompted, tmp_path, where, answer):
    prompted.step()
    with libinfer.Store(model.engine, tmp_path / "store" if where == "directory" else None, max_count=3) as store:
        assert len(store) == 0 and list(store) == []
        store.put("first", prompted.checkpoint())
        with pytest.raises(FileExistsError):
            store.put("first", prompted.checkpoint())
        store.put("first", prompted.checkpoint(), replace=True)
        store.branch("first", "second \u00e9")
        assert list(store) == ["first", "second \u00e9"] and "first" in store and "third" not in store and len(store) == 2
        entry = next(store.entries())
        assert (entry.name, entry.length, entry.computed, entry.kv_type) == ("first", 7, 7, libinfer.KvType.F16)
        store.rename("first", "third")
        store.delete("second \u00e9")
        with store.get(model, "third").session() as session:
            assert session.generate(24).text() == answer
        with pytest.raises(KeyError):
            store.get(model, "first")
        with pytest.raises(libinfer.ArgumentError):
            store.put("a/b", prompted.checkpoint())
        for name in "ab":
            store.put(name, prompted.checkpoint())
        with pytest.raises(libinfer.LimitError):
            store.put("c", prompted.checkpoint())
        assert store.info.count == 3 and store.info.bytes > 0


def test_a_store_keeps_callbacks(model):
    calls = []

    def count(logits, ids):
        calls.append(1)

    watch = weakref.ref(count)
    store = libinfer.Store(model.engine)
    with model.session() as session:
        session.append_text(PROMPT)
        session.set_sampling(libinfer.Sampling(callback=count))
        store.put("a", session.checkpoint())
    del count, session
    store.branch("a", "b")
    store.rename("b", "c")
    store.delete("a")
    gc.collect()
    with store.get(model, "c").session() as session:
        session.generate(2).text()
    del session
    assert len(calls) == 2
    store.delete("c")
    gc.collect()
    assert watch() is None


def test_prefix_cache(tmp_path):
    with libinfer.Engine(cache_bytes=8 << 20, cache_dir=tmp_path / "cache") as engine, libinfer.Model.open(TINY, engine=engine) as model:
        ids = [i % 900 + 2 for i in range(300)]
        with model.session() as session:
            session.append(ids)
            session.step()
            cold = bytes(session.logits())
            assert session.cache_report().reason == libinfer.CacheReason.EMPTY
        with model.session() as session:
            session.append(ids)
            session.step()
            report = session.cache_report()
            assert report.reused >= 256 and report.wanted == 300 and bytes(session.logits()) == cold
        with model.session(salt=b"tenant") as session:
            session.append(ids)
            session.step()
            assert session.cache_report().reused == 0
        stats = engine.cache_stats()
        assert stats.lookups >= 3 and stats.saved >= 256
        engine.cache_flush()
        assert engine.cache_stats().disk_files > 0
        engine.cache_clear()
        assert engine.cache_stats().nodes == 0
        with pytest.raises(libinfer.ArgumentError):
            model.session(salt=bytes(65))
    with libinfer.Engine() as engine, pytest.raises(libinfer.StateError):
        engine.cache_flush()


def test_shift_and_graft(model, prompted):
    prompted.append([5, 6, 7, 8, 9])
    prompted.step()
    checkpoint = prompted.checkpoint()
    prompted.shift(4, 3)
    assert len(prompted) == 9 and prompted.info.approximate
    with pytest.raises(libinfer.ArgumentError):
        prompted.shift(4, 30)
    with model.session() as session:
        assert session.graft(checkpoint, 0, 12) == 0 # exact: nothing is computed
        assert session.tokens() == checkpoint.tokens() and not session.info.approximate
        assert session.graft(checkpoint, 2, 4, recompute=2) >= 2
        assert len(session) == 16 and session.info.approximate
        with pytest.raises(libinfer.ArgumentError):
            session.graft(checkpoint, 10, 10)


@pytest.mark.parametrize("kind", list(libinfer.KvType))
def test_kv_types(model, kind):
    with model.session(kv_type=kind) as session:
        session.append_text(PROMPT)
        assert len(session.generate(4).text()) > 2
        assert session.checkpoint().info.kv_type == kind


# Adapters


def ids_of(session):
    return [i % 100 + 3 for i in range(20)]


def logits_of(session):
    session.append(ids_of(session))
    session.step()
    return bytes(session.logits())


def test_lora():
    adapters = DATA / "adapters"
    with libinfer.Model.open(DATA / "fixtures" / "llama.gguf") as model:
        with model.open_adapter(adapters / "lora-r4") as adapter:
            info = adapter.info
            assert info.kind == libinfer.AdapterKind.LORA and info.rank == 4 and len(adapter.targets) == info.targets > 0
            assert adapter.invocation == [] and adapter.model is model
            plain = logits_of(model.session())
            with model.session() as session:
                session.set_adapters(adapter)
                assert session.adapters[0].scale == 1.0 and session.adapters[0].adapter.info.hash == info.hash
                changed = logits_of(session)
                assert changed != plain and session.info.adapters != 0
                session.set_adapters()
                assert session.adapters == []
            with model.session() as session:
                session.set_adapters(libinfer.AdapterUse(adapter, 0.0))
                assert logits_of(session) == plain
                session.set_adapters(libinfer.AdapterUse(adapter, 0.5, first_layer=1, layer_count=1))
                used = session.adapters[0]
                assert (used.scale, used.mode, used.first_layer, used.layer_count) == (0.5, libinfer.AdapterMode.ADD, 1, 1)
                with pytest.raises(libinfer.ArgumentError):
                    session.set_adapters(libinfer.AdapterUse(adapter, float("nan")))
                assert len(session.adapters) == 1
            assert model.find_adapter(info.hash).info == info
        with pytest.raises(libinfer.NotFoundError):
            model.find_adapter(bytes(16))
        with pytest.raises(ValueError, match="16 bytes"):
            model.find_adapter(b"short")
        with pytest.raises(libinfer.FileError):
            model.open_adapter(adapters / "nothing")
        with model.open_adapter(adapters / "alora") as alora:
            assert alora.invocation


def test_soft_prompt():
    with libinfer.Model.open(DATA / "fixtures" / "llama.gguf") as model, model.open_adapter(DATA / "adapters" / "soft-prompt") as adapter:
        rows = adapter.info.rows
        assert adapter.info.kind == libinfer.AdapterKind.SOFT_PROMPT and rows > 0
        with model.session() as session:
            session.append_adapter(adapter)
            assert session.tokens() == [-1] * rows
            with pytest.raises(libinfer.ArgumentError):
                session.set_adapters(adapter)


# Texts


def test_tokenizer(model):
    for tokenizer in (model.tokenizer, libinfer.Tokenizer.open(TINY)):
        info = tokenizer.info
        assert len(tokenizer) == info.vocab_size == 1536 and info.kind == libinfer.TokenizerKind.BPE and info.bos == 0
        text = "Grüße, 世界 \U0001f600\0!"
        ids = tokenizer.encode(text)
        assert tokenizer.decode(ids) == text and tokenizer.decode_bytes(ids) == text.encode()
        assert tokenizer.encode("a", add_special=True)[0] == info.bos
        assert tokenizer.encode("<s>", parse_special=True) == [0] != tokenizer.encode("<s>")
        assert tokenizer.decode([0]) == "" and tokenizer.decode([0], show_special=True) == "<s>"
        decoder = tokenizer.decoder()
        assert "".join([*map(decoder.feed, ids), decoder.flush()]) == text
        token = tokenizer.token(0)
        assert (token.kind, token.piece) == (libinfer.TokenKind.CONTROL, b"<s>")
        assert tokenizer.encode("") == [] and tokenizer.decode([]) == ""
        assert tokenizer.decode(tokenizer.encode("x" * 5000)) == "x" * 5000
        with pytest.raises(libinfer.TokenError):
            tokenizer.decode([1536])
        with pytest.raises(libinfer.TokenError):
            tokenizer.token(-1)
        with pytest.raises(libinfer.TokenError):
            decoder.feed(-1)
    with pytest.raises(FileNotFoundError):
        libinfer.Tokenizer.open("/nowhere")


def test_template(model):
    assert model.template.is_fallback and "im_start" in model.template.text
    template = libinfer.Template.parse("{% for m in messages %}[{{ m.role }}] {{ m.content }}{% endfor %}{% if add_generation_prompt %}>{% endif %}{{ more }}")
    assert template.render([("user", "Grüße \U0001f600"), {"role": "assistant", "content": "b"}]) == "[user] Grüße \U0001f600[assistant] b>"
    assert template.render([], add_generation_prompt=False, more=5) == "5"
    assert libinfer.Template.parse("{{ strftime_now('%Y') }}").render([], now=86400 * 400) == "1971"
    with pytest.raises(libinfer.TemplateSyntaxError) as caught:
        libinfer.Template.parse("{% if %}")
    assert caught.value.offset is not None
    with pytest.raises(libinfer.TemplateError, match="out of order"):
        libinfer.Template.parse("{{ raise_exception('out of order') }}").render([])
    with pytest.raises(libinfer.TemplateSyntaxError):
        template.render_json("{")
    assert libinfer.Template.open(TINY).is_fallback


def test_embeddings(model):
    with libinfer.Model.open(DATA / "fixtures" / "bert.gguf") as bert:
        width = bert.info.embedding_width
        vectors = bert.embed(["Hello", "Hello there", "Hello"])
        assert bert.info.encoder and [len(e.vector) for e in vectors] == [width] * 3
        assert bytes(vectors[0].vector) == bytes(vectors[2].vector) != bytes(vectors[1].vector)
        assert abs(sum(x * x for x in vectors[0].vector) - 1) < 1e-5
        rows = bert.embed(["Hello there"], pooling=libinfer.Pooling.NONE, raw=True)[0]
        assert rows.vector.shape == (rows.tokens, bert.info.n_embd)
        ids = bert.tokenizer.encode("Hello", add_special=True)
        assert bytes(bert.embed([ids])[0].vector) == bytes(vectors[0].vector)
        with pytest.raises(libinfer.Error):
            bert.embed(["word " * 5000])
        assert bert.embed(["word " * 5000], truncate=True)[0].truncated
        with pytest.raises(libinfer.UnsupportedError):
            bert.session()
        with pytest.raises(TypeError):
            bert.embed("Hello")
    assert bert.closed and len(vectors[0].vector) == width
    assert len(model.embed(["Once upon a time"], dimensions=32)[0].vector) == 32
    assert model.embed([]) == []
