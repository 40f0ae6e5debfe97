import { stripVTControlCharacters } from "node:util";
import type { Pool } from "pg";
import type {} from "postgraphile";
import { type Finding, sentenceOf } from "../db/advisor/finding.ts";
import { Labels, type PgObject } from "./pg-objects.ts";

export const NAME_CONFLICT = "graphql-name-conflict";

/** A clash of two objects, or a message of PostGraphile, before the database has been asked about the objects. */
type Clash = { readonly name: string; readonly objects: readonly PgObject[] };

/** What PostGraphile leaves out of one schema, and why. */
export class LeftOut {
  readonly #fields = new Map<string, Map<string, PgObject>>();
  readonly #types = new Map<string, PgObject>();
  readonly #clashes: Clash[] = [];
  /** The columns that the build knows, as `public.articles.title`: findings about newer ones are those of the next build. */
  readonly #columns = new Set<string>();
  readonly #messages = new Set<string>();
  #hasForm: (schema: string, table: string, column: string) => boolean = () => true;
  #hasFunction: (schema: string, name: string) => boolean = () => true;

  /** Watches a build. Replaces SwallowErrorsPlugin, which prints what it leaves out. */
  readonly plugin: GraphileConfig.Plugin = {
    name: "LeftOutPlugin",
    gather: {
      hooks: {
        pgIntrospection_introspection: (_info, { introspection }) => {
          for (const attribute of introspection.attributes) {
            const table = attribute.getClass();
            this.#columns.add(`${table?.getNamespace()?.nspname}.${table?.relname}.${attribute.attname}`);
          }
        },
        pgRelations_relation(_info, { relation, pgConstraint }) {
          relation.extensions = { ...relation.extensions, constraint: pgConstraint.conname } as never;
        },
      },
    },
    schema: {
      hooks: {
        build: {
          after: ["SwallowErrors", "ConnectionPlugin"],
          callback: (build) => {
            build.handleRecoverableError = (error) => this.add(error);
            const { registerCursorConnection, extend } = build as any;
            // A clash of filters would end the build; the clash of the fields themselves is reported.
            (build as any).extend = (base: any, added: any, hint: string, ...rest: any[]) => {
              try {
                return extend.call(build, base, added, hint, ...rest);
              } catch (error) {
                if (!String(hint).startsWith("Adding connection filter")) throw error;
                return base;
              }
            };
            for (const method of ["registerObjectType", "registerEnumType"]) {
              const register = (build as any)[method];
              (build as any)[method] = (...args: any[]) => {
                const [name, scope] = args;
                const object = Labels.ofCodec(scope?.pgCodec);
                if (object && !this.#types.has(name)) this.#types.set(name, object);
                try {
                  return register.apply(build, args);
                } catch (error) {
                  throw this.#withType(error as Error, scope);
                }
              };
            }
            (build as any).registerCursorConnection = (options: any) => {
              try {
                return registerCursorConnection.call(build, options);
              } catch (error) {
                throw this.#withType(error as Error, options.scope);
              }
            };
            return build;
          },
        },
        GraphQLObjectType_fields_field: (field, build, { Self, scope }) => {
          const object = Labels.ofField(scope as any) ?? functionOf(build, scope as any);
          const key = `${Self.name}.${scope.fieldName}`;
          if (object) this.#fields.set(key, (this.#fields.get(key) ?? new Map()).set(object.label, object));
          return field;
        },
        finalize: (schema, build) => {
          const codecs = Object.values(build.pgCodecs) as any[];
          const byName = new Map(codecs.map((codec) => [nameOf(codec.extensions?.pg), codec]));
          this.#hasForm = (schemaName, table, column) => {
            const codec = byName.get(`${schemaName}.${table}`)?.attributes?.[column]?.codec;
            const element = codec?.arrayOfCodec ?? codec;
            return (
              element !== undefined && !HIDDEN.has(element.name) && build.hasGraphQLTypeForPgCodec(element, "output")
            );
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
      const [first, second] = [this.#types.get(type), (error as { object?: PgObject }).object];
      return first && second ? { name: `type ${type}`, objects: [first, second] } : null;
    }
    const resource = /^Attempted to add a second resource named '(\w+)'/.exec(message)?.[1];
    if (resource !== undefined) {
      // `a table/view/etc called '"public"."odd"'`, `a function called '"public"."odd"(...)'`
      const named = [...message.matchAll(/ a (table|function)[^']*'"([^"]+)"\."([^"]+)"/g)];
      const objects = named.map(([, kind, schema, name]) => Labels.of(kind as "table", schema!, name!));
      return objects.length === 2 ? { name: `name ${resource}`, objects } : null;
    }
    const key = /same key '(\w+)'/.exec(message)?.[1];
    if (key === undefined) return null;
    const fields = [...this.#fields].filter(([name, objects]) => name.endsWith(`.${key}`) && objects.size > 1);
    const [name, objects] = fields.find(([name]) => message.includes(`'${name.split(".")[0]}'`)) ?? fields[0] ?? [];
    return objects ? { name: `field ${name}`, objects: [...objects.values()] } : null;
  }

  /** The findings of the build, with the SQL that cures them. Rejects if the database does not respond. */
  async findings(pool: Pick<Pool, "query">, schemas: readonly string[]): Promise<readonly Finding[]> {
    const labels = await Labels.read(pool, schemas);
    return [
      ...this.#clashes.map((clash) => findingOfClash(clash, labels)),
      ...labels.columns
        .filter(({ schema, table, column }) => this.#columns.has(`${schema}.${table}.${column}`))
        .filter(({ schema, table, column }) => !this.#hasForm(schema, table, column))
        .map(withoutForm),
      ...labels.functions.filter(({ schema, name }) => !this.#hasFunction(schema, name)).map(notServed),
      ...[...this.#messages].map(
        (reason): Finding => ({ rule: "left-out-of-graphql", level: "warning", object: "GraphQL", reason, cure: null }),
      ),
    ];
  }

  /** The error of a build that failed because of a name conflict, in our words. Other errors are returned as they are. */
  async explained(error: Error, pool: Pick<Pool, "query">, schemas: readonly string[]): Promise<Error> {
    const clash = this.clashOf(error);
    if (!clash) return error;
    return new Error(sentenceOf(findingOfClash(clash, await Labels.read(pool, schemas))), { cause: error });
  }

  #withType(error: Error, scope: any): Error {
    const object = Labels.ofCodec(scope?.pgCodec);
    return object ? Object.assign(error, { object }) : error;
  }
}

/** The function of a field that returns one value. PostGraphile does not name it in the scope, so it is found by its name. */
function functionOf(build: any, { fieldName, fieldBehaviorScope = "", pgCodec }: any): PgObject | null {
  const [kind] = fieldBehaviorScope.split(":");
  const isOf = (resource: any) =>
    kind === "typeField"
      ? resource.parameters[0]?.codec === pgCodec && build.inflection.computedAttributeField({ resource }) === fieldName
      : kind === "queryField" && build.inflection.customQueryField({ resource }) === fieldName;
  const resource: any = Object.values(build.pgResources).find((each: any) => each.parameters && isOf(each));
  return resource ? Labels.ofField({ pgFieldResource: resource }) : null;
}

/** Types whose columns PostGraphile leaves out. */
const HIDDEN: ReadonlySet<string> = new Set(["tsvector", "tsquery"]);

const nameOf = (pg: { schemaName?: string; name?: string } | undefined) => `${pg?.schemaName}.${pg?.name}`;

/** Messages about what `findings` lists in our words, what follows from it, or types without columns, which have nothing to show. */
const IN_OTHER_WORDS =
  /^(Skipped .* because we couldn't give it any attributes|Could not (build PgCodec|make (return )?codec) for|Could not find connection type|Couldn't find a 'output' variant)/;

/** The object that was created later gets another name. */
function findingOfClash({ name, objects }: Clash, labels: Labels): Finding {
  const [older, newer] = objects.toSorted((a, b) => labels.ageOf(a) - labels.ageOf(b)) as [PgObject, PgObject];
  return {
    rule: NAME_CONFLICT,
    level: "error",
    object: labels.labelOf(newer),
    reason: `it and ${labels.labelOf(older)} lead to the same GraphQL ${name}, and GraphQL leaves one of them out`,
    cure: labels.renaming(newer),
  };
}

const withoutForm = ({ label, type }: Labels["columns"][number]): Finding => ({
  rule: "type-without-graphql",
  level: "warning",
  object: label,
  reason: `its type ${type} has no form in GraphQL: the column is left out there`,
  cure: `-- A function of the row can show it in another type:\n-- create function … returns text language sql stable return …::text;`,
});

const notServed = ({ label, isOverloaded }: Labels["functions"][number]): Finding => ({
  rule: "function-without-graphql",
  level: "warning",
  object: label,
  reason: isOverloaded
    ? "several functions have its name: GraphQL leaves all of them out"
    : "a type of its arguments or its result has no form in GraphQL: the function is left out there",
  cure: isOverloaded ? `alter ${label} rename to …;` : null,
});

/** Turns a message of PostGraphile, which has several paragraphs and terminal colours, into one line. */
function toSentence(message: string): string {
  return stripVTControlCharacters(message)
    .replace("A naming conflict has occurred - ", "")
    .replace("We don't have any information about the first entity.", "")
    .replace(/Details: https:\S+\s*$/, "")
    .replace(/\s+/g, " ")
    .replace(/[.\s]+$/, "");
}
