import type { Caller } from "../db/caller.ts";
import type { Database } from "../db/database.ts";
import { ApiError, type DatabaseErrorLike } from "../db/errors.ts";
import { messageForSubscriber } from "../db/masking.ts";
import { NO_REQUEST } from "../db/transaction/identity.ts";
import { internal, mayNotSee, notPossible } from "./problem.ts";

/** What a caller may do on a channel. */
export type ChannelRights = {
  readonly broadcast: { readonly read: boolean; readonly write: boolean };
  readonly presence: { readonly read: boolean; readonly write: boolean };
};

const BOTH = { read: true, write: true };

/** The rights on public channels. */
export const PUBLIC: ChannelRights = { broadcast: BOTH, presence: BOTH };

const STATEMENT = "select realtime.rights_on($1)::text";

export type PrivateChannelsOptions = {
  readonly database: Pick<Database, "forRole">;
  /** Whether the database has the schema `realtime`. */
  readonly migrate: boolean;
};

/** Who may use private channels: the policies on the table realtime.messages decide. */
export class PrivateChannels {
  readonly #options: PrivateChannelsOptions;

  constructor(options: PrivateChannelsOptions) {
    this.#options = options;
  }

  /** `name` is the topic without `realtime:`. Rejects with ChannelError. */
  async rightsOf(caller: Caller, name: string): Promise<ChannelRights> {
    const { database, migrate } = this.#options;
    if (!migrate) throw notPossible("with MIGRATE=off there are no private channels");
    try {
      const identity = { caller, request: NO_REQUEST };
      const [result] = await database.forRole(caller.role).run(identity, [{ text: STATEMENT, values: [name] }]);
      return JSON.parse(String(result!.rows[0]![0]));
    } catch (error) {
      if (error instanceof ApiError) throw internal(error.problem.message);
      // A policy has raised an error, or the role may not use the schema.
      throw mayNotSee(messageForSubscriber(error as DatabaseErrorLike));
    }
  }
}
