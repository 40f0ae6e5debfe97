import type { Identity, RequestContext } from "../../db/caller.ts";
import type { RawRow } from "../../db/connection.ts";
import type { Database } from "../../db/database.ts";
import type { NewTask } from "./performer.ts";
import type { TaskFacts } from "./representation.ts";

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
    const context = { ...NO_CONTEXT, method: request.method, path: request.url.split("?", 1)[0]! };
    const row = await this.#row({ caller, request: context }, text, values);
    return factsIn(row, 0);
  }

  /** Null when there is none, or it is somebody else's. */
  async find(id: string, identity: Identity): Promise<{ facts: TaskFacts; result: Buffer | null } | null> {
    const row = await this.#row(identity, "select task, result from tasks.find($1::uuid)", [id]);
    const facts = factsIn(row, 0);
    return facts && { facts, result: row![1]! };
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
    const transactions = this.#database.forRole(identity.caller.role);
    // A result has a limit of its own, which may be a higher one.
    const [result] = await transactions.run({ ...identity, settings: UTC }, [{ text, values, binary: true }], {
      takesAll: true,
    });
    return result!.rows[0] ?? null;
  }
}

const UTC: Identity["settings"] = { fixed: [["timezone", "UTC"]], given: [] };
const NO_CONTEXT: RequestContext = { method: "", path: "", headers: "{}", cookies: "{}" };

function factsIn(row: RawRow | null, column: number): TaskFacts | null {
  const field = row?.[column];
  return field ? JSON.parse(field.toString()) : null;
}
