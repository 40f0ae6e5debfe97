import pino from "pino";
import { afterAll, beforeAll, expect, test } from "vitest";
import { hasPgBouncer, type Pooler, startPooler } from "../support/pooler.ts";
import { startTestService, type TestService } from "../support/service.ts";
import { projectId, startTrackit, type Trackit } from "./trackit.ts";

let trackit: Trackit;
let pooler: Pooler;
let service: TestService;
const warnings: any[] = [];

// DB_PREPARED_STATEMENTS is not set.
beforeAll(async () => {
  if (!hasPgBouncer) return;
  trackit = await startTrackit({ GRAPHQL_DOCUMENTS: "none" });
  await trackit.database.owner.query(`
    create table public.notes (id bigint generated always as identity, text text);
    grant select, insert on public.notes to ${trackit.role("anon")}`);
  pooler = await startPooler([trackit.loginUrl]);
  service = await startTestService(
    {
      DATABASE_URL: pooler.pooled(trackit.loginUrl),
      DATABASE_DIRECT_URL: trackit.loginUrl,
      MIGRATE: "off",
      DB_ANON_ROLE: trackit.role("anon"),
      JWT_SECRET: trackit.secret,
      API_KEY_REQUIRED: "off",
    },
    { ...trackit.database, drop: async () => {} },
    pino({ level: "warn" }, { write: (line: string) => warnings.push(JSON.parse(line)) }),
  );
});
afterAll(async () => {
  await service?.stop();
  await pooler?.stop();
  await trackit?.stop();
});

const SETTING = "DB_PREPARED_STATEMENTS";
const ask = (path: string, sent: RequestInit = {}) => fetch(`${service.url}/rest/v1/${path}`, sent);
const asUser = () => ({ authorization: `Bearer ${trackit.token(1)}` });
const write = (text: string) =>
  ask("notes", { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ text }) });

test.skipIf(!hasPgBouncer)(
  "behind a pooler that loses prepared statements, every read and write succeeds once, and one warning names the setting",
  async () => {
    const questions = [
      "plans?select=code",
      "plans?select=code&order=code",
      "notes?select=text&limit=0",
      "plans?limit=1",
    ];
    const asked = Array.from({ length: 120 }, async (_, i) => {
      if (i % 3 === 0) return (await write(`note ${i}`)).status;
      const response = await ask(i % 3 === 1 ? questions[i % 4]! : "projects?select=id", {
        headers: i % 3 === 1 ? {} : asUser(),
      });
      const rows = (await response.json()) as any;
      if (i % 3 === 2) expect(rows).toEqual([1, 6].map((n) => ({ id: projectId(n) })));
      return response.status;
    });
    expect(new Set(await Promise.all(asked))).toEqual(new Set([200, 201]));
    const { rows } = await trackit.database.owner.query(
      "select count(*)::int as all, count(distinct text)::int as texts from notes",
    );
    expect(rows).toEqual([{ all: 40, texts: 40 }]);
    expect(warnings.filter(({ msg }) => msg.includes(SETTING))).toHaveLength(1);
  },
);
