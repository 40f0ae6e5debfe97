import type { Introspection, PgClass, PgType } from "pg-introspection";
import type {} from "postgraphile";
import { TYPES } from "postgraphile/@dataplan/pg";
import { mapYielding } from "../../db/catalog/event-loop.ts";

/**
 * Functions and types with the name of a table or view get another name, where PostGraphile would refuse to build the schema: the
 * function `planets()` beside the table `planets` is `planetsFunction`, the enum `mood` beside the view `moods` is `MoodType`. The
 * smart tag `@name` gives a better name. The type for the table `lines` is `LineRow`, because `Line` is that of PostgreSQL. Of types
 * whose names differ only in case or underscores, the second gets a number: `Thing2`.
 */
export const NamesakesPlugin: GraphileConfig.Plugin = {
  name: "NamesakesPlugin",
  version: "1.0.0",
  after: ["smart-tags", "PgCodecsPlugin"],
  inflection: {
    replace: {
      functionResourceName(previous, _options, details) {
        const { pgProc } = details;
        const isNamed = typeof pgProc.getTags().name === "string";
        return pgProc.isNamedLikeTable && !isNamed ? `${previous!(details)}_function` : previous!(details);
      },
      tableType(previous, _options, codec) {
        const name = previous!(codec);
        return SCHEMA_TYPES.has(name) ? `${name}Row` : name;
      },
      typeCodecName: (previous, _options, details) => numbered(previous!(details), details.pgType),
      classCodecName(previous, _options, details) {
        const name = numbered(previous!(details), details.pgClass.getType()!);
        // A codec has a name that no other one has; the type for the table `json` is `Json` nevertheless.
        return BUILT_IN_CODECS.has(name) ? `${name}_` : name;
      },
    },
  },
  gather: {
    hooks: {
      async pgIntrospection_introspection({ inflection }, { introspection }) {
        const tables = introspection.classes.filter(isTable);
        const key = (namespace: string, name: string) => `${namespace} ${name}`;
        const names = new Set(tables.map(({ relnamespace, relname }) => key(relnamespace, relname)));
        for (const proc of introspection.procs) {
          proc.isNamedLikeTable = names.has(key(proc.pronamespace, proc.proname));
        }
        await numberTypes(introspection, inflection);
        const typeNames = new Set([
          ...SCHEMA_TYPES,
          ...["Cursor", "Node"],
          ...tables.map(({ relname }) => inflection.upperCamelCase(inflection.singularize(relname))),
        ]);
        await mapYielding(introspection.types, (type) => {
          const { tags } = type.getTagsAndDescription();
          const isOwn = type.typtype === "e" || type.typtype === "d";
          if (isOwn && !tags.name && typeNames.has(inflection.upperCamelCase(type.typname)))
            tags.name = `${type.typname}_type`;
        });
      },
    },
  },
};

const numbered = (name: string, { namesakes }: PgType): string => (namesakes ? `${name}${namesakes + 1}` : name);

/** Types that every schema has, or has for columns, as far as tables can lead to the same names. */
const SCHEMA_TYPES: ReadonlySet<string> = new Set(
  [
    "Base64EncodedBinary BigFloat BigFloatRange BigInt BigIntRange BitString Boolean Box CidrAddress Circle Date DateRange",
    "Float Int IntRange InternetAddress Interval KeyValueHash Line LineSegment MacAddress Mutation Oid PageInfo Path Point",
    "Polygon Query RegClass RegConfig RegDictionary RegNamespace RegOper RegOperator RegProc RegProcedure RegRole RegType",
    "String Subscription Time",
  ].flatMap((names) => names.split(" ")),
);

const BUILT_IN_CODECS: ReadonlySet<string> = new Set(Object.values(TYPES).map(({ name }) => name));

/** A domain over an array has the category of arrays too. */
const isArray = ({ typcategory, typtype }: PgType): boolean => typcategory === "A" && typtype === "b";

const isTable = ({ relkind }: PgClass): boolean => "rvmfp".includes(relkind);

/** Counts the namesakes before each type. Tables keep their names: one that has a namesake is left out, with the reason. */
async function numberTypes({ types, classes }: Introspection, inflection: GraphileBuild.Inflection): Promise<void> {
  const known = new Map<string, number>();
  const counts = new Map<string, number>();
  const tables = new Set(classes.filter(isTable).map(({ reltype }) => reltype));
  const named = types.filter((type) => !isArray(type));
  const tablesFirst = named.toSorted((a, b) => Number(tables.has(b._id)) - Number(tables.has(a._id)));
  await mapYielding(tablesFirst, (type) => {
    const key = `${type.typnamespace} ${inflection.camelCase(type.typname)}`;
    const before = known.get(key) ?? 0;
    known.set(key, before + 1);
    counts.set(type._id, before);
    type.namesakes = tables.has(type._id) ? 0 : before;
  });
  for (const type of types.filter(isArray)) type.namesakes = counts.get(type.typelem ?? "") ?? 0;
}

declare module "pg-introspection" {
  interface PgType {
    /** How many types of its schema lead to the same name and come before it. */
    namesakes?: number;
  }

  interface PgProc {
    isNamedLikeTable?: boolean;
  }
}
