import { pino } from "pino";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { outcomeOf } from "../../cli/command.ts";
import { key } from "../../cli/key.ts";
import { doctor } from "../../parts/advisor/doctor/doctor.ts";
import { refusalsOf } from "../support/refusals.ts";
import { JWT_SECRET, startTestService, type TestService } from "../support/service.ts";
import { connected, EMBEDDED, type ForeignServer, startForeignServer } from "./foreign-server.ts";

const WHY = "the service key is off: the role service_role does not bypass row-level security";
const CURE = "A superuser can run: alter role service_role bypassrls; then restart the service";
const SETTINGS = { MODULES: "auth,tasks,channels" };

describe("an owner who may not give service_role the right to bypass row-level security", () => {
  let server: ForeignServer;
  let service: TestService;
  const lines: string[] = [];
  beforeAll(async () => {
    server = await startForeignServer(undefined, EMBEDDED);
    const root = await connected(server.cluster.url("postgres"));
    await root.query("alter role service_role nobypassrls");
    await root.query("create database managed owner shop_owner");
    await root.end();
    const url = Object.assign(new URL(server.cluster.url("managed")), {
      username: "shop_owner",
      password: "shop",
    }).href;
    const owner = await connected(url);
    const database = { name: "managed", url, owner, drop: () => owner.end() };
    const log = pino({ level: "warn" }, { write: (line: string) => void lines.push(line) });
    service = await startTestService(SETTINGS, database, log);
  });
  afterAll(async () => {
    await service?.stop();
    await server?.cluster.remove();
  });

  test("starts a service without a service key, and reads the cure in the log", () => {
    expect(lines.join("")).toContain(`${WHY}. ${CURE}`);
  });

  test("a service key is refused by every interface, with the same sentence", async () => {
    expect(await refusalsOf(service, service.service.tokens.issueKey("service_role"))).toEqual({
      resource: [403, WHY],
      "sign-in": [403, WHY],
      table: [403, WHY],
      "stream of a table": [403, WHY],
      GraphQL: [403, WHY],
      "GraphQL stream": [403, WHY],
      "GraphQL socket": [4403, WHY],
      channel: ["error", `InvalidJWTToken: ${WHY}`],
    });
  });

  test("everything else works", async () => {
    const apikey = service.service.tokens.issueKey("anon");
    expect((await fetch(`${service.url}/rest/v1/articles`, { headers: { apikey } })).status).toBe(200);
    expect((await service.gql("{ __typename }")).errors).toBeUndefined();
  });

  const environment = () => ({ ...SETTINGS, DATABASE_URL: service.database.url, JWT_SECRET });

  test("no service key can be created, and the refusal has the cure", async () => {
    expect(await outcomeOf(key(["create", "service", "nightly import"], environment()))).toMatchObject({
      exitCode: 1,
      stdout: "",
      stderr: `${WHY}. ${CURE}\n`,
    });
    expect((await outcomeOf(key(["create", "anon", "web"], environment()))).exitCode).toBe(0);
  });

  test("doctor names what is missing, and the SQL that cures it", async () => {
    const { stdout } = await outcomeOf(doctor([], environment()));
    expect(stdout).toContain(`warning   roles: ${WHY}. ${CURE}\n`);
  });
});
