import { COMMAND } from "../config/command.ts";
import type { Config } from "../config/config.ts";
import type { Tokens } from "../identity/tokens.ts";

/** A service that has started. */
type Ready = { readonly url: string; readonly tokens: Tokens };

/** Prints the URLs of the service, the keys of an embedded database, and the accounts of SEED=demo. */
export function printBanner(config: Config, { url, tokens }: Ready): void {
  const rows: [string, string][] = [];
  rows.push(["Start page", `${url}/`], ["Tables", `${url}/rest/v1/`], ["Health", `${url}/health`]);
  if (config.docs) rows.push(["Reference", `${url}/docs`]);
  if (config.console && config.adminPort === 0) rows.push(["Console", `${url}/console`]);
  if (config.graphqlMaxTables > 0) {
    rows.push(["GraphQL", `${url}/graphql`], ["Subscriptions", `${url.replace(/^http/, "ws")}/graphql`]);
    if (config.graphiql) rows.push(["Explorer", `${url}/graphiql`]);
  }
  if (config.migrate) {
    const writers = config.usersWrite === "open" ? "open to everyone" : "by the user and admins";
    rows.push(["Sign in", `POST ${url}/auth/login`]);
    rows.push(["Users", `PUT, PATCH and DELETE ${writers} (USERS_WRITE=${config.usersWrite})`]);
  }
  if (config.embedded) {
    rows.push(["Database", `psql "$(${COMMAND} url)"`]);
    rows.push(["anon key", tokens.issueKey("anon")], ["service key", tokens.issueKey("service_role")]);
  }
  if (config.seed === "demo") {
    rows.push(["Demo accounts", "ada, bob, admin (carol is disabled), password Correct-Horse-7!"]);
  }
  const width = Math.max(...rows.map(([name]) => name.length));
  process.stdout.write(`\n${rows.map(([name, value]) => `  ${name.padEnd(width)}  ${value}`).join("\n")}\n\n`);
}
