// Finds mistakes in the database, the connection to it, and the settings of identity providers and trusted issuers.

import { CommandError, defineCommand, ownerUrl, readService, withOwner } from "../../../cli/command.ts";
import { readProviders } from "../../../cli/open-parts.ts";
import { COMMAND } from "../../../config/command.ts";
import type { Config, Environment } from "../../../config/config.ts";
import { ConfigError } from "../../../config/config-error.ts";
import { isLoopbackUrl } from "../../../config/json-file.ts";
import type { ProviderSettings } from "../../../config/provider-entry.ts";
import type { ProviderReader } from "../../../config/providers.ts";
import type { TrustedIssuer } from "../../../config/trusted-issuers.ts";
import { type Check, checkKeys, error, note, warning } from "../../../identity/diagnosis.ts";
import { createOutbound, type Outbound } from "../../../identity/outbound.ts";
import { discover } from "../../../identity/remote-keys.ts";
import type { Registration } from "../../../rest-gateway/auth/federated.ts";
import { checkDatabase, type DatabaseChecks } from "./database-checks.ts";

const HELP = `\
Finds mistakes in the database and the connection to it, or in the settings of identity providers and trusted issuers.

  ${COMMAND} doctor                    check the database
  ${COMMAND} doctor federated          check all providers (AUTH_PROVIDERS, auth_private.providers) and JWT_ISSUERS
  ${COMMAND} doctor federated <name>   check one provider
  ${COMMAND} doctor --help             show this help

For the database it prints one line per finding, with the fix: connection, version, roles, grants, passwords of the logins, migrations, how changes of rows
and of the schema are noticed, pooler, clock, extensions, settings, accounts, and the errors and warnings of ${COMMAND} advise. What
the log of a start warns about is among them. It changes nothing.

For each provider it prints what to register there, reads the metadata and keys, checks that the provider knows the
client, and opens the URL at which a sign-in begins. It signs no user in, and prints no secret.

The exit code is 1 if there is an error, otherwise 0. Advice about your tables, policies and functions comes last, and is not counted: the
service runs with it, and much of it may be older than the service. ${COMMAND} advise counts it. The command uses the settings of the service.
`;

/** If a check has found an error, the exit code is 1. */
export const doctor = defineCommand({
  name: "doctor",
  help: HELP,
  maxArguments: 2,
  async run({ args: [topic, name], refuse }, environment?: Environment) {
    if (topic !== "federated" && topic !== undefined) throw refuse("the topic must be federated or absent");
    const configured = await readService(environment);
    const { config } = configured;
    if (topic === undefined) return reportOf(await checkDatabase(ownerUrl(config), configured));
    const baseUrl = config.baseUrl || `http://${config.host}:${config.port}`;
    const general = [...checkBaseUrl(config)];
    const { reader, diagnose } = await readProviders(configured);
    const providers = [...reader.readFile(), ...(await providersOfTable(config, reader, general))];
    const chosen = providers.filter((provider) => name === undefined || provider.name === name);
    if (name !== undefined && chosen.length === 0) throw new CommandError(1, `there is no provider ${name}`);
    const outbound = createOutbound(config);
    const issuers = name === undefined ? config.jwtIssuers : [];
    const found = await Promise.all([
      ...chosen.map(async (provider) => {
        const { protocol, registration, checks } = await diagnose(provider, { baseUrl, outbound, now: Date.now() });
        return { title: titleOf(provider, protocol, registration), checks };
      }),
      ...issuers.map(async (issuer) => ({
        title: `${issuer.issuer}: trusted issuer`,
        checks: await diagnoseIssuer(issuer, outbound),
      })),
    ]);
    const all = [...general, ...found.flatMap(({ checks }) => checks)];
    const blocks = found.map(({ title, checks }) => [title, ...checks.map((check) => `  ${lineOf(check)}`)].join("\n"));
    const none = found.length === 0 ? ["there are no providers: set AUTH_PROVIDERS"] : [];
    const output = `${[...general.map(lineOf), ...none, ...blocks].join("\n")}\n`;
    if (all.some(({ level }) => level === "error")) throw new CommandError(1, "there are errors", output);
    return output;
  },
});

/** Above advice, most of which is about what was there before the service. */
const ABOUT_TABLES = `
Of your tables, policies and functions. The service runs with these, and the exit code does not count them; ${COMMAND} advise does:`;

/** One line per check. Throws CommandError with them if the service cannot run, or cannot run as it should. */
function reportOf({ service, advice }: DatabaseChecks): string {
  const isAbout = advice.some(({ level }) => level !== "ok");
  const lines = [...service.map(lineOf), ...(isAbout ? [ABOUT_TABLES] : []), ...advice.map(lineOf)];
  const output = `${lines.join("\n")}\n`;
  if (service.some(({ level }) => level === "error")) throw new CommandError(1, "there are errors", output);
  return output;
}

/** Checks an issuer of JWT_ISSUERS by reading its keys. */
async function diagnoseIssuer({ issuer, jwksUrl }: TrustedIssuer, outbound: Outbound): Promise<readonly Check[]> {
  try {
    return [await checkKeys(jwksUrl ?? String((await discover(issuer, outbound)).jwks_uri), outbound)];
  } catch (cause) {
    return [error(`${(cause as Error).message}. The issuer must be exactly as its tokens spell it; or set jwksUrl`)];
  }
}

function* checkBaseUrl({ baseUrl }: Config): Generator<Check> {
  if (baseUrl === "") {
    yield warning("BASE_URL is not set: providers send browsers to the URL that the service listens on");
  } else if (!baseUrl.startsWith("https:") && !isLoopbackUrl(baseUrl)) {
    yield error("BASE_URL is not https: browsers do not store the cookies of a sign-in");
  }
}

/** The providers of the table `auth_private.providers`. If one cannot be used, the reason is added to `checks`. */
async function providersOfTable(
  config: Config,
  reader: ProviderReader,
  checks: Check[],
): Promise<readonly ProviderSettings[]> {
  if (!config.hasAuth) return [];
  let rows: readonly { readonly name: string; readonly definition: Readonly<Record<string, unknown>> }[];
  try {
    rows = await withOwner(
      config,
      async (client) => (await client.query("select name, definition from auth_private.providers order by name")).rows,
    );
  } catch (cause) {
    checks.push(note(`the providers of the table are not checked: ${(cause as Error).message}`));
    return [];
  }
  const taken = new Set(reader.readFile().map(({ name }) => name));
  return rows.flatMap(({ name, definition }) => {
    try {
      if (!taken.has(name)) return [reader.readRow(name, definition)];
      checks.push(error(`the provider ${name} of the table is not used: AUTH_PROVIDERS has one of this name`));
    } catch (cause) {
      if (!(cause instanceof ConfigError)) throw cause;
      checks.push(error(cause.message));
    }
    return [];
  });
}

const titleOf = ({ name }: ProviderSettings, protocol: string, registration: Registration): string =>
  [`${name}: ${protocol}`, ...registration.map(([what, url]) => `  register  ${what}: ${url}`)].join("\n");

const lineOf = ({ level, text }: Check) => `${level.padEnd(8)}  ${text}`;
