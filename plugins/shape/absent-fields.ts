/** Why a type lacks a field. */
export type AbsentField = {
  /** `imports` has no primary key. Create one. Null if `others` have what it would. */
  readonly reason: string | null;
  /** The field that takes a filter instead of a key, if there is one. */
  readonly instead: string | null;
  /** Fields of the type, as far as it has them, that may be meant by the name. */
  readonly others?: readonly string[];
};

export type AbsentFields = readonly (readonly [name: string, AbsentField])[];

type Extended = { readonly extensions?: Readonly<Record<string, any>> | null };

/**
 * The configuration of a type that knows these fields too, which it lacks. The first reason for a field counts. The fields are named when
 * an error asks: during the build, other requests would wait for the names of 1,000 tables.
 */
export function withAbsent<Config extends Extended>(config: Config, fields: () => AbsentFields): Config {
  const others: Absent["absent"] = config.extensions?.absent;
  let known: ReadonlyMap<string, AbsentField> | undefined;
  const absent = (name: string) => {
    known ??= new Map(fields());
    return others?.(name) ?? known.get(name);
  };
  return { ...config, extensions: { ...config.extensions, absent } };
}

type Absent = {
  /** Says why the type lacks a field. */
  absent?: (name: string) => AbsentField | undefined;
};

declare module "postgraphile/graphql" {
  interface GraphQLObjectTypeExtensions extends Absent {}
  interface GraphQLInputObjectTypeExtensions extends Absent {}
}
