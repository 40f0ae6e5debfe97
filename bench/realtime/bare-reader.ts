import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { PUBLICATION } from "../../db/changes/changes-config.ts";
import { ReplicationConnection } from "../../db/changes/replication.ts";
import { fileOf } from "../servers.ts";

const SLOT = "bench_bare";

/** A process that reads the same changes as the service, and discards them: what logical decoding itself costs. */
export async function startBareReader(url: string): Promise<AsyncDisposable> {
  const child: ChildProcess = fork(fileOf("realtime/bare-reader.ts"), [url]);
  const ended = once(child, "exit");
  await Promise.race([
    once(child, "message"),
    ended.then(() => Promise.reject(new Error("the reader of the slot has ended"))),
  ]);
  const stop = async () => {
    child.kill();
    await ended;
  };
  return { [Symbol.asyncDispose]: stop };
}

if (process.argv[1] === import.meta.filename) {
  const connection = new ReplicationConnection(process.argv[2]!);
  await connection.connect();
  await connection.query(`CREATE_REPLICATION_SLOT ${SLOT} TEMPORARY LOGICAL pgoutput (SNAPSHOT 'nothing')`);
  await connection.stream(SLOT, PUBLICATION, {
    hasBegun: true,
    reached: 0n,
    begin: () => process.send!("begun"),
    data: () => null,
    reach: () => {},
    end: () => {},
  });
}
