import { expect, test } from "vitest";
import { missingPackages, startRig } from "../../rig/rig.ts";
import { runRigChaos } from "./chaos.ts";
import { disturbanceOf } from "./disturbances.ts";

/** `npm run chaos -- rig` has all kinds, and lasts for as long as one wants. */
const DISTURBANCES = [
  "instance killed",
  "standby killed",
  "PgBouncer killed",
  "Redis killed, data lost",
  "direct connections cut",
  "reader of changes paused",
  "standby promoted",
];

test.skipIf(missingPackages().length > 0)(
  "three instances with standbys, a pooler and Redis lose nothing, and serve nothing stale, when parts are killed, paused and cut",
  async () => {
    await using rig = await startRig();
    const disturbances = DISTURBANCES.map(disturbanceOf);
    const { violations, logs, acknowledged } = await runRigChaos(rig, { disturbances, seed: 1, lasting: [100, 500] });
    expect({ violations, logs }).toEqual({ violations: [], logs: null });
    expect(acknowledged).toBeGreaterThan(0);
  },
  // Nothing depends on timing: on a machine that is busy, all of this takes several times as long.
  600_000,
);
