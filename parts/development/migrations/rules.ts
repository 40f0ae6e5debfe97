import type { Finding } from "../../../db/findings/finding.ts";
import type { ColumnState, NamedObject, Rehearsal, Step, TableState } from "./rehearsal.ts";

/** What is wrong with a statement of a migration. An error is refused unless a comment accepts its rule. */
export type Judgement = Finding & { readonly place: string };

/** The rules, and what each is about. */
export const MIGRATION_RULES = {
  "loses-data": "error: it drops or empties a table or column that existed before",
  "breaks-instances": "error: it drops or renames what instances of the previous version use while it runs",
  "column-without-default": "error: instances of the previous version insert rows without the column, which fails",
  "table-rewrite": "warning: PostgreSQL writes all rows of the table again, and nothing else can use it meanwhile",
  "index-blocks-writes": "warning: writes of the table wait until the index is built",
  "not-null-scan": "warning: PostgreSQL reads the table, and nothing else can use it meanwhile",
  "constraint-scan": "warning: PostgreSQL reads the table, and writes wait meanwhile",
  "no-lock-timeout": "warning: while it waits for a lock, all requests of the table wait behind it",
} as const;

type Rule = keyof typeof MIGRATION_RULES;

/** What a rule finds: the step that causes it, the object, the reason, and the SQL that is better. */
type Fault = Pick<Finding, "object" | "reason" | "fix"> & { readonly rule: Rule; readonly step: Step };

/** Judges a migration by what it changed when it ran. Tables that it creates itself are not judged: nothing uses them yet. */
export function judge(rehearsal: Rehearsal): readonly Judgement[] {
  const faults: Fault[] = [
    ...faultsOfObjects(rehearsal),
    ...rehearsal.steps.flatMap((step) => [...faultsOfStep(step, rehearsal)]),
  ];
  const lock = rehearsal.steps.find(({ locked, lockTimeout }) => locked.length > 0 && lockTimeout === "0");
  if (lock) faults.push(withoutLockTimeout(lock));
  return faults
    .filter(({ rule, step }) => !step.accepted.has(rule))
    .sort((a, b) => rehearsal.steps.indexOf(a.step) - rehearsal.steps.indexOf(b.step))
    .map(({ step, ...fault }) => ({ ...fault, level: levelOf(fault.rule), place: step.place }));
}

const levelOf = (rule: Rule) => (MIGRATION_RULES[rule].startsWith("error") ? "error" : "warning");

function withoutLockTimeout(step: Step): Fault {
  return {
    ...{
      rule: "no-lock-timeout",
      step,
      object: `table ${step.locked[0]}`,
      fix: "set local lock_timeout = '3s';  -- as the first statement",
    },
    reason: "it waits for every transaction that uses the table, and all requests of the table wait behind it",
  };
}

/** What had a name before, and has not after. */
function* faultsOfObjects({ before, after, steps }: Rehearsal): Generator<Fault> {
  // A view may take the place of a table.
  const names = new Set([...after].map(([key, { name }]) => `${classOf(key)} ${name}`));
  for (const [key, was] of before) {
    const is = after.get(key);
    const object = `${was.kind} ${was.name}`;
    const isReplaced = names.has(`${classOf(key)} ${was.name}`);
    const step = stepOf(steps, key, is === undefined ? "dropped" : "changed");
    if (is === undefined && was.kind === "table")
      yield { rule: "loses-data", step, object, reason: "its rows are lost", fix: LATER };
    else if (is === undefined && !isReplaced)
      yield {
        rule: "breaks-instances",
        step,
        object,
        reason: "instances of the previous version use it until they are replaced",
        fix: LATER,
      };
    else if (is !== undefined && is.name !== was.name && !isReplaced)
      yield {
        rule: "breaks-instances",
        step,
        object,
        reason: `it becomes ${is.name}, and instances of the previous version use its name until they are replaced`,
        fix: fixForRename(was, is),
      };
    else if (is !== undefined) yield* faultsOfParts(key, was, is, steps);
  }
}

/** `pg_class 16384` → `pg_class` */
const classOf = (key: string): string => key.slice(0, key.indexOf(" "));

const LATER =
  "-- First a version that does not use it. Drop it in a migration of a later version, when no instance uses it.";

function fixForRename({ kind, name }: NamedObject, is: NamedObject): string | null {
  const [schema] = name.split(".");
  if (kind === "table" || kind === "view" || kind === "materialized view")
    return `create view ${name} with (security_invoker = true) as select * from ${is.name};  -- until no instance uses the old name`;
  return kind === "function"
    ? `-- Keep ${name}, and let it call ${is.name}; drop it later.`
    : `-- Keep ${name}, and create a new ${kind} in ${schema}; drop the old one later.`;
}

/** Columns of a table or view, and values of an enum. */
function* faultsOfParts(key: string, was: NamedObject, is: NamedObject, steps: readonly Step[]): Generator<Fault> {
  const remaining = new Set(Object.values(is.parts));
  const isTable = was.kind === "table";
  for (const [part, name] of Object.entries(was.parts)) {
    const renamed = is.parts[part];
    if (renamed === name || (!isTable && remaining.has(name))) continue;
    const object = was.kind === "type" ? `value ${name} of type ${was.name}` : `column ${was.name}.${name}`;
    const step = stepOf(steps, key, renamed === undefined ? "dropped" : "changed", Number(part), name);
    if (renamed === undefined && isTable)
      yield { rule: "loses-data", step, object, reason: "its values are lost", fix: LATER };
    else
      yield {
        ...{ rule: "breaks-instances", step, object },
        reason: `${renamed === undefined ? "it is dropped" : `it becomes ${renamed}`}, and instances of the previous version use its name until they are replaced`,
        fix: renamed !== undefined && isTable ? fixForColumn(is, name, renamed) : LATER,
      };
  }
}

const fixForColumn = (is: NamedObject, name: string, renamed: string): string =>
  `alter table ${is.name} add column if not exists ${renamed} …;  -- a trigger keeps both in step; drop ${name} in a migration of a later version`;

/** The statement that did it: the last one that dropped or changed the object, and names the part if several did. */
function stepOf(steps: readonly Step[], key: string, kind: "changed" | "dropped", part = 0, name = ""): Step {
  const concerns = (only: (event: Step["events"][number]) => boolean) =>
    steps.findLast(({ events }) => events.some(only));
  const isObject = (event: Step["events"][number]) => `${event.class} ${event.oid}` === key;
  const word = name.replace(/^["']|["']$/g, "");
  return (
    concerns((event) => isObject(event) && event.kind === kind && event.part === part) ??
    steps.findLast(({ events, statement }) => events.some(isObject) && statement.text.includes(word)) ??
    concerns(isObject) ??
    steps.findLast(({ statement }) => /^alter\s+schema/i.test(statement.text)) ??
    steps.at(-1)!
  );
}

function* faultsOfStep(step: Step, { steps, before }: Rehearsal): Generator<Fault> {
  for (const { was, is } of step.tables) {
    if (is === null) continue;
    const original = originalOf(was.oid, steps)!;
    const rewrite = step.events.find(({ kind, oid }) => kind === "rewritten" && oid === was.oid);
    if (rewrite) yield rewritten(step, is, rewrite.rewrite, was);
    else if (is.file !== was.file && before.get(`pg_class ${was.oid}`)?.kind === "table")
      yield { rule: "loses-data", step, object: `table ${was.name}`, reason: "its rows are lost", fix: null };
    yield* faultsOfIndexes(step, was, is);
    yield* faultsOfConstraints(step, was, is, original);
    yield* faultsOfColumns(step, was, is, original);
  }
}

/** The table before the migration. */
const originalOf = (oid: string, steps: readonly Step[]): TableState | undefined =>
  steps.flatMap(({ tables }) => tables).find(({ was }) => was.oid === oid)?.was;

/** Why PostgreSQL rewrites a table: the bits of pg_event_trigger_table_rewrite_reason(). */
const VOLATILE_DEFAULT = 2;
const OTHER_TYPE = 4;

function rewritten(step: Step, is: TableState, why: number, was: TableState): Fault {
  const fault = { rule: "table-rewrite", step, object: `table ${is.name}` } as const;
  const reason = (cause: string) => `${cause}: all its rows are written again, and nothing can use it meanwhile`;
  if (why & OTHER_TYPE) {
    const column = is.columns.find((each) =>
      was.columns.some(({ number, type }) => number === each.number && type !== each.type),
    );
    const [name, type] = [column?.name ?? "…", column?.type ?? "…"];
    return {
      ...fault,
      reason: reason(`${name} gets another type`),
      fix: `alter table ${is.name} add column if not exists … ${type};  -- a trigger and updates in batches fill it; drop ${name} in a migration of a later version`,
    };
  }
  if (why & VOLATILE_DEFAULT) {
    const column = is.columns.find(({ number }) => !was.columns.some((each) => each.number === number));
    const [name, type] = [column?.name ?? "…", column?.type ?? "…"];
    return {
      ...fault,
      reason: reason(`the value of ${name} differs for each row`),
      fix: `alter table ${is.name} add column if not exists ${name} ${type};\nalter table ${is.name} alter column ${name} set default …;  -- for new rows; then update the others in batches`,
    };
  }
  return { ...fault, reason: reason("its storage changes"), fix: null };
}

/** An index with the name of an earlier one belongs to a column with another type, which is a rewrite. */
function* faultsOfIndexes(step: Step, was: TableState, is: TableState): Generator<Fault> {
  if (!step.isInTransaction && /\bconcurrently\b/i.test(step.statement.text)) return;
  for (const { name, definition } of is.indexes) {
    if (was.indexes.some((each) => each.name === name)) continue;
    const constraint = is.constraints.find(({ index }) => index === name);
    // `using index` takes one that exists, and may rename it.
    if (
      was.indexes.some((each) => each.definition.replace(/ INDEX \S+ /, "") === definition.replace(/ INDEX \S+ /, ""))
    )
      continue;
    const built = definition
      .replace(" ON ", " on ")
      .replace(" USING ", " using ")
      .replace(
        /^CREATE (UNIQUE )?INDEX /,
        (_, unique) => `create ${unique ? "unique " : ""}index concurrently if not exists `,
      );
    const kind = constraint?.kind === "p" ? "primary key" : "unique";
    yield {
      ...{ rule: "index-blocks-writes", step, object: `index ${name} on ${is.name}` },
      reason: "writes of the table wait until it is built",
      fix: [
        `${built};  -- before, in psql, or as the only statement of a migration that begins with --! no-transaction`,
        ...(constraint && constraint.kind !== "x"
          ? [`alter table ${is.name} add constraint ${constraint.name} ${kind} using index ${name};`]
          : []),
      ].join("\n"),
    };
  }
}

function* faultsOfConstraints(step: Step, was: TableState, is: TableState, original: TableState): Generator<Fault> {
  for (const constraint of is.constraints) {
    const { name, kind, isValid, definition } = constraint;
    if (!isValid || !(kind === "c" || kind === "f")) continue;
    // Validating one of an earlier migration blocks no writes.
    if (
      [was, original].some((state) =>
        state.constraints.some((each) => each.name === name && (state === original || each.isValid)),
      )
    )
      continue;
    if (kind === "f" && constraint.columns.every((number) => isEmpty(number, is, original))) continue;
    yield {
      ...{ rule: "constraint-scan", step, object: `constraint ${name} on ${is.name}` },
      reason: "the rows of the table are checked, and writes wait meanwhile",
      fix: `alter table ${is.name} add constraint ${name} ${definition} not valid;\nalter table ${is.name} validate constraint ${name};  -- in the next migration, during which writes go on`,
    };
  }
}

/** A column that the migration has added without a value. PostgreSQL does not check its foreign key. */
const isEmpty = (number: number, is: TableState, original: TableState): boolean =>
  !original.columns.some((each) => each.number === number) &&
  is.columns.some((each) => each.number === number && !each.hasDefault);

function* faultsOfColumns(step: Step, was: TableState, is: TableState, original: TableState): Generator<Fault> {
  const find = (table: TableState, { number }: ColumnState) => table.columns.find((each) => each.number === number);
  for (const column of is.columns) {
    const [previous, first] = [find(was, column), find(original, column)];
    const object = `column ${is.name}.${column.name}`;
    if (
      column.isRequired &&
      !column.hasDefault &&
      (first === undefined || first.hasDefault) &&
      isNews(previous, column)
    )
      yield {
        ...{ rule: "column-without-default", step, object },
        reason:
          previous === undefined
            ? "if the table has rows, the migration fails; and instances of the previous version insert rows without it"
            : "instances of the previous version insert rows without it",
        fix: `alter table ${is.name} alter column ${column.name} set default …;  -- or leave it nullable until no instance of the previous version runs`,
      };
    else if (
      column.isRequired &&
      first?.isRequired === false &&
      previous?.isRequired === false &&
      !isChecked(was, is, column)
    )
      yield {
        ...{ rule: "not-null-scan", step, object },
        reason: "the whole table is read, and nothing can use it meanwhile; the migration fails if a row has null",
        fix:
          `alter table ${is.name} add constraint … check (${column.name} is not null) not valid;\n` +
          `alter table ${is.name} validate constraint …;  -- in the next migration\n` +
          `alter table ${is.name} alter column ${column.name} set not null;  -- after that: it uses the check`,
      };
  }
}

/** Whether this statement made a column required without a default. */
const isNews = (previous: ColumnState | undefined, { isRequired, hasDefault }: ColumnState): boolean =>
  previous?.isRequired !== isRequired || previous?.hasDefault !== hasDefault;

/** Whether PostgreSQL knows without reading the rows that none has null. */
const isChecked = (was: TableState, is: TableState, { name, number }: ColumnState): boolean =>
  was.constraints.some(
    ({ kind, isValid, definition }) => kind === "c" && isValid && definition === `CHECK ((${name} IS NOT NULL))`,
  ) || is.constraints.some(({ kind, isValid, columns }) => kind === "n" && !isValid && columns.includes(number));
