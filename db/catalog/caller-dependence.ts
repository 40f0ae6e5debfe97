import { quoteIdentifier } from "../sql.ts";
import { type Token, tokensOf } from "../sql-tokens.ts";
import { type CodeObject, type CodeObjects, isWord, type Names, readersOf, wordsOf } from "./code.ts";

const setOf = (words: string): ReadonlySet<string> => new Set(words.split(/\s+/));

/** Reserved words of expressions: Postgres writes a column with such a name in quotes. */
const KEYWORDS = setOf(
  "select as case when then else end null true false not and or in any all array distinct current_user current_role",
);
const TYPES = setOf(
  `boolean smallint integer bigint int int2 int4 int8 numeric text varchar character varying name uuid json jsonb`,
);
/** Further words of functions, which read no columns. */
const STATEMENTS = setOf("return returns begin if elsif exception others is");

/** Functions of Postgres whose result depends only on their arguments, on the role and on settings. */
const FUNCTIONS = setOf(
  `coalesce nullif current_setting pg_has_role json_extract_path json_extract_path_text json_typeof jsonb_extract_path
   jsonb_extract_path_text jsonb_typeof jsonb_exists jsonb_build_object jsonb_build_array json_build_object to_jsonb to_json
   lower upper btrim ltrim rtrim trim split_part substr substring replace concat left right length char_length strpos
   starts_with regexp_replace regexp_substr md5 string_to_array array_length array_position cardinality greatest least abs`,
);

const NO_TYPES: ReadonlySet<string> = new Set();

/** What expressions depend on: the caller, or the data of the database. */
export class CallerDependence {
  readonly #readers: Names;
  readonly #functions: ReadonlyMap<string, readonly CodeObject[]>;
  /** The names of operators that extensions or the DBA have created; "" for a cast. */
  readonly #operators: readonly string[];
  readonly #known = new Map<string, boolean>();

  constructor(objects: CodeObjects) {
    this.#readers = readersOf(objects);
    this.#functions = Map.groupBy(objects.all, ({ id }) => id);
    this.#operators = objects.all.map(({ id }) => id).filter((id) => !isWord(id) && !id.endsWith("\0"));
  }

  /** Whether the text, or something that it names, reads the claims or settings of the caller, or is unknown. */
  mayRead(text: string): boolean {
    const lower = text.toLowerCase();
    return this.#readers.areIn(lower, wordsOf(lower));
  }

  /**
   * Whether the result of an expression, as Postgres writes it, depends only on the role and the settings of the caller, and
   * not on a row, data, time or chance. `types` are SQL names of types that it may use besides those of Postgres.
   */
  isDetermined(tokens: readonly Token[], types = NO_TYPES): boolean {
    return tokens.every((_, i) => this.#isDetermined(tokens, i, types, false));
  }

  #isDetermined(tokens: readonly Token[], at: number, types: ReadonlySet<string>, isStatement: boolean): boolean {
    const { kind, text } = tokens[at]!;
    if (kind === "string" || kind === "number" || kind === "symbol") return true;
    const [schema, before, next] = [tokens[at - 2], tokens[at - 1]?.text, tokens[at + 1]?.text];
    // The name of a result.
    if (before === "as") return true;
    // A schema. In `items.*`, it is a row.
    if (next === ".") return tokens[at + 2]?.kind !== "symbol";
    if (before === "." && tokens[at - 3]?.text === "::")
      return types.has(`${sqlName(schema!)}.${sqlName(tokens[at]!)}`);
    const isQualified = before === ".";
    if (kind === "word" && !isQualified && (KEYWORDS.has(text) || (isStatement && STATEMENTS.has(text)))) return true;
    if (next === "(") return this.#isDeterminedCall(tokens[at]!, isQualified ? schema! : null);
    const isType = isStatement || before === "::" || before === "character";
    return kind === "word" && !isQualified && isType && TYPES.has(text);
  }

  #isDeterminedCall({ kind, text }: Token, schema: Token | null): boolean {
    const isOfPostgres = kind === "word" && (schema === null || schema.text === "pg_catalog");
    if (isOfPostgres && FUNCTIONS.has(text)) return !this.#functions.has(text);
    return this.#isDeterminedFunction(text);
  }

  /** Whether the results of all functions with this name are determined. */
  #isDeterminedFunction(name: string): boolean {
    const known = this.#known.get(name);
    if (known !== undefined) return known;
    // The answer for a function that calls itself.
    this.#known.set(name, false);
    const objects = this.#functions.get(name) ?? [];
    const isDetermined = objects.length > 0 && objects.every(({ text }) => this.#isDeterminedText(text));
    this.#known.set(name, isDetermined);
    return isDetermined;
  }

  #isDeterminedText(text: string | null): boolean {
    const tokens = text === null ? null : tokensOf(text);
    if (tokens === null || tokens.some((token) => this.#mayBeOwnOperator(token))) return false;
    return tokens.every((_, i) => this.#isDetermined(tokens, i, NO_TYPES, true));
  }

  /** An operator in a function may be one that a DBA has created. */
  #mayBeOwnOperator({ kind, text }: Token): boolean {
    return kind === "symbol" && this.#operators.some((operator) => text.includes(operator));
  }
}

/** As Postgres writes it. */
const sqlName = ({ kind, text }: Token): string => (kind === "word" ? text : quoteIdentifier(text));
