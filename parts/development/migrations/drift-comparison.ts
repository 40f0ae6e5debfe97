import { SERVICE_ROLES } from "../../../db/existing/survey-queries.ts";
import { ANNOUNCER } from "../../../db/follow/notifications.ts";
import { MODULES } from "../../../db/modules/modules.ts";
import type { DbObject } from "./describe.ts";

/** A difference between a database and what its migrations make. */
export type Drift = {
  /** Whose migrations make the object: `application`, or `module auth` */
  readonly of: string;
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
  /** The modules in which nothing is pending. */
  readonly modules: readonly string[];
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
  /** The older one of the major versions of both servers; null if they are the same. */
  readonly olderVersion: number | null;
};

export type DatabaseComparison = {
  readonly drift: readonly Drift[];
  /** How many objects were compared. */
  readonly objects: number;
  /** Schemas in which no migration makes anything. They are not compared. */
  readonly foreignSchemas: readonly string[];
};

const APPLICATION = "application";

/** Compares the objects that migrations make with those of a database. Parts of a missing or an extra object are left out. */
export function compareObjects(
  expected: readonly DbObject[],
  actual: readonly DbObject[],
  scope: DriftScope,
): DatabaseComparison {
  const places = placesOf(expected, scope);
  const hosts = [expected, actual].flatMap(ownersOfPublic);
  const isCompared = (object: DbObject) => isIn(places, object, scope) && !isOfServer(object, scope, hosts);
  const [made, found] = [expected, actual].map(
    (objects) => new Map(objects.filter(isCompared).map((object) => [keyOf(object), normal(object, scope)])),
  ) as [Map<string, DbObject>, Map<string, DbObject>];
  const roles = new Set(actual.flatMap(({ kind, name }) => (kind === "role" ? [name] : [])));
  const missing = [...made.values()].filter((object) => !found.has(keyOf(object)) && isNeeded(object, roles, scope));
  const extra = [...found.values()].filter((object) => !made.has(keyOf(object)) && isExtra(object, made, actual));
  const changed = [...made.values()].flatMap((object) => {
    const other = found.get(keyOf(object));
    return other === undefined || other.description === object.description ? [] : [{ object, other }];
  });
  const drift = [
    ...withoutParts(missing).map((object) => ({ state: "missing" as const, object, expected: object, actual: null })),
    ...changed.map(({ object, other }) => ({ state: "changed" as const, object, expected: object, actual: other })),
    ...withoutParts(extra).map((object) => ({ state: "extra" as const, object, expected: null, actual: object })),
  ].map(({ state, object, expected: was, actual: is }) => ({
    place: `${partOf(object, scope)} ${object.owner ?? object.name} ${object.name} ${object.kind}`,
    of: partOf(object, scope),
    ...{ state, kind: object.kind, name: object.name },
    ...{ expected: was?.description ?? null, actual: is?.description ?? null },
  }));
  return {
    drift: drift
      .toSorted((a, b) => (a.place < b.place ? -1 : Number(a.place > b.place)))
      .map(({ place, ...rest }) => rest),
    objects: made.size,
    foreignSchemas: actual.flatMap(({ kind, name }) => (kind === "schema" && !places.has(name) ? [name] : [])),
  };
}

const keyOf = ({ kind, name }: DbObject): string => `${kind} ${name}`;

/** The publication of the service. */
const PUBLICATION = "content_changes";

/** Whose migrations make the object. */
function partOf(object: DbObject, scope: DriftScope): string {
  const { kind, name, schema, owner } = object;
  if (kind === "role" && SERVICE_ROLES.includes(name)) return "module caller";
  if (kind === "membership" && name.split(" in ").every((role) => SERVICE_ROLES.includes(role))) return "module caller";
  if (name === PUBLICATION || owner === PUBLICATION) return "module feed";
  if (isOfApplication(object, scope)) return APPLICATION;
  const added = MODULES.find(({ callerFunctions }) =>
    callerFunctions.some((each) => name.startsWith(`auth.${each}(`) || owner?.startsWith(`auth.${each}(`)),
  );
  const module = added ?? MODULES.find(({ schemas }) => schema !== null && schemas.includes(schema));
  return module === undefined ? APPLICATION : `module ${module.name}`;
}

/** What an application adds to the schemas of modules: policies of private channels, the reference to its users, and rights of its roles. */
function isOfApplication({ kind, name, schema }: DbObject, scope: DriftScope): boolean {
  if (schema === "realtime" && (kind === "policy" || (kind === "comment on" && name.startsWith("policy "))))
    return true;
  if (kind === "constraint" && name === "accounts_user_id_fkey on auth_private.accounts") return true;
  const grantee = granteeOf(kind, name);
  return grantee !== null && !["public", scope.owner, ...SERVICE_ROLES].includes(grantee);
}

/** `table public.notes to anon` → `anon` */
const granteeOf = (kind: string, name: string): string | null =>
  kind === "grants on" ? name.slice(name.lastIndexOf(" to ") + 4).replace(/^"(.*)"$/, "$1") : null;

/** The schemas in which migrations make something. Every database has `public`. */
function placesOf(expected: readonly DbObject[], scope: DriftScope): ReadonlySet<string> {
  const ofSchema = ["schema", "grants on", "comment on"];
  return new Set(
    expected.flatMap((object) => {
      const { kind, schema, name, owner } = object;
      const isPublic = schema === "public" && ofSchema.includes(kind) && [name, owner].includes("public");
      if (schema === null || isPublic || (kind === "comment on" && name === "schema public")) return [];
      return partOf(object, scope) === APPLICATION && !scope.hasApplication ? [] : [schema];
    }),
  );
}

function isIn(places: ReadonlySet<string>, object: DbObject, scope: DriftScope): boolean {
  const part = partOf(object, scope);
  if (part !== APPLICATION) return scope.modules.some((name) => part === `module ${name}`);
  return scope.hasApplication && (object.schema === null || places.has(object.schema));
}

/** The schema `public` has another owner on older servers, and where a DBA has chosen one. */
const ownersOfPublic = (objects: readonly DbObject[]): readonly string[] =>
  objects.flatMap(({ kind, name, description }) =>
    kind === "schema" && name === "public" ? [description.replace("owner ", "")] : [],
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

/** What belongs to a whole server or database may be of something else. */
function isExtra(object: DbObject, made: ReadonlyMap<string, DbObject>, actual: readonly DbObject[]): boolean {
  const { kind, name, schema, description } = object;
  if (kind === "extension" || kind === "role" || kind === "setting") return false;
  if (kind === "membership") return name.split(" in ").every((role) => made.has(`role ${role}`));
  if (kind === "default acl of") return true;
  if (kind !== "publication") return schema !== null;
  const tables = actual.filter((each) => each.kind === "published table" && each.owner === name);
  return description.includes("all tables") || tables.some((each) => made.has(`table ${each.name.split(" in ")[0]}`));
}

/** Parts of which the owner is in the list too are left out, and so is everything in a schema of the list. */
function withoutParts(objects: readonly DbObject[]): readonly DbObject[] {
  const names = new Set(
    objects
      .filter(({ kind, owner, name }) => owner !== name && !/^(grants|comment) on$/.test(kind))
      .map(({ name }) => name),
  );
  const schemas = new Set(objects.flatMap(({ kind, name }) => (kind === "schema" ? [name] : [])));
  return objects.filter(
    ({ kind, owner, schema }) =>
      (owner === null || !names.has(owner)) && (kind === "schema" || schema === null || !schemas.has(schema)),
  );
}

/** The description without what differs between servers, and what a start changes. */
function normal(object: DbObject, { olderVersion }: DriftScope): DbObject {
  const { kind, name, description } = object;
  const having = (text: string) => ({ ...object, description: text });
  if (kind === "replica identity of" && description === "full") return having("default");
  // Servers that keep this right for themselves have no service key.
  if (kind === "role" && name === "service_role") return having(description.replace(/^bypassrls(, )?/, ""));
  if (olderVersion === null) return object;
  if (kind === "grants on" && olderVersion < 17)
    return having(description.replace(/, maintain(?: with grant option)?/, ""));
  if (kind === "membership" && olderVersion < 16) return having(/^admin/.exec(description)?.[0] ?? "");
  return object;
}
