import { beforeAll, expect, test } from "vitest";
import { outcomeOf } from "../../../cli/command.ts";
import { why } from "../../../parts/advisor/why/why.ts";
import { JWT_SECRET, startTestService, type TestService } from "../../support/service.ts";

let service: TestService;
beforeAll(async () => {
  service = await startTestService();
  await service.database.owner.query(`
    create table public.notes (id int primary key, user_id bigint, body text);
    alter table public.notes enable row level security;
    grant select on public.notes to authenticated;
    create policy "users see their notes" on public.notes for select to authenticated using (user_id = (select auth.uid()));
    insert into public.notes values (1, 1, 'one')`);
  return () => service.stop();
});

const npmWhy = (...args: string[]) => outcomeOf(why(args, { DATABASE_URL: service.database.url, JWT_SECRET }));
const asUser = (n: number) => ["--role", "authenticated", "--claims", `{"sub": "${n}"}`];

test("npx content-service why reads the row as the owner, and answers for a user of the service", async () => {
  const ask = async (n: number) => (await npmWhy("notes", "DELETE", "--key", "1", ...asUser(n))).stdout;
  await expect.poll(() => ask(1)).toContain("The subscriber receives DELETE.");
  const other = await ask(2);
  expect(other).toContain(
    "no   The policies let the subscriber read the old row\n       the policy “users see their notes” is false for this row: (user_id = ( SELECT auth.uid() AS uid))\n",
  );
  expect(other).toContain("\nThe subscriber receives nothing.\n");
});

test("npx content-service why says that a row leaves the view of a subscriber", async () => {
  const change = ["notes", "UPDATE", "--key", "1", "--new", '{"user_id": 2}'];
  expect((await npmWhy(...change, ...asUser(1))).stdout).toContain(
    "The subscriber receives DELETE, with the key of the row alone, because the new row is hidden from it by a policy.",
  );
  expect((await npmWhy(...change, ...asUser(2))).stdout).toContain(
    "The subscriber receives UPDATE. Of the old row it receives at most the key.",
  );
  expect((await npmWhy("notes", "INSERT", "--key", "2")).stderr).toContain("sees no row with this key in public.notes");
});

test("npx content-service why opens no table of signed-in users to subscribers without a token", async () => {
  const { stdout } = await npmWhy("notes", "INSERT", "--key", "1");
  expect(stdout).toContain(
    "no   The subscriber is signed in\n       anon may not SELECT from public.notes, but admin, authenticated may: send a token",
  );
  expect(stdout).not.toMatch(/grant|create policy/);
});

test("npx content-service why --help documents every option", async () => {
  const { exitCode, stdout } = await npmWhy("--help");
  expect(exitCode).toBe(0);
  for (const name of ["key", "old", "new", "role", "claims", "filter", "reader", "json", "help"])
    expect(stdout).toMatch(new RegExp(`^  --${name}\\b`, "m"));
});
