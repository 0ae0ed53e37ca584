"""Makes `src/tenure/wire.binpb` and `src/tenure/wire.pyi` from the project's proto files, with `protoc`.

    python clients/python/tools/make_wire.py [--check]

With `--check` nothing is written: it fails if what is there is not what would be made.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1] / "src/tenure"
PROTO = Path(__file__).resolve().parents[3] / "proto/tenure/v1"
FILES = ["pools", "holds", "events", "refusal", "operators", "sessions", "tenure"]
"""In the order in which they use each other."""


def main() -> None:
    check = sys.argv[1:] == ["--check"]
    descriptors, stubs = make()
    binary, typed = PACKAGE / "wire.binpb", PACKAGE / "wire.pyi"
    if check:
        if messages(binary.read_bytes()) != messages(descriptors):
            sys.exit(f"{binary} is not what {PROTO} says: run {__file__}")
        print("as the proto files say")
        return
    binary.write_bytes(descriptors)
    typed.write_text(stubs, encoding="utf-8")


def make() -> tuple[bytes, str]:
    """One file for all: the package has one module for the wire, and nobody imports its parts."""
    lines = ['syntax = "proto3";', "package tenure.v1;"]
    for name in FILES:
        for line in (PROTO / f"{name}.proto").read_text(encoding="utf-8").splitlines():
            if not line.startswith(("syntax ", "package ", "import ")):
                lines.append(line)
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        (work / "wire.proto").write_text("\n".join(lines), encoding="utf-8")
        outputs = [f"--pyi_out={folder}", f"--descriptor_set_out={work / 'wire.binpb'}"]
        subprocess.run(["protoc", f"--proto_path={folder}", *outputs, "wire.proto"], check=True)
        stubs = (work / "wire_pb2.pyi").read_text(encoding="utf-8")
        # As `mypy --strict` wants it.
        stubs = re.sub(r"\b_Mapping\](?=[,\]])", "_Mapping[str, object]]", stubs).replace("__slots__ = ", "__slots__: list[str] = ")
        return (work / "wire.binpb").read_bytes(), "from __future__ import annotations\n\n" + stubs


def messages(descriptors: bytes) -> object:
    """What matters of it: another release of `protoc` may write the same in other bytes."""
    from google.protobuf.descriptor_pb2 import FileDescriptorSet

    file = FileDescriptorSet.FromString(descriptors).file[0]
    for message in file.message_type:
        for field in message.field:
            field.ClearField("json_name")
    return file


if __name__ == "__main__":
    main()
