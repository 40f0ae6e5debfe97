import type { Role, Setting, TablePrivilege } from "./catalog.ts";
import type { AclRow, RoleRow } from "./rows/roles.ts";
import type { Oid } from "./rows/types.ts";

type TableGrants = ReadonlyMap<string, ReadonlySet<TablePrivilege>>;

const PUBLIC = "public";
const NOBODY: TableGrants = new Map();

/** Who has been granted what. Lists that read the same are one object. */
export class Grants {
  readonly #roles: ReadonlyMap<Oid, string>;
  readonly #byAcl = new Map<string, Map<string, Set<string>>>();

  constructor(acls: readonly AclRow[], roles: readonly RoleRow[]) {
    this.#roles = new Map([["0", PUBLIC], ...roles.map(({ oid, name }) => [oid, name] as const)]);
    for (const { acl, grants } of acls) this.#byAcl.set(acl, this.#byGrantee(grants));
  }

  /** `{anon=r/postgres}` → `{ anon: { select } }`. Without a list nobody but the owner has rights. */
  onTable(acl: string | null): TableGrants {
    return acl === null ? NOBODY : (this.#byAcl.get(acl) as TableGrants);
  }

  /** Without a list everybody may execute. */
  onFunction(acl: string | null): ReadonlySet<string> {
    return acl === null ? new Set([PUBLIC]) : new Set(this.#byAcl.get(acl)!.keys());
  }

  /** A role that has been dropped since counts as nobody. */
  roleOf(oid: Oid): string {
    return this.#roles.get(oid) ?? "";
  }

  #byGrantee(grants: AclRow["grants"]): Map<string, Set<string>> {
    const byGrantee = new Map<string, Set<string>>();
    for (const { grantee, privilege } of grants) {
      const name = this.roleOf(grantee);
      byGrantee.set(name, (byGrantee.get(name) ?? new Set()).add(privilege));
    }
    return byGrantee;
  }
}

export function buildRoles(rows: readonly RoleRow[]): ReadonlyMap<string, Role> {
  const byOid = new Map(rows.map((row) => [row.oid, row]));
  return new Map(
    rows.map((row) => {
      const settings = new Map([...parseSettings(row.settings), ...parseSettings(row.databaseSettings)]);
      const inherits = new Set([...inherited(row, byOid), PUBLIC]);
      return [
        row.name,
        Object.freeze({ name: row.name, inherits, isSuperuser: row.isSuperuser, settings: [...settings] }),
      ];
    }),
  );
}

/** The names of the role and of all whose rights it has. */
function inherited(row: RoleRow, byOid: ReadonlyMap<Oid, RoleRow>, names = new Set<string>()): Set<string> {
  if (names.has(row.name)) return names;
  names.add(row.name);
  for (const oid of row.inherits) {
    const parent = byOid.get(oid);
    if (parent) inherited(parent, byOid, names);
  }
  return names;
}

/** `["statement_timeout=3s"]` → `[["statement_timeout", "3s"]]` */
export const parseSettings = (settings: readonly string[] | null): readonly Setting[] =>
  (settings ?? []).map((setting) => {
    const end = setting.indexOf("=");
    return [setting.slice(0, end), setting.slice(end + 1)];
  });
