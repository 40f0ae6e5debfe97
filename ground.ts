import type { Logger } from "pino";
import type { Config } from "./config/config.ts";
import { NotificationFeed } from "./db/changes/notifications.ts";
import type { OpenedDatabase } from "./db/cluster/open.ts";
import { Database } from "./db/database.ts";
import type { AddressReader } from "./http/address.ts";
import { Principals } from "./identity/caller-resolver.ts";
import { issuerOf, secretOf, verifierOf } from "./identity/issuer.ts";
import type { Tokens } from "./identity/tokens.ts";
import type { Verifier } from "./identity/verified-tokens.ts";
import { type Auth, createAuth } from "./rest-gateway/auth/auth.ts";
import { createTasks, type Tasks } from "./rest-gateway/tasks/index.ts";

/** What the interfaces stand on; nothing of it has been started. */
export type Ground = {
  readonly config: Config;
  readonly log: Logger;
  readonly opened: OpenedDatabase;
  readonly database: Database;
  readonly changes: NotificationFeed;
  /** Null where there are none. */
  readonly tasks: Tasks | null;
  readonly tokens: Tokens;
  readonly verifier: Verifier;
  /** Null where nobody signs in. */
  readonly auth: Auth | null;
  readonly principals: Principals;
  readonly addressOf: AddressReader;
  /** The address of the service. */
  readonly url: string;
  onInternalError(error: unknown, requestId: string): void;
  /** Ends all of it, and the embedded database. */
  close(): Promise<void>;
};

export type GroundOptions = {
  /** The address of the service. */
  readonly url: string;
  readonly addressOf: AddressReader;
  /** Milliseconds since 1970. */
  readonly clock: () => number;
};

/** Lays it on the database that `open` gives; rejects, with nothing left running, when it can't. */
export async function layGround(
  config: Config,
  log: Logger,
  open: () => Promise<OpenedDatabase>,
  options: GroundOptions,
): Promise<Ground> {
  const secret = await secretOf(config);
  const tokens = await issuerOf(config);
  const verifier = verifierOf(config, tokens);
  const opened = await open();
  try {
    return groundOn(opened, { config, log, secret, tokens, verifier, ...options });
  } catch (error) {
    await opened.cluster?.stop();
    throw error;
  }
}

type Laid = GroundOptions & Pick<Ground, "config" | "log" | "tokens" | "verifier"> & { readonly secret: string };

function groundOn(opened: OpenedDatabase, { secret, clock, ...given }: Laid): Ground {
  const { config, log, tokens, verifier, addressOf } = given;
  let closing = false;
  const onConnectionError = (error: Error & { client?: unknown }) => {
    // pg-pool hangs the whole client on it, with the key that cancels its queries.
    delete error.client;
    // At the end both sides hang up, in either order.
    log[closing ? "debug" : "warn"]({ err: error }, "a connection to the database was lost");
  };
  const database = new Database({ ...config, logins: opened.logins, onConnectionError });
  const changes = new NotificationFeed({ connectionString: opened.listenUrl, onError: onConnectionError });
  const auth = config.migrate
    ? createAuth({
        settings: config,
        database: database.auth,
        tokens,
        secret,
        changes,
        addressOf,
        clock,
        onError: (error) => log.warn({ err: error }, "something of authentication could not be noted or tidied up"),
      })
    : null;
  const tasks =
    opened.tasksUrl === null
      ? null
      : createTasks({
          settings: config,
          database,
          logins: opened.logins,
          url: opened.tasksUrl,
          isStillCaller: async (caller) => auth === null || auth.principals.isStill(caller),
          log,
          onConnectionError,
        });
  const { anonymousRole } = config;
  return {
    ...given,
    opened,
    database,
    changes,
    tasks,
    auth,
    principals: auth?.principals ?? new Principals({ tokens: verifier, anonymousRole, signedIn: null }),
    onInternalError: (error, requestId) => log.error({ requestId, err: error }, "unhandled error"),
    close: async () => {
      await tasks?.close();
      await auth?.close();
      closing = true;
      await changes.close();
      await database.close();
      await opened.cluster?.stop();
    },
  };
}
