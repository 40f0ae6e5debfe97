import type { RawRow } from "../../db/connection.ts";
import type { Database } from "../../db/database.ts";
import { type Identity, NO_REQUEST } from "../../db/identity.ts";
import type { TaskFacts } from "./representation.ts";
import type { NewTask } from "./task-handler.ts";

export type TaskPage = { /** JSON array of facts. */ readonly tasks: readonly TaskFacts[]; readonly total: number };

/** Tasks as callers may see and change them: SQL functions decide, each run as the caller. */
export class TaskStore {
  readonly #database: Pick<Database, "forRole">;

  constructor(database: Pick<Database, "forRole">) {
    this.#database = database;
  }

  /** Null when `maxPending` tasks of the caller have not ended. */
  async add({ kind, caller, request, rows }: NewTask, maxPending: number): Promise<TaskFacts | null> {
    const text = "select tasks.accept($1, $2::json, $3::bigint, $4::integer)";
    const values = [kind, JSON.stringify(request), rows > 0 ? String(rows) : null, String(maxPending)];
    const context = { ...NO_REQUEST, method: request.method, path: request.url.split("?", 1)[0]! };
    const row = await this.#row({ caller, request: context }, text, values);
    return factsIn(row, 0);
  }

  /** Null when there is none, or it is somebody else's. */
  async find(id: string, identity: Identity): Promise<{ facts: TaskFacts; parts: readonly Buffer[] } | null> {
    const rows = await this.#rows(identity, "select task, part from tasks.find($1::uuid)", [id]);
    const facts = factsIn(rows[0] ?? null, 0);
    return facts && { facts, parts: rows.flatMap(([, part]) => part ?? []) };
  }

  /** The caller's own, newest first; `status` null is all. */
  async list(status: string | null, limit: number, offset: number, identity: Identity): Promise<TaskPage> {
    const text = "select tasks, total::text from tasks.list($1, $2::integer, $3::bigint)";
    const row = await this.#row(identity, text, [status, String(limit), String(offset)]);
    return { tasks: JSON.parse(row![0]!.toString()), total: Number(row![1]!.toString()) };
  }

  /** Null when there is none, or it is somebody else's. */
  async cancel(id: string, identity: Identity): Promise<{ facts: TaskFacts; wasCancelled: boolean } | null> {
    const text = "select task, was_cancelled::text from tasks.cancel($1::uuid)";
    const row = await this.#row(identity, text, [id]);
    const facts = factsIn(row, 0);
    return facts && { facts, wasCancelled: row![1]!.toString() === "true" };
  }

  async #row(identity: Identity, text: string, values: readonly (string | null)[]): Promise<RawRow | null> {
    return (await this.#rows(identity, text, values))[0] ?? null;
  }

  async #rows(identity: Identity, text: string, values: readonly (string | null)[]): Promise<readonly RawRow[]> {
    const transactions = this.#database.forRole(identity.caller.role);
    // A result has a limit of its own, which may be a higher one.
    const [result] = await transactions.run({ ...identity, settings: UTC }, [{ text, values, binary: true }], {
      takesAll: true,
    });
    return result!.rows;
  }
}

const UTC: Identity["settings"] = { fixed: [["timezone", "UTC"]], given: [] };

function factsIn(row: RawRow | null, column: number): TaskFacts | null {
  const field = row?.[column];
  return field ? JSON.parse(field.toString()) : null;
}
