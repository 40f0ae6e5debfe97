import { ANNOUNCER } from "../../../db/follow/notifications.ts";
import { SERVICE_ROLES, SERVICE_SCHEMAS } from "../existing/survey-queries.ts";
import type { DbObject } from "./describe.ts";

/** A difference between a database and what its migrations make. */
export type Drift = {
  /** Whose migrations make the object: those of the application, or the modules of the service. */
  readonly of: "application" | "service";
  readonly state: "missing" | "changed" | "extra";
  /** `column` */
  readonly kind: string;
  /** `public.notes.title` */
  readonly name: string;
  /** As the migrations make it: `text, not null`. Null for an extra object. */
  readonly expected: string | null;
  /** As the database has it. Null for a missing object. */
  readonly actual: string | null;
};

/** What of a database is compared. */
export type DriftScope = {
  /** Schemas of modules that the database does not have, or of another version; null for what is in no schema. */
  readonly notCompared: readonly (string | null)[];
  /** Whether migrations of the application make its tables. */
  readonly hasApplication: boolean;
  /** The role that owns the modules. */
  readonly owner: string;
  readonly isSuperuser: boolean;
  /** Whether the schema `auth` is of something else. */
  readonly hasForeignAuth: boolean;
  /** The logins of the service, to which each start grants what they need. */
  readonly logins: readonly string[];
  /** The role of anonymous callers. Each start grants it the rights of `anon` on tasks. */
  readonly anonymousRole: string;
};

export type DatabaseComparison = {
  readonly drift: readonly Drift[];
  /** How many objects were compared. */
  readonly objects: number;
  /** Schemas in which no migration makes anything. They are not compared. */
  readonly foreignSchemas: readonly string[];
};

type Difference = Drift & Pick<DbObject, "schema" | "owner">;

/** Compares the objects that migrations make with those of a database. Parts of a missing or an extra object are left out. */
export function compareObjects(
  expected: readonly DbObject[],
  actual: readonly DbObject[],
  scope: DriftScope,
): DatabaseComparison {
  const schemas = schemasIn(expected, scope);
  // The schema public has another owner on older servers, and where a DBA has chosen one.
  const hosts = [...expected, ...actual].flatMap(({ kind, name, description }) =>
    kind === "schema" && name === "public" ? [description.replace("owner ", "")] : [],
  );
  const isCompared = (object: DbObject) =>
    (partOf(object, scope) === "service"
      ? !scope.notCompared.includes(object.schema)
      : scope.hasApplication && (object.schema === null || schemas.has(object.schema))) &&
    !isOfServer(object, scope, hosts);
  const [made, found] = [expected, actual].map(
    (objects) => new Map(objects.filter(isCompared).map((object) => [`${object.kind} ${object.name}`, object])),
  ) as [Map<string, DbObject>, Map<string, DbObject>];
  const roles = new Set(actual.flatMap(({ kind, name }) => (kind === "role" ? [name] : [])));
  const different = [...new Set([...made.keys(), ...found.keys()])].flatMap((key): readonly Difference[] => {
    const [was, is] = [made.get(key), found.get(key)];
    const { kind, name, schema, owner } = (was ?? is)!;
    const of = partOf({ kind, name, schema, owner }, scope);
    const state = was === undefined ? "extra" : is === undefined ? "missing" : "changed";
    const isDrift = {
      missing: () => isNeeded(was!, roles, scope),
      changed: () => comparable(was!) !== comparable(is!),
      extra: () => isExtra(is!, made, actual),
    }[state];
    const texts = { expected: was?.description ?? null, actual: is?.description ?? null };
    return isDrift() ? [{ of, state, kind, name, schema, owner, ...texts }] : [];
  });
  return {
    drift: withoutParts(different),
    objects: made.size,
    foreignSchemas: actual.flatMap(({ kind, name }) => (kind === "schema" && !schemas.has(name) ? [name] : [])),
  };
}

/** The publication of the service. */
const PUBLICATION = "content_changes";

type Place = Omit<DbObject, "description" | "place">;

function partOf(object: Place, scope: DriftScope): Drift["of"] {
  const { kind, name, schema, owner } = object;
  if (kind === "role" || kind === "membership")
    return name.split(" in ").every((role) => SERVICE_ROLES.includes(role)) ? "service" : "application";
  if (name === PUBLICATION || owner === PUBLICATION) return "service";
  return SERVICE_SCHEMAS.includes(schema ?? "") && !isAddition(object, scope) ? "service" : "application";
}

/** What an application adds to the schemas of modules: policies of private channels, the reference to its users, and rights of its roles. */
function isAddition({ kind, name, schema }: Place, scope: DriftScope): boolean {
  if (schema === "realtime" && (kind === "policy" || name.startsWith("policy "))) return true;
  if (name === "accounts_user_id_fkey on auth_private.accounts") return true;
  const grantee = granteeOf(kind, name);
  return grantee !== null && !["public", scope.owner, ...SERVICE_ROLES].includes(grantee);
}

/** `table public.notes to anon` → `anon` */
const granteeOf = (kind: string, name: string): string | null =>
  kind === "grants on" ? name.slice(name.lastIndexOf(" to ") + 4).replace(/^"(.*)"$/, "$1") : null;

/** The schemas in which migrations make something. Every database has `public`. */
const schemasIn = (expected: readonly DbObject[], scope: DriftScope): ReadonlySet<string> =>
  new Set(
    expected.flatMap((object) => {
      const { schema, name, owner } = object;
      if (schema === null || (schema === "public" && [name, owner].includes("public"))) return [];
      return partOf(object, scope) === "service" || scope.hasApplication ? [schema] : [];
    }),
  );

/** What a start makes, or what a server has before any migration. */
function isOfServer({ kind, name, schema, owner }: DbObject, scope: DriftScope, hosts: readonly string[]): boolean {
  if (schema === "auth" && scope.hasForeignAuth) return true;
  // No migration of an owner who is not a superuser can make what the log advises.
  if ([name, owner].some((each) => each === ANNOUNCER || each === `public.${ANNOUNCER}()`)) return true;
  const grantee = granteeOf(kind, name);
  if (grantee !== null && scope.logins.includes(grantee)) return true;
  if (grantee === scope.anonymousRole && grantee !== "anon" && schema === "tasks") return true;
  if (name === "public" && kind === "schema") return true;
  if (owner === "public" && grantee !== null && hosts.includes(grantee)) return true;
  if (kind === "default acl of") return !name.startsWith(`${scope.owner} in `);
  if (kind === "membership") return name.startsWith(`${scope.owner} in `);
  if (kind === "setting") return name === "every role";
  return kind === "published table" && owner === PUBLICATION;
}

/** Whether it is drift that the database has no such object. */
function isNeeded({ kind, name, schema }: DbObject, roles: ReadonlySet<string>, scope: DriftScope): boolean {
  if (kind === "event trigger") return schema !== "changes" || scope.isSuperuser;
  // A role that can log in is not described.
  if (kind === "role") return SERVICE_ROLES.includes(name);
  return kind !== "membership" || name.split(" in ").every((role) => roles.has(role));
}

/** Whether an extra object is drift. What belongs to a whole server or database may be of something else. */
function isExtra(object: DbObject, made: ReadonlyMap<string, DbObject>, actual: readonly DbObject[]): boolean {
  const { kind, name, schema, description } = object;
  if (kind === "extension" || kind === "role" || kind === "setting") return false;
  if (kind === "membership") return name.split(" in ").every((role) => made.has(`role ${role}`));
  if (kind === "default acl of") return true;
  if (kind !== "publication") return schema !== null;
  const tables = actual.filter((each) => each.kind === "published table" && each.owner === name);
  return description.includes("all tables") || tables.some((each) => made.has(`table ${each.name.split(" in ")[0]}`));
}

/** In the order of the output, without the parts of what is missing or extra itself, and without what is in such a schema. */
function withoutParts(differences: readonly Difference[]): readonly Drift[] {
  const whole = differences.filter(({ state, kind }) => state !== "changed" && !/ on$/.test(kind));
  const names = new Set(whole.map(({ state, name }) => `${state} ${name}`));
  const schemas = new Set(whole.flatMap(({ state, kind, name }) => (kind === "schema" ? [`${state} ${name}`] : [])));
  const isPart = ({ state, kind, schema, owner }: Difference) =>
    names.has(`${state} ${owner}`) || (kind !== "schema" && schemas.has(`${state} ${schema}`));
  const placeOf = ({ of, owner, name, kind }: Difference) => `${of} ${owner ?? name} ${name} ${kind}`;
  return differences
    .filter((each) => !isPart(each))
    .toSorted((a, b) => (placeOf(a) < placeOf(b) ? -1 : 1))
    .map(({ schema, owner, ...drift }) => drift);
}

/** The description without what differs between servers, and what a start changes. */
function comparable({ kind, name, description }: DbObject): string {
  if (kind === "table") return description.replace(", replica identity full", "");
  // Servers that keep this right for themselves have no service key.
  if (kind === "role" && name === "service_role") return description.replace(/^bypassrls(, )?/, "");
  // PostgreSQL has it since 17.
  return kind === "grants on" ? description.replace(/, maintain(?: with grant option)?/, "") : description;
}
