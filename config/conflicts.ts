import { refuse } from "./config-error.ts";
import { isLoopbackUrl, isOnLoopback } from "./json-file.ts";
import { isJwk } from "./json-web-keys.ts";
import type { Parsed } from "./settings.ts";

/** Two settings that contradict each other, if they do, and what to write. */
export type Conflict = readonly [exists: boolean, message: string];

/**
 * Refuses settings that contradict each other, before anything is written. `ofParts` are what parts find. Throws ConfigError, which
 * names all contradictions.
 */
export function rejectConflicts(
  parsed: Parsed,
  embedded: boolean,
  needsKeys = true,
  ofParts: readonly Conflict[] = [],
): void {
  const migrate = parsed.migrate !== "off";
  const { jwtSecret } = parsed;
  const jwtIssuers = parsed.jwtIssuers || [];
  const hasKeys = jwtSecret !== "" || parsed.jwtPrivateKey !== "" || (!migrate && jwtIssuers.length > 0);
  const allowsLoopback = parsed.authProvidersNetworks.includes("loopback");
  const conflicts: readonly Conflict[] = [
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
    [parsed.adminPort !== 0 && parsed.adminPort === parsed.port, "ADMIN_PORT must differ from PORT"],
    [!migrate && parsed.seed === "demo", "SEED=demo requires MIGRATE=on"],
    [embedded && parsed.changesUrl !== "", "CHANGES_URL requires DATABASE_URL"],
    [embedded && parsed.databaseReplicaUrls.length > 0, "DATABASE_REPLICA_URLS requires DATABASE_URL"],
    [migrate && parsed.consoleRoles.length > 0, "CONSOLE_ROLES requires MIGRATE=off"],
    [!migrate && parsed.authProviders !== "", "AUTH_PROVIDERS requires MIGRATE=on"],
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
    ...ofParts,
  ];
  refuse(conflicts.flatMap(([exists, message]) => (exists ? message : [])));
}
