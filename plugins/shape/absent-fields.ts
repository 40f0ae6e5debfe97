/** Why a type lacks a field. */
export type AbsentField = {
  /** `imports` has no primary key. Create one */
  readonly reason: string;
  /** The field that takes a filter instead of a key, if there is one. */
  readonly instead: string | null;
};

export type AbsentFields = readonly (readonly [name: string, AbsentField])[];

type Extended = { readonly extensions?: Readonly<Record<string, any>> | null };

/** The configuration of a type that knows these fields too, which it lacks. The first reason for a field counts. */
export function withAbsent<Config extends Extended>(config: Config, fields: AbsentFields): Config {
  const absent = new Map([...fields, ...(config.extensions?.absent ?? [])]);
  return absent.size === 0 ? config : { ...config, extensions: { ...config.extensions, absent } };
}

type Absent = {
  /** The fields that this type lacks, so that an error can say why. */
  absent?: ReadonlyMap<string, AbsentField>;
};

declare module "postgraphile/graphql" {
  interface GraphQLObjectTypeExtensions extends Absent {}
  interface GraphQLInputObjectTypeExtensions extends Absent {}
}
