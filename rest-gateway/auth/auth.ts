import type { IncomingMessage } from "node:http";
import type { Caller } from "../../db/caller.ts";
import type { NotificationFeed } from "../../db/changes/notifications.ts";
import type { Transactions } from "../../db/transaction.ts";
import type { AddressReader } from "../../http/address.ts";
import type { BodyLimits } from "../../http/body.ts";
import { restRefusal } from "../conventions/refused.ts";
import { Principals } from "../principal/principals.ts";
import { RequestCallers } from "../principal/request-callers.ts";
import { signedIn } from "../principal/signed-in.ts";
import type { Tokens } from "../principal/tokens.ts";
import { CsrfTokens } from "./csrf.ts";
import { PasswordHashing } from "./hashing.ts";
import { SignIn } from "./sign-in.ts";
import { AuthStore, type Clock } from "./store.ts";
import { Throttle } from "./throttle.ts";

/** The names are those of the service's settings. */
export type AuthSettings = {
  readonly anonymousRole: string;
  readonly loginAttempts: number;
  readonly loginAttemptsPerAddress: number;
  /** Seconds. */
  readonly loginWindow: number;
  /** Bytes. */
  readonly bodyLimit: number;
  readonly jsonDepth: number;
};

export type AuthOptions = {
  readonly settings: AuthSettings;
  /** The pool whose login may call auth_api. */
  readonly database: Transactions;
  readonly tokens: Tokens;
  /** What keys of our own are derived from. */
  readonly secret: string;
  readonly changes: NotificationFeed;
  readonly addressOf: AddressReader;
  readonly clock: Clock;
};

/** Everything that signing in is made of; the routes take from it what they need. */
export type Auth = {
  readonly settings: AuthSettings;
  readonly store: AuthStore;
  readonly tokens: Tokens;
  readonly throttle: Throttle;
  readonly hashing: PasswordHashing;
  readonly signIn: SignIn;
  readonly csrf: CsrfTokens;
  readonly principals: Principals;
  readonly limits: BodyLimits;
  readonly clock: Clock;
  readonly addressOf: AddressReader;
  /** Who sends a request to one of the routes; rejects with RestError. */
  callerOf(request: IncomingMessage): Promise<Caller>;
};

export function createAuth({ settings, database, tokens, secret, changes, addressOf, clock }: AuthOptions): Auth {
  const { loginAttempts: attempts, loginAttemptsPerAddress: attemptsPerAddress, loginWindow: window } = settings;
  const { anonymousRole, bodyLimit: size, jsonDepth: depth } = settings;
  const store = new AuthStore(database, clock);
  const throttle = new Throttle(store, { attempts, attemptsPerAddress, window });
  const hashing = new PasswordHashing();
  const csrf = new CsrfTokens(secret);
  const signIn = new SignIn({ store, hashing, throttle, acceptCode: async () => false });
  const onKeyUsed = () => {};
  const known = signedIn({ store, signIn, csrf, clock, changes, onKeyUsed });
  const principals = new Principals({ tokens, anonymousRole, signedIn: known });
  const callers = new RequestCallers({ principals, addressOf, needsKey: false, refusal: restRefusal });
  const limits = { size, depth };
  return {
    ...{ settings, store, tokens, throttle, hashing, signIn, csrf, principals, limits, clock, addressOf },
    callerOf: async (request) => callers.of(request),
  };
}
