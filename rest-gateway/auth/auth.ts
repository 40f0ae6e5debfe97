import type pg from "pg";
import type { Logger } from "pino";
import type { Notifications } from "../../db/follow/notifications.ts";
import type { Transactions } from "../../db/transaction/transaction.ts";
import type { BodyLimits } from "../../gate/pipeline/body.ts";
import type { AddressReader } from "../../gate/pipeline/exchange.ts";
import type { Clock } from "../../identity/account.ts";
import { CallerResolver } from "../../identity/caller-resolver.ts";
import { CsrfTokens } from "../../identity/credentials.ts";
import type { IdentityStore } from "../../identity/identity-store.ts";
import { KeyUses } from "../../identity/keys.ts";
import type { Sender } from "../../identity/sender.ts";
import type { Tokens } from "../../identity/tokens.ts";
import type { Verifier } from "../../identity/verified-tokens.ts";
import { AdminUsers } from "./admin-users.ts";
import type { Federated } from "./federated.ts";
import { AuthFunctions, type Database, seconds } from "./functions.ts";
import { HookFailures } from "./hook-failures.ts";
import { Housekeeping, purge, purgeAnonymous } from "./housekeeping.ts";
import { identityStore } from "./identity-store.ts";
import { useKeys } from "./keys.ts";
import type { AuthSettings } from "./limits.ts";
import type { Mails } from "./mail/mails.ts";
import type { AuthParts } from "./parts.ts";
import type { Passkeys } from "./passkeys/passkeys.ts";
import { type HashPassword, PasswordHashing, PasswordRules } from "./passwords.ts";
import { isSignupOpen } from "./registration.ts";
import { ReturnUrls } from "./return-urls.ts";
import { SameOriginCheck } from "./same-origin.ts";
import { type BackupCodes, type FactorSettings, factorKeys } from "./second-factor.ts";
import { deriveKey, resealFactors, SecretBox } from "./secret-box.ts";
import type { ThrottleState } from "./throttle.ts";
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

/** What runs statements: they count for the sender of a request. */
export type BoundAuth = Database & {
  /** Null for work of the service. */
  readonly sender: Sender | null;
  /** Null where no part brings them. */
  readonly passkeys: Passkeys | null;
  readonly adminUsers: AdminUsers;
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
  readonly passwordRules: PasswordRules;
  readonly throttle: ThrottleState;
  /** Encrypts the secrets of second factors. */
  readonly factorBox: SecretBox;
  readonly backupCodes: BackupCodes;
  readonly csrf: CsrfTokens;
  readonly sameOrigin: SameOriginCheck;
  readonly callers: CallerResolver;
  readonly store: IdentityStore;
  /** Null where no part brings it. */
  readonly federated: Federated | null;
  /** Null where no part brings them. */
  readonly mails: Mails | null;
  readonly hookFailures: HookFailures;
  /** Encrypts what sign-in codes stand for. */
  readonly codeBox: SecretBox;
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
  const throttle: ThrottleState = { limits: settings, waiting: 0, onLimit };
  const passkeysOfService = createPasskeys?.({ settings, url, functions: ofService, secret, clock }) ?? null;
  const factorSecrets = factorKeys(settings, secret);
  const from = (sender: Sender | null): BoundAuth => {
    const functions = sender === null ? ofService : ofService.from(sender);
    const passkeys = passkeysOfService?.from(functions) ?? null;
    return { functions, sender, passkeys, adminUsers: new AdminUsers(functions, serviceDatabase) };
  };
  const csrf = new CsrfTokens(secret);
  const sameOrigin = new SameOriginCheck(settings);
  const keyUses = new KeyUses({ write: (ids) => useKeys(bound, ids), onError });
  const onKeyUsed = (id: string) => keyUses.add(id);
  const fromSender = (sender: Sender | null): Auth => ({ ...auth, ...from(sender) });
  const store = identityStore({ from: fromSender, csrf, sameOrigin, clock, notifications, onKeyUsed });
  const bound = from(null);
  const { functions } = bound;
  const mails = createMails?.({ settings, functions, folder, hasTasks, secret, url, log }) ?? null;
  const purges = [() => purge(functions, settings), () => purgeAnonymous(functions), async () => mails?.purge()];
  const housekeeping = new Housekeeping({ purges, onError });
  const federated = createFederated?.({ settings, providerKinds, url, functions, secret, clock, log }) ?? null;
  const auth: Auth = {
    ...bound,
    from,
    settings,
    url,
    returnUrls: new ReturnUrls(url, settings.authReturnOrigins, log),
    wires: new Map(),
    hasAccountPages,
    tokens,
    hashing: new PasswordHashing(hashPassword),
    passwordRules: new PasswordRules(settings),
    throttle,
    factorBox: factorSecrets.box,
    backupCodes: factorSecrets.backupCodes,
    csrf,
    sameOrigin,
    callers: new CallerResolver({ tokens: verifier, anonymousRole, store, showsCredentials, addressOf }),
    store,
    federated,
    mails,
    hookFailures,
    codeBox: new SecretBox(deriveKey(secret, "sign-in codes")),
    pageBox: new SecretBox(deriveKey(secret, "account pages")),
    limits: settings,
    clock,
    addressOf,
    follow: (changed) => {
      throttle.limits = changed;
      limitAddedUsers(functions, changed).catch(onError);
      sameOrigin.follow(changed);
      passkeysOfService?.follow(changed);
    },
    onLimit,
    start: async () => {
      await limitAddedUsers(functions, settings);
      await federated?.load();
      notifications.onIdentityChange((change) => {
        if (change === "providers" || change === "back") federated?.load().catch(onError);
      });
      await useSettings(functions, settings, mails?.isOn === true);
      mails?.start();
    },
    startHousekeeping: () => housekeeping.start(),
    close: async () => {
      mails?.close();
      await Promise.all([housekeeping.close(), keyUses.close()]);
    },
  };
  return auth;
}

/** Limits the users that callers of the interfaces add, in one network and within the window. */
async function limitAddedUsers(functions: AuthFunctions, settings: AuthSettings): Promise<void> {
  const values = [String(settings.registrationsPerAddress), seconds(settings.loginWindow)];
  await functions.call("limit_added_users($1::integer, $2::interval)", values);
}

/** Stores settings that functions of the database read, and whether e-mails are sent or kept. */
async function useSettings(functions: AuthFunctions, settings: AuthSettings, hasMail: boolean): Promise<void> {
  const stored = {
    mail: hasMail ? "on" : "off",
    mails_per_recipient: String(settings.mailsPerRecipient),
    email_confirm: settings.emailConfirm,
    signup: isSignupOpen(settings) ? "open" : settings.signup,
    users_email: settings.usersEmail,
  };
  await functions.call("use_settings($1::jsonb)", [JSON.stringify(stored)]);
}

/** Encrypts second factors again that are encrypted with the previous MFA_KEY. */
export async function updateAccounts(
  owner: pg.Client,
  settings: FactorSettings,
  secret: string,
  log: Logger,
): Promise<void> {
  if (settings.mfaPreviousKey !== "") await resealFactors(owner, factorKeys(settings, secret).box, log);
}
