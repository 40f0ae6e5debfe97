import { stripVTControlCharacters } from "node:util";
import pg from "pg";
import "postgraphile";
import type { Finding } from "../../db/findings/finding.ts";
import { nameInFilter } from "../../plugins/lists/FilterOperatorsPlugin.ts";
import { type Clash, NameConflict } from "./name-conflict.ts";
import { Labels, type PgObject, type SmartTag } from "./pg-objects.ts";
import { unreadEnum } from "./smart-tag.ts";

/** What a schema was built without because of name conflicts and invalid smart tags. */
export type Missing = {
  readonly objects: readonly NameConflict[];
  /** Smart tags that are ignored, and why. */
  readonly tags: readonly (SmartTag & { readonly reason: string })[];
};

/** What PostGraphile leaves out of one schema, and why. */
export class LeftOut {
  /** The objects that lead to each field: `Query.posts` */
  readonly sources = new Map<string, PgObject[]>();
  /** The tables and types of each codec. */
  readonly #codecs = new Map<string, Map<string, PgObject>>();
  readonly #clashes: Clash[] = [];
  readonly #messages = new Set<string>();
  #hasForm: (schema: string, table: string, column: string) => boolean = () => true;
  #hasFunction: (schema: string, name: string) => boolean = () => true;
  /** The tables and types that the GraphQL type is named after. PostGraphile does not say whose type it registers. */
  #objectsOf: (type: string) => readonly PgObject[] = () => [];

  /** Watches a build. Replaces SwallowErrorsPlugin, which prints what it leaves out. */
  readonly plugin: GraphileConfig.Plugin = {
    name: "LeftOutPlugin",
    gather: {
      hooks: {
        pgRelations_relation(_info, { relation, pgConstraint }) {
          relation.extensions = { ...relation.extensions, constraint: pgConstraint.conname } as never;
        },
        pgCodecs_recordType_spec: (_info, { spec: { name }, pgClass }) => {
          const object = Labels.of("table", pgClass.getNamespace()!.nspname, pgClass.relname);
          this.#codecs.set(name, (this.#codecs.get(name) ?? new Map()).set(object.label, object));
        },
      },
    },
    schema: {
      hooks: {
        build: {
          after: ["SwallowErrors", "ConnectionPlugin"],
          callback: (build) => {
            build.handleRecoverableError = (error) => this.add(error);
            let known: ReadonlyMap<string, readonly PgObject[]> | null = null;
            this.#objectsOf = (type) => {
              if (build.pgCodecs) known ??= objectsByType(build);
              return known?.get(type) ?? [];
            };
            const { extend } = build;
            // A clash of filters would end the build; the clash of the fields themselves is reported.
            build.extend = (base, added, hint, ...rest) => {
              try {
                return extend.call(build, base, added, hint, ...rest) as never;
              } catch (error) {
                if (String(hint).startsWith("Adding connection filter")) return base as never;
                throw error;
              }
            };
            return build;
          },
        },
        GraphQLInputObjectType_fields: {
          before: ["PgConnectionArgFilterLogicalOperatorsPlugin"],
          callback(fields, _build, { scope: { isPgConnectionFilter } }) {
            if (!isPgConnectionFilter) return fields;
            return Object.fromEntries(Object.entries(fields).map(([name, field]) => [nameInFilter(name), field]));
          },
        },
        GraphQLObjectType_fields_field: (field, build, { Self, scope }) => {
          const object = Labels.ofField(scope as any) ?? functionOf(build, scope as any);
          const key = `${Self.name}.${scope.fieldName}`;
          const sources = this.sources.get(key) ?? [];
          if (object && sources.every(({ label }) => label !== object.label))
            this.sources.set(key, [...sources, object]);
          return field;
        },
        finalize: (schema, build) => {
          const codecs = Object.values(build.pgCodecs) as any[];
          const byName = new Map(codecs.map((codec) => [nameOf(codec.extensions?.pg), codec]));
          this.#hasForm = (schemaName, table, column) => {
            const codec = byName.get(`${schemaName}.${table}`)?.attributes?.[column]?.codec;
            const element = codec?.arrayOfCodec ?? codec;
            return element !== undefined && build.hasGraphQLTypeForPgCodec(element, "output");
          };
          const functions = new Set(
            Object.values(build.pgResources).flatMap((resource: any) =>
              resource.parameters ? [nameOf(resource.extensions?.pg)] : [],
            ),
          );
          this.#hasFunction = (schemaName, name) => functions.has(`${schemaName}.${name}`);
          return schema;
        },
      },
    },
  };

  /** An error of PostGraphile that does not stop the build. */
  add(error: Error): void {
    const clash = this.clashOf(error);
    if (clash) this.#clashes.push(clash);
    else this.#messages.add(toSentence(error.message));
  }

  /** What PostGraphile would print. */
  print(line: string): void {
    if (!IN_OTHER_WORDS.test(line)) this.#messages.add(toSentence(line));
  }

  /** The two objects of a name conflict; null for other errors. */
  clashOf(error: Error): Clash | null {
    const message = toSentence(error.message);
    const type = /^A type named (\w+) already exists$|define the same type '(\w+)'/
      .exec(message)
      ?.slice(1)
      .find(Boolean);
    if (type !== undefined) {
      const objects = this.#objectsOf(type);
      return objects.length > 0 ? { name: `type ${type}`, objects } : null;
    }
    const resource = /^Attempted to add a second resource named '(\w+)'/.exec(message)?.[1];
    if (resource !== undefined) {
      // `a table/view/etc called '"public"."odd"'`, `a function called '"public"."odd"(...)'`
      const named = [...message.matchAll(/ a (table|function)[^']*'"([^"]+)"\."([^"]+)"/g)];
      const objects = named.map(([, kind, schema, name]) => Labels.of(kind as "table", schema!, name!));
      return objects.length === 2 ? { name: `name ${resource}`, objects } : null;
    }
    const codec = /^Attempted to add a second codec named '(\w+)'/.exec(message)?.[1];
    if (codec !== undefined) {
      const objects = [...(this.#codecs.get(codec)?.values() ?? [])];
      return objects.length > 1 ? { name: `name ${codec}`, objects } : null;
    }
    const key = /same key '(\w+)'/.exec(message)?.[1];
    if (key === undefined) return null;
    const fields = [...this.sources].filter(([name, objects]) => name.endsWith(`.${key}`) && objects.length > 1);
    const [name, objects] = fields.find(([name]) => message.includes(`'${name.split(".")[0]}'`)) ?? fields[0] ?? [];
    return objects ? { name: `field ${name}`, objects } : null;
  }

  /** What an error that ends the build is about, and what went wrong before with the type that it names. */
  causeOf(error: Error): { readonly object: PgObject | undefined; readonly reason: string } {
    const message = toSentence(error.message);
    const names = message.match(/\w+/g) ?? [];
    const types = names.filter((name) => this.#objectsOf(name).length > 0);
    const [object] = types.flatMap(this.#objectsOf);
    const before = [...this.#messages].filter((each) => each !== message && types.some((name) => each.includes(name)));
    return { object, reason: [message, ...before].join("; ") };
  }

  /** The newer object of each name conflict. `error` is that of a build that failed. */
  conflicts(labels: Labels, error?: Error): readonly NameConflict[] {
    const clash = error && this.clashOf(error);
    return [...this.#clashes, ...(clash ? [clash] : [])].map((each) => new NameConflict(each, labels));
  }

  /** The findings of the build beside those of the missing objects, with the SQL that fixes them. */
  findings(labels: Labels, missing: Missing): readonly Finding[] {
    const isReported = new Set(missing.objects.map(({ finding }) => finding.object));
    return [
      ...missing.tags.map(({ tag, object, comment, reason: cause }): Finding => {
        const label = labels.labelOf(object);
        const reason = `GraphQL ignores ${tag}: ${cause}`;
        const unread = unreadEnum(cause);
        if (unread) {
          const reason = `GraphQL ignores ${tag}: the login of the service may not read the rows, which are the values`;
          return { rule: "smart-tag-without-graphql", level: "warning", object: label, reason, fix: unread.fix };
        }
        const fix = `comment on ${label} is ${comment === "" ? "null" : pg.escapeLiteral(comment)};`;
        return { rule: "smart-tag-without-graphql", level: "warning", object: label, reason, fix };
      }),
      ...this.conflicts(labels)
        .map(({ finding }) => finding)
        .filter(({ object }) => !isReported.has(object)),
      ...labels.columns
        .filter(({ schema, table, label }) =>
          [label, labels.labelOf(Labels.of("table", schema, table))].every((each) => !isReported.has(each)),
        )
        .filter(({ schema, table, column }) => !this.#hasForm(schema, table, column))
        .map(withoutForm),
      ...labels.functions
        .filter(({ label }) => !isReported.has(label))
        .filter(({ schema, name }) => !this.#hasFunction(schema, name))
        .map(notServed),
      ...[...this.#messages].map(
        (reason): Finding => ({ rule: "left-out-of-graphql", level: "warning", object: "GraphQL", reason, fix: null }),
      ),
    ];
  }
}

/** The function of a field that returns one value. PostGraphile does not name it in the scope, so it is found by its name. */
function functionOf(build: any, { fieldName, fieldBehaviorScope = "", pgCodec }: any): PgObject | null {
  const [kind] = fieldBehaviorScope.split(":");
  if (kind !== "typeField" && kind !== "queryField") return null;
  const isOf = (resource: any) =>
    kind === "typeField"
      ? resource.parameters[0]?.codec === pgCodec && build.inflection.computedAttributeField({ resource }) === fieldName
      : build.inflection.customQueryField({ resource }) === fieldName;
  const resource: any = Object.values(build.pgResources).find((each: any) => each.parameters && isOf(each));
  return resource ? Labels.ofField({ pgFieldResource: resource }) : null;
}

/** Each object once by the names of its types. */
function objectsByType(build: any): ReadonlyMap<string, readonly PgObject[]> {
  const found = new Map<string, PgObject[]>();
  for (const codec of Object.values(build.pgCodecs)) {
    const object = Labels.ofCodec(codec);
    if (object === null) continue;
    for (const name of typeNames(build, codec)) {
      const objects = found.get(name) ?? [];
      if (objects.every(({ label }) => label !== object.label)) found.set(name, [...objects, object]);
    }
  }
  return found;
}

function typeNames({ inflection, behavior }: any, codec: any): readonly string[] {
  if (!codec.attributes) return [inflection.scalarCodecTypeName(codec)];
  if (!behavior.pgCodecMatches(codec, "table")) return [];
  const type = inflection.tableType(codec);
  return [
    type,
    ...["inputType", "patchType", "orderByType", "filterType"].map((each) => inflection[each](type)),
    inflection.tableConnectionType(codec),
    inflection.tableEdgeType(codec),
  ];
}

const nameOf = (pg: { schemaName?: string; name?: string } | undefined) => `${pg?.schemaName}.${pg?.name}`;

/** Messages that are not reported: `findings` reports the cause itself, or the type has no columns to show. */
const IN_OTHER_WORDS =
  /^(Skipped .* because we couldn't give it any attributes|Could not (build PgCodec|make (return )?codec) for|Could not find connection type|Couldn't find a 'output' variant)/;

const withoutForm = ({ label, type }: Labels["columns"][number]): Finding => ({
  rule: "type-without-graphql",
  level: "warning",
  object: label,
  reason: `GraphQL has no type for ${type}: it leaves the column out`,
  fix: `-- A function of the row can show it in another type:\n-- create function … returns text language sql stable return …::text;`,
});

const notServed = ({ label, isOverloaded }: Labels["functions"][number]): Finding => ({
  rule: "function-without-graphql",
  level: "warning",
  object: label,
  reason: isOverloaded
    ? "several functions have its name: GraphQL leaves all of them out"
    : "GraphQL has no type for an argument or the result: it leaves the function out",
  fix: isOverloaded ? `alter ${label} rename to …;` : null,
});

/** Turns a message of PostGraphile, which has several paragraphs and terminal colours, into one line. */
export function toSentence(message: string): string {
  return stripVTControlCharacters(message)
    .replace("A naming conflict has occurred - ", "")
    .replace("We don't have any information about the first entity.", "")
    .replace(/Details: https:\S+\s*$/, "")
    .replace(/; \{.*/s, "")
    .replace(/\s+/g, " ")
    .replace(/[.\s]+$/, "");
}
