// What the login of DATABASE_URL may not do, as the statements that let it.
import type { ClientBase } from "pg";
import type { MissingRights, RightsUse } from "../../../service/part.ts";
import { choose } from "./choice.ts";
import { grantsFor, type Preparation, preparationFor, roleMakerFor, whoRuns } from "./preparation.ts";
import { readSurvey } from "./survey.ts";

/** What the login lacks to install the modules, to run migrations, and for each start. Null if it lacks nothing. */
export async function missingRights(
  client: ClientBase,
  { runsMigrations, makesRoles, schemas }: RightsUse,
): Promise<MissingRights | null> {
  const survey = await readSurvey(client);
  const chosen = choose(survey);
  const migrate = runsMigrations ? "on" : "modules";
  const choice = { ...chosen, migrate, schemas: schemas ?? chosen.schemas } as const;
  const missing =
    survey.installedId === null
      ? preparationFor(survey, choice)
      : [...(makesRoles ? roleMakerFor(survey.login) : []), ...grantsFor(survey, choice)];
  if (missing.length === 0) return null;
  const cure = `${whoRuns(missing)}, run:${missing.map(({ sql }) => `\n  ${sql}`).join("")}`;
  return { cure, stopsFirst: stopsStart(missing, true), stopsLater: stopsStart(missing, false) };
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
