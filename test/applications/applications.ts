import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { parseEnv } from "node:util";
import { expect } from "vitest";
import { connected, type ForeignServer, startForeignServer } from "../modules/foreign-server.ts";
import { PROJECT, type Settings } from "../support/command.ts";
import { createTestDatabase } from "../support/database.ts";
import type { InstalledApplication } from "../support/installed-application.ts";
import { JWT_SECRET } from "../support/service.ts";
import type { Parent } from "./added.ts";

/** An application that was made with the package, and what its tests expect of it. */
export type Application = {
  readonly app: InstalledApplication;
  /** What its commands are run with. */
  readonly settings: Settings;
  readonly isEmbedded: boolean;
  /** The settings of its image. */
  readonly deployment: Settings;
  /** The table that the added one refers to, and the id of one of its rows. */
  readonly parent: Parent & { readonly one: number | string };
  /** Its own tests. */
  readonly tests: number;
  /** A part of `test/access.md`. */
  readonly access: string;
  /** The errors that the advisor finds in its database. */
  readonly findings: number;
  /** What anonymous callers read. */
  readonly open: { readonly path: string; readonly answer: unknown };
  /** The table that they may not read. */
  readonly closed: string;
  remove(): Promise<void>;
};

/** The application that `init` makes, with an embedded database. */
export async function notesIn(app: InstalledApplication): Promise<Application> {
  const database = await createTestDatabase(undefined, "template1");
  return {
    app,
    settings: {},
    isEmbedded: true,
    deployment: { DATABASE_URL: database.url, JWT_SECRET },
    parent: { row: "note", id: "bigint", one: 1 },
    tests: 5,
    access: "## public.notes: 3 rows",
    findings: 0,
    open: { path: "/hello", answer: { role: "anon" } },
    closed: "notes",
    async remove() {
      app.stop();
      await database.drop();
    },
  };
}

const FILES = ["schema", "access", "data"].map((name) => join(PROJECT, `test/existing/trackit/${name}.sql`));
const OWNER = "alter role trackit_owner login createrole password 'owner'";

/** The application that `init --database` makes for the database of another team, which belongs to a login with few rights. Installed with pnpm. */
export async function trackitIn(app: InstalledApplication): Promise<Application> {
  const server = await startForeignServer("");
  try {
    const url = await makeTrackit(server);
    const before = await server.dump("trackit");
    const made = await app.command(["init", "--database", url, "."]);
    expect(made).toMatchObject({ code: 0, stdout: expect.stringMatching(/^users +public\.users, id uuid, email/m) });
    expect(await server.dump("trackit")).toBe(before);
    // As the output says: first the statements of a superuser.
    const [, statements] = /As a superuser of the server, run:\n((?: {5}.*\n)+)/.exec(made.stdout)!;
    await asSuperuser(server, statements!);
    await app.usePnpm();
  } catch (error) {
    await server.cluster.remove();
    throw error;
  }
  return {
    app,
    settings: { SETTINGS_FILE: ".env" },
    isEmbedded: false,
    deployment: parseEnv(await readFile(app.path(".env"), "utf8")) as Settings,
    parent: { row: "task", id: "uuid", one: "00000000-0000-4000-d000-000000000001" },
    tests: 2,
    access: "## public.projects: no rows",
    findings: 4,
    open: {
      path: "/rest/v1/plans?select=code&order=code",
      answer: ["business", "free", "team"].map((code) => ({ code })),
    },
    closed: "projects",
    async remove() {
      app.stop();
      await server.cluster.remove();
    },
  };
}

/** The URL of its owner. */
async function makeTrackit(server: ForeignServer): Promise<string> {
  const root = await connected(server.cluster.url("postgres"));
  await root.query("create database trackit");
  await root.end();
  const texts = await Promise.all(FILES.map((file) => readFile(file, "utf8")));
  await asSuperuser(server, [...texts, OWNER].join("\n"));
  return Object.assign(new URL(server.cluster.url("trackit")), { username: "trackit_owner", password: "owner" }).href;
}

async function asSuperuser({ cluster }: ForeignServer, sql: string): Promise<void> {
  const root = await connected(cluster.url("trackit"));
  await root.query(sql);
  await root.end();
}
