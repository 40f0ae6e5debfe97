import type { ClientBase } from "pg";
import type { Config } from "../../config/config.ts";
import { PUBLICATION, publicationIn } from "../../db/changes/changes-config.ts";
import { loginsOfCallers } from "../../db/cluster/provision.ts";
import type { AdviceOptions } from "./advisor.ts";

/** The roles of callers in a database that the service migrates, without the role of anonymous callers. */
const CALLER_ROLES = ["authenticated", "admin", "users_editor"];

/** The roles of callers that the settings name. */
export const rolesOfCallers = ({
  isManaged,
  dbAnonRole,
}: Pick<Config, "isManaged" | "dbAnonRole">): readonly string[] => [dbAnonRole, ...(isManaged ? CALLER_ROLES : [])];

type Settings = Pick<Config, "isManaged" | "hasFeed" | "dbAnonRole">;
type Setup = Pick<AdviceOptions, "logins" | "roles" | "publication" | "mayLackPublication">;

/** The roles of callers, together with these logins, which take them on. Without the module feed, a DBA manages the publication. */
export const setupWith = async (client: ClientBase, logins: readonly string[], settings: Settings): Promise<Setup> => ({
  logins,
  roles: rolesOfCallers(settings),
  publication: settings.hasFeed ? null : ((await publicationIn(client)) ?? PUBLICATION),
  mayLackPublication: settings.isManaged,
});

/** The same for a command that is connected as the owner. */
export async function setupOf(client: ClientBase, config: Settings): Promise<Setup> {
  return setupWith(client, await loginsOfCallers(client, config), config);
}
