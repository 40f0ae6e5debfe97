import { beforeAll, describe, expect, test } from "vitest";
import { metricOf, type ReplicaRig, startReplicaRig, untilUsed } from "../support/replica-rig.ts";
import { startTestService, type TestService } from "../support/service.ts";
import { POLL } from "../support/until.ts";
import { expectedOf, INTERFACES, startChecked } from "./interfaces.ts";

let rig: ReplicaRig;
let service: TestService;
beforeAll(async () => {
  rig = await startReplicaRig(1);
  // It creates the roles.
  await (await startTestService({ SEED: "demo" }, rig.primary)).stop();
  service = await startChecked(rig.primary, {
    ...{ METRICS: "on", replicaMaxLag: 3_600_000, replicaSticky: 0 },
    DATABASE_REPLICA_URLS: rig.replicas[0]!.url,
  });
  return async () => {
    await service.stop();
    await rig.remove();
  };
});

/** How many reads a replica has answered, and how many the primary instead. */
async function readsNow() {
  const sum = async (name: string) => (await metricOf(service, name)).reduce((all, [, value]) => all + value, 0);
  return { replica: await sum("db_replica_reads_total"), primary: await sum("db_replica_fallbacks_total") };
}

describe.each(Object.entries(INTERFACES).filter(([, { isRead }]) => isRead))("%s, on a replica", (_, each) => {
  test("runs with the function before each request, the settings of the role, the claims and the request", async () => {
    await untilUsed(rig, service);
    const before = await readsNow();
    await each.use({ at: service, as: "ada", expected: expectedOf(each) });
    await expect.poll(readsNow, POLL).toEqual({ replica: before.replica + 1, primary: before.primary });
  });

  test("is refused by the function, in its own words", async () => {
    const answer = await each.use({ at: service, as: "bob" });
    for (const part of ["You are banned", "DENID", "since today", "ask"]) expect(answer).toContain(part);
  });
});

test("the primary decides about what the function of the replica refuses", async () => {
  const before = await readsNow();
  const { use } = INTERFACES["tables, reading"]!;
  expect(await use({ at: service, as: "ada", expected: { mode: "another" } })).toMatch(/^200 /);
  expect(await readsNow()).toEqual({ replica: before.replica, primary: before.primary + 1 });
});
