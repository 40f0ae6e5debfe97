import type { IncomingMessage } from "node:http";
import type { Caller } from "../../db/caller.ts";
import type { NotificationFeed } from "../../db/changes/notifications.ts";
import type { Transactions } from "../../db/transaction.ts";
import type { AddressReader } from "../../http/address.ts";
import type { BodyLimits } from "../../http/body.ts";
import { restRefusal } from "../conventions/refused.ts";
import { KeyUses } from "../principal/key-uses.ts";
import { Principals } from "../principal/principals.ts";
import { RequestCallers } from "../principal/request-callers.ts";
import { signedIn } from "../principal/signed-in.ts";
import type { Tokens } from "../principal/tokens.ts";
import { CsrfTokens } from "./csrf.ts";
import { PasswordHashing } from "./hashing.ts";
import { Housekeeping } from "./housekeeping.ts";
import { OwnPages } from "./own-pages.ts";
import { Registration } from "./registration.ts";
import { factorKeys, SecondFactor } from "./second-factor.ts";
import { Enrolment } from "./second-factor-enrolment.ts";
import { CodeLimit } from "./second-factor-limit.ts";
import { Sessions } from "./sessions.ts";
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
  readonly registrationsPerAddress: number;
  /** Seconds. */
  readonly auditRetention: number;
  /** Seconds. */
  readonly sessionMaxAge: number;
  readonly baseUrl: string;
  readonly corsOrigins: readonly string[];
  /** "" is unset. */
  readonly mfaKey: string;
  readonly mfaIssuer: string;
  readonly mfaAttempts: number;
  /** Of one user. */
  readonly maxKeys: number;
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
  /** What could not be tidied up. */
  onError(error: unknown): void;
};

/** Everything that signing in is made of; the routes take from it what they need. */
export type Auth = {
  readonly settings: AuthSettings;
  readonly store: AuthStore;
  readonly tokens: Tokens;
  readonly throttle: Throttle;
  readonly hashing: PasswordHashing;
  readonly signIn: SignIn;
  readonly registration: Registration;
  readonly secondFactor: SecondFactor;
  readonly enrolment: Enrolment;
  readonly sessions: Sessions;
  readonly csrf: CsrfTokens;
  readonly ownPages: OwnPages;
  readonly principals: Principals;
  readonly limits: BodyLimits;
  readonly clock: Clock;
  readonly addressOf: AddressReader;
  /** Who sends a request to one of the routes; rejects with RestError. */
  callerOf(request: IncomingMessage): Promise<Caller>;
  /** What is remembered of a user is asked anew: this process has changed his account itself, and waits for no word of it. */
  forget(userId: string): void;
  start(): void;
  close(): Promise<void>;
};

export function createAuth({
  settings,
  database,
  tokens,
  secret,
  changes,
  addressOf,
  clock,
  onError,
}: AuthOptions): Auth {
  const { loginAttempts: attempts, loginAttemptsPerAddress: attemptsPerAddress, loginWindow: window } = settings;
  const { anonymousRole, registrationsPerAddress, auditRetention, bodyLimit: size, jsonDepth: depth } = settings;
  const store = new AuthStore(database, clock);
  const throttle = new Throttle(store, { attempts, attemptsPerAddress, registrationsPerAddress, window });
  const hashing = new PasswordHashing();
  const csrf = new CsrfTokens(secret);
  const limit = new CodeLimit(store, { attempts: settings.mfaAttempts, window });
  const factor = { store, limit, clock, ...factorKeys(settings.mfaKey || secret) };
  const secondFactor = new SecondFactor(factor);
  const enrolment = new Enrolment({ ...factor, issuer: settings.mfaIssuer });
  const acceptCode = secondFactor.acceptCode.bind(secondFactor);
  const signIn = new SignIn({ store, hashing, throttle, tokens, acceptCode });
  const registration = new Registration({ database, store, hashing, throttle });
  const housekeeping = new Housekeeping({ store, attemptSeconds: window, eventSeconds: auditRetention, onError });
  const keyUses = new KeyUses({ write: (ids) => store.useKeys(ids), onError });
  const onKeyUsed = (id: string) => keyUses.add(id);
  const known = signedIn({ store, signIn, csrf, clock, changes, onKeyUsed });
  const principals = new Principals({ tokens, anonymousRole, signedIn: known });
  const callers = new RequestCallers({ principals, addressOf, needsKey: false, refusal: restRefusal });
  const sessions = new Sessions({ store, known: known.sessions, clock, maxAge: settings.sessionMaxAge });
  const ownPages = new OwnPages(settings);
  const limits = { size, depth };
  return {
    settings,
    store,
    tokens,
    throttle,
    hashing,
    signIn,
    registration,
    secondFactor,
    enrolment,
    sessions,
    csrf,
    ownPages,
    principals,
    limits,
    clock,
    addressOf,
    callerOf: async (request) => callers.of(request),
    forget: known.forget,
    start: () => housekeeping.start(),
    close: async () => {
      await Promise.all([housekeeping.close(), keyUses.close()]);
    },
  };
}
