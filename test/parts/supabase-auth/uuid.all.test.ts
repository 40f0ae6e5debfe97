import { describe } from "vitest";
import { testAdmin } from "./admin.ts";
import { testFactors } from "./factors.ts";
import { testPasskeys } from "./passkeys.ts";
import { testSessions } from "./sessions.ts";

// What the quick files show with bigint ids, whose public ids are UUIDs of their own.
describe.each([testSessions, testFactors, testAdmin, testPasskeys])("with uuid ids, %o", (show) => show("uuid"));
