import { readFile } from "node:fs/promises";
import type { Pool } from "pg";
import type { Logger } from "pino";
import type { Config } from "../../config/config.ts";
import type { Catalog } from "../catalog/catalog.ts";
import { Debounced } from "../changes/debounced.ts";
import type { Logins } from "../cluster/provision.ts";
import { type Acceptances, type Advice, advise, parseAcceptances } from "./advisor.ts";
import { callersWith } from "./callers.ts";
import { countsOf, type Finding, lineOf, sorted } from "./finding.ts";
import { LostColumns } from "./lost-columns.ts";

export type LiveAdvisorOptions = {
  readonly pool: Pool;
  /** The logins that take on the roles of callers. */
  readonly logins: Pick<Logins, "data" | "admin">;
  readonly settings: Pick<Config, "dbSchemas" | "migrate" | "dbAnonRole" | "advisorAccepted">;
  /** What other parts of the service have found. */
  more(): readonly Finding[];
  readonly log: Logger;
};

/** The advice on the database that is served. It is renewed after each change of the schema, in the background. */
export class LiveAdvisor {
  readonly #options: LiveAdvisorOptions;
  readonly #lostColumns: LostColumns;
  readonly #runs = new Debounced(
    () => this.#run(),
    (err) => this.#options.log.warn({ err }, "the advisor cannot check the database: it tries again"),
  );
  #advice: Advice | null = null;
  #logged = new Set<string>();

  constructor(options: LiveAdvisorOptions) {
    this.#options = options;
    this.#lostColumns = new LostColumns(options.pool);
  }

  /** All findings, the most severe first. Null before the first run. */
  get advice(): Advice | null {
    return this.#advice;
  }

  /** Runs again because the catalog has changed. */
  follow(catalog: Catalog): void {
    this.#lostColumns.follow(catalog);
    this.#runs.soon();
  }

  /** Runs again because another part of the service may have found something. */
  soon(): void {
    this.#runs.soon();
  }

  close(): Promise<void> {
    return this.#runs.close();
  }

  async #run(): Promise<void> {
    const { pool, logins, settings, more, log } = this.#options;
    const acceptances = await readAcceptances(settings.advisorAccepted);
    const names = [logins.data, logins.admin].map((url) => decodeURIComponent(new URL(url).username));
    const client = await pool.connect();
    try {
      const options = { ...callersWith(names, settings), schemas: settings.dbSchemas, acceptances };
      const advice = await advise(client, options);
      const lost = (await this.#lostColumns.findings()).filter((each) => !isIn(advice.findings, each));
      this.#advice = { ...advice, findings: sorted([...lost, ...more(), ...advice.findings]) };
    } finally {
      client.release();
    }
    this.#report(this.#advice.findings, log);
  }

  /** One line for what was not there before. */
  #report(findings: readonly Finding[], log: Logger): void {
    const lines = new Set(findings.filter(({ level }) => level !== "note").map(lineOf));
    const added = [...lines.difference(this.#logged)];
    const isFixed = lines.size === 0 && this.#logged.size > 0;
    this.#logged = lines;
    if (isFixed) log.info("the advisor finds nothing wrong in the database any more");
    if (added.length === 0) return;
    const level = findings.some((each) => each.level === "error") ? "error" : "warn";
    log[level](
      { ...countsOf(findings), new: added.slice(0, MAX_LOGGED) },
      "the advisor has findings: npm run advise shows the SQL that fixes them",
    );
  }
}

const MAX_LOGGED = 20;

/** Reads the file of accepted findings; "" is none. It may change while the service runs. */
export async function readAcceptances(file: string): Promise<Acceptances> {
  if (file === "") return [];
  const text = await readFile(file, "utf8");
  try {
    return parseAcceptances(text);
  } catch (error) {
    throw new Error(`${file}: ${(error as Error).message}`);
  }
}

const isIn = (findings: readonly Finding[], { rule, object }: Finding) =>
  findings.some((each) => each.rule === rule && each.object === object);
