import type { Finding } from "../../../db/findings/finding.ts";
import type { NamedObject, Objects, Part, Step } from "./rehearsal.ts";

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
type Fault = { readonly rule: Rule; readonly step: Step } & Pick<Finding, "object" | "reason" | "fix">;

/** Judges a migration by what it changed when it ran. Tables that it creates itself are not judged: nothing uses them yet. */
export function judge(steps: readonly Step[]): readonly Judgement[] {
  if (steps.length === 0) return [];
  const faults: Fault[] = [
    ...faultsOfNames(steps),
    ...steps.flatMap((step) => [...faultsOfStep(step, steps[0]!.before)]),
  ];
  const step = steps.find(({ locked, lockTimeout }) => locked.length > 0 && lockTimeout === "0");
  if (step) {
    const reason = "it waits for every transaction that uses the table, and all requests of the table wait behind it";
    const fix = "set local lock_timeout = '3s';  -- as the first statement";
    faults.push({ rule: "no-lock-timeout", step, object: `table ${step.locked[0]}`, reason, fix });
  }
  return faults
    .filter((fault) => !fault.step.accepted.has(fault.rule))
    .sort((a, b) => steps.indexOf(a.step) - steps.indexOf(b.step))
    .map(({ step: { place }, ...fault }) => ({ ...fault, level: levelOf(fault.rule), place }));
}

const levelOf = (rule: Rule) => (MIGRATION_RULES[rule].startsWith("error") ? "error" : "warning");

const LATER =
  "-- First a version that does not use it. Drop it in a migration of a later version, when no instance uses it.";
const PREVIOUS = "instances of the previous version use";

/** What had a name before, and has not after: objects, columns, and values of enums. */
function* faultsOfNames(steps: readonly Step[]): Generator<Fault> {
  const [before, after] = [steps[0]!.before, steps.at(-1)!.after];
  /** The last step that changed the name. */
  const stepOf = (read: (objects: Objects) => string | undefined) =>
    steps.findLast((step) => read(step.before) !== read(step.after))!;
  // A view may take the place of a table.
  const classOf = (key: string) => key.slice(0, key.indexOf(" "));
  const names = new Set([...after].map(([key, { name }]) => `${classOf(key)} ${name}`));
  for (const [key, was] of before) {
    const is = after.get(key);
    const isReplaced = names.has(`${classOf(key)} ${was.name}`);
    const found = { step: stepOf((objects) => objects.get(key)?.name), object: `${was.kind} ${was.name}` };
    if (is === undefined && was.kind === "table")
      yield { rule: "loses-data", ...found, reason: "its rows are lost", fix: LATER };
    else if (is === undefined && !isReplaced)
      yield { rule: "breaks-instances", ...found, reason: `${PREVIOUS} it until they are replaced`, fix: LATER };
    else if (is !== undefined && is.name !== was.name && !isReplaced)
      yield { rule: "breaks-instances", ...found, reason: renamed(is.name), fix: fixForRename(was, is) };
    if (is === undefined || (is.name !== was.name && !isReplaced)) continue;
    const isTable = was.kind === "table";
    for (const { id, name } of was.parts) {
      const part = is.parts.find((each) => each.id === id);
      if (part?.name === name || (!isTable && is.parts.some((each) => each.name === name))) continue;
      const step = stepOf((objects) => objects.get(key)?.parts.find((each) => each.id === id)?.name);
      const object = was.kind === "type" ? `value ${name} of type ${was.name}` : `column ${was.name}.${name}`;
      if (part === undefined && isTable)
        yield { rule: "loses-data", step, object, reason: "its values are lost", fix: LATER };
      else
        yield {
          ...{ rule: "breaks-instances", step, object },
          reason: renamed(part?.name),
          fix:
            part === undefined || !isTable
              ? LATER
              : `alter table ${is.name} add column if not exists ${part.name} …;  -- a trigger keeps both in step; drop ${name} in a migration of a later version`,
        };
    }
  }
}

const renamed = (name: string | undefined) =>
  `${name === undefined ? "it is dropped" : `it becomes ${name}`}, and ${PREVIOUS} its name until they are replaced`;

const fixForRename = ({ kind, name }: NamedObject, is: NamedObject): string =>
  kind === "table" || kind === "view" || kind === "materialized view"
    ? `create view ${name} with (security_invoker = true) as select * from ${is.name};  -- until no instance uses the old name`
    : `-- Keep ${name}, and create ${is.name} beside it; drop the old one later.`;

/** What a statement does to tables that existed before the migration. */
function* faultsOfStep(step: Step, first: Objects): Generator<Fault> {
  for (const [key, original] of first) {
    const [was, is] = [step.before.get(key), step.after.get(key)];
    if (was === undefined || is === undefined || !/^(table|materialized view)$/.test(is.kind)) continue;
    const rewrite = step.rewritten.get(is.oid);
    if (rewrite !== undefined) yield rewritten(step, was, is, rewrite);
    else if (was.file !== is.file && is.kind === "table")
      yield { rule: "loses-data", step, object: `table ${was.name}`, reason: "its rows are lost", fix: null };
    if (was.file === is.file) yield* faultsOfIndexes(step, was, is);
    if (step.scanned.has(is.oid)) yield* faultsOfConstraints(step, was, is, original);
    yield* faultsOfColumns(step, was, is, original);
  }
}

/** Why PostgreSQL rewrites a table: the bits of pg_event_trigger_table_rewrite_reason(). */
const VOLATILE_DEFAULT = 2;
const OTHER_TYPE = 4;

function rewritten(step: Step, was: NamedObject, is: NamedObject, why: number): Fault {
  const before = (part: Part) => was.parts.find(({ id }) => id === part.id);
  const changed = is.parts.find((part) => before(part) !== undefined && before(part)!.type !== part.type);
  const added = is.parts.find((part) => before(part) === undefined);
  const { name, type } = (why & OTHER_TYPE ? changed : added) ?? { name: "…", type: "…" };
  const [cause, fix] =
    why & OTHER_TYPE
      ? [
          `${name} gets another type`,
          `alter table ${is.name} add column if not exists … ${type};  -- a trigger and updates in batches fill it; drop ${name} in a migration of a later version`,
        ]
      : why & VOLATILE_DEFAULT
        ? [
            `the value of ${name} differs for each row`,
            `alter table ${is.name} add column if not exists ${name} ${type};\nalter table ${is.name} alter column ${name} set default …;  -- for new rows; then update the others in batches`,
          ]
        : ["its storage changes", null];
  const reason = `${cause}: all its rows are written again, and nothing can use it meanwhile`;
  return { rule: "table-rewrite", step, object: `table ${is.name}`, reason, fix: fix! };
}

/** An index that a constraint takes over, or that belongs to a column with another type, keeps its file. */
function* faultsOfIndexes(step: Step, was: NamedObject, is: NamedObject): Generator<Fault> {
  if (!step.isInTransaction && /\bconcurrently\b/i.test(step.statement.text)) return;
  for (const { name, file, definition } of is.indexes) {
    if (was.indexes.some((each) => each.file === file)) continue;
    const constraint = is.constraints.find(({ index }) => index === file);
    const kind = constraint?.kind === "p" ? "primary key" : "unique";
    const built = definition
      .replace(
        /^CREATE (UNIQUE )?INDEX /,
        (_, unique) => `create ${unique ? "unique " : ""}index concurrently if not exists `,
      )
      .replace(" ON ", " on ")
      .replace(" USING ", " using ");
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

/** Constraints that became valid. Validating one of an earlier migration blocks no writes. */
function* faultsOfConstraints(step: Step, was: NamedObject, is: NamedObject, original: NamedObject): Generator<Fault> {
  for (const { name, kind, isValid, definition } of is.constraints) {
    if (!isValid || !(kind === "c" || kind === "f")) continue;
    const isKnown = original.constraints.some((each) => each.name === name);
    if (isKnown || was.constraints.some((each) => each.name === name && each.isValid)) continue;
    yield {
      ...{ rule: "constraint-scan", step, object: `constraint ${name} on ${is.name}` },
      reason: "the rows of the table are checked, and writes wait meanwhile",
      fix: `alter table ${is.name} add constraint ${name} ${definition} not valid;\nalter table ${is.name} validate constraint ${name};  -- in the next migration, during which writes go on`,
    };
  }
}

function* faultsOfColumns(step: Step, was: NamedObject, is: NamedObject, original: NamedObject): Generator<Fault> {
  for (const column of is.parts) {
    const [previous, first] = [was, original].map(({ parts }) => parts.find(({ id }) => id === column.id));
    const isNews = previous?.isRequired !== column.isRequired || previous?.hasDefault !== column.hasDefault;
    const found = { step, object: `column ${is.name}.${column.name}` };
    if (!column.isRequired || !isNews) continue;
    if (!column.hasDefault && (first === undefined || first.hasDefault))
      yield {
        ...{ rule: "column-without-default", ...found },
        reason:
          previous === undefined
            ? "if the table has rows, the migration fails; and instances of the previous version insert rows without it"
            : "instances of the previous version insert rows without it",
        fix: `alter table ${is.name} alter column ${column.name} set default …;  -- or leave it nullable until no instance of the previous version runs`,
      };
    // PostgreSQL reads no rows if a check says that none has null.
    else if (first?.isRequired === false && previous?.isRequired === false && step.scanned.has(is.oid))
      yield {
        ...{ rule: "not-null-scan", ...found },
        reason: "the whole table is read, and nothing can use it meanwhile; the migration fails if a row has null",
        fix:
          `alter table ${is.name} add constraint … check (${column.name} is not null) not valid;\n` +
          `alter table ${is.name} validate constraint …;  -- in the next migration\n` +
          `alter table ${is.name} alter column ${column.name} set not null;  -- after that: it uses the check`,
      };
  }
}
