import { expect, test } from "vitest";
import { seedFor } from "../../parts/development/init/database-seed.ts";
import type { Plan } from "../../parts/development/init/plan.ts";

/** A table with an owner, and with references to these. */
const table = (name: string, references: readonly string[]) => ({
  sql: `public.${name}`,
  columns: [{ name: "owner_id", sql: "owner_id", isRequired: true, hasDefault: false }],
  references: ["users", ...references].map((each) => ({ table: `public.${each}`, column: "owner_id" })),
});

test("the examples in db/seed.sql are in an order in which rows can be inserted", () => {
  const users = { ...table("users", []), references: [] };
  const tables = [
    table("comments", ["tasks"]),
    table("projects", ["comments"]),
    table("shelves", []),
    table("tasks", ["shelves", "tasks"]),
    users,
  ];
  const plan = {
    choice: { users: { table: users }, migrate: "on", userId: "uuid" },
    signIn: { newUser: "public.new_user" },
    survey: { tables },
  } as unknown as Plan;
  expect(seedFor(plan)!.match(/insert into \S+/g)).toEqual(
    ["shelves", "tasks", "comments", "projects"].map((name) => `insert into public.${name}`),
  );
});
