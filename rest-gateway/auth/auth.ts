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
import { isSignupOpen, Registration } from "./registration.ts";
import { AuthRepository } from "./repository.ts";
import { ReturnUrls } from "./return-urls.ts";
import { SameOriginCheck } from "./same-origin.ts";
import { type BackupCodes, type FactorSettings, factorKeys, SecondFactor } from "./second-factor.ts";
import { deriveKey, resealFactors, SecretBox } from "./secret-box.ts";
import { SessionRepository } from "./session-repository.ts";
import { Sessions } from "./sessions.ts";
import { SignIn } from "./sign-in.ts";
import { SignInCodes } from "./sign-in-codes.ts";
import { Throttle } from "./throttle.ts";
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

/** The services behind authentication; each route uses the ones that it needs. */
export type Auth = {
  readonly settings: AuthSettings;
  /** The public URL of the service. */
  readonly url: string;
  readonly returnUrls: ReturnUrls;
  readonly once: OneTimeValues;
  readonly codes: SignInCodes;
  /** The other APIs than `/auth` at which a sign-in may begin, by name: parts add theirs. */
  readonly wires: Map<string, Wire>;
  /** Whether pages may link to SIGN_IN_PATH and ACCOUNT_PATH. */
  readonly hasAccountPages: boolean;
  readonly repository: AuthRepository;
  readonly keys: KeyRepository;
  readonly factors: FactorRepository;
  readonly tokens: Tokens;
  readonly hashing: PasswordHashing;
  readonly passwords: PasswordCheck;
  readonly throttle: Throttle;
  readonly signIn: SignIn;
  readonly registration: Registration;
  readonly secondFactor: SecondFactor;
  readonly enrolment: Enrolment;
  /** Null where no part brings them. */
  readonly passkeys: Passkeys | null;
  readonly backupCodes: BackupCodes;
  readonly sessionRows: SessionRepository;
  /** For what parts call. */
  readonly functions: AuthFunctions;
  readonly adminUsers: AdminUsers;
  /** With cookies. */
  readonly sessions: Sessions;
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
  /** Reports the name of the limit that has rejected something. */
  onLimit(setting: string): void;
  /** Drops cached identities of a user at once, before the database reports the change that this process has made. */
  forget(userId: string): void;
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
  const functions = new AuthFunctions(database, clock, (error) => hookFailures.note(error));
  const repository = new AuthRepository(functions);
  const once = new OneTimeValues(functions);
  const codes = new SignInCodes({ once, box: new SecretBox(deriveKey(secret, "sign-in codes")), clock });
  const wires = new Map<string, Wire>();
  const sessionRows = new SessionRepository(functions, { max: settings.sessionsMax, idle: IDLE_SECONDS });
  const keys = new KeyRepository(functions);
  const factors = new FactorRepository(functions);
  const throttle = new Throttle(repository, settings, onLimit);
  const hashing = new PasswordHashing(hashPassword);
  const passwords = new PasswordCheck({ rules: new PasswordRules(settings), repository, hashing, throttle });
  const csrf = new CsrfTokens(secret);
  const passkeys = createPasskeys?.({ settings, url, functions, secret, clock }) ?? null;
  const factorSecrets = factorKeys(settings, secret);
  const factor = { repository, factors, throttle, passkeys, clock, ...factorSecrets };
  const secondFactor = new SecondFactor(factor);
  const signIn = new SignIn({
    confirms: settings.emailConfirm === "required",
    passwords,
    throttle,
    repository,
    tokens,
    secondFactor,
    passkeys,
  });
  const registration = new Registration({ repository, hashing, throttle, isClosed: !isSignupOpen(settings) });
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
  const keyUses = new KeyUses({ write: (ids) => keys.use(ids), onError });
  const onKeyUsed = (id: string) => keyUses.add(id);
  const sameOrigin = new SameOriginCheck(settings);
  const forStore = {
    ...{ repository, sessionRows, keys, signIn, csrf, sameOrigin },
    ...{ clock, notifications, onKeyUsed },
  };
  const store = identityStore(forStore);
  const forFederated = { settings, providerKinds, url, functions, once, codes, wires, repository, throttle, secret };
  const federated = createFederated?.({ ...forFederated, forget: store.forget, clock, log }) ?? null;
  const enrolment = new Enrolment({ ...factor, issuer: settings.mfaIssuer, forget: store.forget });
  const callers = new CallerResolver({ tokens: verifier, anonymousRole, store, showsCredentials, addressOf });
  const sessions = new Sessions(store.sessions);
  return {
    settings,
    url,
    returnUrls: new ReturnUrls(url, settings.authReturnOrigins, log),
    once,
    codes,
    wires,
    hasAccountPages,
    repository,
    keys,
    factors,
    tokens,
    hashing,
    passwords,
    throttle,
    signIn,
    registration,
    secondFactor,
    enrolment,
    passkeys,
    backupCodes: factorSecrets.backupCodes,
    sessionRows,
    functions,
    adminUsers: new AdminUsers(functions, serviceDatabase),
    sessions,
    csrf,
    sameOrigin,
    callers,
    federated,
    mails,
    hookFailures,
    pageBox: new SecretBox(deriveKey(secret, "account pages")),
    limits: settings,
    clock,
    addressOf,
    follow: (changed) => {
      throttle.limitTo(changed);
      repository.limitAddedUsers(changed.registrationsPerAddress, changed.loginWindow).catch(onError);
      sameOrigin.follow(changed);
      passkeys?.follow(changed);
    },
    forget: store.forget,
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
