import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import type { IncomingMessage } from "node:http";
import { fileURLToPath } from "node:url";
import pino from "pino";
import { beforeAll, expect } from "vitest";
import type { Caller } from "../../../db/caller.ts";
import { type Logins, provisionLogins } from "../../../db/cluster/provision.ts";
import type { DatabaseLimits } from "../../../db/limits.ts";
import { addressReader } from "../../../gate/pipeline/exchange.ts";
import { createTasks } from "../../../parts/tasks/tasks.ts";
import { Problem } from "../../../problems/problem.ts";
import { Parameters } from "../../../rest-gateway/conventions/parameters.ts";
import { restAnswer } from "../../../rest-gateway/conventions/problem.ts";
import type { TaskSettings, Tasks } from "../../../rest-gateway/tasks/tasks.ts";
import { openCore } from "../../../service/core.ts";
import { createTestDatabase, type TestDatabase } from "../../support/database.ts";
import { FEW_CONNECTIONS } from "../../support/rights.ts";
import { POLL } from "../../support/until.ts";
import { requestOf, type SqlStep, sqlTaskHandler } from "./sql-task-handler.ts";

export const SETTINGS: TaskSettings & Pick<DatabaseLimits, "taskTimeout"> = {
  dbAnonRole: "anon",
  taskConcurrency: 2,
  taskConcurrencyPerOwner: 10,
  taskTimeout: 60_000,
  taskRetention: 3600,
  taskAnonymousRetention: 3600,
  taskMaxPending: 100,
  taskMaxResultBytes: 1000,
  taskMaxStoredBytesPerOwner: 10_000_000,
  taskMaxStoredBytes: 100_000_000,
  drainTimeout: 10_000,
  apiV1Status: { status: "supported", sunset: null, guide: "" },
};

const caller = (role: string, sub?: string): Caller => ({
  role,
  claims: { role, ...(sub && { sub }) },
  expiresAt: null,
  refused: null,
});

export const CALLERS = {
  ada: caller("authenticated", "1"),
  bob: caller("authenticated", "2"),
  admin: caller("admin", "3"),
  anon: caller("anon"),
  anonElsewhere: caller("anon"),
  service: caller("service_role"),
} as const;

export type CallerName = keyof typeof CALLERS;

/** The request of a caller, from an IP address. */
export const senderOf = (name: CallerName) =>
  ({
    socket: { remoteAddress: name === "anonElsewhere" ? "198.51.100.2" : "203.0.113.7" },
    headers: {},
  }) as unknown as IncomingMessage;

/** A response; `json` is `{ code, message }` for an error. */
export type TaskResponse = {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly json: any;
};

export type TaskClient = {
  readonly logins: Logins;
  readonly tasks: Tasks;
  /** Creates a task that runs the SQL. Returns its id. */
  accept(caller: CallerName, ...steps: readonly SqlStep[]): Promise<string>;
  /** `ask("ada", "GET", "tasks/…?page=1")` */
  ask(caller: CallerName, method: string, target: string): Promise<TaskResponse>;
  /** Waits until the task has this status, or has ended if none is given. */
  until(caller: CallerName, id: string, status?: string): Promise<any>;
  /** Runs SQL as the owner of the database. */
  sql(text: string, ...values: unknown[]): Promise<any[]>;
  /** Starts another process that runs the tasks of this database. It is killed at the end of the test file. */
  process(settings?: Partial<TaskSettings>): Promise<ChildProcess>;
};

/** A new database with a table `marks` to which every caller may write. Its tasks run in this process unless `taskConcurrency` is 0. */
export function useTasks(settings: Partial<TaskSettings> = {}): () => TaskClient {
  let client: TaskClient;
  beforeAll(async () => {
    const testDatabase = await createTestDatabase();
    await testDatabase.owner.query(`
      create table public.marks (id bigint generated always as identity primary key, name text unique);
      grant select, insert on public.marks to anon, authenticated, service_role`);
    const logins = await provisionLogins(testDatabase.owner, testDatabase.url, "a secret for the tests of tasks");
    const onConnectionError = () => {};
    const { database } = await openCore(
      { ...FEW_CONNECTIONS, ...SETTINGS, ...settings, dbMaxResultBytes: 1000 },
      "database",
      { logins, anonymousRoles: [] },
    );
    const tasks = createTasks({
      own: [],
      ofService: {},
      settings: { ...SETTINGS, ...settings },
      database,
      url: logins.tasks,
      addressOf: addressReader([]),
      addressKey: Buffer.alloc(32),
      isStillCaller: async () => true,
      log: pino({ level: "silent" }),
      onConnectionError,
    });
    tasks.register("resource", sqlTaskHandler);
    await tasks.start();
    const processes: ChildProcess[] = [];
    client = clientOf(testDatabase, tasks, logins, processes);
    return async () => {
      for (const child of processes) child.kill("SIGKILL");
      await tasks.close();
      await database.close();
      await testDatabase.drop();
    };
  });
  return () => client;
}

function clientOf({ owner }: TestDatabase, tasks: Tasks, logins: Logins, processes: ChildProcess[]): TaskClient {
  const ask = async (name: CallerName, method: string, target: string): Promise<TaskResponse> => {
    const [path = "", search = ""] = target.split("?");
    const segments = path.split("/");
    const request = { method, path: `/${path}`, headers: "{}", cookies: "{}" };
    const endpointRequest = {
      method,
      segments,
      parameters: new Parameters(search),
      caller: CALLERS[name],
      request,
      version: 1 as const,
      prefix: "",
    };
    try {
      const { status, headers, body } = await tasks.endpoint.answer(endpointRequest);
      return { status, headers: Object.fromEntries(headers), json: body && JSON.parse(body.toString()) };
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      const { status, headers = {}, code, message } = restAnswer(error);
      return { status, headers, json: { code, message } };
    }
  };
  return {
    logins,
    tasks,
    ask,
    async accept(name, ...steps) {
      const task = {
        kind: "import",
        caller: CALLERS[name],
        request: requestOf(steps),
        sender: senderOf(name),
      } as const;
      return JSON.parse((await tasks.accept(task, "")).body!.toString()).taskId;
    },
    async until(name, id, status) {
      const wanted = status ? [status] : ["succeeded", "failed", "cancelled"];
      let json: any;
      await expect
        .poll(async () => {
          ({ json } = await ask(name, "GET", `tasks/${id}`));
          return wanted.includes(json.status);
        }, POLL)
        .toBe(true);
      return json;
    },
    sql: async (text, ...values) => (await owner.query(text, values)).rows,
    async process(settings = {}) {
      const given = JSON.stringify({ logins, settings: { ...SETTINGS, ...settings } });
      const child = spawn(process.execPath, [fileURLToPath(new URL("./process.ts", import.meta.url)), given], {
        stdio: ["ignore", "pipe", "inherit"],
      });
      processes.push(child);
      await once(child.stdout!, "data");
      return child;
    },
  };
}
