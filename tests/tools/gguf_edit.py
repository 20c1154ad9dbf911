"""Adds or replaces metadata of a GGUF file (version 3, little-endian): enough to give a test model a chat template, or other tokens."""
import struct

SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
INT32, STRING, ARRAY = 5, 8, 9


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, form):
        value = struct.unpack_from("<" + form, self.data, self.at)
        self.at += struct.calcsize("<" + form)
        return value[0] if len(value) == 1 else value

    def string(self):
        length = self.take("Q")
        self.at = self.at + length
        return self.data[self.at - length:self.at]

    def skip(self, kind):
        if kind == STRING:
            self.string()
        elif kind == ARRAY:
            item, count = self.take("I"), self.take("Q")
            for _ in range(count if item in (STRING, ARRAY) else 0):
                self.skip(item)
            if item in SIZES:
                self.at += SIZES[item] * count
        else:
            self.at += SIZES[kind]


def pack_string(text):
    return struct.pack("<Q", len(text)) + text


def pack(value):
    """A value with its type before it: bytes, or a list of bytes or of integers."""
    if isinstance(value, bytes):
        return struct.pack("<I", STRING) + pack_string(value)
    strings = isinstance(value[0], bytes)
    items = [pack_string(v) if strings else struct.pack("<i", v) for v in value]
    return struct.pack("<IIQ", ARRAY, STRING if strings else INT32, len(value)) + b"".join(items)


def array(data, key):
    """The list of strings or 32-bit integers that stands under a key."""
    r = Reader(data)
    _, _, _, n_kv = r.take("4sIQQ")
    for _ in range(n_kv):
        name, kind = r.string(), r.take("I")
        if name == key:
            item, count = r.take("I"), r.take("Q")
            return [r.string() if item == STRING else r.take("i") for _ in range(count)]
        r.skip(kind)
    raise KeyError(key)


def edit(data, values):
    """The file with these values set: by key (bytes), see pack."""
    r = Reader(data)
    magic, version, n_tensors, n_kv = r.take("4sIQQ")
    assert magic == b"GGUF" and version == 3
    pairs, alignment = [], 32
    for _ in range(n_kv):
        start = r.at
        key = r.string()
        kind = r.take("I")
        if key == b"general.alignment":
            alignment = struct.unpack_from("<I", data, r.at)[0]
        r.skip(kind)
        if key not in values:
            pairs.append(data[start:r.at])
    infos = r.at
    for _ in range(n_tensors):
        r.string()
        dims = r.take("I")
        r.at += 8 * dims + 4 + 8
    tensors = data[infos:r.at]
    body = data[(r.at + alignment - 1) // alignment * alignment:]
    for key, value in values.items():
        pairs.append(pack_string(key) + pack(value))
    head = struct.pack("<4sIQQ", magic, version, n_tensors, len(pairs)) + b"".join(pairs) + tensors
    return head + b"\0" * (-len(head) % alignment) + body


def rename_token(data, old, new):
    """The file with another spelling of one token, which then comes of no merge: only the model itself chooses it."""
    tokens, merges = array(data, b"tokenizer.ggml.tokens"), array(data, b"tokenizer.ggml.merges")
    tokens[tokens.index(old)] = new
    kept = [m for m in merges if old not in (m.replace(b" ", b""), *m.split(b" "))]
    return edit(data, {b"tokenizer.ggml.tokens": tokens, b"tokenizer.ggml.merges": kept})
