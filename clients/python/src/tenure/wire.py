"""The messages of the server's API, as `proto/tenure/v1` documents them: for `Client.api`, events and refusals.

They are made from a description of the proto files when this is imported, and not generated code, which would fit only
some versions of protobuf's library.
"""

from importlib.resources import files
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.internal import enum_type_wrapper

_POOL = descriptor_pool.DescriptorPool()
"""Of its own, so that nobody who has code generated from the same files is in the way."""


def _load(names: dict[str, Any]) -> None:
    described = descriptor_pb2.FileDescriptorSet.FromString(files(__package__).joinpath("wire.binpb").read_bytes())
    for proto in described.file:
        _POOL.Add(proto)
        file = _POOL.FindFileByName(proto.name)
        for name, message in file.message_types_by_name.items():
            names[name] = message_factory.GetMessageClass(message)
        for name, enum in file.enum_types_by_name.items():
            names[name] = enum_type_wrapper.EnumTypeWrapper(enum)
            names.update({value.name: value.number for value in enum.values})


_load(globals())
