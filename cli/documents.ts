import { type GraphQLError, type GraphQLSchema, parse, validate } from "postgraphile/graphql";
import type { Configured } from "../app/configured.ts";
import { COMMAND } from "../config/command.ts";
import { ConfigError, type Environment } from "../config/config.ts";
import { readManifest } from "../config/trusted-documents.ts";
import { loginsOfCallers } from "../db/cluster/provision.ts";
import { buildSchema } from "../graphql/schema/schema.ts";
import { CommandError, defineCommand, readService, withOwner } from "./command.ts";
import { withSchemaOptions } from "./open-core.ts";

const HELP = `\
Checks trusted documents against the GraphQL schema of the database.

  ${COMMAND} documents check                 check the files in GRAPHQL_DOCUMENTS
  ${COMMAND} documents check manifest.json   check these files
  ${COMMAND} documents --help                show this help

Exits with 1 if a document is not valid, for example because a field was removed or an argument became required.
The command uses the settings of the service: DATABASE_URL, or the embedded database while the service runs.
`;

export const documents = defineCommand({
  name: "documents",
  help: HELP,
  maxArguments: Number.POSITIVE_INFINITY,
  async run({ args: [command, ...files], refuse }, environment?: Environment) {
    if (command !== "check") throw refuse("the command must be check");
    const configured = await readService(environment);
    const { config } = configured;
    const given = files.length > 0 ? readFiles(files) : [...config.graphqlDocuments.byId];
    if (given.length === 0) throw new CommandError(2, "no documents: name a file, or set GRAPHQL_DOCUMENTS");
    const { schema } = await readSchema(configured);
    const faults = given.flatMap(([id, document]) => faultsOf(schema, document).map((fault) => `${id}: ${fault}`));
    if (faults.length > 0) throw new CommandError(1, faults.join("\n"));
    return `${given.length} ${given.length === 1 ? "document is" : "documents are"} valid\n`;
  },
});

function faultsOf(schema: GraphQLSchema, document: string): string[] {
  try {
    return validate(schema, parse(document)).map(textOf);
  } catch (error) {
    return [textOf(error as GraphQLError)];
  }
}

/** `Cannot query field "titel" on type "Post". (line 2)` */
const textOf = ({ message, locations }: GraphQLError): string =>
  locations?.[0] ? `${message} (line ${locations[0].line})` : message;

const readFiles = (files: readonly string[]): [string, string][] =>
  files.flatMap((file) => {
    try {
      return readManifest(file);
    } catch (error) {
      throw new CommandError(2, `${file}: ${(error as Error).message}`);
    }
  });

/** The schema that the service serves: its login, and not the owner, decides what it contains. */
async function readSchema(configured: Configured) {
  const { config } = configured;
  const [login] = await withOwner(config, (client) => loginsOfCallers(client, config));
  return withSchemaOptions(configured, login!, buildSchema).catch((error: Error) => {
    if (error instanceof ConfigError) throw error;
    throw new CommandError(1, `the schema cannot be built: ${error.message}`);
  });
}
