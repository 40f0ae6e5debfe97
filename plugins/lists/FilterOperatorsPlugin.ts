import { type PgCodec, sqlValueWithCodec, TYPES } from "postgraphile/@dataplan/pg";
import { SafeError } from "postgraphile/grafast";
import type { GraphQLInputType } from "postgraphile/graphql";
import { type SQL, sql } from "postgraphile/pg-sql2";
import type { makeApplyFromOperatorSpec } from "postgraphile-plugin-connection-filter";
import { OPERATORS, type Operator as SqlOperator } from "../../db/filters/operators.ts";
import { comparable } from "./order.ts";

type Operator = Parameters<typeof makeApplyFromOperatorSpec>[3];

type TextSearch = { readonly query: string; readonly config?: string | null; readonly syntax?: SearchSyntax | null };
type SearchSyntax = keyof typeof SEARCH_FUNCTIONS;

/** The operator in SQL, as a template without values: `sql.raw` writes a warning. */
const sqlOf = (operator: SqlOperator): SQL => {
  const texts = [OPERATORS[operator].sql];
  return sql(Object.assign(texts, { raw: texts }));
};

const SEARCH_FUNCTIONS = {
  WEB: sqlOf("wfts"),
  PLAIN: sqlOf("plfts"),
  PHRASE: sqlOf("phfts"),
  RAW: sqlOf("fts"),
} as const;

const SYNTAXES: Readonly<Record<SearchSyntax, string>> = {
  WEB: 'As in web search engines: `postgres -mysql "row level"`.',
  PLAIN: "All words, in any order.",
  PHRASE: "All words, in this order.",
  RAW: "Words with the operators of to_tsquery: `(cat | dog) & !rat`.",
};

const text = (value: string) => sqlValueWithCodec(value, TYPES.text);

/** `{ equalTo: … }` compares by the type of the column, which is a number or uuid although its GraphQL type is ID. */
const comparison = (description: string, operator: SQL): Operator => ({
  description,
  resolve: (column, value) => sql`${column} ${operator} ${value}`,
});

const COMPARISONS: Readonly<Record<string, Operator>> = {
  lessThan: comparison("Less than the specified value.", sqlOf("lt")),
  lessThanOrEqualTo: comparison("Less than or equal to the specified value.", sqlOf("lte")),
  greaterThan: comparison("Greater than the specified value.", sqlOf("gt")),
  greaterThanOrEqualTo: comparison("Greater than or equal to the specified value.", sqlOf("gte")),
};

const regularExpression = (description: string, operator: SQL): Operator => ({
  description,
  resolveInputCodec: (codec) => (isCitext(codec) ? codec : TYPES.text),
  resolveSqlIdentifier: (column, codec) => [isCitext(codec) ? column : sql`${column}::text`, codec],
  resolve: (column, pattern) => sql`${column} ${operator} ${pattern}`,
});

const isCitext = (codec: PgCodec): boolean =>
  codec === TYPES.citext || (codec.domainOfCodec !== undefined && isCitext(codec.domainOfCodec));
const isChar = (codec: PgCodec): boolean =>
  codec === TYPES.bpchar || (codec.domainOfCodec !== undefined && isChar(codec.domainOfCodec));

const REGULAR_EXPRESSIONS: Readonly<Record<string, Operator>> = {
  matches: regularExpression("Matches the regular expression (case-sensitive).", sqlOf("match")),
  notMatches: regularExpression("Does not match the regular expression (case-sensitive).", sql`!${sqlOf("match")}`),
  matchesInsensitive: regularExpression("Matches the regular expression (case-insensitive).", sqlOf("imatch")),
  notMatchesInsensitive: regularExpression(
    "Does not match the regular expression (case-insensitive).",
    sql`!${sqlOf("imatch")}`,
  ),
};

const MAC_ADDRESSES: ReadonlySet<PgCodec> = new Set<PgCodec>([TYPES.macaddr, TYPES.macaddr8]);

const matchesPath: Operator = {
  description: 'The SQL/JSON path finds an item: `$.size ? (@ > 5)`, `$.tags[*] ? (@ == "sql")`.',
  resolveInputCodec: () => TYPES.text,
  resolve: (column, path) => sql`${column} @? ${path}::jsonpath`,
};

/**
 * Operators of PostgreSQL that postgraphile-plugin-connection-filter lacks: full-text search, regular expressions, paths into
 * JSON, and comparisons of ids. Corrects the escaping of `includes`, `startsWith` and `endsWith`. A null as the value of an operator is
 * an error: as "no condition" it would match every row.
 */
export const FilterOperatorsPlugin: GraphileConfig.Plugin = {
  name: "FilterOperatorsPlugin",
  version: "1.0.0",
  after: ["PgConnectionArgFilterPlugin", "AddConnectionFilterOperatorPlugin"],
  schema: {
    entityBehavior: {
      pgCodecAttribute: {
        inferred: {
          // PostGraphile leaves out jsonb. It is added before the rules about indexes and GRANTs, so that they apply to it too.
          after: ["inferred"],
          before: ["postInferred"],
          callback: (behavior, [codec, attribute]) =>
            codec.attributes[attribute]!.codec === TYPES.jsonb ? [behavior, "attribute:filterBy"] : behavior,
        },
      },
    },
    hooks: {
      build: {
        after: ["PgConnectionArgFilterPlugin", "PgConnectionArgFilterOperatorsPlugin"],
        callback(build) {
          // The plugin compares citext and char(n) as text.
          build.pgAggregatesForceTextTypesSensitive = [TYPES.char];
          build.pgAggregatesForceTextTypesInsensitive = [TYPES.char];
          // The plugin's own function does not escape the escape character.
          build.escapeLikeWildcards = (input) => String(input).replace(/[\\%_]/g, "\\$&");
          const { connectionFilterOperatorsDigest } = build;
          // For domains over arrays, and for arrays of such domains, the plugin's own function fails, and with it the whole schema.
          build.connectionFilterOperatorsDigest = (codec) =>
            isArray(codec.arrayOfCodec) || isArray(codec.domainOfCodec)
              ? null
              : connectionFilterOperatorsDigest!(codec);
          return build;
        },
      },
      init(_, build) {
        registerTextSearch(build);
        const add = (type: string, operators: Readonly<Record<string, Operator>>) => {
          for (const [name, operator] of Object.entries(operators)) {
            build.addConnectionFilterOperator(type, name, operator);
          }
        };
        const searchType = () => build.getInputTypeByName("TextSearch") as GraphQLInputType;
        add("ID", COMPARISONS);
        add("JSON", { matchesPath });
        add("String", { ...REGULAR_EXPRESSIONS, search: search(searchType, asDocument) });
        add(build.inflection.builtin("TSVector"), { search: search(searchType, (column) => column) });
        return _;
      },
      GraphQLInputObjectType(config, _build, { scope }) {
        if (!scope.pgConnectionFilterOperators) return config;
        return { ...config, extensions: { ...config.extensions, hasOperators: true } };
      },
      GraphQLInputObjectType_fields(fields, _build, { scope }) {
        const [codec] = scope.pgConnectionFilterOperators?.pgCodecs ?? [];
        if (!codec || !MAC_ADDRESSES.has(codec.domainOfCodec ?? codec)) return fields;
        // The plugin gives it those of networks.
        return Object.fromEntries(Object.entries(fields).filter(([name]) => !name.startsWith("contain")));
      },
      GraphQLInputObjectType_fields_field(field, _build, { scope }) {
        const { apply } = field.extensions?.grafast ?? (field as any);
        if (!scope.isPgConnectionFilterOperator || !apply) return field;
        const named = scope.fieldName.endsWith("Insensitive") ? unpadded(scope.fieldName, apply) : apply;
        return { ...field, apply: refuseNull(scope.fieldName, asComparable(named)) } as any;
      },
    },
  },
};

/** Whether it is an array, or a domain over one. */
const isArray = (codec: PgCodec | undefined): boolean =>
  codec !== undefined && (codec.arrayOfCodec !== undefined || isArray(codec.domainOfCodec));

function registerTextSearch(build: GraphileBuild.Build): void {
  const { GraphQLNonNull, GraphQLString } = build.graphql;
  build.registerEnumType(
    "TextSearchSyntax",
    {},
    () => ({
      description: "How the words of a full-text search are written.",
      values: Object.fromEntries(Object.entries(SYNTAXES).map(([name, description]) => [name, { description }])),
    }),
    "FilterOperatorsPlugin",
  );
  build.registerInputObjectType(
    "TextSearch",
    {},
    () => ({
      description: "A full-text search.",
      fields: () => ({
        query: { type: new GraphQLNonNull(GraphQLString), description: "The words to find." },
        config: {
          type: GraphQLString,
          description: "The text search configuration, such as english. By default that of the database.",
        },
        syntax: {
          type: build.getInputTypeByName("TextSearchSyntax") as any,
          description: "How query is written.",
          defaultValue: "WEB",
        },
      }),
    }),
    "FilterOperatorsPlugin",
  );
}

const search = (type: () => GraphQLInputType, documentOf: (column: SQL, config: SQL | null) => SQL): Operator => ({
  description: "Matches the full-text search.",
  resolveType: type,
  resolveInputCodec: (codec: PgCodec) => codec,
  resolveSqlValue: () => sql.null,
  resolve(column, _value, input) {
    const { query, config, syntax } = input as TextSearch;
    const configuration = config == null ? null : sql`${text(config)}::regconfig`;
    const words = SEARCH_FUNCTIONS[syntax ?? "WEB"];
    const parsed = configuration ? sql`${words}(${configuration}, ${text(query)})` : sql`${words}(${text(query)})`;
    return sql`${documentOf(column, configuration)} @@ ${parsed}`;
  },
});

const asDocument = (column: SQL, configuration: SQL | null): SQL =>
  configuration ? sql`to_tsvector(${configuration}, ${column}::text)` : sql`to_tsvector(${column}::text)`;

/** `and_`, `or_` and `not_` for columns and rows of these names, which are the operators that combine conditions. */
export const nameInFilter = (field: string): string => (/^(?:and|or|not)$/.test(field) ? `${field}_` : field);

type Apply = (where: unknown, value: unknown, ...rest: unknown[]) => unknown;

const refuseNull =
  (name: string, apply: Apply): Apply =>
  (where, value, ...rest) => {
    if (value !== null) return apply(where, value, ...rest);
    throw new SafeError(`${name} must not be null: use isNull, or leave out the condition`, {
      code: "VALIDATION_ERROR",
    });
  };

const asComparable =
  (apply: Apply): Apply =>
  (where: any, ...rest) => {
    const { attribute, attributeName, fieldName } = where.extensions.pgFilterAttribute;
    const codec = attribute && comparable(attribute.codec);
    if (codec && codec !== attribute.codec) {
      const expression = sql`${where.alias}.${sql.identifier(attributeName)}::${codec.sqlType}`;
      where.extensions.pgFilterAttribute = { fieldName, codec, expression };
    }
    return apply(where, ...rest);
  };

const PATTERN = /^(not)?(like|includes|startsWith|endsWith)/i;

/** The operators that compare `lower(column::text)`: this cast of a char(n) removes the spaces at its end. */
const unpadded =
  (name: string, apply: Apply): Apply =>
  (where, value, ...rest) => {
    const { codec, attribute } = (where as any).extensions?.pgFilterAttribute ?? {};
    const isPadded = !PATTERN.test(name) && isChar(codec ?? attribute.codec);
    const trim = (text: unknown) => (typeof text === "string" ? text.replace(/ +$/, "") : text);
    return apply(where, isPadded ? (Array.isArray(value) ? value.map(trim) : trim(value)) : value, ...rest);
  };

declare module "postgraphile/graphql" {
  interface GraphQLInputObjectTypeExtensions {
    /** Whether its fields are the operators of a filter, as in `StringFilter`. */
    hasOperators?: boolean;
  }
}
