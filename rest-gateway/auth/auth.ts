import type { NotificationFeed } from "../../db/changes/notifications.ts";
import type { Transactions } from "../../db/transaction.ts";
import type { BodyLimits } from "../../http/body.ts";
import type { AddressReader } from "../../http/request.ts";
import type { Clock } from "../../identity/account.ts";
import { CallerResolver } from "../../identity/caller-resolver.ts";
import { CsrfTokens } from "../../identity/csrf.ts";
import { KeyUses } from "../../identity/key-uses.ts";
import type { Tokens } from "../../identity/tokens.ts";
import { Enrolment } from "./enrolment.ts";
import { PasswordHashing } from "./hashing.ts";
import { Housekeeping } from "./housekeeping.ts";
import { identityStore } from "./identity-store.ts";
import { PasswordCheck } from "./password-check.ts";
import { Registration } from "./registration.ts";
import { AuthStore } from "./repository.ts";
import { OwnPages } from "./same-origin.ts";
import { type FactorSettings, factorKeys, SecondFactor } from "./second-factor.ts";
import { Sessions } from "./sessions.ts";
import { SignIn } from "./sign-in.ts";
import { Throttle } from "./throttle.ts";

/** The names are those of the service's settings. */
export type AuthSettings = FactorSettings & {
  readonly dbAnonRole: string;
  readonly loginAttempts: number;
  readonly loginAttemptsPerAddress: number;
  /** Seconds. */
  readonly loginWindow: number;
  readonly registrationsPerAddress: number;
  /** Seconds. */
  readonly auditRetention: number;
  /** Seconds. */
  readonly sessionMaxAge: number;
  /** Seconds. */
  readonly jwtRefreshGrace: number;
  readonly baseUrl: string;
  readonly corsOrigins: readonly string[];
  readonly mfaIssuer: string;
  readonly mfaAttempts: number;
  /** Of one user. */
  readonly apiKeysMax: number;
  /** Bytes. */
  readonly bodyLimit: number;
  readonly jsonMaxDepth: number;
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
  readonly hashing: PasswordHashing;
  readonly passwords: PasswordCheck;
  readonly signIn: SignIn;
  readonly registration: Registration;
  readonly secondFactor: SecondFactor;
  readonly enrolment: Enrolment;
  readonly sessions: Sessions;
  readonly csrf: CsrfTokens;
  readonly ownPages: OwnPages;
  readonly callers: CallerResolver;
  readonly limits: BodyLimits;
  readonly clock: Clock;
  readonly addressOf: AddressReader;
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
  const {
    mfaAttempts: codeAttempts,
    dbAnonRole: anonymousRole,
    registrationsPerAddress,
    auditRetention,
    bodyLimit: size,
    jsonMaxDepth: depth,
  } = settings;
  const store = new AuthStore(database, clock);
  const limitsOfAttempts = { attempts, attemptsPerAddress, codeAttempts, registrationsPerAddress, window };
  const throttle = new Throttle(store, limitsOfAttempts);
  const hashing = new PasswordHashing();
  const passwords = new PasswordCheck({ store, hashing, throttle });
  const csrf = new CsrfTokens(secret);
  const factor = { store, throttle, clock, ...factorKeys(settings, secret) };
  const secondFactor = new SecondFactor(factor);
  const enrolment = new Enrolment({ ...factor, issuer: settings.mfaIssuer });
  const signIn = new SignIn({ store, passwords, throttle, tokens, secondFactor });
  const registration = new Registration({ database, store, hashing, throttle });
  const housekeeping = new Housekeeping({ store, attemptSeconds: window, eventSeconds: auditRetention, onError });
  const keyUses = new KeyUses({ write: (ids) => store.useKeys(ids), onError });
  const onKeyUsed = (id: string) => keyUses.add(id);
  const ownPages = new OwnPages(settings);
  const identities = identityStore({ store, signIn, csrf, ownPages, clock, changes, onKeyUsed });
  const callers = new CallerResolver({ tokens, anonymousRole, store: identities, addressOf });
  const sessions = new Sessions({ store, known: identities.sessions, clock, maxAge: settings.sessionMaxAge });
  const limits = { size, depth };
  return {
    settings,
    store,
    tokens,
    hashing,
    passwords,
    signIn,
    registration,
    secondFactor,
    enrolment,
    sessions,
    csrf,
    ownPages,
    callers,
    limits,
    clock,
    addressOf,
    forget: identities.forget,
    start: () => housekeeping.start(),
    close: async () => {
      await Promise.all([housekeeping.close(), keyUses.close()]);
    },
  };
}
