import type pg from "pg";
import type { Logger } from "pino";
import type { Notifications } from "../../db/follow/notifications.ts";
import type { Transactions } from "../../db/transaction/transaction.ts";
import type { BodyLimits } from "../../gate/pipeline/body.ts";
import type { AddressReader } from "../../gate/pipeline/exchange.ts";
import type { Clock } from "../../identity/account.ts";
import { CallerResolver } from "../../identity/caller-resolver.ts";
import { IDLE_SECONDS } from "../../identity/cookies.ts";
import { CsrfTokens } from "../../identity/credentials.ts";
import { KeyUses } from "../../identity/keys.ts";
import type { Sender } from "../../identity/sender.ts";
import type { Tokens } from "../../identity/tokens.ts";
import type { Verifier } from "../../identity/verified-tokens.ts";
import { AdminUsers } from "./admin-users.ts";
import { FactorRepository } from "./factor-repository.ts";
import type { Federated } from "./federated.ts";
import { AuthFunctions } from "./functions.ts";
import { HookFailures } from "./hook-failures.ts";
import { ANONYMOUS_SECONDS, Housekeeping } from "./housekeeping.ts";
import { identityStore } from "./identity-store.ts";
import { KeyRepository } from "./keys.ts";
import type { AuthSettings } from "./limits.ts";
import type { Mails } from "./mail/mails.ts";
import { Enrolment } from "./mfa.ts";
import { OneTimeValues } from "./one-time-values.ts";
import type { AuthParts } from "./parts.ts";
import type { Passkeys } from "./passkeys/passkeys.ts";
import { type HashPassword, PasswordCheck, PasswordHashing, PasswordRules } from "./passwords.ts";
import { AuthRepository } from "./repository.ts";
import { ReturnUrls } from "./return-urls.ts";
import { SameOriginCheck } from "./same-origin.ts";
import { type BackupCodes, type FactorSettings, factorKeys, SecondFactor } from "./second-factor.ts";
import { deriveKey, resealFactors, SecretBox } from "./secret-box.ts";
import { SessionRepository } from "./session-repository.ts";
import { Sessions } from "./sessions.ts";
import { SignIn } from "./sign-in.ts";
import { SignInCodes } from "./sign-in-codes.ts";
import { Throttle, type ThrottleLimits } from "./throttle.ts";
import type { Wire } from "./wires.ts";

export type AuthOptions = AuthParts & {
  readonly settings: AuthSettings;
  /** The pool whose login role may call `auth_api`. */
  readonly database: Transactions;
  readonly serviceDatabase: Transactions;
  readonly tokens: Tokens;
  /** Finds the callers of tokens, those of trusted issuers too. */
  readonly verifier: Verifier;
  /** The JWT secret, from which other keys are derived. */
  readonly secret: string;
  readonly notifications: Notifications;
  readonly addressOf: AddressReader;
  readonly clock: Clock;
  /** The function of passwords.ts if it is undefined. */
  readonly hashPassword: HashPassword | undefined;
  /** Called with the name of the setting whose limit has rejected an attempt. */
  onLimit?(setting: string): void;
  /** The public URL of the service. */
  readonly url: string;
  /** The folder with the templates of the application's e-mails; null if there is none. */
  readonly mailFolder: string | null;
  /** Whether there is a queue of tasks. */
  readonly hasTasks: boolean;
  readonly log: Logger;
};

/** The services that run statements: they count for the sender of a request. */
export type BoundAuth = {
  /** For what parts call. */
  readonly functions: AuthFunctions;
  readonly once: OneTimeValues;
  readonly codes: SignInCodes;
  readonly repository: AuthRepository;
  readonly keys: KeyRepository;
  readonly factors: FactorRepository;
  readonly passwords: PasswordCheck;
  readonly throttle: Throttle;
  readonly signIn: SignIn;
  readonly secondFactor: SecondFactor;
  readonly enrolment: Enrolment;
  /** Null where no part brings them. */
  readonly passkeys: Passkeys | null;
  readonly sessionRows: SessionRepository;
  readonly adminUsers: AdminUsers;
  /** With cookies. */
  readonly sessions: Sessions;
};

/** The services behind authentication; each route uses the ones that it needs. */
export type Auth = BoundAuth & {
  readonly settings: AuthSettings;
  /** The public URL of the service. */
  readonly url: string;
  readonly returnUrls: ReturnUrls;
  /** The other APIs than `/auth` at which a sign-in may begin, by name: parts add theirs. */
  readonly wires: Map<string, Wire>;
  /** Whether pages may link to SIGN_IN_PATH and ACCOUNT_PATH. */
  readonly hasAccountPages: boolean;
  readonly tokens: Tokens;
  readonly hashing: PasswordHashing;
  readonly backupCodes: BackupCodes;
  readonly csrf: CsrfTokens;
  readonly sameOrigin: SameOriginCheck;
  readonly callers: CallerResolver;
  /** Null where no part brings it. */
  readonly federated: Federated | null;
  /** Null where no part brings them. */
  readonly mails: Mails | null;
  readonly hookFailures: HookFailures;
  /** Encrypts what the pages keep in a cookie. */
  readonly pageBox: SecretBox;
  readonly limits: BodyLimits;
  readonly clock: Clock;
  readonly addressOf: AddressReader;
  /** For a request, and what follows from it. Null for work of the service, as these services themselves are. */
  from(sender: Sender | null): BoundAuth;
  /** Reports the name of the limit that has rejected something. */
  onLimit(setting: string): void;
  /** Applies changed limits and origins. */
  follow(settings: AuthSettings): void;
  /** Rejects if the database does not respond. */
  start(): Promise<void>;
  /** Call it once the catalog has been read: before that, a used connection is cleaned first, and the next statement opens another. */
  startHousekeeping(): void;
  close(): Promise<void>;
};

export function createAuth({
  settings,
  providerKinds,
  createFederated,
  createMails,
  createPasskeys,
  database,
  serviceDatabase,
  hasAccountPages,
  tokens,
  verifier,
  secret,
  notifications,
  addressOf,
  clock,
  hashPassword,
  url,
  mailFolder: folder,
  hasTasks,
  log,
  onLimit = () => {},
}: AuthOptions): Auth {
  const onError = (error: unknown) => log.warn({ err: error }, "a background write of authentication has failed");
  const { dbAnonRole: anonymousRole, dbRequestCredentials: showsCredentials } = settings;
  const hookFailures = new HookFailures(log);
  const ofService = new AuthFunctions({
    ...{ database, clock, onError: (error) => hookFailures.note(error) },
    forget: (userId) => store.forget(userId),
  });
  const codeBox = new SecretBox(deriveKey(secret, "sign-in codes"));
  const attempts = { limits: settings as ThrottleLimits, waiting: 0, onLimit };
  const hashing = new PasswordHashing(hashPassword);
  const rules = new PasswordRules(settings);
  const passkeysOfService = createPasskeys?.({ settings, url, functions: ofService, secret, clock }) ?? null;
  const factorSecrets = factorKeys(settings, secret);
  const from = (sender: Sender | null): BoundAuth => {
    const functions = sender === null ? ofService : ofService.from(sender);
    const repository = new AuthRepository(functions);
    const once = new OneTimeValues(functions);
    const factors = new FactorRepository(functions);
    const throttle = new Throttle(repository, attempts);
    const passwords = new PasswordCheck({ rules, repository, hashing, throttle });
    const passkeys = passkeysOfService?.from(functions) ?? null;
    const factor = { repository, factors, throttle, passkeys, clock, ...factorSecrets };
    const secondFactor = new SecondFactor(factor);
    const confirms = settings.emailConfirm === "required";
    return {
      ...{ functions, repository, once, factors, throttle, passwords, passkeys, secondFactor },
      codes: new SignInCodes({ once, box: codeBox, clock }),
      sessionRows: new SessionRepository(functions, { max: settings.sessionsMax, idle: IDLE_SECONDS }),
      keys: new KeyRepository(functions),
      signIn: new SignIn({ confirms, passwords, throttle, repository, tokens, secondFactor, passkeys }),
      enrolment: new Enrolment({ ...factor, issuer: new URL(url).hostname }),
      adminUsers: new AdminUsers(functions, serviceDatabase),
      sessions: new Sessions(store.sessions, sender),
    };
  };
  const csrf = new CsrfTokens(secret);
  const sameOrigin = new SameOriginCheck(settings);
  const keyUses = new KeyUses({ write: (ids) => keys.use(ids), onError });
  const onKeyUsed = (id: string) => keyUses.add(id);
  const store = identityStore({ from, csrf, sameOrigin, clock, notifications, onKeyUsed });
  const bound = from(null);
  const { functions, repository, keys } = bound;
  const mails = createMails?.({ settings, functions, folder, hasTasks, secret, url, log }) ?? null;
  const retention = {
    attemptSeconds: Math.max(settings.loginWindow, MAIL_WINDOW),
    eventSeconds: settings.auditRetention,
    emailSeconds: settings.emailReservation,
  };
  const purges = [
    () => repository.purge(retention),
    () => repository.purgeAnonymous(ANONYMOUS_SECONDS),
    async () => mails?.purge(),
  ];
  const housekeeping = new Housekeeping({ purges, onError });
  const federated = createFederated?.({ settings, providerKinds, url, functions, secret, clock, log }) ?? null;
  return {
    ...bound,
    from,
    settings,
    url,
    returnUrls: new ReturnUrls(url, settings.authReturnOrigins, log),
    wires: new Map(),
    hasAccountPages,
    tokens,
    hashing,
    backupCodes: factorSecrets.backupCodes,
    csrf,
    sameOrigin,
    callers: new CallerResolver({ tokens: verifier, anonymousRole, store, showsCredentials, addressOf }),
    federated,
    mails,
    hookFailures,
    pageBox: new SecretBox(deriveKey(secret, "account pages")),
    limits: settings,
    clock,
    addressOf,
    follow: (changed) => {
      attempts.limits = changed;
      repository.limitAddedUsers(changed.registrationsPerAddress, changed.loginWindow).catch(onError);
      sameOrigin.follow(changed);
      passkeysOfService?.follow(changed);
    },
    onLimit,
    start: async () => {
      await repository.limitAddedUsers(settings.registrationsPerAddress, settings.loginWindow);
      await federated?.load();
      notifications.onIdentityChange((change) => {
        if (change === "providers" || change === "back") federated?.load().catch(onError);
      });
      await repository.useSettings(settings, mails?.isOn === true);
      mails?.start();
    },
    startHousekeeping: () => housekeeping.start(),
    close: async () => {
      mails?.close();
      await Promise.all([housekeeping.close(), keyUses.close()]);
    },
  };
}

/** Seconds for which the limits of e-mails count: those of auth_api.request_mail. */
const MAIL_WINDOW = 3600;

/** Encrypts second factors again that are encrypted with the previous MFA_KEY. */
export async function updateAccounts(
  owner: pg.Client,
  settings: FactorSettings,
  secret: string,
  log: Logger,
): Promise<void> {
  if (settings.mfaPreviousKey !== "") await resealFactors(owner, factorKeys(settings, secret).box, log);
}
