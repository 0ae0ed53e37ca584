// A client as LDLM's documentation makes one for Node: the public proto, and nothing of ours.
"use strict";

const assert = require("node:assert/strict");
const grpc = require("@grpc/grpc-js");
const loader = require("@grpc/proto-loader");

const [address, proto] = process.argv.slice(2);
const described = loader.loadSync(proto, { keepCase: true, longs: String, enums: String, defaults: true, oneofs: true });
const { LDLM } = grpc.loadPackageDefinition(described).ldlm;

// A connection of its own each; channels of one address share one otherwise.
function connect() {
  const client = new LDLM(address, grpc.credentials.createInsecure(), { "grpc.use_local_subchannel_pool": 1 });
  const call = (method) => (request) =>
    new Promise((resolve, reject) => {
      client[method](request, (error, reply) => (error ? reject(error) : resolve(reply)));
    });
  return {
    lock: call("Lock"),
    tryLock: call("TryLock"),
    unlock: call("Unlock"),
    renew: call("Renew"),
    refreshLock: call("RefreshLock"),
    close: () => client.close(),
  };
}

function succeeded(reply) {
  assert.ok(!("error" in reply) && !("_error" in reply), "there is no error, and nothing says that there is one");
  return reply;
}

function failed(reply, code, message) {
  assert.deepEqual({ ...reply.error }, { code, message });
  assert.equal(reply._error, "error");
  assert.equal(reply.locked ?? reply.unlocked, false);
}

async function main() {
  const [alice, bob] = [connect(), connect()];

  const lock = succeeded(await alice.lock({ name: "x", lock_timeout_seconds: 600 }));
  assert.ok(lock.locked && lock.name === "x");
  assert.match(lock.key, /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/);
  const held = succeeded(await bob.tryLock({ name: "x" }));
  assert.equal(held.locked, false);
  console.log("Lock and TryLock");

  const { name, key } = lock;
  assert.equal(succeeded(await alice.renew({ name, key, lock_timeout_seconds: 1200 })).locked, true);
  assert.equal(succeeded(await bob.refreshLock({ name, key, lock_timeout_seconds: 600 })).locked, true);
  assert.equal(succeeded(await bob.unlock({ name, key })).unlocked, true);
  console.log("Renew, RefreshLock and Unlock");

  const kept = await alice.lock({ name: "x" });
  failed(await bob.lock({ name: "" }), "Unknown", "lock name cannot be empty");
  failed(await bob.unlock({ name: "nobody", key }), "LockDoesNotExist", "a lock by that name does not exist");
  failed(await bob.unlock({ name, key }), "InvalidLockKey", "invalid lock key");
  failed(await bob.lock({ name, wait_timeout_seconds: 1 }), "LockWaitTimeout", "timeout waiting to acquire lock");
  const gone = ["LockDoesNotExistOrInvalidKey", "lock does not exist or invalid key"];
  failed(await bob.renew({ name, key, lock_timeout_seconds: 600 }), ...gone);
  failed(await bob.tryLock({ name, size: 2 }), "LockSizeMismatch", "lock size mismatch");
  failed(await bob.tryLock({ name: "sized", size: 0 }), "InvalidLockSize", "lock size must be greater than 0");
  console.log("errors are there only if there is one, with their names");

  const waiting = bob.lock({ name: "x" });
  alice.close();
  assert.equal(succeeded(await waiting).locked, true);
  assert.equal(succeeded(await bob.lock({ name: "x2" })).locked, true);
  failed(await bob.unlock({ name, key: kept.key }), "InvalidLockKey", "invalid lock key");
  console.log("a connection that is closed frees what it held");
  bob.close();
}

// Longer than anything takes.
setTimeout(() => {
  console.error("it hangs");
  process.exit(1);
}, 80_000).unref();

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
