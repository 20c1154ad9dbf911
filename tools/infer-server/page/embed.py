"""Writes the page's files as C: embed.py OUT.c FILE... For each NAME its bytes, their number and a hash for ETag: page_NAME, page_NAME_len, page_NAME_etag."""
import hashlib
import sys
from pathlib import Path


def main(out, *files):
    lines = ["/* Made by page/embed.py. */", "#include <stddef.h>"]
    for file in map(Path, files):
        data, name = file.read_bytes(), "page_" + file.name.replace(".", "_")
        lines.append(f"const unsigned char {name}[] = {{")
        lines += ["".join(f"{byte}," for byte in data[i:i + 40]) for i in range(0, len(data), 40)]
        lines += ["};", f"const size_t {name}_len = sizeof {name};", f'const char {name}_etag[] = "\\"{hashlib.sha256(data).hexdigest()[:32]}\\"";']
    Path(out).write_text("\n".join([*lines, ""]), encoding="ascii")


main(*sys.argv[1:])
