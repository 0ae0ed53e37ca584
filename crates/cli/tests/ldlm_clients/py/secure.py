"""Both clients of py-ldlm at a server that wants a password and a client's certificate. Files are in the folder given."""

import asyncio
import sys

import grpc
from facts import ADDRESS, fact
from ldlm import AsyncClient, Client, TLSConfig

folder, password = sys.argv[2], sys.argv[3]


def tls(authority="ca.crt", identity="client"):
    names = {"cert_file": f"{folder}/{identity}.crt", "key_file": f"{folder}/{identity}.key"} if identity else {}
    return TLSConfig(ca_file=f"{folder}/{authority}", **names)


def refused(**how):
    # Without a limit the library asks for ever, whatever the reason.
    try:
        Client(ADDRESS, retries=0, **how).try_lock("x")
    except grpc.RpcError as error:
        return error.code().name
    raise AssertionError("it was let in")


async def refused_aio(**how):
    try:
        await AsyncClient(ADDRESS, **how).try_lock("x")
    except grpc.RpcError as error:
        return error.code().name
    raise AssertionError("it was let in")


async def main():
    async with AsyncClient(ADDRESS, password=password, tls=tls()).lock_context("x") as lock:
        assert lock
    fact("AsyncClient is let in")
    fact("AsyncClient with a wrong password: " + await refused_aio(password="wrong", tls=tls()))
    fact("AsyncClient without a certificate: " + await refused_aio(password=password, tls=tls(identity=None)))


with Client(ADDRESS, password=password, tls=tls()).lock_context("x") as held:
    assert held
fact("Client is let in")
fact("Client with a wrong password: " + refused(password="wrong", tls=tls()))
fact("Client without a password: " + refused(tls=tls()))
fact("Client without a certificate: " + refused(password=password, tls=tls(identity=None)))
fact("Client that trusts somebody else: " + refused(password=password, tls=tls(authority="clients.crt")))
fact("Client without TLS: " + refused(password=password))
asyncio.run(main())
