import { refuse } from "./config-error.ts";
import { isLoopbackUrl, isOnLoopback } from "./json-file.ts";
import { isJwk } from "./json-web-keys.ts";
import { moduleSettings } from "./modules.ts";
import { hasDomain } from "./setting-types.ts";
import type { Parsed } from "./settings.ts";

/** Refuses settings that contradict each other, before anything is written. Throws ConfigError, which names all contradictions. */
export function rejectConflicts(parsed: Parsed, embedded: boolean, needsKeys = true): void {
  const migrate = parsed.migrate !== "off";
  const { hasAuth, hasTasks } = moduleSettings(parsed);
  const { jwtSecret } = parsed;
  const jwtIssuers = parsed.jwtIssuers || [];
  const hasKeys = jwtSecret !== "" || parsed.jwtPrivateKey !== "" || (!migrate && jwtIssuers.length > 0);
  const allowsLoopback = parsed.authProvidersNetworks.includes("loopback");
  const conflicts: readonly (readonly [exists: boolean, message: string])[] = [
    [
      // With MIGRATE=off and API_KEY_REQUIRED=off the service can run without tokens.
      needsKeys && !embedded && !hasKeys && (migrate || parsed.apiKeyRequired),
      "JWT_SECRET (or JWT_PRIVATE_KEY) is required with DATABASE_URL",
    ],
    [embedded && parsed.databaseDirectUrl !== "", "DATABASE_DIRECT_URL requires DATABASE_URL"],
    [
      embedded && parsed.takeover !== "",
      "TAKEOVER requires DATABASE_URL: only one process can run the embedded database",
    ],
    [parsed.takeover !== "" && parsed.port === 0, "TAKEOVER requires a PORT, which both services share"],
    [parsed.takeover !== "" && process.platform !== "linux", "TAKEOVER requires Linux"],
    [embedded && !migrate, "MIGRATE=off requires DATABASE_URL"],
    [
      embedded && parsed.taskConcurrency === 0,
      "TASK_CONCURRENCY=0 requires DATABASE_URL: no other instance can run the tasks of the embedded database",
    ],
    [
      /^smtps?:/.test(parsed.mailUrl) && parsed.mailFrom === "",
      "MAIL_URL requires MAIL_FROM, the sender of the e-mails",
    ],
    [
      /^https?:/.test(parsed.mailUrl) && parsed.mailSecret === "",
      "MAIL_URL with a webhook requires MAIL_SECRET, which signs its requests",
    ],
    [!migrate && parsed.mailUrl !== "", "MAIL_URL requires MIGRATE=on"],
    [
      hasAuth && parsed.emailConfirm !== "off" && !(hasTasks && (parsed.mailUrl !== "" || embedded)),
      `EMAIL_CONFIRM=${parsed.emailConfirm} requires MAIL_URL and the module tasks, which send the e-mails`,
    ],
    [parsed.adminPort !== 0 && parsed.adminPort === parsed.port, "ADMIN_PORT must differ from PORT"],
    [!migrate && parsed.seed === "demo", "SEED=demo requires MIGRATE=on"],
    [embedded && parsed.changesUrl !== "", "CHANGES_URL requires DATABASE_URL"],
    [embedded && parsed.databaseReplicaUrls.length > 0, "DATABASE_REPLICA_URLS requires DATABASE_URL"],
    [migrate && parsed.consoleRoles.length > 0, "CONSOLE_ROLES requires MIGRATE=off"],
    [migrate && Boolean(parsed.dbConfig), "DB_CONFIG requires MIGRATE=off"],
    [!migrate && parsed.authProviders !== "", "AUTH_PROVIDERS requires MIGRATE=on"],
    [!hasDomain(parsed.baseUrl, parsed.passkeyDomain), "PASSKEY_DOMAIN must be that of BASE_URL, or one above it"],
    [parsed.authReturnOrigins.includes("*"), "AUTH_RETURN_ORIGINS must not be *: every page could receive sign-ins"],
    [migrate && parsed.dbAnonRole === "", "DB_ANON_ROLE=none requires MIGRATE=off"],
    [migrate && parsed.jwtRoleClaim.join() !== "role", "JWT_ROLE_CLAIM requires MIGRATE=off"],
    [!migrate && parsed.jwtPreviousKey !== "", "JWT_PREVIOUS_KEY requires MIGRATE=on"],
    // The service needs a secret to sign with, and a JSON Web Key may be a public key.
    [migrate && isJwk(jwtSecret), "JWT_SECRET is a JSON Web Key, which requires MIGRATE=off"],
    [
      allowsLoopback && !isOnLoopback(parsed),
      "AUTH_PROVIDERS_NETWORKS=loopback is for tests: it requires BASE_URL, or HOST, on a loopback address",
    ],
    [
      !allowsLoopback &&
        jwtIssuers.some(({ issuer, jwksUrl }) => isLoopbackUrl(issuer) || isLoopbackUrl(jwksUrl ?? issuer)),
      "JWT_ISSUERS names an issuer on a loopback address, which requires AUTH_PROVIDERS_NETWORKS=loopback",
    ],
  ];
  refuse(conflicts.flatMap(([exists, message]) => (exists ? message : [])));
}
