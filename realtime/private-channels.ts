import type { Caller } from "../db/caller.ts";
import type { DatabaseErrorLike } from "../db/errors.ts";
import { messageForSubscriber } from "../db/masking.ts";
import { Problem } from "../db/problems/problem.ts";
import { NO_REQUEST } from "../db/transaction/identity.ts";
import { MessagePolicies, type MessagePoliciesOptions, type MessageRights } from "./message-policies.ts";
import { internal, isChannelProblem, mayNotSee } from "./problem.ts";

/** What a caller may do on a channel. */
export type ChannelRights = MessageRights;

const BOTH = { read: true, write: true };

/** The rights on public channels. */
export const PUBLIC: ChannelRights = { broadcast: BOTH, presence: BOTH };

const STATEMENT = "select realtime.rights_on($1)::text";

export type PrivateChannelsOptions = MessagePoliciesOptions & {
  /** Whether the database has the function `realtime.rights_on` of this service. */
  readonly hasModule: boolean;
};

/** Who may use private channels: the policies on the table realtime.messages decide. */
export class PrivateChannels {
  readonly #options: PrivateChannelsOptions;
  readonly #policies: MessagePolicies;

  constructor(options: PrivateChannelsOptions) {
    this.#options = options;
    this.#policies = new MessagePolicies(options);
  }

  /** `name` is the topic without `realtime:`. Rejects with Problem. */
  async rightsOf(caller: Caller, name: string): Promise<ChannelRights> {
    const { database, hasModule } = this.#options;
    try {
      if (!hasModule) return await this.#policies.rightsOf(caller, name);
      const identity = { caller, request: NO_REQUEST };
      const [result] = await database.forRole(caller.role).run(identity, [{ text: STATEMENT, values: [name] }]);
      return JSON.parse(String(result!.rows[0]![0]));
    } catch (error) {
      if (isChannelProblem(error)) throw error;
      if (error instanceof Problem) throw internal(error.message);
      // A policy has raised an error, or the role may not use the schema.
      throw mayNotSee(messageForSubscriber(error as DatabaseErrorLike));
    }
  }
}
