import type { Configured } from "../app/configured.ts";
import { COMMAND } from "../config/command.ts";
import { SETTINGS } from "../config/settings.ts";
import { shownKey } from "../identity/keys.ts";
import type { Tokens } from "../identity/tokens.ts";
import { quoted } from "./command.ts";
import { probesOf } from "./ready.ts";

/** A service that has started. */
type Ready = { readonly url: string; readonly tokens: Tokens };

/** A page of a part. `banner` is its name here; without one it is left out. */
type Page = {
  readonly path: string;
  readonly banner?: string;
  readonly signIn?: string;
  readonly isForOperators?: boolean;
};

/** How long the link to the console is good for: as long as a sign-in there. */
const LINK_SECONDS = 8 * 3600;

const LOOPBACK = new Set(["127.0.0.1", "localhost", "::1"]);

/** Prints the URLs of the service, what is open to every caller, the keys of an embedded database, and the accounts of SEED=demo. */
export function printBanner({ config, application }: Configured, { url, tokens }: Ready, pages: readonly Page[]): void {
  const rows: [string, string][] = [];
  const operators = config.adminPort === 0 ? url : probesOf(config);
  const isOwnMachine = config.embedded && LOOPBACK.has(config.host);
  const signInOf = (path: string) =>
    `${path}#${tokens.issueKey("service_role", { jti: "console", seconds: LINK_SECONDS })}`;
  for (const { banner, path, signIn, isForOperators } of pages) {
    const target = signIn !== undefined && isOwnMachine ? signInOf(signIn) : path;
    if (banner !== undefined) rows.push([banner, `${isForOperators ? operators : url}${target}`]);
  }
  rows.push(["Tables", `${url}/rest/v1/`]);
  if (config.hasGraphQL)
    rows.push(["GraphQL", `${url}/graphql`], ["Subscriptions", `${url.replace(/^http/, "ws")}/graphql`]);
  rows.push(["Health", `${operators}/health`]);
  if (config.hasAuth) {
    rows.push(["Sign in", `POST ${url}/auth/login`]);
    for (const { name, editor } of application.resources)
      if (editor?.isOpen)
        rows.push([
          capitalized(name),
          `PUT, PATCH and DELETE need no credentials: without them, the role is ${editor.role}`,
        ]);
  }
  if (config.embedded) {
    // The shell in which this is typed has not the environment of the service.
    const chosen = config.dataDir === SETTINGS.DATA_DIR.fallback ? "" : `DATA_DIR=${quoted(config.dataDir)} `;
    rows.push(["Database", `psql "$(${chosen}${COMMAND} url)"`]);
    rows.push(["anon key", shownKey(tokens, "anon")], ["service key", shownKey(tokens, "service_role")]);
    rows.push(["Keys", "valid for ten years; until the year ends, each start prints the same"]);
  } else if (config.hasAuth && config.apiKeyRequired) rows.push(["API keys", `${COMMAND} key create anon web`]);
  if (config.seed === "demo" && application.seedAccounts !== null)
    rows.push(["Demo accounts", application.seedAccounts]);
  const width = Math.max(...rows.map(([name]) => name.length));
  process.stdout.write(`\n${rows.map(([name, value]) => `  ${name.padEnd(width)}  ${value}`).join("\n")}\n\n`);
}

/** `users` → `Users` */
const capitalized = (name: string) => `${name[0]!.toUpperCase()}${name.slice(1)}`;
