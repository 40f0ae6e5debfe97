import type { Caller } from "../db/caller.ts";
import { clientMessage, messageForSubscriber } from "../db/masking.ts";
import type { Checker } from "../db/rights/checker.ts";
import type { DatabaseErrorLike } from "../db/sqlstates.ts";
import { type Identity, NO_REQUEST, type RequestContext } from "../db/transaction/identity.ts";
import type { Result } from "../db/wire/batch.ts";
import { Problem } from "../problems/problem.ts";
import { MessagePolicies, type MessagePoliciesOptions, type MessageRights } from "./message-policies.ts";
import { internal, isChannelProblem, mayNotSee, noReplay } from "./problem.ts";

/** What a caller may do on a channel. */
export type ChannelRights = MessageRights;

const BOTH = { read: true, write: true };

/** The rights on public channels. */
export const PUBLIC: ChannelRights = { broadcast: BOTH, presence: BOTH };

const STATEMENT = "select realtime.rights_on($1)::text";

/** Oldest first. */
const REPLAY = `
  select id, event, payload::text, pg_catalog.encode(binary_payload, 'base64')
  from realtime.replay($1, pg_catalog.to_timestamp($2::float8 / 1000), $3)
  order by inserted_at`;

const PURGE: Identity = {
  caller: { role: "service_role", claims: { role: "service_role" }, expiresAt: null, refused: null },
  request: NO_REQUEST,
};

const NOT_STORED = "this database has no function realtime.send, so no broadcasts are stored";

export type ChannelAccessOptions = MessagePoliciesOptions & {
  /** Whether the database has the function `realtime.rights_on` of this service. */
  readonly hasModule: boolean;
  readonly checker: Pick<Checker, "admit">;
  onInternalError(error: unknown, requestId: string): void;
};

/** Who may use channels. For private ones, the policies on the table realtime.messages decide. */
export class ChannelAccess {
  readonly #options: ChannelAccessOptions;
  readonly #policies: MessagePolicies;

  constructor(options: ChannelAccessOptions) {
    this.#options = options;
    this.#policies = new MessagePolicies(options);
  }

  /** Whether the caller may use any channel: DB_PRE_REQUEST may refuse it. Rejects with Problem. */
  async admit(caller: Caller, request: RequestContext): Promise<void> {
    await this.#options.checker.admit({ caller, request })?.catch((error) => this.#refuse(error, request));
  }

  /** The rights on a private channel; `name` is the topic without `realtime:`. Rejects with Problem. */
  async rightsOn(name: string, caller: Caller, request: RequestContext): Promise<ChannelRights> {
    const { database, hasModule } = this.#options;
    const identity = { caller, request };
    try {
      if (!hasModule) return await this.#policies.rightsOn(name, identity);
      const [result] = await database.forRole(caller.role).run(identity, [{ text: STATEMENT, values: [name] }]);
      return JSON.parse(String(result!.rows[0]![0]));
    } catch (error) {
      return this.#refuse(error, request);
    }
  }

  /**
   * The stored broadcasts of a private channel that the caller may read, oldest first: id, event, JSON and bytes as base64, one of
   * which is null. `range` is since and limit. Rejects with Problem.
   */
  async replay(name: string, range: readonly [number, number], identity: Identity): Promise<Result["rows"]> {
    const { database, hasModule } = this.#options;
    if (!hasModule) throw noReplay(NOT_STORED);
    try {
      const statement = { text: REPLAY, values: [name, ...range.map(String)] };
      const [result] = await database.forRole(identity.caller.role).run(identity, [statement]);
      return result!.rows;
    } catch (error) {
      if (error instanceof Problem) throw noReplay(error.message);
      // A policy has raised an error, or the statement has taken too long.
      throw noReplay(this.#messageOf(error as DatabaseErrorLike, identity.request));
    }
  }

  /** Deletes broadcasts that are no longer kept. */
  async purge(): Promise<void> {
    const { database, hasModule } = this.#options;
    const statement = { text: "select realtime.purge()", values: [] };
    if (hasModule) await database.forRole(PURGE.caller.role).run(PURGE, [statement], { isOfRole: true });
  }

  #refuse(error: unknown, request: RequestContext): never {
    if (isChannelProblem(error)) throw error;
    if (error instanceof Problem) throw internal(error.message);
    // A policy or DB_PRE_REQUEST has raised an error, or the role may not use the schema.
    throw mayNotSee(this.#messageOf(error as DatabaseErrorLike, request));
  }

  /** What the client may read of an error. If it is masked, it is logged. */
  #messageOf(error: DatabaseErrorLike, { requestId = "" }: RequestContext): string {
    if (clientMessage(error) === null) this.#options.onInternalError(error, requestId);
    return messageForSubscriber(error);
  }
}
