import { changedMigrations, newerMigrations, newerModules } from "../../../db/cluster/migrate.ts";
import type { MigrationState } from "../../../db/cluster/migration-state.ts";
import { compareVersions, VERSION } from "../../../db/cluster/modules.ts";

/** What a start warns about, as its log has it. */
export function warningsIn({ modules, migrations, changed }: MigrationState): readonly string[] {
  const newer = migrations.filter(({ isNewer }) => isNewer).map(({ file }) => file);
  const newest = modules
    .flatMap(({ version }) => version ?? [])
    .sort(compareVersions)
    .at(-1);
  return [
    ...(newest !== undefined && compareVersions(newest, VERSION) > 0 ? [newerModules(newest)] : []),
    ...(newer.length > 0 ? [newerMigrations(newer)] : []),
    ...(changed.length > 0 ? [changedMigrations(changed)] : []),
  ];
}
