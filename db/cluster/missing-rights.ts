// What the login of DATABASE_URL may not do, as the statements that let it.
import pg from "pg";
import { choose } from "../existing/choice.ts";
import { grantsFor, type Preparation, preparationFor, roleMakerFor, whoRuns } from "../existing/preparation.ts";
import { readSurvey } from "../existing/survey.ts";
import { withClient } from "./client.ts";
import { MigrationFailure } from "./migration-failure.ts";

type Use = {
  /** Whether the service runs migrations of the application. */
  readonly runsMigrations: boolean;
  /** Whether a start makes roles, and renews their passwords. */
  readonly makesRoles: boolean;
  /** The served schemas; without them, those that `init` would choose. */
  readonly schemas?: readonly string[];
};

/** What the login lacks to install the modules, to run migrations, and for each start. Empty if it lacks nothing. */
export async function missingRights(
  client: pg.Client,
  { runsMigrations, makesRoles, schemas }: Use,
): Promise<readonly Preparation[]> {
  const survey = await readSurvey(client);
  const chosen = choose(survey);
  const migrate = runsMigrations ? "on" : "modules";
  const choice = { ...chosen, migrate, schemas: schemas ?? chosen.schemas } as const;
  return survey.installedId === null
    ? preparationFor(survey, choice)
    : [...(makesRoles ? roleMakerFor(survey.login) : []), ...grantsFor(survey, choice)];
}

/**
 * Whether a start would fail. A managed server keeps bypassrls for itself, and everything but the service key works. After the first start,
 * only what makes something new fails for the other rights.
 */
export const stopsStart = (missing: readonly Preparation[], isFirst: boolean): boolean =>
  missing.some(({ sql }) =>
    isFirst
      ? !/^(create|alter) role service_role bypassrls;$|^grant service_role to \S+ with admin option;$/.test(sql)
      : / createrole;$/.test(sql),
  );

/** `As postgres, or as a superuser of the server, run: grant create on schema public to shop_owner;` */
export const cureFor = (statements: readonly Preparation[]): string =>
  `${whoRuns(statements)}, run:${statements.map(({ sql }) => `\n  ${sql}`).join("")}`;

/** The failure of a migration at the database of `url`; if a right was missing, with the statements that give it. */
export async function withMissingRights(error: unknown, url: string, runsMigrations: boolean): Promise<unknown> {
  const cause = (error as Error).cause ?? error;
  if (!(cause instanceof pg.DatabaseError) || cause.code !== "42501") return error;
  const [, refused] = /^permission denied for schema (.+)$/.exec(cause.message) ?? [];
  const schemas = refused === undefined ? undefined : [refused];
  const missing = await withClient(url, (client) =>
    missingRights(client, { runsMigrations, makesRoles: true, schemas }),
  ).catch(() => []);
  if (missing.length === 0) return error;
  return new MigrationFailure(`${(error as Error).message}\n${cureFor(missing)}`, { cause });
}
